//! A forked child has the handles of its parent's GPUs, and nothing behind them: they give an error, and
//! dropping them ends nothing. The child may open GPUs of its own.

use crate::stand;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hcq::transport::Machine;
use hcq::{Command, Device, MemoryKind, QueueKind, Result, Stream};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use stand::{at, machine, memory, options, soon, twin};

/// Copies a few bytes there and back; returns what the device was asked with.
fn work(machine: &Arc<dyn Machine>) -> Result<(Arc<dyn Device>, Stream, hcq::Buffer)> {
    let device = drivers_amd::open(machine, 0, &options())?;
    let stream = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let [from, to] = [(); 2].map(|()| memory(&*device, MemoryKind::Host, 256).unwrap());
    from.write(0, &[5; 256])?;
    let copy = Command::Copy {
        dst: at(&to),
        src: at(&from),
        bytes: 256,
    };
    stream.submit(&[], &[copy])?.wait(soon())?;
    let mut seen = [0; 256];
    to.read(0, &mut seen)?;
    assert_eq!(seen, [5; 256]);
    Ok((device, stream, to))
}

#[test]
fn a_fork_drops_the_gpu_and_opens_its_own() {
    let parent = machine(&twin("chip=gfx1100"));
    let (device, stream, buffer) = work(&parent).unwrap();
    // SAFETY: the child uses no thread and no lock of the parent's, and ends without running anything
    // else.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // Who hangs is ended by SIGALRM.
            alarm::set(60);
            let done = catch_unwind(AssertUnwindSafe(|| {
                let lost = stream.submit(&[], &[]).unwrap_err().to_string();
                assert!(lost.contains("opened before a fork"), "{lost}");
                // The parent's files are of no use.
                let kfd = parent.open("/dev/kfd").err().unwrap().to_string();
                assert!(kfd.contains("EBADF"), "{kfd}");
                drop((stream, buffer, device, parent));
                work(&machine(&twin("chip=gfx1100"))).unwrap();
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
    drop((stream, buffer, device));
    work(&parent).unwrap();
}
