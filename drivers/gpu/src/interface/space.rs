//! [`Space`]: the addresses that devices of a process share, and what the devices know of each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Exception;
use super::ranges::Ranges;
use super::verdict::{Handle, Verdicts};

/// One address space for devices of a process.
#[derive(Default)]
pub struct Space {
    /// Which addresses belong to what.
    pub ranges: Ranges,
    /// Devices that end, and whose work still goes on.
    ending: AtomicU32,
    /// The queues of every open device.
    moving: Mutex<Vec<Weak<dyn Moves>>>,
    verdicts: Verdicts,
    /// Handles so far.
    handles: AtomicU64,
}

/// Queues of a device.
pub trait Moves: Handle {
    /// Whether one of them has work that goes on: that of others which waits may wait for it.
    fn moves(&self) -> bool;
}

/// A device that ends, as others see it.
pub struct Ending<'a> {
    space: &'a Space,
    moves: bool,
}

impl Ending<'_> {
    /// Says whether its work goes on.
    pub fn set(&mut self, moves: bool) {
        match (self.moves, moves) {
            (false, true) => self.space.ending.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.space.ending.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.moves = moves;
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl Space {
    /// A device that starts to end.
    pub fn end(&self) -> Ending<'_> {
        Ending {
            space: self,
            moves: false,
        }
    }

    /// Notes the queues of a device.
    pub fn watch_moves(&self, queues: Weak<dyn Moves>) {
        let mut moving = self.lock();
        moving.retain(|queues| queues.strong_count() > 0);
        moving.push(queues);
    }

    /// Whether work of any device goes on, open or about to end.
    pub fn moves(&self) -> bool {
        self.ending.load(Ordering::Relaxed) > 0 || self.open().iter().any(|queues| queues.moves())
    }

    /// The number of another handle of a device.
    pub fn number(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether an exception is that of the handle with a number, of a GPU at a place which does not tell.
    pub fn is_own(&self, handle: (u64, &str), exception: &Exception) -> bool {
        let all: Vec<Arc<dyn Handle>> = self.open().into_iter().map(|one| one as _).collect();
        self.verdicts.is_own(handle, exception, &all)
    }

    /// Every open device. Looked at outside of the lock: the last handle of one may be this one.
    fn open(&self) -> Vec<Arc<dyn Moves>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Moves>>> {
        // Entries are pushed whole.
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
