//! Places for temporaries in one arena: blocks whose lifetimes do not touch may share bytes.

/// A temporary: a block of the arena while it lives.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    /// Size.
    pub bytes: u64,
    /// The step that writes it first.
    pub first: usize,
    /// The last step that uses it.
    pub last: usize,
}

/// Where each block is.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// Offset of each block, a multiple of [`ALIGN`].
    pub offsets: Vec<u64>,
    /// Size of the arena.
    pub bytes: u64,
    /// Size without sharing.
    pub unplanned: u64,
    /// Maximum size of live blocks at a time: a lower bound of the arena.
    pub bound: u64,
}

/// A cache line, and a vector of any CPU.
pub const ALIGN: u64 = 64;

/// More than any device has: an arena with a block of this size is refused, whatever its real size,
/// and sums of such sizes do not overflow.
const MOST: u64 = 1 << 48;

fn rounded(bytes: u64) -> u64 {
    bytes.min(MOST).div_ceil(ALIGN) * ALIGN
}

impl Arena {
    /// Every block at its own offset, for comparison.
    pub fn side_by_side(blocks: &[Lifetime]) -> Arena {
        let mut arena = Arena {
            bound: bound(blocks),
            ..Arena::default()
        };
        for block in blocks {
            arena.offsets.push(arena.bytes);
            arena.bytes += rounded(block.bytes);
        }
        arena.unplanned = arena.bytes;
        arena
    }

    /// The better of two orders: largest block first, and in order of time.
    pub fn new(blocks: &[Lifetime]) -> Arena {
        let mut by_size: Vec<usize> = (0..blocks.len()).collect();
        by_size.sort_by_key(|&i| (std::cmp::Reverse(blocks[i].bytes), blocks[i].first));
        let mut by_time: Vec<usize> = (0..blocks.len()).collect();
        by_time.sort_by_key(|&i| (blocks[i].first, std::cmp::Reverse(blocks[i].bytes)));
        let (a, b) = (place(blocks, &by_size), place(blocks, &by_time));
        let (bytes, offsets) = if a.0 <= b.0 { a } else { b };
        Arena {
            offsets,
            bytes,
            unplanned: blocks.iter().map(|b| rounded(b.bytes)).sum(),
            bound: bound(blocks),
        }
    }
}

/// Best fit: each block into the smallest gap between the placed blocks that live with it.
fn place(blocks: &[Lifetime], order: &[usize]) -> (u64, Vec<u64>) {
    let mut offsets = vec![0u64; blocks.len()];
    // Placed blocks by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(blocks.len());
    let mut top = 0;
    for &i in order {
        let block = blocks[i];
        let size = rounded(block.bytes);
        let (mut free_from, mut best): (u64, Option<(u64, u64)>) = (0, None);
        for &other in &placed {
            let there = blocks[other];
            if there.last < block.first || block.last < there.first {
                continue;
            }
            let gap = offsets[other].saturating_sub(free_from);
            if gap >= size && best.is_none_or(|(g, _)| gap < g) {
                best = Some((gap, free_from));
            }
            free_from = free_from.max(offsets[other] + rounded(there.bytes));
        }
        let at = best.map_or(free_from, |(_, at)| at);
        offsets[i] = at;
        top = top.max(at + size);
        let position = placed.partition_point(|&p| offsets[p] <= at);
        placed.insert(position, i);
    }
    (top, offsets)
}

fn bound(blocks: &[Lifetime]) -> u64 {
    let mut changes: Vec<(usize, bool, u64)> = Vec::new();
    for block in blocks {
        changes.push((block.first, true, rounded(block.bytes)));
        changes.push((block.last + 1, false, rounded(block.bytes)));
    }
    // Ends before starts at one step.
    changes.sort_unstable_by_key(|c| (c.0, c.1));
    let (mut now, mut most) = (0, 0);
    for (_, start, bytes) in changes {
        if start {
            now += bytes;
            most = most.max(now);
        } else {
            now -= bytes;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn live_blocks_never_overlap(
            raw in proptest::collection::vec((1u64..5000, 0usize..40, 0usize..12), 0..60)
        ) {
            let blocks: Vec<Lifetime> = raw
                .iter()
                .map(|&(bytes, first, len)| Lifetime { bytes, first, last: first + len })
                .collect();
            for arena in [Arena::new(&blocks), Arena::side_by_side(&blocks)] {
                prop_assert!(arena.bytes >= arena.bound);
                prop_assert!(arena.bytes <= arena.unplanned);
                for (i, a) in blocks.iter().enumerate() {
                    prop_assert!(arena.offsets[i] + a.bytes <= arena.bytes);
                    prop_assert_eq!(arena.offsets[i] % ALIGN, 0);
                    for (j, b) in blocks.iter().enumerate().skip(i + 1) {
                        let together = a.first <= b.last && b.first <= a.last;
                        let (x, y) = (arena.offsets[i], arena.offsets[j]);
                        let apart = x + a.bytes <= y || y + b.bytes <= x;
                        prop_assert!(!together || apart, "{a:?} at {x}, {b:?} at {y}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_chain_takes_two_places() {
        let blocks: Vec<Lifetime> = (0..10)
            .map(|i| Lifetime {
                bytes: 1 << 20,
                first: i,
                last: i + 1,
            })
            .collect();
        assert_eq!(Arena::new(&blocks).bytes, 2 << 20);
    }
}
