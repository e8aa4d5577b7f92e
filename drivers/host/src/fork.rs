//! Forks: a child inherits device handles, but not the devices.

use std::sync::Once;

/// From now on, marks every device lost in forked children, with an error saying so; a child may open its own
/// devices. Call it before opening devices; once is enough.
///
/// As in any threaded process, locks held by other threads at the fork stay locked in the child. Do not fork while
/// devices are opened or memory is allocated.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // Of libc, because nix has no pthread_atfork.
        // SAFETY: the function counts one up and calls nothing, as it must between a fork and its
        // return; it lives as long as the program.
        let rc = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
        // Out of memory, the only failure there is: forks stay as they are.
        debug_assert_eq!(rc, 0, "pthread_atfork");
    });
}

extern "C" fn in_the_child() {
    hcq::lose_all_by_fork();
}
