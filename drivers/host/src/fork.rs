//! Forks: a child has the handles of devices, and none of what is behind them.

use std::sync::Once;

/// Makes every device lost to processes that are forked from this one from now on, with an error that
/// says so; the child may open devices of its own. To be called by whoever opens devices; once is enough.
///
/// As in any process with threads: what another thread had locked at the moment of the fork stays locked in
/// the child. So nobody should fork while devices are opened or memory is allocated.
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
