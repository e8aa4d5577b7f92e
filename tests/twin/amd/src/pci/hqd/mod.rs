//! Hardware queue descriptors: the registers of a compute queue, one set for each queue of each pipe. Written to
//! CP_HQD_ACTIVE, they become a queue, whose descriptor in memory (MQD) the command processor loads the rest
//! from.

mod mqd;
mod shared;
mod view;

use std::collections::BTreeMap;

use drivers_spec::amd::mmio::gc;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use self::view::View;
use super::engines::Wanted;
use super::graphics::{self, Selected, selected, units, xcc};
use super::mes;
use super::registers::{At, Hook};
use super::state::State;
use super::wait::{Looks, Wait};
use crate::gpu::{QueueId, QueueKind};

/// Registers of queues are those of the queue that is selected.
pub static SELECT: Rule = Rule {
    name: "GFX-HQD-SELECT",
    text: "registers of a queue are accessed while GRBM_GFX_CNTL selects an existing pipe, of compute (ME 1, or ME 2 \
           where it exists) or of the scheduler (ME 3), and a queue of it",
    source: "Linux, gfx_v11_0.c, soc21_grbm_select before gfx_v11_0_kiq_init_register; num_pipe_per_mec, num_queue_per_pipe; mes_v11_0.c, mes_v11_0_queue_init_register",
    proof: Proof::Sourced,
};

/// A queue is not changed below itself.
pub static BUSY: Rule = Rule {
    name: "GFX-HQD-BUSY",
    text: "registers of a queue are written while it is inactive: DEQUEUE_REQUEST removes it, and CP_HQD_ACTIVE shows \
           when that is complete",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_kiq_init_register: disable the queue if it is active",
    proof: Proof::Sourced,
};

/// Queues run on processors that do.
pub static RUNS: Rule = Rule {
    name: "GFX-HQD-RUNS",
    text: "a queue is activated on a running pipe: its firmware is started, not halted, not in reset",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_cp_resume: gfx_v11_0_cp_compute_enable comes before the queues",
    proof: Proof::Sourced,
};

/// Which queue: micro engine, pipe, number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Bank {
    pub(super) me: u32,
    pub(super) pipe: u32,
    pub(super) queue: u32,
}

/// What runs behind the registers of a queue.
#[derive(Clone, Copy)]
struct Active {
    wanted: Wanted,
    /// None while other XCCs that share it do not have it.
    queue: Option<QueueId>,
}

/// The registers of a queue, and what came of them.
#[derive(Default)]
pub(super) struct Hqd {
    words: BTreeMap<u64, u32>,
    active: Option<Active>,
    /// It was asked to leave: how, and how long that takes.
    leaves: Option<(u32, Looks)>,
    /// The MQD was loaded.
    loaded: bool,
}

/// Hooks for registers that are there once for each queue.
macro_rules! banked {
    ($($name:ident)*) => {
        &[
            Hook::both(&gc::CP_HQD_ACTIVE, read_active, write_active),
            Hook::both(&gc::CP_HQD_DEQUEUE_REQUEST, read, write_dequeue),
            Hook::write(&gc::SPI_COMPUTE_QUEUE_RESET, write_reset),
            $(Hook::both(&gc::$name, read, write),)*
        ]
    };
}

pub(super) const HOOKS: &[Hook] = banked! {
    CP_MQD_BASE_ADDR CP_MQD_BASE_ADDR_HI CP_HQD_VMID CP_HQD_PERSISTENT_STATE CP_HQD_PIPE_PRIORITY
    CP_HQD_QUEUE_PRIORITY CP_HQD_QUANTUM CP_HQD_PQ_BASE CP_HQD_PQ_BASE_HI CP_HQD_PQ_RPTR
    CP_HQD_PQ_RPTR_REPORT_ADDR CP_HQD_PQ_RPTR_REPORT_ADDR_HI CP_HQD_PQ_WPTR_POLL_ADDR
    CP_HQD_PQ_WPTR_POLL_ADDR_HI CP_HQD_PQ_DOORBELL_CONTROL CP_HQD_PQ_CONTROL CP_HQD_IB_BASE_ADDR
    CP_HQD_IB_BASE_ADDR_HI CP_HQD_IB_RPTR CP_HQD_IB_CONTROL CP_HQD_IQ_TIMER CP_HQD_IQ_RPTR
    CP_HQD_DMA_OFFLOAD CP_HQD_OFFLOAD CP_HQD_SEMA_CMD CP_HQD_MSG_TYPE CP_HQD_ATOMIC0_PREOP_LO
    CP_HQD_ATOMIC0_PREOP_HI CP_HQD_ATOMIC1_PREOP_LO CP_HQD_ATOMIC1_PREOP_HI CP_HQD_HQ_SCHEDULER0
    CP_HQD_HQ_STATUS0 CP_HQD_HQ_CONTROL0 CP_HQD_HQ_SCHEDULER1 CP_MQD_CONTROL CP_HQD_HQ_STATUS1
    CP_HQD_HQ_CONTROL1 CP_HQD_EOP_BASE_ADDR CP_HQD_EOP_BASE_ADDR_HI CP_HQD_EOP_CONTROL CP_HQD_EOP_RPTR
    CP_HQD_EOP_WPTR CP_HQD_EOP_EVENTS CP_HQD_CTX_SAVE_BASE_ADDR_LO CP_HQD_CTX_SAVE_BASE_ADDR_HI
    CP_HQD_CTX_SAVE_CONTROL CP_HQD_CNTL_STACK_OFFSET CP_HQD_CNTL_STACK_SIZE CP_HQD_WG_STATE_OFFSET
    CP_HQD_CTX_SAVE_SIZE CP_HQD_GDS_RESOURCE_STATE CP_HQD_ERROR CP_HQD_EOP_WPTR_MEM CP_HQD_AQL_CONTROL
    CP_HQD_PQ_WPTR_LO CP_HQD_PQ_WPTR_HI
};

/// The queue that is selected.
fn bank(state: &State, at: At) -> Result<Bank, Broken> {
    let Selected {
        me, pipe, queue, ..
    } = selected(state, at.instance);
    let bank = Bank { me, pipe, queue };
    match has(state, bank) {
        true => Ok(bank),
        false => {
            let name = at.reg.word.name;
            let what = format!("{name} with ME {me}, pipe {pipe}, queue {queue} selected");
            Err((&SELECT, what))
        }
    }
}

/// Whether a chip has a queue.
pub(super) fn has(state: &State, bank: Bank) -> bool {
    let (pipes, queues) = units(state.gfx);
    let mes = if state.gfx == drivers_spec::amd::packet::Gfx::Gfx9 {
        1..=2
    } else {
        1..=1
    };
    let computes = mes.contains(&bank.me) && bank.pipe < pipes && bank.queue < queues;
    computes || mes::has(state.gfx, bank)
}

fn hqd(state: &mut State, at: At) -> Result<&mut Hqd, Broken> {
    let bank = bank(state, at)?;
    Ok(xcc(state, at)?.hqds.entry(bank).or_default())
}

fn read(state: &mut State, at: At) -> Result<u32, Broken> {
    let hqd = hqd(state, at)?;
    let word = hqd.words.get(&at.dword).copied().unwrap_or(0);
    let queue = hqd.active.and_then(|active| active.queue);
    let Some((rptr, wptr)) = queue.and_then(|queue| state.engines.pointers(queue)) else {
        return Ok(word);
    };
    // While the queue is there, its registers tell how far it is.
    Ok(match () {
        () if at.is(&gc::CP_HQD_PQ_RPTR) => rptr as u32,
        () if at.is(&gc::CP_HQD_PQ_WPTR_LO) => wptr as u32,
        () if at.is(&gc::CP_HQD_PQ_WPTR_HI) => (wptr >> 32) as u32,
        () => word,
    })
}

fn write(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let hqd = hqd(state, at)?;
    if hqd.active.is_some() {
        let what = format!("{} is written with {value:#x}", at.reg.word.name);
        return Err((&BUSY, what));
    }
    hqd.words.insert(at.dword, value);
    Ok(())
}

fn read_active(state: &mut State, at: At) -> Result<u32, Broken> {
    let hqd = hqd(state, at)?;
    let Some(Active { queue, .. }) = hqd.active else {
        return Ok(0);
    };
    /// `DEQUEUE_REQUEST`: take packets until there are none. Others end waves.
    const DRAIN: u32 = 1;
    if let Some((how, mut looks)) = hqd.leaves {
        let done = looks.look();
        hqd.leaves = Some((how, looks));
        let is_idle = || queue.is_none_or(|queue| state.engines.is_idle(queue));
        if done && (how != DRAIN || is_idle()) {
            end(state, at)?;
            return Ok(0);
        }
    }
    Ok(1)
}

/// The selected queue is no more. What other XCCs have of it stands still.
fn end(state: &mut State, at: At) -> Result<(), Broken> {
    let hqd = hqd(state, at)?;
    (hqd.leaves, hqd.loaded) = (None, false);
    if let Some(queue) = hqd.active.and_then(|active| active.queue) {
        shared::halt(state, queue);
    }
    self::hqd(state, at)?.active = None;
    Ok(())
}

/// Queues end with their pipe.
pub(super) fn stop(state: &mut State, instance: u8, which: impl Fn(Bank) -> bool) {
    let Some(xcc) = state.graphics.xccs.get_mut(usize::from(instance)) else {
        return;
    };
    let of = xcc.hqds.iter_mut().filter(|(bank, _)| which(**bank));
    let ended: Vec<_> = of.filter_map(|(_, hqd)| hqd.active.take()).collect();
    for queue in ended.into_iter().filter_map(|active| active.queue) {
        shared::halt(state, queue);
    }
}

/// All queues end.
pub(super) fn reset(state: &mut State) {
    for instance in 0..state.graphics.xccs.len() as u8 {
        stop(state, instance, |_| true);
    }
}

fn write_dequeue(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let how = state.field_of(at.reg, value, "dequeue_req");
    let looks = state.waits(Wait::Dequeue);
    let hqd = hqd(state, at)?;
    hqd.words.insert(at.dword, value);
    if hqd.active.is_some() && how != 0 {
        hqd.leaves = Some((how, looks));
    }
    Ok(())
}

/// Waves of the queue end.
fn write_reset(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    bank(state, at)?;
    graphics::is_loaded(state, at)?;
    super::registers::hold(state, at, value)
}

fn write_active(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    graphics::is_loaded(state, at)?;
    let active = value & 1 == 1;
    let is_active = hqd(state, at)?.active.is_some();
    match (is_active, active) {
        (true, _) => Err((&BUSY, format!("CP_HQD_ACTIVE is written with {value:#x}"))),
        (false, false) => Ok(()),
        (false, true) => {
            let bank = bank(state, at)?;
            activate(state, at.instance, bank, false)
        }
    }
}

/// Queues of a driver's own, which another one maps, have no shaders that need apertures where they have VMID 0.
fn activate(state: &mut State, instance: u8, bank: Bank, mapped: bool) -> Result<(), Broken> {
    let xcc = &state.graphics.xccs[usize::from(instance)];
    let is_mes = bank.me == mes::ME;
    let runs = match is_mes {
        true => state.mes.runs(bank.pipe),
        false => xcc.runs(bank.pipe),
    };
    if !runs {
        return Err((&RUNS, format!("pipe {} of ME {}", bank.pipe, bank.me)));
    }
    let view = View {
        state,
        hqd: &xcc.hqds[&bank],
        xcc: instance,
        bank,
    };
    let wanted = view.wanted()?;
    view.check_doorbell(&wanted)?;
    let is_kernels = mapped && wanted.vmid == 0;
    if !is_mes && !is_kernels {
        view.check_memory(wanted.vmid)?;
    }
    view.check_partition()?;
    let is_shared = wanted.kind == QueueKind::Aql && state.graphics.xccs.len() > 1;
    let queue = match is_shared || is_mes {
        true => None,
        false => state.engines.start(&wanted),
    };
    if is_mes {
        mes::begin(state, bank.pipe, wanted.from);
    }
    let xcc = &mut state.graphics.xccs[usize::from(instance)];
    let hqd = xcc.hqds.entry(bank).or_default();
    hqd.active = Some(Active { wanted, queue });
    // What was loaded from its descriptor is not compared with it.
    hqd.loaded = mapped || is_mes;
    if is_shared {
        shared::start(state, bank);
    }
    Ok(())
}

/// A queue becomes active with the registers of its descriptor, from its dword 128 on. Its doorbell is the byte that is told.
pub(super) fn map(
    state: &mut State,
    bank: Bank,
    descriptor: &[u32],
    doorbell: u64,
) -> Result<(), Broken> {
    const FIRST: u64 = 0x80;
    let registers = &state.registers;
    let base = registers.place(&gc::CP_MQD_BASE_ADDR, 0);
    let places = HOOKS.iter().filter_map(|hook| registers.place(hook.reg, 0));
    let words = places.filter_map(|place| {
        let index = FIRST + place.checked_sub(base?)?;
        Some((place, *descriptor.get(index as usize)?))
    });
    let words: BTreeMap<_, _> = words.collect();
    let hqd = state.graphics.xccs[0].hqds.entry(bank).or_default();
    if hqd.active.is_some() {
        return Err((&BUSY, format!("{bank:?} is mapped, and is active")));
    }
    hqd.words = words;
    let view = View {
        state,
        hqd: &state.graphics.xccs[0].hqds[&bank],
        xcc: 0,
        bank,
    };
    let own = view.doorbell();
    if own != doorbell {
        let what = format!("{bank:?} with byte {doorbell:#x}, and {own:#x} in its descriptor");
        return Err((&mes::MAPPED, what));
    }
    activate(state, 0, bank, true)
}

/// Takes queues off, by their place and the byte of their doorbell.
pub(super) fn unmap(state: &mut State, which: impl Fn(Bank, u64) -> bool) {
    let all = state.graphics.xccs[0].hqds.iter();
    let found = all.filter(|(bank, hqd)| {
        let view = View {
            state,
            hqd,
            xcc: 0,
            bank: **bank,
        };
        which(**bank, view.doorbell())
    });
    let found: Vec<_> = found.map(|(bank, _)| *bank).collect();
    stop(state, 0, |bank| found.contains(&bank));
}

/// The ring of an active queue, and its bytes, if a byte of BAR 2 is its doorbell.
pub(super) fn ring_of(state: &State, bank: Bank, doorbell: u64) -> Option<(u64, u64)> {
    let hqd = state.graphics.xccs.first()?.hqds.get(&bank)?;
    let active = hqd.active?;
    (active.wanted.doorbell == doorbell).then_some(active.wanted.ring)
}

/// The doorbell of a queue at a byte of BAR 2. Whether there is one.
pub(super) fn ring(state: &mut State, offset: u64) -> Result<bool, Broken> {
    let mut found = Vec::new();
    for (number, xcc) in state.graphics.xccs.iter().enumerate() {
        for (bank, hqd) in &xcc.hqds {
            let Some(active) = hqd.active else { continue };
            let view = View {
                state,
                hqd,
                xcc: number as u8,
                bank: *bank,
            };
            if view.doorbell() != offset {
                continue;
            }
            if active.queue.is_none() && bank.me != mes::ME {
                let what = format!("XCC {number} has queue {} alone or as another", bank.queue);
                return Err((&shared::SHARED, what));
            }
            if !hqd.loaded {
                view.load(&active.wanted)?;
            }
            found.push((number, *bank));
        }
    }
    for (number, bank) in &found {
        if let Some(hqd) = state.graphics.xccs[*number].hqds.get_mut(bank) {
            hqd.loaded = true;
        }
    }
    Ok(!found.is_empty())
}
