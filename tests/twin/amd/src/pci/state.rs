//! What a card is: its registers, its memory, its blocks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use drivers_spec::amd::mmio::{self, Reg, mp};
use drivers_spec::amd::packet::Gfx;
use twin::pci::{Broken, Bus};
use twin::rule::{Journal, Proof, Rule};

use super::card::{Before, Config, REGISTER, VRAM_END};
use super::doorbells::Halves;
use super::engines::Engines;
use super::graphics::Graphics;
use super::hub::Hubs;
use super::ih::Ih;
use super::mes::Mes;
use super::psp::Psp;
use super::registers::{Hook, Registers, held, hold};
use super::sdma::Sdma;
use super::smu::Smu;
use super::wait::{Looks, Wait};
use super::{graphics, hqd, hub, ih, kernel, mes, nbio, psp, rom, sdma, shaders, smu, tsc};
use crate::mem::{Physical, Place};

/// A card that resets does not answer.
pub static RESETTING: Rule = Rule {
    name: "AMD-PCI-RESETTING",
    text: "during a reset of the card, only the requesting mailbox, the PSP's C2PMSG_35 and RCC_CONFIG_MEMSIZE are \
           accessed; the last two show when the reset is complete",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_mode1_reset: waits, then polls the bootloader, \
             then get_memsize; tinygrad, runtime/support/am/ip.py, AM_SMU.mode1_reset: waits for C2PMSG_54 first",
    proof: Proof::Sourced,
};

/// Every register that does something.
const HOOKS: [&[Hook]; 12] = [
    tsc::HOOKS,
    nbio::HOOKS,
    hub::HOOKS,
    ih::HOOKS,
    psp::HOOKS,
    smu::HOOKS,
    graphics::HOOKS,
    shaders::HOOKS,
    hqd::HOOKS,
    mes::HOOKS,
    sdma::HOOKS,
    kernel::HOOKS,
];

/// A card behind its BARs.
pub(super) struct State {
    pub(super) config: Config,
    pub(super) gfx: Gfx,
    pub(super) registers: Registers,
    pub(super) physical: Arc<Physical>,
    pub(super) bus: Arc<Bus>,
    pub(super) journal: Arc<Journal>,
    pub(super) hubs: Hubs,
    pub(super) ih: Arc<Ih>,
    pub(super) psp: Psp,
    pub(super) smu: Smu,
    pub(super) graphics: Graphics,
    pub(super) mes: Mes,
    pub(super) sdma: Sdma,
    pub(super) engines: Engines,
    pub(super) halves: Halves,
    pub(super) rom: Vec<u8>,
    /// See [`Config::silent`].
    silent: (u32, u32),
    /// How long a reset still takes.
    away: Option<Looks>,
    /// Accesses to registers so far.
    accesses: u64,
}

impl State {
    pub(super) fn new(
        config: &Config,
        physical: Arc<Physical>,
        bus: Arc<Bus>,
        journal: Arc<Journal>,
    ) -> io::Result<State> {
        let contents = config.chip.contents();
        let gfx = config.chip.gfx;
        let hubs = Hubs::new(&contents.blocks, gfx, &physical, &journal);
        let ih = Ih::new(hubs.mm(0), &physical, &bus, &journal);
        hubs.tell(&ih);
        let chips = (config.chip.twin, gfx);
        let engines = Engines::new(chips, &physical, &hubs, &ih, &journal, config.seed)?;
        let (xccs, _) = hubs.all();
        let mut state = State {
            registers: Registers::of(&contents.blocks, &HOOKS),
            hubs,
            ih,
            psp: Psp::new(config),
            smu: Smu::default(),
            graphics: Graphics::new(xccs.len()),
            mes: Mes::default(),
            sdma: Sdma::default(),
            engines,
            halves: Halves::default(),
            rom: rom::image(config.chip),
            silent: config.silent,
            away: None,
            accesses: 0,
            config: config.clone(),
            gfx,
            physical,
            bus,
            journal,
        };
        state.power_on();
        if config.before == Before::Kernel {
            state.leave_running();
        }
        Ok(state)
    }

    /// Registers as they are when power has come and the card's own firmware has run.
    fn power_on(&mut self) {
        nbio::power_on(self);
        hub::power_on(self);
        sdma::power_on(self);
        smu::power_on(self);
        kernel::power_on(self);
        let table = self.config.table.clone();
        let table = table.unwrap_or_else(|| self.config.chip.contents().build());
        let at = self.physical.vram_bytes() - drivers_spec::amd::discovery::FROM_END;
        // Firmware puts it inside of VRAM.
        _ = self
            .physical
            .write(Place::Vram(at), &table, &"the card's own firmware".into());
    }

    /// What the vendor's kernel driver has left: firmware that runs, rings that are in use, memory with something in it.
    fn leave_running(&mut self) {
        for at in Self::here_and_there() {
            self.fill(at, &[0xa5; 4096], "the kernel driver");
        }
        psp::leave_running(self);
        smu::start(self);
        hub::leave_running(self);
        ih::leave_running(self);
        graphics::leave_running(self);
    }

    /// Places in VRAM, here and there: the first pages, and one in each of the first MiB.
    fn here_and_there() -> impl Iterator<Item = u64> {
        let pages = (0..64).map(|page| page << 12);
        pages.chain((1..64).map(|mib| mib << 20))
    }

    /// A page of VRAM has something in it.
    fn fill(&self, at: u64, page: &[u8], who: &str) {
        // Inside of VRAM.
        _ = self.physical.write(Place::Vram(at), page, &who.into());
    }

    /// Every second of those places, with what it holds.
    fn half(&self) -> Vec<(u64, [u8; 4096])> {
        let places = Self::here_and_there().skip(1).step_by(2);
        let read = |at| {
            let mut page = [0; 4096];
            self.physical.host_read(at, &mut page).then_some((at, page))
        };
        places.filter_map(read).collect()
    }

    /// A reset of the whole card: all that it held is gone, but for some of VRAM. Linux assumes that to be lost
    /// (amdgpu_device.c, `amdgpu_device_check_vram_lost`), and does not clear it; tinygrad clears its page tables before the
    /// reset (runtime/support/am/amdev.py) and runs after it: what VRAM held is zero then, or still there.
    pub(super) fn reset(&mut self, how: &str) {
        self.journal.event(how.into());
        hqd::reset(self);
        sdma::stop_all(self);
        self.bus.was_reset();
        self.engines.reset();
        self.graphics = Graphics::new(self.graphics.xccs.len());
        self.mes = Mes::default();
        self.registers.clear();
        self.hubs.reset();
        self.ih.reset();
        self.psp = Psp::new(&self.config);
        self.smu = Smu::default();
        let half = self.half();
        self.physical.lose();
        for (at, page) in half {
            self.fill(at, &page, "what it held before the reset");
        }
        self.power_on();
        self.away = Some(self.waits(Wait::Reset));
        if self.config.reset_forgets {
            self.bus.forget();
        }
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

    /// The value of a field of a register; 0 where the chip has no such field.
    pub(super) fn field(&self, reg: &Reg, instance: u8, name: &str) -> u32 {
        self.field_of(reg, self.registers.get(reg, instance), name)
    }

    /// The value of a field in a value of a register.
    pub(super) fn field_of(&self, reg: &Reg, value: u32, name: &str) -> u32 {
        let field = reg.word.field(self.gfx, name);
        field.map_or(0, |field| field.get(value))
    }

    /// What the host reads of VRAM.
    pub(super) fn vram_read(&self, at: u64, out: &mut [u8]) -> Result<(), Broken> {
        if self.is_gone() {
            out.fill(0xff);
            return Ok(());
        }
        self.psp.allows(at, out.len())?;
        let read = self.physical.host_read(at, out);
        read.then_some(()).ok_or_else(|| self.beyond("read", at))
    }

    /// The host writes to VRAM.
    pub(super) fn vram_write(&self, at: u64, data: &[u8]) -> Result<(), Broken> {
        if self.is_gone() {
            return Ok(());
        }
        self.psp.allows(at, data.len())?;
        let written = self.physical.host_write(at, data);
        written
            .then_some(())
            .ok_or_else(|| self.beyond("write", at))
    }

    fn beyond(&self, verb: &str, at: u64) -> Broken {
        let bytes = self.physical.vram_bytes();
        (
            &VRAM_END,
            format!("{verb} at {at:#x} of {bytes:#x} bytes of VRAM"),
        )
    }

    /// Whether the card has left the bus.
    pub(super) fn is_gone(&self) -> bool {
        let after = self.config.gone_after;
        self.away.is_some() || after.is_some_and(|after| self.accesses > after)
    }

    fn found(&self, dword: u64) -> Result<(super::registers::At, Option<&'static Hook>), Broken> {
        let slot = self.registers.slot(dword);
        let found = slot.map(|slot| (slot.at, slot.hook));
        found.ok_or_else(|| (&REGISTER, format!("dword {dword:#x}")))
    }

    /// The mailbox whose message has reset the card says so before it starts anew.
    fn reset_answer(&self, dword: u64) -> Option<u32> {
        let (answer, slot) = (&mp::MP1_SMN_C2PMSG_54, self.registers.slot(dword)?);
        let is_asked = self.away.is_some() && slot.at.is(answer);
        is_asked.then(|| self.registers.get(answer, slot.at.instance))
    }

    /// Whether the card does not answer because it resets.
    fn resetting(&mut self, is_read: bool, dword: u64) -> Result<bool, Broken> {
        let slot = self.registers.slot(dword);
        let is = |reg: &Reg| slot.is_some_and(|slot| slot.at.is(reg));
        let Some(looks) = &mut self.away else {
            return Ok(false);
        };
        if looks.is_done() {
            self.away = None;
            return Ok(false);
        }
        // The mailbox that asks for the reset has a register for the answer, which is cleared last.
        if !is_read && is(&mp::MP1_SMN_C2PMSG_54) {
            return Ok(true);
        }
        let tells = is(&mmio::RCC_CONFIG_MEMSIZE) || is(&mp::MP0_SMN_C2PMSG_35);
        if !is_read || !tells {
            let verb = if is_read { "read" } else { "write" };
            return Err((&RESETTING, format!("{verb} of dword {dword:#x}")));
        }
        if looks.look() {
            self.away = None;
        }
        Ok(self.away.is_some())
    }

    /// A read through BAR 5, or by a pair of registers.
    pub(super) fn read(&mut self, dword: u64) -> Result<u32, Broken> {
        self.accesses += 1;
        self.drain();
        if let Some(answer) = self.reset_answer(dword) {
            return Ok(answer);
        }
        if self.resetting(true, dword)? || self.is_gone() {
            return Ok(u32::MAX);
        }
        if nbio::is_flush(self, dword) {
            return Ok(0);
        }
        let (at, hook) = self.found(dword)?;
        if at.is(&mmio::RCC_CONFIG_MEMSIZE) {
            return Ok(self.memory_size());
        }
        hook.map_or(held as super::registers::Read, |hook| hook.read)(self, at)
    }

    /// A write through BAR 5, or by a pair of registers.
    pub(super) fn write(&mut self, dword: u64, value: u32) -> Result<(), Broken> {
        self.accesses += 1;
        self.drain();
        if self.resetting(false, dword)? || self.is_gone() {
            return Ok(());
        }
        if nbio::is_flush(self, dword) {
            self.physical.hdp_flush("the remapped flush register");
            return Ok(());
        }
        let (at, hook) = self.found(dword)?;
        hook.map_or(hold as super::registers::Write, |hook| hook.write)(self, at, value)
    }

    /// Time passes: the HDP may drain.
    pub(super) fn drain(&self) {
        if self.config.drains {
            self.physical.hdp_flush("time that passes");
        }
    }

    fn memory_size(&mut self) -> u32 {
        match &mut self.silent {
            (0, 0) => (self.physical.vram_bytes() >> 20) as u32,
            (0, zeros) => {
                *zeros -= 1;
                0
            }
            (ones, _) => {
                *ones -= 1;
                u32::MAX
            }
        }
    }
}

/// A value of a register with a field replaced, where the chip has that field.
pub(super) fn put(reg: &Reg, gfx: Gfx, value: u32, name: &str, field: u32) -> u32 {
    let found = reg.word.field(gfx, name);
    found.map_or(value, |found| value & !found.mask() | found.put(field))
}
