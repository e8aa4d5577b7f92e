//! The registers by which a driver has the MMU forget.
//!
//! Source: OGKM, turing/tu102/dev_vm.h, NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE_*; kern_gmmu_tu102.c, kgmmuCommitTlbInvalidate_TU102,
//! kgmmuSetPdbToInvalidate_TU102, kgmmuCheckPendingInvalidates_TU102.

use hcq::sync::lock;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use crate::pci::memory::{Aperture, Place};
use crate::pci::registers::{MMU_INVALIDATE, MMU_INVALIDATE_PDB, MMU_INVALIDATE_UPPER_PDB};
use crate::pci::state::State;
use crate::pci::wait::{Looks, Wait};

static PENDING: Rule = Rule {
    name: "NV-MMU-INVALIDATE-PENDING",
    text: "once MMU_INVALIDATE was written with TRIGGER, its registers are not written, and no doorbell is, before TRIGGER is FALSE",
    source: "OGKM, kern_gmmu_tu102.c, kgmmuCommitTlbInvalidate_TU102: Wait for the invalidate command to complete; Linux, \
             nvkm/subdev/mmu/vmmtu102.c, tu102_vmm_flush",
    proof: Proof::Sourced,
};

static COMMAND: Rule = Rule {
    name: "NV-MMU-INVALIDATE-COMMAND",
    text: "MMU_INVALIDATE has TRIGGER, ALL_VA TRUE and REPLAY NONE, for all page directories or one, whose address is in \
           INVALIDATE_PDB and INVALIDATE_UPPER_PDB",
    source: "OGKM, kern_gmmu_gm107.c, kgmmuInvalidateTlb_GM107: ALL_VA TRUE; turing/tu102/dev_vm.h; replays are of UVM's faults, which \
             are not modelled",
    proof: Proof::Sourced,
};

const TRIGGER: u32 = 1 << 31;
const ALL_VA: u32 = 1;
const ALL_PDB: u32 = 1 << 1;
const HUBTLB_ONLY: u32 = 1 << 2;
const REPLAY: u32 = 7 << 3;

/// One that goes on.
#[derive(Default)]
pub(in crate::pci) struct Pending(Option<(u32, Looks)>);

/// The host reads the command: whether it is done.
pub(in crate::pci) fn read(state: &mut State) -> u32 {
    let Some((command, looks)) = &mut state.pending.0 else {
        return 0;
    };
    let command = *command;
    if !looks.look() {
        return command;
    }
    state.pending.0 = None;
    done(state, command);
    command & !TRIGGER
}

/// The host writes one of the three.
pub(in crate::pci) fn write(state: &mut State, at: u32, value: u32) -> Result<(), Broken> {
    rests(state, &format!("write of {value:#x} to {at:#x}"))?;
    if at != MMU_INVALIDATE {
        state.hold(at, value);
        return Ok(());
    }
    let right = value & (TRIGGER | ALL_VA | REPLAY) == TRIGGER | ALL_VA;
    let is_known = value & ALL_PDB != 0 || directory(state).at != 0;
    if !right || !is_known {
        let what = format!("{value:#x}, of the page directory at {}", directory(state));
        return Err((&COMMAND, what));
    }
    let looks = state.waits(Wait::Tlb);
    state.pending.0 = Some((value, looks));
    Ok(())
}

/// Whether none goes on.
pub(in crate::pci) fn rests(state: &State, what: &str) -> Result<(), Broken> {
    match &state.pending.0 {
        None => Ok(()),
        Some((command, _)) => Err((&PENDING, format!("{what}, while {command:#x} goes on"))),
    }
}

fn directory(state: &State) -> Place {
    let low = state.held(MMU_INVALIDATE_PDB);
    let high = u64::from(state.held(MMU_INVALIDATE_UPPER_PDB) & 0xf_ffff);
    Place {
        aperture: match low >> 1 & 1 {
            0 => Aperture::Vram,
            _ => Aperture::Host,
        },
        at: (high << 28 | u64::from(low >> 4)) << 12,
    }
}

fn done(state: &mut State, command: u32) {
    let own = directory(state);
    let windows = super::window::roots(state);
    let of = |root: Place| {
        let is_meant = command & ALL_PDB != 0 || root == own;
        // The windows of the host are behind the hub; engines have other TLBs, too.
        is_meant && (command & HUBTLB_ONLY == 0 || windows.contains(&Some(root)))
    };
    lock(&state.tlb).invalidate(of, command >> 24 & 7);
}
