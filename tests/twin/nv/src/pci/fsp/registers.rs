//! Registers of cards whose FSP starts GSP: those that lie elsewhere than before, or are new; and which of the others are there.
//!
//! Source: OGKM, src/common/inc/swref/published/hopper/gh100: dev_fsp_pri.h, dev_bus_addendum.h, dev_fb.h, dev_therm.h, dev_vm.h,
//! pri_nv_xal_ep.h, dev_xtl_ep_pri.h; blackwell/gb10b/dev_fbhub.h; kern_mem_sys_gh100.c, kmemsysProgramSysmemFlushBuffer_GH100.

use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::{fmc, port};
use crate::pci::chip::{Family, Fsp as Facts};
use crate::pci::falcon::Engine;
use crate::pci::registers::*;
use crate::pci::state::State;

static BOOT: Rule = Rule {
    name: "NV-FSP-BOOT",
    text: "FSP is sent packets, registers of GSP are written, and the size of memory is read, after FSP has started: \
           I2CS_SCRATCH_FSP_BOOT_COMPLETE is FF",
    source: "OGKM, kern_fsp_gh100.c, kfspPrepareBootCommands_GH100: Confirm FSP secure boot partition is done; kernel_gsp_gh100.c, \
             kgspWaitForGfwBootOk_GH100; kernel_gsp.c, kgspInitRm_IMPL",
    proof: Proof::Sourced,
};

/// `NV_XAL_EP_BAR0_WINDOW`: BASE 21:0 in units of 64 KiB.
pub(in crate::pci) const XAL_BAR0_WINDOW: u32 = 0x10_fd40;
/// `NV_VIRTUAL_FUNCTION_PRIV_FUNC_BAR1_BLOCK_LOW_ADDR`, and behind it HIGH: MODE 9, of the first; then those of BAR 2.
pub(in crate::pci) const BAR1_BLOCK: u32 = 0xb8_0f60;
pub(in crate::pci) const BAR2_BLOCK: u32 = 0xb8_0f70;
/// `NV_PFSP_FALCON_COMMON_SCRATCH_GROUP_2(0)`, of 4, and behind them GROUP_3.
const SCRATCH: u32 = 0x8f_0320;
const SCRATCH_END: u32 = 0x8f_0340;
/// `NV_GFW_FSP_UCODE_VERSION`, of 1.x: no number of a card.
const UCODE_VERSION: u32 = 0x8f_0334;
const VERSION: u32 = 0x100;
/// `NV_PBUS_SW_FRTS_INSECURE_ADDR_LO32`, `_ADDR_HI32` and `_CONFIG`.
pub(super) const FRTS_INSECURE: [u32; 3] = [
    PBUS_SCRATCH + 4 * 0x3d,
    PBUS_SCRATCH + 4 * 0x3e,
    PBUS_SCRATCH + 4 * 0x3f,
];

/// `NV_CE_GRCE_MASK` of GB202, blackwell/gb202/dev_ce.h: a constant.
const GRCE_MASK: u32 = 0x10_40d8;

/// Registers that hold what was written, and do no more here.
const HELD: [u32; 5] = [
    XAL_BAR0_WINDOW,
    BAR1_BLOCK,
    BAR1_BLOCK + 4,
    BAR2_BLOCK,
    BAR2_BLOCK + 4,
];

/// Registers that are where they were before.
fn is_kept(at: u32) -> bool {
    let scratch = PBUS_SCRATCH..PBUS_SCRATCH + 4 * PBUS_SCRATCHES;
    [
        PMC_BOOT_0,
        PMC_BOOT_1,
        PMC_BOOT_42,
        PTIMER_TIME_0,
        PTIMER_TIME_1,
        PFB_WPR2_LO,
        PFB_WPR2_HI,
        FUSE_GSP_DEBUG_DIS,
        FUNCTION_TIME_0,
        FUNCTION_TIME_1,
        MMU_INVALIDATE,
        MMU_INVALIDATE_PDB,
        MMU_INVALIDATE_UPPER_PDB,
        // Linux's nouveau reads it of these cards, too: nvkm/engine/device/base.c, nvkm_device_ctor.
        PEXTDEV_BOOT_0,
    ]
    .contains(&at)
        || scratch.contains(&at)
        || (PRAMIN..PRAMIN_END).contains(&at)
        || (0x9_2000..0x9_3000).contains(&at)
}

/// The register of GSP, if it is one.
fn of_gsp(at: u32) -> Option<u32> {
    at.checked_sub(PGSP).filter(|offset| *offset < FALCON_BYTES)
}

fn has_started(state: &State, what: impl Fn() -> String) -> Result<(), Broken> {
    match state.gfw.is_done() {
        true => Ok(()),
        false => Err((&BOOT, what())),
    }
}

/// The host reads a register.
pub(in crate::pci) fn read(state: &mut State, facts: &Facts, at: u32) -> Result<u32, Broken> {
    if let Some(offset) = of_gsp(at) {
        return fmc::read(state, offset);
    }
    if let Some(register) = port::Register::at(at) {
        return port::read(state, register);
    }
    Ok(match at {
        _ if at == facts.boot_complete => match state.gfw.look() {
            true => 0xff,
            false => 0,
        },
        PGC6_FB_MIB => {
            has_started(state, || "NV_USABLE_FB_SIZE_IN_MB".into())?;
            state.config.chip.twin.vram_mib as u32
        }
        UCODE_VERSION => VERSION,
        GRCE_MASK if state.config.chip.family == Family::Gb20x => 0xf,
        SCRATCH..SCRATCH_END if at.is_multiple_of(4) => 0,
        _ if at == facts.flush[0] => state.fsp.flush[0],
        _ if at == facts.flush[1] => state.fsp.flush[1],
        _ if HELD.contains(&at) => state.held(at),
        _ if is_kept(at) => return state.plain(at),
        _ => return Err(State::unmodelled(format!("read of {at:#x}"))),
    })
}

/// The host writes a register.
pub(in crate::pci) fn write(
    state: &mut State,
    facts: &Facts,
    at: u32,
    value: u32,
) -> Result<(), Broken> {
    if let Some(offset) = of_gsp(at) {
        has_started(state, || format!("write to {offset:#x} of {}", Engine::Gsp))?;
        return fmc::write(state, offset, value);
    }
    if let Some(register) = port::Register::at(at) {
        has_started(state, || format!("write to {at:#x} of FSP"))?;
        return port::write(state, register, value);
    }
    match at {
        // LO takes both: nova-core, fb/hal/gh100.rs, write_sysmem_flush_page_gh100.
        _ if at == facts.flush[0] => {
            let [low, high] = [value & 0xffff_ff00, state.fsp.flush[1]];
            state.fsp.flush[0] = low;
            state.fsp.page = u64::from(low) | u64::from(high) << 32;
        }
        _ if at == facts.flush[1] => state.fsp.flush[1] = value & 0xf_ffff,
        _ if HELD.contains(&at) || FRTS_INSECURE.contains(&at) => state.hold(at, value),
        MMU_INVALIDATE
        | MMU_INVALIDATE_PDB
        | MMU_INVALIDATE_UPPER_PDB
        | DOORBELL
        | PRIV_DOORBELL
        | PTIMER_INTR_EN => return state.plain_write(at, value),
        _ if (PRAMIN..PRAMIN_END).contains(&at) => return state.plain_write(at, value),
        _ => return Err(State::unmodelled(format!("write of {value:#x} to {at:#x}"))),
    }
    Ok(())
}
