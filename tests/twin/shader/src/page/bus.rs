//! The way of a wave to memory.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Access, MemFault, Memory, PAGE, Page, Port, Word, runs};

/// Pages that are remembered.
const TLB: usize = 256;

/// The pages that were met last.
struct Tlb {
    /// The epoch of memory that they are of.
    epoch: Cell<u64>,
    /// Page number, port and access of each; [`NO_KEY`] where there is none.
    keys: [Cell<u64>; TLB],
    pages: [Cell<Page>; TLB],
}

const NO_KEY: u64 = !0;

/// Where a page is remembered.
fn slot(key: u64) -> usize {
    // Neighbours lie side by side; those of other ports elsewhere.
    (key >> 5 ^ (key & 31) * 37) as usize % TLB
}

/// The way of a wave to memory, with a cache of pages (a TLB) that clones share: waves of a thread.
#[derive(Clone)]
pub struct Bus<'a> {
    /// Where pages come from.
    pub memory: &'a dyn Memory,
    epoch: &'a AtomicU64,
    tlb: Rc<Tlb>,
    /// The slot of scratch that the wave has.
    slot: Range<u64>,
}

impl<'a> Bus<'a> {
    /// A way to `memory`.
    pub fn new(memory: &'a dyn Memory) -> Self {
        let epoch = memory.epoch();
        Self {
            memory,
            epoch,
            tlb: Rc::new(Tlb {
                epoch: Cell::new(epoch.load(Ordering::Acquire)),
                keys: [const { Cell::new(NO_KEY) }; TLB],
                pages: [const { Cell::new(Page::NONE) }; TLB],
            }),
            slot: 0..0,
        }
    }

    /// The way of a wave that has these addresses as its scratch.
    #[must_use]
    pub fn in_slot(self, slot: Range<u64>) -> Self {
        Self { slot, ..self }
    }

    /// The page of `va`.
    #[inline(always)]
    pub(super) fn page(&mut self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let key = (va / PAGE) << 5 | (port as u64) << 2 | access as u64;
        let at = slot(key);
        let tlb = &*self.tlb;
        if tlb.keys[at].get() == key && self.epoch.load(Ordering::Acquire) == tlb.epoch.get() {
            return Ok(tlb.pages[at].get());
        }
        self.miss(port, va, access, key)
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, port: Port, va: u64, access: Access, key: u64) -> Result<Page, MemFault> {
        // The epoch is read first: a change while the page is looked up is seen the next time.
        let epoch = self.epoch.load(Ordering::Acquire);
        let tlb = &*self.tlb;
        if epoch != tlb.epoch.get() {
            tlb.epoch.set(epoch);
            for key in &tlb.keys {
                key.set(NO_KEY);
            }
        }
        // The fault names the address that was asked for, not the start of its page.
        let page = self
            .memory
            .page(port, va & !(PAGE - 1), access)
            .map_err(|fault| MemFault { va, ..fault })?;
        tlb.keys[slot(key)].set(key);
        tlb.pages[slot(key)].set(page);
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
        if page.watch & runs(offset(va), bytes) != 0 {
            let own = self.slot.start <= va && va.saturating_add(bytes as u64) <= self.slot.end;
            self.memory.watched(port, va, bytes, access, own);
        }
    }

    /// One aligned word.
    ///
    /// # Errors
    /// Memory refused.
    pub fn get<T: Word>(&mut self, port: Port, va: u64) -> Result<T, MemFault> {
        let page = self.page_for(port, va, size_of::<T>(), reads(port))?;
        page.touch(offset(va), size_of::<T>());
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
            page.touch(offset(va), 4 * here);
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
}

/// What a port asks for when it reads.
pub(super) fn reads(port: Port) -> Access {
    if port == Port::Inst {
        Access::Execute
    } else {
        Access::Read
    }
}

pub(super) fn offset(va: u64) -> usize {
    (va % PAGE) as usize
}
