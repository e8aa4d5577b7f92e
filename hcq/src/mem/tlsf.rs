//! Two-level segregated fit over a range of addresses: VRAM, or a device's virtual addresses.
//!
//! Free blocks are kept in classes by size: the power of two, then one of 16 parts of it. Finding
//! a block and joining freed neighbours take constant time. Unlike the classic allocator it
//! stores nothing in the memory it manages, which the host may not even reach.
//!
//! Source of the method: Masmano et al., "TLSF: a new dynamic memory allocator for real-time
//! systems", ECRTS 2004.

use std::collections::HashMap;

use thiserror::Error;

/// Parts of each power of two, as log2.
const SPLIT_BITS: u32 = 4;
const SPLITS: usize = 1 << SPLIT_BITS;
const CLASSES: usize = 64 * SPLITS;

/// Why the allocator refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TlsfError {
    /// The range cannot be managed.
    #[error("range of {size:#x} bytes at {base:#x} cannot be managed in granules of {granule:#x}")]
    BadRange {
        /// Start.
        base: u64,
        /// Length.
        size: u64,
        /// Smallest block.
        granule: u64,
    },
    /// A size of zero, or an alignment that is not a power of two.
    #[error(
        "cannot allocate {asked:#x} bytes aligned to {align:#x}: size is 0 or alignment no power of two"
    )]
    BadRequest {
        /// Bytes asked for.
        asked: u64,
        /// Alignment asked for.
        align: u64,
    },
    /// No free block holds it.
    #[error(
        "cannot allocate {asked:#x} bytes aligned to {align:#x}: {free:#x} of {size:#x} free, \
         largest block {largest:#x}"
    )]
    OutOfSpace {
        /// Bytes asked for.
        asked: u64,
        /// Alignment asked for.
        align: u64,
        /// Bytes managed.
        size: u64,
        /// Bytes free.
        free: u64,
        /// Bytes of the largest free block.
        largest: u64,
    },
    /// No allocation starts there: freed twice, or never allocated.
    #[error("no allocation at {addr:#x}: freed twice, or from another allocator")]
    NotAllocated {
        /// Address that was to be freed.
        addr: u64,
    },
}

/// How the range is used. All in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsfStats {
    /// Bytes managed.
    pub size: u64,
    /// Bytes allocated, rounding included.
    pub used: u64,
    /// Bytes free.
    pub free: u64,
    /// Bytes of the largest free block.
    pub largest: u64,
    /// Number of allocations.
    pub allocations: usize,
}

/// Index of a block; `NONE` ends a list.
type Id = u32;
const NONE: Id = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Block {
    start: u64,
    size: u64,
    free: bool,
    /// Neighbours by address.
    below: Id,
    above: Id,
    /// Neighbours in the list of the class, while free.
    prev: Id,
    next: Id,
}

/// Allocator of sub-ranges of one range of addresses.
#[derive(Debug)]
pub struct Tlsf {
    base: u64,
    size: u64,
    granule: u64,
    used: u64,
    blocks: Vec<Block>,
    /// Entries of `blocks` that can be used again.
    spare: Vec<Id>,
    heads: Vec<Id>,
    /// One bit per power of two with a free block; per power, one bit per part.
    powers: u64,
    parts: [u16; 64],
    allocated: HashMap<u64, Id>,
}

/// Class in which a block of `size` bytes is kept.
fn class(size: u64) -> usize {
    let power = size.ilog2();
    let part = if power >= SPLIT_BITS {
        (size >> (power - SPLIT_BITS)) as usize & (SPLITS - 1)
    } else {
        (size << (SPLIT_BITS - power)) as usize & (SPLITS - 1)
    };
    power as usize * SPLITS + part
}

impl Tlsf {
    /// Manages `size` bytes at `base`; sizes and starts are multiples of `granule` (power of two).
    ///
    /// # Errors
    /// [`TlsfError::BadRange`]: not aligned to the granule, empty, or beyond 64 bits.
    pub fn new(base: u64, size: u64, granule: u64) -> Result<Tlsf, TlsfError> {
        let fits = base.checked_add(size).is_some();
        if !granule.is_power_of_two() || size == 0 || (base | size) & (granule - 1) != 0 || !fits {
            return Err(TlsfError::BadRange {
                base,
                size,
                granule,
            });
        }
        let mut tlsf = Tlsf {
            base,
            size,
            granule,
            used: 0,
            blocks: Vec::new(),
            spare: Vec::new(),
            heads: vec![NONE; CLASSES],
            powers: 0,
            parts: [0; 64],
            allocated: HashMap::new(),
        };
        let all = tlsf.new_block(base, size, NONE, NONE);
        tlsf.link(all);
        Ok(tlsf)
    }

    /// Start of the managed range.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Allocates `asked` bytes at a multiple of `align` (power of two). Fails only when no free
    /// block can hold it.
    ///
    /// # Errors
    /// [`TlsfError::BadRequest`], [`TlsfError::OutOfSpace`].
    pub fn alloc(&mut self, asked: u64, align: u64) -> Result<u64, TlsfError> {
        if asked == 0 || !align.is_power_of_two() {
            return Err(TlsfError::BadRequest { asked, align });
        }
        let align = align.max(self.granule);
        let found = asked
            .checked_next_multiple_of(self.granule)
            .and_then(|size| self.find(size, align).map(|id| (size, id)));
        let Some((size, id)) = found else {
            let TlsfStats {
                size,
                free,
                largest,
                ..
            } = self.stats();
            return Err(TlsfError::OutOfSpace {
                asked,
                align,
                size,
                free,
                largest,
            });
        };
        self.unlink(id);
        let start = self.block(id).start.next_multiple_of(align);
        let mut id = id;
        if start > self.block(id).start {
            let gap = id;
            id = self.cut(gap, start - self.block(gap).start);
            self.link(gap);
        }
        if self.block(id).size > size {
            let rest = self.cut(id, size);
            self.link(rest);
        }
        self.block_mut(id).free = false;
        self.used += size;
        self.allocated.insert(start, id);
        Ok(start)
    }

    /// Frees the allocation that starts at `addr` and joins it with free neighbours. Returns its
    /// size in bytes.
    ///
    /// # Errors
    /// [`TlsfError::NotAllocated`].
    pub fn free(&mut self, addr: u64) -> Result<u64, TlsfError> {
        let id = self
            .allocated
            .remove(&addr)
            .ok_or(TlsfError::NotAllocated { addr })?;
        let Block {
            size, below, above, ..
        } = *self.block(id);
        self.used -= size;
        let mut id = id;
        if above != NONE && self.block(above).free {
            self.unlink(above);
            self.join(id, above);
        }
        if below != NONE && self.block(below).free {
            self.unlink(below);
            self.join(below, id);
            id = below;
        }
        self.link(id);
        Ok(size)
    }

    /// Bytes of the allocation that starts at `addr`, if one does.
    pub fn size_of(&self, addr: u64) -> Option<u64> {
        self.allocated.get(&addr).map(|&id| self.block(id).size)
    }

    /// How the range is used.
    pub fn stats(&self) -> TlsfStats {
        TlsfStats {
            size: self.size,
            used: self.used,
            free: self.size - self.used,
            largest: self.largest(),
            allocations: self.allocated.len(),
        }
    }

    fn largest(&self) -> u64 {
        let Some(power) = self.powers.checked_ilog2() else {
            return 0;
        };
        let part = self.parts[power as usize].checked_ilog2().unwrap_or(0);
        let class = power as usize * SPLITS + part as usize;
        self.list(class)
            .map(|id| self.block(id).size)
            .max()
            .unwrap_or(0)
    }

    /// A free block in which `size` bytes aligned to `align` have a place.
    fn find(&self, size: u64, align: u64) -> Option<Id> {
        // Any block of this size has such a place, whatever its start; the first class in which
        // every block is at least that large is found by its bit.
        if let Some(worst) = size.checked_add(align - self.granule) {
            let rounding = (1u64 << worst.ilog2() >> SPLIT_BITS).max(1) - 1;
            if let Some(up) = worst.checked_add(rounding)
                && let Some(class) = self.class_from(class(up))
            {
                return Some(self.heads[class]);
            }
        }
        // Rare: search for a smaller block with a suitable alignment.
        let mut at = self.class_from(class(size));
        while let Some(class) = at {
            if let Some(id) = self.list(class).find(|&id| self.holds(id, size, align)) {
                return Some(id);
            }
            at = self.class_from(class + 1);
        }
        None
    }

    fn holds(&self, id: Id, size: u64, align: u64) -> bool {
        let Block {
            start, size: have, ..
        } = *self.block(id);
        let place = start.checked_next_multiple_of(align);
        place
            .and_then(|p| p.checked_add(size))
            .is_some_and(|end| end <= start + have)
    }

    /// The first class from `class` on that has a block.
    fn class_from(&self, class: usize) -> Option<usize> {
        let (power, part) = (class / SPLITS, class % SPLITS);
        if power >= 64 {
            return None;
        }
        let parts = self.parts[power] & (u16::MAX << part);
        if parts != 0 {
            return Some(power * SPLITS + parts.trailing_zeros() as usize);
        }
        let powers = self.powers & (u64::MAX << power) & !(1 << power);
        if powers == 0 {
            return None;
        }
        let power = powers.trailing_zeros() as usize;
        Some(power * SPLITS + self.parts[power].trailing_zeros() as usize)
    }

    fn list(&self, class: usize) -> impl Iterator<Item = Id> + '_ {
        let some = |id: Id| (id != NONE).then_some(id);
        std::iter::successors(some(self.heads[class]), move |&id| {
            some(self.block(id).next)
        })
    }

    /// PANIC: ids come from `new_block` and are dropped from every list before they are spare.
    fn block(&self, id: Id) -> &Block {
        &self.blocks[id as usize]
    }

    fn block_mut(&mut self, id: Id) -> &mut Block {
        &mut self.blocks[id as usize]
    }

    fn new_block(&mut self, start: u64, size: u64, below: Id, above: Id) -> Id {
        let block = Block {
            start,
            size,
            free: false,
            below,
            above,
            prev: NONE,
            next: NONE,
        };
        if let Some(id) = self.spare.pop() {
            *self.block_mut(id) = block;
            return id;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as Id
    }

    /// Puts a block into the list of its class.
    fn link(&mut self, id: Id) {
        let class = class(self.block(id).size);
        let next = std::mem::replace(&mut self.heads[class], id);
        if next != NONE {
            self.block_mut(next).prev = id;
        }
        let block = self.block_mut(id);
        (block.free, block.prev, block.next) = (true, NONE, next);
        self.powers |= 1 << (class / SPLITS);
        self.parts[class / SPLITS] |= 1 << (class % SPLITS);
    }

    /// Takes a free block out of its list.
    fn unlink(&mut self, id: Id) {
        let Block {
            size, prev, next, ..
        } = *self.block(id);
        let class = class(size);
        if next != NONE {
            self.block_mut(next).prev = prev;
        }
        if prev != NONE {
            self.block_mut(prev).next = next;
        } else {
            self.heads[class] = next;
            if next == NONE {
                self.parts[class / SPLITS] &= !(1 << (class % SPLITS));
                if self.parts[class / SPLITS] == 0 {
                    self.powers &= !(1 << (class / SPLITS));
                }
            }
        }
        self.block_mut(id).free = false;
    }

    /// Shortens a block to `size` and returns the new block above it.
    fn cut(&mut self, id: Id, size: u64) -> Id {
        let Block {
            start,
            size: whole,
            above,
            ..
        } = *self.block(id);
        let rest = self.new_block(start + size, whole - size, id, above);
        if above != NONE {
            self.block_mut(above).below = rest;
        }
        let block = self.block_mut(id);
        (block.size, block.above) = (size, rest);
        rest
    }

    /// Adds `above` to `id`, its neighbour.
    fn join(&mut self, id: Id, above: Id) {
        let Block {
            size, above: next, ..
        } = *self.block(above);
        if next != NONE {
            self.block_mut(next).below = id;
        }
        let block = self.block_mut(id);
        block.size += size;
        block.above = next;
        self.spare.push(above);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn errors_say_what_there_is() {
        let mut tlsf = Tlsf::new(0x1000, 0x4000, 0x1000).unwrap();
        let a = tlsf.alloc(0x1000, 1).unwrap();
        let b = tlsf.alloc(1, 1).unwrap();
        tlsf.alloc(0x1000, 1).unwrap();
        tlsf.free(a).unwrap();
        assert_eq!(
            tlsf.alloc(0x1001, 1).unwrap_err().to_string(),
            "cannot allocate 0x1001 bytes aligned to 0x1000: 0x2000 of 0x4000 free, largest block \
             0x1000"
        );
        assert_eq!((tlsf.stats().free, tlsf.stats().largest), (0x2000, 0x1000));
        assert_eq!(tlsf.free(b), Ok(0x1000));
        assert_eq!(tlsf.free(b), Err(TlsfError::NotAllocated { addr: b }));
        assert!(matches!(
            tlsf.alloc(0, 1),
            Err(TlsfError::BadRequest { .. })
        ));
        assert!(matches!(
            tlsf.alloc(1, 3),
            Err(TlsfError::BadRequest { .. })
        ));
        assert!(matches!(
            tlsf.alloc(u64::MAX, 1),
            Err(TlsfError::OutOfSpace { .. })
        ));
        for (base, size, granule) in [(0, 0, 16), (8, 16, 16), (0, 16, 3), (!15, 32, 16)] {
            assert!(Tlsf::new(base, size, granule).is_err());
        }
    }

    #[test]
    fn the_last_byte_can_be_used() {
        let mut tlsf = Tlsf::new(0, 1 << 44, 4096).unwrap();
        assert_eq!(tlsf.alloc(1 << 44, 1 << 44), Ok(0));
        assert_eq!(tlsf.stats().largest, 0);
        tlsf.free(0).unwrap();
        let top = !0xfffu64;
        let mut high = Tlsf::new(top - 0x1000, 0x1000, 16).unwrap();
        assert!(high.alloc(0x1000, 0x1000).is_ok());
    }

    proptest! {
        /// No overlap, alignment, success exactly when some gap holds the request, all back.
        #[test]
        fn agrees_with_a_list_of_ranges(
            base in 0u64..64,
            size in 1u64..400,
            granule in prop::sample::select(vec![1u64, 16, 4096]),
            steps in prop::collection::vec((any::<bool>(), 1u64..100_000, 0u32..16, any::<usize>()), 1..200),
        ) {
            let (base, size) = (base * granule, size * granule);
            let mut tlsf = Tlsf::new(base, size, granule).unwrap();
            let mut live: BTreeMap<u64, u64> = BTreeMap::new();
            for (alloc, bytes, align, pick) in steps {
                if alloc {
                    let bytes = bytes % (size * 5 / 4) + 1;
                    let (need, align) = (bytes.next_multiple_of(granule), 1u64 << align);
                    let mut gaps = vec![];
                    let mut at = base;
                    for (&s, &n) in live.iter().chain([(&(base + size), &0)]) {
                        gaps.push((at, s));
                        at = s + n;
                    }
                    let wanted = align.max(granule);
                    let fits = gaps.iter().any(|&(s, e)| s.next_multiple_of(wanted) + need <= e);
                    let largest = gaps.iter().map(|&(s, e)| e - s).max().unwrap();
                    prop_assert_eq!(tlsf.stats().largest, largest);
                    match tlsf.alloc(bytes, align) {
                        Ok(start) => {
                            prop_assert!(start.is_multiple_of(wanted));
                            prop_assert!(gaps.iter().any(|&(s, e)| s <= start && start + need <= e));
                            prop_assert_eq!(tlsf.size_of(start), Some(need));
                            live.insert(start, need);
                        }
                        Err(error) => prop_assert!(!fits, "{}", error),
                    }
                } else if !live.is_empty() {
                    let start = *live.keys().nth(pick % live.len()).unwrap();
                    prop_assert_eq!(tlsf.free(start).ok(), live.remove(&start));
                }
                prop_assert_eq!(tlsf.stats().used, live.values().sum::<u64>());
                prop_assert_eq!(tlsf.stats().allocations, live.len());
            }
            for start in live.keys() {
                tlsf.free(*start).unwrap();
            }
            prop_assert_eq!(tlsf.stats(), TlsfStats { size, used: 0, free: size, largest: size, allocations: 0 });
        }
    }
}
