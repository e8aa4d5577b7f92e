//! [`Backend`]: the vendor-neutral part of an interface to a GPU. It provides memory, events to sleep on, and
//! exceptions; their use is the same for every backend. A vendor trait adds the queues.
//!
//! | file | idea |
//! |---|---|
//! | here | the trait, memory, events, exceptions |
//! | [`space`] | shared knowledge of devices in one address space; `ranges`, `named`: owners of addresses |
//! | [`shared`] | memory shared by the GPUs of a process |
//! | [`verdict`] | attribution of a fault to one of several handles of a GPU |
//!
//! Memory is a plain struct, so that one backend may wrap another. Its resources of the backend
//! are freed with it.

mod named;
mod ranges;
pub mod shared;
pub mod space;
pub mod verdict;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::Evidence;
use hcq::addr::BusAddr;
use hcq::mem::window::Window;
use hcq::transport::{BusRange, Relay, TransportError};
use hcq::{Costs, DeviceId, Error, GpuVa, Import, MemoryKind, Result};

pub use named::Named;
pub use ranges::Ranges;
pub use space::Space;

/// An interface to one GPU, opened for this process.
pub trait Backend: Send + Sync {
    /// The device, for messages.
    fn id(&self) -> &DeviceId;

    /// The short name of the interface: `KFD`, `NVK`, `PCI`.
    fn name(&self) -> &'static str;

    /// What it knows of its GPU.
    fn facts(&self) -> &Facts;

    /// The addresses that it shares with other devices of the process.
    fn space(&self) -> &Arc<Space>;

    /// Memory that the GPU reaches, and every other GPU of the process that can. All of them reach
    /// memory of the host.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
    fn memory(&self, request: &Request<'_>) -> Result<Memory>;

    /// Memory of others as memory of the GPU.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the interface takes none of that kind; [`Error::Os`]. Nothing is left behind then.
    fn import(&self, memory: &Import) -> Result<Memory> {
        Err(hcq::cannot_import(self.id(), self.name(), memory))
    }

    /// Bytes of host memory usable as device memory, if the GPU has none of its own ([`Facts::vram`] is 0).
    fn host_share(&self) -> u64 {
        0
    }

    /// Whether the GPU has the memory at an address that some GPU of the process has. Slow: asked once for each copy
    /// between two GPUs.
    fn reaches(&self, va: u64) -> bool {
        let _ = va;
        false
    }

    /// Something to sleep on.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`].
    fn event(&self) -> Result<Event>;

    /// Signals an event from the host, which wakes its sleepers.
    fn wake(&self, event: &Event);

    /// Sleeps until `event` is signalled, the GPU has stopped, or `limit` passes. Reports the reason only for
    /// exceptions. May return early: check again.
    ///
    /// # Errors
    /// What keeps the thread from waiting, or the GPU from being looked at: it is lost.
    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>>;

    /// The same, for a signal that should reach at least a value. A backend with interrupts per signal
    /// sleeps until that one, unless it is `reached`.
    ///
    /// # Errors
    /// As [`Backend::sleep`].
    fn sleep_for(
        &self,
        signal: (GpuVa, u64),
        reached: &dyn Fn() -> bool,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        let _ = (signal, reached);
        self.sleep(event, age, limit)
    }

    /// The host has set the signal at an address to a value.
    fn raised(&self, at: GpuVa, value: u64) {
        let _ = (at, value);
    }

    /// Whether an exception certainly belongs to this handle. If not, all handles of the GPU in this process see it,
    /// and it is attributed by the work in flight ([`verdict`]).
    fn tells_whose(&self) -> bool {
        true
    }

    /// Takes the note that an exception that it has told of is of this handle, where not all are. Whether there was one: each
    /// is taken once.
    fn take_own(&self, exception: &Exception) -> bool {
        _ = exception;
        false
    }

    /// Whether a fault of one handle stops the queues of all handles of this process.
    fn stops_all(&self) -> bool {
        false
    }

    /// Flushes this thread's writes through windows to VRAM.
    ///
    /// # Errors
    /// The transport's.
    fn flush_vram(&self) -> Result<()>;

    /// Progress of running kernels: numbers that change when waves advance. `None` if the GPU cannot tell a long
    /// kernel from a hung one. Slow: used before a wait times out.
    fn places(&self) -> Option<Vec<u64>> {
        None
    }

    /// The counter of the GPU's clock, now.
    ///
    /// # Errors
    /// [`hcq::Error::Os`].
    fn ticks(&self) -> Result<u64>;

    /// The host window to an address of any GPU of the process, and the offset in it. Slow: for messages.
    fn window_at(&self, va: u64) -> Option<(Window, u64)>;

    /// Whether there is a [`relay`](Backend::relay).
    fn has_relay(&self) -> bool {
        false
    }

    /// Memory of the bridge to a GPU that cannot access host memory, if any.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Fault`].
    fn relay(&self) -> Result<Option<Relayed>> {
        Ok(None)
    }

    /// Diagnostic state of the GPU after a failure: registers, the page table walk to the faulting address.
    /// Read-only. Unreadable parts are listed in `missing`.
    fn evidence(&self, exception: Option<&Exception>) -> Evidence {
        let _ = exception;
        Evidence::default()
    }
}

/// Costs of a host that writes rings in memory: a ring of the default size holds several batches; without wake-ups,
/// several batches in flight hide the polling.
pub const RING_COSTS: Costs = Costs {
    batch: 64,
    in_flight: 64,
};

/// The smallest page of GPUs, whatever the host's is.
pub const PAGE: u64 = 4096;

/// The bits of an address that a fault may not tell.
pub const PAGE_BITS: u64 = PAGE - 1;

/// What an interface knows of its GPU, whatever the vendor.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where it is: `0000:03:00.0`.
    pub place: String,
    /// Bytes of VRAM; 0 if the GPU uses host memory only.
    pub vram: u64,
    /// Whether the host has windows to VRAM.
    pub vram_windows: bool,
    /// Ticks of its clock in a second.
    pub clock_hz: u64,
    /// Cost of host accesses through this interface.
    pub costs: Costs,
    /// What the kernel driver's lines in the log start with: `amdgpu`.
    pub log: &'static str,
}

/// Converts a failure of the system to an error of a device. `hint` has the fix.
pub fn refused(device: &DeviceId, error: &TransportError, hint: &str) -> Error {
    Error::Os {
        device: device.clone(),
        call: format!("{}: {}", error.device, error.operation),
        source_text: error.fault.to_string(),
        errno: error.fault.errno(),
        hint: hint.into(),
    }
}

/// A request for memory.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// How much.
    pub bytes: u64,
    /// A power of two.
    pub align: u64,
    /// What it is for: the interface chooses the heap, and how it is cached.
    pub kind: MemoryKind,
    /// What it is, for messages; empty if its parts are named one by one.
    pub what: &'a str,
}

/// Memory that a GPU reaches.
pub struct Memory {
    /// Its address.
    pub va: GpuVa,
    /// Its size, whole pages.
    pub bytes: u64,
    /// The host window to it; `None` if it is reached by GPU copies only.
    pub window: Option<Window>,
    /// Filled with zeros.
    pub zeroed: bool,
    /// Frees it; after the window.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// A relay, as the GPU reaches it.
pub struct Relayed {
    /// The host's side of it.
    pub relay: Arc<dyn Relay>,
    /// Its parts, each with the address that the GPU knows it by.
    pub parts: Vec<(BusRange, GpuVa)>,
    /// Takes them away from the GPU.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl Relayed {
    /// The address of a place on the bus.
    pub fn va(&self, at: BusAddr) -> Option<GpuVa> {
        self.parts.iter().find_map(|(range, va)| {
            let offset = at.0.checked_sub(range.addr.0)?;
            (offset < range.bytes).then_some(GpuVa(va.0 + offset))
        })
    }
}

/// What a thread sleeps on.
pub struct Event {
    /// The number that packets write and send.
    pub id: u32,
    /// The address where packets write it; `None` if it raises no interrupt and sleepers must poll.
    pub mailbox: Option<GpuVa>,
    /// Destroys it.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// How often a thread has seen its event signalled.
#[derive(Clone, Copy, Debug)]
pub struct Age(pub u64);

impl Age {
    /// Of a thread that has not waited yet. A new event starts at 1; where it has been signalled
    /// since, the first wait returns at once.
    pub const NEW: Age = Age(1);
}

/// Why a GPU has stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exception {
    /// An address could not be used.
    Memory(MemoryFault),
    /// A kernel or packet performed an operation that the hardware rejects.
    Refused(Refused),
    /// The hardware was reset.
    Reset(Reset),
}

/// An address that could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryFault {
    /// The address; its low bits may be missing.
    pub va: u64,
    /// The memory error.
    pub cause: Cause,
    /// The access, if reported.
    pub access: Option<Access>,
    /// Nothing is mapped there.
    pub not_present: bool,
    /// It was written, and may only be read.
    pub read_only: bool,
    /// It was executed, and may not be.
    pub no_execute: bool,
    /// The address is not exact.
    pub imprecise: bool,
}

/// The access to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It was read.
    Read,
    /// It was written.
    Write,
    /// It was read and written at once.
    Atomic,
}

/// What a kernel or a packet did that hardware refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The unit that refused it.
    pub unit: String,
    /// What it says.
    pub what: String,
    /// The faulting address or instruction, if reported.
    pub at: Option<u64>,
}

/// A reset of the hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reset {
    /// One engine only, not the GPU.
    pub engine: bool,
    /// Memory could not be corrected (ECC). Else it hung.
    pub uncorrectable: bool,
    /// The contents of its memory are lost.
    pub memory_lost: bool,
}

/// Kinds of memory errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The access was not allowed.
    PageFault,
    /// An error that ECC could not correct.
    Ecc,
    /// Access to poisoned memory.
    Poison,
    /// Unknown: the GPU hangs.
    Hang,
}
