//! Page tables, generic over the format of the entries and over where the tables lie.
//!
//! [`PteFormat`] says how many levels there are, which of them may hold leaves, and how entries are
//! encoded. [`TableMemory`] gives the memory of tables: a [`Window`] each, of VRAM through a BAR or
//! behind a USB bridge. [`PageTable`] maps, unmaps and translates.
//!
//! * **Tables are written, never read.** What is mapped is known here, and what each entry holds
//!   follows from that alone: the largest page that alignment and the ends of the mapping allow, and
//!   no table where nothing is mapped.
//! * **Neighbouring entries are one write.** A new table is written once, whole, before the entry
//!   that leads to it. Writes are queued as those of any [`Window`]: the register that invalidates the
//!   TLB comes after them.
//! * **All or nothing.** The range is checked and all tables are allocated before anything is written.
//! * Entries carry a fragment where the format has it: the size of the aligned, contiguous run they
//!   belong to, which lets the TLB keep one entry for it. Unmapping part of a page or run writes what
//!   is left of it anew.
//! * Tables that became empty are handed out as [`Retired`]: the device may still walk them until its
//!   TLB is invalidated, and only then may they be used again.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::addr::{AddrError, GpuVa, PhysAddr};
use crate::error::Error as QueueError;
use crate::mem::window::Window;
use crate::transport::TransportError;

/// One level of a page table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Bits of the address that index a table of this level.
    pub index_bits: u32,
    /// Lowest of them: an entry covers `1 << shift` bytes.
    pub shift: u32,
    /// Bytes of an entry: 8 or 16.
    pub entry_bytes: u32,
    /// Whether an entry may map a page. At the last level it must.
    pub leaf: bool,
}

impl Level {
    const fn page(&self) -> u64 {
        1 << self.shift
    }

    const fn table_bytes(&self) -> u64 {
        (self.entry_bytes as u64) << self.index_bits
    }

    /// Bytes of address space under one table.
    const fn span(&self) -> u64 {
        1 << (self.shift + self.index_bits)
    }
}

/// Attributes of a page entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf<A> {
    /// Where the page is, aligned to it.
    pub to: PhysAddr,
    /// Access rights and caching.
    pub attr: A,
    /// Log2 of the bytes of the contiguous run the page belongs to; at least its own size.
    pub run: u32,
}

/// How the entries of a page table are encoded. An entry of zeros is invalid at every level.
pub trait PteFormat {
    /// Rights and caching of a page.
    type Attr: Copy + PartialEq + std::fmt::Debug;

    /// The levels, root first; the shifts join without gaps.
    fn levels(&self) -> &[Level];

    /// Log2 of the bytes of the largest run an entry of `level` can be told to belong to;
    /// `levels()[level].shift` where the format has no fragments.
    fn max_run(&self, level: usize) -> u32;

    /// The entry that leads to a table of the next level.
    fn encode_table(&self, level: usize, table: PhysAddr) -> u128;

    /// The entry that maps a page.
    fn encode_leaf(&self, level: usize, leaf: Leaf<Self::Attr>) -> u128;
}

/// The memory of a table.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Where it is for the device, as entries hold it.
    pub at: PhysAddr,
    /// The host window to it, from its first byte on.
    pub window: Window,
}

/// Where tables lie.
pub trait TableMemory {
    /// Memory for a table of `bytes` bytes, aligned to that. It need not be zero.
    ///
    /// # Errors
    /// No memory.
    fn alloc(&mut self, bytes: u64) -> Result<Frame, QueueError>;

    /// Takes it back.
    fn free(&mut self, frame: Frame);
}

/// Why a page table operation was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// The levels of the format do not make a page table.
    #[error(
        "page table format: level {level} does not adjoin the next one, or has page sizes that \
         the next one lacks"
    )]
    BadFormat {
        /// First wrong level.
        level: usize,
    },
    /// An address or length that is not a multiple of the smallest page, or a length of zero.
    #[error(
                "va {va}{}, {bytes:#x} bytes: not a multiple of the {page:#x}-byte page",
        .to.map_or_else(String::new, |to| format!(", to {to}"))
    )]
    Misaligned {
        /// Virtual address.
        va: GpuVa,
        /// Where it should lead; nowhere for unmap.
        to: Option<PhysAddr>,
        /// Length.
        bytes: u64,
        /// Smallest page.
        page: u64,
    },
    /// Outside the addresses that the table covers.
    #[error("{bytes:#x} bytes at va {va} are outside the {bits}-bit address space from {start}")]
    OutOfRange {
        /// Virtual address.
        va: GpuVa,
        /// Length.
        bytes: u64,
        /// Lowest address.
        start: GpuVa,
        /// Number of address bits above it.
        bits: u32,
    },
    /// The range ends past the last 64-bit address.
    #[error(transparent)]
    Beyond(#[from] AddrError),
    /// Part of the range is mapped.
    #[error("va {va} is already mapped to {to} ({page:#x}-byte page)")]
    AlreadyMapped {
        /// First such address.
        va: GpuVa,
        /// Where it is mapped to.
        to: PhysAddr,
        /// Size of its page.
        page: u64,
    },
    /// Part of the range is not mapped.
    #[error("va {va} is not mapped")]
    NotMapped {
        /// First such address.
        va: GpuVa,
    },
    /// There is no memory for a table. Nothing has changed.
    #[error("cannot allocate a page table: {0}")]
    NoTable(#[source] QueueError),
    /// A table could not be written. Its contents are unknown: the device is lost.
    #[error("cannot write a page table: {0}")]
    Access(#[source] TransportError),
}

/// Tables that are no longer reachable but that the device may still hold in its caches.
#[derive(Debug, Default)]
#[must_use = "invalidate the device's TLB, then give it to PageTable::release"]
pub struct Retired(Vec<Frame>);

impl Retired {
    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.0.len()
    }
}

/// Contiguous addresses that lead to contiguous memory. Which pages it is made of follows from it.
#[derive(Debug, Clone, Copy)]
struct Mapping<A> {
    start: u64,
    end: u64,
    to: PhysAddr,
    attr: A,
}

impl<A: Copy> Mapping<A> {
    /// Where an address inside leads.
    fn to(&self, at: u64) -> PhysAddr {
        // The end was found to be an address: nothing inside overflows.
        self.to.add(at - self.start).unwrap_or(self.to)
    }

    /// Its part within a range.
    fn part(&self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (self.start.max(start), self.end.min(end));
        (start < end).then(|| Mapping {
            start,
            end,
            to: self.to(start),
            ..*self
        })
    }
}

/// The wanted contents of an entry.
enum Slot<A> {
    /// Invalid, as all entries before this address.
    Empty(u64),
    /// A page of a mapping, as all entries of its run; log2 of the bytes of the run.
    Pages(Mapping<A>, u32),
    /// The next table.
    Table,
}

/// A table: its level, and the first address under it.
type Key = (usize, u64);

/// A planned change; it is applied only if all of it is possible.
#[derive(Default)]
struct Plan {
    tables: BTreeMap<Key, Frame>,
    /// Words for an offset of a table, in the order of the writes.
    writes: Vec<(Window, u64, Vec<u64>)>,
}

/// A page table with its root.
pub struct PageTable<F: PteFormat, M: TableMemory> {
    format: F,
    memory: M,
    /// Lowest address; indices, and the addresses in the fields below, count from it.
    start: GpuVa,
    /// What is mapped, by its start.
    mappings: BTreeMap<u64, Mapping<F::Attr>>,
    tables: BTreeMap<Key, Frame>,
}

impl<F: PteFormat, M: TableMemory> PageTable<F, M> {
    /// An empty page table for the addresses from `start` on, a multiple of what one table with the
    /// largest pages covers; allocates the root.
    ///
    /// # Errors
    /// [`PageError`]: a format that is none, a start that is not aligned, no memory.
    pub fn new(format: F, memory: M, start: GpuVa) -> Result<Self, PageError> {
        let levels = format.levels();
        for (level, this) in levels.iter().enumerate() {
            let below = levels
                .get(level + 1)
                .map_or(this.shift, |l| l.shift + l.index_bits);
            let last = level + 1 == levels.len();
            let entry = this.entry_bytes == 8 || this.entry_bytes == 16;
            // A page is split into pages of the next level, which must be able to hold them.
            let splits = !this.leaf || levels.get(level + 1).is_none_or(|l| l.leaf);
            if !splits
                || below != this.shift
                || this.shift + this.index_bits > 63
                || !entry
                || last && !this.leaf
            {
                return Err(PageError::BadFormat { level });
            }
        }
        let first = levels.first().ok_or(PageError::BadFormat { level: 0 })?;
        // Blocks that are aligned from there on have to be so for the TLB.
        let largest = levels.iter().find(|level| level.leaf).unwrap_or(first);
        if !start.is_aligned(largest.span()) || start.add(first.span()).is_err() {
            return Err(PageError::Misaligned {
                va: start,
                to: None,
                bytes: first.span(),
                page: largest.span(),
            });
        }
        let mut table = PageTable {
            format,
            memory,
            start,
            mappings: BTreeMap::new(),
            tables: BTreeMap::new(),
        };
        // The root is what an update of nothing finds missing.
        table.update(0, 0)?;
        Ok(table)
    }

    /// Where the root table is.
    pub fn root(&self) -> PhysAddr {
        // PANIC: `new` allocates it, and nothing retires it.
        self.tables[&(0, 0)].at
    }

    /// Memory of the tables.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Number of tables besides the root.
    pub fn tables(&self) -> usize {
        self.tables.len() - 1
    }

    /// Maps pieces of memory, with their lengths in bytes, one behind the other from `va` on. Pieces
    /// that join are mapped as one.
    ///
    /// # Errors
    /// [`PageError`]; then nothing is mapped.
    pub fn map(
        &mut self,
        va: GpuVa,
        pieces: &[(PhysAddr, u64)],
        attr: F::Attr,
    ) -> Result<(), PageError> {
        let bytes = pieces
            .iter()
            .try_fold(0u64, |sum, (_, bytes)| sum.checked_add(*bytes));
        // Too many to count are too many.
        let bytes = bytes.unwrap_or(!(self.page() - 1));
        let (start, end) = self.range(va, None, bytes)?;
        let mut new: Vec<Mapping<F::Attr>> = Vec::new();
        let mut at = start;
        for &(to, bytes) in pieces {
            let (start, end) = self.range(self.va(at), Some(to), bytes)?;
            to.add(bytes)?;
            match new.last_mut() {
                Some(last) if last.to.add(start - last.start) == Ok(to) => last.end = end,
                _ => new.push(Mapping {
                    start,
                    end,
                    to,
                    attr,
                }),
            }
            at = end;
        }
        if let Some(taken) = self.next(start)
            && taken.start < end
        {
            let at = taken.start.max(start);
            let (depth, _) = self.block(taken, at);
            return Err(PageError::AlreadyMapped {
                va: self.va(at),
                to: taken.to(at),
                page: self.format.levels()[depth].page(),
            });
        }
        self.mappings.extend(new.iter().map(|m| (m.start, *m)));
        let done = self.update(start, end);
        if done.is_err() {
            new.iter().for_each(|m| _ = self.mappings.remove(&m.start));
        }
        done
    }

    /// Unmaps `bytes` bytes at `va`, all of which must be mapped. After it the device's TLB has
    /// to be invalidated, then the result given to [`PageTable::release`].
    ///
    /// # Errors
    /// [`PageError`]; then everything is mapped as before.
    pub fn unmap(&mut self, va: GpuVa, bytes: u64) -> Result<Retired, PageError> {
        let (start, end) = self.range(va, None, bytes)?;
        let mut old = Vec::new();
        let mut at = start;
        while at < end {
            match self.next(at) {
                Some(mapping) if mapping.start <= at => {
                    at = mapping.end;
                    old.push(*mapping);
                }
                _ => return Err(PageError::NotMapped { va: self.va(at) }),
            }
        }
        let (Some(first), Some(last)) = (old.first(), old.last()) else {
            return Err(PageError::NotMapped { va });
        };
        // The page or run at an end of the range is rewritten; the rest is kept.
        let (_, (from, _)) = self.block(first, start);
        let to = match end < last.end {
            true => match self.block(last, end).1 {
                (start, _) if start == end => end,
                (_, end) => end,
            },
            false => end,
        };
        let left = [first.part(0, start), last.part(end, u64::MAX)];
        let left: Vec<_> = left.into_iter().flatten().collect();
        old.iter().for_each(|m| _ = self.mappings.remove(&m.start));
        self.mappings.extend(left.iter().map(|m| (m.start, *m)));
        if let Err(error) = self.update(from, to) {
            left.iter().for_each(|m| _ = self.mappings.remove(&m.start));
            self.mappings.extend(old.iter().map(|m| (m.start, *m)));
            return Err(error);
        }
        Ok(self.retire(start, end))
    }

    /// Gives tables back, once the device's TLB was invalidated.
    pub fn release(&mut self, retired: Retired) {
        for frame in retired.0 {
            self.memory.free(frame);
        }
    }

    fn va(&self, at: u64) -> GpuVa {
        GpuVa(self.start.0.wrapping_add(at))
    }

    /// PANIC: `new` refused formats without levels.
    fn page(&self) -> u64 {
        let levels = self.format.levels();
        levels[levels.len() - 1].page()
    }

    /// Checks a range, and returns where it starts and ends, from the lowest address on.
    fn range(&self, va: GpuVa, to: Option<PhysAddr>, bytes: u64) -> Result<(u64, u64), PageError> {
        let page = self.page();
        if (va.0 | to.map_or(0, PhysAddr::raw) | bytes) & (page - 1) != 0 || bytes == 0 {
            return Err(PageError::Misaligned {
                va,
                to,
                bytes,
                page,
            });
        }
        let first = self.format.levels()[0];
        let range = va.offset_from(self.start).ok();
        let range = range.and_then(|start| Some((start, start.checked_add(bytes)?)));
        match range {
            Some((start, end)) if end <= first.span() => Ok((start, end)),
            _ => Err(PageError::OutOfRange {
                va,
                bytes,
                start: self.start,
                bits: first.shift + first.index_bits,
            }),
        }
    }

    /// The first mapping that ends after an address.
    fn next(&self, at: u64) -> Option<&Mapping<F::Attr>> {
        let before = self.mappings.range(..=at).next_back();
        let before = before.map(|(_, mapping)| mapping).filter(|m| m.end > at);
        before.or_else(|| self.mappings.range(at..).next().map(|(_, mapping)| mapping))
    }

    /// Log2 of the bytes of the run around an address, if a mapping is made of pages of a level there:
    /// the largest aligned block within it that the format can express.
    fn run(&self, depth: usize, mapping: &Mapping<F::Attr>, at: u64) -> Option<u32> {
        let level = self.format.levels()[depth];
        let most = level.shift + level.index_bits;
        let most = self.format.max_run(depth).clamp(level.shift, most);
        let both = mapping
            .to
            .raw()
            .wrapping_sub(mapping.start)
            .trailing_zeros();
        let fits = |run: &u32| {
            let first = at & !((1 << run) - 1);
            *run <= both && first >= mapping.start && first + (1 << run) <= mapping.end
        };
        let runs = (level.shift..=most).take_while(fits);
        level.leaf.then(|| runs.last()).flatten()
    }

    /// The level of the page around an address of a mapping, and the run that it belongs to.
    fn block(&self, mapping: &Mapping<F::Attr>, at: u64) -> (usize, (u64, u64)) {
        let mut levels = 0..self.format.levels().len();
        let found = levels.find_map(|depth| Some((depth, self.run(depth, mapping, at)?)));
        // PANIC: a mapping is made of smallest pages at least: `range` saw to that.
        let (depth, run) = found.unwrap_or((self.format.levels().len() - 1, 0));
        let start = at & !((1 << run) - 1);
        (depth, (start, start + (1 << run)))
    }

    /// What the entry of a level for an address has to hold.
    fn slot(&self, depth: usize, at: u64) -> Slot<F::Attr> {
        let page = self.format.levels()[depth].page();
        let Some(mapping) = self.next(at) else {
            return Slot::Empty(u64::MAX);
        };
        if mapping.start >= at + page {
            return Slot::Empty(mapping.start & !(page - 1));
        }
        match self.run(depth, mapping, at) {
            None => Slot::Table,
            Some(run) => Slot::Pages(*mapping, run),
        }
    }

    /// Makes the entries of a range hold what follows from the mappings.
    fn update(&mut self, from: u64, to: u64) -> Result<(), PageError> {
        let mut plan = Plan::default();
        if let Err(error) = self.plan((0, 0), from, to, &mut plan) {
            for frame in plan.tables.into_values() {
                self.memory.free(frame);
            }
            return Err(error);
        }
        self.tables.append(&mut plan.tables);
        let mut writes = plan.writes.into_iter();
        writes.try_for_each(|(window, offset, words)| {
            let written = window.write_words(offset, &words);
            written.map_err(PageError::Access)
        })
    }

    /// Plans the entries of a table for a range, and before them those of the tables below. A table
    /// that is missing is allocated, and gets all of its entries.
    fn plan(&mut self, key: Key, from: u64, to: u64, plan: &mut Plan) -> Result<(), PageError> {
        let (depth, first) = key;
        let level = self.format.levels()[depth];
        let (window, mut at, end) = match self.tables.get(&key) {
            Some(frame) => (frame.window.clone(), from & !(level.page() - 1), to),
            None => {
                let frame = self.memory.alloc(level.table_bytes());
                let frame = frame.map_err(PageError::NoTable)?;
                let window = frame.window.clone();
                plan.tables.insert(key, frame);
                (window, first, first + level.span())
            }
        };
        let per_entry = level.entry_bytes as usize / 8;
        let offset = |at: u64| (at - first) / level.page() * u64::from(level.entry_bytes);
        let push = |words: &mut Vec<u64>, entry: u128| {
            words.extend_from_slice(&[entry as u64, (entry >> 64) as u64][..per_entry]);
        };
        // Where the words go that are being gathered.
        let (mut start, mut words) = (at, Vec::new());
        while at < end {
            match self.slot(depth, at) {
                Slot::Empty(until) => {
                    let entries = (until.min(end) - at).div_ceil(level.page());
                    words.resize(words.len() + entries as usize * per_entry, 0);
                    at += entries * level.page();
                }
                Slot::Pages(mapping, run) => {
                    let until = (at | ((1 << run) - 1)) + 1;
                    while at < until {
                        let leaf = Leaf {
                            to: mapping.to(at),
                            attr: mapping.attr,
                            run,
                        };
                        push(&mut words, self.format.encode_leaf(depth, leaf));
                        at += level.page();
                    }
                }
                // PANIC: no table of the last level: its pages are the smallest.
                Slot::Table => {
                    let below = (depth + 1, at);
                    let next = at + level.page();
                    self.plan(below, from.max(at), to.min(next), plan)?;
                    match plan.tables.get(&below) {
                        Some(frame) => push(&mut words, self.format.encode_table(depth, frame.at)),
                        // Its entry is there.
                        None => {
                            let words = std::mem::take(&mut words);
                            plan.write(&window, offset(start), words);
                            start = next;
                        }
                    }
                    at = next;
                }
            }
        }
        plan.write(&window, offset(start), words);
        Ok(())
    }

    /// Takes out the tables for a range under which nothing is mapped. Their entries are gone: nothing
    /// is mapped for those either.
    fn retire(&mut self, from: u64, to: u64) -> Retired {
        let mut empty = Vec::new();
        for (depth, level) in self.format.levels().iter().enumerate().skip(1) {
            let first = from & !(level.span() - 1);
            let tables = self.tables.range((depth, first)..(depth, to));
            empty.extend(tables.map(|(key, _)| *key).filter(|&(_, first)| {
                let next = self.next(first);
                next.is_none_or(|mapping| mapping.start >= first + level.span())
            }));
        }
        let tables = empty.iter().filter_map(|key| self.tables.remove(key));
        Retired(tables.collect())
    }
}

impl Plan {
    fn write(&mut self, window: &Window, offset: u64, words: Vec<u64>) {
        if !words.is_empty() {
            self.writes.push((window.clone(), offset, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{BusAddr, VramAddr};
    use crate::mem::view::View;
    use crate::mem::window::{AccessWidth, Piece, RemoteWindow};
    use crate::transport::Fault;
    use crate::transport::cable::Cable;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    const START: GpuVa = GpuVa(0x2000_0000_0000);

    fn va(at: u64) -> GpuVa {
        GpuVa(START.0 + at)
    }

    fn vram(at: u64) -> PhysAddr {
        PhysAddr::Vram(VramAddr(at))
    }

    fn bus(at: u64) -> PhysAddr {
        PhysAddr::Bus(BusAddr(at))
    }

    /// An entry as a device takes it.
    enum Entry {
        Invalid,
        Table(u64),
        Leaf(Leaf<u8>),
    }

    trait Decode: PteFormat<Attr = u8> {
        fn decode(&self, level: usize, entry: u128) -> Entry;
    }

    const AMD: [Level; 4] = [
        Level {
            index_bits: 9,
            shift: 39,
            entry_bytes: 8,
            leaf: false,
        },
        Level {
            index_bits: 9,
            shift: 30,
            entry_bytes: 8,
            leaf: false,
        },
        Level {
            index_bits: 9,
            shift: 21,
            entry_bytes: 8,
            leaf: true,
        },
        Level {
            index_bits: 9,
            shift: 12,
            entry_bytes: 8,
            leaf: true,
        },
    ];

    /// Four levels of nine bits; valid 0, system 1, run 11:7 as log2 of pages, leaf mark 54.
    struct AmdLike;
    impl PteFormat for AmdLike {
        type Attr = u8;
        fn levels(&self) -> &[Level] {
            &AMD
        }
        fn max_run(&self, _: usize) -> u32 {
            12 + 31
        }
        fn encode_table(&self, _: usize, table: PhysAddr) -> u128 {
            u128::from(table.raw() | 1)
        }
        fn encode_leaf(&self, level: usize, leaf: Leaf<u8>) -> u128 {
            let mark = if level < 3 { 1 << 54 } else { 0 };
            let run = u64::from(leaf.run - 12) << 7;
            let system = if matches!(leaf.to, PhysAddr::Bus(_)) {
                2
            } else {
                0
            };
            u128::from(leaf.to.raw() | 1 | system | run | u64::from(leaf.attr & 7) << 4 | mark)
        }
    }
    impl Decode for AmdLike {
        fn decode(&self, level: usize, entry: u128) -> Entry {
            let e = entry as u64;
            let pa = e & 0xffff_ffff_f000;
            if e & 1 == 0 {
                Entry::Invalid
            } else if level == 3 || e >> 54 & 1 == 1 {
                Entry::Leaf(Leaf {
                    to: if e & 2 == 0 { vram(pa) } else { bus(pa) },
                    attr: (e >> 4 & 7) as u8,
                    run: 12 + (e >> 7 & 31) as u32,
                })
            } else {
                Entry::Table(pa)
            }
        }
    }

    const NV: [Level; 5] = [
        Level {
            index_bits: 2,
            shift: 47,
            entry_bytes: 8,
            leaf: false,
        },
        Level {
            index_bits: 9,
            shift: 38,
            entry_bytes: 8,
            leaf: false,
        },
        Level {
            index_bits: 9,
            shift: 29,
            entry_bytes: 8,
            leaf: true,
        },
        Level {
            index_bits: 8,
            shift: 21,
            entry_bytes: 16,
            leaf: true,
        },
        Level {
            index_bits: 9,
            shift: 12,
            entry_bytes: 8,
            leaf: true,
        },
    ];

    /// Uneven levels; tables by aperture 2:1, pages by valid 0, system 3; 16-byte entries with the
    /// table of small pages in the upper half; no runs.
    struct NvLike;
    impl PteFormat for NvLike {
        type Attr = u8;
        fn levels(&self) -> &[Level] {
            &NV
        }
        fn max_run(&self, level: usize) -> u32 {
            NV[level].shift
        }
        fn encode_table(&self, level: usize, table: PhysAddr) -> u128 {
            let half = u128::from(table.raw() >> 12 << 8 | 2);
            if level == 3 { half << 64 } else { half }
        }
        fn encode_leaf(&self, _: usize, leaf: Leaf<u8>) -> u128 {
            let system = if matches!(leaf.to, PhysAddr::Bus(_)) {
                8
            } else {
                0
            };
            u128::from(leaf.to.raw() >> 12 << 8 | 1 | system | u64::from(leaf.attr & 7) << 5)
        }
    }
    impl Decode for NvLike {
        fn decode(&self, level: usize, entry: u128) -> Entry {
            let table = |e: u64| Entry::Table((e >> 8) << 12);
            let low = entry as u64;
            let high = (entry >> 64) as u64;
            if low & 1 == 1 {
                let pa = (low >> 8) << 12;
                Entry::Leaf(Leaf {
                    to: if low & 8 == 0 { vram(pa) } else { bus(pa) },
                    attr: (low >> 5 & 7) as u8,
                    run: NV[level].shift,
                })
            } else if level == 3 && high & 6 == 2 {
                table(high)
            } else if level < 3 && low & 6 == 2 {
                table(low)
            } else {
                Entry::Invalid
            }
        }
    }

    /// Memory of a card that is written over a cable, and never read. Notes the bytes of each write.
    struct Card {
        memory: View,
        writes: Mutex<Vec<usize>>,
    }

    impl RemoteWindow for Card {
        fn len(&self) -> u64 {
            self.memory.len() as u64
        }
        fn read(&self, offset: u64, _: AccessWidth) -> Result<u64, TransportError> {
            panic!("a table is read at {offset:#x}")
        }
        fn read_bytes(&self, offset: u64, _: &mut [u8]) -> Result<(), TransportError> {
            panic!("a table is read at {offset:#x}")
        }
        fn write(&self, offset: u64, _: AccessWidth, _: u64) -> Result<(), TransportError> {
            panic!("a lone entry is written at {offset:#x}")
        }
        fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
            for (offset, bytes) in pieces {
                self.writes.lock().unwrap().push(bytes.len());
                self.memory
                    .copy_from_slice(*offset as usize, bytes)
                    .unwrap();
            }
            Ok(())
        }
        fn send(&self) -> Result<(), TransportError> {
            Ok(())
        }
        fn flush(&self) -> Result<(), TransportError> {
            Ok(())
        }
    }

    /// Tables on a card, at most `limit` of them, 4 KiB each.
    struct Ram {
        card: Arc<Card>,
        window: Window,
        taken: BTreeMap<u64, u64>,
        limit: usize,
    }

    impl Ram {
        fn new(limit: usize) -> Ram {
            let card = Arc::new(Card {
                memory: View::alloc(128 << 12, 8).unwrap(),
                writes: Mutex::default(),
            });
            Ram {
                window: Window::remote("card", card.clone()),
                card,
                taken: BTreeMap::new(),
                limit,
            }
        }

        fn writes(&self) -> Vec<usize> {
            std::mem::take(&mut *self.card.writes.lock().unwrap())
        }
    }

    impl TableMemory for Ram {
        fn alloc(&mut self, bytes: u64) -> Result<Frame, QueueError> {
            let mut places = (1..128).map(|at| at << 12);
            let free = places.find(|at| !self.taken.contains_key(at));
            let Some(at) = free.filter(|_| self.taken.len() < self.limit) else {
                return Err(QueueError::Graph("no table left".into()));
            };
            self.taken.insert(at, bytes);
            // The earlier entry.
            self.card.memory.fill(at as usize, 4096, 0xff).unwrap();
            let window = self.window.sub(at, bytes).unwrap();
            Ok(Frame {
                at: vram(at),
                window,
            })
        }
        fn free(&mut self, frame: Frame) {
            let bytes = self.taken.remove(&frame.at.raw());
            assert_eq!(bytes, Some(frame.window.len()));
        }
    }

    /// Where an address leads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Translation<A> {
        /// Where the byte is.
        to: PhysAddr,
        /// Bytes of its page.
        page: u64,
        /// Attributes of the page.
        attr: A,
        /// Log2 of the bytes of the run the page belongs to.
        run: u32,
    }

    impl<F: PteFormat, M: TableMemory> PageTable<F, M> {
        /// Where `va` leads, if it is mapped.
        fn translate(&self, va: GpuVa) -> Option<Translation<F::Attr>> {
            let at = va.offset_from(self.start).ok()?;
            let mapping = self.next(at).filter(|mapping| mapping.start <= at)?;
            let (depth, (start, end)) = self.block(mapping, at);
            Some(Translation {
                to: mapping.to(at),
                page: self.format.levels()[depth].page(),
                attr: mapping.attr,
                run: (end - start).ilog2(),
            })
        }
    }

    /// What the device finds for an address.
    fn walk<F: Decode>(table: &PageTable<F, Ram>, at: u64) -> Option<Translation<u8>> {
        let mut from = table.root().raw();
        for (depth, level) in table.format.levels().iter().enumerate() {
            let index = (at >> level.shift) & ((1 << level.index_bits) - 1);
            let offset = from + index * u64::from(level.entry_bytes);
            let mut entry = [0; 16];
            let to = &mut entry[..level.entry_bytes as usize];
            let memory = &table.memory.card.memory;
            memory.copy_to_slice(offset as usize, to).unwrap();
            match table.format.decode(depth, u128::from_le_bytes(entry)) {
                Entry::Invalid => return None,
                Entry::Table(next) => from = next,
                Entry::Leaf(Leaf { to, attr, run }) => {
                    return Some(Translation {
                        to: to.add(at & (level.page() - 1)).unwrap(),
                        page: level.page(),
                        attr,
                        run,
                    });
                }
            }
        }
        panic!("the last level leads to a table");
    }

    fn root_is_empty<F: PteFormat>(table: &PageTable<F, Ram>) -> bool {
        let root = &table.tables[&(0, 0)];
        let mut bytes = vec![1; root.window.len() as usize];
        let memory = &table.memory.card.memory;
        memory
            .copy_to_slice(root.at.raw() as usize, &mut bytes)
            .unwrap();
        bytes.iter().all(|&byte| byte == 0)
    }

    const M2: u64 = 2 << 20;

    #[test]
    fn large_pages_where_they_fit_and_small_ones_around() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99), START).unwrap();
        let (at, pa) = (M2 - 0x2000, 8 * M2 - 0x2000);
        let bytes = 0x2000 + M2 + 0x3000;
        pt.map(va(at), &[(vram(pa), bytes)], 7).unwrap();
        let page = |at| pt.translate(va(at)).map(|t| t.page);
        assert_eq!(page(at), Some(0x1000));
        assert_eq!(page(M2 + 0x1234), Some(M2));
        assert_eq!(page(2 * M2 + 0x2fff), Some(0x1000));
        assert_eq!(page(2 * M2 + 0x3000), None);
        let t = pt.translate(va(M2 + 0x1234)).unwrap();
        assert_eq!((t.to, t.attr, t.run), (vram(8 * M2 + 0x1234), 7, 21));
        assert_eq!(pt.translate(va(at)).unwrap().run, 13);
        assert_eq!(pt.translate(GpuVa(u64::MAX)), None);
        assert_eq!(pt.translate(GpuVa(0)), None);
    }

    #[test]
    fn pieces_that_join_are_one_run() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99), START).unwrap();
        let pages = (0..512).map(|page| (bus((page + 512) << 12), 0x1000));
        let mut pages: Vec<_> = pages.collect();
        pages.push((vram(2 * M2), 0x1000));
        pt.map(va(M2), &pages, 0).unwrap();
        let t = walk(&pt, M2 + 0x3000).unwrap();
        assert_eq!((t.to, t.page, t.run), (bus(M2 + 0x3000), M2, 21));
        let t = walk(&pt, 2 * M2).unwrap();
        assert_eq!((t.to, t.page, t.run), (vram(2 * M2), 0x1000, 12));
    }

    #[test]
    fn errors_say_what_is_there() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99), START).unwrap();
        pt.map(va(M2), &[(vram(4 * M2), M2)], 0).unwrap();
        let error = pt.map(va(M2 - 0x1000), &[(vram(0), 0x3000)], 0);
        assert_eq!(
            error.unwrap_err().to_string(),
            "va 0x200000200000 is already mapped to vram 0x800000 (0x200000-byte page)"
        );
        let error = pt.unmap(va(0), M2).unwrap_err();
        assert_eq!(error.to_string(), "va 0x200000000000 is not mapped");
        let error = pt.map(va(0x1000), &[(bus(0x800), 0x1000)], 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "va 0x200000001000, to bus 0x800, 0x1000 bytes: not a multiple of the 0x1000-byte page"
        );
        let error = pt.unmap(va(0x1000), 0x800).unwrap_err();
        assert_eq!(
            error.to_string(),
            "va 0x200000001000, 0x800 bytes: not a multiple of the 0x1000-byte page"
        );
        let error = pt.map(GpuVa(0x1000), &[(vram(0), 0x1000)], 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "0x1000 bytes at va 0x1000 are outside the 48-bit address space from \
             0x200000000000"
        );
        let beyond = pt.map(va(0), &[(vram(!0xfff), 0x1000)], 0);
        assert!(matches!(beyond, Err(PageError::Beyond(_))));
        for none in [&[][..], &[(vram(0), 0)], &[(vram(0), 0x1000), (vram(0), 0)]] {
            let none = pt.map(va(0), none, 0);
            assert!(matches!(none, Err(PageError::Misaligned { .. })));
        }
        assert_eq!(walk(&pt, 0), None, "refused maps leave nothing");
        let start = PageTable::new(AmdLike, Ram::new(99), GpuVa(0x1000));
        assert!(matches!(start, Err(PageError::Misaligned { .. })));
    }

    #[test]
    fn unmapping_part_of_a_page_or_run_leaves_the_rest() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99), START).unwrap();
        pt.map(va(M2), &[(vram(4 * M2), 2 * M2)], 1).unwrap();
        assert_eq!(walk(&pt, M2).unwrap().run, 21);
        let retired = pt.unmap(va(M2 + 0x5000), 0x1000).unwrap();
        assert_eq!(retired.tables(), 0);
        pt.release(retired);
        let run = |at| walk(&pt, at).map(|t| t.run);
        assert_eq!(run(M2), Some(14));
        assert_eq!(run(M2 + 0x4000), Some(12));
        assert_eq!(run(M2 + 0x5000), None);
        assert_eq!(run(M2 + 0x6000), Some(13));
        assert_eq!(run(2 * M2), Some(21));
    }

    #[test]
    fn neighbouring_entries_are_one_write_and_no_table_is_read() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99), START).unwrap();
        assert_eq!(pt.memory().writes(), [4096]);
        // One page: three new tables, each whole, then the entry that leads to them.
        pt.map(va(0), &[(vram(0x7000), 0x1000)], 0).unwrap();
        assert_eq!(pt.memory().writes(), [4096, 4096, 4096, 8]);
        // However many pages of a table, and wherever they lead: one write.
        let pages: Vec<_> = (1..400).map(|page| (bus(page << 14), 0x1000)).collect();
        pt.map(va(0x1000), &pages, 0).unwrap();
        assert_eq!(pt.memory().writes(), [399 * 8]);
        // The rest of it, a thousand large pages, and the first one behind them.
        pt.map(
            va(400 << 12),
            &[(vram(400 << 12), (112 << 12) + 1000 * M2 + 0x1000)],
            0,
        )
        .unwrap();
        assert_eq!(pt.memory().writes(), [112 * 8, 511 * 8, 4096, 4096, 8]);
        let retired = pt.unmap(va(0), 1001 * M2).unwrap();
        assert_eq!(retired.tables(), 2, "of the first large page, and of 1 GiB");
        pt.release(retired);
        let writes = pt.memory().writes();
        assert_eq!(writes, [489 * 8, 8], "what is unlinked is not cleared");
    }

    #[test]
    fn a_hundred_thousand_pages_are_some_transfers_that_nobody_waits_for() {
        struct Far(Ram, Arc<Cable>);
        impl TableMemory for Far {
            fn alloc(&mut self, bytes: u64) -> Result<Frame, QueueError> {
                let mut frame = self.0.alloc(bytes)?;
                let near = Window::mapped("card", self.0.card.memory.clone());
                let near = near.sub(frame.at.raw(), bytes).unwrap();
                frame.window = self.1.window(&near);
                Ok(frame)
            }
            fn free(&mut self, frame: Frame) {
                self.0.free(frame);
            }
        }
        let cable = Cable::new();
        let far = Far(Ram::new(128), cable.clone());
        let mut pt = PageTable::new(AmdLike, far, START).unwrap();
        let pages = (0..100 << 9).map(|page| (bus(page << 13), 0x1000));
        pt.map(va(0), &pages.collect::<Vec<_>>(), 0).unwrap();
        let retired = pt.unmap(va(0x3000), 99 * M2).unwrap();
        assert_eq!(retired.tables(), 98);
        cable.send().unwrap();
        let went = cable.transfers();
        assert_eq!((went.posted, went.waited), (2, 0));
        assert_eq!(
            went.bytes,
            (1 + 2 + 100) * 4096 + 8 + 509 * 8 + 98 * 8 + 3 * 8
        );
    }

    #[test]
    fn what_a_table_that_fails_leaves_is_an_error() {
        struct Gone;
        impl TableMemory for Gone {
            fn alloc(&mut self, _: u64) -> Result<Frame, QueueError> {
                let small = View::alloc(8, 8).unwrap();
                Ok(Frame {
                    at: vram(0),
                    window: Window::mapped("BAR0", small),
                })
            }
            fn free(&mut self, _: Frame) {}
        }
        let Err(PageError::Access(error)) = PageTable::new(AmdLike, Gone, START) else {
            panic!("8 bytes are no table")
        };
        assert!(matches!(error.fault, Fault::View(_)));
    }

    #[test]
    fn a_huge_page_may_follow_small_ones() {
        let mut pt = PageTable::new(NvLike, Ram::new(99), START).unwrap();
        pt.map(va(M2), &[(vram(0), 0x3000)], 0).unwrap();
        let tables = pt.memory().taken.len();
        let retired = pt.unmap(va(M2), 0x3000).unwrap();
        assert_eq!(retired.tables(), 4);
        assert_eq!(
            pt.memory().taken.len(),
            tables,
            "kept until the TLB is invalidated"
        );
        pt.release(retired);
        assert_eq!(pt.memory().taken.len(), 1);
        pt.map(va(0), &[(vram(0), 512 << 20)], 0).unwrap();
        assert_eq!(walk(&pt, M2).unwrap().page, 512 << 20);
    }

    #[test]
    fn running_out_of_tables_undoes_the_map() {
        for limit in 1..6 {
            let mut pt = PageTable::new(AmdLike, Ram::new(limit), START).unwrap();
            let got = pt.map(va(M2 - 0x1000), &[(vram(0x1000), 0x2000)], 0);
            if limit < 5 {
                assert!(matches!(got, Err(PageError::NoTable(_))), "{limit}");
                assert_eq!(pt.memory().taken.len(), 1, "{limit}");
                assert_eq!(pt.tables(), 0);
                assert_eq!(pt.translate(va(M2)), None);
                assert!(root_is_empty(&pt));
            } else {
                got.unwrap();
            }
        }
    }

    #[test]
    fn formats_that_do_not_join_are_refused() {
        struct Gap;
        impl PteFormat for Gap {
            type Attr = u8;
            fn levels(&self) -> &[Level] {
                &[
                    Level {
                        index_bits: 9,
                        shift: 22,
                        entry_bytes: 8,
                        leaf: false,
                    },
                    Level {
                        index_bits: 9,
                        shift: 12,
                        entry_bytes: 8,
                        leaf: true,
                    },
                ]
            }
            fn max_run(&self, _: usize) -> u32 {
                12
            }
            fn encode_table(&self, _: usize, _: PhysAddr) -> u128 {
                0
            }
            fn encode_leaf(&self, _: usize, _: Leaf<u8>) -> u128 {
                0
            }
        }
        let got = PageTable::new(Gap, Ram::new(9), START);
        assert!(matches!(got, Err(PageError::BadFormat { level: 0 })));
    }

    type Model = BTreeMap<u64, (PhysAddr, u8)>;

    /// Every page is where it should be, for us and for the device, and every run the table claims is
    /// really contiguous, alike and complete.
    fn check<F: Decode>(pt: &PageTable<F, Ram>, model: &Model) {
        for (&page, &(to, attr)) in model {
            let t = walk(pt, page << 12).unwrap();
            assert_eq!(pt.translate(va(page << 12)), Some(t));
            assert_eq!((t.to, t.attr), (to, attr));
            let pages = 1u64 << (t.run - 12);
            let first = page & !(pages - 1);
            for other in [first, first + pages - 1, first + pages / 2] {
                let &(there, attr) = model.get(&other).unwrap();
                let apart = other.wrapping_sub(page).wrapping_mul(0x1000);
                let there = (there.raw().wrapping_sub(apart), attr);
                assert_eq!(there, (to.raw(), t.attr), "run of page {page:#x}");
            }
        }
        for page in (0..3000).filter(|p| !model.contains_key(p)) {
            assert_eq!(pt.translate(va(page << 12)), None);
            assert_eq!(walk(pt, page << 12), None);
        }
    }

    fn agrees<F: Decode>(format: F, limit: usize, steps: Vec<(bool, u64, u64, u64, u8)>) {
        let mut pt = PageTable::new(format, Ram::new(limit), START).unwrap();
        let mut model = Model::new();
        for (map, at, pa, count, attr) in steps {
            let range = at..at + count;
            if map {
                let taken = model.range(range.clone()).next().map(|(&page, _)| page);
                // In order as two pieces, or page by page from the last one down.
                let pieces: Vec<_> = match attr & 4 {
                    0 => {
                        let half = count / 2;
                        let pieces = [(pa, half), (pa + half, count - half)];
                        let pieces = pieces.into_iter().filter(|piece| piece.1 > 0);
                        pieces.map(|(p, n)| (vram(p << 12), n << 12)).collect()
                    }
                    _ => {
                        let pages = (0..count).rev().map(|p| bus((pa + p) << 12));
                        pages.map(|to| (to, 0x1000)).collect()
                    }
                };
                match pt.map(va(at << 12), &pieces, attr) {
                    Ok(()) => {
                        assert_eq!(taken, None);
                        let pages = pieces.iter().flat_map(|&(to, bytes)| {
                            (0..bytes >> 12).map(move |page| (to.add(page << 12).unwrap(), attr))
                        });
                        model.extend(range.zip(pages));
                    }
                    Err(PageError::AlreadyMapped { va: first, to, .. }) => {
                        let page = taken.unwrap();
                        assert_eq!((first, to), (va(page << 12), model[&page].0));
                    }
                    Err(PageError::NoTable(_)) => assert_eq!(taken, None),
                    Err(other) => panic!("{other}"),
                }
            } else {
                let hole = range.clone().find(|p| !model.contains_key(p));
                match pt.unmap(va(at << 12), count << 12) {
                    Ok(retired) => {
                        assert_eq!(hole, None);
                        pt.release(retired);
                        model.retain(|p, _| !range.contains(p));
                    }
                    Err(PageError::NotMapped { va: first }) => {
                        assert_eq!(Some(first), hole.map(|page| va(page << 12)));
                    }
                    Err(PageError::NoTable(_)) => assert_eq!(hole, None),
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!(pt.tables() + 1, pt.memory().taken.len());
            check(&pt, &model);
        }
        // All of it back: no table leaks. Splitting may need tables that the limit denies.
        pt.memory.limit = usize::MAX;
        for page in model.keys() {
            let retired = pt.unmap(va(page << 12), 0x1000).unwrap();
            pt.release(retired);
        }
        assert_eq!(pt.memory().taken.len(), 1);
        assert!(root_is_empty(&pt));
    }

    /// Ranges around the edges of 2 MiB pages, often aligned to them.
    fn steps() -> impl Strategy<Value = Vec<(bool, u64, u64, u64, u8)>> {
        let edge = || prop::sample::select(vec![0u64, 512, 1024, 1536, 500, 8, 64]);
        let length = prop::sample::select(vec![1u64, 2, 8, 64, 512, 513, 1024, 700]);
        let step = (any::<bool>(), edge(), 0u64..16, edge(), length, 0u8..8);
        let step = step.prop_map(|(map, va, more, pa, count, attr)| {
            let more = if more < 10 { 0 } else { more };
            (map, va + more, pa + more, count, attr)
        });
        prop::collection::vec(step, 1..25)
    }

    proptest! {
        // A quarter of what PROPTEST_CASES says, or of 256.
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]
        #[test]
        fn amd_like_agrees_with_a_map(steps in steps(), limit in 4usize..12) {
            agrees(AmdLike, limit, steps);
        }

        #[test]
        fn nv_like_agrees_with_a_map(steps in steps(), limit in 5usize..12) {
            agrees(NvLike, limit, steps);
        }
    }
}
