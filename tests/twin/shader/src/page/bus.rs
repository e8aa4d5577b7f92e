//! The way of a wave to memory.

use super::{Access, MemFault, Memory, PAGE, Page, Port, Word};
use crate::wave::Lanes;

/// Pages that a [`Bus`] remembers.
const TLB: usize = 64;

#[derive(Clone, Copy)]
struct Entry {
    /// Page number, port and access; [`NO_KEY`] where there is none.
    key: u64,
    page: Page,
}

const NO_KEY: u64 = !0;

/// Where a page is remembered.
fn slot(number: u64, key: u64) -> usize {
    (number ^ (key << 3)) as usize % TLB
}

/// The way of one wave to memory, with a small cache of pages (a TLB).
pub struct Bus<'a> {
    /// Where pages come from.
    pub memory: &'a dyn Memory,
    epoch: u64,
    tlb: Box<[Entry; TLB]>,
}

impl<'a> Bus<'a> {
    /// A way to `memory`.
    pub fn new(memory: &'a dyn Memory) -> Self {
        let none = Entry {
            key: NO_KEY,
            page: Page {
                base: std::ptr::null_mut(),
                dirty: std::ptr::null_mut(),
                watch: 0,
            },
        };
        Self {
            memory,
            epoch: memory.epoch(),
            tlb: Box::new([none; TLB]),
        }
    }

    /// The page of `va`.
    fn page(&mut self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let number = va / PAGE;
        let key = number << 5 | (port as u64) << 2 | access as u64;
        let entry = &self.tlb[slot(number, key)];
        if entry.key == key && self.memory.epoch() == self.epoch {
            return Ok(entry.page);
        }
        self.miss(port, va, access, key)
    }

    #[cold]
    fn miss(&mut self, port: Port, va: u64, access: Access, key: u64) -> Result<Page, MemFault> {
        // The epoch is read first: a change while the page is looked up is seen the next time.
        let epoch = self.memory.epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            for entry in self.tlb.iter_mut() {
                entry.key = NO_KEY;
            }
        }
        // The fault names the address that was asked for, not the start of its page.
        let page = self
            .memory
            .page(port, va & !(PAGE - 1), access)
            .map_err(|fault| MemFault { va, ..fault })?;
        self.tlb[slot(va / PAGE, key)] = Entry { key, page };
        Ok(page)
    }

    /// The page of `va`, for one access to `bytes` there.
    fn page_for(
        &mut self,
        port: Port,
        va: u64,
        bytes: usize,
        access: Access,
    ) -> Result<Page, MemFault> {
        let page = self.page(port, va, access)?;
        if page.watch != 0 {
            self.announce(page, port, va, bytes, access);
        }
        Ok(page)
    }

    #[cold]
    fn announce(&self, page: Page, port: Port, va: u64, bytes: usize, access: Access) {
        let first = offset(va) / 64;
        let last = (offset(va) + bytes - 1).min(PAGE as usize - 1) / 64;
        if page.watch >> first & (!0 >> (63 - (last - first))) != 0 {
            self.memory.watched(port, va, bytes, access);
        }
    }

    /// One aligned word.
    ///
    /// # Errors
    /// Memory refused.
    pub fn get<T: Word>(&mut self, port: Port, va: u64) -> Result<T, MemFault> {
        let page = self.page_for(port, va, size_of::<T>(), reads(port))?;
        Ok(page.load(offset(va)))
    }

    /// Stores one aligned word.
    ///
    /// # Errors
    /// Memory refused.
    pub fn put<T: Word>(&mut self, port: Port, va: u64, value: T) -> Result<(), MemFault> {
        let page = self.page_for(port, va, size_of::<T>(), Access::Write)?;
        page.store(offset(va), value);
        page.mark(offset(va), size_of::<T>());
        Ok(())
    }

    /// Changes one aligned word in one step that no other thread can split; returns what was there.
    ///
    /// # Errors
    /// Memory refused.
    pub fn atomic<T: Word>(
        &mut self,
        port: Port,
        va: u64,
        new: impl Fn(T) -> T,
    ) -> Result<T, MemFault> {
        let page = self.page_for(port, va, size_of::<T>(), Access::Write)?;
        Ok(page.update(offset(va), new))
    }

    /// The dword at `va`, a multiple of 4.
    ///
    /// # Errors
    /// Memory refused.
    pub fn read_u32(&mut self, port: Port, va: u64) -> Result<u32, MemFault> {
        self.get(port, va)
    }

    /// The dwords from `va`, a multiple of 4.
    ///
    /// # Errors
    /// Memory refused.
    pub fn read(&mut self, port: Port, va: u64, into: &mut [u32]) -> Result<(), MemFault> {
        let mut rest = into;
        let mut va = va & !3;
        while !rest.is_empty() {
            let here = rest.len().min((PAGE as usize - offset(va)) / 4);
            let page = self.page_for(port, va, 4 * here, reads(port))?;
            let (now, later) = rest.split_at_mut(here);
            for (i, word) in now.iter_mut().enumerate() {
                *word = page.load(offset(va) + 4 * i);
            }
            va = va.wrapping_add(4 * here as u64);
            rest = later;
        }
        Ok(())
    }

    /// An integer of `bytes` bytes (at most 8) at any address.
    ///
    /// # Errors
    /// Memory refused.
    pub fn read_any(&mut self, port: Port, va: u64, bytes: usize) -> Result<u64, MemFault> {
        match bytes {
            4 if va.is_multiple_of(4) => return Ok(self.get::<u32>(port, va)?.into()),
            8 if va.is_multiple_of(8) => return self.get(port, va),
            2 if va.is_multiple_of(2) => return Ok(self.get::<u16>(port, va)?.into()),
            _ => {}
        }
        let mut value = 0;
        for i in 0..bytes as u64 {
            let byte: u8 = self.get(port, va.wrapping_add(i))?;
            value |= u64::from(byte) << (8 * i);
        }
        Ok(value)
    }

    /// Stores an integer of `bytes` bytes (at most 8) at any address.
    ///
    /// # Errors
    /// Memory refused.
    pub fn write_any(
        &mut self,
        port: Port,
        va: u64,
        bytes: usize,
        value: u64,
    ) -> Result<(), MemFault> {
        match bytes {
            4 if va.is_multiple_of(4) => return self.put(port, va, value as u32),
            8 if va.is_multiple_of(8) => return self.put(port, va, value),
            2 if va.is_multiple_of(2) => return self.put(port, va, value as u16),
            _ => {}
        }
        for i in 0..bytes as u64 {
            self.put(port, va.wrapping_add(i), (value >> (8 * i)) as u8)?;
        }
        Ok(())
    }

    /// `N` dwords for each lane in `mask`, from its address, which may be any. Dword `i` goes to
    /// `rows[i * stride]`; other lanes keep what they have.
    ///
    /// # Errors
    /// Memory refused the address of a lane.
    pub fn load<const N: usize>(
        &mut self,
        port: Port,
        addresses: &[u64; 32],
        mask: u32,
        rows: &mut [Lanes],
        stride: usize,
    ) -> Result<(), MemFault> {
        let bytes = 4 * N as u64;
        if mask == 0 {
            return Ok(());
        }
        let shape = Shape::of(addresses, mask, bytes);
        if shape.one_page
            && shape.aligned(4)
            && let page = self.page(port, shape.first, reads(port))?
            && page.watch == 0
        {
            if shape.consecutive {
                let start = offset(shape.first);
                if N == 1 && start.is_multiple_of(8) {
                    let row = &mut rows[0];
                    for i in 0..16 {
                        let pair: u64 = page.load(start + 8 * i);
                        row[2 * i] = pair as u32;
                        row[2 * i + 1] = (pair >> 32) as u32;
                    }
                } else {
                    load_one_page::<N>(page, |lane| start + 4 * N * lane, !0, rows, stride);
                }
            } else if shape.same {
                let values = load_lane::<N>(page, offset(shape.first));
                for (i, value) in values.into_iter().enumerate() {
                    blend(&mut rows[i * stride], &[value; 32], mask);
                }
            } else {
                // A lane that is off reads what the first lane reads, and drops it.
                load_one_page::<N>(
                    page,
                    |lane| {
                        offset(if mask >> lane & 1 == 1 {
                            addresses[lane]
                        } else {
                            shape.first
                        })
                    },
                    mask,
                    rows,
                    stride,
                );
            }
            return Ok(());
        }
        for lane in lanes(mask) {
            let va = addresses[lane];
            if N.is_multiple_of(2) && va.is_multiple_of(8) {
                for i in 0..N / 2 {
                    let pair: u64 = self.get(port, va.wrapping_add(8 * i as u64))?;
                    rows[2 * i * stride][lane] = pair as u32;
                    rows[(2 * i + 1) * stride][lane] = (pair >> 32) as u32;
                }
                continue;
            }
            for i in 0..N {
                let value = self.read_any(port, va.wrapping_add(4 * i as u64), 4)?;
                rows[i * stride][lane] = value as u32;
            }
        }
        Ok(())
    }

    /// Stores `N` dwords of each lane in `mask` at its address, which may be any. Dword `i` comes
    /// from `rows[i * stride]`.
    ///
    /// # Errors
    /// Memory refused the address of a lane.
    pub fn store<const N: usize>(
        &mut self,
        addresses: &[u64; 32],
        mask: u32,
        rows: &[Lanes],
        stride: usize,
    ) -> Result<(), MemFault> {
        let port = Port::Vector;
        let bytes = 4 * N as u64;
        if mask == 0 {
            return Ok(());
        }
        let shape = Shape::of(addresses, mask, bytes);
        if shape.one_page
            && shape.aligned(4)
            && let page = self.page(port, shape.first, Access::Write)?
            && page.watch == 0
        {
            if shape.consecutive {
                let start = offset(shape.first);
                if N == 1 && start.is_multiple_of(8) {
                    for (i, pair) in rows[0].chunks_exact(2).enumerate() {
                        page.store(start + 8 * i, u64::from(pair[0]) | u64::from(pair[1]) << 32);
                    }
                } else {
                    for lane in 0..32 {
                        store_lane::<N>(page, start + 4 * N * lane, lane, rows, stride);
                    }
                }
                page.mark(start, 128 * N);
                return Ok(());
            }
            let mut marks = Marks::new(page);
            for lane in lanes(mask) {
                let at = offset(addresses[lane]);
                store_lane::<N>(page, at, lane, rows, stride);
                marks.run(at, 4 * N);
            }
            marks.flush();
            return Ok(());
        }
        for lane in lanes(mask) {
            let va = addresses[lane];
            if N.is_multiple_of(2) && va.is_multiple_of(8) {
                for i in 0..N / 2 {
                    let low = rows[2 * i * stride][lane];
                    let high = rows[(2 * i + 1) * stride][lane];
                    let pair = u64::from(low) | u64::from(high) << 32;
                    self.put(port, va.wrapping_add(8 * i as u64), pair)?;
                }
                continue;
            }
            for i in 0..N {
                let value = rows[i * stride][lane];
                self.write_any(port, va.wrapping_add(4 * i as u64), 4, value.into())?;
            }
        }
        Ok(())
    }

    /// A `T` of 8 or 16 bits for each lane in `mask`, with zeros above; 0 for the others.
    ///
    /// # Errors
    /// Memory refused the address of a lane.
    pub fn load_small<T: Word>(
        &mut self,
        port: Port,
        addresses: &[u64; 32],
        mask: u32,
    ) -> Result<Lanes, MemFault> {
        let mut found = [0; 32];
        let bytes = size_of::<T>();
        if mask == 0 {
            return Ok(found);
        }
        let shape = Shape::of(addresses, mask, bytes as u64);
        if shape.one_page
            && shape.aligned(bytes as u64)
            && let page = self.page(port, shape.first, reads(port))?
            && page.watch == 0
        {
            for lane in 0..32 {
                let on = mask >> lane & 1 == 1;
                let va = if on { addresses[lane] } else { shape.first };
                let value: u64 = page.load::<T>(offset(va)).into();
                found[lane] = if on { value as u32 } else { 0 };
            }
            return Ok(found);
        }
        for lane in lanes(mask) {
            found[lane] = self.read_any(port, addresses[lane], bytes)? as u32;
        }
        Ok(found)
    }

    /// Stores the low 8 or 16 bits of each lane in `mask`.
    ///
    /// # Errors
    /// Memory refused the address of a lane.
    pub fn store_small<T: Word>(
        &mut self,
        addresses: &[u64; 32],
        mask: u32,
        values: &Lanes,
    ) -> Result<(), MemFault> {
        let port = Port::Vector;
        let bytes = size_of::<T>();
        if mask == 0 {
            return Ok(());
        }
        let shape = Shape::of(addresses, mask, bytes as u64);
        if shape.one_page
            && shape.aligned(bytes as u64)
            && let page = self.page(port, shape.first, Access::Write)?
            && page.watch == 0
        {
            let mut marks = Marks::new(page);
            for lane in lanes(mask) {
                let at = offset(addresses[lane]);
                page.store(at, T::cut(values[lane].into()));
                marks.add(at, bytes);
            }
            marks.flush();
            return Ok(());
        }
        for lane in lanes(mask) {
            self.write_any(port, addresses[lane], bytes, values[lane].into())?;
        }
        Ok(())
    }
}

/// What a port asks for when it reads.
fn reads(port: Port) -> Access {
    if port == Port::Inst {
        Access::Execute
    } else {
        Access::Read
    }
}

fn offset(va: u64) -> usize {
    (va % PAGE) as usize
}

/// The lanes of a mask, in order.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

/// How the addresses of a wave lie.
struct Shape {
    /// Of the first lane that is on.
    first: u64,
    /// Every access is within the page of the first.
    one_page: bool,
    /// Lane `i` accesses what follows lane `i - 1`, and every lane is on.
    consecutive: bool,
    /// Every access is the same.
    same: bool,
    low: u64,
}

impl Shape {
    fn of(addresses: &[u64; 32], mask: u32, bytes: u64) -> Self {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        if mask == !0 {
            let mut gap = 0;
            for (lane, va) in addresses.iter().enumerate() {
                gap |= va ^ first.wrapping_add(bytes * lane as u64);
            }
            if gap == 0 && first % PAGE + 32 * bytes <= PAGE {
                return Self {
                    first,
                    one_page: true,
                    consecutive: true,
                    same: false,
                    low: first,
                };
            }
        }
        let (mut apart, mut far, mut low) = (0, 0, 0);
        for (lane, &va) in addresses.iter().enumerate() {
            let on = u64::from(mask >> lane & 1).wrapping_neg();
            apart |= (va ^ first) & on;
            far |= (va.wrapping_add(bytes - 1) ^ first) & on;
            low |= va & on;
        }
        far |= apart;
        Self {
            first,
            one_page: far < PAGE,
            consecutive: false,
            same: apart == 0,
            low,
        }
    }

    fn aligned(&self, bytes: u64) -> bool {
        self.low.is_multiple_of(bytes)
    }
}

/// `N` dwords; pairs that are aligned are not torn.
#[inline(always)]
fn load_lane<const N: usize>(page: Page, at: usize) -> [u32; N] {
    let mut values = [0; N];
    if N.is_multiple_of(2) && at.is_multiple_of(8) {
        for (i, values) in values.chunks_exact_mut(2).enumerate() {
            let pair: u64 = page.load(at + 8 * i);
            values[0] = pair as u32;
            values[1] = (pair >> 32) as u32;
        }
    } else {
        for (i, value) in values.iter_mut().enumerate() {
            *value = page.load(at + 4 * i);
        }
    }
    values
}

fn load_one_page<const N: usize>(
    page: Page,
    at: impl Fn(usize) -> usize,
    mask: u32,
    rows: &mut [Lanes],
    stride: usize,
) {
    let mut found = [[0; 32]; N];
    for lane in 0..32 {
        let values = load_lane::<N>(page, at(lane));
        for (row, value) in found.iter_mut().zip(values) {
            row[lane] = value;
        }
    }
    for (i, row) in found.iter().enumerate() {
        blend(&mut rows[i * stride], row, mask);
    }
}

fn store_lane<const N: usize>(page: Page, at: usize, lane: usize, rows: &[Lanes], stride: usize) {
    if N.is_multiple_of(2) && at.is_multiple_of(8) {
        for i in 0..N / 2 {
            let low = rows[2 * i * stride][lane];
            let high = rows[(2 * i + 1) * stride][lane];
            page.store(at + 8 * i, u64::from(low) | u64::from(high) << 32);
        }
    } else {
        for i in 0..N {
            page.store(at + 4 * i, rows[i * stride][lane]);
        }
    }
}

/// Writes the lanes of `mask`.
pub(crate) fn blend(into: &mut Lanes, from: &Lanes, mask: u32) {
    if mask == !0 {
        *into = *from;
        return;
    }
    for lane in 0..32 {
        let on = (mask >> lane & 1).wrapping_neg();
        into[lane] = from[lane] & on | into[lane] & !on;
    }
}

/// Notes what many small stores to a page wrote: neighbours become one atomic operation.
struct Marks {
    page: Page,
    word: usize,
    bits: u64,
}

impl Marks {
    fn new(page: Page) -> Self {
        Self {
            page,
            word: 0,
            bits: 0,
        }
    }

    /// `bytes` at `offset`, which lie in one run of 64, were written.
    fn add(&mut self, offset: usize, bytes: usize) {
        if self.word != offset / 64 {
            self.flush();
            self.word = offset / 64;
        }
        self.bits |= (!0 >> (64 - bytes)) << (offset % 64);
    }

    /// `bytes`, at most 64, at `offset` were written.
    fn run(&mut self, offset: usize, bytes: usize) {
        let here = bytes.min(64 - offset % 64);
        self.add(offset, here);
        if here < bytes {
            self.add(offset + here, bytes - here);
        }
    }

    fn flush(&mut self) {
        if self.bits != 0 {
            self.page.mark_word(self.word, self.bits);
            self.bits = 0;
        }
    }
}
