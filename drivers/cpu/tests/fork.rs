//! A forked child has the handles of a device and none of its threads: dropping them ends nothing, waits for
//! nothing, and leaves the parent's device alone.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::{Command, Deadline, QueueKind, Stream, Val};

#[test]
fn a_fork_may_drop_the_device() {
    let device = CpuDevice::open(Config::default()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let gate = device.signal("gate").unwrap();
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let held = stream.submit(&[], &[wait]).unwrap();
    // SAFETY: the child drops what it has, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: always allowed. A drop that hangs ends the child by SIGALRM.
        unsafe { libc::alarm(20) };
        let dropped = catch_unwind(AssertUnwindSafe(|| drop((held, gate, stream, device))));
        // SAFETY: always allowed.
        unsafe { libc::_exit(if dropped.is_ok() { 7 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` may be written.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(
        (ended, libc::WEXITSTATUS(status)),
        (child, 7),
        "{status:#x}"
    );
    gate.set(1).unwrap();
    held.wait(Deadline::after(Duration::from_secs(60))).unwrap();
}
