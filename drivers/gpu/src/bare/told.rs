//! [`Told`]: the exceptions of a card, delivered to each of its handles in order. They are attributed by the work in
//! flight ([`crate::backend::verdict`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::Exception;

/// Exceptions that are kept for handles that have not looked yet.
const KEPT: usize = 64;

/// Exceptions of a card.
#[derive(Default)]
pub struct Told {
    /// How many there were before those that are kept.
    before: u64,
    kept: VecDeque<Exception>,
}

impl Told {
    /// Whether a fault of that page was reported.
    pub fn has(&self, va: u64) -> bool {
        let is = |one: &Exception| matches!(one, Exception::Memory(fault) if fault.va == va);
        self.kept.iter().any(is)
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.before + self.kept.len() as u64
    }

    pub(super) fn tell(&mut self, exception: Exception) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.before += 1;
        }
        self.kept.push_back(exception);
    }

    /// The first that a handle has not heard of, which counts in `heard`.
    pub(super) fn next(&self, heard: &AtomicU64) -> Option<Exception> {
        let first = heard.load(Ordering::Relaxed).max(self.before);
        let found = self.kept.get((first - self.before) as usize)?;
        heard.store(first + 1, Ordering::Relaxed);
        Some(found.clone())
    }
}
