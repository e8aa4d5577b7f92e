//! [`open`]: a card over PCI, as every other way to a GPU.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use drivers_bundle::Evidence;
use drivers_gpu::interface::{
    Age, Event, Exception, Facts, Interface, Memory, Relayed, Request, Space,
};
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::packet::Gfx;
use firmware_tools::search::Search;
use hcq::mem::window::Window;
use hcq::transport::{Clock, Fault, Machine, ResetKind};
use hcq::{Costs, Deadline, DeviceId, Error, GpuVa, MemoryKind, Result};

use super::boot;
use super::card::Card;
use super::error::{AmError, Cause};
use super::evidence;
use super::exception::broken;
use super::live::Live;
use super::memory;
use super::pages::PAGE;
use super::process::{Process, SharedMemory};
use super::queue;
use super::running::Running;
use crate::VENDOR;
use crate::chip::{Chip, Units};
use crate::interface::{AmdInterface, Gpu, HardwareQueue, QueueRequest};
use crate::options::Options;

/// A ring of the usual size holds several batches; nobody is woken, so that several in flight hide the looks.
const COSTS: Costs = Costs {
    batch: 64,
    in_flight: 64,
};

/// Ticks of the clock of all these chips in a second.
const CLOCK_HZ: u64 = 100_000_000;

/// How long a thread sleeps until it looks again, where no interrupt wakes it.
const NAP: Duration = Duration::from_micros(100);
/// How long one listens for an interrupt: others of this process may end what it waits for, and do not interrupt.
const LISTEN: Duration = Duration::from_millis(1);
/// The one interrupt that the rings raise.
const VECTOR: u32 = 0;
/// Bytes of a slot that a packet writes when it interrupts.
const SLOT: u64 = 8;

/// At one in so many naps it is looked over USB whether something went wrong. Counted, not timed: work that is done again
/// from a recording looks where it did.
const LOOK_EVERY: u32 = 100;

/// Opens the card at an address of PCI (`0000:03:00.0`), and starts it if no other device of this process has. `index`
/// is its number in messages; `clock` is what waits of the start go by.
///
/// # Errors
/// [`Error::NoDevice`]: the function cannot be opened, or the card cannot be started: which stage, what was in the way;
/// [`Error::OutOfMemory`], [`Error::Fault`].
pub fn open(
    machine: &Arc<dyn Machine>,
    address: &str,
    index: u32,
    clock: &Arc<dyn Clock>,
    options: &Options,
) -> Result<Arc<dyn AmdInterface>> {
    let id = DeviceId::new(VENDOR, index);
    let process = Process::on(&**machine, &id)?;
    // Others wait until it is started, or not.
    let mut shared = process.shared();
    let mut open = shared.cards.iter().filter_map(Weak::upgrade);
    let found = open.find(|card| card.card().pci().name() == address);
    drop(open);
    let card = match found {
        Some(card) => card,
        None => {
            let none = |why: String| Error::NoDevice {
                asked: id.to_string(),
                why,
            };
            let pci = machine.open_pci(address).map_err(|e| none(e.to_string()))?;
            let not_started = |e: AmError| none(e.to_string());
            let start = boot::Options {
                firmware: Search::new(options.firmware.iter().cloned()),
                reset: options.reset,
            };
            let look = || Card::open(id.clone(), pci.clone(), clock.clone());
            let card = match look() {
                // It has not come back from a reset of its own: the bus still reaches it.
                Err(error) if matches!(*error.cause, Cause::Silent { .. }) => {
                    let reset = pci.reset(ResetKind::Bus);
                    reset
                        .map_err(|_| not_started(error))
                        .and_then(|()| look().map_err(not_started))
                }
                seen => seen.map_err(not_started),
            };
            let card = card?;
            let card = Running::start(Arc::new(card), &start).map_err(not_started)?;
            let card = Arc::new(card);
            let memories: Vec<_> = shared.memories.iter().filter_map(Weak::upgrade).collect();
            for memory in memories {
                memory.share(&card)?;
            }
            shared.cards.retain(|card| card.strong_count() > 0);
            shared.cards.push(Arc::downgrade(&card));
            card
        }
    };
    drop(shared);
    let known = known(&card, options).map_err(|e| broken(card.card(), "GPU", e))?;
    let slots = slots(&process, &card)?;
    // What is left in interrupt rings of a fault that another device was lost by is not this one's.
    let heard = AtomicU64::new(card.heard()?);
    Ok(Arc::new(Pcie {
        number: process.space.number(),
        id,
        process,
        card,
        known,
        events: AtomicU32::new(1),
        firmware: Search::new(options.firmware.iter().cloned()),
        slots,
        listens: Mutex::new(()),
        woken: Mutex::new(()),
        wake: Condvar::new(),
        naps: AtomicU32::new(0),
        heard,
        queues: Mutex::default(),
    }))
}

/// Where packets write before they interrupt; none where nobody can wait for that.
fn slots(process: &Arc<Process>, card: &Arc<Running>) -> Result<Option<Arc<memory::Memory>>> {
    let now = Deadline::after(Duration::ZERO);
    let found = card.card().pci().wait_irq(VECTOR, now);
    let can_wait = found.map_or_else(|e| matches!(e.fault, Fault::TimedOut(_)), |_| true);
    if !can_wait {
        return Ok(None);
    }
    let on = card.gfx().interrupt_at_ends();
    on.map_err(|e| broken(card.card(), "GFX", e))?;
    let request = Request {
        bytes: PAGE,
        align: PAGE,
        kind: MemoryKind::Control,
        what: "the slots of events",
    };
    memory::Memory::new(process, card, &request, false).map(Some)
}

/// What discovery says of a card, as all ways to it say it.
fn known(card: &Running, options: &Options) -> std::result::Result<Gpu, Cause> {
    let copy_queues = card.sdma().queues();
    let card = card.card();
    let discovery = card.discovery();
    let gc = discovery.first(ip::GC)?;
    let version = gc.version;
    // The kernel driver has another number for MI300 and for Navi32.
    let (major, minor, step) = match (version.0, version.1, version.2) {
        (9, 4, 3) => (9, 4, 2),
        (11, 0, 3) => (11, 0, 1),
        other => other,
    };
    let number = u32::from(major) * 10000 + u32::from(minor) * 100 + u32::from(step);
    let chip = Chip::by_version(number).ok_or_else(|| Cause::Version {
        block: "GC".into(),
        version,
        known: Vec::new(),
    })?;
    let units = &discovery.units;
    let xccs = card.blocks().gc.len() as u32;
    let arrays = units.engines * units.arrays_per_engine * xccs;
    let simds_per_cu = match card.gfx() {
        Gfx::Gfx9 => 4,
        Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => 2,
    };
    Ok(Gpu {
        facts: Facts {
            place: card.pci().name().to_owned(),
            vram: card.vram_bytes(),
            // Behind a bridge the card's own copies are faster.
            vram_windows: options.host_visible && card.has_large_bar() && card.pci().reaches_host(),
            clock_hz: CLOCK_HZ,
            costs: COSTS,
            log: match card.pci().reaches_host() {
                true => "amdgpu",
                false => "usb",
            },
        },
        chip,
        units: Units {
            simds: arrays * units.cus_per_array * simds_per_cu,
            simds_per_cu,
            xccs,
            arrays,
            arrays_per_engine: units.arrays_per_engine,
            scratch_slots: units.scratch_slots_per_cu,
            lds_kib: units.lds_kib,
        },
        copy_queues,
    })
}

/// A card over PCI.
struct Pcie {
    id: DeviceId,
    /// Its number among the handles of the process.
    number: u64,
    process: Arc<Process>,
    card: Arc<Running>,
    known: Gpu,
    /// The number of the next event.
    events: AtomicU32,
    /// Where its firmware is, for who wants to know which it was.
    firmware: Search,
    /// Their slots, where interrupts end a wait.
    slots: Option<Arc<memory::Memory>>,
    /// Held by the thread that listens for all.
    listens: Mutex<()>,
    woken: Mutex<()>,
    wake: Condvar,
    /// Naps so far.
    naps: AtomicU32,
    /// Exceptions of the card that it has heard of.
    heard: AtomicU64,
    /// Its queues, which a reset for another handle may take.
    queues: Mutex<Vec<Weak<Live>>>,
}

impl Pcie {
    /// Whether it is time to look for what went wrong: each time, but over USB, where a look is several transfers.
    /// Whoever does not want to sleep wants the look.
    fn is_due(&self, limit: Duration) -> bool {
        if self.card.card().pci().reaches_host() || limit.is_zero() {
            return true;
        }
        self.naps
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(LOOK_EVERY)
    }

    /// Looks for what went wrong.
    fn look(&self) -> Result<Option<Exception>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queues = queues.iter().filter_map(Weak::upgrade);
        if let Some(why) = queues.find_map(|queue| queue.down().map(str::to_owned)) {
            return Err(Error::Fault {
                device: self.id.clone(),
                unit: "queue".into(),
                what: why,
            });
        }
        self.card.exception(&self.heard)
    }

    fn lost(&self, unit: &str, cause: Cause) -> Error {
        broken(self.card.card(), unit, cause)
    }

    /// Until something may have happened: whoever waits looks again then.
    fn rest(&self, limit: Duration) {
        if self.slots.is_some()
            && let Ok(_turn) = self.listens.try_lock()
        {
            let until = Deadline::after(limit.min(LISTEN));
            // Late, or not at all: the same as an interrupt that was somebody else's.
            _ = self.card.card().pci().wait_irq(VECTOR, until);
            self.wake.notify_all();
            return;
        }
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wake.wait_timeout(woken, limit.min(NAP)));
    }
}

impl Interface for Pcie {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        match self.card.card().pci().reaches_host() {
            true => "PCI",
            false => "USB",
        }
    }

    fn facts(&self) -> &Facts {
        &self.known.facts
    }

    fn space(&self) -> &Arc<Space> {
        &self.process.space
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let windows = self.known.facts.vram_windows;
        let made = memory::Memory::new(&self.process, &self.card, request, windows)?;
        Ok(Memory {
            va: made.va(),
            bytes: made.bytes(),
            window: made.window().cloned(),
            zeroed: made.is_zeroed(),
            owner: Box::new(made),
        })
    }

    fn reaches(&self, va: u64) -> bool {
        let found = self.process.memory_at(va);
        found.is_some_and(|(memory, _)| memory.is_mapped_for(&self.card))
    }

    fn event(&self) -> Result<Event> {
        let id = self.events.fetch_add(1, Ordering::Relaxed);
        // Nobody reads them; those that come after a page of them share.
        let slot = |slots: &Arc<memory::Memory>| GpuVa(slots.va().0 + u64::from(id) * SLOT % PAGE);
        Ok(Event {
            id,
            // Without, whoever sleeps looks by himself.
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
        let hdp = self.card.started().hubs().hdp();
        hdp.flush().map_err(|e| self.lost("HDP", e))
    }

    fn ticks(&self) -> Result<u64> {
        let now = self.card.counter().now();
        now.map_err(|e| self.lost("clock", e))
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let (memory, offset) = self.process.memory_at(va)?;
        Some((memory.window()?.clone(), offset))
    }

    fn has_relay(&self) -> bool {
        self.card.card().pci().relay().is_some()
    }

    fn relay(&self) -> Result<Option<Relayed>> {
        let Some(relay) = self.card.card().pci().relay() else {
            return Ok(None);
        };
        let (mut parts, mut owners) = (Vec::new(), Vec::new());
        for range in relay.ranges() {
            let name = "the buffer of the bridge";
            let memory = memory::Memory::on_bus(&self.process, &self.card, range, name)?;
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
        // Behind a cable each register takes as long as a thousand of them here.
        if self.has_relay() {
            return None;
        }
        evidence::places(&self.card)
    }

    fn evidence(&self, exception: Option<&Exception>) -> Evidence {
        evidence::of(&self.card, &self.firmware, exception)
    }
}

impl AmdInterface for Pcie {
    fn gpu(&self) -> &Gpu {
        &self.known
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<HardwareQueue> {
        let waves = self.card.card().discovery().units.waves_per_simd;
        let made = queue::create(
            &self.process,
            &self.card,
            (&self.known, self.number),
            waves,
            request,
        );
        let (queue, live) = made?;
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&live));
        Ok(queue)
    }
}
