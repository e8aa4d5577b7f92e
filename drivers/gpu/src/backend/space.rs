//! [`Space`]: the address space shared by devices of a process, and their shared state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::sync::lock;

use super::Exception;
use super::ranges::Ranges;
use super::verdict::{Handle, Verdicts};

/// One address space for devices of a process.
#[derive(Default)]
pub struct Space {
    /// Which addresses belong to what.
    pub ranges: Ranges,
    /// The queues of every device that is open, or about to end.
    moving: Mutex<Vec<Weak<dyn RunnableWork>>>,
    verdicts: Verdicts,
    /// Handles so far.
    handles: AtomicU64,
}

/// Queues of a device.
pub trait RunnableWork: Handle {
    /// Whether one of them has runnable work: waiting work of other devices may depend on it.
    fn has_runnable_work(&self) -> bool;
}

impl Space {
    /// Notes the queues of a device.
    pub fn watch_runnable_work(&self, queues: Weak<dyn RunnableWork>) {
        let mut moving = self.lock();
        moving.retain(|queues| queues.strong_count() > 0);
        moving.push(queues);
    }

    /// Whether any device, open or closing, has runnable work.
    pub fn has_runnable_work(&self) -> bool {
        self.open().iter().any(|queues| queues.has_runnable_work())
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

    /// Every open device. Looked at outside of the lock: looks lock other things.
    fn open(&self) -> Vec<Arc<dyn RunnableWork>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn RunnableWork>>> {
        // Entries are pushed whole.
        lock(&self.moving)
    }
}
