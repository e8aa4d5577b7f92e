//! Page tables, generic over the format of the entries and over where the tables lie.
//!
//! [`PteFormat`] says how many levels there are, which of them may hold leaves, and how entries
//! are encoded. [`TableMemory`] holds the tables: VRAM through a BAR, or behind a USB bridge, so
//! runs of entries are written in one call. [`PageTable`] maps, unmaps and translates.
//!
//! * Map and unmap do all or nothing: the range is checked first, and a table that cannot be
//!   allocated undoes what was mapped.
//! * The largest page is used that alignment and length allow; unmapping part of one splits it.
//! * Entries carry a fragment where the format has it: the size of the aligned, contiguous run
//!   they belong to, which lets the TLB keep one entry for it. Cutting such a run re-encodes
//!   what is left of it.
//! * Tables that became empty are handed out as [`Retired`]: the device may still walk them
//!   until its TLB is invalidated, and only then may they be used again.

use std::collections::HashMap;
use std::error::Error;

use thiserror::Error;

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

    const fn index(&self, va: u64) -> u64 {
        (va >> self.shift) & ((1 << self.index_bits) - 1)
    }
}

/// What a leaf says besides its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf<A> {
    /// Physical address of the page.
    pub pa: u64,
    /// Access rights, caching, whether the page is in system memory.
    pub attr: A,
    /// Log2 of the bytes of the contiguous run the page belongs to; at least its own size.
    pub run: u32,
}

/// An entry, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<A> {
    /// Nothing. An entry of zeros is this at every level.
    Invalid,
    /// The next table, at a physical address.
    Table(u64),
    /// A page.
    Leaf(Leaf<A>),
}

/// How the entries of a page table are encoded.
pub trait PteFormat {
    /// Rights, caching and memory kind of a page.
    type Attr: Copy + PartialEq + std::fmt::Debug;

    /// The levels, root first; the shifts join without gaps.
    fn levels(&self) -> &[Level];

    /// Log2 of the bytes of the largest run an entry of `level` can be told to belong to;
    /// `levels()[level].shift` where the format has no fragments.
    fn max_run(&self, level: usize) -> u32;

    /// The entry that points to a table of the next level.
    fn encode_table(&self, level: usize, table: u64) -> u128;

    /// The entry that maps a page. The address is aligned to the page.
    fn encode_leaf(&self, level: usize, leaf: Leaf<Self::Attr>) -> u128;

    /// What an entry says. A format that does not keep the run gives the size of the page.
    fn decode(&self, level: usize, entry: u128) -> Entry<Self::Attr>;
}

/// Where tables lie. Addresses are physical, as the entries hold them.
pub trait TableMemory {
    /// Why an access or an allocation failed.
    type Error: Error + Send + Sync + 'static;

    /// A zeroed table of `bytes` bytes, aligned to its size.
    ///
    /// # Errors
    /// No memory.
    fn alloc(&mut self, bytes: u64) -> Result<u64, Self::Error>;

    /// Takes a table back.
    fn free(&mut self, table: u64, bytes: u64);

    /// Reads from byte `offset` of a table.
    ///
    /// # Errors
    /// The transport's.
    fn read(&mut self, table: u64, offset: u64, to: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes to byte `offset` of a table. Each entry has to arrive whole.
    ///
    /// # Errors
    /// The transport's.
    fn write(&mut self, table: u64, offset: u64, from: &[u8]) -> Result<(), Self::Error>;
}

/// Why a page table operation was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError<E: Error + 'static> {
    /// The levels of the format do not make a page table.
    #[error(
        "level {level} of the page table format does not join the next one, or holds pages that \
         the next one cannot"
    )]
    BadFormat {
        /// First wrong level.
        level: usize,
    },
    /// An address or length that is no multiple of the smallest page, or a length of zero.
    #[error("va {va:#x}, pa {pa:#x}, {bytes:#x} bytes: not multiples of the {page:#x}-byte page")]
    Misaligned {
        /// Virtual address.
        va: u64,
        /// Physical address; 0 for unmap.
        pa: u64,
        /// Length.
        bytes: u64,
        /// Smallest page.
        page: u64,
    },
    /// Beyond the addresses the table covers.
    #[error("{bytes:#x} bytes at va {va:#x} leave the {bits}-bit address space")]
    OutOfRange {
        /// Virtual address.
        va: u64,
        /// Length.
        bytes: u64,
        /// Bits of a virtual address.
        bits: u32,
    },
    /// Part of the range is mapped.
    #[error("va {va:#x} is mapped already, to pa {pa:#x} ({page:#x}-byte page)")]
    AlreadyMapped {
        /// First such address.
        va: u64,
        /// Where it is mapped to.
        pa: u64,
        /// Size of its page.
        page: u64,
    },
    /// Part of the range is not mapped.
    #[error("va {va:#x} is not mapped")]
    NotMapped {
        /// First such address.
        va: u64,
    },
    /// The memory of the tables failed.
    #[error("page table memory: {0}")]
    Memory(#[source] E),
}

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation<A> {
    /// Physical address of the byte.
    pub pa: u64,
    /// Bytes of the page it lies in.
    pub page: u64,
    /// Attributes of the page.
    pub attr: A,
    /// Log2 of the bytes of the run the page belongs to.
    pub run: u32,
}

/// Tables that are no longer reachable but that the device may still hold in its caches.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "invalidate the device's TLB, then give it to PageTable::release"]
pub struct Retired(Vec<(u64, u64)>);

impl Retired {
    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.0.len()
    }

    /// Adds the tables of another operation, to invalidate once for both.
    pub fn merge(&mut self, other: Retired) {
        self.0.extend(other.0);
    }
}

/// A table on the way to an address.
#[derive(Debug, Clone, Copy)]
struct Step {
    level: usize,
    table: u64,
}

/// Where a run of leaves or holes in one table ends, and the translation of its first leaf.
type Run<A> = (u64, Option<Translation<A>>);

/// A page table with its root.
pub struct PageTable<F: PteFormat, M: TableMemory> {
    format: F,
    memory: M,
    root: u64,
    /// Entries in use, per table but the root. Kept here so that no table is read to count them.
    live: HashMap<u64, u64>,
}

type PageResult<T, M> = std::result::Result<T, PageError<<M as TableMemory>::Error>>;

impl<F: PteFormat, M: TableMemory> PageTable<F, M> {
    /// An empty page table; allocates the root.
    ///
    /// # Errors
    /// [`PageError::BadFormat`], [`PageError::Memory`].
    pub fn new(format: F, mut memory: M) -> PageResult<Self, M> {
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
        let root = memory
            .alloc(first.table_bytes())
            .map_err(PageError::Memory)?;
        Ok(PageTable {
            format,
            memory,
            root,
            live: HashMap::new(),
        })
    }

    /// Physical address of the root table.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Memory of the tables.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Memory of the tables, for its owner to flush or to account.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Number of tables besides the root.
    pub fn tables(&self) -> usize {
        self.live.len()
    }

    /// Maps `bytes` bytes at `va` to contiguous physical memory at `pa`.
    ///
    /// # Errors
    /// [`PageError`]; then nothing is mapped, but tables may have come and gone.
    pub fn map(&mut self, va: u64, pa: u64, bytes: u64, attr: F::Attr) -> PageResult<(), M> {
        let end = self.check(va, pa, bytes)?;
        if pa.checked_add(bytes).is_none() {
            return Err(PageError::Misaligned {
                va,
                pa,
                bytes,
                page: self.page(),
            });
        }
        let mut at = va;
        while at < end {
            at = match self.scan(at, end)? {
                (_, Some(Translation { pa, page, .. })) => {
                    return Err(PageError::AlreadyMapped { va: at, pa, page });
                }
                (next, None) => next,
            };
        }
        let mut at = va;
        while at < end {
            match self.map_chunk(at, pa + (at - va), end - at, attr) {
                Ok(bytes) => at += bytes,
                Err(error) => {
                    // No device was told of the new entries yet: their tables can go at once.
                    let undone = self.clear(va, at).and_then(|mut retired| {
                        let steps = self.path(at)?;
                        self.prune(at, &steps, &mut retired)?;
                        Ok(retired)
                    });
                    if let Ok(retired) = undone {
                        self.release(retired);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Unmaps `bytes` bytes at `va`, all of which must be mapped. After it the device's TLB has
    /// to be invalidated, then the result given to [`PageTable::release`].
    ///
    /// # Errors
    /// [`PageError`]; then everything is mapped as before, perhaps by smaller pages.
    pub fn unmap(&mut self, va: u64, bytes: u64) -> PageResult<Retired, M> {
        let end = self.check(va, 0, bytes)?;
        let mut at = va;
        while at < end {
            at = match self.scan(at, end)? {
                (_, None) => return Err(PageError::NotMapped { va: at }),
                (next, Some(_)) => next,
            };
        }
        self.cut(va)?;
        self.cut(end)?;
        self.clear(va, end)
    }

    /// Gives tables back, once the device's TLB was invalidated.
    pub fn release(&mut self, retired: Retired) {
        for (table, bytes) in retired.0 {
            self.memory.free(table, bytes);
        }
    }

    /// Where `va` leads, if it is mapped.
    ///
    /// # Errors
    /// [`PageError::Memory`].
    pub fn translate(&mut self, va: u64) -> PageResult<Option<Translation<F::Attr>>, M> {
        if va >= self.format.levels()[0].span() {
            return Ok(None);
        }
        let (step, entry) = self.walk(va)?;
        let Entry::Leaf(Leaf { pa, attr, run }) = entry else {
            return Ok(None);
        };
        let page = self.format.levels()[step.level].page();
        Ok(Some(Translation {
            pa: pa + (va & (page - 1)),
            page,
            attr,
            run,
        }))
    }

    /// PANIC: `new` refused formats without levels.
    fn page(&self) -> u64 {
        let levels = self.format.levels();
        levels[levels.len() - 1].page()
    }

    /// Checks a range and returns its end.
    fn check(&self, va: u64, pa: u64, bytes: u64) -> PageResult<u64, M> {
        let page = self.page();
        if (va | pa | bytes) & (page - 1) != 0 || bytes == 0 {
            return Err(PageError::Misaligned {
                va,
                pa,
                bytes,
                page,
            });
        }
        let first = self.format.levels()[0];
        match va.checked_add(bytes) {
            Some(end) if end <= first.span() => Ok(end),
            _ => {
                let bits = first.shift + first.index_bits;
                Err(PageError::OutOfRange { va, bytes, bits })
            }
        }
    }

    /// Reads `count` entries of a table from index `first` on.
    fn read(&mut self, step: Step, first: u64, count: u64) -> PageResult<Vec<u128>, M> {
        let size = self.format.levels()[step.level].entry_bytes as usize;
        let mut bytes = vec![0; count as usize * size];
        let offset = first * size as u64;
        self.memory
            .read(step.table, offset, &mut bytes)
            .map_err(PageError::Memory)?;
        let entry = |chunk: &[u8]| {
            let mut wide = [0; 16];
            wide[..size].copy_from_slice(chunk);
            u128::from_le_bytes(wide)
        };
        Ok(bytes.chunks_exact(size).map(entry).collect())
    }

    /// Writes entries to a table from index `first` on.
    fn write(&mut self, step: Step, first: u64, entries: &[u128]) -> PageResult<(), M> {
        let size = self.format.levels()[step.level].entry_bytes as usize;
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|e| e.to_le_bytes().into_iter().take(size))
            .collect();
        let offset = first * size as u64;
        self.memory
            .write(step.table, offset, &bytes)
            .map_err(PageError::Memory)
    }

    fn entry(&mut self, step: Step, va: u64) -> PageResult<Entry<F::Attr>, M> {
        let index = self.format.levels()[step.level].index(va);
        let raw = self.read(step, index, 1)?;
        Ok(self.format.decode(step.level, raw[0]))
    }

    /// The tables on the way to `va`, root first.
    fn path(&mut self, va: u64) -> PageResult<Vec<Step>, M> {
        let mut steps = vec![Step {
            level: 0,
            table: self.root,
        }];
        while let Some(&step) = steps.last()
            && let Entry::Table(table) = self.entry(step, va)?
        {
            steps.push(Step {
                level: step.level + 1,
                table,
            });
        }
        Ok(steps)
    }

    /// The last table on the way to `va`, and its entry there, which is no table.
    fn walk(&mut self, va: u64) -> PageResult<(Step, Entry<F::Attr>), M> {
        let mut step = Step {
            level: 0,
            table: self.root,
        };
        loop {
            match self.entry(step, va)? {
                Entry::Table(table) => {
                    step = Step {
                        level: step.level + 1,
                        table,
                    }
                }
                other => return Ok((step, other)),
            }
        }
    }

    /// Looks at the entries of one table from `at` on, in one read: returns where those end that
    /// are of the same sort as the first (leaves or holes), and its translation if it is a leaf.
    fn scan(&mut self, at: u64, end: u64) -> PageResult<Run<F::Attr>, M> {
        let (step, entry) = self.walk(at)?;
        let level = self.format.levels()[step.level];
        let first = level.index(at);
        let start = at & !(level.page() - 1);
        let table_end = (at & !(level.span() - 1)) + level.span();
        let count = (end.min(table_end) - start).div_ceil(level.page());
        let mapped = matches!(entry, Entry::Leaf(_));
        let mut same = 0;
        for raw in self.read(step, first, count)? {
            match self.format.decode(step.level, raw) {
                Entry::Leaf(_) if mapped => same += 1,
                Entry::Invalid if !mapped => same += 1,
                _ => break,
            }
        }
        let next = start + same * level.page();
        let leaf = match entry {
            Entry::Leaf(Leaf { pa, attr, run }) => Some(Translation {
                pa: pa + (at - start),
                page: level.page(),
                attr,
                run,
            }),
            _ => None,
        };
        Ok((next, leaf))
    }

    /// Maps the first part of a range by pages of one size in one table; returns its length.
    fn map_chunk(&mut self, va: u64, pa: u64, bytes: u64, attr: F::Attr) -> PageResult<u64, M> {
        let fits = |level: &Level| {
            level.leaf && (va | pa) & (level.page() - 1) == 0 && level.page() <= bytes
        };
        // PANIC: the last level fits, since `check` asked for its alignment.
        let target = self.format.levels().iter().position(fits).unwrap_or(0);
        let mut step = Step {
            level: 0,
            table: self.root,
        };
        while step.level < target {
            let next = step.level + 1;
            let table = match self.entry(step, va)? {
                Entry::Table(table) => table,
                // The range was found free: this is no leaf.
                _ => {
                    let size = self.format.levels()[next].table_bytes();
                    let table = self.memory.alloc(size).map_err(PageError::Memory)?;
                    let raw = self.format.encode_table(step.level, table);
                    let index = self.format.levels()[step.level].index(va);
                    if let Err(error) = self.write(step, index, &[raw]) {
                        self.memory.free(table, size);
                        return Err(error);
                    }
                    self.count(step.table, 1);
                    self.live.insert(table, 0);
                    table
                }
            };
            step = Step { level: next, table };
        }
        let level = self.format.levels()[target];
        // A larger page further on starts a chunk of its own.
        let mut stop = (va & !(level.span() - 1)) + level.span();
        let larger = self.format.levels()[..target].iter().rev().find(|l| l.leaf);
        if let Some(larger) = larger
            && let Some(edge) = va.checked_next_multiple_of(larger.page())
            && edge > va
            && (pa + (edge - va)).is_multiple_of(larger.page())
            && edge.saturating_add(larger.page()) <= va + bytes
        {
            stop = stop.min(edge);
        }
        let length = bytes.min(stop - va) & !(level.page() - 1);
        self.fill(step, va, pa, length, attr)?;
        self.count(step.table, (length / level.page()) as i64);
        Ok(length)
    }

    /// Writes the leaves of a range inside one table, telling each the run it belongs to.
    fn fill(
        &mut self,
        step: Step,
        va: u64,
        pa: u64,
        bytes: u64,
        attr: F::Attr,
    ) -> PageResult<(), M> {
        let level = self.format.levels()[step.level];
        let max = self
            .format
            .max_run(step.level)
            .min(level.shift + level.index_bits);
        let mut entries = Vec::with_capacity((bytes / level.page()) as usize);
        let mut done = 0;
        while done < bytes {
            let aligned = ((va + done) | (pa + done)).trailing_zeros();
            let run = aligned
                .min((bytes - done).ilog2())
                .min(max)
                .max(level.shift);
            for page in 0..1u64 << (run - level.shift) {
                let leaf = Leaf {
                    pa: pa + done + page * level.page(),
                    attr,
                    run,
                };
                entries.push(self.format.encode_leaf(step.level, leaf));
            }
            done += 1 << run;
        }
        self.write(step, level.index(va), &entries)
    }

    /// Makes `va` a boundary: no page and no run of the table goes across it.
    fn cut(&mut self, va: u64) -> PageResult<(), M> {
        loop {
            if va >= self.format.levels()[0].span() {
                return Ok(());
            }
            let (step, entry) = self.walk(va)?;
            let Entry::Leaf(leaf) = entry else {
                return Ok(());
            };
            let level = self.format.levels()[step.level];
            let run = leaf.run.clamp(level.shift, level.shift + level.index_bits);
            let start = va & !((1 << run) - 1);
            if start != va && run > level.shift {
                // Cut the run at the pages around `va` first.
                let pa = leaf.pa - ((va & !(level.page() - 1)) - start);
                let (lower, upper) = (va & !(level.page() - 1), va.next_multiple_of(level.page()));
                let end = start + (1 << run);
                for (from, to) in [(start, lower), (lower, upper), (upper, end)] {
                    if from < to {
                        self.fill(step, from, pa + (from - start), to - from, leaf.attr)?;
                    }
                }
            }
            if va & (level.page() - 1) == 0 {
                return Ok(());
            }
            self.split(step, va, leaf)?;
        }
    }

    /// Replaces the page at `va` by a table of the next level that maps the same.
    fn split(&mut self, step: Step, va: u64, leaf: Leaf<F::Attr>) -> PageResult<(), M> {
        let level = self.format.levels()[step.level];
        let below = self.format.levels()[step.level + 1];
        let size = below.table_bytes();
        let table = self.memory.alloc(size).map_err(PageError::Memory)?;
        let child = Step {
            level: step.level + 1,
            table,
        };
        let start = va & !(level.page() - 1);
        // `new` made sure that the level below one with leaves has leaves too.
        let filled = self.fill(child, start, leaf.pa, level.page(), leaf.attr);
        let raw = self.format.encode_table(step.level, table);
        let linked = filled.and_then(|()| self.write(step, level.index(va), &[raw]));
        if let Err(error) = linked {
            self.memory.free(table, size);
            return Err(error);
        }
        self.live.insert(table, 1 << below.index_bits);
        Ok(())
    }

    /// Clears the leaves of a range that begins and ends at page boundaries.
    fn clear(&mut self, va: u64, end: u64) -> PageResult<Retired, M> {
        let mut retired = Retired::default();
        let mut at = va;
        while at < end {
            let (next, _) = self.scan(at, end)?;
            let steps = self.path(at)?;
            // PANIC: a path has the root at least.
            let step = steps[steps.len() - 1];
            let level = self.format.levels()[step.level];
            let count = (next - at) / level.page();
            self.write(step, level.index(at), &vec![0; count as usize])?;
            self.count(step.table, -(count as i64));
            self.prune(at, &steps, &mut retired)?;
            at = next;
        }
        Ok(retired)
    }

    /// Unlinks the tables on the way to `va` that have no entries, from the last one up.
    fn prune(&mut self, va: u64, steps: &[Step], retired: &mut Retired) -> PageResult<(), M> {
        for pair in steps.windows(2).rev() {
            let (above, step) = (pair[0], pair[1]);
            if self.live.get(&step.table).is_none_or(|&n| n > 0) {
                break;
            }
            let index = self.format.levels()[above.level].index(va);
            self.write(above, index, &[0])?;
            self.live.remove(&step.table);
            retired
                .0
                .push((step.table, self.format.levels()[step.level].table_bytes()));
            self.count(above.table, -1);
        }
        Ok(())
    }

    /// Counts entries of a table; the root's are not counted, it stays.
    fn count(&mut self, table: u64, change: i64) {
        if let Some(live) = self.live.get_mut(&table) {
            *live = live.saturating_add_signed(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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

    /// Four levels of nine bits; valid 0, run 11:7 as log2 of pages, leaf mark 54.
    struct AmdLike;
    impl PteFormat for AmdLike {
        type Attr = u8;
        fn levels(&self) -> &[Level] {
            &AMD
        }
        fn max_run(&self, _: usize) -> u32 {
            12 + 31
        }
        fn encode_table(&self, _: usize, table: u64) -> u128 {
            u128::from(table | 1)
        }
        fn encode_leaf(&self, level: usize, leaf: Leaf<u8>) -> u128 {
            let mark = if level < 3 { 1 << 54 } else { 0 };
            let run = u64::from(leaf.run - 12) << 7;
            u128::from(leaf.pa | 1 | run | u64::from(leaf.attr & 7) << 4 | mark)
        }
        fn decode(&self, level: usize, entry: u128) -> Entry<u8> {
            let e = entry as u64;
            let pa = e & 0xffff_ffff_f000;
            if e & 1 == 0 {
                Entry::Invalid
            } else if level == 3 || e >> 54 & 1 == 1 {
                Entry::Leaf(Leaf {
                    pa,
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

    /// Uneven levels; tables by aperture 2:1, pages by valid 0; 16-byte entries with the table of
    /// small pages in the upper half; no runs.
    struct NvLike;
    impl PteFormat for NvLike {
        type Attr = u8;
        fn levels(&self) -> &[Level] {
            &NV
        }
        fn max_run(&self, level: usize) -> u32 {
            NV[level].shift
        }
        fn encode_table(&self, level: usize, table: u64) -> u128 {
            let half = u128::from(table >> 12 << 8 | 2);
            if level == 3 { half << 64 } else { half }
        }
        fn encode_leaf(&self, _: usize, leaf: Leaf<u8>) -> u128 {
            u128::from(leaf.pa >> 12 << 8 | 1 | u64::from(leaf.attr & 7) << 5)
        }
        fn decode(&self, level: usize, entry: u128) -> Entry<u8> {
            let table = |e: u64| Entry::Table((e >> 8) << 12);
            let low = entry as u64;
            let high = (entry >> 64) as u64;
            if low & 1 == 1 {
                let (pa, attr) = ((low >> 8) << 12, (low >> 5 & 7) as u8);
                Entry::Leaf(Leaf {
                    pa,
                    attr,
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

    #[derive(Debug, Error)]
    #[error("no table left")]
    struct NoTable;

    /// Tables by address, at most `limit` of them.
    struct Ram {
        tables: BTreeMap<u64, Vec<u8>>,
        next: u64,
        limit: usize,
    }

    impl Ram {
        fn new(limit: usize) -> Ram {
            Ram {
                tables: BTreeMap::new(),
                next: 0x10_0000,
                limit,
            }
        }
    }

    impl TableMemory for Ram {
        type Error = NoTable;
        fn alloc(&mut self, bytes: u64) -> std::result::Result<u64, NoTable> {
            if self.tables.len() >= self.limit {
                return Err(NoTable);
            }
            let table = self.next;
            self.next += 0x1000;
            self.tables.insert(table, vec![0; bytes as usize]);
            Ok(table)
        }
        fn free(&mut self, table: u64, bytes: u64) {
            assert_eq!(self.tables.remove(&table).unwrap().len() as u64, bytes);
        }
        fn read(&mut self, t: u64, at: u64, to: &mut [u8]) -> std::result::Result<(), NoTable> {
            to.copy_from_slice(&self.tables[&t][at as usize..at as usize + to.len()]);
            Ok(())
        }
        fn write(&mut self, t: u64, at: u64, from: &[u8]) -> std::result::Result<(), NoTable> {
            let table = self.tables.get_mut(&t).unwrap();
            table[at as usize..at as usize + from.len()].copy_from_slice(from);
            Ok(())
        }
    }

    const M2: u64 = 2 << 20;

    #[test]
    fn large_pages_where_they_fit_and_small_ones_around() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99)).unwrap();
        let (va, pa) = (M2 - 0x2000, 8 * M2 - 0x2000);
        pt.map(va, pa, 0x2000 + M2 + 0x3000, 7).unwrap();
        let page = |pt: &mut PageTable<_, _>, va| pt.translate(va).unwrap().map(|t| t.page);
        assert_eq!(page(&mut pt, va), Some(0x1000));
        assert_eq!(page(&mut pt, M2 + 0x1234), Some(M2));
        assert_eq!(page(&mut pt, 2 * M2 + 0x2fff), Some(0x1000));
        assert_eq!(page(&mut pt, 2 * M2 + 0x3000), None);
        let t = pt.translate(M2 + 0x1234).unwrap().unwrap();
        assert_eq!((t.pa, t.attr, t.run), (8 * M2 + 0x1234, 7, 21));
        assert_eq!(pt.translate(va).unwrap().unwrap().run, 13);
        assert_eq!(pt.translate(u64::MAX).unwrap(), None);
    }

    #[test]
    fn errors_say_what_is_there() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99)).unwrap();
        pt.map(M2, 4 * M2, M2, 0).unwrap();
        let text = |e: PageError<NoTable>| e.to_string();
        assert_eq!(
            text(pt.map(M2 - 0x1000, 0, 0x3000, 0).unwrap_err()),
            "va 0x200000 is mapped already, to pa 0x800000 (0x200000-byte page)"
        );
        assert_eq!(text(pt.unmap(0, M2).unwrap_err()), "va 0x0 is not mapped");
        assert_eq!(
            text(pt.map(0x1000, 0x800, 0x1000, 0).unwrap_err()),
            "va 0x1000, pa 0x800, 0x1000 bytes: not multiples of the 0x1000-byte page"
        );
        assert_eq!(
            text(pt.map(1 << 48, 0, 0x1000, 0).unwrap_err()),
            "0x1000 bytes at va 0x1000000000000 leave the 48-bit address space"
        );
        assert!(matches!(
            pt.map(0, 0, 0, 0),
            Err(PageError::Misaligned { .. })
        ));
        assert_eq!(pt.translate(0).unwrap(), None, "refused maps leave nothing");
    }

    #[test]
    fn unmapping_part_of_a_page_or_run_leaves_the_rest() {
        let mut pt = PageTable::new(AmdLike, Ram::new(99)).unwrap();
        pt.map(M2, 4 * M2, 2 * M2, 1).unwrap();
        assert_eq!(pt.translate(M2).unwrap().unwrap().run, 21);
        let retired = pt.unmap(M2 + 0x5000, 0x1000).unwrap();
        assert_eq!(retired.tables(), 0);
        pt.release(retired);
        let run = |pt: &mut PageTable<_, _>, va| pt.translate(va).unwrap().map(|t| t.run);
        assert_eq!(run(&mut pt, M2), Some(14));
        assert_eq!(run(&mut pt, M2 + 0x4000), Some(12));
        assert_eq!(run(&mut pt, M2 + 0x5000), None);
        assert_eq!(run(&mut pt, M2 + 0x6000), Some(13));
        assert_eq!(run(&mut pt, 2 * M2), Some(21));
    }

    #[test]
    fn a_huge_page_may_follow_small_ones() {
        let mut pt = PageTable::new(NvLike, Ram::new(99)).unwrap();
        pt.map(M2, 0, 0x3000, 0).unwrap();
        let tables = pt.memory().tables.len();
        let retired = pt.unmap(M2, 0x3000).unwrap();
        assert_eq!(retired.tables(), 4);
        assert_eq!(
            pt.memory().tables.len(),
            tables,
            "kept until the TLB is invalidated"
        );
        pt.release(retired);
        assert_eq!(pt.memory().tables.len(), 1);
        pt.map(0, 0, 512 << 20, 0).unwrap();
        assert_eq!(pt.translate(M2).unwrap().unwrap().page, 512 << 20);
    }

    #[test]
    fn running_out_of_tables_undoes_the_map() {
        for limit in 1..6 {
            let mut pt = PageTable::new(AmdLike, Ram::new(limit)).unwrap();
            let got = pt.map(M2 - 0x1000, 0x1000, 0x2000, 0);
            if limit < 5 {
                assert!(matches!(got, Err(PageError::Memory(NoTable))), "{limit}");
                assert_eq!(pt.memory().tables.len(), 1, "{limit}");
                assert_eq!(pt.tables(), 0);
                assert!(pt.memory().tables[&pt.root()].iter().all(|&b| b == 0));
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
            fn encode_table(&self, _: usize, _: u64) -> u128 {
                0
            }
            fn encode_leaf(&self, _: usize, _: Leaf<u8>) -> u128 {
                0
            }
            fn decode(&self, _: usize, _: u128) -> Entry<u8> {
                Entry::Invalid
            }
        }
        let got = PageTable::new(Gap, Ram::new(9));
        assert!(matches!(got, Err(PageError::BadFormat { level: 0 })));
    }

    /// Every run the table claims is really contiguous, alike and complete.
    fn check_runs<F: PteFormat<Attr = u8>>(
        pt: &mut PageTable<F, Ram>,
        model: &BTreeMap<u64, (u64, u8)>,
    ) {
        for (&page, &(pa, attr)) in model {
            let t = pt.translate(page << 12).unwrap().unwrap();
            assert_eq!((t.pa, t.attr), (pa, attr));
            let pages = 1u64 << (t.run - 12);
            let first = page & !(pages - 1);
            for other in [first, first + pages - 1, first + pages / 2] {
                let expected = pa.wrapping_add(other.wrapping_sub(page).wrapping_mul(0x1000));
                assert_eq!(
                    model.get(&other),
                    Some(&(expected, attr)),
                    "run of page {page:#x}"
                );
            }
        }
    }

    fn agrees<F: PteFormat<Attr = u8>>(
        format: F,
        limit: usize,
        steps: Vec<(bool, u64, u64, u64, u8)>,
    ) {
        let mut pt = PageTable::new(format, Ram::new(limit)).unwrap();
        let mut model: BTreeMap<u64, (u64, u8)> = BTreeMap::new();
        for (map, va, pa, count, attr) in steps {
            let range = va..va + count;
            if map {
                let taken = model.range(range.clone()).next().map(|(&page, _)| page);
                match pt.map(va << 12, pa << 12, count << 12, attr) {
                    Ok(()) => {
                        assert_eq!(taken, None);
                        model.extend(range.map(|p| (p, ((pa + p - va) << 12, attr))));
                    }
                    Err(PageError::AlreadyMapped { va, pa, .. }) => {
                        let page = taken.unwrap();
                        assert_eq!((va, pa), (page << 12, model[&page].0));
                    }
                    Err(PageError::Memory(NoTable)) => assert_eq!(taken, None),
                    Err(other) => panic!("{other}"),
                }
            } else {
                let hole = range.clone().find(|p| !model.contains_key(p));
                match pt.unmap(va << 12, count << 12) {
                    Ok(retired) => {
                        assert_eq!(hole, None);
                        pt.release(retired);
                        model.retain(|p, _| !range.contains(p));
                    }
                    Err(PageError::NotMapped { va }) => assert_eq!(Some(va >> 12), hole),
                    Err(PageError::Memory(NoTable)) => assert_eq!(hole, None),
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!(pt.tables() + 1, pt.memory().tables.len());
        }
        check_runs(&mut pt, &model);
        for page in (0..3000).filter(|p| !model.contains_key(p)) {
            assert_eq!(pt.translate(page << 12).unwrap(), None);
        }
        // All of it back: no table leaks. Splitting may need tables that the limit denies.
        pt.memory_mut().limit = usize::MAX;
        for page in model.keys() {
            let retired = pt.unmap(page << 12, 0x1000).unwrap();
            pt.release(retired);
        }
        assert_eq!(pt.memory().tables.len(), 1);
        assert!(pt.memory().tables[&pt.root()].iter().all(|&b| b == 0));
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
        #![proptest_config(ProptestConfig::with_cases(64))]
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
