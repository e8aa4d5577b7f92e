//! [`Handle`]: a card without a kernel driver, as a [`Backend`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use drivers_bundle::Evidence;
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::access::by_clock;
use hcq::transport::{Fault, Machine, Pci};
use hcq::{Deadline, DeviceId, Error, GpuVa, MemoryKind, Result};

use super::driver::Driver;
use super::function::Function;
use super::memory::Memory;
use super::mmu::{Attr, Mmu, PAGE};
use super::process::Process;
use super::running::Running;
use crate::backend::{
    Age, Backend, Event, Exception, Facts, Memory as Piece, Relayed, Request, Space,
};

/// How long a thread sleeps until it looks again, where no interrupt wakes it.
const NAP: Duration = Duration::from_micros(100);
/// The longest sleep until an interrupt: a signal raised by another device of this process causes none.
const LISTEN: Duration = Duration::from_millis(1);
/// The interrupt that packets raise.
const VECTOR: u32 = 0;
/// Bytes of a slot that a packet writes when it interrupts.
const SLOT: u64 = 8;

/// Over USB, faults are checked once per this many naps. The naps are counted, not timed, so that a replay
/// checks at the same positions as the recording.
const LOOK_EVERY: u32 = 100;

/// An open handle of a card.
pub struct Handle<D: Driver> {
    id: DeviceId,
    /// Its number among the handles of the process.
    number: u64,
    process: Arc<Process<D>>,
    card: Arc<Running<D>>,
    gpu: D::Gpu,
    /// The number of the next event.
    events: AtomicU32,
    /// The word that packets write before they interrupt; none if waits for interrupts are not possible.
    slots: Option<Arc<Memory<D>>>,
    /// Held by the thread that listens for all.
    listens: Mutex<()>,
    woken: Mutex<()>,
    wake: Condvar,
    /// Naps so far.
    naps: AtomicU32,
    /// Exceptions of the card that it has heard of.
    heard: AtomicU64,
    /// Those that are known to be its own, until they are asked for.
    own: Mutex<Vec<Exception>>,
}

/// Opens the card at an address of PCI (`0000:03:00.0`). `start` starts it if no other device of this process has; `gpu` is
/// what the handle knows of it.
///
/// # Errors
/// [`Error::NoDevice`]: the function cannot be opened, or is open and lost for every handle of it; those of `start`;
/// [`Error::OutOfMemory`], [`Error::Fault`].
pub fn open<D: Driver>(
    machine: &Arc<dyn Machine>,
    id: DeviceId,
    address: &str,
    start: impl FnOnce(Arc<dyn Pci>) -> Result<Running<D>>,
    gpu: impl FnOnce(&D) -> Result<D::Gpu, D::Cause>,
) -> Result<Handle<D>> {
    let process = Process::<D>::on(&**machine, &id)?;
    let is = |card: &Running<D>| card.function().pci().name() == address;
    let no_device = |why| Error::NoDevice {
        asked: id.to_string(),
        why,
    };
    let mut is_new = false;
    let card = process.shared.open(is, |_| {
        is_new = true;
        let pci = machine.open_pci(address);
        start(pci.map_err(|e| no_device(e.to_string()))?).map(Arc::new)
    })?;
    let unfit = match is_new {
        true => card.given_up().map(str::to_owned),
        false => card
            .unfit()
            .map(|why| format!("{why}; drop all handles of the card and open it again")),
    };
    if let Some(why) = unfit {
        return Err(no_device(why));
    }
    let gpu = gpu(card.driver()).map_err(|e| card.function().broken("GPU", e))?;
    let slots = slots(&process, &card)?;
    // A fault that is left on the card from another, lost device does not concern this one.
    let heard = AtomicU64::new(card.heard()?);
    Ok(Handle {
        number: process.addresses.space.number(),
        id,
        process,
        card,
        gpu,
        events: AtomicU32::new(1),
        slots,
        listens: Mutex::new(()),
        woken: Mutex::new(()),
        wake: Condvar::new(),
        naps: AtomicU32::new(0),
        heard,
        own: Mutex::default(),
    })
}

/// Reads the card at a PCI address: through the open one of this process, or a closed one that no thread opens in the
/// meantime.
///
/// # Errors
/// Those of what is run; [`Error::Os`].
pub fn visit<D: Driver, T>(
    machine: &dyn Machine,
    id: &DeviceId,
    address: &str,
    running: impl FnOnce(&D) -> Result<T>,
    closed: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let process = Process::<D>::on(machine, id)?;
    let is = |card: &Running<D>| card.function().pci().name() == address;
    let open = |card: &Running<D>| running(card.driver());
    process.shared.visit(is, open, closed)
}

fn slots<D: Driver>(
    process: &Arc<Process<D>>,
    card: &Arc<Running<D>>,
) -> Result<Option<Arc<Memory<D>>>> {
    let now = Deadline::after(Duration::ZERO);
    let found = card.function().pci().wait_irq(VECTOR, now);
    let can_wait = found.map_or_else(|e| matches!(e.fault, Fault::TimedOut(_)), |_| true);
    if !can_wait {
        return Ok(None);
    }
    let on = card.driver().interrupt();
    if !on.map_err(|e| card.function().broken("interrupts", e))? {
        return Ok(None);
    }
    let request = Request {
        bytes: PAGE,
        align: PAGE,
        kind: MemoryKind::Control,
        what: "the slots of events",
    };
    process.memory(card, &request, false).map(Some)
}

impl<D: Driver> Handle<D> {
    /// What it knows of its GPU.
    pub fn gpu(&self) -> &D::Gpu {
        &self.gpu
    }

    /// Its number among the handles of the process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The card.
    pub fn card(&self) -> &Arc<Running<D>> {
        &self.card
    }

    /// Memory of the card, or of the host.
    ///
    /// # Errors
    /// Those of [`Process::memory`].
    pub fn allocate(&self, request: &Request<'_>, has_windows: bool) -> Result<Arc<Memory<D>>> {
        self.process.memory(&self.card, request, has_windows)
    }

    /// VRAM with attributes, mapped on this card alone, without a window.
    ///
    /// # Errors
    /// As [`Handle::allocate`].
    pub fn private(&self, request: &Request<'_>, attr: Attr) -> Result<Arc<Memory<D>>> {
        let addresses = &self.process.addresses;
        Memory::new(addresses, &self.card, request, (false, attr)).map(Arc::new)
    }

    fn function(&self) -> &Function {
        self.card.function()
    }

    /// Whether to check for faults: each time, except over USB, where a check is several transfers.
    /// A caller that does not sleep always checks.
    fn is_due(&self, limit: Duration) -> bool {
        if self.function().pci().reaches_host() || limit.is_zero() {
            return true;
        }
        self.naps
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(LOOK_EVERY)
    }

    /// Looks for what went wrong.
    fn look(&self) -> Result<Option<Exception>> {
        // A reset for another handle may have taken one of its queues.
        let own = self.card.live(|queue| queue.owner == self.number);
        if let Some(why) = own.iter().find_map(|queue| queue.down()) {
            return Err(Error::Fault {
                device: self.id.clone(),
                unit: "queue".into(),
                what: why.to_owned(),
            });
        }
        if let Some(why) = self.card.given_up() {
            return Err(Error::Fault {
                device: self.id.clone(),
                unit: "GPU".into(),
                what: format!("{why}. Drop all handles of the card, and open it again"),
            });
        }
        let found = by_clock(|| self.card.exception(&self.heard, self.number))?;
        Ok(found.map(|(is_own, exception)| {
            if is_own {
                lock(&self.own).push(exception.clone());
            }
            exception
        }))
    }

    /// Sleeps until something may have happened; the caller then checks again.
    fn rest(&self, limit: Duration) {
        if self.slots.is_some()
            && let Ok(_turn) = self.listens.try_lock()
        {
            let until = Deadline::after(limit.min(LISTEN));
            // A late or missing interrupt is treated like one of another waiter.
            _ = self.function().pci().wait_irq(VECTOR, until);
            self.wake.notify_all();
            return;
        }
        let woken = lock(&self.woken);
        drop(self.wake.wait_timeout(woken, limit.min(NAP)));
    }
}

impl<D: Driver> Backend for Handle<D> {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        match self.function().pci().reaches_host() {
            true => "PCI",
            false => "USB",
        }
    }

    fn facts(&self) -> &Facts {
        self.gpu.as_ref()
    }

    fn space(&self) -> &Arc<Space> {
        &self.process.addresses.space
    }

    fn take_own(&self, exception: &Exception) -> bool {
        let mut own = lock(&self.own);
        let at = own.iter().position(|one| one == exception);
        at.map(|at| own.swap_remove(at)).is_some()
    }

    fn memory(&self, request: &Request<'_>) -> Result<Piece> {
        let made = self.allocate(request, self.facts().vram_windows)?;
        Ok(Piece {
            va: made.va(),
            bytes: made.bytes(),
            window: made.window().cloned(),
            zeroed: made.is_zeroed(),
            owner: Box::new(made),
        })
    }

    fn reaches(&self, va: u64) -> bool {
        self.process.shared.reaches(&self.card, va)
    }

    fn event(&self) -> Result<Event> {
        let id = self.events.fetch_add(1, Ordering::Relaxed);
        // They are never read; after the page is full, later ones share words.
        let slot = |slots: &Arc<Memory<D>>| GpuVa(slots.va().0 + u64::from(id) * SLOT % PAGE);
        Ok(Event {
            id,
            // Without interrupts, the sleeper polls.
            mailbox: self.slots.as_ref().map(slot),
            owner: Box::new(self.slots.clone()),
        })
    }

    fn wake(&self, _: &Event) {
        self.wake.notify_all();
    }

    fn sleep(&self, _: Option<&Event>, _: &mut Age, limit: Duration) -> Result<Option<Exception>> {
        let found = match self.is_due(limit) {
            true => self.look()?,
            false => None,
        };
        if found.is_none() && !limit.is_zero() {
            self.rest(limit);
        }
        Ok(found)
    }

    fn tells_whose(&self) -> bool {
        // All that this process has of the card are in one address space.
        false
    }

    fn flush_vram(&self) -> Result<()> {
        let flushed = self.card.driver().mmu().flush();
        flushed.map_err(|e| self.function().broken("VRAM", e))
    }

    fn ticks(&self) -> Result<u64> {
        let now = self.card.driver().ticks();
        now.map_err(|e| self.function().broken("clock", e))
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let (memory, offset) = self.process.shared.memory_at(va)?;
        Some((memory.window()?.clone(), offset))
    }

    fn has_relay(&self) -> bool {
        self.function().pci().relay().is_some()
    }

    fn relay(&self) -> Result<Option<Relayed>> {
        let Some(relay) = self.function().pci().relay() else {
            return Ok(None);
        };
        let (mut parts, mut owners) = (Vec::new(), Vec::new());
        for range in relay.ranges() {
            let name = "the buffer of the bridge";
            let memory = Memory::on_bus(&self.process.addresses, &self.card, range, name)?;
            parts.push((range, memory.va()));
            owners.push(memory);
        }
        Ok(Some(Relayed {
            relay,
            parts,
            owner: Box::new(owners),
        }))
    }

    fn places(&self) -> Option<Vec<u64>> {
        // Over USB, a register access takes a thousand times as long as on the bus.
        match self.has_relay() || self.function().has_left() {
            true => None,
            false => self.card.driver().places(),
        }
    }

    fn evidence(&self, exception: Option<&Exception>) -> Evidence {
        let function = self.function();
        if function.has_left() {
            let nothing = "registers, page tables and waves: the card has left the bus";
            return Evidence {
                way: function.pci().condition(),
                missing: vec![nothing.into()],
                ..Evidence::default()
            };
        }
        let walked = match exception {
            Some(Exception::Memory(fault)) => self.card.space().walk(fault.va),
            _ => Ok(Vec::new()),
        };
        let mut found = self.card.driver().evidence();
        found.way.extend(function.pci().condition());
        match walked {
            Ok(steps) => found.walk = steps,
            Err(error) => found.missing.insert(0, format!("page tables: {error}")),
        }
        found
    }
}
