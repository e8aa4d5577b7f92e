//! A forked child has the handles of a device and none of its threads: they give an error, dropping them
//! ends nothing, waits for nothing, and leaves the parent's device alone. The child opens one of its own.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::{Command, Deadline, QueueKind, Stream, Val};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};

#[test]
fn a_fork_drops_the_device_and_opens_its_own() {
    let device = CpuDevice::open(Config::default()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let gate = device.signal("gate").unwrap();
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let held = stream.submit(&[], &[wait]).unwrap();
    // SAFETY: the child uses no thread and no lock of the parent's, and ends without running anything
    // else.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // Who hangs is ended by SIGALRM.
            alarm::set(20);
            let done = catch_unwind(AssertUnwindSafe(|| {
                let lost = stream.submit(&[], &[]).unwrap_err().to_string();
                assert!(lost.contains("opened before a fork"), "{lost}");
                drop((held, gate, stream, device));
                work_on_a_device_of_its_own();
            }));
            // SAFETY: always allowed.
            unsafe { libc::_exit(if done.is_ok() { 7 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
        }
    }
    gate.set(1).unwrap();
    held.wait(Deadline::after(Duration::from_secs(60))).unwrap();
}

fn work_on_a_device_of_its_own() {
    let device = CpuDevice::open(Config::default()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let done = device.signal("done").unwrap();
    let signal = Command::Signal {
        signal: &done,
        value: Val::Const(3),
    };
    let point = stream.submit(&[], &[signal]).unwrap();
    let deadline = Deadline::after(Duration::from_secs(10));
    point.wait(deadline).unwrap();
    assert_eq!(done.value().unwrap(), 3);
}
