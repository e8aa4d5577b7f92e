//! Values over ranges of addresses that do not overlap, such as the mappings of a process.

use std::collections::BTreeMap;

/// A value of which a part goes on when the range before it is taken away.
pub trait Part: Clone {
    /// What it is from that many bytes on.
    #[must_use]
    fn from(&self, bytes: u64) -> Self;
}

/// See the front page.
#[derive(Debug)]
pub struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Part> Ranges<T> {
    /// What lies in a range, in part or whole, from the last one down: first addresses, bytes, values.
    pub fn inside(&self, at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64, &T)> {
        let before = self.0.range(..at.saturating_add(bytes)).rev();
        before
            .map(|(&first, (bytes, value))| (first, *bytes, value))
            .take_while(move |(first, bytes, _)| first + bytes > at)
    }

    /// Everything, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        self.0
            .iter()
            .map(|(&at, (bytes, value))| (at, *bytes, value))
    }

    /// The value at an address, as it is from there on, and how far it goes.
    pub fn at(&self, at: u64) -> Option<(T, u64)> {
        let (first, bytes, value) = self.inside(at, 1).next()?;
        Some((value.from(at - first), first + bytes - at))
    }

    /// Enters a value, in place of what is there; returns that.
    pub fn insert(&mut self, at: u64, bytes: u64, value: T) -> Vec<T> {
        let before = self.cut(at, bytes);
        self.0.insert(at, (bytes, value));
        before
    }

    /// Takes a range away; returns what was there, with what of it goes on elsewhere.
    pub fn cut(&mut self, at: u64, bytes: u64) -> Vec<T> {
        let end = at.saturating_add(bytes);
        let found: Vec<u64> = self.inside(at, bytes).map(|(first, ..)| first).collect();
        let mut cut = Vec::new();
        for first in found {
            let Some((bytes, value)) = self.0.remove(&first) else {
                continue;
            };
            let last = first + bytes;
            if first < at {
                self.0.insert(first, (at - first, value.clone()));
            }
            if last > end {
                self.0.insert(end, (last - end, value.from(end - first)));
            }
            cut.push(value);
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts from where it began.
    impl Part for u64 {
        fn from(&self, bytes: u64) -> Self {
            self + bytes
        }
    }

    #[test]
    fn ranges_are_cut_where_others_begin() {
        let mut ranges = Ranges::default();
        assert!(ranges.insert(0x1000, 0x3000, 0_u64).is_empty());
        assert_eq!(ranges.insert(0x2000, 0x1000, 100), [0]);
        let all = |ranges: &Ranges<u64>| {
            ranges
                .iter()
                .map(|(a, b, v)| (a, b, *v))
                .collect::<Vec<_>>()
        };
        let want = [
            (0x1000, 0x1000, 0),
            (0x2000, 0x1000, 100),
            (0x3000, 0x1000, 0x2000),
        ];
        assert_eq!(all(&ranges), want);
        assert_eq!(ranges.at(0x3800), Some((0x2800, 0x800)));
        assert_eq!(ranges.at(0x4000), None);
        assert_eq!(ranges.inside(0x1fff, 2).count(), 2);
        assert_eq!(ranges.cut(0x1800, 0x1000), [100, 0]);
        let want = [
            (0x1000, 0x800, 0),
            (0x2800, 0x800, 0x864),
            (0x3000, 0x1000, 0x2000),
        ];
        assert_eq!(all(&ranges), want);
        ranges.cut(0, u64::MAX);
        assert_eq!(ranges.iter().count(), 0);
    }
}
