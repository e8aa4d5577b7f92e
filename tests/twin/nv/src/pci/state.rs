//! What a card is: its registers, its memory, its processors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use twin::pci::{Broken, Bus};
use twin::rule::{Journal, Proof, Rule};

use super::card::{Before, Config, Trouble};
use super::falcon::{Engine, Falcon};
use super::gsp::Gsp;
use super::gsp::core::Core;
use super::interrupts::Interrupts;
use super::memory::{Aperture, Host, Physical, Place, Vram};
use super::mmu::invalidate::{self, Pending};
use super::mmu::tlb::Tlb;
use super::registers::*;
use super::runner::Runner;
use super::wait::{Looks, Wait};
use super::{brom, falcon, fsp};

static REGISTER: Rule = Rule {
    name: "NV-PCI-REGISTER",
    text: "only modelled registers are accessed, and only those that can be are written",
    source: "this twin: src/pci/state.rs, src/pci/falcon.rs, src/pci/fsp/registers.rs",
    proof: Proof::Twin,
};

static GFW: Rule = Rule {
    name: "NV-PCI-GFW",
    text: "registers of processors are written, and the size of memory is read, after the card's own firmware has started: \
           PGC6_AON_SECURE_SCRATCH_GROUP_05 says so once its mask lets the host read it",
    source: "OGKM, kernel_gsp_tu102.c, kgspWaitForGfwBootOk; kernel_gsp.c, _kgspBootGspRm: requires knowing FB size which depends \
             on GFW_BOOT",
    proof: Proof::Sourced,
};

static WINDOW: Rule = Rule {
    name: "NV-PCI-PRAMIN-TARGET",
    text: "PBUS_BAR0_WINDOW has TARGET VID_MEM, or SYS_MEM_COHERENT or NONCOHERENT with memory of the host behind it",
    source: "OGKM, turing/tu102/dev_bus.h, NV_PBUS_BAR0_WINDOW_TARGET: 1 is none",
    proof: Proof::Sourced,
};

/// A card behind its BARs.
pub(super) struct State {
    pub(super) config: Config,
    pub(super) bus: Arc<Bus>,
    pub(super) journal: Arc<Journal>,
    pub(super) vram: Vram,
    pub(super) gsp: Falcon,
    pub(super) sec2: Falcon,
    /// Of cards that have one: what starts GSP.
    pub(super) fsp: fsp::Fsp,
    /// What runs on GSP's RISC-V core.
    pub(super) firmware: Gsp,
    pub(super) core: Core,
    /// What runs channels.
    pub(super) runner: Runner,
    /// What the MMU remembers, and what it is forgetting.
    pub(super) tlb: Arc<Mutex<Tlb>>,
    pub(super) pending: Pending,
    /// Caches that the host has told to be flushed. There are none here; it waits all the same.
    flushes: BTreeMap<u32, Looks>,
    interrupts: Interrupts,
    /// Of the CRTC of VGA: which register its port shows, and what they hold.
    crtc_index: u8,
    crtc: [u8; 256],
    /// How many doorbells were rung.
    rings: u64,
    /// Where registers, memory and instance memory are.
    pub(super) bars: [u64; 3],
    /// The ROM, and where in it FWSEC is.
    pub(super) prom: Option<vbios::Rom>,
    /// Registers that hold what was written.
    held: BTreeMap<u32, u32>,
    pub(super) gfw: Looks,
    /// SEC2 has resumed GSP, or is about to.
    pub(super) handoff: Option<Looks>,
    /// Nanoseconds; it grows with every look at it, and says nothing of a card.
    clock: Arc<AtomicU64>,
    accesses: u64,
}

/// The unit of the end of WPR2. Nouveau reads the end of WPR1, whose registers are next to those of WPR2, as the start of
/// its last unit (nvkm/subdev/acr/ga100.c, ga100_acr_wpr_check). What nova-core has printed on a card agrees: for the MiB of
/// FRTS, `WPR2: 0xffc00000-0xffce0000` (cover letters of "nova-core: run FWSEC-FRTS", 2025), although its regs.rs now calls
/// the bound exclusive. OGKM compares it with 0 only.
const WPR_UNIT: u64 = 128 << 10;

/// After how many accesses of the host GSP's firmware has had time for something.
const PAUSE: u64 = 16;

/// Registers that hold what was written, and do no more here.
const HELD: [u32; 7] = [
    PBUS_BAR0_WINDOW,
    PFB_FLUSH_SYSMEM,
    PFB_FLUSH_SYSMEM_HI,
    BAR1_BLOCK,
    BAR1_BLOCK + 4,
    BAR2_BLOCK,
    BAR2_BLOCK + 4,
];

impl State {
    pub(super) fn new(
        config: &Config,
        bus: Arc<Bus>,
        journal: Arc<Journal>,
        core: Core,
        runner: Runner,
    ) -> Result<State, i32> {
        let mut state = State {
            vram: Vram::new(config.chip.vram())?,
            gsp: Falcon::new(Engine::Gsp),
            sec2: Falcon::new(Engine::Sec2),
            fsp: fsp::Fsp::default(),
            firmware: Gsp::default(),
            core,
            runner,
            tlb: Arc::new(Mutex::new(Tlb::of(config.chip))),
            pending: Pending::default(),
            flushes: BTreeMap::new(),
            interrupts: Interrupts::new(config.chip.fsp.is_some()),
            crtc_index: 0,
            crtc: [0; 256],
            rings: 0,
            bars: [0; 3],
            prom: config.chip.rom.as_ref().map(vbios::Card::rom),
            held: BTreeMap::new(),
            gfw: Looks::default(),
            handoff: None,
            clock: Arc::default(),
            accesses: 0,
            config: config.clone(),
            bus,
            journal,
        };
        state.gfw = state.waits(Wait::Gfw);
        if config.before == Before::Driver {
            let end = state.vram.bytes() - (2 << 20);
            state.vram.wpr2 = Some(end - (256 << 20)..end);
            state.gsp = Falcon::running(Engine::Gsp);
            state.firmware = Gsp::left();
        }
        Ok(state)
    }

    /// A reset of the function: nothing of before goes on, WPR2 is gone, and the card's own firmware starts anew.
    pub(super) fn reset(&mut self, how: &str) {
        self.journal.event(how.into());
        self.bus.was_reset();
        self.runner.clear();
        self.tlb = Arc::new(Mutex::new(Tlb::of(self.config.chip)));
        self.pending = Pending::default();
        self.flushes.clear();
        self.interrupts = Interrupts::new(self.config.chip.fsp.is_some());
        self.crtc = [0; 256];
        self.crtc_index = 0;
        self.vram.wpr2 = None;
        self.vram.plain_heap = None;
        self.gsp = Falcon::new(Engine::Gsp);
        self.sec2 = Falcon::new(Engine::Sec2);
        self.fsp = fsp::Fsp::default();
        self.firmware = Gsp::default();
        self.held.clear();
        self.handoff = None;
        self.gfw = self.waits(Wait::Gfw);
    }

    /// How long a wait takes that begins now.
    pub(super) fn waits(&self, wait: Wait) -> Looks {
        let begun = 1 + self.config.begun.fetch_add(1, Ordering::Relaxed);
        let is_stuck = self.config.stuck == Some(begun);
        Looks::new(match self.config.never == Some(wait) || is_stuck {
            true => u32::MAX,
            false => self.config.looks,
        })
    }

    /// The way to host memory.
    pub(super) fn host(&self) -> Host {
        Host {
            bus: self.bus.clone(),
            journal: self.journal.clone(),
        }
    }

    /// Whether the card has left the bus.
    pub(super) fn is_gone(&self) -> bool {
        self.config
            .gone_after
            .is_some_and(|after| self.accesses > after)
    }

    /// A processor.
    pub(super) fn falcon(&mut self, engine: Engine) -> &mut Falcon {
        match engine {
            Engine::Gsp => &mut self.gsp,
            Engine::Sec2 => &mut self.sec2,
        }
    }

    /// Both memories, as engines have them now.
    pub(super) fn physical(&self) -> Physical {
        Physical::new(&self.vram, self.host())
    }

    pub(super) fn held(&self, at: u32) -> u32 {
        self.held.get(&at).copied().unwrap_or(0)
    }

    pub(super) fn hold(&mut self, at: u32, value: u32) {
        self.held.insert(at, value);
    }

    /// Whether that is in the ROM.
    pub(super) fn is_rom(&self, at: u32) -> bool {
        self.prom.is_some() && (PROM..PROM_END).contains(&at)
    }

    /// Bytes of the ROM; what lies behind it reads as erased flash. The card's own hardware has read what lies before the first
    /// image, and skips it (Linux, Documentation/gpu/nova/core/vbios.rst, IFR Header).
    pub(super) fn rom(&self, at: u32, bytes: usize) -> u64 {
        let at = (at - PROM) as usize;
        let shown = self.prom.as_ref().map_or(&[][..], |rom| {
            let skipped = if self.config.ifr_shown { 0 } else { rom.start };
            &rom.bytes[skipped..]
        });
        let byte = |i: usize| shown.get(at + i).copied().unwrap_or(0xff);
        (0..bytes)
            .rev()
            .fold(0, |word, i| word << 8 | u64::from(byte(i)))
    }

    fn gfw_has_started(&self, what: &str) -> Result<(), Broken> {
        match self.gfw.is_done() {
            true => Ok(()),
            false => Err((&GFW, what.into())),
        }
    }

    /// The place in memory that the window shows there.
    fn behind_window(&self, at: u32) -> Result<Place, Broken> {
        if self.config.chip.fsp.is_some() {
            let base = u64::from(self.held(fsp::XAL_BAR0_WINDOW) & 0x3f_ffff);
            return Ok(Place::vram((base << 16) + u64::from(at - PRAMIN)));
        }
        let window = self.held(PBUS_BAR0_WINDOW);
        let aperture = match window >> 24 & 3 {
            0 => Aperture::Vram,
            1 => return Err((&WINDOW, "TARGET is 1".into())),
            _ => Aperture::Host,
        };
        let at = (u64::from(window & 0xff_ffff) << 16) + u64::from(at - PRAMIN);
        Ok(Place { aperture, at })
    }

    /// The host reads through that window.
    fn read_window(&self, at: u32) -> Result<u32, Broken> {
        let (place, mut word) = (self.behind_window(at)?, [0; 4]);
        match place.aperture {
            Aperture::Vram => self.vram.read(place.at, &mut word)?,
            Aperture::Host if self.host().read(place.at, &mut word, "PRAMIN") => {}
            Aperture::Host => return Err((&WINDOW, format!("read of {place}"))),
        }
        Ok(u32::from_le_bytes(word))
    }

    /// The host writes through it.
    fn write_window(&self, at: u32, value: u32) -> Result<(), Broken> {
        let (place, word) = (self.behind_window(at)?, value.to_le_bytes());
        match place.aperture {
            Aperture::Vram => self.vram.write(place.at, &word),
            Aperture::Host if self.host().write(place.at, &word, "PRAMIN") => Ok(()),
            Aperture::Host => Err((&WINDOW, format!("write to {place}"))),
        }
    }

    /// The host rings a doorbell.
    fn rings(&mut self, token: u32) -> Result<(), Broken> {
        invalidate::rests(self, &format!("doorbell {token:#x}"))?;
        self.rings += 1;
        super::gsp::doorbell(self, token)
    }

    /// What is wrong with the channel whose doorbell is rung now.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let (trouble, ring) = self.config.channel?;
        (ring == self.rings).then_some(trouble)
    }

    /// Whether a flush goes on: as long as it does, its register is not 0.
    fn flushing(&mut self, at: u32) -> u32 {
        let done = self.flushes.get_mut(&at).is_none_or(Looks::look);
        if done {
            self.flushes.remove(&at);
        }
        u32::from(!done) << 1
    }

    /// The time in nanoseconds.
    pub(super) fn time(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// The clock, which engines have, too.
    pub(super) fn clock(&self) -> Arc<AtomicU64> {
        self.clock.clone()
    }

    /// The time, of which every look takes some.
    fn ticks(&self) -> u32 {
        (32 + self.clock.fetch_add(32, Ordering::Relaxed)) as u32
    }

    /// The host has accessed a register once more.
    fn passes(&mut self) {
        if self.accesses.is_multiple_of(PAUSE) {
            super::gsp::passes(self);
        }
    }

    /// Which processor a register is one of, and where in it.
    fn of_falcon(at: u32) -> Option<(Engine, u32)> {
        [(Engine::Gsp, PGSP), (Engine::Sec2, PSEC)]
            .into_iter()
            .find(|(_, base)| (*base..*base + FALCON_BYTES).contains(&at))
            .map(|(engine, base)| (engine, at - base))
    }

    /// A version of a fuse as bits: so many from the lowest.
    fn fuse(version: u32) -> u32 {
        (1 << version) - 1
    }

    /// The host reads a register.
    pub(super) fn read(&mut self, at: u32) -> Result<u32, Broken> {
        self.accesses += 1;
        if self.is_gone() {
            return Ok(u32::MAX);
        }
        self.passes();
        let chip = self.config.chip;
        if let Some(value) = self.interrupts.read(at) {
            return Ok(value);
        }
        if let Some(facts) = &chip.fsp {
            return fsp::read(self, facts, at);
        }
        match State::of_falcon(at) {
            Some((engine, offset)) => falcon::read(self, engine, offset),
            None => self.plain(at),
        }
    }

    /// A register of no processor is read.
    pub(super) fn plain(&mut self, at: u32) -> Result<u32, Broken> {
        let chip = self.config.chip;
        let wpr2 = |end: fn(&std::ops::Range<u64>) -> u64| {
            let at = self.vram.wpr2.as_ref().map_or(0, end);
            ((at >> 12) as u32) << 4
        };
        Ok(match at {
            PMC_BOOT_0 => chip.boot_0,
            PMC_BOOT_1 => 0,
            PMC_BOOT_42 => chip.boot_42,
            PTIMER_TIME_0 | FUNCTION_TIME_0 => self.ticks(),
            PTIMER_TIME_1 | FUNCTION_TIME_1 => (self.time() >> 32) as u32,
            UFLUSH_FB_FLUSH | UFLUSH_L2_FLUSH_DIRTY | L2_SYSMEM_INVALIDATE => self.flushing(at),
            MMU_INVALIDATE => invalidate::read(self),
            MMU_INVALIDATE_PDB | MMU_INVALIDATE_UPPER_PDB => self.held(at),
            PFB_WPR2_LO => wpr2(|wpr2| wpr2.start),
            PFB_WPR2_HI => wpr2(|wpr2| wpr2.end - WPR_UNIT),
            PFB_MMU_LOCK_MASK | PFB_MMU_LOCK_LO | PFB_MMU_LOCK_HI => 0,
            PGC6_GFW_MASK => u32::from(self.gfw.look()),
            PGC6_GFW if self.gfw.is_done() => 0xff,
            // Of another mask, a read has an error instead of a value.
            PGC6_GFW => 0xbadf_5040,
            PGC6_HANDOFF => u32::from(self.handoff.as_mut().is_some_and(Looks::look)) << 26,
            PGC6_FB_MIB => {
                self.gfw_has_started("NV_USABLE_FB_SIZE_IN_MB")?;
                chip.twin.vram_mib as u32
            }
            // A crystal of 27 MHz.
            PEXTDEV_BOOT_0 => 1 << 22,
            // No workspace is valid.
            PDISP_VGA_WORKSPACE | FUSE_DISPLAY => 0,
            FUSE_GSP_DEBUG_DIS => 1,
            _ if at.is_multiple_of(4)
                && (PBUS_SCRATCH..PBUS_SCRATCH + 4 * PBUS_SCRATCHES).contains(&at) =>
            {
                self.held(at)
            }
            _ if (FUSE_NVDEC..FUSE_SEC2 + 4 * FUSES).contains(&at)
                || (FUSE_GSP..FUSE_GSP + 4 * FUSES).contains(&at) =>
            {
                let ucode = chip.rom.as_ref().map(|rom| u32::from(rom.fwsec.ucode_id));
                let fwsec = ucode.map(|id| FUSE_GSP + 4 * (id - 1));
                match at {
                    _ if fwsec == Some(at) => State::fuse(chip.fwsec_fuse),
                    _ if at == FUSE_SEC2 + 4 * (super::signed::BOOTER_UCODE - 1) => {
                        State::fuse(chip.booter_fuse)
                    }
                    _ => 0,
                }
            }
            // Whoever reads a register that is not modelled is told, here as in configuration space itself.
            _ if at.is_multiple_of(4)
                && (chip.mirror()..chip.mirror() + PCFG_BYTES).contains(&at) =>
            {
                let found = self.bus.configuration((at - chip.mirror()) as u16);
                found.ok_or_else(|| (&REGISTER, format!("read of {at:#x}, configuration")))?
            }
            _ if self.is_rom(at) => self.rom(at, 4) as u32,
            _ if (PRAMIN..PRAMIN_END).contains(&at) => self.read_window(at)?,
            _ if HELD.contains(&at) => self.held(at),
            _ => return Err((&REGISTER, format!("read of {at:#x}"))),
        })
    }

    /// The host writes a register.
    pub(super) fn write(&mut self, at: u32, value: u32) -> Result<(), Broken> {
        self.accesses += 1;
        if self.is_gone() {
            return Ok(());
        }
        self.passes();
        let chip = self.config.chip;
        if let Some(due) = self.interrupts.write(at, value) {
            self.tells(due);
            return Ok(());
        }
        if let Some(facts) = &chip.fsp {
            return fsp::write(self, facts, at, value);
        }
        match State::of_falcon(at) {
            Some((engine, offset)) => {
                self.gfw_has_started(&format!("write to {at:#x}"))?;
                falcon::write(self, engine, offset, value)
            }
            None => self.plain_write(at, value),
        }
    }

    /// A register of no processor is written.
    pub(super) fn plain_write(&mut self, at: u32, value: u32) -> Result<(), Broken> {
        match at {
            PTIMER_TIME_0 => {
                let time = self.time() >> 32 << 32 | u64::from(value);
                self.clock.store(time, Ordering::Relaxed);
            }
            PTIMER_TIME_1 => {
                let time = self.time() & 0xffff_ffff | u64::from(value) << 32;
                self.clock.store(time, Ordering::Relaxed);
            }
            MMU_INVALIDATE | MMU_INVALIDATE_PDB | MMU_INVALIDATE_UPPER_PDB => {
                invalidate::write(self, at, value)?;
            }
            DOORBELL | PRIV_DOORBELL => self.rings(value)?,
            // An alarm is not modelled: it is off.
            PTIMER_INTR_EN if value == 0 => {}
            UFLUSH_FB_FLUSH | UFLUSH_L2_FLUSH_DIRTY | L2_SYSMEM_INVALIDATE if value == 1 => {
                let looks = self.waits(Wait::Flush);
                self.flushes.insert(at, looks);
            }
            _ if (PRAMIN..PRAMIN_END).contains(&at) => self.write_window(at, value)?,
            _ if self.shows_own(at, value) => {}
            _ if HELD.contains(&at) => self.hold(at, value),
            _ => return Err((&REGISTER, format!("write of {value:#x} to {at:#x}"))),
        }
        Ok(())
    }

    /// The host writes a register of configuration space where registers show it. Whether it is one that it may write there.
    fn shows_own(&mut self, at: u32, value: u32) -> bool {
        let place = at.checked_sub(self.config.chip.mirror());
        let Some(place) = place.filter(|place| *place < PCFG_BYTES) else {
            return false;
        };
        let owns = self.bus.set_configuration(place as u16, value);
        if owns {
            self.configured(place as u16);
        }
        owns
    }

    /// A register of configuration space that is NVIDIA's own was written.
    pub(super) fn configured(&mut self, offset: u16) {
        if offset == XVE_MESSAGE_END {
            let due = self.interrupts.end();
            self.tells(due);
        }
    }

    /// Something has happened that the host can be interrupted for.
    pub(super) fn raise(&mut self, vector: u32) {
        let due = self.interrupts.raise(vector);
        self.tells(due);
    }

    fn tells(&mut self, due: bool) {
        if due && !self.bus.interrupt(0) {
            self.interrupts.unsent();
        }
    }

    /// The host reads a byte: of a port of VGA, if there is one.
    pub(super) fn read_byte(&mut self, at: u32) -> Option<u8> {
        self.accesses += 1;
        if self.is_gone() {
            return Some(u8::MAX);
        }
        match at {
            // Cards that start by their FSP have no VGA, as far as is known.
            _ if self.config.chip.fsp.is_some() => None,
            PDISP_CRTC_INDEX => Some(self.crtc_index),
            PDISP_CRTC => Some(self.crtc[usize::from(self.crtc_index)]),
            _ => None,
        }
    }

    /// The host writes a byte: whether there is a port.
    pub(super) fn write_byte(&mut self, at: u32, value: u8) -> bool {
        self.accesses += 1;
        match at {
            _ if self.is_gone() => {}
            _ if self.config.chip.fsp.is_some() => return false,
            PDISP_CRTC_INDEX => self.crtc_index = value,
            PDISP_CRTC => self.crtc[usize::from(self.crtc_index)] = value,
            _ => return false,
        }
        true
    }

    /// A register that is not modelled.
    pub(super) fn unmodelled(what: String) -> Broken {
        (&REGISTER, what)
    }

    /// A register of a processor that is not modelled.
    pub(super) fn unknown(engine: Engine, verb: &str, offset: u32) -> Broken {
        (&REGISTER, format!("{verb} {offset:#x} of {engine}"))
    }

    /// A processor is told to run what is in its memory.
    pub(super) fn starts(&mut self, engine: Engine) -> Result<(), Broken> {
        brom::start(self, engine)
    }
}
