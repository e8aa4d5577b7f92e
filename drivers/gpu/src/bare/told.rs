//! [`Told`]: the exceptions of a card, delivered to each of its handles in order; one whose queue is known, to the handle of
//! the queue alone. The others are attributed by the work in flight ([`crate::backend::verdict`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::Exception;

/// Exceptions that are kept for handles that have not looked yet.
const KEPT: usize = 64;

/// An exception, and the number of the handle whose queue it is of, where the card tells.
pub type Found = (Option<u64>, Exception);

/// Exceptions of a card.
#[derive(Default)]
pub struct Told {
    /// How many there were before those that are kept.
    before: u64,
    kept: VecDeque<Found>,
}

impl Told {
    /// Whether a fault of that page was reported.
    pub fn has(&self, va: u64) -> bool {
        let is = |one: &Exception| matches!(one, Exception::Memory(fault) if fault.va == va);
        self.kept.iter().any(|(_, one)| is(one))
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.before + self.kept.len() as u64
    }

    pub(super) fn tell(&mut self, found: Found) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.before += 1;
        }
        self.kept.push_back(found);
    }

    /// The first that the handle of a number has not heard of, and is not another's, which counts in `heard`; and whether it is
    /// known to be of this handle.
    pub(super) fn next(&self, heard: &AtomicU64, number: u64) -> Option<(bool, Exception)> {
        let mut first = heard.load(Ordering::Relaxed).max(self.before);
        loop {
            let (owner, found) = self.kept.get((first - self.before) as usize)?;
            first += 1;
            heard.store(first, Ordering::Relaxed);
            if owner.is_none_or(|owner| owner == number) {
                return Some((owner.is_some(), found.clone()));
            }
        }
    }
}
