//! A program, lowered.

use super::flow::TRUE;
use super::source::{Condition, Reading, condition};
use super::uses::Uses;
use super::{
    access, atomic, bulk, convert, copy, double, exchange, flow, half, integer, long, matrix, pack,
    phase, single, tile, warpgroup,
};
use crate::operand::{Kind, Role};
use crate::{Chip, Inst, decode};

/// Why an instruction cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {why}")]
pub struct Refusal {
    /// The instruction.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl Refusal {
    pub(crate) fn new(inst: &Inst, why: impl Into<String>) -> Self {
        Self {
            text: inst.to_string(),
            why: why.into(),
        }
    }
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Integer(integer::Op),
    Long(long::Op),
    Single(single::Op),
    Double(double::Op),
    Half(half::Op),
    Convert(convert::Op),
    Pack(pack::Op),
    Access(access::Op),
    Atomic(atomic::Op),
    Phase(phase::Op),
    Copy(copy::Op),
    Bulk(bulk::Op),
    Tile(tile::Op),
    Matrix(matrix::Op),
    Product(warpgroup::Op),
    Exchange(exchange::Op),
    Flow(flow::Op),
    Refused(Box<Refusal>),
}

/// An instruction, lowered.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub guard: Condition,
    /// Whether it runs once for the warp.
    pub uniform: bool,
    pub what: What,
    /// One more than the highest register that it uses.
    pub registers: u16,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) steps: Vec<Step>,
    /// What control words are about, of each step.
    pub(crate) uses: Vec<Uses>,
    /// How many registers it uses.
    pub(crate) registers: u16,
    /// The end of what it reads of each bank of constant memory at places that it names.
    pub(crate) constants: [usize; 32],
    /// Whether four warps compute products together.
    pub(crate) products: bool,
    /// Whether something beside its warps reads shared memory.
    pub(crate) fences: bool,
}

impl Program {
    /// Lowers the instructions of a program, each 16 bytes. What cannot be run is no error before it
    /// is reached.
    pub fn new(chip: Chip, words: &[u128]) -> Self {
        let (steps, uses): (Vec<_>, Vec<_>) = words
            .iter()
            .enumerate()
            .map(|(at, &word)| match decode(chip, word) {
                Ok(inst) => (step(chip, &inst, at), Uses::of(chip, &inst)),
                Err(error) => (refused(word, error.to_string()), Uses::default()),
            })
            .unzip();
        let constants = constants(chip, words, &steps);
        let registers = steps.iter().map(|step| step.registers).max();
        let product = |step: &Step| matches!(step.what, What::Product(_));
        let bulk = |step: &Step| matches!(step.what, What::Bulk(_));
        Self {
            products: steps.iter().any(product),
            fences: steps.iter().any(|step| product(step) || bulk(step)),
            steps,
            uses,
            registers: registers.unwrap_or(0),
            constants,
        }
    }

    /// How many registers of a thread it uses.
    pub fn registers(&self) -> u16 {
        self.registers
    }

    /// What cannot be run, with the byte at which it lies.
    pub fn refusals(&self) -> impl Iterator<Item = (u64, &Refusal)> {
        self.steps
            .iter()
            .zip(0..)
            .filter_map(|(step, at)| match &step.what {
                What::Refused(refusal) => Some((16 * at, &**refusal)),
                _ => None,
            })
    }
}

/// The end of what instructions that may run read of each bank of constant memory at places that they
/// name. Behind a program others may lie, which have constants of their own.
fn constants(chip: Chip, words: &[u128], steps: &[Step]) -> [usize; 32] {
    let mut ends = [0; 32];
    let name = |at: usize| decode(chip, words[at]).map_or("", |inst| inst.name);
    let reached = reached(steps, name);
    let words = words.iter().zip(reached).filter(|(_, reached)| *reached);
    for inst in words.filter_map(|(&word, _)| decode(chip, word).ok()) {
        for operand in &inst.operands {
            if let Kind::Constant(bank, at, None) = operand.kind {
                let end = usize::from(at.cast_unsigned()) + 4 * usize::from(operand.width);
                let bank = &mut ends[usize::from(bank)];
                *bank = end.max(*bank);
            }
        }
    }
    ends
}

/// Which instructions may run: all of them, where an address in registers says where it goes on. What is called
/// goes back behind its call.
fn reached(steps: &[Step], name: impl Fn(usize) -> &'static str) -> Vec<bool> {
    let mut reached = vec![false; steps.len()];
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        let Some(seen) = reached.get_mut(at) else {
            continue;
        };
        if std::mem::replace(seen, true) {
            continue;
        }
        let step = &steps[at];
        let always = |when: &Condition| *when == TRUE && step.guard == TRUE;
        let ends = match &step.what {
            What::Flow(flow::Op::Jump { when, .. }) if name(at) == "RET" => always(when),
            What::Flow(flow::Op::Jump { .. }) => return vec![true; steps.len()],
            What::Flow(flow::Op::Branch { to, .. }) if name(at) == "CALL" => {
                open.push(*to as usize);
                false
            }
            What::Flow(flow::Op::Branch { when, to, .. }) => {
                open.push(*to as usize);
                when.iter().all(always)
            }
            What::Flow(flow::Op::Gathered { to, .. }) => {
                open.push(*to as usize);
                false
            }
            What::Flow(flow::Op::Exit { when }) => always(when),
            _ => false,
        };
        if !ends {
            open.push(at + 1);
        }
    }
    reached
}

/// A word that is no instruction.
fn refused(word: u128, why: String) -> Step {
    Step {
        guard: Condition {
            uniform: false,
            number: 7,
            inverted: false,
        },
        uniform: false,
        registers: 0,
        what: What::Refused(Box::new(Refusal {
            text: format!("{word:#034x}"),
            why,
        })),
    }
}

fn step(chip: Chip, inst: &Inst, at: usize) -> Step {
    let uniform = matches!(inst.guard.kind, Kind::UniformPredicate(_));
    let guard = condition(&inst.guard);
    Step {
        guard: guard.unwrap_or(Condition {
            uniform,
            number: 7,
            inverted: false,
        }),
        uniform,
        registers: [Role::Read, Role::Write]
            .into_iter()
            .flat_map(|role| inst.registers(role))
            .map(|n| u16::from(n) + 1)
            .max()
            .unwrap_or(0),
        what: lower(chip, inst, uniform, at)
            .unwrap_or_else(|refusal| What::Refused(Box::new(refusal))),
    }
}

fn lower(chip: Chip, inst: &Inst, uniform: bool, at: usize) -> Result<What, Refusal> {
    // Arithmetic for the warp is that of lanes which all do the same.
    let name = inst
        .name
        .strip_prefix('U')
        .filter(|_| uniform)
        .unwrap_or(inst.name);
    let r = &mut Reading::new(inst);
    macro_rules! one_of {
        ($($what:ident: $lowered:expr),*) => {
            $(if let Some(op) = $lowered? {
                return Ok(What::$what(op));
            })*
        };
    }
    one_of!(
        Long: long::lower(name, r),
        Integer: integer::lower(name, r),
        Single: single::lower(name, r),
        Double: double::lower(name, r),
        Half: half::lower(name, r),
        Convert: convert::lower(name, r),
        Pack: pack::lower(name, r),
        Access: access::lower(name, r),
        Atomic: atomic::lower(name, r),
        Phase: phase::lower(name, r),
        Copy: copy::lower(name, r),
        Bulk: bulk::lower(name, r),
        Tile: tile::lower(name, r),
        Matrix: matrix::lower(chip, name, r),
        Product: warpgroup::lower(name, r),
        Exchange: exchange::lower(name, r),
        Flow: flow::lower(name, r, at)
    );
    Err(r.refuse("it is not modelled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(guard: Condition, op: flow::Op) -> Step {
        Step {
            guard,
            uniform: false,
            what: What::Flow(op),
            registers: 0,
        }
    }

    #[test]
    fn what_lies_behind_a_program_is_not_part_of_it() {
        let maybe = Condition { number: 0, ..TRUE };
        let exit = |guard| flow(guard, flow::Op::Exit { when: TRUE });
        let nothing = || flow(TRUE, flow::Op::Nothing);
        let branch = |guard, to| {
            let when = [TRUE; 2];
            flow(
                guard,
                flow::Op::Branch {
                    when,
                    to,
                    any: false,
                },
            )
        };
        let of = |steps: &[Step]| reached(steps, |_| "");
        assert_eq!(of(&[nothing(), exit(TRUE), nothing()]), [true, true, false]);
        assert_eq!(
            of(&[exit(maybe), exit(TRUE), nothing()]),
            [true, true, false]
        );
        assert_eq!(
            of(&[branch(TRUE, 2), nothing(), exit(TRUE), nothing()]),
            [true, false, true, false]
        );
        assert_eq!(
            of(&[branch(maybe, 3), exit(TRUE), nothing(), branch(TRUE, 0)]),
            [true, true, false, true]
        );
        // Who knows where it goes.
        let jump = flow::Op::Jump {
            when: TRUE,
            base: 2,
            offset: 0,
        };
        assert_eq!(of(&[flow(TRUE, jump), nothing()]), [true, true]);
        // A function, which goes back to where it was called.
        let jump = flow::Op::Jump {
            when: TRUE,
            base: 2,
            offset: 0,
        };
        let steps = [branch(TRUE, 2), exit(TRUE), flow(TRUE, jump), nothing()];
        let name = |at: usize| ["CALL", "EXIT", "RET", "NOP"][at];
        assert_eq!(reached(&steps, name), [true, true, true, false]);
    }
}
