//! Sleeping until a 32-bit word changes, and waking those who sleep (futex(2)).
//!
//! Through `libc`, because nix has no futex on Linux.

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use nix::errno::Errno;

use crate::clock::monotonic_ns;

/// Why [`wait`] returned. A sleeper reads the word again in every case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// [`wake`] was called, or the wake-up was spurious.
    Woken,
    /// The word did not hold the expected value, so there was nothing to sleep for.
    Changed,
    /// The time ran out.
    TimedOut,
}

/// A futex call that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "futex {op}: {source}; expected the call to be allowed: check the seccomp filter of the \
     container, or poll instead of sleeping"
)]
pub struct FutexError {
    /// `wait` or `wake`.
    pub op: &'static str,
    /// What the kernel answered.
    pub source: io::Error,
}

/// Sleeps while `word` holds `expected`, at most `timeout`. The comparison and the falling asleep
/// are one step for the kernel, so a wake between a look at the word and this call is not lost.
///
/// The word must be used by this process only: the private form is the fast one.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) -> Result<Wake, FutexError> {
    // An absolute deadline, so that a signal handler that interrupts us costs no extra time.
    let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let deadline = monotonic_ns().saturating_add(nanos).min(i64::MAX as u64);
    let until = libc::timespec {
        tv_sec: (deadline / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline % 1_000_000_000) as libc::c_long,
    };
    loop {
        // SAFETY: the word is a live, aligned u32 (a reference to an atomic) and `until` outlives
        // the call; FUTEX_WAIT_BITSET reads both and writes neither.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                expected,
                &until as *const libc::timespec,
                ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
        match Errno::result(rc) {
            Ok(_) => return Ok(Wake::Woken),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(Wake::Changed),
            Err(Errno::ETIMEDOUT) => return Ok(Wake::TimedOut),
            Err(errno) => {
                let source = io::Error::from(errno);
                return Err(FutexError { op: "wait", source });
            }
        }
    }
}

/// Wakes at most `count` sleepers of `word` and returns how many there were. Store the new value
/// before this call.
pub fn wake(word: &AtomicU32, count: u32) -> Result<u32, FutexError> {
    // SAFETY: the word is a live, aligned u32; FUTEX_WAKE uses its address only.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count.min(i32::MAX as u32),
        )
    };
    u32::try_from(rc).map_err(|_| FutexError {
        op: "wake",
        source: io::Error::last_os_error(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;

    #[test]
    fn a_word_that_already_changed_is_not_waited_for() {
        let word = AtomicU32::new(1);
        assert_eq!(
            wait(&word, 0, Duration::from_secs(3600)).unwrap(),
            Wake::Changed
        );
    }

    #[test]
    fn the_deadline_is_kept() {
        let word = AtomicU32::new(0);
        assert_eq!(
            wait(&word, 0, Duration::from_millis(1)).unwrap(),
            Wake::TimedOut
        );
        assert_eq!(wait(&word, 0, Duration::ZERO).unwrap(), Wake::TimedOut);
    }

    #[test]
    fn an_endless_timeout_does_not_overflow() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Duration::MAX).unwrap(), Wake::Changed);
    }

    #[test]
    fn waking_nobody_wakes_nobody() {
        assert_eq!(wake(&AtomicU32::new(0), u32::MAX).unwrap(), 0);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = AtomicU32::new(0);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(SeqCst) == 0 {
                    assert_ne!(
                        wait(&word, 0, Duration::from_secs(60)).unwrap(),
                        Wake::TimedOut
                    );
                }
                word.load(SeqCst)
            });
            // Until somebody sleeps, or until the store below finds it still awake.
            for _ in 0..1000 {
                thread::yield_now();
            }
            word.store(7, SeqCst);
            wake(&word, 1).unwrap();
            assert_eq!(sleeper.join().unwrap(), 7);
        });
    }
}
