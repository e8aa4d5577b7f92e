//! Copy engines: those that are part of the graphics block from GFX11 on, and those of MI300X, which are blocks of
//! their own on its dies. The registers of a queue become one when RB_ENABLE is set.

use std::collections::BTreeMap;

use drivers_spec::amd::mmio::{Reg, gc, sdma};
use drivers_spec::amd::packet::Gfx;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::chip::ENGINES_OF_DIE;
use super::engines::Wanted;
use super::graphics::AUTOLOAD;
use super::registers::{At, Hook, hold};
use super::state::State;
use super::wait::{Looks, Wait};
use crate::gpu::{QueueId, QueueKind};

/// Queues run on engines that do.
pub static RUNS: Rule = Rule {
    name: "SDMA-RUNS",
    text: "an SDMA queue is enabled on a running engine: F32_CNTL or MCU_CNTL has neither HALT nor a reset",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume: unhalts before it enables the ring; sdma_v7_0.c",
    proof: Proof::Sourced,
};

/// What a queue cannot be without.
pub static NEEDS: Rule = Rule {
    name: "SDMA-RB-NEEDS",
    text: "an enabled SDMA queue has a ring, writes its read pointer back to an address, has an address for its write pointer, and equal read and write pointers",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume",
    proof: Proof::Sourced,
};

/// A write pointer does not go back unnoticed.
pub static MINOR_PTR: Rule = Rule {
    name: "SDMA-MINOR-PTR",
    text: "MINOR_PTR_UPDATE is set while RB_WPTR is decreased, and cleared before the queue is enabled",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume: before programing wptr to a less value, need set minor_ptr_update first",
    proof: Proof::Sourced,
};

/// A queue is not changed below itself.
pub static BUSY: Rule = Rule {
    name: "SDMA-RB-BUSY",
    text: "ring, pointers and doorbell of an SDMA queue are written while it is disabled",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_stop comes before sdma_v6_0_gfx_resume",
    proof: Proof::Sourced,
};

/// Its doorbell reaches it.
pub static DOORBELL: Rule = Rule {
    name: "SDMA-DOORBELL",
    text: "the doorbell of an enabled SDMA queue is enabled and belongs to this queue only",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume; amdgpu_doorbell.h: each engine has its own",
    proof: Proof::Sourced,
};

/// Addresses are translated.
pub static UTCL1: Rule = Rule {
    name: "SDMA-UTCL1",
    text: "a doorbell of an SDMA 4.4 queue is written while SDMA_CNTL has UTC_L1_ENABLE",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/sdma_v4_4_2.c, sdma_v4_4_2_inst_start: set utc l1 enable flag always to 1; sdma_v4_4_2_inst_gfx_stop clears it",
    proof: Proof::Sourced,
};

/// The registers of a queue.
struct Names {
    base: [&'static Reg; 2],
    rptr: [&'static Reg; 2],
    wptr: [&'static Reg; 2],
    rptr_addr: [&'static Reg; 2],
    wptr_addr: [&'static Reg; 2],
    doorbell: &'static Reg,
    doorbell_offset: &'static Reg,
    minor_ptr: &'static Reg,
}

/// Of SDMA 6 and 7.
static QUEUE0: Names = Names {
    base: [&gc::SDMA0_QUEUE0_RB_BASE, &gc::SDMA0_QUEUE0_RB_BASE_HI],
    rptr: [&gc::SDMA0_QUEUE0_RB_RPTR, &gc::SDMA0_QUEUE0_RB_RPTR_HI],
    wptr: [&gc::SDMA0_QUEUE0_RB_WPTR, &gc::SDMA0_QUEUE0_RB_WPTR_HI],
    rptr_addr: [
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_HI,
    ],
    wptr_addr: [
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI,
    ],
    doorbell: &gc::SDMA0_QUEUE0_DOORBELL,
    doorbell_offset: &gc::SDMA0_QUEUE0_DOORBELL_OFFSET,
    minor_ptr: &gc::SDMA0_QUEUE0_MINOR_PTR_UPDATE,
};

/// Of SDMA 4.4: the queue that the kernel driver has for itself.
static GFX: Names = Names {
    base: [&sdma::SDMA_GFX_RB_BASE, &sdma::SDMA_GFX_RB_BASE_HI],
    rptr: [&sdma::SDMA_GFX_RB_RPTR, &sdma::SDMA_GFX_RB_RPTR_HI],
    wptr: [&sdma::SDMA_GFX_RB_WPTR, &sdma::SDMA_GFX_RB_WPTR_HI],
    rptr_addr: [
        &sdma::SDMA_GFX_RB_RPTR_ADDR_LO,
        &sdma::SDMA_GFX_RB_RPTR_ADDR_HI,
    ],
    wptr_addr: [
        &sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_LO,
        &sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_HI,
    ],
    doorbell: &sdma::SDMA_GFX_DOORBELL,
    doorbell_offset: &sdma::SDMA_GFX_DOORBELL_OFFSET,
    minor_ptr: &sdma::SDMA_GFX_MINOR_PTR_UPDATE,
};

fn names(gfx: Gfx) -> &'static Names {
    match gfx {
        Gfx::Gfx9 => &GFX,
        _ => &QUEUE0,
    }
}

/// The engine of a register's number.
fn engine(gfx: Gfx, number: u8) -> u8 {
    match gfx {
        Gfx::Gfx9 => number,
        _ => number >> ENGINE,
    }
}

/// What SDMA_CNTL has after power came. Linux, include/asic_reg/sdma0/sdma0_4_0_default.h; for 4.4 a guess.
const CNTL_DEFAULT: u32 = 2;

/// Where the engine is in the number that a register of a copy engine has, and where the queue.
const ENGINE: u8 = 4;
const QUEUE: u8 = 0xf;

/// Dwords from the registers of an engine to those of the next, by the segment that they are in.
///
/// Source: Linux, sdma_v6_0.c, sdma_v6_0_get_reg_offset: `SDMA1_REG_OFFSET`, `SDMA1_HYP_DEC_REG_START`.
const ENGINE_STEP: [u64; 2] = [0x600, 0x20];
/// Dwords from the registers of a queue to those of the next: `SDMA0_QUEUE1_RB_CNTL` of gc_11_0_0_offset.h.
const QUEUE_STEP: u64 = 0x58;
/// Queues of an engine.
const QUEUES: u8 = 8;
/// Engines, of the graphics block.
const ENGINES: u8 = 2;
/// Engines of MI300X.
const ENGINES_OF_MI300X: u8 = 16;

/// The registers of other engines and queues than the first, of a register of that: number, and how many dwords
/// further on.
pub(super) fn copies(reg: &Reg, segment: u8) -> impl Iterator<Item = (u8, u64)> {
    let name = reg.word.name;
    let queues = match () {
        () if name.starts_with("SDMA0_QUEUE0_") => QUEUES,
        () if name.starts_with("SDMA0_") => 1,
        () => 0,
    };
    let step = ENGINE_STEP[usize::from(segment) & 1];
    (0..ENGINES)
        .flat_map(move |engine| (0..queues).map(move |queue| (engine, queue)))
        .map(move |(engine, queue)| {
            let further = u64::from(engine) * step + u64::from(queue) * QUEUE_STEP;
            (engine << ENGINE | queue, further)
        })
        .filter(|(number, _)| *number != 0)
}

/// Copy engines: their queues that are enabled, by number.
#[derive(Default)]
pub(super) struct Sdma {
    queues: BTreeMap<u8, QueueId>,
    /// Queues that were disabled in the middle of something, and how long their engine is not done with them.
    leaving: BTreeMap<u8, Looks>,
}

pub(super) const HOOKS: &[Hook] = &[
    Hook::write(&gc::SDMA0_QUEUE0_RB_CNTL, write_control),
    Hook::write(&gc::SDMA0_QUEUE0_RB_BASE, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_BASE_HI, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_RPTR, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_RPTR_HI, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_WPTR, write_pointer),
    Hook::write(&gc::SDMA0_QUEUE0_RB_WPTR_HI, write_pointer),
    Hook::write(&gc::SDMA0_QUEUE0_RB_RPTR_ADDR_LO, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_RPTR_ADDR_HI, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO, write),
    Hook::write(&gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI, write),
    Hook::read(&gc::SDMA0_QUEUE0_CONTEXT_STATUS, read_status),
    Hook::write(&gc::SDMA0_F32_CNTL, write_engine),
    Hook::write(&gc::SDMA0_MCU_CNTL, write_engine),
    Hook::write(&sdma::SDMA_GFX_RB_CNTL, write_control),
    Hook::write(&sdma::SDMA_GFX_RB_BASE, write),
    Hook::write(&sdma::SDMA_GFX_RB_BASE_HI, write),
    Hook::write(&sdma::SDMA_GFX_RB_RPTR, write),
    Hook::write(&sdma::SDMA_GFX_RB_RPTR_HI, write),
    Hook::write(&sdma::SDMA_GFX_RB_WPTR, write_pointer),
    Hook::write(&sdma::SDMA_GFX_RB_WPTR_HI, write_pointer),
    Hook::write(&sdma::SDMA_GFX_RB_RPTR_ADDR_LO, write),
    Hook::write(&sdma::SDMA_GFX_RB_RPTR_ADDR_HI, write),
    Hook::write(&sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_LO, write),
    Hook::write(&sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_HI, write),
    Hook::read(&sdma::SDMA_GFX_CONTEXT_STATUS, read_status),
];

/// Engines are halted when power has come; those of MI300X run once they have firmware.
pub(super) fn power_on(state: &mut State) {
    for engine in 0..ENGINES_OF_MI300X {
        let registers = &mut state.registers;
        registers.set(&sdma::SDMA_CNTL, engine, CNTL_DEFAULT);
    }
    for engine in 0..ENGINES {
        let number = engine << ENGINE;
        for reg in [&gc::SDMA0_F32_CNTL, &gc::SDMA0_MCU_CNTL] {
            state.registers.set(reg, number, 1);
        }
    }
}

fn is_enabled(state: &State, at: At) -> bool {
    state.sdma.queues.contains_key(&at.instance)
}

fn write(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    if is_enabled(state, at) {
        let what = format!("{} is written with {value:#x}", at.reg.word.name);
        return Err((&BUSY, what));
    }
    hold(state, at, value)
}

fn write_pointer(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let before = state.registers.get(at.reg, at.instance);
    let minor = state.field(names(state.gfx).minor_ptr, at.instance, "enable");
    if value < before && minor == 0 {
        let what = format!("{} goes from {before:#x} to {value:#x}", at.reg.word.name);
        return Err((&MINOR_PTR, what));
    }
    write(state, at, value)
}

/// A queue is idle when it has nothing left to do, or is not enabled and its engine is done with it.
fn read_status(state: &mut State, at: At) -> Result<u32, Broken> {
    let leaves = state.sdma.leaving.get_mut(&at.instance);
    let is_out = leaves.is_none_or(Looks::look);
    let queue = state.sdma.queues.get(&at.instance);
    let idle = is_out && queue.is_none_or(|queue| state.engines.is_idle(*queue));
    let field = at.reg.word.field(state.gfx, "idle");
    Ok(field.map_or(0, |field| field.put(idle.into())))
}

fn runs(state: &State, number: u8) -> bool {
    let is_clear = |reg: &Reg, name: &str| state.field(reg, number & !QUEUE, name) == 0;
    match state.gfx {
        Gfx::Gfx9 => true,
        Gfx::Gfx12 => {
            is_clear(&gc::SDMA0_MCU_CNTL, "halt") && is_clear(&gc::SDMA0_MCU_CNTL, "reset")
        }
        _ => {
            let reg = &gc::SDMA0_F32_CNTL;
            is_clear(reg, "halt") && is_clear(reg, "th1_reset")
        }
    }
}

fn write_engine(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    if !runs(state, at.instance) {
        stop(state, engine(state.gfx, at.instance));
    }
    Ok(())
}

fn write_control(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let enable = state.field_of(at.reg, value, "rb_enable") == 1;
    match (is_enabled(state, at), enable) {
        (false, true) => {
            let wanted = wanted(state, at, value)?;
            if let Some(queue) = state.engines.start(&wanted) {
                state.sdma.leaving.remove(&at.instance);
                state.sdma.queues.insert(at.instance, queue);
            }
        }
        (true, false) => {
            if let Some(queue) = state.sdma.queues.remove(&at.instance) {
                leave(state, at.instance, queue);
            }
        }
        (true, true) | (false, false) => {}
    }
    hold(state, at, value)
}

/// A queue that is disabled: its registers say how far it was, and its engine takes a while for what it is in the middle of.
///
/// Source: Linux, amdgpu_amdkfd_gfx_v11.c, `hqd_sdma_destroy_v11`: RB_ENABLE is cleared, CONTEXT_STATUS is polled for IDLE,
/// which may never come, and RB_RPTR is kept for `hqd_sdma_load_v11`.
fn leave(state: &mut State, number: u8, queue: QueueId) {
    let (pointers, is_idle) = (state.engines.pointers(queue), state.engines.is_idle(queue));
    state.engines.stop(queue);
    let names = names(state.gfx);
    if let Some((rptr, wptr)) = pointers {
        for ([low, high], value) in [(names.rptr, rptr), (names.wptr, wptr)] {
            state.registers.set(low, number, value as u32);
            state.registers.set(high, number, (value >> 32) as u32);
        }
    }
    if !is_idle {
        let looks = state.waits(Wait::CopyIdle);
        state.sdma.leaving.insert(number, looks);
    }
}

fn wanted(state: &State, at: At, control: u32) -> Result<Wanted, Broken> {
    let loaded = state
        .graphics
        .xccs
        .first()
        .is_some_and(|xcc| xcc.is_loaded());
    if !loaded {
        return Err((&AUTOLOAD, "a queue of SDMA is enabled".into()));
    }
    let names = names(state.gfx);
    let engine = engine(state.gfx, at.instance);
    if !runs(state, at.instance) {
        return Err((&RUNS, format!("engine {engine}")));
    }
    let get = |reg: &Reg| state.registers.get(reg, at.instance);
    let wide = |[low, high]: [&Reg; 2]| u64::from(get(low)) | u64::from(get(high)) << 32;
    if get(names.minor_ptr) & 1 == 1 {
        return Err((&MINOR_PTR, "a queue is enabled while it is set".into()));
    }
    let field = |name| state.field_of(at.reg, control, name);
    let ring = wide(names.base) << 8;
    let bytes = 4u64 << field("rb_size");
    let (rptr, wptr) = (wide(names.rptr_addr), wide(names.wptr_addr));
    let (from, to) = (wide(names.rptr), wide(names.wptr));
    let back = field("rptr_writeback_enable") == 1;
    if ring == 0 || bytes < 256 || !back || rptr == 0 || wptr == 0 || from != to {
        let what = format!(
            "a ring of {bytes:#x} bytes at {ring:#x}, the read pointer {from:#x} at {rptr:#x} ({}), the write pointer {to:#x} at {wptr:#x}",
            if back {
                "written back"
            } else {
                "not written back"
            }
        );
        return Err((&NEEDS, what));
    }
    let doorbell = doorbell(state, at.instance);
    let enabled = state.field(names.doorbell, at.instance, "enable") == 1;
    let mut others = state.sdma.queues.keys();
    if !enabled || others.any(|other| self::doorbell(state, *other) == doorbell) {
        let how = if enabled {
            "and another's"
        } else {
            "not enabled"
        };
        return Err((&DOORBELL, format!("byte {doorbell:#x}, {how}")));
    }
    Ok(Wanted {
        kind: QueueKind::Sdma {
            engine: engine.into(),
        },
        place: match state.gfx {
            Gfx::Gfx9 => (engine / ENGINES_OF_DIE).into(),
            _ => 0,
        },
        vmid: field("rb_vmid"),
        ring: (ring, bytes),
        rptr,
        wptr,
        eop: (0, 0),
        from,
        doorbell,
        ring_id: u32::from(at.instance),
    })
}

/// The byte of BAR 2 that rings a queue.
fn doorbell(state: &State, number: u8) -> u64 {
    let offset = state.field(names(state.gfx).doorbell_offset, number, "offset");
    u64::from(offset) * 4
}

/// Whether a queue, of that engine where it is known, has its doorbell at a byte of BAR 2.
pub(super) fn is_rung(state: &State, offset: u64, of: Option<u8>) -> Result<bool, Broken> {
    let mut queues = state.sdma.queues.keys();
    let is = |number: &&u8| {
        of.is_none_or(|of| engine(state.gfx, **number) == of) && doorbell(state, **number) == offset
    };
    let Some(number) = queues.find(is) else {
        return Ok(false);
    };
    let translates = state.field(&sdma::SDMA_CNTL, *number, "utc_l1_enable") == 1;
    if state.gfx == Gfx::Gfx9 && !translates {
        return Err((&UTCL1, format!("engine {number}")));
    }
    Ok(true)
}

/// The queues of an engine end.
fn stop(state: &mut State, engine: u8) {
    let gfx = state.gfx;
    let of = |number: &u8| self::engine(gfx, *number) == engine;
    let numbers: Vec<_> = state.sdma.queues.keys().copied().filter(of).collect();
    for number in numbers {
        if let Some(queue) = state.sdma.queues.remove(&number) {
            state.engines.stop(queue);
        }
    }
    state.sdma.leaving.retain(|number, _| !of(number));
}

/// All queues end.
pub(super) fn stop_all(state: &mut State) {
    (0..ENGINES_OF_MI300X).for_each(|engine| stop(state, engine));
}

/// An engine forgets its queues.
pub(super) fn reset(state: &mut State, engine: u8) {
    stop(state, engine);
    for hook in HOOKS
        .iter()
        .filter(|hook| hook.reg.word.name.contains("QUEUE0"))
    {
        for queue in 0..QUEUES {
            state.registers.set(hook.reg, engine << ENGINE | queue, 0);
        }
    }
}
