//! Current and former owners of addresses, so that a fault names the buffer.

use std::collections::{BTreeMap, VecDeque};
use std::iter::once;
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
    /// How many there were.
    count: u64,
}

#[derive(Clone)]
struct Range {
    /// Tells it from others at the same address.
    number: u64,
    bytes: u64,
    what: Box<str>,
    /// Older ones that begin at the same address: memory that is imported twice, or as a part of other memory.
    under: Vec<Range>,
}

impl Ranges {
    /// Notes that `bytes` bytes at `va` are `what` from now on. Its number, for [`Ranges::remove`].
    pub fn insert(&self, va: u64, bytes: u64, what: &str) -> u64 {
        let mut state = self.lock();
        state.count += 1;
        let number = state.count;
        let old = state.live.remove(&va);
        let under = old.map_or_else(Vec::new, |mut old| {
            let mut under = std::mem::take(&mut old.under);
            under.push(old);
            under
        });
        let new = Range {
            number,
            bytes,
            what: what.into(),
            under,
        };
        state.live.insert(va, new);
        number
    }

    /// Notes that what has started at `va` by that number is freed. Bytes that others have there are not.
    pub fn remove(&self, va: u64, number: u64) {
        let mut state = self.lock();
        let Some(mut top) = state.live.remove(&va) else {
            return;
        };
        let mut all = std::mem::take(&mut top.under);
        all.push(top);
        let found = all.iter().position(|range| range.number == number);
        let gone = found.map(|at| all.remove(at));
        let gone = gone.filter(|gone| all.iter().all(|other| other.bytes < gone.bytes));
        if let Some(mut top) = all.pop() {
            top.under = all;
            state.live.insert(va, top);
        }
        if let Some(gone) = gone {
            state.freed.truncate(HISTORY - 1);
            state.freed.push_front((va, gone));
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
        // The youngest that reaches so far.
        let inside = below.and_then(|(&start, range)| {
            let mut all = once(range).chain(range.under.iter().rev());
            Some((start, all.find(|range| va - start < range.bytes)?))
        });
        if let Some((start, range)) = inside {
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
        let tensor = ranges.insert(0x10000, 0x1000, "tensor memory");
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
        ranges.remove(0x10000, tensor);
        assert_eq!(
            ranges.describe(0x10fff),
            "at offset 0xfff of tensor memory (0x1000 bytes at 0x10000), the most recent free: use after free"
        );
        for i in 0..HISTORY as u64 {
            let number = ranges.insert(0x100_0000 + i * 4096, 4096, "x");
            ranges.remove(0x100_0000 + i * 4096, number);
        }
        assert!(
            ranges
                .describe(0x10fff)
                .ends_with("before a ring (0x2000 bytes at 0x20000)")
        );
        assert!(ranges.describe(0x100_0000).contains("freed 255 frees ago"));
        ranges.remove(0x77, tensor);
    }

    #[test]
    fn memory_that_is_there_twice_is_freed_with_the_last() {
        let ranges = Ranges::default();
        let all = ranges.insert(0x10000, 0x1000, "memory of the process");
        let parts = [(); 2].map(|()| ranges.insert(0x10000, 0x800, "imported memory"));
        let live = "at offset 0x8 of imported memory (0x800 bytes at 0x10000)";
        assert_eq!(ranges.describe(0x10008), live);
        ranges.remove(0x10000, parts[0]);
        assert_eq!(ranges.describe(0x10008), live);
        // What reaches farther is under it.
        let rest = "at offset 0xff8 of memory of the process (0x1000 bytes at 0x10000)";
        assert_eq!(ranges.describe(0x10ff8), rest);
        ranges.remove(0x10000, parts[1]);
        assert_eq!(ranges.describe(0x10ff8), rest);
        ranges.remove(0x10000, all);
        let text = ranges.describe(0x10008);
        assert!(
            text.ends_with("the most recent free: use after free"),
            "{text}"
        );
    }

    /// Whichever of two goes first, the other one is there.
    #[test]
    fn the_one_that_is_freed_is_the_one_that_goes() {
        let ranges = Ranges::default();
        let short = ranges.insert(0x10000, 0x1000, "a frame");
        let long = ranges.insert(0x10000, 0x2000, "a ring of frames");
        ranges.remove(0x10000, short);
        assert_eq!(
            ranges.describe(0x11800),
            "at offset 0x1800 of a ring of frames (0x2000 bytes at 0x10000)"
        );
        let short = ranges.insert(0x10000, 0x1000, "a frame");
        ranges.remove(0x10000, long);
        assert_eq!(
            ranges.describe(0x10008),
            "at offset 0x8 of a frame (0x1000 bytes at 0x10000)"
        );
        // What nobody has any more is freed.
        let text = ranges.describe(0x11800);
        assert!(
            text.starts_with("at offset 0x1800 of a ring of frames"),
            "{text}"
        );
        assert!(text.contains("use after free"), "{text}");
        ranges.remove(0x10000, short);
        ranges.remove(0x10000, short);
    }
}
