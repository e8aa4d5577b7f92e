//! [`Heap`]: the memory objects of a process, by the address that the GPU has for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::mem::window::Window;
use hcq::sync::lock;

/// An object that a kernel driver has made.
pub trait Object: Send + Sync {
    /// Its address.
    fn va(&self) -> u64;

    /// Bytes of it.
    fn bytes(&self) -> u64;

    /// The host's window.
    fn window(&self) -> Option<Window>;
}

/// Objects that are alive.
pub struct Heap<M>(Mutex<BTreeMap<u64, Weak<M>>>);

impl<M> Default for Heap<M> {
    fn default() -> Self {
        Heap(Mutex::default())
    }
}

impl<M: Object> Heap<M> {
    /// Remembers an object for as long as it is there.
    pub fn add(&self, object: &Arc<M>) {
        self.lock().insert(object.va(), Arc::downgrade(object));
    }

    /// Forgets the object at an address, which is about to be freed.
    pub fn remove(&self, va: u64) {
        self.lock().remove(&va);
    }

    /// The object with an address.
    pub fn at(&self, va: u64) -> Option<Arc<M>> {
        let found = self.lock().range(..=va).next_back()?.1.upgrade()?;
        (va - found.va() < found.bytes()).then_some(found)
    }

    /// All of them, in the order of their addresses.
    pub fn all(&self) -> Vec<Arc<M>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// The host's window of an address, and the offset of the address in it.
    pub fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let object = self.at(va)?;
        Some((object.window()?, va - object.va()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<M>>> {
        // Each change is one call of a collection.
        lock(&self.0)
    }
}
