//! A forked child has the handles of its parent's GPUs, and nothing behind them: they give an error, and
//! dropping them ends nothing. The child may open GPUs of its own.

use crate::stand;

use std::panic::{AssertUnwindSafe, catch_unwind};

use hcq::{Device, MemoryKind};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use stand::{Rig, ends, kernel, machine, memory, soon, twin};

#[test]
fn a_fork_drops_the_gpu_and_opens_its_own() {
    let config = "chip=h100";
    let step = kernel(config, "step");
    let twin_of_parent = twin(config);
    let parent = machine(&twin_of_parent);
    let rig = Rig::open(&parent, 0, &step).unwrap();
    rig.round(1).unwrap();
    let buffer = memory(&*rig.device, MemoryKind::Device, 4096).unwrap();
    let signal = rig.device.signal("a signal").unwrap();
    // SAFETY: the child uses no thread and no lock of the parent's, and ends without running anything
    // else.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // Who hangs is ended by SIGALRM.
            alarm::set(60);
            let done = catch_unwind(AssertUnwindSafe(|| {
                for error in [
                    rig.compute.submit(&[], &[]).map(|_| ()).unwrap_err(),
                    rig.device.status().unwrap_err(),
                    rig.device.synchronize(soon()).unwrap_err(),
                    rig.device.load(&step).map(|_| ()).unwrap_err(),
                    signal.wait(1, soon()).unwrap_err(),
                    buffer.write(0, &[1; 8]).unwrap_err(),
                ] {
                    let text = error.to_string();
                    assert!(text.contains("opened before a fork"), "{text}");
                }
                // The parent's files are of no use.
                let control = parent.open("/dev/nvidiactl").err().unwrap().to_string();
                assert!(control.contains("EBADF"), "{control}");
                drop((rig, buffer, signal, parent, twin_of_parent));
                let own = twin(config);
                let rig = Rig::open(&machine(&own), 0, &step).unwrap();
                rig.round(2).unwrap();
                drop(rig);
                ends(&own, &[], "the child");
            }));
            // SAFETY: always allowed.
            unsafe { libc::_exit(if done.is_ok() { 7 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
        }
    }
    // The parent goes on.
    rig.round(3).unwrap();
    drop((rig, buffer, signal));
    ends(&twin_of_parent, &[], "the parent");
    Rig::open(&parent, 0, &step).unwrap().round(4).unwrap();
}
