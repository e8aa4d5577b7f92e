//! The clock of a machine: it goes on with what the engines do, and stands still while they wait.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a packet takes.
pub(crate) const PACKET: u64 = 10;

/// Ticks of 10 ns (100 MHz) that count what was done, the same for every engine of a machine.
#[derive(Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The time: never zero, and later with each look.
    pub fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The time, for who is no part of the machine: it does not go on by this look.
    pub(crate) fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, ticks: u64) {
        self.0.fetch_add(ticks, Ordering::AcqRel);
    }

    /// It is that late now, or later.
    pub(crate) fn reach(&self, time: u64) {
        self.0.fetch_max(time, Ordering::AcqRel);
    }
}
