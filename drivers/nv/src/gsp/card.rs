//! [`Card`]: a card before the start: which chip it is, and its registers.
//!
//! Source: open-gpu-kernel-modules 570.144, nv_ref.h (`NV_PMC_BOOT_0`, `NV_PMC_BOOT_42`), src/nvidia/src/kernel/gpu:
//! arch/turing/kern_gpu_tu102.c (`gpuWaitForGfwBootComplete_TU102`), gsp/arch/ampere/kernel_gsp_ga100.c
//! (`kgspReadUcodeFuseVersion_GA100`). What the VBIOS may have locked at the end of VRAM is asked of A100 alone, which is not
//! started here (generated/g_mem_mgr_nvoc.c, `memmgrReadMmuLock`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_gpu::bare::config;
use drivers_spec::nv::chip::{Arch, Archs, CHIPS};
use drivers_spec::nv::mmio::{self, Reg};
use drivers_spec::pci::{PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_TYPE_64, PCI_VENDOR_ID};
use firmware_tools::nv::chip as files;
use hcq::DeviceId;
use hcq::mem::window::{AccessWidth, Window};
use hcq::reg::IpVersion;
use hcq::reg::block::{Block, Registers};
use hcq::reg::bus::Bus;
use hcq::transport::{Clock, Pci, TransportError};
use hcq::wait::Deadline;

use super::error::{Cause, GspError, Stage};

/// The BAR with the registers.
const REGISTERS: u8 = 0;
/// How long the card's own firmware may take after power came. The vendor's driver allows 2.05 s, and its successors in
/// Linux twice as much.
const GFW: Duration = Duration::from_secs(4);

/// A card.
pub struct Card {
    device: DeviceId,
    pci: Arc<dyn Pci>,
    clock: Arc<dyn Clock>,
    bus: Arc<Registered>,
    block: Block<Archs>,
    files: files::Chip,
}

/// BAR0, and whether the card is there.
struct Registered {
    mmio: Window,
    has_left: AtomicBool,
}

impl Bus for Registered {
    fn name(&self) -> String {
        Bus::name(&self.mmio)
    }

    fn read(&self, at: u64) -> Result<u32, TransportError> {
        self.mmio.load(at)
    }

    fn write(&self, at: u64, value: u32) -> Result<(), TransportError> {
        self.mmio.store(at, value)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.mmio.send()
    }

    fn has_left(&self) -> bool {
        let reads_ones = || matches!(self.mmio.load::<u32>(0), Ok(u32::MAX));
        if !self.has_left.load(Ordering::Relaxed) && reads_ones() {
            self.has_left.store(true, Ordering::Relaxed);
        }
        self.has_left.load(Ordering::Relaxed)
    }
}

/// A block of registers at fixed addresses.
pub(super) fn block(name: &str, one: Arch) -> Block<Archs> {
    Block {
        name: name.into(),
        version: IpVersion(0, 0, 0),
        one,
        segments: Vec::new(),
    }
}

impl Card {
    /// Looks at a card: nothing of it is changed, but that it answers on the bus.
    ///
    /// # Errors
    /// [`GspError`] of [`Stage::Card`]: it is not there, sleeps, or is unsupported.
    pub fn open(
        device: DeviceId,
        pci: Arc<dyn Pci>,
        clock: Arc<dyn Clock>,
    ) -> Result<Card, GspError> {
        let address = pci.name().to_owned();
        Card::look(device.clone(), pci, clock).map_err(|cause| GspError {
            device,
            address,
            stage: Stage::Card,
            cause: Box::new(cause),
        })
    }

    fn look(device: DeviceId, pci: Arc<dyn Pci>, clock: Arc<dyn Clock>) -> Result<Card, Cause> {
        config::answer(&*pci)?;
        let mmio = pci.bar(REGISTERS)?;
        // Registers at fixed addresses: which generation it is does not matter yet.
        let first = block("PMC", Arch::Ga10x);
        let boot_0 = first.on(&mmio).read(&mmio::NV_PMC_BOOT_0)?.bits();
        if boot_0 == u32::MAX {
            return Err(absent(&*pci));
        }
        let boot_42 = first.on(&mmio).read(&mmio::NV_PMC_BOOT_42)?;
        if boot_42.bits() == u32::MAX {
            return Err(absent(&*pci));
        }
        let architecture = boot_42.get(mmio::boot_42::ARCHITECTURE) << 4;
        let id = (architecture, boot_42.get(mmio::boot_42::IMPLEMENTATION));
        let chip = CHIPS.iter().find(|chip| chip.id == id);
        let found = chip.and_then(|chip| Some((chip, files::Chip::of(chip.name)?)));
        let Some((chip, files)) = found else {
            let known: Vec<_> = files::CHIPS.iter().map(|chip| chip.name).collect();
            return Err(Cause::Chip {
                boot_42: boot_42.bits(),
                known: known.join(", "),
            });
        };
        Ok(Card {
            device,
            pci,
            clock,
            bus: Arc::new(Registered {
                mmio,
                has_left: AtomicBool::new(false),
            }),
            block: block("BAR0", chip.arch),
            files,
        })
    }

    /// The device, for messages.
    pub fn device(&self) -> &DeviceId {
        &self.device
    }

    /// The PCI function.
    pub fn pci(&self) -> &Arc<dyn Pci> {
        &self.pci
    }

    /// What waits go by.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The chip, by its files.
    pub fn chip(&self) -> files::Chip {
        self.files
    }

    /// Its generation.
    pub fn arch(&self) -> Arch {
        self.block.one
    }

    /// The bus to its registers.
    pub(super) fn bus(&self) -> &dyn Bus {
        &*self.bus
    }

    /// The same, for who keeps it.
    pub(crate) fn shared_bus(&self) -> Arc<dyn Bus> {
        self.bus.clone()
    }

    /// The number of the BAR with VRAM: behind that of the registers, which takes two numbers where it is wide.
    ///
    /// # Errors
    /// The transport's.
    pub(crate) fn vram_bar(&self) -> Result<u8, TransportError> {
        let low = self.pci.config_read(PCI_BASE_ADDRESS_0, AccessWidth::W32)?;
        Ok(match low & PCI_BASE_ADDRESS_MEM_TYPE_64 {
            0 => REGISTERS + 1,
            _ => REGISTERS + 2,
        })
    }

    /// BAR0.
    pub(crate) fn mmio(&self) -> &Window {
        &self.bus.mmio
    }

    /// Its registers.
    pub(crate) fn io(&self) -> Registers<'_, Archs> {
        self.block.on(&*self.bus)
    }

    /// Whether it has left the bus.
    pub(crate) fn has_left(&self) -> bool {
        self.bus.has_left()
    }

    /// A deadline on the card's clock.
    pub(crate) fn within(&self, limit: Duration) -> Deadline {
        Deadline::on(self.clock(), limit)
    }

    /// An error of a stage.
    pub(crate) fn failed(&self, stage: Stage, cause: Cause) -> GspError {
        // What went wrong is that it is not there any more.
        let cause = match cause {
            first @ (Cause::Files(_) | Cause::Gone | Cause::Asleep { .. }) => first,
            _ if self.bus.has_left() => absent(&*self.pci),
            first => first,
        };
        GspError {
            device: self.device.clone(),
            address: self.pci.name().to_owned(),
            stage,
            cause: Box::new(cause),
        }
    }

    /// Waits until the card's own firmware has set it up.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn wait_gfw(&self) -> Result<(), Cause> {
        let (io, clock) = (self.io(), self.clock());
        let readable = mmio::group_05_plm::READ_PROTECTION_LEVEL0;
        io.poll(
            &mmio::NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_PRIV_LEVEL_MASK,
            clock,
            self.within(GFW),
            "the card's own firmware (GFW) to show its progress",
            |value| value.get(readable) == 1,
        )?;
        let progress = mmio::group_05::GFW_BOOT_PROGRESS;
        io.poll(
            &mmio::NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0,
            clock,
            self.within(GFW),
            "the card's own firmware (GFW) to finish",
            |value| value.get(progress) == mmio::group_05::GFW_BOOT_PROGRESS_COMPLETED,
        )?;
        Ok(())
    }

    /// Bytes of VRAM.
    ///
    /// # Errors
    /// The register's; [`Cause::Refused`].
    pub(crate) fn vram_bytes(&self) -> Result<u64, Cause> {
        let register = &mmio::NV_PGC6_AON_SECURE_SCRATCH_GROUP_42;
        let mib = self.io().read(register)?.bits();
        match mib & mmio::PRI_ERROR_MASK == mmio::PRI_ERROR || mib == 0 {
            true => Err(Cause::Refused {
                register: "NV_USABLE_FB_SIZE_IN_MB",
                value: mib,
                expected: "MiB of VRAM",
            }),
            false => Ok(u64::from(mib) << 20),
        }
    }

    /// Where WPR2 is: its first byte, and what its register has as its end. None where it is not set up.
    ///
    /// # Errors
    /// The registers'; [`Cause::Refused`].
    pub(crate) fn wpr2(&self) -> Result<Option<(u64, u64)>, Cause> {
        let io = self.io();
        let hi = io.read(&mmio::NV_PFB_PRI_MMU_WPR2_ADDR_HI)?;
        // What cannot be read is no region: a card is not reset for that.
        if hi.bits() & mmio::PRI_ERROR_MASK == mmio::PRI_ERROR || hi.bits() == u32::MAX {
            return Err(Cause::Refused {
                register: "NV_PFB_PRI_MMU_WPR2_ADDR_HI",
                value: hi.bits(),
                expected: "where WPR2 ends, or 0",
            });
        }
        let hi = hi.get(mmio::wpr2_hi::VAL);
        if hi == 0 {
            return Ok(None);
        }
        let lo = io.read(&mmio::NV_PFB_PRI_MMU_WPR2_ADDR_LO)?;
        let lo = lo.get(mmio::wpr2_lo::VAL);
        let bytes = |pages: u32| u64::from(pages) << mmio::ADDR_ALIGNMENT;
        Ok(Some((bytes(lo), bytes(hi))))
    }

    /// The version that a microcode must have: the number of the highest bit that is blown in its fuse, from 1.
    ///
    /// # Errors
    /// The register's; [`Cause::Contents`] for a number that has no fuse.
    pub(super) fn fuse(&self, first: &Reg, ucode: u32) -> Result<u32, Cause> {
        let index = ucode.checked_sub(1).filter(|index| *index < 16);
        let index = index.ok_or_else(|| Cause::Contents {
            file: "microcode".into(),
            what: format!("its number is {ucode}, expected 1 to 16"),
        })?;
        let bits = self.io().step(index).read(first)?.bits() & 0xffff;
        Ok(u32::BITS - bits.leading_zeros())
    }

    /// Where the display engine has its workspace in VRAM; none where the chip has no such engine, or it has none.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn vga_workspace(&self) -> Result<Option<u64>, Cause> {
        let io = self.io();
        let display = io.read(&mmio::NV_FUSE_STATUS_OPT_DISPLAY)?;
        if display.get(mmio::opt_display::DATA) != mmio::opt_display::DATA_ENABLE {
            return Ok(None);
        }
        let base = io.read(&mmio::NV_PDISP_VGA_WORKSPACE_BASE)?;
        let is_valid = base.get(mmio::vga_workspace::STATUS) == mmio::vga_workspace::STATUS_VALID;
        // In units of 64 KiB.
        let at = u64::from(base.get(mmio::vga_workspace::ADDR)) << 16;
        Ok(is_valid.then_some(at))
    }

    /// Waits until the card answers again after a reset.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn wait_back(&self) -> Result<(), Cause> {
        let there = |bits: u32| bits != u32::MAX && bits != 0;
        self.bus.has_left.store(false, Ordering::Relaxed);
        // Not by the bus: all ones are what is waited for to end.
        block("PMC", self.arch()).on(&self.bus.mmio).poll(
            &mmio::NV_PMC_BOOT_0,
            self.clock(),
            self.within(GFW),
            "the card to answer after the reset",
            |value| there(value.bits()),
        )?;
        Ok(())
    }
}

/// Why registers read as ones.
fn absent(pci: &dyn Pci) -> Cause {
    match pci.config_read(PCI_VENDOR_ID, AccessWidth::W16) {
        Ok(0xffff) | Err(_) => Cause::Gone,
        Ok(_) => Cause::Asleep {
            address: pci.name().to_owned(),
        },
    }
}
