//! What the scheduler asks of Adreno 6xx, before and after allocation.
//!
//! Latencies: Mesa `ir3_delay.c` for the arithmetic units; of what is waited for, the estimates of `soft_ss_delay` and
//! `soft_sy_delay` there: 10 slots for (ss), and for (sy) as many as there may be.

use super::inst::Inst;
use super::sync::{FAR, NEAR};
use super::table::Op;
use super::units::{self, UNITS, predicate};
use super::virt::{Code, Dst, FULL, Function, HALF, Name};
use crate::machine::live::Live;
use crate::machine::schedule::{Machine, Pressure, Touch, Units, order, permute};
use crate::machine::{Access, Instruction, Lanes, Shape};

/// Slots until a result that (ss) waits for may be there.
const SHORT: u32 = 10;
/// The same of (sy): about as long as a wave can be kept busy.
const LONG: u32 = 100;

/// What instructions touch beside registers.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum Beside {
    /// Four predicates come first.
    Global = 4,
    Local = 5,
    Private = 6,
}

/// The memory that an operation touches, and whether it writes there. Images are what no instruction of a kernel writes:
/// nothing orders their loads.
fn memory(op: Op) -> Option<(Beside, bool)> {
    match op {
        Op::Ldg | Op::LdgA => Some((Beside::Global, false)),
        Op::Stg | Op::StgA => Some((Beside::Global, true)),
        Op::Ldl => Some((Beside::Local, false)),
        Op::Stl => Some((Beside::Local, true)),
        Op::Ldp => Some((Beside::Private, false)),
        Op::Stp => Some((Beside::Private, true)),
        op if units::is_global_atomic(op) => Some((Beside::Global, true)),
        op if units::is_local_atomic(op) => Some((Beside::Local, true)),
        _ => None,
    }
}

fn fence(op: Op) -> bool {
    matches!(op, Op::Br | Op::Jump | Op::End)
}

/// What orders memory, and leaves arithmetic where it is.
fn orders(op: Op) -> bool {
    matches!(op, Op::Bar | Op::Fence)
}

/// Slots from a producer to the consumer of its result in a register of the same size.
fn latency(from: Op, to: Op) -> u32 {
    match from.category() {
        1..=3 => match to.category() {
            1..=3 => NEAR + 1,
            _ => FAR + 1,
        },
        4 => SHORT,
        5 | 6 => match from {
            Op::Ldl => SHORT,
            op if units::is_local_atomic(op) => SHORT,
            _ => LONG,
        },
        _ => 1,
    }
}

/// Before allocation: lanes of values.
struct Virtual<'a> {
    lanes: &'a Lanes,
}

impl Machine<Code> for Virtual<'_> {
    fn touches(&self, code: &Code, see: &mut dyn FnMut(Touch)) {
        let beside = self.lanes.count() as u32;
        let mut touch = |resource: u32, writes: bool| see(Touch { resource, writes });
        code.accesses(&mut |Access { part, writes, .. }| {
            for lane in self.lanes.of(part) {
                touch(lane as u32, writes);
            }
        });
        for src in &code.srcs {
            if let Name::Predicate(n) = src.name {
                touch(beside + u32::from(n), false);
            }
        }
        if let Dst::Predicate(n) = code.dst {
            touch(beside + u32::from(n), true);
        }
        if let Some((space, writes)) = memory(code.op) {
            touch(beside + space as u32, writes);
        }
        if orders(code.op) {
            for space in [Beside::Global, Beside::Local] {
                touch(beside + space as u32, true);
            }
        }
    }

    fn delay(&self, from: &Code, to: &Code, resource: u32) -> u32 {
        let beside = resource as usize >= self.lanes.count();
        match beside && from.op.category() != 2 {
            true => 1,
            false => latency(from.op, to.op),
        }
    }

    fn slots(&self, code: &Code) -> u32 {
        u32::from(code.repeat) + 1
    }

    fn fence(&self, code: &Code) -> bool {
        fence(code.op)
    }
}

/// Units of each lane.
#[derive(Debug)]
struct Sizes(Vec<u8>);

impl Units for Sizes {
    fn of(&self, resource: u32) -> u32 {
        self.0.get(resource as usize).copied().map_or(0, u32::from)
    }
}

/// Orders the blocks of a function of values, keeping below so many units where it can.
pub(super) fn before_allocation(f: &mut Function, limit: u32) {
    let live = Live::of(f);
    let units = |s: &Shape| if s.class == HALF { 1 } else { 2 };
    let sizes = f
        .shapes
        .iter()
        .flat_map(|s| vec![units(s); usize::from(s.lanes)]);
    let sizes = Sizes(sizes.collect());
    let machine = Virtual { lanes: &live.lanes };
    for (at, block) in f.blocks.iter_mut().enumerate() {
        let insts = std::mem::take(&mut block.insts);
        let pressure = Pressure {
            after: &live.at_end[at],
            before: &live.at_start[at],
            units: &sizes,
            limit,
        };
        let order = order(&insts, &machine, Some(pressure));
        block.insts = permute(insts, &order);
    }
}

/// After allocation: units of registers.
struct Physical;

impl Machine<Inst> for Physical {
    fn touches(&self, inst: &Inst, see: &mut dyn FnMut(Touch)) {
        let beside = UNITS as u32;
        units::reads(inst, |t| {
            t.units().for_each(|unit| {
                see(Touch {
                    resource: unit as u32,
                    writes: false,
                });
            });
        });
        units::writes(inst, |t| {
            t.units().for_each(|unit| {
                see(Touch {
                    resource: unit as u32,
                    writes: true,
                });
            });
        });
        let mut touch = |resource: u32, writes: bool| see(Touch { resource, writes });
        for n in inst.srcs.iter().filter_map(predicate) {
            touch(beside + n as u32, false);
        }
        for n in inst.dsts.iter().filter_map(predicate) {
            touch(beside + n as u32, true);
        }
        if let Some((space, writes)) = memory(inst.op) {
            touch(beside + space as u32, writes);
        }
        if orders(inst.op) {
            for space in [Beside::Global, Beside::Local] {
                touch(beside + space as u32, true);
            }
        }
    }

    fn delay(&self, from: &Inst, to: &Inst, resource: u32) -> u32 {
        if resource as usize >= UNITS && from.op.category() != 2 {
            return 1;
        }
        let delay = latency(from.op, to.op);
        if from.op.category() > 3 {
            return delay;
        }
        // Repetitions write and read one after the other.
        let unit = resource as usize;
        let (mut written, mut read) = (0, u32::MAX);
        units::writes(from, |t| {
            if t.units().contains(&unit) {
                written = u32::from(t.step);
            }
        });
        units::reads(to, |t| {
            if t.units().contains(&unit) {
                let later = if units::is_alu(to) {
                    u32::from(t.step)
                } else {
                    0
                };
                read = read.min(later + units::read_delay(to, t.at));
            }
        });
        let read = if read == u32::MAX { 0 } else { read };
        (written + delay).saturating_sub(read).max(1)
    }

    fn reuse(&self, from: &Inst, _: &Inst) -> u32 {
        // Otherwise the writer waits.
        if units::reads_late(from) { SHORT } else { 1 }
    }

    fn slots(&self, inst: &Inst) -> u32 {
        u32::from(inst.repeat) + 1
    }

    fn fence(&self, inst: &Inst) -> bool {
        fence(inst.op)
    }
}

/// Orders instructions in registers, to fill slots.
pub(super) fn after_allocation(insts: Vec<Inst>) -> Vec<Inst> {
    let order = order(&insts, &Physical, None);
    permute(insts, &order)
}

/// The lanes of a part as full or half registers, for spills.
pub(super) fn type_of(shape: Shape) -> super::Type {
    match shape.class {
        FULL => super::Type::U32,
        _ => super::Type::U16,
    }
}
