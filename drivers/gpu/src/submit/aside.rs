//! What is let go while somebody holds a queue.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::command_buffer::Keep;
use hcq::sync::lock;

use crate::memory::pool::Piece;

/// What was let go while somebody held the queue, and perhaps by himself: he takes it over when he has submitted, or who
/// holds it next.
#[derive(Default)]
pub(super) struct Aside {
    is_there: AtomicBool,
    things: Mutex<Vec<(Keep, Option<Piece>)>>,
}

impl Aside {
    pub(super) fn put(&self, what: Keep, words: Option<Piece>) {
        let mut things = lock(&self.things);
        things.push((what, words));
        self.is_there.store(true, Ordering::Release);
    }

    #[cold]
    pub(super) fn take(&self) -> Vec<(Keep, Option<Piece>)> {
        let mut things = lock(&self.things);
        self.is_there.store(false, Ordering::Relaxed);
        std::mem::take(&mut things)
    }

    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }
}
