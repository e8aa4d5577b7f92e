//! [`Memory`]: VRAM, or pinned host memory, at one address for all cards of the process that can access it.
//!
//! Release has a safe order: the address is unmapped on all cards, then the memory is freed, then the address. If a card
//! could not be unmapped, or has a queue that could not be dequeued, memory and address are kept: the card may still
//! write there.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::addr::{AddrError, BusAddr, PhysAddr, VramAddr};
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::{BusRange, Dma, Fault, TransportError};
use hcq::{Error, GpuVa, MemoryKind};

use super::addresses::Addresses;
use super::driver::Driver;
use super::function::Function;
use super::host::{cut, pinned};
use super::mmu::{Attr, LARGE, PAGE};
use super::running::{Reach, Running};
use super::sysmem;
use crate::backend::shared::Shareable;
use crate::backend::{Named, Request};

/// Memory of a card, or of the host.
pub struct Memory<D: Driver> {
    addresses: Arc<Addresses>,
    card: Arc<Running<D>>,
    va: GpuVa,
    bytes: u64,
    backing: Option<Backing>,
    /// What its own card may do with VRAM.
    attr: Attr,
    window: Option<Window>,
    /// The cards that know the address.
    mapped: Mutex<Vec<Weak<Running<D>>>>,
    /// Dropped before the address is freed.
    named: Option<Named>,
}

/// The memory of an address.
enum Backing {
    Vram(VramAddr),
    /// VRAM in place of host memory.
    Sysmem(VramAddr),
    Host(Dma),
    /// Memory of another device on the bus.
    Bus(BusAddr),
}

impl<D: Driver> Memory<D> {
    /// Memory for a request, mapped on its card: VRAM with these attributes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`], without effect; [`Error::Fault`].
    pub fn new(
        addresses: &Arc<Addresses>,
        card: &Arc<Running<D>>,
        request: &Request<'_>,
        (has_windows, attr): (bool, Attr),
    ) -> Result<Memory<D>, Error> {
        let function = card.function();
        let bytes = request.bytes.max(1).checked_next_multiple_of(PAGE);
        let bytes = bytes.unwrap_or(!(PAGE - 1));
        let align = request.align.max(if bytes >= LARGE { LARGE } else { PAGE });
        let va = addresses.take(function.device(), bytes, align)?;
        // From here on the drop releases the parts.
        let mut memory = Memory::nowhere(addresses, card, va, bytes);
        memory.attr = attr;
        let name = match request.what {
            "" => "memory",
            what => what,
        };
        let window = |at: VramAddr| {
            let window = function.vram().sub(at.0, bytes);
            window.map_err(|e| function.broken("VRAM", e))
        };
        match request.kind {
            MemoryKind::Device => {
                let at = card.vram(bytes, align)?;
                memory.backing = Some(Backing::Vram(at));
                if has_windows {
                    memory.window = Some(window(at)?);
                }
            }
            MemoryKind::Host | MemoryKind::Control if !function.pci().reaches_host() => {
                let at = card.vram(bytes, align)?;
                memory.backing = Some(Backing::Sysmem(at));
                memory.window = Some(sysmem::memory(&window(at)?, card.driver().mmu()));
            }
            MemoryKind::Host | MemoryKind::Control => {
                let dma = pinned(function, bytes)?;
                memory.window = Some(function.pci().window(name, &dma));
                memory.backing = Some(Backing::Host(dma));
            }
        }
        memory.named = Some(Named::new(&addresses.space, va.0, bytes, request.what));
        let (pieces, attr) = memory.seen_by(card)?;
        memory.map(card, &pieces, attr)?;
        Ok(memory)
    }

    /// Memory of another device on the bus, mapped on its card alone.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn on_bus(
        addresses: &Arc<Addresses>,
        card: &Arc<Running<D>>,
        range: BusRange,
        name: &str,
    ) -> Result<Memory<D>, Error> {
        let va = addresses.take(card.function().device(), range.bytes, PAGE)?;
        let mut memory = Memory::nowhere(addresses, card, va, range.bytes);
        memory.backing = Some(Backing::Bus(range.addr));
        memory.named = Some(Named::new(&addresses.space, va.0, range.bytes, name));
        let (pieces, attr) = memory.seen_by(card)?;
        memory.map(card, &pieces, attr)?;
        Ok(memory)
    }

    /// Addresses without memory yet.
    fn nowhere(
        addresses: &Arc<Addresses>,
        card: &Arc<Running<D>>,
        va: GpuVa,
        bytes: u64,
    ) -> Memory<D> {
        Memory {
            addresses: addresses.clone(),
            card: card.clone(),
            va,
            bytes,
            backing: None,
            attr: Attr::LOCAL,
            window: None,
            mapped: Mutex::default(),
            named: None,
        }
    }

    /// The address.
    pub fn va(&self) -> GpuVa {
        self.va
    }

    /// Its size in bytes, whole pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The host's window, if any.
    pub fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// Where it is in VRAM of its card; none of host memory.
    pub fn vram(&self) -> Option<VramAddr> {
        match self.backing {
            Some(Backing::Vram(at) | Backing::Sysmem(at)) => Some(at),
            _ => None,
        }
    }

    /// Filled with zeros when it was made.
    pub fn is_zeroed(&self) -> bool {
        matches!(self.backing, Some(Backing::Host(_)))
    }

    /// Where it is for a card, and how it is cached.
    fn seen_by(&self, card: &Arc<Running<D>>) -> Result<(Vec<(PhysAddr, u64)>, Attr), Error> {
        Ok(match &self.backing {
            None => (Vec::new(), Attr::HOST),
            Some(Backing::Vram(at)) if Arc::ptr_eq(card, &self.card) => {
                (vec![(PhysAddr::Vram(*at), self.bytes)], self.attr)
            }
            Some(Backing::Sysmem(at)) => (vec![(PhysAddr::Vram(*at), self.bytes)], Attr::SHARED),
            Some(Backing::Bus(at)) => (vec![(PhysAddr::Bus(*at), self.bytes)], Attr::HOST),
            Some(Backing::Vram(at)) => {
                let at = on_bus(self.card.function(), card.function(), *at)?;
                (vec![(PhysAddr::Bus(at), self.bytes)], Attr::HOST)
            }
            Some(Backing::Host(dma)) => {
                let (own, other) = (self.card.function(), card.function());
                let pieces = dma.ranges.for_domain(other.pci().domain());
                let pieces = pieces.map_err(|e| strangers(own, other, &e))?;
                (cut(pieces, self.bytes), Attr::HOST)
            }
        })
    }

    fn map(
        &self,
        card: &Arc<Running<D>>,
        pieces: &[(PhysAddr, u64)],
        attr: Attr,
    ) -> Result<(), Error> {
        let done = card.space().map(self.va, pieces, attr);
        // A card that fails may know it all the same.
        if matches!(done, Ok(()) | Err(Error::Fault { .. })) {
            self.lock().push(Arc::downgrade(card));
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Running<D>>>> {
        // Changed in single steps.
        lock(&self.mapped)
    }
}

impl<D: Driver> Shareable<Running<D>> for Memory<D> {
    type Error = Error;

    fn va(&self) -> u64 {
        self.va.0
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_mapped_for(&self, card: &Arc<Running<D>>) -> bool {
        let card = Arc::downgrade(card);
        self.lock().iter().any(|known| known.ptr_eq(&card))
    }

    fn share(&self, card: &Arc<Running<D>>) -> Result<(), Error> {
        let (own, other) = (self.card.function().pci(), card.function().pci());
        // A card behind a bridge shares no memory with others; a card that has left or was given up accesses none.
        let has_way = own.reaches_host() && other.reaches_host() && card.unfit().is_none();
        if self.is_mapped_for(card) || !has_way {
            return Ok(());
        }
        let may_lack = match &self.backing {
            Some(Backing::Vram(_)) => true,
            Some(Backing::Host(_)) => own.domain() != other.domain(),
            _ => false,
        };
        // Copies between the two go through memory of the host then.
        let lack = |error: Error| match may_lack {
            true => {
                tracing::debug!(%error, va = self.va.0, "not mapped for a peer");
                Ok(())
            }
            false => Err(error),
        };
        let (pieces, attr) = match self.seen_by(card) {
            Ok(seen) => seen,
            Err(error) => return lack(error),
        };
        match self.map(card, &pieces, attr) {
            // It may know the address all the same, while it is there. That is the end of that card, and of no other.
            Err(Error::Fault { unit, what, .. }) if !card.function().has_left() => {
                tracing::warn!(target: "hcq::bare", device = %card.function().device(), unit, what, "card lost");
                card.give_up(format!("could not map shared memory on it: {unit}: {what}"));
                Ok(())
            }
            // It has left just now.
            Err(Error::Fault { .. }) => Ok(()),
            Err(error) => lack(error),
            Ok(()) => Ok(()),
        }
    }
}

/// Where VRAM of a card is on the bus for another one.
fn on_bus(card: &Function, other: &Function, at: VramAddr) -> Result<BusAddr, Error> {
    let (of, asked) = (card.pci().domain(), other.pci().domain());
    if of != asked {
        return Err(strangers(
            card,
            other,
            &AddrError::OtherDomain { of, asked },
        ));
    }
    if !card.has_large_bar() {
        return Err(Error::NoHostAccess {
            device: card.device().clone(),
            va: at.0,
            has: "only part of VRAM in the BAR",
            needs: "all of VRAM in the BAR",
        });
    }
    let bar = format!("BAR {}", card.bar());
    let shown = card.pci().shown(card.bar(), card.vram().len());
    let shown = shown.map_err(|e| card.broken(&bar, e))?;
    let ranges = shown.for_domain(asked);
    let first = ranges.ok().and_then(|ranges| ranges.first());
    let at = first.map(|range| range.addr.add(at.0));
    at.and_then(Result::ok).ok_or_else(|| {
        let why = Fault::Unsupported("no bus address".into());
        card.broken(&bar, TransportError::new(card.pci().name(), &bar, why))
    })
}

/// Two cards that share no memory.
fn strangers(card: &Function, other: &Function, error: &AddrError) -> Error {
    Error::Os {
        device: other.device().clone(),
        call: format!("memory of {} for {}", card.pci().name(), other.pci().name()),
        source_text: error.to_string(),
        errno: None,
        hint: "Copies between the two go through the host. To share memory, bind both cards to VFIO behind IOMMUs of \
               one kind"
            .into(),
    }
}

impl<D: Driver> Drop for Memory<D> {
    fn drop(&mut self) {
        drop(self.named.take());
        // What a queue that stays uses of its card leads to where it did.
        let stuck = self.card.stuck();
        let (mut is_free, mut is_used) = (stuck.is_none(), stuck == Some(Reach::Host));
        let mapped = std::mem::take(&mut *self.lock());
        // A card that is finished has forgotten it.
        for card in mapped.iter().filter_map(Weak::upgrade) {
            // A card that was cut off cannot access memory other than its own.
            let is_cut_off = card.stuck() == Some(Reach::Card);
            if is_cut_off || stuck.is_some() && Arc::ptr_eq(&card, &self.card) {
                continue;
            }
            // One that is not there does not use it either.
            if let Err(error) = card.space().unmap(self.va, self.bytes)
                && !card.function().has_left()
            {
                // A card that is lost keeps all of its memory.
                match card.function().mark_wedged() {
                    true => {
                        tracing::debug!(%error, va = self.va.0, bytes = self.bytes, "could not unmap memory")
                    }
                    false => {
                        tracing::warn!(%error, va = self.va.0, bytes = self.bytes, "could not unmap memory")
                    }
                }
                (is_free, is_used) = (false, true);
            }
        }
        match (self.backing.take(), is_used) {
            (Some(Backing::Vram(at) | Backing::Sysmem(at)), false) => self.card.give_back(at),
            (Some(Backing::Host(dma)), true) => std::mem::forget(dma),
            _ => {}
        }
        if is_free {
            self.addresses.give_back(self.va);
        }
    }
}
