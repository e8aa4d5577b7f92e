//! Resources that are released while a queue is locked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::command_buffer::Keep;
use hcq::sync::lock;

use crate::memory::pool::Piece;

/// Resources that were released while the queue was locked, possibly by the lock's owner: the owner takes them over
/// after its submission, or the next owner does.
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
