//! Vector accesses: an address for each lane.

use super::bus::{Bus, offset, reads};
use super::{Access, MemFault, PAGE, Page, Port, Word};
use crate::simd::{self, Kernel};
use crate::wave::Lanes;

impl Bus<'_> {
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
        // Single dwords are often neighbours, or one for all.
        if N == 1 {
            let shape = Shape::of(addresses, mask, bytes);
            if shape.one_page
                && shape.aligned(4)
                && (shape.same || shape.consecutive && shape.first.is_multiple_of(8))
                && let page = self.page(port, shape.first, reads(port))?
                && page.watch == 0
            {
                let start = offset(shape.first);
                page.touch(start, if shape.consecutive { 128 } else { 4 });
                if shape.consecutive {
                    let row = &mut rows[0];
                    for i in 0..16 {
                        let pair: u64 = page.load(start + 8 * i);
                        row[2 * i] = pair as u32;
                        row[2 * i + 1] = (pair >> 32) as u32;
                    }
                } else {
                    blend(&mut rows[0], &[page.load(start); 32], mask);
                }
                return Ok(());
            }
        }
        // One question for all lanes is cheaper than one for each.
        if mask != !0 || !simd::run(Whole::<N> { addresses }) {
            return self.load_apart::<N>(port, addresses, mask, rows, stride);
        }
        let mut found = [[0; 2]; 32];
        let mut near = Near::NONE;
        for (found, &va) in found.iter_mut().zip(addresses) {
            if va / PAGE != near.number {
                near.page = self.page(port, va, reads(port))?;
                near.number = va / PAGE;
                near.notes = near.page.notes();
                if near.page.watch != 0 {
                    return self.load_apart::<N>(port, addresses, mask, rows, stride);
                }
            }
            if near.notes {
                near.page.touch(offset(va), 4 * N);
            }
            *found = load_lane::<N>(near.page, offset(va));
        }
        simd::run(Spread::<N> {
            found: &found,
            mask,
            rows,
            stride,
        });
        Ok(())
    }

    /// As [`Bus::load`], lane by lane.
    #[inline(never)]
    fn load_apart<const N: usize>(
        &mut self,
        port: Port,
        addresses: &[u64; 32],
        mask: u32,
        rows: &mut [Lanes],
        stride: usize,
    ) -> Result<(), MemFault> {
        let mut found = [[0; 2]; 32];
        let mut near = Near::NONE;
        for lane in lanes(mask) {
            let va = addresses[lane];
            let bytes = 4 * N as u64;
            if let Some(page) = self.near(&mut near, port, va, bytes, reads(port))? {
                if near.notes {
                    page.touch(offset(va), 4 * N);
                }
                found[lane] = if va.is_multiple_of(8) {
                    load_lane::<N>(page, offset(va))
                } else {
                    join::<N>(|i| page.load(offset(va) + 4 * i))
                };
                continue;
            }
            let mut values = [0; N];
            for (i, value) in values.iter_mut().enumerate() {
                *value = self.read_any(port, va.wrapping_add(4 * i as u64), 4)? as u32;
            }
            found[lane] = join::<N>(|i| values[i]);
        }
        simd::run(Spread::<N> {
            found: &found,
            mask,
            rows,
            stride,
        });
        Ok(())
    }

    /// The page of one of many accesses: the one of the access before, if it lies there, too. `None`
    /// where it takes more than one aligned step, or where memory watches.
    #[inline(always)]
    fn near(
        &mut self,
        near: &mut Near,
        port: Port,
        va: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Option<Page>, MemFault> {
        if va / PAGE != near.number {
            near.page = self.page(port, va, access)?;
            near.number = va / PAGE;
            near.notes = near.page.notes();
        }
        let plain =
            near.page.watch == 0 && va.is_multiple_of(4) && offset(va) as u64 + bytes <= PAGE;
        Ok(plain.then_some(near.page))
    }

    /// Stores `N` dwords of each lane in `mask` at its address, which may be any. Dword `i` comes
    /// from `rows[i * stride]`.
    ///
    /// # Errors
    /// Memory refused the address of a lane.
    pub fn store<const N: usize>(
        &mut self,
        port: Port,
        addresses: &[u64; 32],
        mask: u32,
        rows: &[Lanes],
        stride: usize,
    ) -> Result<(), MemFault> {
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
        let mut near = Near::NONE;
        for lane in lanes(mask) {
            let va = addresses[lane];
            if let Some(page) = self.near(&mut near, port, va, bytes, Access::Write)? {
                store_lane::<N>(page, offset(va), lane, rows, stride);
                page.mark(offset(va), 4 * N);
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
            let notes = page.notes();
            for lane in 0..32 {
                let on = mask >> lane & 1 == 1;
                let va = if on { addresses[lane] } else { shape.first };
                if notes {
                    page.touch(offset(va), bytes);
                }
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
        port: Port,
        addresses: &[u64; 32],
        mask: u32,
        values: &Lanes,
    ) -> Result<(), MemFault> {
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

/// The lanes of a mask, in order.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

/// The page that an access before was in.
struct Near {
    number: u64,
    page: Page,
    /// Reads are to be noted.
    notes: bool,
}

impl Near {
    const NONE: Self = Self {
        // No address has this page number.
        number: !0,
        page: Page::NONE,
        notes: false,
    };
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

/// Finds the shape of addresses.
struct Look<'a> {
    addresses: &'a [u64; 32],
    mask: u32,
    bytes: u64,
}

impl Kernel for Look<'_> {
    type Out = Shape;

    #[inline(always)]
    fn run(self) -> Shape {
        let Self {
            addresses,
            mask,
            bytes,
        } = self;
        let first = addresses[mask.trailing_zeros() as usize & 31];
        if mask == !0 {
            let mut gap = 0;
            for (lane, va) in addresses.iter().enumerate() {
                gap |= va ^ first.wrapping_add(bytes * lane as u64);
            }
            if gap == 0 && first % PAGE + 32 * bytes <= PAGE {
                return Shape {
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
        Shape {
            first,
            one_page: far < PAGE,
            consecutive: false,
            same: apart == 0,
            low,
        }
    }
}

impl Shape {
    fn of(addresses: &[u64; 32], mask: u32, bytes: u64) -> Self {
        simd::run(Look {
            addresses,
            mask,
            bytes,
        })
    }

    fn aligned(&self, bytes: u64) -> bool {
        self.low.is_multiple_of(bytes)
    }
}

/// `N` dwords, at most 4, two in one: where `at` is a multiple of 8, or `N` is 1.
#[inline(always)]
fn load_lane<const N: usize>(page: Page, at: usize) -> [u64; 2] {
    match N {
        1 => [page.load::<u32>(at).into(), 0],
        2 => [page.load(at), 0],
        3 => [page.load(at), page.load::<u32>(at + 8).into()],
        _ => [page.load(at), page.load(at + 8)],
    }
}

/// `N` dwords, at most 4, two in one.
fn join<const N: usize>(dword: impl Fn(usize) -> u32) -> [u64; 2] {
    let mut found = [0; 2];
    for i in 0..N {
        found[i / 2] |= u64::from(dword(i)) << (32 * (i % 2));
    }
    found
}

/// Whether `N` dwords at each of these addresses can be loaded by [`load_lane`] from one page.
struct Whole<'a, const N: usize> {
    addresses: &'a [u64; 32],
}

impl<const N: usize> Kernel for Whole<'_, N> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let align = if N == 1 { 3 } else { 7 };
        let mut bad = 0;
        for va in self.addresses {
            bad |= va & align | (va % PAGE + 4 * N as u64 - 1) & PAGE;
        }
        bad == 0
    }
}

/// What was found for each lane, into registers: dword `i` goes to `rows[i * stride]`.
struct Spread<'a, const N: usize> {
    found: &'a [[u64; 2]; 32],
    mask: u32,
    rows: &'a mut [Lanes],
    stride: usize,
}

impl<const N: usize> Kernel for Spread<'_, N> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        for i in 0..N {
            let mut row = [0; 32];
            for lane in 0..32 {
                row[lane] = (self.found[lane][i / 2] >> (32 * (i % 2))) as u32;
            }
            blend(&mut self.rows[i * self.stride], &row, self.mask);
        }
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
#[inline(always)]
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
