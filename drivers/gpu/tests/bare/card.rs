//! A made-up card: its PCI function, a TLB that keeps what it has seen until it is told, queues that hang when they should.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use drivers_bundle::Evidence;
use drivers_gpu::backend::{Exception, Facts, RING_COSTS};
use drivers_gpu::bare::{self, AddressSpace, Driver, Function, Handle, Live, Mmu, Queues, Running};
use drivers_gpu::bare::{Found, Slots, Tables, Told};
use hcq::addr::{BusAddr, BusRange, BusRanges, Domain, PhysAddr, VramAddr};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Window};
use hcq::reg::bus::Bus;
use hcq::transport::{
    DevFile, Dma, Fault, Machine, Pci, PerProcess, Reserved, ResetKind, TransportError,
};
use hcq::{Deadline, DeviceId, GpuVa, Result};

use super::formats::{Made, walk};

type Transport<T> = std::result::Result<T, TransportError>;

pub const VRAM: u64 = 64 << 20;
/// For tables, the first page for the root where hardware knows it before; what is divided lies behind twice that.
pub const TABLES: u64 = 1 << 20;
pub const REST: u64 = 8 << 20;

fn no(what: &str) -> TransportError {
    TransportError::new("made", what, Fault::Unsupported("not here".into()))
}

/// A PCI function, and what it is like.
pub struct Slot {
    pub name: String,
    pub memory: View,
    pub domain: Domain,
    pub reaches_host: bool,
    /// What of VRAM the BAR shows.
    pub shown: u64,
    pub at: u64,
    pub config: Mutex<BTreeMap<u16, u32>>,
    pub has_left: AtomicBool,
    /// Bytes of the host's memory that functions are given.
    pub pinned: Arc<AtomicU64>,
    /// Flushes of the host's writes that nobody waits for.
    pub posts: AtomicU64,
    next: AtomicU64,
}

impl Slot {
    pub fn new(number: u64) -> Slot {
        let memory = View::alloc(VRAM as usize, 4096).unwrap();
        // Of somebody else's, before.
        memory.fill(0, 32 << 20, 0xa5).unwrap();
        Slot {
            name: format!("0000:{number:02x}:00.0"),
            memory,
            domain: Domain::BUS,
            reaches_host: true,
            shown: VRAM,
            at: (number + 1) << 40,
            config: Mutex::default(),
            has_left: AtomicBool::new(false),
            pinned: Arc::default(),
            posts: AtomicU64::new(0),
            next: AtomicU64::new(0x7000_0000),
        }
    }
}

/// Memory of the host, until it is freed.
struct Pinned(Arc<AtomicU64>, u64);

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Pci for Slot {
    fn name(&self) -> &str {
        &self.name
    }
    fn bar(&self, _: u8) -> Transport<Window> {
        Window::mapped("BAR1", self.memory.clone()).sub(0, self.shown)
    }
    fn config_read(&self, offset: u16, _: AccessWidth) -> Transport<u32> {
        Ok(*self.config.lock().unwrap().get(&offset).unwrap_or(&0))
    }
    fn config_write(&self, offset: u16, _: AccessWidth, value: u32) -> Transport<()> {
        self.config.lock().unwrap().insert(offset, value);
        Ok(())
    }
    fn dma(&self, bytes: u64, align: u64) -> Transport<Dma> {
        if !self.reaches_host {
            return Err(no("dma"));
        }
        self.pinned.fetch_add(bytes, Ordering::Relaxed);
        let pinned = Pinned(self.pinned.clone(), bytes);
        // In two parts that do not join, and a page more than was asked for.
        let parts = [(bytes / 2) & !4095, bytes - ((bytes / 2) & !4095) + 4096];
        let parts = parts.into_iter().filter(|bytes| *bytes > 0);
        let range = |bytes: u64| {
            let step = (bytes + (64 << 10)).next_multiple_of(align);
            let at = self.next.fetch_add(step, Ordering::Relaxed);
            let addr = BusAddr(at.next_multiple_of(align));
            BusRange { addr, bytes }
        };
        Ok(Dma {
            view: View::alloc(bytes as usize + 4096, 4096)
                .unwrap()
                .with_guard(pinned),
            ranges: BusRanges::new(self.domain, parts.map(range).collect()),
        })
    }
    fn domain(&self) -> Domain {
        self.domain
    }
    fn shown(&self, n: u8, bytes: u64) -> Transport<BusRanges> {
        assert_eq!(n, 1);
        let addr = BusAddr(self.at);
        Ok(BusRanges::new(self.domain, vec![BusRange { addr, bytes }]))
    }
    fn reaches_host(&self) -> bool {
        self.reaches_host
    }
    fn reset(&self, _: ResetKind) -> Transport<()> {
        Err(no("reset"))
    }
    fn wait_irq(&self, _: u32, _: Deadline) -> Transport<u64> {
        Err(no("wait_irq"))
    }
}

/// Registers, of which one tells whether the card is there.
struct Registers(Arc<Slot>);

impl Bus for Registers {
    fn name(&self) -> String {
        "BAR0".into()
    }
    fn read(&self, _: u64) -> Transport<u32> {
        Err(no("read"))
    }
    fn write(&self, _: u64, _: u32) -> Transport<()> {
        Err(no("write"))
    }
    fn send(&self) -> Transport<()> {
        Ok(())
    }
    fn has_left(&self) -> bool {
        self.0.has_left.load(Ordering::Relaxed)
    }
}

/// A machine with such cards.
#[derive(Default)]
pub struct Computer {
    pub slots: Vec<Arc<Slot>>,
    kept: PerProcess,
}

impl Computer {
    pub fn with(slots: Vec<Slot>) -> Arc<Computer> {
        let slots = slots.into_iter().map(Arc::new).collect();
        let kept = PerProcess::default();
        Arc::new(Computer { slots, kept })
    }
}

impl Machine for Computer {
    fn open(&self, _: &str) -> Transport<Arc<dyn DevFile>> {
        Err(no("open"))
    }
    fn read(&self, _: &str) -> Transport<String> {
        Err(no("read"))
    }
    fn list(&self, _: &str) -> Transport<Vec<String>> {
        Err(no("list"))
    }
    fn open_pci(&self, address: &str) -> Transport<Arc<dyn Pci>> {
        let mut slots = self.slots.iter();
        let found = slots.find(|slot| slot.name == address);
        found
            .map(|slot| slot.clone() as Arc<dyn Pci>)
            .ok_or_else(|| no("open"))
    }
    fn reserve(&self, _: u64, _: u64, _: u64) -> Transport<Reserved> {
        Err(no("reserve"))
    }
    fn memory(&self, _: u64, _: u64) -> Transport<View> {
        Err(no("memory"))
    }
    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}

/// What the hardware does when it is asked.
#[derive(Default)]
pub struct Script {
    /// Invalidations are not acknowledged.
    pub deaf: bool,
    /// Queues that do not leave, and those that do not come back.
    pub hangs: Vec<u32>,
    pub lost: Vec<u32>,
    /// Whether a reset brings the engine back.
    pub dead: bool,
    /// Whether it goes on with its DMA whatever it is told.
    pub wild: bool,
    /// Happens during the next reset.
    pub during_reset: Option<Box<dyn FnOnce() + Send>>,
    /// What is told at the next look.
    pub faults: Vec<Found>,
    /// What was done, in order.
    pub log: Vec<String>,
}

/// The hardware of a card.
pub struct Hardware<F> {
    function: Function,
    slot: Arc<Slot>,
    root: AtomicU64,
    /// Where pages lead, as it was seen first: nowhere, too.
    tlb: Mutex<BTreeMap<u64, Option<(PhysAddr, u64)>>>,
    script: Mutex<Script>,
    _format: std::marker::PhantomData<fn() -> F>,
}

impl<F: Made> Hardware<F> {
    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// What was done since the last call.
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.script().log)
    }

    pub fn note(&self, what: String) {
        self.script().log.push(what);
    }

    /// Where an access goes, and the size of the page.
    pub fn access(&self, va: u64) -> Option<(PhysAddr, u64)> {
        let mut tlb = self.tlb.lock().unwrap();
        let root = self.root.load(Ordering::Relaxed);
        let inside = va & 4095;
        let found = tlb.entry(va & !4095).or_insert_with(|| {
            let vram = Window::mapped("VRAM", self.slot.memory.clone());
            walk::<F>(&vram, root, va & !4095)
        });
        found.map(|(to, page)| (to.add(inside).unwrap(), page))
    }
}

impl<F: Made> Mmu for Hardware<F> {
    type Format = F;
    type Cause = TransportError;
    const START: GpuVa = F::START;
    const ADDRESSES: RangeInclusive<u64> = F::FIRST..=F::LAST;

    fn function(&self) -> &Function {
        &self.function
    }
    fn format(&self) -> F {
        F::default()
    }
    fn invalidate(&self) -> Transport<()> {
        if self.script().deaf {
            return Err(no("invalidate"));
        }
        self.tlb.lock().unwrap().clear();
        Ok(())
    }
    fn flush(&self) -> Transport<()> {
        Ok(())
    }
    fn post(&self) -> Transport<()> {
        self.slot.posts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The driver of such a card.
pub struct Card<F: Made>(pub Arc<Hardware<F>>);

/// What a queue is of: two engines, whose queues are reset together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Compute,
    Copy,
}

impl<F: Made> Queues for Card<F> {
    type Cause = TransportError;
    type Kind = Engine;
    type Queue = ();
    type At = u32;

    fn slots(&self, kind: Engine) -> Slots {
        match kind {
            Engine::Compute => Slots {
                of: "compute queues",
                count: 3,
            },
            Engine::Copy => Slots {
                of: "copy queues",
                count: 2,
            },
        }
    }
    fn stop(&self, kind: Engine, number: u32) -> Transport<bool> {
        self.0.note(format!("stop {kind:?} {number}"));
        let hangs = kind == Engine::Compute && self.0.script().hangs.contains(&number);
        Ok(!hangs)
    }
    fn pause(&self, queue: &Live<Self>) -> Transport<u32> {
        self.0.note(format!("pause {}", queue.number));
        Ok(queue.number * 100)
    }
    fn resume(&self, queue: &Live<Self>, at: u32) -> Transport<()> {
        self.0.note(format!("resume {} at {at}", queue.number));
        match self.0.script().lost.contains(&queue.number) {
            true => Err(no("resume")),
            false => Ok(()),
        }
    }
    fn ring(&self, queue: &Live<Self>) -> Transport<()> {
        self.0.note(format!("ring {}", queue.number));
        Ok(())
    }
    fn is_reset_with(&self, queue: &Live<Self>, slot: (Engine, u32)) -> bool {
        queue.kind == slot.0
    }
    fn reset(&self, (kind, number): (Engine, u32)) -> Transport<()> {
        self.0.note(format!("reset {kind:?} for {number}"));
        let during = self.0.script().during_reset.take();
        if let Some(during) = during {
            during();
        }
        match self.0.script().dead {
            true => Err(no("reset")),
            false => Ok(()),
        }
    }
}

impl<F: Made> Driver for Card<F> {
    type Mmu = Hardware<F>;
    type Gpu = Known;

    fn function(&self) -> &Function {
        &self.0.function
    }
    fn mmu(&self) -> &Arc<Hardware<F>> {
        &self.0
    }
    fn faults(&self, told: &Told) -> Transport<Vec<Found>> {
        let found = std::mem::take(&mut self.0.script().faults);
        let is_new = |(_, one): &Found| match one {
            Exception::Memory(fault) => !told.has(fault.va),
            _ => true,
        };
        Ok(found.into_iter().filter(is_new).collect())
    }
    fn cut_off(&self) -> Transport<()> {
        self.0.note("cut off".into());
        if self.0.script().wild {
            return Err(no("cut off"));
        }
        bare::config::master(&*self.0.slot, false)
    }
    fn interrupt(&self) -> Transport<bool> {
        Err(no("interrupt"))
    }
    fn ticks(&self) -> Transport<u64> {
        Ok(7)
    }
    fn places(&self) -> Option<Vec<u64>> {
        Some(vec![1])
    }
    fn evidence(&self) -> Evidence {
        Evidence::default()
    }
}

/// What a handle knows.
pub struct Known(Facts);

impl AsRef<Facts> for Known {
    fn as_ref(&self) -> &Facts {
        &self.0
    }
}

/// Opens a card of a machine.
pub fn open<F: Made>(machine: &Arc<Computer>, number: usize) -> Result<Handle<Card<F>>> {
    let slot = machine.slots[number].clone();
    let id = DeviceId::new("MADE", number as u32);
    let start = |pci: Arc<dyn Pci>| {
        let vram = (1, pci.bar(1).unwrap());
        let bus = Arc::new(Registers(slot.clone()));
        let hardware = Arc::new(Hardware::<F> {
            function: Function::new(id.clone(), pci, bus, vram, VRAM),
            slot: slot.clone(),
            root: AtomicU64::new(0),
            tlb: Mutex::default(),
            script: Mutex::default(),
            _format: std::marker::PhantomData,
        });
        let function = &hardware.function;
        let (at, bytes) = (VramAddr(4096), TABLES - 4096);
        let mut tables = Tables::new(&id, function.vram(), at, bytes)?;
        if F::ROOTED {
            tables = tables.rooted(VramAddr(0)).unwrap();
        }
        let space = AddressSpace::new(&hardware, tables)?;
        hardware.root.store(space.root().raw(), Ordering::Relaxed);
        Running::new(Card(hardware.clone()), space, (VramAddr(2 * TABLES), REST))
    };
    let known = |card: &Card<F>| {
        Ok(Known(Facts {
            place: card.function().pci().name().to_owned(),
            vram: VRAM,
            vram_windows: true,
            clock_hz: 1,
            costs: RING_COSTS,
            log: "made",
        }))
    };
    let machine: Arc<dyn Machine> = machine.clone();
    bare::open(&machine, id.clone(), &slot.name, start, known)
}

/// The hardware of an open card.
pub fn hardware<F: Made>(handle: &Handle<Card<F>>) -> Arc<Hardware<F>> {
    handle.card().driver().0.clone()
}

/// No time to sleep.
pub const NOW: Duration = Duration::ZERO;
