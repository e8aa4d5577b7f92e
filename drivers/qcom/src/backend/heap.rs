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

    /// Forgets the object at an address, which is about to be freed: what it was over is there again. Another object may have the
    /// address by now, and stays.
    pub fn remove(&self, va: u64, under: Option<&Arc<M>>) {
        let mut all = self.lock();
        if all.get(&va).is_none_or(|one| one.strong_count() > 0) {
            return;
        }
        match under.filter(|object| object.va() == va) {
            Some(object) => all.insert(va, Arc::downgrade(object)),
            None => all.remove(&va),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Range(u64, u64);

    impl Object for Range {
        fn va(&self) -> u64 {
            self.0
        }
        fn bytes(&self) -> u64 {
            self.1
        }
        fn window(&self) -> Option<Window> {
            None
        }
    }

    #[test]
    fn an_object_that_ends_leaves_its_address_to_others() {
        let heap = Heap::default();
        let has = |at| heap.at(at).map(|found: Arc<Range>| found.1);
        let small = Arc::new(Range(0x1000, 0x1000));
        heap.add(&small);
        assert_eq!(
            [0xfff, 0x1000, 0x1fff, 0x2000].map(has),
            [None, Some(0x1000), Some(0x1000), None]
        );
        // A larger one over it.
        let large = Arc::new(Range(0x1000, 0x2000));
        heap.add(&large);
        assert_eq!(has(0x2000), Some(0x2000));
        // One that is there is not forgotten.
        heap.remove(0x1000, None);
        assert_eq!(has(0x1000), Some(0x2000));
        drop(large);
        assert_eq!(has(0x1000), None);
        heap.remove(0x1000, Some(&small));
        assert_eq!([0x1000, 0x2000].map(has), [Some(0x1000), None]);
        drop(small);
        heap.remove(0x1000, None);
        assert_eq!(heap.all().len(), 0);
        assert!(heap.lock().is_empty());
    }
}
