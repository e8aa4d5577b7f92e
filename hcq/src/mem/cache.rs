//! A cache of freed buffers: getting one back is cheaper than asking a driver for memory.
//!
//! Keyed by exact size and kind, limited in bytes; beyond the limit the least recently returned
//! buffer goes first. Evicted buffers are handed to the caller, who drops them outside of any
//! lock that guards the cache.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// Freed buffers of type `B`, by size in bytes and kind `K`.
#[derive(Debug)]
pub struct BufferCache<K, B> {
    budget: u64,
    bytes: u64,
    stamp: u64,
    /// By time of return: the first entry is the next to be evicted.
    by_age: BTreeMap<u64, ((u64, K), B)>,
    /// Stamps per key, oldest first. No empty list stays.
    by_key: HashMap<(u64, K), VecDeque<u64>>,
}

impl<K: Copy + Eq + Hash, B> BufferCache<K, B> {
    /// An empty cache that keeps at most `budget` bytes.
    pub fn new(budget: u64) -> Self {
        let (by_age, by_key) = (BTreeMap::new(), HashMap::new());
        BufferCache {
            budget,
            bytes: 0,
            stamp: 0,
            by_age,
            by_key,
        }
    }

    /// Bytes kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Buffers kept.
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// Takes the buffer of exactly this size and kind that was returned last, if there is one.
    pub fn take(&mut self, size: u64, kind: K) -> Option<B> {
        let key = (size, kind);
        let stamps = self.by_key.get_mut(&key)?;
        let stamp = stamps.pop_back();
        if stamps.is_empty() {
            self.by_key.remove(&key);
        }
        let (_, buffer) = self.by_age.remove(&stamp?)?;
        self.bytes -= size;
        Some(buffer)
    }

    /// Keeps `buffer` and returns what had to go for it, oldest first; the buffer itself, if it is
    /// larger than the whole budget.
    #[must_use = "evicted buffers hold memory until they are dropped"]
    pub fn put(&mut self, size: u64, kind: K, buffer: B) -> Vec<B> {
        if size > self.budget {
            return vec![buffer];
        }
        let evicted = self.shrink_to(self.budget - size);
        let stamp = self.stamp;
        self.stamp += 1;
        self.by_age.insert(stamp, ((size, kind), buffer));
        self.by_key
            .entry((size, kind))
            .or_default()
            .push_back(stamp);
        self.bytes += size;
        evicted
    }

    /// Evicts, oldest first, until at most `bytes` are kept; 0 to empty it when memory is short.
    #[must_use = "evicted buffers hold memory until they are dropped"]
    pub fn shrink_to(&mut self, bytes: u64) -> Vec<B> {
        let mut evicted = Vec::new();
        while self.bytes > bytes
            && let Some((_, (key, buffer))) = self.by_age.pop_first()
        {
            if let Some(stamps) = self.by_key.get_mut(&key) {
                // The oldest of all is the oldest of its key.
                stamps.pop_front();
                if stamps.is_empty() {
                    self.by_key.remove(&key);
                }
            }
            self.bytes -= key.0;
            evicted.push(buffer);
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_keys_and_eviction_order() {
        let mut cache = BufferCache::new(100);
        assert!(cache.put(40, 'v', 1).is_empty());
        assert!(cache.put(40, 'v', 2).is_empty());
        assert!(cache.put(20, 'h', 3).is_empty());
        assert_eq!(cache.take(40, 'h'), None);
        assert_eq!(cache.take(39, 'v'), None);
        assert_eq!(
            cache.put(30, 'v', 4),
            [1],
            "the oldest goes, and only as many as needed"
        );
        assert_eq!(cache.take(40, 'v'), Some(2));
        assert_eq!(cache.take(40, 'v'), None);
        assert_eq!(cache.put(101, 'v', 5), [5]);
        assert_eq!(cache.bytes(), 50);
        assert_eq!(cache.shrink_to(0), [3, 4]);
        assert!(cache.is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(
            budget in 0u64..300,
            steps in prop::collection::vec((any::<bool>(), 0u64..8, 0u8..2), 1..200),
        ) {
            let mut cache = BufferCache::new(budget);
            let mut model: Vec<(u64, u8, usize)> = vec![];
            for (i, (put, size, kind)) in steps.into_iter().enumerate() {
                let size = size * 16;
                if put {
                    let mut gone = vec![];
                    if size > budget {
                        gone.push(i);
                    } else {
                        while model.iter().map(|m| m.0).sum::<u64>() + size > budget {
                            gone.push(model.remove(0).2);
                        }
                        model.push((size, kind, i));
                    }
                    prop_assert_eq!(cache.put(size, kind, i), gone);
                } else {
                    let found = model.iter().rposition(|m| (m.0, m.1) == (size, kind));
                    let expected = found.map(|at| model.remove(at).2);
                    prop_assert_eq!(cache.take(size, kind), expected);
                }
                prop_assert_eq!(cache.len(), model.len());
                prop_assert_eq!(cache.bytes(), model.iter().map(|m| m.0).sum::<u64>());
                prop_assert!(cache.bytes() <= budget);
            }
        }
    }
}
