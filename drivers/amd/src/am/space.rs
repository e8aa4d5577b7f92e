//! [`AddressSpace`]: what the addresses of a card mean, which are those of VMID 0: page tables in VRAM, and what the
//! memory hubs have to be told when they change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hcq::addr::PhysAddr;
use hcq::mem::pages::{PageError, PageTable};
use hcq::{Error, GpuVa};

use super::areas::ROOT;
use super::card::Card;
use super::exception::broken;
use super::hub::Hubs;
use super::pages::{Attr, Format, START, Tables};

/// The addresses of a card.
pub(super) struct AddressSpace {
    card: Arc<Card>,
    table: Mutex<PageTable<Format, Tables>>,
}

impl AddressSpace {
    /// Addresses that mean nothing yet, whatever an earlier process has left there. The hubs know the root already.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the BAR does not show the tables; [`Error::Fault`].
    pub(super) fn new(card: &Arc<Card>, hubs: &Hubs) -> Result<AddressSpace, Error> {
        let area = card.areas().tables;
        let tables = Tables::new(card.device(), card.vram(), area.at, area.bytes)?;
        let tables = tables
            .rooted(ROOT.at)
            .map_err(|e| broken(card, "VRAM", e))?;
        let table = PageTable::new(Format::of(card.gfx()), tables, START);
        let table = table.map_err(|e| refused(card, e))?;
        let space = AddressSpace {
            card: card.clone(),
            table: Mutex::new(table),
        };
        space.invalidate(hubs)?;
        Ok(space)
    }

    /// Lets addresses from `va` on mean pieces of memory, one behind the other.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: no room for tables, and nothing is mapped; [`Error::Fault`]: the card is lost.
    pub(super) fn map(
        &self,
        hubs: &Hubs,
        va: GpuVa,
        pieces: &[(PhysAddr, u64)],
        attr: Attr,
    ) -> Result<(), Error> {
        let mut table = self.lock();
        let mapped = table.map(va, pieces, attr);
        mapped.map_err(|e| refused(&self.card, e))?;
        // Hubs may hold that there was no table.
        self.invalidate(hubs)
    }

    /// Lets addresses mean nothing again. When it returns, the card does not use what was there any more.
    ///
    /// # Errors
    /// [`Error::Fault`]: the card is lost, and may go on using it.
    pub(super) fn unmap(&self, hubs: &Hubs, va: GpuVa, bytes: u64) -> Result<(), Error> {
        let mut table = self.lock();
        let retired = table.unmap(va, bytes);
        let retired = retired.map_err(|e| refused(&self.card, e))?;
        self.invalidate(hubs)?;
        table.release(retired);
        Ok(())
    }

    fn invalidate(&self, hubs: &Hubs) -> Result<(), Error> {
        let done = hubs.invalidate();
        done.map_err(|e| broken(&self.card, "memory hub", e))
    }

    fn lock(&self) -> MutexGuard<'_, PageTable<Format, Tables>> {
        // What a table holds after a panic is written anew with the next change of it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(card: &Card, error: PageError) -> Error {
    match error {
        PageError::NoTable(error) => error,
        error => broken(card, "page tables", error),
    }
}
