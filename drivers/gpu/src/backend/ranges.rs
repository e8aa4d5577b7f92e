//! Current and former owners of addresses, so that a fault names the buffer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use drivers_bundle::Hex;
use drivers_bundle::schema::{Owner, Span};
use hcq::sync::lock;

/// How many freed ranges are remembered.
const HISTORY: usize = 256;

/// The largest distance at which an address is reported as next to a range.
const NEAR: u64 = 1 << 20;

/// Ranges of addresses of a process, live and freed.
#[derive(Default)]
pub struct Ranges(Mutex<State>);

#[derive(Default)]
struct State {
    live: BTreeMap<u64, Range>,
    /// The youngest first.
    freed: VecDeque<(u64, Range)>,
}

#[derive(Clone)]
struct Range {
    bytes: u64,
    what: Box<str>,
    /// Older ones that begin at the same address: memory that is imported twice, or as a part of other memory.
    under: Vec<Range>,
}

impl Ranges {
    /// Notes that `bytes` bytes at `va` are `what` from now on.
    pub fn insert(&self, va: u64, bytes: u64, what: &str) {
        let mut state = self.lock();
        let old = state.live.remove(&va);
        let under = old.map_or_else(Vec::new, |mut old| {
            let mut under = std::mem::take(&mut old.under);
            under.push(old);
            under
        });
        let what = what.into();
        state.live.insert(va, Range { bytes, what, under });
    }

    /// Notes that what started at `va` is freed; of several, the youngest.
    pub fn remove(&self, va: u64) {
        let mut state = self.lock();
        let Some(mut range) = state.live.remove(&va) else {
            return;
        };
        match range.under.pop() {
            Some(mut older) => {
                older.under = range.under;
                state.live.insert(va, older);
            }
            None => {
                state.freed.truncate(HISTORY - 1);
                state.freed.push_front((va, range));
            }
        }
    }

    /// What an address belongs to.
    pub fn owner(&self, va: u64) -> Option<String> {
        let owner = self.whose(va);
        matches!(owner, Owner::Inside(_)).then(|| owner.to_string())
    }

    /// What an address belongs to, belonged to, or is near.
    pub fn whose(&self, va: u64) -> Owner {
        self.lock().whose(va).0
    }

    /// The same as the end of a sentence.
    pub fn describe(&self, va: u64) -> String {
        let (owner, ago) = self.lock().whose(va);
        match (&owner, ago) {
            (Owner::Freed(_), 0) => {
                format!("{owner}, the most recent free: use after free")
            }
            (Owner::Freed(_), n) => {
                format!("{owner}, freed {n} frees ago: use after free")
            }
            _ => owner.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in a change fails between its calls of a collection.
        lock(&self.0)
    }
}

impl State {
    /// Whose an address is; and if it was freed, how many were freed after that.
    fn whose(&self, va: u64) -> (Owner, usize) {
        let span = |start: u64, range: &Range, distance: u64| Span {
            what: range.what.to_string(),
            start: Hex(start),
            bytes: Hex(range.bytes),
            distance: Hex(distance),
        };
        let below = self.live.range(..=va).next_back();
        if let Some((&start, range)) = below.filter(|(start, range)| va - *start < range.bytes) {
            return (Owner::Inside(span(start, range, va - start)), 0);
        }
        let mut freed = self.freed.iter().enumerate();
        let found = freed.find(|(_, (start, range))| va >= *start && va - start < range.bytes);
        if let Some((ago, (start, range))) = found {
            return (Owner::Freed(span(*start, range, va - start)), ago);
        }
        let behind = below.map(|(&start, range)| {
            let distance = va - (start + range.bytes);
            (distance, Owner::Behind(span(start, range, distance)))
        });
        let above = self.live.range(va..).next();
        let before = above.map(|(&start, range)| {
            let distance = start - va;
            (distance, Owner::Before(span(start, range, distance)))
        });
        let nearest = behind.into_iter().chain(before).min_by_key(|near| near.0);
        let nearest = nearest.filter(|near| near.0 < NEAR);
        (nearest.map_or(Owner::Nobody, |near| near.1), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_by_what_it_is_was_or_is_near() {
        let ranges = Ranges::default();
        ranges.insert(0x10000, 0x1000, "tensor memory");
        ranges.insert(0x20000, 0x2000, "a ring");
        assert_eq!(
            ranges.describe(0x10008),
            "at offset 0x8 of tensor memory (0x1000 bytes at 0x10000)"
        );
        assert_eq!(
            ranges.describe(0x11010),
            "0x10 bytes past tensor memory (0x1000 bytes at 0x10000)"
        );
        assert_eq!(
            ranges.describe(0x1fff0),
            "0x10 bytes before a ring (0x2000 bytes at 0x20000)"
        );
        assert_eq!(ranges.describe(1 << 40), "not in or near any buffer");
        assert_eq!(ranges.owner(0x10008), Some(ranges.describe(0x10008)));
        assert_eq!(ranges.owner(0x11010), None);
        ranges.remove(0x10000);
        assert_eq!(
            ranges.describe(0x10fff),
            "at offset 0xfff of tensor memory (0x1000 bytes at 0x10000), the most recent free: use after free"
        );
        for i in 0..HISTORY as u64 {
            ranges.insert(0x100_0000 + i * 4096, 4096, "x");
            ranges.remove(0x100_0000 + i * 4096);
        }
        assert!(
            ranges
                .describe(0x10fff)
                .ends_with("before a ring (0x2000 bytes at 0x20000)")
        );
        assert!(ranges.describe(0x100_0000).contains("freed 255 frees ago"));
        ranges.remove(0x77);
    }

    #[test]
    fn memory_that_is_there_twice_is_freed_with_the_last() {
        let ranges = Ranges::default();
        ranges.insert(0x10000, 0x1000, "memory of the process");
        for _ in 0..2 {
            ranges.insert(0x10000, 0x800, "imported memory");
        }
        let live = "at offset 0x8 of imported memory (0x800 bytes at 0x10000)";
        assert_eq!(ranges.describe(0x10008), live);
        ranges.remove(0x10000);
        assert_eq!(ranges.describe(0x10008), live);
        ranges.remove(0x10000);
        assert_eq!(
            ranges.describe(0x10ff8),
            "at offset 0xff8 of memory of the process (0x1000 bytes at 0x10000)"
        );
        ranges.remove(0x10000);
        let text = ranges.describe(0x10008);
        assert!(
            text.ends_with("the most recent free: use after free"),
            "{text}"
        );
    }
}
