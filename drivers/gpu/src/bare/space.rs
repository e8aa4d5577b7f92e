//! [`AddressSpace`]: the address space of a card: page tables in VRAM, and invalidations of the hardware when they
//! change.

use std::sync::{Arc, Mutex, MutexGuard};

use drivers_bundle::Hex;
use drivers_bundle::schema::Step;
use hcq::addr::PhysAddr;
use hcq::mem::pages::{PageError, PageTable, PteFormat};
use hcq::sync::lock;
use hcq::transport::TransportError;
use hcq::{Error, GpuVa};

use super::mmu::{Attr, Entry, Format, Mmu};
use super::tables::Tables;

/// The addresses of a card.
pub struct AddressSpace<M: Mmu> {
    mmu: Arc<M>,
    root: PhysAddr,
    table: Mutex<PageTable<M::Format, Tables>>,
}

impl<M: Mmu> AddressSpace<M> {
    /// Addresses that mean nothing yet, whatever an earlier process has left there.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: no room for the root; [`Error::Fault`].
    pub fn new(mmu: &Arc<M>, tables: Tables) -> Result<AddressSpace<M>, Error> {
        let table = PageTable::new(mmu.format(), tables, M::START);
        let table = table.map_err(|e| refused(&**mmu, e))?;
        let space = AddressSpace {
            mmu: mmu.clone(),
            root: table.root(),
            table: Mutex::new(table),
        };
        space.invalidate()?;
        Ok(space)
    }

    /// The address of the root, for hardware that is set up before.
    pub fn root(&self) -> PhysAddr {
        self.root
    }

    /// Maps pieces of memory from `va` on, one after the other.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: no room for tables, nothing is mapped; [`Error::Fault`]: the card is lost, and the addresses may
    /// be mapped.
    pub fn map(&self, va: GpuVa, pieces: &[(PhysAddr, u64)], attr: Attr) -> Result<(), Error> {
        let mut table = self.lock();
        let mapped = table.map(va, pieces, attr);
        mapped.map_err(|e| refused(&*self.mmu, e))?;
        // The hardware may hold that there was no table.
        self.invalidate()
    }

    /// Unmaps addresses. When it returns, the card does not access the memory any more.
    ///
    /// # Errors
    /// [`Error::Fault`]: the card is lost, and may still access it.
    pub fn unmap(&self, va: GpuVa, bytes: u64) -> Result<(), Error> {
        let mut table = self.lock();
        let retired = table.unmap(va, bytes);
        let retired = retired.map_err(|e| refused(&*self.mmu, e))?;
        self.invalidate()?;
        table.release(retired);
        Ok(())
    }

    /// Walks to an address as the hardware does, reading the tables in VRAM.
    ///
    /// # Errors
    /// The transport's.
    pub fn walk(&self, va: u64) -> Result<Vec<Step>, TransportError> {
        let Some(at) = va.checked_sub(M::START.0) else {
            return Ok(vec![Step {
                level: "context".into(),
                text: format!(
                    "below {}, the start of the context's address space",
                    M::START
                ),
                ..Step::default()
            }]);
        };
        let (format, vram) = (self.mmu.format(), self.mmu.function().vram());
        let (mut steps, mut table) = (Vec::new(), self.root);
        for (number, level) in format.levels().iter().enumerate() {
            let PhysAddr::Vram(first) = table else {
                break;
            };
            let index = at >> level.shift & ((1 << level.index_bits) - 1);
            let place = first.0 + index * u64::from(level.entry_bytes);
            let low: u64 = vram.read(place)?;
            let high: u64 = match level.entry_bytes {
                16 => vram.read(place + 8)?,
                _ => 0,
            };
            let entry = format.decode(number, u128::from(high) << 64 | u128::from(low));
            steps.push(Step {
                level: format.name(number).into(),
                at: Hex(place),
                // Of a pair, the valid half.
                entry: Hex(if low == 0 { high } else { low }),
                text: text(&entry),
            });
            match entry {
                Entry::Table(next) => table = next,
                Entry::None | Entry::Page(..) => break,
            }
        }
        Ok(steps)
    }

    fn invalidate(&self) -> Result<(), Error> {
        let done = self.mmu.invalidate();
        done.map_err(|e| self.mmu.function().broken("memory hub", e))
    }

    fn lock(&self) -> MutexGuard<'_, PageTable<M::Format, Tables>> {
        // A table that a panic left half written is rewritten with its next change.
        lock(&self.table)
    }
}

fn refused(mmu: &impl Mmu, error: PageError) -> Error {
    match error {
        PageError::NoTable(error) => error,
        error => mmu.function().broken("page tables", error),
    }
}

fn text(entry: &Entry) -> String {
    let of = |to: &PhysAddr| match to {
        PhysAddr::Vram(at) => format!("VRAM {at}"),
        PhysAddr::Bus(at) => format!("host memory at bus address {at}"),
    };
    match entry {
        Entry::None => "not valid: not mapped".into(),
        Entry::Table(to) => format!("table at {}", of(to)),
        Entry::Page(to, may) => format!("page in {}; may be {}", of(to), may.join(", ")),
    }
}
