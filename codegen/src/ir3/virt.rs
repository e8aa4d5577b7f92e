//! Instructions of virtual registers: what selection makes, and allocation turns into [`Inst`].

use super::inst::Inst;
use super::modifier::{Cond, Flags, Mods, Type};
use super::operand::{Operand, Reg, Value as Place};
use super::table::Op;
use crate::machine::{self, Access, Class, Instruction, Part};

/// Full registers, of 32 bits.
pub const FULL: Class = Class(0);
/// Half registers, of 16 bits: halves of full ones, up to hr47.
pub const HALF: Class = Class(1);

/// What a source names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Name {
    /// Lanes of a value.
    Part(Part),
    /// A register that the wave shares.
    Shared(Reg),
    /// A component of p0.
    Predicate(u8),
    /// A constant, by its number of components.
    Const(u16),
    /// An integer, or the bits of a mov.
    Imm(i32),
    /// A float of the table.
    Float(u8),
}

/// A source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Src {
    /// What it names.
    pub name: Name,
    /// It is negated; see [`Operand::neg`].
    pub neg: bool,
    /// Its magnitude counts.
    pub abs: bool,
    /// It advances with each repetition.
    pub advances: bool,
}

impl Src {
    /// A source without modifiers.
    pub const fn new(name: Name) -> Src {
        Src {
            name,
            neg: false,
            abs: false,
            advances: false,
        }
    }

    /// Lanes of a value.
    pub const fn part(part: Part) -> Src {
        Src::new(Name::Part(part))
    }

    /// An integer.
    pub const fn imm(value: i32) -> Src {
        Src::new(Name::Imm(value))
    }
}

/// A destination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dst {
    /// Nothing.
    None,
    /// Lanes of a value.
    Part(Part),
    /// A component of p0.
    Predicate(u8),
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// The operation.
    pub op: Op,
    /// Its flags; waits are not among them yet.
    pub flags: Flags,
    /// It runs this many more times.
    pub repeat: u8,
    /// Types and the like.
    pub mods: Mods,
    /// What it writes.
    pub dst: Dst,
    /// What it reads.
    pub srcs: Vec<Src>,
    /// Where a branch goes: the number of a block.
    pub target: Option<usize>,
}

impl Code {
    /// An instruction.
    pub fn new(op: Op, dst: Dst, srcs: Vec<Src>) -> Code {
        Code {
            op,
            flags: Flags::NONE,
            repeat: 0,
            mods: Mods::default(),
            dst,
            srcs,
            target: None,
        }
    }

    /// A mov, or a conversion.
    pub fn mov(to: Type, from: Type, dst: Part, src: Src) -> Code {
        let mut code = Code::new(Op::Mov, Dst::Part(dst), vec![src]);
        code.mods.ty = Some(to);
        code.mods.src_ty = Some(from);
        code
    }

    /// A comparison.
    pub fn compare(op: Op, cond: Cond, dst: Dst, srcs: Vec<Src>) -> Code {
        let mut code = Code::new(op, dst, srcs);
        code.mods.cond = Some(cond);
        code
    }

    /// The same, repeated.
    #[must_use]
    pub fn repeated(mut self, more: u8) -> Code {
        self.repeat = more;
        self
    }

    /// Whether it ends a block.
    pub fn ends(&self) -> bool {
        matches!(self.op, Op::Br | Op::Jump | Op::End)
    }
}

impl Instruction for Code {
    fn accesses(&self, see: &mut dyn FnMut(Access)) {
        for src in &self.srcs {
            let Name::Part(part) = src.name else { continue };
            spread(part, self.repeat, src.advances, false, see);
        }
        if let Dst::Part(part) = self.dst {
            spread(part, self.repeat, true, true, see);
        }
    }

    fn copies(&self) -> Option<(Part, Part)> {
        let (Op::Mov, Dst::Part(to), [src]) = (self.op, self.dst, self.srcs.as_slice()) else {
            return None;
        };
        let plain = self.mods.ty == self.mods.src_ty && !src.neg && !src.abs;
        match src.name {
            Name::Part(from) if plain && from.lanes == to.lanes => Some((to, from)),
            _ => None,
        }
    }

    fn rename(&mut self, by: &mut dyn FnMut(Part, bool) -> Part) {
        for src in &mut self.srcs {
            if let Name::Part(part) = &mut src.name {
                *part = by(*part, false);
            }
        }
        if let Dst::Part(part) = &mut self.dst {
            *part = by(*part, true);
        }
    }

    fn steps(&self) -> u8 {
        self.repeat + 1
    }
}

/// The lanes of an operand, each in its step: those of a repeated instruction one by one.
fn spread(part: Part, repeat: u8, advances: bool, writes: bool, see: &mut dyn FnMut(Access)) {
    if repeat == 0 {
        return see(Access {
            part,
            writes,
            step: 0,
        });
    }
    for (step, part) in (0..=repeat).zip(part.each().chain(std::iter::repeat(part))) {
        see(Access {
            part: if advances {
                part
            } else {
                Part::of(part.value, part.lane)
            },
            writes,
            step,
        });
    }
}

/// A function of them.
pub type Function = machine::Function<Code>;

/// Turns an instruction into one of registers; `unit` says where a value is.
pub(super) fn place(code: &Code, unit: &impl Fn(Part) -> (u32, Class), offset: i32) -> Inst {
    let mut inst = Inst::new(code.op);
    inst.flags = code.flags;
    inst.repeat = code.repeat;
    inst.mods = code.mods;
    // In the text of accesses to local and private memory all registers are full ones.
    let plain = matches!(code.op, Op::Ldl | Op::Stl | Op::Stp);
    let register = |part: Part| {
        let (unit, class) = unit(part);
        match class == HALF {
            true if plain => Operand::reg(Reg(unit as u8)),
            true => Operand::half_reg(Reg(unit as u8)),
            false => Operand::reg(Reg((unit / 2) as u8)),
        }
    };
    let half = halves(code, &|part| unit(part).1 == HALF);
    match code.dst {
        Dst::None => {}
        Dst::Part(part) => inst.dsts.push(register(part)),
        Dst::Predicate(n) => inst.dsts.push(Operand::reg(Reg::p(n & 3))),
    }
    for src in &code.srcs {
        let mut operand = match src.name {
            Name::Part(part) => register(part),
            Name::Shared(reg) => Operand::reg(reg),
            Name::Predicate(n) => Operand::reg(Reg::p(n & 3)),
            Name::Const(n) => Operand::new(Place::Const(n)),
            Name::Imm(n) => Operand::imm(n),
            Name::Float(n) => Operand::new(Place::Float(n)),
        };
        if matches!(src.name, Name::Const(_) | Name::Imm(_) | Name::Float(_)) {
            operand.half = half;
        }
        operand.neg = src.neg;
        operand.abs = src.abs;
        operand.advances = src.advances;
        inst.srcs.push(operand);
    }
    if code.target.is_some() {
        inst.srcs.push(Operand::imm(offset));
    }
    inst
}

/// Whether sources that are no registers have 16 bits.
fn halves(code: &Code, is_half: &impl Fn(Part) -> bool) -> bool {
    match code.op.category() {
        1 => match code.srcs.first().map(|s| s.name) {
            Some(Name::Const(_)) => code.mods.src_ty.is_some_and(Type::is_half),
            _ => false,
        },
        2 | 3 => code
            .srcs
            .iter()
            .any(|s| matches!(s.name, Name::Part(part) if is_half(part))),
        _ => false,
    }
}
