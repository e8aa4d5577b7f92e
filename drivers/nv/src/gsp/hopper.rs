//! The start of Hopper and Blackwell: the FSP verifies the FMC and starts GSP with it, which reads the rest. To end it, RM
//! halts GSP by itself, and takes WPR2 down.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu: fsp/arch/hopper/kern_fsp_gh100.c
//! (`kfspPrepareBootCommands_GH100`, `kfspWaitForSecureBoot_GH100`), gsp/arch/hopper/kernel_gsp_gh100.c
//! (`kgspBootstrap_GH100`, `kgspCalculateFbLayout_GH100`, `kgspSetupGspFmcArgs_GH100`, `kgspTeardown_GH100`),
//! mem_mgr/arch/{maxwell,blackwell}/mem_mgr_{gm107,gb100}.c (`memmgrGetFBEndReserveSizeEstimate`), pmu/kern_pmu.c;
//! generated/g_kern_pmu_nvoc.c (`kpmuGetIsSelfInit`: all of Blackwell has memory of power management), g_kern_fsp_nvoc.c: the
//! 4 KiB more behind FRTS are Hopper's, which has none; a driver that leaves RM to GSP gives no copy of FRTS in memory of the
//! host.

use std::time::Duration;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::gsp::{
    FmcBootParams, GSP_DMA_TARGET_COHERENT_SYSTEM, GSP_FW_WPR_META_MAGIC, GSP_FW_WPR_META_REVISION,
    NVDM_TYPE_COT, NvdmPayloadCot, WprMeta,
};
use drivers_spec::nv::mmio;
use drivers_spec::nv::mmio::falcon::GSP;
use firmware_tools::nv::fmc::Fmc;
use hcq::addr::BusAddr;
use zerocopy::{FromZeros, IntoBytes};

use super::card::Card;
use super::error::{Cause, Note, Stage};
use super::falcon::Falcon;
use super::firmware::Parts;
use super::fsp::Fsp;
use super::layout::{FRTS, heap};
use super::memory::BootMemory;
use super::sequencer::Resume;

/// How long the FSP may take after power came: memory is trained meanwhile.
const BOOT: Duration = Duration::from_secs(5);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The workspace of the display.
const WORKSPACE: u64 = 128 * KIB;
/// What FRTS leaves free at the end of VRAM is a multiple of this.
const FREE: u64 = 2 * MIB;

/// What differs between generations, in bytes.
struct Sizes {
    /// The heap outside of WPR2.
    non_wpr_heap: u64,
    /// What stays free behind FRTS.
    reserve: u64,
    /// What power management has there, too.
    pmu: u64,
}

/// What power management has on Blackwell: 8 MiB, 16 MiB and 4 KiB, a multiple of 128 KiB.
const PMU: u64 = 0x182_0000;

fn sizes(arch: Arch) -> Sizes {
    match arch {
        Arch::Gb20x => Sizes {
            non_wpr_heap: 0x22_0000,
            reserve: 0x22_0000,
            pmu: PMU,
        },
        Arch::Gb10x => Sizes {
            non_wpr_heap: 2 * MIB,
            reserve: 0x22_0000,
            pmu: PMU,
        },
        _ => Sizes {
            non_wpr_heap: 2 * MIB,
            reserve: 2 * MIB,
            pmu: 0,
        },
    }
}

/// Where FRTS ends, from the end of VRAM down.
fn frts_end(sizes: &Sizes) -> u64 {
    match sizes.pmu {
        0 => sizes.reserve,
        pmu => (sizes.reserve + pmu).next_multiple_of(FREE),
    }
}

/// The sizes that the FMC is told; it says where everything goes.
///
/// # Errors
/// The register's; [`Cause::Refused`].
pub(super) fn meta(card: &Card, parts: &Parts<'_>) -> Result<WprMeta, Cause> {
    let sizes = sizes(card.arch());
    Ok(WprMeta {
        magic: GSP_FW_WPR_META_MAGIC,
        revision: GSP_FW_WPR_META_REVISION,
        size_of_radix3_elf: parts.gsp.image().len() as u64,
        size_of_bootloader: parts.loader.image().len() as u64,
        non_wpr_heap_size: sizes.non_wpr_heap,
        gsp_fw_heap_size: heap(parts.branch, card.arch(), card.vram_bytes()?),
        frts_size: FRTS,
        vga_workspace_size: WORKSPACE,
        pmu_reserved_size: sizes.pmu as u32,
        ..WprMeta::default()
    })
}

/// The message that starts GSP.
pub(super) struct Hopper {
    cot: Box<NvdmPayloadCot>,
    boot_args: BusAddr,
}

impl Hopper {
    /// Waits until the FSP has set the card up.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn wait_boot(card: &Card) -> Result<(), Cause> {
        let behind = match card.arch() {
            Arch::Gb20x => mmio::NV_THERM_GB20X,
            _ => 0,
        };
        card.io().step(behind / 4).poll(
            &mmio::NV_THERM_I2CS_SCRATCH,
            card.clock(),
            card.within(BOOT),
            "the FSP to start (FSP_BOOT_COMPLETE)",
            |value| value.bits() == mmio::FSP_BOOT_COMPLETE,
        )?;
        Ok(())
    }

    /// Puts the FMC and its argument into memory of the host. `meta` is where the WPR metadata is, `libos` where the
    /// arguments of GSP's operating system are.
    ///
    /// # Errors
    /// [`Cause::Room`]; the window's.
    pub(super) fn new(
        card: &Card,
        memory: &mut BootMemory,
        (branch, fmc): (Branch, &Fmc<'_>),
        (meta, libos): (BusAddr, BusAddr),
    ) -> Result<Hopper, Cause> {
        let image = memory.put("the FMC", fmc.image())?;
        let params = FmcBootParams {
            target: GSP_DMA_TARGET_COHERENT_SYSTEM,
            gsp_rm_desc_size: size_of::<WprMeta>() as u32,
            gsp_rm_desc_offset: meta.0,
            is_gsp_rm_boot: 1,
            rm_target: GSP_DMA_TARGET_COHERENT_SYSTEM,
            boot_args_offset: libos.0,
            ..FmcBootParams::default()
        };
        let params = memory.put("the FMC's argument", &params.encode(branch))?;
        let version: u16 = match card.arch() >= Arch::Gb10x {
            true => 2,
            false => 1,
        };
        let mut cot = NvdmPayloadCot::new_zeroed();
        cot.version = version.into();
        cot.size = (size_of::<NvdmPayloadCot>() as u16).into();
        cot.gsp_fmc_sysmem_offset = image.at.0.into();
        cot.frts_vidmem_offset = frts_end(&sizes(card.arch())).into();
        cot.frts_vidmem_size = (FRTS as u32).into();
        let hash = cot.hash384.iter_mut().zip(fmc.hash());
        hash.for_each(|(to, from)| *to = *from);
        cot.public_key = fmc.public_key();
        cot.signature = fmc.signature();
        cot.gsp_boot_args_sysmem_offset = params.at.0.into();
        Ok(Hopper {
            cot: Box::new(cot),
            boot_args: params.at,
        })
    }

    /// Has the FSP start GSP, and waits until GSP lets the host look.
    ///
    /// # Errors
    /// With the stage: [`Cause::FspRefused`], [`Cause::Fmc`], [`Cause::Inactive`]; the registers'.
    pub(super) fn start(&self, card: &Card, resume: &Resume) -> Result<(), (Stage, Cause)> {
        let sent = Fsp::of(card).send(NVDM_TYPE_COT, self.cot.as_bytes());
        sent.map_err(|cause| (Stage::Fsp, cause))?;
        self.unlocked(card, resume)
            .map_err(|cause| (Stage::Fmc, cause))
    }

    fn unlocked(&self, card: &Card, resume: &Resume) -> Result<(), Cause> {
        let gsp = Falcon::of(card, GSP);
        let arguments = [self.boot_args.lo(), self.boot_args.hi()];
        gsp.wait_unlocked(arguments)?;
        let mailboxes = gsp.mailboxes()?;
        if mailboxes[0] != 0 && mailboxes != arguments {
            return Err(Cause::Fmc { code: mailboxes[0] });
        }
        gsp.set_version(resume.version)?;
        match gsp.riscv()? {
            (_, true) => Ok(()),
            (value, false) => Err(Cause::Inactive {
                value,
                what: "was not started by the FMC",
            }),
        }
    }

    /// Waits until GSP has halted, after RM has ended; what went wrong is noted. Whether it is down.
    pub(super) fn end(card: &Card, note: &mut Note<'_>) -> bool {
        let has_halted = note(Falcon::of(card, GSP).wait_riscv_halt());
        let stays = |up: Option<(u64, u64)>| match up {
            None => Ok(()),
            Some((lo, hi)) => Err(Cause::Stays {
                what: "the end of RM on GSP",
                lo,
                hi,
            }),
        };
        note(card.wpr2().and_then(stays)) && has_halted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frts_is_where_the_vendors_driver_puts_it() {
        let end = |arch| frts_end(&sizes(arch));
        assert_eq!(end(Arch::Gh100), 0x20_0000);
        // 0x220000 + 0x1820000, up to a multiple of 2 MiB.
        assert_eq!(end(Arch::Gb10x), 0x1c0_0000);
        assert_eq!(end(Arch::Gb20x), 0x1c0_0000);
    }
}
