//! A card on its bus, as it is when its own firmware has started and no driver has: VRAM, doorbells, registers.
//!
//! A register that the vendor's headers do not name for the version of its block breaks `AMD-PCI-REGISTER`; those
//! that no block has an idea of hold what was written, and start nothing.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use drivers_spec::pci::{CLASS_DISPLAY, VENDOR_AMD};
use hcq::mem::window::AccessWidth;
use hcq::sync::lock;
use hcq::transport::ResetKind;
use twin::pci::{Bar, Behind, Broken, Bus, Function, HostMemory, Identity, Target};
use twin::rule::{Journal, Proof, Rule};

use super::chip::Chip;
use super::state::State;
use super::wait::Wait;
use super::{doorbells, psp};
use crate::mem::Physical;

/// Registers are dwords.
pub static WIDTH: Rule = Rule {
    name: "AMD-PCI-WIDTH",
    text: "registers are read and written with 32 bits",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_rreg and amdgpu_device_wreg",
    proof: Proof::Sourced,
};

/// The model knows no other.
pub static REGISTER: Rule = Rule {
    name: "AMD-PCI-REGISTER",
    text: "only registers that the vendor's headers name for the version of their block are accessed",
    source: "this twin: amd/src/pci/card.rs, front page",
    proof: Proof::Twin,
};

/// There is no memory beyond.
pub static VRAM_END: Rule = Rule {
    name: "AMD-PCI-VRAM-END",
    text: "accesses through the VRAM BAR are below the size of VRAM, even if the BAR is larger",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gmc_v11_0.c, gmc_v11_0_mc_init: visible memory is cut to real memory",
    proof: Proof::Sourced,
};

/// Who has had a card before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Nobody: power has come.
    Nobody,
    /// The vendor's kernel driver, which has left it running.
    Kernel,
}

/// How a card is found.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which one.
    pub chip: &'static Chip,
    /// Who has had it before.
    pub before: Before,
    /// How much of VRAM BAR 0 shows, a power of two; none for all.
    pub bar: Option<u64>,
    /// Where VRAM starts for VMID 0: its own firmware says it. 512 GiB on cards that have been seen.
    pub fb: u64,
    /// How often it answers with all ones, or that it has no memory, before it is there.
    pub silent: (u32, u32),
    /// How often its firmware has not started before it has.
    pub starting: u32,
    /// What lies where the table of blocks should; none for that of the chip.
    pub table: Option<Vec<u8>>,
    /// How many looks find what a driver waits for not done yet.
    pub looks: u32,
    /// What is never done.
    pub never: Option<Wait>,
    /// Which of the things that are waited for, counted from 1 as they begin, is never done.
    pub stuck: Option<u64>,
    /// How many have begun, for who asks.
    pub begun: Arc<AtomicU64>,
    /// After how many accesses to registers the card has left the bus.
    pub gone_after: Option<u64>,
    /// A driver can wait for its interrupts.
    pub interrupts: bool,
    /// A reset by the card's own firmware has the function forget its command register.
    pub reset_forgets: bool,
    /// What the machine can reset the function by.
    pub resets: Vec<ResetKind>,
    /// A command of the PSP's bootloader fails: which, and the error.
    pub bootloader_error: Option<(u32, u32)>,
    /// Making or destroying a ring of the PSP fails: the status.
    pub ring_error: Option<u32>,
    /// A command of the PSP's ring fails: which, and the status.
    pub psp_error: Option<(u32, u32)>,
    /// A message to the SMU fails: which, and the result.
    pub smu_error: Option<(u32, u32)>,
    /// What the host writes to VRAM leaves the HDP by itself, until the next access to a register: a card may, and
    /// who relies on it goes unnoticed.
    pub drains: bool,
    /// Its host cannot store 64 bits at once: doorbells come in two halves.
    pub halves: bool,
    /// What choices that hardware leaves open follow from.
    pub seed: u64,
}

impl Config {
    /// A card of a chip, as it should be.
    pub fn of(chip: &'static Chip) -> Config {
        Config {
            chip,
            before: Before::Nobody,
            bar: None,
            fb: 0x80_0000_0000,
            silent: (0, 0),
            starting: 0,
            table: None,
            looks: 2,
            never: None,
            stuck: None,
            begun: Arc::default(),
            gone_after: None,
            interrupts: false,
            reset_forgets: false,
            resets: vec![ResetKind::Function, ResetKind::Bus],
            bootloader_error: None,
            ring_error: None,
            psp_error: None,
            smu_error: None,
            drains: false,
            halves: false,
            seed: 0,
        }
    }
}

/// A card, for who puts it into a machine.
pub struct Card;

impl Card {
    /// The PCI function of a card, in a machine with that memory.
    ///
    /// # Errors
    /// An errno: the host has no memory left.
    pub fn function(
        name: &str,
        config: &Config,
        memory: &Arc<HostMemory>,
        journal: &Arc<Journal>,
    ) -> Result<Function, i32> {
        let chip = config.chip;
        let bus = Bus::new(memory);
        let physical = Physical::new(chip.twin, chip.vram, bus.clone(), journal.clone())?;
        let state = State::new(config, physical, bus.clone(), journal.clone());
        let state = state.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        let state = Arc::new(Mutex::new(state));
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
            bar(2, 2 << 20, true, Box::new(Doorbells(state.clone()))),
            bar(5, chip.registers, false, Box::new(Mmio(state))),
        ];
        let function = Function::new(name, identity, bars, bus, journal.clone());
        Ok(function.resetting(&config.resets))
    }
}

/// Behind BAR 0.
struct Memory(Arc<Mutex<State>>);

impl Target for Memory {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let mut word = [0; 8];
        self.read_bytes(offset, &mut word[..width.bytes()])?;
        Ok(u64::from_le_bytes(word))
    }

    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        self.write_bytes(offset, &value.to_le_bytes()[..width.bytes()])
    }

    fn read_bytes(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Broken> {
        let mut state = lock(&self.0);
        psp::look(&mut state, offset, to.len());
        state.vram_read(offset, to)
    }

    fn write_bytes(&mut self, offset: u64, from: &[u8]) -> Result<(), Broken> {
        lock(&self.0).vram_write(offset, from)
    }

    // A function level reset leaves these chips as they are: their own drivers do not use it either.
    fn reset(&mut self, kind: ResetKind) {
        if kind == ResetKind::Bus {
            lock(&self.0).reset("reset of the bus");
        }
    }

    fn behind(&self) -> Option<Behind> {
        let physical = Arc::downgrade(&lock(&self.0).physical);
        Some(physical)
    }
}

/// Behind BAR 2.
struct Doorbells(Arc<Mutex<State>>);

impl Target for Doorbells {
    fn read(&mut self, offset: u64, _: AccessWidth) -> Result<u64, Broken> {
        Err((&REGISTER, format!("doorbell {offset:#x} is read")))
    }

    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        doorbells::ring(&mut lock(&self.0), offset, width, value)
    }

    fn reset(&mut self, _: ResetKind) {}

    fn is_idle(&self) -> bool {
        lock(&self.0).engines.are_idle()
    }
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

    fn reset(&mut self, _: ResetKind) {}
}
