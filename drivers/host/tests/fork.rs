//! A child of a fork gets an error for its parent's devices, and the parent keeps them.

#![allow(clippy::unwrap_used)]

use hcq::{DeviceId, LostState};

#[test]
fn devices_are_lost_to_a_fork_and_not_to_its_parent() {
    drivers_host::fork::watch();
    let device = LostState::new(DeviceId::new("AMD", 0));
    device.check().unwrap();
    // SAFETY: the child looks at a flag, formats a text, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let text = device.check().map_err(|e| e.to_string());
        let told = text.is_err_and(|text| text.contains("opened before a fork"));
        let code = i32::from(!(told && device.is_lost()));
        // SAFETY: always allowed.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` may be written.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((ended, status), (child, 0));
    device.check().unwrap();
}
