//! The sleeping threads, by signal and value.
//!
//! A signal is 16 plain bytes at an address, and whoever raises it (any command processor of this
//! process, or the host) knows nothing but that address. So sleepers enter address and value into
//! a small table of the process, and raising a signal wakes exactly those that it satisfies: one
//! fence and one load while nobody sleeps, and no wake-up for every step of a long queue.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use drivers_host::futex;

use crate::event::sleep_on;

/// Sleepers at a time; one bit each in the masks below. Others nap.
const SLOTS: usize = 64;

/// One sleeper.
struct Slot {
    va: AtomicU64,
    value: AtomicU64,
    /// 1 once it may look again.
    word: AtomicU32,
}

struct Table {
    /// Allocated slots.
    claimed: AtomicU64,
    /// Slots with their address and value filled in.
    armed: AtomicU64,
    slots: [Slot; SLOTS],
}

static TABLE: Table = Table {
    claimed: AtomicU64::new(0),
    armed: AtomicU64::new(0),
    slots: [const {
        Slot {
            va: AtomicU64::new(0),
            value: AtomicU64::new(0),
            word: AtomicU32::new(0),
        }
    }; SLOTS],
};

/// Wakes who sleeps until the signal at `va` is at least `value` or less; call after storing it.
#[inline]
pub(crate) fn raised(va: u64, value: u64) {
    // With the fence in `sleep`: either we see the sleeper, or it sees the value.
    fence(Ordering::SeqCst);
    let armed = TABLE.armed.load(Ordering::Acquire);
    if armed != 0 {
        wake(armed, |slot| {
            slot.va.load(Ordering::Relaxed) == va && slot.value.load(Ordering::Relaxed) <= value
        });
    }
}

/// Wakes everybody: a device is lost or closes.
pub(crate) fn wake_all() {
    fence(Ordering::SeqCst);
    wake(TABLE.armed.load(Ordering::Acquire), |_| true);
}

#[cold]
fn wake(mut armed: u64, satisfied: impl Fn(&Slot) -> bool) {
    while armed != 0 {
        let slot = &TABLE.slots[armed.trailing_zeros() as usize];
        armed &= armed - 1;
        // The slot may have passed to another sleeper since: that one looks again for nothing.
        if satisfied(slot) {
            slot.word.store(1, Ordering::Release);
            let _ = futex::wake(&slot.word, 1);
        }
    }
}

/// Sleeps once until the signal at `va` is raised to `value`, at most `limit`, unless `ready`.
/// The caller looks again.
pub(crate) fn sleep(va: u64, value: u64, limit: Duration, ready: impl Fn() -> bool) {
    let Some(claim) = Claim::take() else {
        std::thread::sleep(limit.min(Duration::from_micros(100)));
        return;
    };
    let slot = &TABLE.slots[claim.0];
    slot.va.store(va, Ordering::Relaxed);
    slot.value.store(value, Ordering::Relaxed);
    slot.word.store(0, Ordering::Relaxed);
    TABLE.armed.fetch_or(1 << claim.0, Ordering::AcqRel);
    fence(Ordering::SeqCst);
    if !ready() {
        sleep_on(&slot.word, 0, limit);
    }
}

/// A slot of the table; freed on drop.
struct Claim(usize);

impl Claim {
    fn take() -> Option<Claim> {
        let mut claimed = TABLE.claimed.load(Ordering::Relaxed);
        loop {
            let free = (!claimed).trailing_zeros() as usize;
            if free >= SLOTS {
                return None;
            }
            let with = claimed | 1 << free;
            match TABLE.claimed.compare_exchange_weak(
                claimed,
                with,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Claim(free)),
                Err(now) => claimed = now,
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        TABLE.armed.fetch_and(!(1 << self.0), Ordering::AcqRel);
        TABLE.claimed.fetch_and(!(1 << self.0), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn more_sleepers_than_slots_all_wake() {
        let value = Arc::new(AtomicU64::new(0));
        let va = Arc::as_ptr(&value) as u64;
        let threads: Vec<_> = (0..SLOTS as u64 + 6)
            .map(|i| {
                let value = value.clone();
                std::thread::spawn(move || {
                    let reached = || value.load(Ordering::Acquire) > i;
                    while !reached() {
                        sleep(va, i + 1, Duration::from_secs(3600), reached);
                    }
                })
            })
            .collect();
        for i in 1..=SLOTS as u64 + 6 {
            value.store(i, Ordering::Release);
            raised(va, i);
            std::thread::yield_now();
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
