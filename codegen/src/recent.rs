//! A bounded table with least-recently-used eviction.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values by key, each with a weight. The least recently used ones are dropped when the weights exceed the bound;
/// the newest value always stays.
#[derive(Debug)]
pub struct Recent<K, V> {
    most: u64,
    total: u64,
    clock: u64,
    slots: HashMap<K, Slot<V>>,
    /// Keys by the time of their last use.
    order: BTreeMap<u64, K>,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: u64,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// An empty table of at most `most`, in the unit of the weights.
    pub fn new(most: u64) -> Recent<K, V> {
        Recent {
            most,
            total: 0,
            clock: 0,
            slots: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// No value is in it.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// All weights together.
    pub fn weight(&self) -> u64 {
        self.total
    }

    /// The value of a key; marks it as used.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let slot = self.slots.get_mut(key)?;
        self.clock += 1;
        if let Some(key) = self.order.remove(&slot.used) {
            self.order.insert(self.clock, key);
        }
        slot.used = self.clock;
        Some(&mut slot.value)
    }

    /// Adds a value; returns the values dropped for it, including the old value of its key.
    pub fn insert(&mut self, key: K, value: V, weight: u64) -> Vec<(K, V)> {
        let mut gone = Vec::new();
        gone.extend(self.remove(&key).map(|old| (key.clone(), old)));
        while self.total.saturating_add(weight) > self.most {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if let Some(slot) = self.slots.remove(&oldest) {
                self.total -= slot.weight;
                gone.push((oldest, slot.value));
            }
        }
        self.clock += 1;
        let used = self.clock;
        self.order.insert(used, key.clone());
        self.total += weight;
        let slot = Slot {
            value,
            weight,
            used,
        };
        self.slots.insert(key, slot);
        gone
    }

    /// Removes a value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.order.remove(&slot.used);
        self.total -= slot.weight;
        Some(slot.value)
    }

    /// Removes everything.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.order.clear();
        self.total = 0;
        self.slots.drain().map(|(key, slot)| (key, slot.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_the_longest_time_goes() {
        let mut table = Recent::new(10);
        for i in 0..5 {
            assert!(table.insert(i, i * 10, 2).is_empty());
        }
        assert_eq!((table.len(), table.weight()), (5, 10));
        assert_eq!(table.get(&0), Some(&mut 0));
        assert_eq!(table.insert(5, 50, 3), [(1, 10), (2, 20)]);
        assert_eq!(table.get(&1), None);
        assert_eq!(table.get(&0), Some(&mut 0));
        assert_eq!(table.weight(), 9);
        assert_eq!(table.insert(0, 7, 2), [(0, 0)]);
        assert_eq!(table.remove(&3), Some(30));
        // One that is too large is there alone.
        let mut gone = table.insert(9, 90, 100);
        gone.sort_unstable();
        assert_eq!(gone, [(0, 7), (4, 40), (5, 50)]);
        assert_eq!(table.get(&9), Some(&mut 90));
        assert_eq!(table.insert(8, 80, 1), [(9, 90)]);
        assert_eq!(table.drain().collect::<Vec<_>>(), [(8, 80)]);
        assert!(table.is_empty() && table.weight() == 0);
    }
}
