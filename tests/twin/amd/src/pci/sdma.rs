//! Copy engines: those that are part of the graphics block from GFX11 on. The registers of a queue become one
//! when RB_ENABLE is set.

use std::collections::BTreeMap;

use drivers_spec::amd::mmio::{Reg, gc};
use drivers_spec::amd::packet::Gfx;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::engines::Wanted;
use super::graphics::AUTOLOAD;
use super::registers::{At, Hook, hold};
use super::state::State;
use crate::gpu::{QueueId, QueueKind};

/// Queues run on engines that do.
pub static RUNS: Rule = Rule {
    name: "SDMA-RUNS",
    text: "a queue of SDMA is enabled on an engine that runs: F32_CNTL or MCU_CNTL has neither HALT nor a reset",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume: unhalts before it enables the ring; sdma_v7_0.c",
    proof: Proof::Sourced,
};

/// What a queue cannot be without.
pub static NEEDS: Rule = Rule {
    name: "SDMA-RB-NEEDS",
    text: "an enabled queue of SDMA has a ring, writes its read pointer back to an address, has an address for its write pointer, and equal read and write pointers",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume",
    proof: Proof::Sourced,
};

/// A write pointer does not go back unnoticed.
pub static MINOR_PTR: Rule = Rule {
    name: "SDMA-MINOR-PTR",
    text: "MINOR_PTR_UPDATE is set while RB_WPTR is written with less than it has, and cleared before the queue is enabled",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume: before programing wptr to a less value, need set minor_ptr_update first",
    proof: Proof::Sourced,
};

/// A queue is not changed below itself.
pub static BUSY: Rule = Rule {
    name: "SDMA-RB-BUSY",
    text: "ring, pointers and doorbell of a queue of SDMA are written while it is not enabled",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_stop comes before sdma_v6_0_gfx_resume",
    proof: Proof::Sourced,
};

/// Its doorbell reaches it.
pub static DOORBELL: Rule = Rule {
    name: "SDMA-DOORBELL",
    text: "the doorbell of an enabled queue of SDMA is enabled, and its own",
    source: "Linux, sdma_v6_0.c, sdma_v6_0_gfx_resume; amdgpu_doorbell.h: each engine has its own",
    proof: Proof::Sourced,
};

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
/// Engines.
const ENGINES: u8 = 2;

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
];

/// Engines are halted when power has come.
pub(super) fn power_on(state: &mut State) {
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
    let minor = state.field(&gc::SDMA0_QUEUE0_MINOR_PTR_UPDATE, at.instance, "enable");
    if value < before && minor == 0 {
        let what = format!("{} goes from {before:#x} to {value:#x}", at.reg.word.name);
        return Err((&MINOR_PTR, what));
    }
    write(state, at, value)
}

/// A queue is idle when it is not enabled, or has nothing left to do.
fn read_status(state: &mut State, at: At) -> Result<u32, Broken> {
    let queue = state.sdma.queues.get(&at.instance);
    let idle = queue.is_none_or(|queue| state.engines.is_idle(*queue));
    let field = at.reg.word.field(state.gfx, "idle");
    Ok(field.map_or(0, |field| field.put(idle.into())))
}

fn runs(state: &State, number: u8) -> bool {
    let field = |reg: &Reg, name: &str| state.field(reg, number & !QUEUE, name);
    if state.gfx == Gfx::Gfx12 {
        field(&gc::SDMA0_MCU_CNTL, "halt") == 0 && field(&gc::SDMA0_MCU_CNTL, "reset") == 0
    } else {
        field(&gc::SDMA0_F32_CNTL, "halt") == 0 && field(&gc::SDMA0_F32_CNTL, "th1_reset") == 0
    }
}

fn write_engine(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    if !runs(state, at.instance) {
        stop(state, at.instance >> ENGINE);
    }
    Ok(())
}

fn write_control(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let enable = state.field_of(at.reg, value, "rb_enable") == 1;
    match (is_enabled(state, at), enable) {
        (false, true) => {
            let wanted = wanted(state, at, value)?;
            if let Some(queue) = state.engines.start(&wanted) {
                state.sdma.queues.insert(at.instance, queue);
            }
        }
        (true, false) => {
            if let Some(queue) = state.sdma.queues.remove(&at.instance) {
                state.engines.stop(queue);
            }
        }
        (true, true) | (false, false) => {}
    }
    hold(state, at, value)
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
    let engine = at.instance >> ENGINE;
    if !runs(state, at.instance) {
        return Err((&RUNS, format!("engine {engine}")));
    }
    let get = |reg: &Reg| state.registers.get(reg, at.instance);
    let wide = |low: &Reg, high: &Reg| u64::from(get(low)) | u64::from(get(high)) << 32;
    if get(&gc::SDMA0_QUEUE0_MINOR_PTR_UPDATE) & 1 == 1 {
        return Err((&MINOR_PTR, "a queue is enabled while it is set".into()));
    }
    let field = |name| state.field_of(at.reg, control, name);
    let ring = wide(&gc::SDMA0_QUEUE0_RB_BASE, &gc::SDMA0_QUEUE0_RB_BASE_HI) << 8;
    let bytes = 4u64 << field("rb_size");
    let rptr = wide(
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_RPTR_ADDR_HI,
    );
    let wptr = wide(
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO,
        &gc::SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI,
    );
    let from = wide(&gc::SDMA0_QUEUE0_RB_RPTR, &gc::SDMA0_QUEUE0_RB_RPTR_HI);
    let to = wide(&gc::SDMA0_QUEUE0_RB_WPTR, &gc::SDMA0_QUEUE0_RB_WPTR_HI);
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
    let enabled = state.field(&gc::SDMA0_QUEUE0_DOORBELL, at.instance, "enable") == 1;
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
        xcc: 0,
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
    let offset = state.field(&gc::SDMA0_QUEUE0_DOORBELL_OFFSET, number, "offset");
    u64::from(offset) * 4
}

/// Whether a queue has its doorbell at a byte of BAR 2.
pub(super) fn is_rung(state: &State, offset: u64) -> bool {
    let mut queues = state.sdma.queues.keys();
    queues.any(|number| doorbell(state, *number) == offset)
}

/// The queues of an engine end.
fn stop(state: &mut State, engine: u8) {
    let of = |number: &u8| number >> ENGINE == engine;
    let numbers: Vec<_> = state.sdma.queues.keys().copied().filter(of).collect();
    for number in numbers {
        if let Some(queue) = state.sdma.queues.remove(&number) {
            state.engines.stop(queue);
        }
    }
}

/// All queues end.
pub(super) fn stop_all(state: &mut State) {
    (0..ENGINES).for_each(|engine| stop(state, engine));
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
