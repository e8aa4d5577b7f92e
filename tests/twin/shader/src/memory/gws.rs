//! Global wave sync (GWS): counters that the waves of all workgroups of a GPU share.
//!
//! Source: RDNA2 and CDNA3 ISA documents, DS_GWS_INIT, DS_GWS_BARRIER, DS_GWS_SEMA_V, _BR and _P.

use std::sync::{Mutex, MutexGuard};

use hcq::sync::lock;

/// How many resources there are.
const RESOURCES: usize = 64;

#[derive(Default)]
struct Resource {
    /// Waves that a barrier still waits for after the one that comes next; the value of a semaphore.
    counter: u32,
    /// How often the barrier has opened.
    opened: u64,
}

/// The resources of a GPU.
pub struct Gws([Mutex<Resource>; RESOURCES]);

impl Default for Gws {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Gws {
    fn at(&self, id: usize) -> MutexGuard<'_, Resource> {
        // Nothing panics while it holds the lock.
        lock(&self.0[id % RESOURCES])
    }

    /// Sets a resource up: for a barrier, the waves less one.
    pub(super) fn init(&self, id: usize, value: u32) {
        self.at(id).counter = value;
    }

    /// A wave is at a barrier; `arrived` is what it found when it came there. Whether it may go on. The last
    /// wave opens the barrier and sets it up anew.
    pub(super) fn barrier(&self, id: usize, value: u32, arrived: &mut Option<u64>) -> bool {
        let mut resource = self.at(id);
        match *arrived {
            Some(then) if then == resource.opened => return false,
            Some(_) => {}
            None if resource.counter == 0 => {
                resource.counter = value;
                resource.opened += 1;
            }
            None => {
                resource.counter -= 1;
                *arrived = Some(resource.opened);
                return false;
            }
        }
        *arrived = None;
        true
    }

    /// Adds to a semaphore.
    pub(super) fn add(&self, id: usize, value: u32) {
        let mut resource = self.at(id);
        resource.counter = resource.counter.saturating_add(value);
    }

    /// Takes one from a semaphore; whether there was one.
    pub(super) fn take(&self, id: usize) -> bool {
        let mut resource = self.at(id);
        let some = resource.counter > 0;
        resource.counter = resource.counter.saturating_sub(1);
        some
    }
}
