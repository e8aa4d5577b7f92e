//! [`Event`]: sleeps until another thread makes a condition true, without lost wake-ups and
//! without a system call if no thread sleeps. The doorbell of a ring is one.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use drivers_host::futex;

/// A repeatable event. The condition itself is elsewhere, in atomics.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// Changes with every notification that somebody may sleep for.
    sequence: AtomicU32,
    sleepers: AtomicU32,
}

impl Event {
    /// Wakes all sleepers; to be called after the condition was made true.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        self.notify_exchanged();
    }

    /// The same where the condition was made true by an exchange that is sequentially consistent: that is the fence, at half
    /// of the price of one.
    #[inline]
    pub(crate) fn notify_exchanged(&self) {
        // With the fence in `wait`: either we see the sleeper, or it sees the condition.
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.sequence.fetch_add(1, Ordering::Release);
        // A refused call leaves the sleeper to its timeout, see `sleep_on`.
        let _ = futex::wake(&self.sequence, u32::MAX);
    }

    /// Sleeps once until notified, at most `limit`, unless `ready`. The caller looks again.
    pub(crate) fn wait(&self, limit: Duration, ready: impl Fn() -> bool) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let seen = self.sequence.load(Ordering::Acquire);
        if !ready() {
            sleep_on(&self.sequence, seen, limit);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sleeps while `word` holds `seen`, at most `limit`. Where futexes are forbidden, a nap.
pub(crate) fn sleep_on(word: &AtomicU32, seen: u32, limit: Duration) {
    if futex::wait(word, seen, limit).is_err() {
        std::thread::sleep(limit.min(Duration::from_micros(100)));
    }
}

/// Looks between two turns of others.
const LOOKS: u32 = 16;

/// Looks at `ready` for the time of `limit`, true as soon as it is; once if `limit` is zero.
///
/// Waking a thread that sleeps takes 30 to 60 µs, which is more than many kernels take, so it pays
/// to look for that long. The processor is given to others that want it after every few looks: with
/// as many helpers as cores the one that waits would else keep a helper from working.
#[inline]
pub(crate) fn spin(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let mut start = None;
    loop {
        if ready() {
            return true;
        }
        if limit.is_zero() {
            return false;
        }
        for _ in 1..LOOKS {
            std::hint::spin_loop();
            if ready() {
                return true;
            }
        }
        // Most waits end before the clock is read.
        if start.get_or_insert_with(Instant::now).elapsed() >= limit {
            return ready();
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn two_threads_hand_a_counter_back_and_forth() {
        let state = Arc::new((AtomicU64::new(0), Event::default()));
        let run = |parity: u64| {
            let state = state.clone();
            move || {
                let (value, event) = &*state;
                while value.load(Ordering::Acquire) < 2000 {
                    let mine = || {
                        let v = value.load(Ordering::Acquire);
                        v % 2 == parity || v >= 2000
                    };
                    while !mine() {
                        // Far longer than the test may take: a lost wake-up would hang it.
                        event.wait(Duration::from_secs(3600), mine);
                    }
                    let v = value.load(Ordering::Acquire);
                    if v < 2000 {
                        value.store(v + 1, Ordering::Release);
                    }
                    event.notify();
                }
            }
        };
        let other = std::thread::spawn(run(1));
        run(0)();
        other.join().unwrap();
        assert_eq!(state.0.load(Ordering::Acquire), 2000);
    }
}
