//! The ring of the secure OS: commands, and what they need before them.

use std::ops::Range;

use drivers_spec::amd::fw_type::GfxFwType as Fw;
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::psp::{
    ALIGN, CmdResp, LoadIpFw, LoadToc, RbFrame, SetupTmr, SpatialPart, TMR_ALIGN,
    TMR_VIRT_PHY_ADDR, UNKNOWN_COMMAND, cmd,
};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};
use twin_shader::page::Access;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::apps;
use super::image::{self, HEADER};
use super::{CLIENT, IMAGE, RING};
use crate::mem::Place;
use crate::pci::state::State;
use crate::pci::wait::{Looks, Wait};
use crate::pci::{graphics, smu};

/// Commands come in order.
pub static ORDER: Rule = Rule {
    name: "AMD-PSP-ORDER",
    text: "firmware is sent through the ring in order: that of the SMU before the trusted memory region is set up (if \
           the driver sends it), this before all others, RLC_G last of the graphics block's, then AUTOLOAD_RLC",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_psp.c, psp_hw_start (\"Load PMFW, Setup TMR, Load other non-psp fw\"), psp_load_non_psp_fw, psp_rl_load; psp_execute_ip_fw_load of RLC_G starts the autoload",
    proof: Proof::Sourced,
};

/// What a command names is where it can be.
pub static PLACE: Rule = Rule {
    name: "AMD-PSP-PLACE",
    text: "an address in a command of the PSP's ring is a multiple of 4 KiB (the trusted memory region: of 1 MiB, with \
           at least the bytes that LOAD_TOC returned), and unused fields are 0",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/psp_gfx_if.h; amdgpu_psp.h, PSP_TMR_ALIGNMENT",
    proof: Proof::Sourced,
};

/// All that the RLC starts is there.
pub static AUTOLOAD: Rule = Rule {
    name: "AMD-PSP-AUTOLOAD",
    text: "all firmware of the graphics block is loaded before AUTOLOAD_RLC",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_psp.c, psp_load_non_psp_fw: after all of it; which can be left out is a guess",
    proof: Proof::Guess,
};

/// Dwords of a frame.
const FRAME: u32 = (size_of::<RbFrame>() / 4) as u32;
/// GlobalPlatform's TEE_ERROR_BAD_PARAMETERS, which Linux has in ta_ras_if.h and others.
pub(super) const BAD_PARAMETERS: u32 = 0xffff_0006;
/// TEE_ERROR_BAD_STATE.
const BAD_STATE: u32 = 0xffff_0007;

/// A ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    at: u64,
    dwords: u32,
}

/// What is written when a command is done.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    looks: Looks,
    at: u64,
    /// Where in VRAM, so that looks can be told.
    place: Option<Range<u64>>,
    value: u32,
}

impl Ring {
    pub(super) fn new(at: u64, bytes: u32) -> Result<Ring, Broken> {
        let is_whole = bytes > 0 && bytes.is_multiple_of(FRAME * 4);
        match is_whole && at.is_multiple_of(ALIGN) {
            true => Ok(Ring {
                at,
                dwords: bytes / 4,
            }),
            false => Err((&RING, format!("a ring of {bytes:#x} bytes at {at:#x}"))),
        }
    }

    /// The addresses of the frames between two write pointers.
    pub(super) fn frames(&self, old: u32, new: u32) -> Result<Vec<u64>, Broken> {
        if !new.is_multiple_of(FRAME) || new >= self.dwords || new == old {
            let what = format!(
                "C2PMSG_67 goes from {old:#x} to {new:#x} in a ring of {:#x} dwords",
                self.dwords
            );
            return Err((&RING, what));
        }
        let mut frames = Vec::new();
        let mut at = old;
        while at != new {
            frames.push(self.at + u64::from(at) * 4);
            at = (at + FRAME) % self.dwords;
        }
        Ok(frames)
    }
}

pub(super) fn wide(low: U32, high: U32) -> u64 {
    u64::from(low.get()) | u64::from(high.get()) << 32
}

/// A frame is taken.
pub(super) fn run(state: &mut State, at: u64) {
    let hub = state.hubs.mm(0).clone();
    let mut bytes = [0; size_of::<RbFrame>()];
    let mut buffer = [0; size_of::<CmdResp>()];
    let read = hub.read(CLIENT, at, &mut bytes);
    let frame = RbFrame::read_from_bytes(&bytes)
        .ok()
        .filter(|_| read.is_ok());
    let Some(frame) = frame else { return };
    let place = wide(frame.cmd_buf_addr_lo, frame.cmd_buf_addr_hi);
    let fence = wide(frame.fence_addr_lo, frame.fence_addr_hi);
    let is_clean = frame.reserved1 == [0; 2]
        && frame.reserved2.iter().all(|word| word.get() == 0)
        && frame.vmid == 0;
    if !place.is_multiple_of(ALIGN) || !fence.is_multiple_of(4) || !is_clean {
        let what = format!("the frame at {at:#x}: {frame:?}");
        state.journal.broken(&PLACE, what);
    }
    if hub.read(CLIENT, place, &mut buffer).is_err() {
        return;
    }
    let Ok(mut command) = CmdResp::read_from_bytes(&buffer) else {
        return;
    };
    let id = command.cmd_id.get();
    command.resp = FromZeros::new_zeroed();
    let status = execute(state, &mut command);
    let injected = state.config.psp_error;
    let injected = injected.filter(|(of, _)| *of == id);
    command.resp.status = injected.map_or(status, |(_, error)| error).into();
    let response = std::mem::offset_of!(CmdResp, resp) as u64;
    if hub
        .write(CLIENT, place + response, command.resp.as_bytes())
        .is_err()
    {
        return;
    }
    let where_it_is = hub
        .translate(0, fence, Access::Write)
        .map(|found| found.place);
    let place = match where_it_is {
        Ok(Place::Vram(at)) => Some(at..at + 4),
        _ => None,
    };
    state.psp.fence = Some(Fence {
        looks: state.waits(Wait::Fence),
        at: fence,
        value: frame.fence_value.get(),
        place,
    });
    arrive(state, false);
}

/// The fence is written where its time has come.
fn arrive(state: &mut State, looked: bool) {
    let Some(fence) = &mut state.psp.fence else {
        return;
    };
    // Where looks cannot be told it comes at once.
    let is_seen = fence.place.is_some();
    let comes = match looked {
        true => fence.looks.look(),
        false => fence.looks.is_done() || !is_seen,
    };
    if comes {
        let (at, value) = (fence.at, fence.value);
        state.psp.fence = None;
        _ = state.hubs.mm(0).write(CLIENT, at, &value.to_le_bytes());
    }
}

/// The host looks at a range of VRAM.
pub(super) fn look(state: &mut State, at: u64, bytes: usize) {
    let fence = state.psp.fence.as_ref();
    let place = fence.and_then(|fence| fence.place.clone());
    if place.is_some_and(|place| place.start < at + bytes as u64 && at < place.end) {
        arrive(state, true);
    }
}

fn payload<T: FromBytes>(command: &CmdResp) -> T {
    let read = T::read_from_prefix(&command.cmd);
    read.map_or_else(|_| T::new_zeroed(), |(payload, _)| payload)
}

/// A command: the status that it ends with.
fn execute(state: &mut State, command: &mut CmdResp) -> u32 {
    match command.cmd_id.get() {
        cmd::LOAD_TOC => {
            let toc: LoadToc = payload(command);
            let at = wide(toc.toc_phy_addr_lo, toc.toc_phy_addr_hi);
            let status = check(state, "TOC", at, toc.toc_size.get(), &[image::TOC]);
            if status == 0 {
                command.resp.tmr_size = state.config.chip.tmr.into();
            }
            status
        }
        cmd::LOAD_IP_FW => {
            let load: LoadIpFw = payload(command);
            let fw = Fw(load.fw_type.get());
            load_ip_fw(state, fw, &load)
        }
        cmd::LOAD_ASD | cmd::LOAD_TA => {
            if !state.psp.has_tmr && driver_sets_tmr(state) {
                return out_of_order(state, "an application before SETUP_TMR");
            }
            let (status, session) = apps::load(state, &payload(command));
            command.resp.session_id = session.into();
            status
        }
        cmd::UNLOAD_TA => apps::unload(state, &payload(command)),
        cmd::INVOKE_CMD => apps::call(state, &payload(command)),
        cmd::SETUP_TMR => setup_tmr(state, &payload(command)),
        cmd::DESTROY_TMR => {
            state.psp.has_tmr = false;
            state.psp.tmr = 0..0;
            0
        }
        cmd::AUTOLOAD_RLC => autoload(state),
        cmd::SPATIAL_PART if state.gfx == Gfx::Gfx9 => spatial_part(state, &payload(command)),
        id => {
            state
                .journal
                .event(format!("the PSP has no command {id:#x}"));
            UNKNOWN_COMMAND
        }
    }
}

/// An image is looked at.
pub(super) fn check(state: &State, name: &str, at: u64, bytes: u32, kinds: &[u16]) -> u32 {
    if !at.is_multiple_of(ALIGN) {
        let what = format!("{name} at {at:#x}");
        state.journal.broken(&PLACE, what);
        return BAD_PARAMETERS;
    }
    let hub = state.hubs.mm(0);
    let mut start = [0; HEADER];
    let mut all = vec![0; bytes as usize];
    let read = hub.read(CLIENT, at, &mut all);
    let len = all.len().min(HEADER);
    start[..len].copy_from_slice(&all[..len]);
    let wrong = match read {
        Ok(()) => image::wrong(&start, kinds, bytes.into()),
        Err(fault) => Some(format!("{fault:?}")),
    };
    if let Some(wrong) = wrong {
        let what = format!("{name} at {at:#x}: {wrong}");
        state.journal.broken(&IMAGE, what);
        return BAD_PARAMETERS;
    }
    0
}

/// Whether the driver sets the trusted memory region up, or the PSP has it already.
///
/// Linux, amdgpu_psp.c, psp_early_init: `boot_time_tmr`.
fn driver_sets_tmr(state: &State) -> bool {
    state.gfx == Gfx::Gfx11
}

/// Whether the PSP has that region already, and wants to be told that it may use it: the same.
fn only_asks(state: &State) -> bool {
    state.gfx == Gfx::Gfx9
}

fn out_of_order(state: &State, what: &str) -> u32 {
    state.journal.broken(&ORDER, what.to_owned());
    BAD_STATE
}

fn load_ip_fw(state: &mut State, fw: Fw, load: &LoadIpFw) -> u32 {
    let name = fw.name().map_or_else(|| format!("{}", fw.0), str::to_owned);
    let Some(kinds) = image::of_type(fw) else {
        let what = format!("LOAD_IP_FW of {name}, which these chips do not have");
        state.journal.broken(&IMAGE, what);
        return BAD_PARAMETERS;
    };
    let is_smu = fw == Fw::SMU;
    if is_smu && state.psp.has_tmr && driver_sets_tmr(state) {
        return out_of_order(state, "SMU after SETUP_TMR");
    }
    let waits = driver_sets_tmr(state) || only_asks(state);
    if !is_smu && !state.psp.has_tmr && waits {
        return out_of_order(state, &format!("{name} before SETUP_TMR"));
    }
    if !is_smu && state.gfx != Gfx::Gfx9 && !state.psp.has(Fw::SMU) {
        return out_of_order(state, &format!("{name} before SMU"));
    }
    // What is no part of the graphics block comes when it likes.
    if state.psp.has(Fw::RLC_G) && state.gfx != Gfx::Gfx9 && ![Fw::VCN, Fw::REG_LIST].contains(&fw)
    {
        return out_of_order(state, &format!("{name} after RLC_G"));
    }
    let at = wide(load.fw_phy_addr_lo, load.fw_phy_addr_hi);
    let status = check(state, &name, at, load.fw_size.get(), &kinds);
    if status == 0 {
        state.psp.loaded.insert(fw.0);
    }
    if status == 0 && is_smu {
        smu::start(state);
    }
    // The list of registers comes last, where no RLC starts the others.
    if status == 0 && fw == Fw::REG_LIST && state.gfx == Gfx::Gfx9 {
        graphics::autoload(state);
    }
    status
}

fn setup_tmr(state: &mut State, tmr: &SetupTmr) -> u32 {
    if only_asks(state) {
        if tmr.as_bytes().iter().any(|byte| *byte != 0) {
            state
                .journal
                .broken(&PLACE, format!("{tmr:?}, where all is 0"));
            return BAD_PARAMETERS;
        }
        state.psp.has_tmr = true;
        return 0;
    }
    if !driver_sets_tmr(state) {
        return out_of_order(state, "SETUP_TMR, where the PSP has the region already");
    }
    if !state.psp.has(Fw::SMU) || state.psp.has_tmr {
        return out_of_order(state, "SETUP_TMR before SMU, or again");
    }
    let at = wide(tmr.buf_phy_addr_lo, tmr.buf_phy_addr_hi);
    let system = wide(tmr.system_phy_addr_lo, tmr.system_phy_addr_hi);
    let bytes = tmr.buf_size.get();
    let placed = state.hubs.mm(0).translate(0, at, Access::Write);
    let is_there = placed.is_ok_and(|found| found.place == Place::Vram(system));
    let asked = state.config.chip.tmr;
    let fits = at.is_multiple_of(TMR_ALIGN) && bytes >= asked && bytes.is_multiple_of(0x1000);
    if tmr.tmr_flags.get() != TMR_VIRT_PHY_ADDR || !is_there || !fits {
        state.journal.broken(&PLACE, format!("{tmr:?}"));
        return BAD_PARAMETERS;
    }
    state.psp.has_tmr = true;
    state.psp.tmr = system..system + u64::from(bytes);
    0
}

fn spatial_part(state: &mut State, part: &SpatialPart) -> u32 {
    if !state.psp.has(Fw::REG_LIST) {
        return out_of_order(state, "SPATIAL_PART before the firmware of XCCs");
    }
    let others = [
        part.override_ips,
        part.override_xcds_avail,
        part.override_this_aid,
    ];
    let is_clean = others.iter().all(|word| word.get() == 0);
    if !is_clean || !graphics::partition(state, part.mode.get()) {
        state.journal.broken(&PLACE, format!("{part:?}"));
        return BAD_PARAMETERS;
    }
    0
}

/// What the graphics block cannot start without.
fn needed(gfx: Gfx) -> Vec<Fw> {
    let mut all = vec![
        Fw::SDMA_UCODE_TH0,
        Fw::RS64_MEC,
        Fw::RS64_MEC_P0_STACK,
        Fw::IMU_I,
        Fw::IMU_D,
        Fw::RLC_IRAM,
        Fw::RLC_DRAM_BOOT,
        Fw::RLC_G,
    ];
    match gfx {
        Gfx::Gfx11 => all.extend([Fw::SDMA_UCODE_TH1, Fw::RLC_P, Fw::RLC_V]),
        _ => all.extend([
            Fw::RS64_PFP,
            Fw::RS64_PFP_P0_STACK,
            Fw::RS64_ME,
            Fw::RS64_ME_P0_STACK,
        ]),
    }
    all
}

fn autoload(state: &mut State) -> u32 {
    if state.gfx == Gfx::Gfx9 || !state.psp.has(Fw::RLC_G) {
        return out_of_order(state, "AUTOLOAD_RLC before RLC_G");
    }
    let needed = needed(state.gfx);
    let missing: Vec<_> = needed.iter().filter(|fw| !state.psp.has(**fw)).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().filter_map(|fw| fw.name()).collect();
        let what = format!("without {}", names.join(", "));
        state.journal.broken(&AUTOLOAD, what);
        return BAD_STATE;
    }
    graphics::autoload(state);
    0
}
