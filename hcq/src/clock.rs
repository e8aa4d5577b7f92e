//! Clocks that waits and deadlines go by.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that only grows.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;
    /// Lets at least `time` pass.
    fn sleep(&self, time: Duration);
}

/// The machine's monotonic clock. All values of this type share one origin.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl MonotonicClock {
    /// Its value at the first read: large enough that earlier events of a device's own clock have positive times.
    const START: Duration = Duration::from_secs(1 << 20);
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        let origin = *ORIGIN.get_or_init(Instant::now);
        u64::try_from((Self::START + origin.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A clock that advances only by sleeping, without waiting. For hardware models and tests.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> VirtualClock {
        VirtualClock::default()
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn sleep(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_virtual_clock_moves_only_by_sleeping() {
        let clock = VirtualClock::new();
        assert_eq!(clock.now_ns(), 0);
        clock.sleep(Duration::from_secs(3600));
        assert_eq!(clock.now_ns(), 3_600_000_000_000);
    }

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let before = MonotonicClock.now_ns();
        MonotonicClock.sleep(Duration::from_nanos(1));
        assert!(MonotonicClock.now_ns() >= before);
        let clock = crate::ClockInfo {
            hz: 100_000_000,
            host_ns: before,
            device_ticks: 5_000_000_000,
        };
        // A device that ran for 50 seconds before the clock was read.
        assert_eq!(clock.to_host_ns(0), before - 50_000_000_000);
    }
}
