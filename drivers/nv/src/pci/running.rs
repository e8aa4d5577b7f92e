//! [`Nv`]: a started card, as a driver for [`drivers_gpu::bare`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use drivers_bundle::Evidence;
use drivers_gpu::backend::{Access, Exception};
use drivers_gpu::bare::{
    self, AddressSpace, Driver, Found, Function, Live, Mmu as _, PAGE, Queues, Slots,
};
use drivers_gpu::bare::{Tables, Told as Exceptions};
use drivers_spec::nv::chip::CHIPS;
use drivers_spec::nv::pci_regs::{NV_VIRTUAL_FUNCTION_TIME_0, NV_VIRTUAL_FUNCTION_TIME_1};
use drivers_spec::nv::pci_rm::function;
use hcq::mem::pages::PteFormat as _;
use hcq::mem::window::Window;
use hcq::sync::lock;

use super::areas::{Area, Areas, CHANNELS, FIRST};
use super::bar1;
use super::channel::Channel;
use super::context::{self, Buffer, Placed};
use super::engines::{self, Engines};
use super::fault;
use super::internal::Internal;
use super::mmu::NvMmu;
use super::pramin;
use super::space::Space;
use super::told::{self, Told};
use crate::backend::{ChannelKind, Gpu};
use crate::chip::Chip;
use crate::gsp::{self, Card, Cause, Event, GspError, Messages, Stage, Started};
use crate::rm::device::Device;
use crate::rm::facts::Facts;
use crate::rm::fault::{of_line, waves};

/// Lines of RM's log that are kept for a report.
const LINES: usize = 8;

/// Looks at the clock until both halves are of the same moment: the high one moves every four seconds.
const CLOCK_LOOKS: u32 = 4;

/// A card that is started, and left when it is dropped. Its parts are freed from the top.
pub(super) struct Nv {
    /// Channels that are alive, by their slots.
    channels: Mutex<BTreeMap<u32, Arc<Channel>>>,
    /// Buffers that all contexts of graphics share, once there was a first context.
    shared: OnceLock<Vec<Placed>>,
    /// The buffers that contexts have.
    pub(super) buffers: Vec<Buffer>,
    /// RM's side of the address space.
    pub(super) space: Space,
    /// RM's side of the card.
    pub(super) rm: Device,
    /// What is known of it.
    pub(super) facts: Facts,
    /// Its engines.
    pub(super) engines: Engines,
    /// Its VRAM.
    pub(super) areas: Areas,
    heard: Mutex<Heard>,
    /// All of VRAM, slowly.
    pramin: Window,
    mmu: Arc<NvMmu>,
    started: Started,
}

/// What RM has told of channels.
#[derive(Default)]
struct Heard {
    /// Those that have died, with their Xid.
    dead: BTreeMap<u32, u32>,
    /// Why, as far as nobody has asked yet, with the handles that had them.
    why: Vec<Found>,
    /// The last access of each channel that was refused, by the log.
    accesses: BTreeMap<u32, (u64, Access)>,
    /// The last lines of the log.
    log: VecDeque<String>,
}

impl Heard {
    /// Notes a line of the log.
    fn note(&mut self, channel: u32, xid: u32, line: &str) {
        if let Some(access) = of_line(xid, line) {
            self.accesses.insert(channel, access);
        }
        if self.log.len() == LINES {
            self.log.pop_front();
        }
        self.log
            .push_back(format!("Xid {xid}, channel {channel}: {line}"));
    }

    /// Adds the kind of the access to a fault of a channel, if the log has told it of that page.
    fn refine(&mut self, channel: u32, why: &mut Exception) {
        let Exception::Memory(fault) = why else {
            return;
        };
        let told = self.accesses.remove(&channel);
        let told = told.filter(|(va, _)| va / PAGE == fault.va / PAGE);
        fault.access = fault.access.or(told.map(|(_, access)| access));
    }
}

/// The same, with its shared resources.
pub(super) type Running = bare::Running<Nv>;

/// What RM tells first.
fn ask(messages: &Messages) -> Result<Told, Cause> {
    use crate::rm::transport::Transport as _;
    let branch = messages.branch();
    let zeros = vec![0; told::bytes(branch)?];
    let number = function::GET_GSP_STATIC_INFO;
    let bytes = messages.call("GET_GSP_STATIC_INFO", number, &zeros)?;
    Told::of(branch, &bytes)
}

/// What is known of a card, from RM and from its chip.
fn facts(
    card: &Card,
    told: &Told,
    internal: &Internal,
    engines: &Engines,
    sizes: (u64, u64),
) -> Result<Facts, Cause> {
    let name = card.chip().name;
    let id = CHIPS.iter().find(|chip| chip.name == name);
    let chip = id.and_then(|chip| Chip::by_id(chip.id));
    let chip = chip.ok_or_else(|| Cause::Lists {
        found: format!("a {name}"),
        expected: format!("a chip that is described: {}", Chip::supported()),
    })?;
    let of = chip.facts();
    Ok(Facts {
        product: told.product.clone(),
        chip,
        units: engines::units(internal)?,
        vram: sizes.0,
        bar: sizes.1,
        channel: of.channel,
        compute: of.compute,
        copy: of.copy,
        copy_engines: engines.copies(),
    })
}

/// A started card whose VRAM the host sees.
struct Seen {
    told: Told,
    areas: Areas,
    pramin: Window,
    mmu: Arc<NvMmu>,
}

/// Has the host see VRAM of a started card.
fn see(card: &Arc<Card>, told: Told) -> Result<Seen, Cause> {
    let bytes = card.vram_bytes()?;
    let pramin = pramin::window("VRAM by PRAMIN", card.arch(), card.shared_bus(), bytes);
    let (number, bar) = bar1::find(card, bytes)?;
    // From WPR2 on VRAM is the firmware's, whatever RM lists.
    let wpr2 = card.wpr2()?.map_or(u64::MAX, |(first, _)| first);
    let free = told.free.iter().map(|&(start, end)| (start, end.min(wpr2)));
    let areas = Areas::of(&free.collect::<Vec<_>>(), bar.len())?;
    bar1::show(card, &bar, areas.window, told.bar1, &pramin)?;
    let function = Function::new(
        card.device().clone(),
        card.pci().clone(),
        card.shared_bus(),
        (number, bar),
        bytes,
    );
    let mmu = Arc::new(NvMmu::new(card, function, areas.window.at));
    Ok(Seen {
        told,
        areas,
        pramin,
        mmu,
    })
}

impl Nv {
    /// Starts a card, but for the first context of graphics.
    ///
    /// # Errors
    /// [`GspError`], with the stage.
    pub(super) fn start(card: &Arc<Card>, options: &gsp::Options) -> Result<Running, GspError> {
        let at = |stage: Stage| move |cause: Cause| card.failed(stage, cause);
        let started = gsp::start(card, options)?;
        let messages = started.messages();
        let told = ask(&messages).map_err(at(Stage::Facts))?;
        let seen = see(card, told).map_err(at(Stage::Window))?;
        let tables = seen.areas.tables;
        let vram = seen.mmu.function().vram();
        let tables = Tables::new(card.device(), vram, tables.at, tables.bytes);
        let space = tables.and_then(|tables| AddressSpace::new(&seen.mmu, tables));
        let space = space.map_err(|error| at(Stage::Space)(error.into()))?;
        let format = seen.mmu.format();
        let first = format.levels().first();
        let entries = first.map_or(0, |level| 1 << level.index_bits);
        let root = (space.root(), entries);
        let nv = Nv::with(card, started, &messages, seen, root).map_err(at(Stage::Space))?;
        let rest = nv.areas.rest;
        let running = Running::new(nv, space, (rest.at, rest.bytes));
        running.map_err(|error| at(Stage::Space)(error.into()))
    }

    /// Its objects in RM.
    fn with(
        card: &Arc<Card>,
        started: Started,
        messages: &Arc<Messages>,
        seen: Seen,
        root: (hcq::addr::PhysAddr, u32),
    ) -> Result<Nv, Cause> {
        let Seen {
            told,
            areas,
            pramin,
            mmu,
        } = seen;
        let internal = Internal::new(messages.clone(), told.internal);
        let engines = Engines::of(&internal, card.arch())?;
        let sizes = (mmu.function().vram_bytes(), mmu.function().vram().len());
        let facts = facts(card, &told, &internal, &engines, sizes)?;
        let buffers = context::buffers(&internal)?;
        let rm = Device::new(&started.client()?, 0, 0)?;
        Ok(Nv {
            channels: Mutex::default(),
            shared: OnceLock::new(),
            buffers,
            space: Space::new(messages, &rm, root)?,
            rm,
            facts,
            engines,
            areas,
            heard: Mutex::default(),
            pramin,
            mmu,
            started,
        })
    }

    /// The card.
    pub(super) fn card(&self) -> &Arc<Card> {
        self.started.card()
    }

    /// Fills a part of VRAM with zeros, wherever it is.
    ///
    /// # Errors
    /// The bus's.
    pub(super) fn clear(&self, area: Area) -> Result<(), Cause> {
        let part = |vram: &Window| vram.sub(area.at.0, area.bytes);
        match part(self.function().vram()) {
            Ok(seen) => seen.fill(0, area.bytes, 0)?,
            Err(_) => {
                let slow = part(&self.pramin)?;
                slow.fill(0, area.bytes, 0)?;
                slow.flush()?;
            }
        }
        Ok(self.mmu.flush()?)
    }

    /// Buffers that all contexts of graphics share. None before the first context.
    pub(super) fn shared(&self) -> &[Placed] {
        self.shared.get().map_or(&[], Vec::as_slice)
    }

    /// Keeps the buffers of the first context that all share.
    pub(super) fn share(&self, buffers: Vec<Placed>) {
        // There is one first context.
        _ = self.shared.set(buffers);
    }

    /// Notes the channel of a slot. What is still to be told of an earlier one with its number is not of this one.
    pub(super) fn enter(&self, slot: u32, channel: &Arc<Channel>) {
        if let Err(error) = self.hear() {
            tracing::warn!(target: "hcq::nv::pci", %error, "reading events of RM failed");
        }
        {
            let mut heard = lock(&self.heard);
            heard.dead.remove(&channel.number);
            heard.accesses.remove(&channel.number);
        }
        lock(&self.channels).insert(slot, channel.clone());
    }

    /// The Xid of the channel with a number, if it has died.
    ///
    /// # Errors
    /// The bus's; GSP's.
    pub(super) fn died(&self, number: u32) -> Result<Option<u32>, Cause> {
        self.hear()?;
        Ok(lock(&self.heard).dead.get(&number).copied())
    }

    /// Takes in what RM has told.
    fn hear(&self) -> Result<(), Cause> {
        for event in self.started.events()? {
            if let Event::Log { xid, channel, text } = &event {
                lock(&self.heard).note(*channel, *xid, text);
            }
            let all: Vec<_> = lock(&self.channels).values().cloned().collect();
            let find = |number| all.iter().find(|one| one.number == number);
            // RM may end a channel that is being freed by an error, and tells it late: nobody waits for that one.
            if let Event::Died { channel, xid, .. } = event
                && channel != FIRST
                && find(channel).is_none()
            {
                tracing::warn!(target: "hcq::nv::pci", channel, xid, "death of a channel that is gone ignored");
                continue;
            }
            let told = fault::of_event(&event, |number| find(number).map(|one| &**one));
            if let Some(((number, xid), mut why)) = told {
                let mut heard = lock(&self.heard);
                heard.refine(number, &mut why);
                heard.dead.insert(number, xid);
                heard.why.push((find(number).map(|one| one.owner), why));
            }
        }
        Ok(())
    }
}

impl Queues for Nv {
    type Cause = Cause;
    type Kind = ChannelKind;
    type Queue = Arc<Channel>;
    type At = ();

    fn slots(&self, _: ChannelKind) -> Slots {
        // The first channel is the driver's own.
        Slots {
            of: "channels",
            count: CHANNELS - 1,
        }
    }

    fn stop(&self, _: ChannelKind, number: u32) -> Result<bool, Cause> {
        // What it has died of is told while it is known.
        self.hear()?;
        let Some(channel) = lock(&self.channels).remove(&number) else {
            return Ok(true);
        };
        // RM takes it from its runlist, and resets the engine if it has to.
        match channel.objects.free() {
            true => Ok(true),
            false => Err(Cause::Kept {
                name: channel.name.clone(),
            }),
        }
    }

    fn pause(&self, queue: &Live<Self>) -> Result<(), Cause> {
        Ok(queue.parts.objects.set_running(false)?)
    }

    fn resume(&self, queue: &Live<Self>, (): ()) -> Result<(), Cause> {
        Ok(queue.parts.objects.set_running(true)?)
    }

    fn ring(&self, queue: &Live<Self>) -> Result<(), Cause> {
        Ok(queue.parts.doorbell.ring(0, queue.parts.token)?)
    }

    fn is_reset_with(&self, _: &Live<Self>, _: (ChannelKind, u32)) -> bool {
        // RM resets engines, and what else has run there goes on.
        false
    }

    fn reset(&self, (_, number): (ChannelKind, u32)) -> Result<(), Cause> {
        // A channel that could not be freed is an error of its own: there is nothing else that takes it out.
        Err(Cause::Kept {
            name: format!("channel of slot {number}"),
        })
    }
}

impl Driver for Nv {
    type Mmu = NvMmu;
    type Gpu = Gpu;

    fn function(&self) -> &Function {
        self.mmu.function()
    }

    fn mmu(&self) -> &Arc<NvMmu> {
        &self.mmu
    }

    fn faults(&self, told: &Exceptions) -> Result<Vec<Found>, Cause> {
        self.hear()?;
        let mut why = std::mem::take(&mut lock(&self.heard).why);
        // Two channels may die of the same address, and each has an owner.
        let is_known =
            |one: &Exception| matches!(one, Exception::Memory(fault) if told.has(fault.va));
        why.retain(|(owner, one)| owner.is_some() || !is_known(one));
        Ok(why)
    }

    fn cut_off(&self) -> Result<(), Cause> {
        self.started.cut_off()
    }

    fn interrupt(&self) -> Result<bool, Cause> {
        // Interrupts of engines stay off: waiting threads poll.
        Ok(false)
    }

    fn ticks(&self) -> Result<u64, Cause> {
        let io = self.card().io();
        let high = || {
            io.read(&NV_VIRTUAL_FUNCTION_TIME_1)
                .map(|value| value.bits())
        };
        let mut before = high()?;
        for _ in 0..CLOCK_LOOKS {
            let low = io.read(&NV_VIRTUAL_FUNCTION_TIME_0)?.bits();
            let after = high()?;
            if before == after {
                return Ok(u64::from(after) << 32 | u64::from(low));
            }
            before = after;
        }
        Ok(u64::from(before) << 32)
    }

    fn places(&self) -> Option<Vec<u64>> {
        // RM does not tell how far kernels are.
        None
    }

    fn evidence(&self) -> Evidence {
        let channels: Vec<_> = lock(&self.channels).values().cloned().collect();
        let waves = channels.iter().flat_map(|channel| waves(channel.witness()));
        let line = |line: &String| ["RM on GSP".to_owned(), line.clone()];
        let way = lock(&self.heard).log.iter().map(line).collect();
        Evidence {
            way,
            waves: waves.collect(),
            missing: vec!["registers: owned by RM on GSP".into()],
            ..Evidence::default()
        }
    }
}
