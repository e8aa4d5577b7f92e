//! [`Memory`]: VRAM, or memory of the host that stays where it is, at an address that means the same to every card of the process that
//! reaches it.
//!
//! It is taken apart in the order in which that is safe: no card knows the address any more, then the memory is given
//! back, then the address. Where a card could not be told, both stay taken: it may go on writing there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use drivers_gpu::interface::Request;
use hcq::addr::{AddrError, BusAddr, PhysAddr, VramAddr};
use hcq::mem::window::Window;
use hcq::transport::{BusRange, Dma, Fault, TransportError};
use hcq::{DeviceId, Error, GpuVa, MemoryKind};

use super::exception::broken;
use super::near;
use super::pages::{Attr, PAGE};
use super::process::{Process, SharedMemory};
use super::running::Running;

/// From this size on memory starts at a multiple of it, for large pages.
const LARGE: u64 = 2 << 20;

/// Memory of a card, or of the host.
pub(super) struct Memory {
    process: Arc<Process>,
    card: Arc<Running>,
    va: GpuVa,
    bytes: u64,
    place: Option<Place>,
    window: Option<Window>,
    /// The cards that know the address.
    mapped: Mutex<Vec<Weak<Running>>>,
    is_named: bool,
}

/// What is behind an address.
enum Place {
    Vram(VramAddr),
    /// VRAM in the place of memory of the host.
    Near(VramAddr),
    Host(Dma),
    /// Memory of somebody else's on the bus.
    Bus(BusAddr),
}

impl Memory {
    /// Memory for a request, which its card and every other one of the process reaches that can.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`], and nothing is left behind; [`Error::Fault`].
    pub(super) fn new(
        process: &Arc<Process>,
        card: &Arc<Running>,
        request: &Request<'_>,
        has_windows: bool,
    ) -> Result<Arc<Memory>, Error> {
        let device = card.card().device();
        let bytes = request.bytes.max(1).checked_next_multiple_of(PAGE);
        let bytes = bytes.unwrap_or(!(PAGE - 1));
        let align = request.align.max(if bytes >= LARGE { LARGE } else { PAGE });
        let va = process.addresses(device, bytes, align)?;
        // From here on the drop takes apart what has been made.
        let mut memory = Memory::nowhere(process, card, va, bytes);
        memory.is_named = !request.what.is_empty();
        let name = match request.what {
            "" => "memory",
            what => what,
        };
        match request.kind {
            MemoryKind::Device => {
                let at = card.vram(bytes, align)?;
                memory.place = Some(Place::Vram(at));
                if has_windows {
                    let window = card.card().vram().sub(at.0, bytes);
                    memory.window = Some(window.map_err(|e| broken(card.card(), "VRAM", e))?);
                }
            }
            MemoryKind::Host | MemoryKind::Control if !card.card().pci().reaches_host() => {
                let at = card.vram(bytes, align)?;
                memory.place = Some(Place::Near(at));
                let window = card.card().vram().sub(at.0, bytes);
                let window = window.map_err(|e| broken(card.card(), "VRAM", e))?;
                memory.window = Some(near::memory(&window, card.started().hubs().hdp().clone()));
            }
            MemoryKind::Host | MemoryKind::Control => {
                let dma = pinned(card, bytes)?;
                memory.window = Some(card.card().pci().window(name, &dma));
                memory.place = Some(Place::Host(dma));
            }
        }
        if memory.is_named {
            process.space.ranges.insert(va.0, bytes, name);
        }
        let mut shared = process.shared();
        memory.map(card)?;
        // Looked at under the lock: a card that is opened after that finds the memory here.
        let others: Vec<_> = shared.cards.iter().filter_map(Weak::upgrade).collect();
        for other in others.iter().filter(|other| !Arc::ptr_eq(other, card)) {
            memory.share(other)?;
        }
        let memory = Arc::new(memory);
        if shared.memories.len() == shared.memories.capacity() {
            shared.memories.retain(|memory| memory.strong_count() > 0);
        }
        let known = Arc::downgrade(&memory);
        shared.memories.push(known);
        drop(shared);
        Ok(memory)
    }

    /// Memory of somebody else's on the bus, for its card alone.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub(super) fn on_bus(
        process: &Arc<Process>,
        card: &Arc<Running>,
        range: BusRange,
        name: &str,
    ) -> Result<Memory, Error> {
        let va = process.addresses(card.card().device(), range.bytes, PAGE)?;
        let mut memory = Memory::nowhere(process, card, va, range.bytes);
        memory.place = Some(Place::Bus(range.addr));
        process.space.ranges.insert(va.0, range.bytes, name);
        memory.is_named = true;
        memory.map(card)?;
        Ok(memory)
    }

    /// Addresses without memory yet.
    fn nowhere(process: &Arc<Process>, card: &Arc<Running>, va: GpuVa, bytes: u64) -> Memory {
        Memory {
            process: process.clone(),
            card: card.clone(),
            va,
            bytes,
            place: None,
            window: None,
            mapped: Mutex::default(),
            is_named: false,
        }
    }

    /// Filled with zeros when it was made.
    pub(super) fn is_zeroed(&self) -> bool {
        matches!(self.place, Some(Place::Host(_)))
    }

    fn map(&self, card: &Arc<Running>) -> Result<(), Error> {
        let (pieces, attr) = match &self.place {
            None => return Ok(()),
            Some(Place::Vram(at)) if Arc::ptr_eq(card, &self.card) => {
                (vec![(PhysAddr::Vram(*at), self.bytes)], Attr::LOCAL)
            }
            Some(Place::Near(at)) => (vec![(PhysAddr::Vram(*at), self.bytes)], Attr::SHARED),
            Some(Place::Bus(at)) => (vec![(PhysAddr::Bus(*at), self.bytes)], Attr::HOST),
            Some(Place::Vram(at)) => {
                let at = on_bus(&self.card, card, *at)?;
                (vec![(PhysAddr::Bus(at), self.bytes)], Attr::HOST)
            }
            Some(Place::Host(dma)) => {
                let pieces = dma.ranges.for_domain(card.card().pci().domain());
                let pieces = pieces.map_err(|e| strangers(&self.card, card, &e))?;
                let pieces = pieces.iter();
                let pieces = pieces.map(|range| (PhysAddr::Bus(range.addr), range.bytes));
                (cut(pieces, self.bytes), Attr::HOST)
            }
        };
        let hubs = card.started().hubs();
        card.space.map(hubs, self.va, &pieces, attr)?;
        self.lock().push(Arc::downgrade(card));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Running>>> {
        // Changed in single steps.
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedMemory for Memory {
    fn va(&self) -> GpuVa {
        self.va
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    fn is_mapped_for(&self, card: &Arc<Running>) -> bool {
        let card = Arc::downgrade(card);
        self.lock().iter().any(|known| known.ptr_eq(&card))
    }

    fn share(&self, card: &Arc<Running>) -> Result<(), Error> {
        // A card behind a bridge shares nothing with others.
        if self.is_mapped_for(card) || !card.card().pci().reaches_host() {
            return Ok(());
        }
        let done = self.map(card);
        let is_stranger = self.card.card().pci().domain() != card.card().pci().domain();
        match (&done, &self.place) {
            // Copies between the two go through memory of the host then.
            (Err(error), Some(Place::Vram(_))) => {
                tracing::debug!(%error, va = self.va.0, "not mapped for a peer");
                Ok(())
            }
            (Err(error), Some(Place::Host(_))) if is_stranger => {
                tracing::debug!(%error, va = self.va.0, "not mapped for a peer");
                Ok(())
            }
            _ => done,
        }
    }
}

/// The first so many bytes of pieces: there may be more of the host's memory than was asked for.
fn cut(pieces: impl Iterator<Item = (PhysAddr, u64)>, bytes: u64) -> Vec<(PhysAddr, u64)> {
    let mut left = bytes;
    let mut fit = |(at, bytes): (PhysAddr, u64)| {
        let bytes = bytes.min(left);
        left -= bytes;
        (bytes > 0).then_some((at, bytes))
    };
    pieces.map_while(&mut fit).collect()
}

/// Memory of the host that stays where it is: in large pages, if it can be had.
fn pinned(card: &Running, bytes: u64) -> Result<Dma, Error> {
    let pci = card.card().pci();
    let large = match bytes.is_multiple_of(LARGE) {
        true => pci.dma(bytes, LARGE).ok(),
        false => None,
    };
    let dma = match large {
        Some(dma) => Ok(dma),
        None => pci.dma(bytes, PAGE),
    };
    dma.map_err(|error| not_pinned(card.card().device(), bytes, error))
}

fn not_pinned(device: &DeviceId, bytes: u64, error: TransportError) -> Error {
    /// What the system says where no more of its memory can be had, or locked.
    const EPERM: i32 = 1;
    const EAGAIN: i32 = 11;
    const ENOMEM: i32 = 12;
    let device = device.clone();
    match error.fault {
        Fault::Errno(ENOMEM | EAGAIN) => Error::OutOfMemory {
            device,
            asked: bytes,
            free: 0,
            total: 0,
            hint: format!(" of the host's memory that cards may be given: {error}"),
        },
        Fault::Errno(EPERM) => Error::NoPermission {
            asked: device.to_string(),
            why: format!(
                "{error}. This process may lock no memory: raise `ulimit -l`, or run as root"
            ),
        },
        fault => Error::Os {
            device,
            call: format!("{}: {}", error.device, error.operation),
            source_text: fault.to_string(),
            errno: fault.errno(),
            hint: "Run `doorbell doctor`, which says what this way to a GPU needs".into(),
        },
    }
}

/// Where VRAM of a card is on the bus for another one.
fn on_bus(card: &Running, other: &Running, at: VramAddr) -> Result<BusAddr, Error> {
    let (pci, asked) = (card.card().pci(), other.card().pci().domain());
    if pci.domain() != asked {
        let of = pci.domain();
        return Err(strangers(
            card,
            other,
            &AddrError::OtherDomain { of, asked },
        ));
    }
    let card = card.card();
    if !card.has_large_bar() {
        return Err(Error::NoHostAccess {
            device: card.device().clone(),
            va: at.0,
            has: "a part of its VRAM behind BAR 0",
            needs: "all of it",
        });
    }
    let shown = pci.shown(0, card.vram().len());
    let shown = shown.map_err(|e| broken(card, "BAR 0", e))?;
    let ranges = shown.for_domain(asked);
    let first = ranges.ok().and_then(|ranges| ranges.first());
    let at = first.map(|range| range.addr.add(at.0));
    at.and_then(Result::ok).ok_or_else(|| {
        let why = Fault::Unsupported("it lies nowhere on the bus".into());
        broken(card, "BAR 0", TransportError::new(pci.name(), "BAR0", why))
    })
}

/// Two cards that share no memory.
fn strangers(card: &Running, other: &Running, error: &AddrError) -> Error {
    Error::Os {
        device: other.card().device().clone(),
        call: format!(
            "memory of {} for {}",
            card.card().pci().name(),
            other.card().pci().name()
        ),
        source_text: error.to_string(),
        errno: None,
        hint: "Copies between the two go through the host. Take both cards by VFIO, behind IOMMUs of one kind, to share \
               memory"
            .into(),
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_named {
            self.process.space.ranges.remove(self.va.0);
        }
        let mut is_free = true;
        let mapped = std::mem::take(&mut *self.lock());
        // A card that is finished has forgotten it.
        for card in mapped.iter().filter_map(Weak::upgrade) {
            let hubs = card.started().hubs();
            if let Err(error) = card.space.unmap(hubs, self.va, self.bytes) {
                // A card that is lost keeps all of its memory.
                match card.card().soil() {
                    true => {
                        tracing::debug!(%error, va = self.va.0, bytes = self.bytes, "memory stays with the card")
                    }
                    false => {
                        tracing::warn!(%error, va = self.va.0, bytes = self.bytes, "memory stays with the card")
                    }
                }
                is_free = false;
            }
        }
        match (self.place.take(), is_free) {
            (Some(Place::Vram(at) | Place::Near(at)), true) => self.card.give_back(at),
            (Some(Place::Host(dma)), false) => std::mem::forget(dma),
            _ => {}
        }
        if is_free {
            self.process.give_back(self.va);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_pinned_is_told_by_its_number() {
        let device = DeviceId::new("AMD", 0);
        let of = |errno| {
            let fault = Fault::Errno(errno);
            not_pinned(
                &device,
                4096,
                TransportError::new("0000:03:00.0", "map", fault),
            )
        };
        // ENOMEM, EAGAIN: what is kept for reuse is given back then.
        for errno in [12, 11] {
            assert!(matches!(of(errno), Error::OutOfMemory { asked: 4096, .. }));
        }
        let denied = of(1);
        assert!(matches!(denied, Error::NoPermission { .. }));
        assert!(denied.to_string().contains("ulimit -l"), "{denied}");
        // EINVAL
        assert!(matches!(
            of(22),
            Error::Os {
                errno: Some(22),
                ..
            }
        ));
    }
}
