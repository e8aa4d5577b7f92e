//! A child of a fork gets an error for its parent's devices and may have its own, and the parent keeps
//! what it has.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use drivers_host::machine::Host;
use hcq::transport::{ANYWHERE, Map, Prot};
use hcq::{DeviceId, LostState};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};

/// Forks, and calls `child` there, which must return within 20 seconds.
fn in_a_child(child: impl FnOnce()) {
    // SAFETY: the process has one thread beside this one, the test harness's, which waits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // Who hangs is ended by SIGALRM.
            alarm::set(20);
            let done = catch_unwind(AssertUnwindSafe(child));
            // Of libc, because nix has no _exit, and the harness's exit handlers are the parent's.
            // SAFETY: always allowed.
            unsafe { libc::_exit(if done.is_ok() { 7 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
        }
    }
}

#[test]
fn what_was_opened_before_a_fork_is_the_parents() {
    let host = Host::get();
    let device = LostState::new(DeviceId::new("AMD", 0));
    device.check().unwrap();
    let kept = host
        .per_process()
        .get_or_make(|| Ok::<_, ()>(7u32))
        .unwrap();
    let (zero, reserved) = (
        host.open("/dev/zero").unwrap(),
        host.reserve(4096, 1, ANYWHERE).unwrap(),
    );
    let at = Some(reserved.base());
    let map = Map {
        offset: 0,
        len: 4096,
        prot: Prot::ReadWrite,
        at,
    };
    let view = zero.mmap(map).unwrap();
    let (memory, base) = (host.memory(4096, 1).unwrap(), reserved.base());
    view.write(0, 5u32).unwrap();
    in_a_child(|| {
        let text = device.check().unwrap_err().to_string();
        assert!(text.contains("opened before a fork"), "{text}");
        assert!(device.is_lost());
        let anew = LostState::new(DeviceId::new("AMD", 0));
        assert!(anew.check().is_ok() && !anew.is_lost());
        // The parent's reservation is no reservation here; its addresses may be.
        assert!(zero.mmap(map).is_err());
        let own = host.reserve(4096, 1, base + 4096).unwrap();
        assert_eq!(own.base(), base);
        drop((view, memory, reserved));
        let view = zero.mmap(map).unwrap();
        assert_eq!(view.read::<u32>(0), Ok(0));
        assert_eq!(
            host.per_process().get_or_make(|| Ok::<_, ()>(8u32)),
            Ok(8.into())
        );
    });
    device.check().unwrap();
    assert_eq!(
        host.per_process().get_or_make(|| Ok::<_, ()>(9u32)),
        Ok(kept)
    );
}
