//! A card on its bus, as it is when power has come: its own firmware starts, and no driver has had it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use drivers_spec::pci::VENDOR_NVIDIA;
use hcq::mem::window::AccessWidth;
use hcq::sync::lock;
use hcq::transport::ResetKind;
use twin::pci::{Bar, Broken, Bus, Capabilities, Function, HostMemory, Identity, MsiX, Target};
use twin::rule::{Journal, Proof, Rule};

use super::chip::{Chip, Family, INSTANCES};
use super::gsp::core::Core;
use super::mmu::window;
use super::runner::Runner;
use super::signed::Signed;
use super::state::State;
use super::wait::Wait;

/// Registers are dwords.
static WIDTH: Rule = Rule {
    name: "NV-PCI-WIDTH",
    text: "registers are read and written with 32 bits, aligned; the ROM is also read by bytes, and ports of VGA are bytes",
    source: "OGKM, src/nvidia/src/kernel/gpu/gpu_access.c, regRead032 and regWrite032; kernel_gsp_vbios_tu102.c, s_romImgReadGeneric; \
             Linux, drivers/gpu/drm/nouveau/nvkm/engine/disp/vga.c, nvkm_rdport",
    proof: Proof::Sourced,
};

/// Who has had a card before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Nobody: power has come.
    Nobody,
    /// A driver that has not unloaded GSP's firmware: WPR2 is still there.
    Driver,
}

/// What can be wrong with a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It does nothing when its doorbell is rung.
    Hangs,
    /// It dies of a fault of the MMU.
    Dies,
}

/// How a card is found.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which one.
    pub chip: &'static Chip,
    /// Who has had it before.
    pub before: Before,
    /// Bytes of BAR 1, a power of two.
    pub window: u64,
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
    /// Registers show the ROM with what lies before its first image, as on an A100: other cards skip that.
    pub ifr_shown: bool,
    /// GSP says while it starts that it locks itself up, and that it is done with that.
    pub lockdown: bool,
    /// An RPC fails: which function, and the result.
    pub rpc_error: Option<(u32, u32)>,
    /// Which call of that function, counted from 1; none: each one.
    pub rpc_nth: Option<u64>,
    /// How many calls of it there were, for who asks.
    pub rpc_calls: Arc<AtomicU64>,
    /// The class, or the number of the control, of the last one that has failed so, for who asks.
    pub rpc_failed: Arc<AtomicU64>,
    /// What is wrong with the channel whose doorbell is rung as so-manieth, counted from 1.
    pub channel: Option<(Trouble, u64)>,
    /// What its keys accept.
    pub signed: Signed,
    /// What the machine can reset the function by.
    pub resets: Vec<ResetKind>,
}

impl Config {
    /// A card of a chip, as it should be.
    pub fn of(chip: &'static Chip) -> Config {
        Config {
            chip,
            before: Before::Nobody,
            window: chip.window(),
            looks: 2,
            never: None,
            stuck: None,
            begun: Arc::default(),
            gone_after: None,
            interrupts: false,
            ifr_shown: false,
            lockdown: false,
            rpc_error: None,
            rpc_nth: None,
            rpc_calls: Arc::default(),
            rpc_failed: Arc::default(),
            channel: None,
            signed: Signed::published(),
            resets: vec![ResetKind::Function, ResetKind::Bus],
        }
    }
}

/// A card, for who puts it into a machine.
pub struct Card;

impl Card {
    /// The PCI function of a card, in a machine with that memory.
    ///
    /// # Errors
    /// An errno: the host has no memory or no thread left.
    pub fn function(
        name: &str,
        config: &Config,
        memory: &Arc<HostMemory>,
        journal: &Arc<Journal>,
    ) -> Result<Function, i32> {
        let chip = config.chip;
        let bus = Bus::new(memory);
        let (core, work) = Core::new();
        let (runner, channels) = Runner::new(journal);
        let busy = [core.busy(), runner.busy()];
        let state = State::new(config, bus.clone(), journal.clone(), core, runner)?;
        let state = Arc::new(Mutex::new(state));
        let started = work.start(&state).and_then(|()| channels.start(&state));
        started.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        let bar = |number, bytes, wide, target| Bar {
            number,
            bytes,
            wide,
            prefetch: wide,
            target,
        };
        let identity = Identity {
            vendor: VENDOR_NVIDIA,
            device: chip.twin.device_id,
            class: chip.twin.pci_class,
            revision: (chip.boot_0 & 0xff) as u8,
        };
        let registers = Registers {
            state: state.clone(),
            busy,
        };
        let [first, second, instances] = chip.bars();
        // Registers behind a BAR of 64 bits are prefetchable, too.
        let is_wide = second > first + 1;
        let bars = vec![
            bar(first, chip.registers(), is_wide, Box::new(registers) as _),
            bar(
                second,
                config.window,
                true,
                Window::behind(&state, window::Window::Bar1),
            ),
            bar(
                instances,
                INSTANCES,
                true,
                Window::behind(&state, window::Window::Bar2),
            ),
        ];
        let identity = (identity, capabilities(chip));
        let function = Function::with(name, identity, bars, bus, journal.clone());
        Ok(function.resetting(&config.resets))
    }
}

/// Where a chip has its capabilities. From Hopper on there is none of the registers of `NV_XVE` beside them.
///
/// Source: OGKM, hopper/gh100/dev_xtl_ep_pcfg_gpu.h, NV_EP_PCFG_GPU_MSI_64_HEADER, DEVICE_CAPABILITIES, MSIX_CAP_HEADER,
/// PF_RESIZE_BAR_CAP (138); blackwell/gb202/dev_xtl_ep_pcfg_gpu.h, DEVICE_CAPABILITIES_2 (84, in the express capability);
/// dev_vm.h, NV_VIRTUAL_FUNCTION_PRIV_MSIX_TABLE_*; blackwell/gb100/dev_vm.h, MSIX_PBA; power management: as lspci shows of an
/// H100. What else GB202 has is taken to be Hopper's.
fn capabilities(chip: &Chip) -> Capabilities {
    let msix = MsiX {
        at: 0xb0,
        entries: 9,
        table: 0xb9_0000,
        pending: 0xba_0000,
    };
    let hopper = Capabilities {
        power: 0x40,
        msi: 0x48,
        express: 0x60,
        resize: 0x134,
        own: &[],
        ..Capabilities::GEFORCE
    };
    match chip.family {
        Family::Gh100 => Capabilities {
            msix: Some(msix),
            // BAR 0 takes two registers: this is BAR 1.
            resizable: &[2],
            ..hopper
        },
        Family::Gb20x => Capabilities {
            resizable: &[1],
            ..hopper
        },
        _ => Capabilities::GEFORCE,
    }
}

/// Behind BAR 0.
struct Registers {
    state: Arc<Mutex<State>>,
    /// How much GSP and channels have to do.
    busy: [Arc<AtomicUsize>; 2],
}

impl Target for Registers {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let mut state = lock(&self.state);
        let at = offset as u32;
        match width {
            AccessWidth::W32 => Ok(state.read(at)?.into()),
            AccessWidth::W8 | AccessWidth::W16 if state.is_rom(at) => {
                Ok(state.rom(at, width.bytes()))
            }
            AccessWidth::W8 => match state.read_byte(at) {
                Some(byte) => Ok(byte.into()),
                None => Err(wrong_width("read", offset, width)),
            },
            _ => Err(wrong_width("read", offset, width)),
        }
    }

    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        let mut state = lock(&self.state);
        match width {
            AccessWidth::W32 => state.write(offset as u32, value as u32),
            AccessWidth::W8 if state.write_byte(offset as u32, value as u8) => Ok(()),
            _ => Err(wrong_width("write", offset, width)),
        }
    }

    fn read_bytes(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Broken> {
        let dwords = offset.is_multiple_of(4) && to.len().is_multiple_of(4);
        if dwords {
            for (at, dword) in (offset..).step_by(4).zip(to.chunks_mut(4)) {
                let value = self.read(at, AccessWidth::W32)? as u32;
                dword.copy_from_slice(&value.to_le_bytes());
            }
            return Ok(());
        }
        for (at, byte) in (offset..).zip(to) {
            *byte = self.read(at, AccessWidth::W8)? as u8;
        }
        Ok(())
    }

    fn write_bytes(&mut self, offset: u64, from: &[u8]) -> Result<(), Broken> {
        let (dwords, rest) = from.as_chunks::<4>();
        for (at, dword) in (offset..).step_by(4).zip(dwords) {
            self.write(at, AccessWidth::W32, u32::from_le_bytes(*dword).into())?;
        }
        match rest {
            [] => Ok(()),
            _ => Err(wrong_width("write", offset, AccessWidth::W8)),
        }
    }

    fn placed(&mut self, at: u64) {
        lock(&self.state).bars[0] = at;
    }

    fn configured(&mut self, offset: u16, _: u32) {
        lock(&self.state).configured(offset);
    }

    fn reset(&mut self, kind: ResetKind) {
        lock(&self.state).reset(&format!("reset: {kind}"));
    }

    fn is_idle(&self) -> bool {
        let rests = |busy: &Arc<AtomicUsize>| busy.load(Ordering::Acquire) == 0;
        self.busy.iter().all(rests)
    }
}

fn wrong_width(verb: &str, offset: u64, width: AccessWidth) -> Broken {
    let what = format!("{verb} of {} bytes at {offset:#x}", width.bytes());
    (&WIDTH, what)
}

/// Behind the second or the third BAR, which shows what the documents call BAR 2.
struct Window {
    state: Arc<Mutex<State>>,
    which: window::Window,
    /// Its place among the addresses of BARs.
    place: usize,
}

impl Window {
    fn behind(state: &Arc<Mutex<State>>, which: window::Window) -> Box<dyn Target> {
        let place = match which {
            window::Window::Bar1 => 1,
            window::Window::Bar2 => 2,
        };
        Box::new(Window {
            state: state.clone(),
            which,
            place,
        })
    }
}

impl Target for Window {
    fn read(&mut self, offset: u64, width: AccessWidth) -> Result<u64, Broken> {
        let mut word = [0; 8];
        self.read_bytes(offset, &mut word[..width.bytes()])?;
        Ok(u64::from_le_bytes(word))
    }

    fn write(&mut self, offset: u64, width: AccessWidth, value: u64) -> Result<(), Broken> {
        self.write_bytes(offset, &value.to_le_bytes()[..width.bytes()])
    }

    fn read_bytes(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Broken> {
        let state = lock(&self.state);
        if state.is_gone() {
            to.fill(0xff);
            return Ok(());
        }
        window::read(&state, self.which, offset, to)
    }

    fn write_bytes(&mut self, offset: u64, from: &[u8]) -> Result<(), Broken> {
        let state = lock(&self.state);
        match state.is_gone() {
            true => Ok(()),
            false => window::write(&state, self.which, offset, from),
        }
    }

    fn placed(&mut self, at: u64) {
        lock(&self.state).bars[self.place] = at;
    }

    fn reset(&mut self, _: ResetKind) {}
}
