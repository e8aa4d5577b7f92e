//! Interrupts that a driver waits for, as eventfds have them: counted until somebody asks.

use std::sync::{Condvar, Mutex};

use hcq::sync::{lock, unpoisoned};
use hcq::transport::{Fault, MonotonicClock};
use hcq::wait::Deadline;

/// How often each has fired since somebody waited for it.
pub(super) struct Vectors {
    fired: Mutex<Vec<u64>>,
    told: Condvar,
}

impl Vectors {
    pub(super) fn new(vectors: usize) -> Vectors {
        Vectors {
            fired: Mutex::new(vec![0; vectors]),
            told: Condvar::new(),
        }
    }

    /// One has fired; those that the driver has not asked for are nobody's.
    pub(super) fn fire(&self, vector: u32) {
        let mut fired = lock(&self.fired);
        if let Some(fired) = fired.get_mut(vector as usize) {
            *fired += 1;
            self.told.notify_all();
        }
    }

    /// Waits until one has fired, and takes its count.
    pub(super) fn wait(&self, vector: u32, deadline: Deadline) -> Result<u64, Fault> {
        let mut fired = lock(&self.fired);
        loop {
            let known = fired.len();
            let Some(count) = fired.get_mut(vector as usize) else {
                return Err(Fault::Unsupported(format!("it has {known} interrupts")));
            };
            match std::mem::take(count) {
                0 => {}
                count => return Ok(count),
            }
            let left = deadline.remaining(&MonotonicClock);
            if left.is_zero() {
                return Err(Fault::TimedOut(deadline.limit()));
            }
            let waited = self.told.wait_timeout(fired, left);
            (fired, _) = unpoisoned(waited);
        }
    }
}
