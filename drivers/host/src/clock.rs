//! The clock that every host timestamp is taken from.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds on `CLOCK_MONOTONIC`: never steps back, stops while the machine is suspended, and
/// is the same in every thread and process since boot.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    // clock_gettime(2) names two failures, a bad pointer and an unknown clock: neither can occur.
    debug_assert!(now.is_ok(), "clock_gettime(CLOCK_MONOTONIC)");
    now.map_or(0, |now| {
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_steps_back_and_does_advance() {
        let first = monotonic_ns();
        let mut last = first;
        for _ in 0..10_000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
        assert!(last > first);
    }
}
