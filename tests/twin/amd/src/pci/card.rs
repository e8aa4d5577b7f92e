//! A card on its bus, as it is when its own firmware has started and no driver has: VRAM, doorbells, registers.
//!
//! What is modelled so far is what a driver may do to look at it: the table of blocks near the end of VRAM, read
//! through the BAR or dword by dword, how much VRAM there is, and the pair of registers that reaches those
//! beyond the end of their BAR. A register that the vendor's headers do not name for the version of its block
//! breaks `AMD-PCI-REGISTER`; all others hold what was written, and start nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers_spec::amd::discovery::FROM_END;
use drivers_spec::amd::mmio::{self, Reg, nbio};
use drivers_spec::pci::{CLASS_DISPLAY, VENDOR_AMD};
use hcq::mem::window::AccessWidth;
use twin::pci::{Bar, Bus, Function, HostMemory, Identity, Target};
use twin::rule::{Journal, Proof, Rule};

use super::chip::Chip;
use super::registers::Registers;
use super::vram::Vram;

/// Registers are dwords.
pub static WIDTH: Rule = Rule {
    name: "AMD-PCI-WIDTH",
    text: "registers are read and written by 32 bits",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_rreg and amdgpu_device_wreg",
    proof: Proof::Sourced,
};

/// The model knows no other.
pub static REGISTER: Rule = Rule {
    name: "AMD-PCI-REGISTER",
    text: "only registers that the vendor's headers name for the version of their block are touched",
    source: "this twin: amd/src/pci/card.rs, front page",
    proof: Proof::Twin,
};

/// The index says that it means VRAM.
pub static MM_INDEX: Rule = Rule {
    name: "AMD-PCI-MM-INDEX",
    text: "MM_DATA is a dword of VRAM once MM_INDEX has bit 31 set, above an address that is a multiple of 4",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_mm_access",
    proof: Proof::Sourced,
};

/// There is no memory beyond.
pub static VRAM_END: Rule = Rule {
    name: "AMD-PCI-VRAM-END",
    text: "accesses to VRAM end where it does, also where the BAR is larger",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gmc_v11_0.c, gmc_v11_0_mc_init: visible memory is cut to real memory",
    proof: Proof::Sourced,
};

/// How a card is found.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which one.
    pub chip: &'static Chip,
    /// How much of VRAM BAR 0 shows, a power of two; none for all.
    pub bar: Option<u64>,
    /// How often it answers with all ones, or that it has no memory, before it is there.
    pub silent: (u32, u32),
    /// How often its firmware has not started before it has.
    pub starting: u32,
    /// What lies where the table of blocks should; none for that of the chip.
    pub table: Option<Vec<u8>>,
}

impl Config {
    /// A card of a chip, as it should be.
    pub fn of(chip: &'static Chip) -> Config {
        Config {
            chip,
            bar: None,
            silent: (0, 0),
            starting: 0,
            table: None,
        }
    }
}

struct State {
    registers: Registers,
    vram: Vram,
    /// See [`Config::silent`].
    silent: (u32, u32),
    starting: u32,
}

type Broken = (&'static Rule, String);

/// A card, for who puts it into a machine.
pub struct Card;

impl Card {
    /// The PCI function of a card.
    pub fn function(name: &str, config: &Config, journal: &Arc<Journal>) -> Function {
        let chip = config.chip;
        let contents = chip.contents();
        let mut vram = Vram::new(chip.vram);
        let table = config.table.clone().unwrap_or_else(|| contents.build());
        for (at, byte) in (chip.vram - FROM_END..).zip(&table) {
            // Firmware puts it inside.
            _ = vram.write(at, 1, u64::from(*byte));
        }
        let state = Arc::new(Mutex::new(State {
            registers: Registers::of(&contents.blocks),
            vram,
            silent: config.silent,
            starting: config.starting,
        }));
        let bar = |number, bytes: u64, wide, target| Bar {
            number,
            bytes,
            wide,
            prefetch: wide,
            target,
        };
        let memory = config.bar.unwrap_or(chip.vram.next_power_of_two());
        let identity = Identity {
            vendor: VENDOR_AMD,
            device: chip.device,
            class: u32::from(CLASS_DISPLAY) << 16,
            revision: 0,
        };
        let bars = vec![
            bar(0, memory, true, Box::new(Memory(state.clone())) as _),
            bar(2, 2 << 20, true, Box::new(Doorbells)),
            bar(5, 1 << 20, false, Box::new(Mmio(state))),
        ];
        let bus = Bus::new(&HostMemory::new());
        Function::new(name, identity, bars, bus, journal.clone())
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A panic in a model is a failed test already.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Behind BAR 0.
struct Memory(Arc<Mutex<State>>);

impl Target for Memory {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let state = lock(&self.0);
        let read = state.vram.read(offset, width.bytes() as u64);
        read.ok_or_else(|| beyond("read", offset, &state.vram))
    }

    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        let mut state = lock(&self.0);
        let written = state.vram.write(offset, width.bytes() as u64, value);
        written.ok_or_else(|| beyond("write", offset, &state.vram))
    }

    fn reset(&mut self) {}
}

fn beyond(verb: &str, at: u64, vram: &Vram) -> Broken {
    let what = format!("{verb} at {at:#x} of {:#x} bytes of VRAM", vram.bytes());
    (&VRAM_END, what)
}

/// Behind BAR 2: nothing listens yet, and nothing may be rung.
struct Doorbells;

impl Target for Doorbells {
    fn read(&mut self, offset: u64, _: AccessWidth) -> Result<u64, Broken> {
        Err((&REGISTER, format!("doorbell {offset:#x} is read")))
    }

    fn write(&mut self, offset: u64, _: AccessWidth, value: u64) -> Result<(), Broken> {
        let what = format!("doorbell {offset:#x} is rung with {value:#x}, and no queue is there");
        Err((&REGISTER, what))
    }

    fn reset(&mut self) {}
}

/// Behind BAR 5.
struct Mmio(Arc<Mutex<State>>);

fn dword(verb: &str, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
    match width {
        AccessWidth::W32 => Ok(offset / 4),
        _ => {
            let what = format!("{verb} of {} bytes at {offset:#x}", width.bytes());
            Err((&WIDTH, what))
        }
    }
}

impl Target for Mmio {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let dword = dword("read", offset, width)?;
        Ok(lock(&self.0).read(dword)?.into())
    }

    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        let dword = dword("write", offset, width)?;
        lock(&self.0).write(dword, value as u32)
    }

    fn reset(&mut self) {}
}

impl State {
    fn slot(&mut self, dword: u64) -> Result<&mut super::registers::Slot, Broken> {
        let what = || (&REGISTER, format!("dword {dword:#x}"));
        self.registers.at(dword).ok_or_else(what)
    }

    /// The byte of VRAM that the index means.
    fn indexed(&self) -> Result<u64, Broken> {
        let index = self.registers.value(&mmio::MM_INDEX);
        let high = self.registers.value(&mmio::MM_INDEX_HI);
        if index >> 31 == 0 || index & 3 != 0 {
            return Err((&MM_INDEX, format!("MM_DATA while MM_INDEX is {index:#x}")));
        }
        Ok(u64::from(index & !(1 << 31)) | u64::from(high) << 31)
    }

    /// The dword that the pair means whose data register is `data`.
    fn beyond(&self, data: u64) -> Result<u64, Broken> {
        let at = self.registers.value(&nbio::BIF_BX_PF0_RSMU_INDEX);
        match u64::from(at / 4) {
            same if same == data => Err((&REGISTER, format!("dword {same:#x}, by itself"))),
            other => Ok(other),
        }
    }

    fn read(&mut self, dword: u64) -> Result<u32, Broken> {
        let slot = self.slot(dword)?;
        let (name, value) = (slot.name, slot.value);
        let is = |reg: &Reg| name == reg.word.name;
        if is(&mmio::RCC_CONFIG_MEMSIZE) {
            return Ok(match &mut self.silent {
                (0, 0) => (self.vram.bytes() >> 20) as u32,
                (0, zeros) => {
                    *zeros -= 1;
                    0
                }
                (ones, _) => {
                    *ones -= 1;
                    u32::MAX
                }
            });
        }
        if is(&mmio::MP0_SMN_C2PMSG_33) {
            let has_started = self.starting == 0;
            self.starting = self.starting.saturating_sub(1);
            return Ok(u32::from(has_started) << 31);
        }
        if is(&mmio::MM_DATA) {
            let at = self.indexed()?;
            let read = self.vram.read(at, 4);
            return read
                .map(|word| word as u32)
                .ok_or_else(|| beyond("read", at, &self.vram));
        }
        if is(&nbio::BIF_BX_PF0_RSMU_DATA) {
            let other = self.beyond(dword)?;
            return self.read(other);
        }
        Ok(value)
    }

    fn write(&mut self, dword: u64, value: u32) -> Result<(), Broken> {
        let slot = self.slot(dword)?;
        let name = slot.name;
        slot.value = value;
        let is = |reg: &Reg| name == reg.word.name;
        if is(&mmio::MM_DATA) {
            let at = self.indexed()?;
            let written = self.vram.write(at, 4, value.into());
            return written.ok_or_else(|| beyond("write", at, &self.vram));
        }
        if is(&nbio::BIF_BX_PF0_RSMU_DATA) {
            let other = self.beyond(dword)?;
            return self.write(other, value);
        }
        Ok(())
    }
}
