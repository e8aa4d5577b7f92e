//! Proves that no hazard of machine code is open: a scoreboard of its own over all ways through the code.
//!
//! It shares with the pass that writes waits and delays only which registers an instruction touches and which unit
//! runs it. It keeps, for each half of a register, how long ago the arithmetic units wrote it, who may still write or
//! read it, and whether it was written at all; where ways meet it takes the worst.
//!
//! Source: as there, Mesa `ir3_legalize.c` and `ir3_delay.c`.

use std::collections::BTreeSet;
use std::fmt;

use super::inst::Inst;
use super::modifier::Flags;
use super::operand::Value;
use super::table::Op;
use super::units::{self, GENERAL, Touched, UNITS};

/// A rule that machine code breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A register is read that was not written on some way.
    Undefined,
    /// A register is read or written before the result that (ss) waits for is there.
    ShortResult,
    /// The same of (sy).
    LongResult,
    /// A register is written that an earlier instruction may still read.
    LateRead,
    /// A register is read too few slots after the arithmetic units wrote it.
    Delay,
    /// A predicate is read too few slots after it was written.
    PredicateDelay,
    /// A predicate is read that was not written on some way.
    PredicateUndefined,
    /// The instruction behind a barrier does not wait for both, nor do nops between them.
    Barrier,
    /// A branch leaves the code, or the code ends without an end.
    Range,
}

/// Where machine code breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// The rule.
    pub rule: Rule,
    /// The number of the instruction.
    pub at: usize,
    /// Its text.
    pub inst: String,
    /// The register, if it is about one.
    pub register: String,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "instruction {} ({}): {:?}",
            self.at, self.inst, self.rule
        )?;
        if !self.register.is_empty() {
            write!(f, " of {}", self.register)?;
        }
        Ok(())
    }
}

/// Slots after which it makes no difference any more.
const LONG_AGO: u8 = 16;

/// What is known of a half of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unit {
    written: bool,
    /// Slots since the arithmetic units wrote it, as a full and as a half register.
    age: [u8; 2],
    short: bool,
    long: bool,
    /// It may be read yet by what only (ss), or either wait, is for.
    late_short: bool,
    late_any: bool,
}

const UNWRITTEN: Unit = Unit {
    written: false,
    age: [LONG_AGO; 2],
    short: false,
    long: false,
    late_short: false,
    late_any: false,
};

impl Unit {
    fn worst(self, other: Unit) -> Unit {
        Unit {
            written: self.written && other.written,
            age: [self.age[0].min(other.age[0]), self.age[1].min(other.age[1])],
            short: self.short || other.short,
            long: self.long || other.long,
            late_short: self.late_short || other.late_short,
            late_any: self.late_any || other.late_any,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Board {
    units: Vec<Unit>,
    /// Slots since each predicate was written; none if it was not.
    predicates: [Option<u8>; 4],
    /// The waits that are missing since a barrier.
    barrier: Flags,
}

impl Board {
    fn worst(&self, other: &Board) -> Board {
        let pairs = self.units.iter().zip(&other.units);
        let mut predicates = self.predicates;
        for (own, other) in predicates.iter_mut().zip(other.predicates) {
            *own = own.zip(other).map(|(a, b)| a.min(b));
        }
        Board {
            units: pairs.map(|(a, b)| a.worst(*b)).collect(),
            predicates,
            barrier: self.barrier | other.barrier,
        }
    }

    fn pass(&mut self, slots: u8) {
        let later = |age: &mut u8| *age = age.saturating_add(slots).min(LONG_AGO);
        for unit in &mut self.units {
            unit.age.iter_mut().for_each(later);
        }
        self.predicates.iter_mut().flatten().for_each(later);
    }

    /// What the waits of an instruction settle.
    fn wait(&mut self, flags: Flags) {
        self.barrier = self.barrier.without(flags);
        for unit in &mut self.units {
            if flags.has(Flags::SS) {
                unit.short = false;
                unit.late_short = false;
                unit.late_any = false;
            }
            if flags.has(Flags::SY) {
                unit.long = false;
                unit.late_any = false;
            }
        }
    }

    /// The rule that a read breaks.
    fn read(&self, inst: &Inst, t: Touched) -> Option<(Rule, usize)> {
        let alu = units::is_alu(inst);
        let later = units::read_delay(inst, t.at) + if alu { u32::from(t.step) } else { 0 };
        for at in t.units() {
            let unit = self.units[at];
            let rule = match unit {
                Unit { short: true, .. } => Rule::ShortResult,
                Unit { long: true, .. } => Rule::LongResult,
                Unit { written: false, .. } if !self.own(inst, at, t.step) => Rule::Undefined,
                _ => {
                    // Three slots between arithmetic units and registers of one size, else six.
                    let near = |half: bool| if alu && t.half == half { 3 } else { 6 };
                    let early = (0..2).any(|n| u32::from(unit.age[n]) + later < near(n == 1));
                    if !early {
                        continue;
                    }
                    Rule::Delay
                }
            };
            return Some((rule, at));
        }
        None
    }

    /// Whether an earlier repetition writes a unit.
    fn own(&self, inst: &Inst, at: usize, step: u8) -> bool {
        let mut own = false;
        units::writes(inst, |t| own |= t.step < step && t.units().contains(&at));
        own
    }

    fn write(&self, t: Touched) -> Option<(Rule, usize)> {
        t.units().find_map(|at| {
            let unit = self.units[at];
            let rule = match unit {
                Unit { short: true, .. } => Rule::ShortResult,
                Unit { long: true, .. } => Rule::LongResult,
                Unit {
                    late_short: true, ..
                }
                | Unit { late_any: true, .. } => Rule::LateRead,
                _ => return None,
            };
            Some((rule, at))
        })
    }

    /// The rule that an instruction breaks, after its waits.
    fn broken(&self, inst: &Inst) -> Option<(Rule, String)> {
        // Categories 5 and 6 have no bit of (ss): a nop before them has it. Nops that fill slots may have neither (Mesa
        // `legalize_block`).
        if self.barrier != Flags::NONE && inst.op != Op::Nop {
            return Some((Rule::Barrier, String::new()));
        }
        let mut found = None;
        if inst.op != Op::End {
            units::reads(inst, |t| found = found.or(self.read(inst, t)));
        }
        units::writes(inst, |t| found = found.or(self.write(t)));
        if let Some((rule, at)) = found {
            return Some((rule, units::name(at)));
        }
        for src in &inst.srcs {
            let Some(n) = units::predicate(src) else {
                continue;
            };
            let rule = match self.predicates[n] {
                None => Rule::PredicateUndefined,
                Some(0..6) => Rule::PredicateDelay,
                Some(_) => continue,
            };
            return Some((rule, format!("p0.{n}")));
        }
        None
    }

    fn issue(&mut self, inst: &Inst) {
        if units::is_barrier(inst) {
            self.barrier = Flags::SS | Flags::SY;
        }
        let (short, long) = (units::is_ss_producer(inst), units::is_sy_producer(inst));
        if units::reads_late(inst) {
            let only_short = short || units::is_store(inst);
            units::reads(inst, |t| {
                for at in t.units() {
                    self.units[at].late_short |= only_short;
                    self.units[at].late_any |= !only_short;
                }
            });
        }
        let slots = match units::fills(inst) {
            true => 1 + inst.repeat + inst.nop,
            false => 0,
        };
        self.pass(slots);
        let alu = units::is_alu(inst);
        units::writes(inst, |t| {
            for at in t.units() {
                let unit = &mut self.units[at];
                unit.written = true;
                unit.short = short;
                unit.long = long;
                if alu {
                    // Slots since this repetition.
                    unit.age[usize::from(t.half)] = slots - 1 - t.step;
                } else {
                    unit.age = [LONG_AGO; 2];
                }
            }
        });
        for n in inst.dsts.iter().filter_map(units::predicate) {
            self.predicates[n] = Some(slots.saturating_sub(1));
        }
    }
}

/// Where a branch goes.
fn target(insts: &[Inst], at: usize) -> Option<usize> {
    let inst = &insts[at];
    if !matches!(inst.op, Op::Br | Op::Jump) {
        return None;
    }
    match inst.srcs.last().map(|o| o.value) {
        Some(Value::Imm(by)) => usize::try_from(at as i64 + i64::from(by)).ok(),
        _ => None,
    }
}

fn hazard(insts: &[Inst], at: usize, rule: Rule, register: String) -> Hazard {
    Hazard {
        rule,
        at,
        inst: insts.get(at).map_or_else(String::new, ToString::to_string),
        register,
    }
}

/// Checks machine code that begins at its first instruction. `inputs` are the units of registers that are written
/// before: units are halves of registers, two for each full one.
///
/// # Errors
/// The first broken rule.
pub fn check(insts: &[Inst], inputs: &[usize]) -> Result<(), Hazard> {
    let mut leaders: BTreeSet<usize> = BTreeSet::from([0]);
    for (at, inst) in insts.iter().enumerate() {
        if !matches!(inst.op, Op::Br | Op::Jump) {
            continue;
        }
        match target(insts, at) {
            Some(to) if to < insts.len() => leaders.insert(to),
            _ => return Err(hazard(insts, at, Rule::Range, String::new())),
        };
        leaders.insert(at + 1);
    }
    let mut first = Board {
        units: vec![UNWRITTEN; UNITS],
        predicates: [None; 4],
        barrier: Flags::NONE,
    };
    for &at in inputs.iter().filter(|&&at| at < GENERAL) {
        first.units[at].written = true;
    }
    for unit in &mut first.units[GENERAL..] {
        unit.written = true;
    }
    let mut boards: Vec<Option<Board>> = vec![None; insts.len() + 1];
    boards[0] = Some(first);
    let mut work = BTreeSet::from([0]);
    while let Some(start) = work.pop_first() {
        let Some(mut board) = boards[start].clone() else {
            continue;
        };
        let mut at = start;
        let mut next = Vec::new();
        loop {
            let Some(inst) = insts.get(at) else {
                return Err(hazard(insts, at, Rule::Range, String::new()));
            };
            board.wait(inst.flags);
            if let Some((rule, register)) = board.broken(inst) {
                return Err(hazard(insts, at, rule, register));
            }
            board.issue(inst);
            match inst.op {
                Op::End => break,
                Op::Jump => next.extend(target(insts, at)),
                Op::Br => next.extend(target(insts, at).into_iter().chain([at + 1])),
                _ if leaders.contains(&(at + 1)) => next.push(at + 1),
                _ => {
                    at += 1;
                    continue;
                }
            }
            break;
        }
        for to in next {
            let joined = match &boards[to] {
                Some(there) => there.worst(&board),
                None => board.clone(),
            };
            if boards[to].as_ref() != Some(&joined) {
                boards[to] = Some(joined);
                work.insert(to);
            }
        }
    }
    Ok(())
}
