//! Waits and delays: (ss) and (sy) where a result or a late read is outstanding, nops and (nopN) where a result of the
//! arithmetic units is read too early.
//!
//! Source: Mesa `ir3_legalize.c` and `ir3_delay.c`: which producers are waited for how, the hazards of late reads, and
//! slots between two instructions (3 between arithmetic units on registers of one size, 6 elsewhere).

use super::inst::Inst;
use super::modifier::Flags;
use super::table::Op;
use super::units::{self, UNITS, fills, is_alu, predicate, read_delay};
use crate::machine::Bits;

/// A block of instructions in registers.
#[derive(Clone, Debug)]
pub(super) struct Straight {
    pub insts: Vec<Inst>,
    pub next: Vec<usize>,
    /// Fibers that were parked rejoin at its start.
    pub joins: bool,
}

/// Slots from an instruction of the arithmetic units to one that reads its result there, in a register of the same
/// size.
pub(super) const NEAR: u32 = 3;
/// The same to any other.
pub(super) const FAR: u32 = 6;

/// What is outstanding.
#[derive(Clone, PartialEq, Debug)]
struct State {
    ss: Bits,
    sy: Bits,
    /// Registers that are read late by what only (ss) waits for.
    late_ss: Bits,
    /// The same, where (sy) does as well.
    late_any: Bits,
    /// Slots until a register may be read as a full one, a half one, or outside of the arithmetic units.
    ready: [Vec<u32>; 3],
    predicates: [u32; 4],
    /// The next instruction follows a barrier.
    barrier: bool,
}

const FULL: usize = 0;
const HALF: usize = 1;
const OTHER: usize = 2;

impl State {
    fn new() -> State {
        let none = || Bits::new(UNITS);
        State {
            ss: none(),
            sy: none(),
            late_ss: none(),
            late_any: none(),
            ready: [vec![0; UNITS], vec![0; UNITS], vec![0; UNITS]],
            predicates: [0; 4],
            barrier: false,
        }
    }

    /// Whatever may be outstanding on either way; whether there is more now.
    fn join(&mut self, other: &State) -> bool {
        let mut changed = self.ss.join(&other.ss);
        changed |= self.sy.join(&other.sy);
        changed |= self.late_ss.join(&other.late_ss);
        changed |= self.late_any.join(&other.late_any);
        let mut most = |to: &mut u32, from: u32| {
            changed |= from > *to;
            *to = from.max(*to);
        };
        for (to, from) in self.ready.iter_mut().zip(&other.ready) {
            to.iter_mut()
                .zip(from)
                .for_each(|(to, &from)| most(to, from));
        }
        self.predicates
            .iter_mut()
            .zip(other.predicates)
            .for_each(|(to, from)| most(to, from));
        changed |= other.barrier && !self.barrier;
        self.barrier |= other.barrier;
        changed
    }

    fn short_wait(&mut self) {
        self.ss.clear();
        self.late_ss.clear();
        self.late_any.clear();
    }

    fn long_wait(&mut self) {
        self.sy.clear();
        self.late_any.clear();
    }

    fn pass(&mut self, slots: u32) {
        for list in &mut self.ready {
            list.iter_mut().for_each(|r| *r = r.saturating_sub(slots));
        }
        self.predicates
            .iter_mut()
            .for_each(|r| *r = r.saturating_sub(slots));
    }

    /// Which waits an instruction needs.
    fn waits(&self, inst: &Inst) -> Flags {
        let mut flags = Flags::NONE;
        if self.barrier {
            flags = Flags::SS | Flags::SY;
        }
        let mut results = |unit: usize| {
            if self.ss.has(unit) {
                flags |= Flags::SS;
            }
            if self.sy.has(unit) {
                flags |= Flags::SY;
            }
        };
        units::reads(inst, |t| t.units().for_each(&mut results));
        units::writes(inst, |t| t.units().for_each(&mut results));
        units::writes(inst, |t| {
            for unit in t.units() {
                // A wait for the result of the reader is one for its sources, too.
                let any = self.late_any.has(unit) && !flags.has(Flags::SY);
                if self.late_ss.has(unit) || any {
                    flags |= Flags::SS;
                }
            }
        });
        flags
    }

    /// Slots that are missing before an instruction.
    fn missing(&self, inst: &Inst) -> u32 {
        // Nothing is read by it.
        if inst.op == Op::End {
            return 0;
        }
        let alu = is_alu(inst);
        let mut missing = 0;
        units::reads(inst, |t| {
            let kind = match (alu, t.half) {
                (false, _) => OTHER,
                (true, true) => HALF,
                (true, false) => FULL,
            };
            let later = read_delay(inst, t.at) + if alu { u32::from(t.step) } else { 0 };
            for unit in t.units() {
                missing = missing.max(self.ready[kind][unit].saturating_sub(later));
            }
        });
        for src in &inst.srcs {
            if let Some(n) = predicate(src) {
                missing = missing.max(self.predicates[n]);
            }
        }
        missing
    }

    /// What is outstanding after an instruction, whose waits and delays have been seen to.
    fn issue(&mut self, inst: &Inst) {
        self.barrier = units::is_barrier(inst);
        let result = match inst {
            i if units::is_ss_producer(i) => Some(&mut self.ss),
            i if units::is_sy_producer(i) => Some(&mut self.sy),
            _ => None,
        };
        if let Some(set) = result {
            units::writes(inst, |t| {
                t.units().for_each(|unit| {
                    set.add(unit);
                });
            });
        }
        if units::reads_late(inst) {
            let short = units::is_ss_producer(inst) || units::is_store(inst);
            let set = if short {
                &mut self.late_ss
            } else {
                &mut self.late_any
            };
            units::reads(inst, |t| {
                t.units().for_each(|unit| {
                    set.add(unit);
                });
            });
        }
        let alu = is_alu(inst);
        if fills(inst) {
            self.pass(1);
        }
        units::writes(inst, |t| {
            let at = u32::from(t.step);
            for unit in t.units() {
                for (kind, list) in self.ready.iter_mut().enumerate() {
                    let same = kind == if t.half { HALF } else { FULL };
                    list[unit] = match alu {
                        // What is waited for comes after what was written before.
                        false => 0,
                        true if same => list[unit].max(at + NEAR),
                        true => list[unit].max(at + FAR),
                    };
                }
            }
        });
        for dst in &inst.dsts {
            if let Some(n) = predicate(dst) {
                self.predicates[n] = self.predicates[n].max(FAR);
            }
        }
        if fills(inst) {
            self.pass(u32::from(inst.repeat) + u32::from(inst.nop));
        }
    }
}

/// Whether an instruction has the bit of (ss).
fn takes_ss(inst: &Inst) -> bool {
    !matches!(inst.op.category(), 5 | 6)
}

fn nop(repeat: u32) -> Inst {
    let mut inst = Inst::new(Op::Nop);
    inst.repeat = repeat as u8;
    inst
}

/// Writes the waits and delays of a block, given what is outstanding before it; gives what is after it.
fn block(straight: &Straight, state: &State) -> (Vec<Inst>, State) {
    let mut state = state.clone();
    let mut out: Vec<Inst> = Vec::with_capacity(straight.insts.len() * 2);
    for inst in &straight.insts {
        let mut inst = inst.clone();
        let mut flags = state.waits(&inst);
        if flags.has(Flags::SS) {
            state.short_wait();
        }
        if flags.has(Flags::SY) {
            state.long_wait();
        }
        // What follows a barrier has both, also where it is a nop that fills slots.
        let apart = state.barrier && state.missing(&inst) > 0;
        if flags.has(Flags::SS) && (apart || !takes_ss(&inst)) {
            let both = state.barrier && flags.has(Flags::SY);
            let mut carrier = nop(0);
            carrier.flags = if both { flags } else { Flags::SS };
            flags = flags.without(carrier.flags);
            state.issue(&carrier);
            out.push(carrier);
        }
        inst.flags |= flags;
        delay(&mut out, &mut state, &inst);
        state.issue(&inst);
        out.push(inst);
    }
    if straight.joins
        && let Some(first) = out.first_mut()
    {
        first.flags |= Flags::JP;
    }
    (out, state)
}

/// Puts the missing slots into the instruction before, into a nop that is there, or into a new one.
fn delay(out: &mut Vec<Inst>, state: &mut State, inst: &Inst) {
    let mut missing = state.missing(inst);
    if missing == 0 {
        return;
    }
    if let Some(last) = out.last_mut() {
        let room = match last.op {
            Op::Nop => 5 - u32::from(last.repeat),
            op if matches!(op.category(), 2 | 3) && last.repeat == 0 => 3 - u32::from(last.nop),
            _ => 0,
        };
        let more = room.min(missing);
        match last.op {
            Op::Nop => last.repeat += more as u8,
            _ => last.nop += more as u8,
        }
        state.pass(more);
        missing -= more;
    }
    if missing > 0 {
        out.push(nop(missing - 1));
        state.pass(missing);
    }
}

/// Writes the waits and delays of all blocks.
pub(super) fn synchronise(blocks: &mut [Straight]) {
    let mut before: Vec<State> = blocks.iter().map(|_| State::new()).collect();
    let mut work: Vec<usize> = (0..blocks.len()).rev().collect();
    while let Some(at) = work.pop() {
        let (_, after) = block(&blocks[at], &before[at]);
        for &next in &blocks[at].next {
            if before[next].join(&after) && !work.contains(&next) {
                work.push(next);
            }
        }
    }
    for (straight, state) in blocks.iter_mut().zip(&before) {
        straight.insts = block(straight, state).0;
    }
}
