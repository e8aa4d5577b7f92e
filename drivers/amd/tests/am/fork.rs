//! A forked child has the handles of its parent's card, and nothing behind them: it asks nothing of the card.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq::transport::access::Access;
use hcq::transport::access::Answer;
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use hcq::{Device, MemoryKind, QueueKind, Stream};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use twin_amd::pci::machine::PciMachine;

use super::device::{options, unbroken};
use super::stand::{memory, soon};

/// Counts what a machine is asked.
#[derive(Default)]
struct Count(AtomicU64);

impl Tap for Count {
    fn before(&self, _: &str, _: &mut Access) -> Option<Result<Answer, Fault>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[test]
fn a_fork_takes_no_queue_of_its_parents_card() {
    let twin = PciMachine::new("chip=gfx1100").unwrap();
    let count = Arc::new(Count::default());
    let asked = || count.0.load(Ordering::Relaxed);
    let machine: Arc<dyn Machine> = Tapped::machine(twin.clone(), count.clone());
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let card = "0000:03:00.0";
    let backend = drivers_amd::am::open(&machine, card, 0, &clock, &options()).unwrap();
    let device = drivers_amd::over(&backend, &options()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let buffers = [MemoryKind::Device, MemoryKind::Host].map(|kind| {
        let large = memory(&*device, kind, 1 << 20).unwrap();
        large.write(0, &[5; 4096]).unwrap();
        large
    });
    stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
    // SAFETY: the child uses no thread and no lock of the parent's, and ends without running anything else.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // Who hangs is ended by SIGALRM.
            alarm::set(20);
            let done = catch_unwind(AssertUnwindSafe(|| {
                // A host's files do so by themselves.
                hcq::lose_all_by_fork();
                let before = asked();
                let lost = stream.submit(&[], &[]).unwrap_err().to_string();
                assert!(lost.contains("opened before a fork"), "{lost}");
                drop((buffers, stream, device, backend));
                assert_eq!(asked() - before, 0, "accesses to the parent's card");
            }));
            // SAFETY: always allowed.
            unsafe { libc::_exit(if done.is_ok() { 7 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
        }
    }
    // The parent goes on.
    stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
    drop((buffers, stream, device, backend));
    unbroken(&twin);
}
