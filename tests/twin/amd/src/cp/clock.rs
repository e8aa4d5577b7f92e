//! The clock of the GPUs: 100 MHz, the same for every engine.

use std::sync::OnceLock;
use std::time::Instant;

/// Ticks of 10 ns since the first call in this program, never zero, never going back.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed().as_nanos() / 10;
    u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1)
}
