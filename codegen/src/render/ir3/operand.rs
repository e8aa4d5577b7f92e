//! Operands: where they are, and what a place in an instruction takes; what it does not take is moved to a register or to
//! the constant file first.
//!
//! Source of what is legal: Mesa `ir3.c`, `ir3_valid_flags`; see `crate::ir3` (`legal.rs`).

use super::{CONSTANTS, Select};
use crate::ir3::virt::{Code, Dst, FULL, Name, Src};
use crate::ir3::{Op, Reg as Register, Type};
use crate::machine::{Class, Part};

/// Where an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum At {
    /// A lane of a value.
    Part(Part),
    /// A constant of the file.
    Const(u16),
    /// Its bits.
    Bits(u32),
    /// A register that the wave shares.
    Shared(Register),
}

/// One word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Opnd {
    pub at: At,
    /// The float is negated, after its magnitude was taken.
    pub neg: bool,
    pub abs: bool,
}

impl Opnd {
    pub const fn new(at: At) -> Opnd {
        Opnd {
            at,
            neg: false,
            abs: false,
        }
    }

    pub const fn bits(bits: u32) -> Opnd {
        Opnd::new(At::Bits(bits))
    }

    pub const fn float(x: f32) -> Opnd {
        Opnd::bits(x.to_bits())
    }

    pub const fn part(part: Part) -> Opnd {
        Opnd::new(At::Part(part))
    }

    pub fn known(self) -> Option<u32> {
        match self {
            Opnd {
                at: At::Bits(bits),
                neg: false,
                abs: false,
            } => Some(bits),
            _ => None,
        }
    }
}

/// Words of lanes.
pub(super) type List = Vec<Opnd>;

/// Sources by place and operand.
pub(super) type Known = Vec<((usize, Opnd), Src)>;

/// Floats of the table, as bits of `f32` and of `f16` (Mesa `ir3-common.xml`, `#flut`).
const TABLE: [(u32, u32); 12] = [
    (0x0000_0000, 0x0000),
    (0x3f00_0000, 0x3800),
    (0x3f80_0000, 0x3c00),
    (0x4000_0000, 0x4000),
    (0x402d_f854, 0x4170),
    (0x4049_0fdb, 0x4248),
    (0x3ea2_f983, 0x3518),
    (0x3f31_7218, 0x398c),
    (0x3fb8_aa3b, 0x3dc5),
    (0x3e9a_209b, 0x34d1),
    (0x4054_9a78, 0x42a5),
    (0x4080_0000, 0x4400),
];

/// Constants that stay in registers, at most.
const HELD: usize = 16;

/// What a place in an instruction takes beside registers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Takes {
    /// Constants and shared registers.
    uniform: bool,
    /// Integers from -511 to 511.
    integer: bool,
    /// Floats of the table.
    float: bool,
    neg: bool,
    abs: bool,
}

const NOTHING: Takes = Takes {
    uniform: false,
    integer: false,
    float: false,
    neg: false,
    abs: false,
};

fn is_float_op(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        AddF | MinF | MaxF | MulF | SignF | CmpsF | AbsnegF | FloorF | CeilF | RndneF | TruncF
    )
}

/// What lies in the constant file for a float of 16 bits: operations on half registers read a single-precision one, and
/// round it (CONSTANT_DEMOTION; Mesa `tu_shader.cc`, `ir3_compiler.c`).
fn widened(op: Op, bits: u32) -> Option<u32> {
    let float = half::f16::from_bits(bits as u16);
    let plain = float.is_normal() || bits & 0x7fff == 0;
    (plain && (is_float_op(op) || op == Op::MadF16)).then(|| f32::from(float).to_bits())
}

fn takes(op: Op, at: usize) -> Takes {
    use Op::*;
    match op.category() {
        1 => Takes {
            uniform: true,
            ..NOTHING
        },
        2 => {
            let float = is_float_op(op);
            Takes {
                uniform: true,
                integer: !float,
                float,
                neg: float,
                abs: float,
            }
        }
        3 => Takes {
            uniform: at != 1,
            neg: matches!(op, MadF16 | MadF32),
            ..NOTHING
        },
        4 => Takes {
            neg: true,
            abs: true,
            ..NOTHING
        },
        _ => NOTHING,
    }
}

impl Select<'_> {
    /// The place of a constant in the file.
    pub(super) fn constant(&mut self, bits: u32) -> Option<u16> {
        if let Some(&at) = self.constants.get(&bits) {
            return Some(at);
        }
        if self.file.len() >= CONSTANTS {
            return None;
        }
        let at = self.file.len() as u16;
        self.file.push(bits);
        self.constants.insert(bits, at);
        Some(at)
    }

    fn move_type(class: Class) -> Type {
        if class == FULL { Type::U32 } else { Type::U16 }
    }

    /// Copies a word to a lane.
    pub(super) fn move_to(&mut self, class: Class, to: Part, from: Opnd) {
        if from.neg || from.abs {
            let src = self.source(Op::AbsnegF, 0, class, from);
            self.emit(Code::new(Op::AbsnegF, Dst::Part(to), vec![src]));
            return;
        }
        let ty = Self::move_type(class);
        let src = match from.at {
            At::Part(part) => Src::part(part),
            At::Const(n) => Src::new(Name::Const(n)),
            At::Bits(bits) => Src::imm(bits as i32),
            At::Shared(reg) => Src::new(Name::Shared(reg)),
        };
        self.emit(Code::mov(ty, ty, to, src));
    }

    /// The word in a register, without signs.
    pub(super) fn register(&mut self, class: Class, from: Opnd) -> Part {
        match from {
            Opnd {
                at: At::Part(part),
                neg: false,
                abs: false,
            } => part,
            Opnd {
                at: At::Bits(bits),
                neg: false,
                abs: false,
            } if self.depth > 0 => self.held(class, bits),
            Opnd {
                at: At::Shared(reg),
                neg: false,
                abs: false,
            } => self.own_copy(reg),
            _ => {
                let to = self.lane(class);
                self.move_to(class, to, from);
                to
            }
        }
    }

    /// What the wave shares, for operands that take registers of the fiber only: it is copied once, at the entry.
    fn own_copy(&mut self, shared: Register) -> Part {
        if let Some(&part) = self.copies.get(&shared) {
            return part;
        }
        let to = self.lane(FULL);
        let from = Src::new(Name::Shared(shared));
        self.entry.push(Code::mov(Type::U32, Type::U32, to, from));
        self.copies.insert(shared, to);
        to
    }

    /// Bits that a loop has in a register: it is written once, at the entry.
    fn held(&mut self, class: Class, bits: u32) -> Part {
        if let Some(&part) = self.held.get(&(class, bits)) {
            return part;
        }
        let to = self.lane(class);
        if self.held.len() >= HELD {
            self.move_to(class, to, Opnd::bits(bits));
            return to;
        }
        let ty = Self::move_type(class);
        self.entry
            .push(Code::mov(ty, ty, to, Src::imm(bits as i32)));
        self.held.insert((class, bits), to);
        to
    }

    /// An operand as a place in an instruction takes it.
    fn source(&mut self, op: Op, at: usize, class: Class, from: Opnd) -> Src {
        let takes = takes(op, at);
        let signs = (!from.neg || takes.neg) && (!from.abs || takes.abs);
        if !signs {
            let part = self.register(class, from);
            return Src::part(part);
        }
        let plain = Opnd::new(from.at);
        let name = match from.at {
            At::Part(part) => Name::Part(part),
            At::Const(n) if takes.uniform && class == FULL => Name::Const(n),
            At::Shared(reg) if takes.uniform && class == FULL => Name::Shared(reg),
            At::Bits(bits) => self.immediate(takes, op, class, bits),
            _ => Name::Part(self.register(class, plain)),
        };
        let inside = matches!(name, Name::Imm(_) | Name::Float(_));
        if inside && (from.neg || from.abs) {
            let part = self.lane(class);
            self.move_to(class, part, plain);
            return Src {
                neg: from.neg,
                abs: from.abs,
                ..Src::part(part)
            };
        }
        Src {
            neg: from.neg,
            abs: from.abs,
            ..Src::new(name)
        }
    }

    /// Bits as an immediate, a constant or a register.
    fn immediate(&mut self, takes: Takes, op: Op, class: Class, bits: u32) -> Name {
        if op.category() == 1 {
            return Name::Imm(bits as i32);
        }
        if takes.integer && (-511..=511).contains(&(bits as i32)) {
            return Name::Imm(bits as i32);
        }
        if takes.float {
            let same = |row: &(u32, u32)| {
                if class == FULL {
                    row.0 == bits
                } else {
                    row.1 == bits
                }
            };
            if let Some(at) = TABLE.iter().position(same) {
                return Name::Float(at as u8);
            }
        }
        let word = match class {
            FULL => Some(bits),
            _ => widened(op, bits),
        };
        if takes.uniform
            && let Some(at) = word.and_then(|word| self.constant(word))
        {
            return Name::Const(at);
        }
        Name::Part(self.register(class, Opnd::bits(bits)))
    }

    /// Operands of one instruction: at most one is uniform and at most one immediate in category 2.
    /// `known` are sources of other lanes: what was moved for one is there for all.
    pub(super) fn sources(
        &mut self,
        (op, class): (Op, Class),
        operands: &[Opnd],
        known: &mut Known,
    ) -> Vec<Src> {
        let mut out: Vec<Src> = Vec::with_capacity(operands.len());
        for (at, &operand) in operands.iter().enumerate() {
            let found = known.iter().find(|(key, _)| *key == (at, operand));
            if let Some(&(_, src)) = found {
                out.push(src);
                continue;
            }
            let mut src = self.source(op, at, class, operand);
            let kind = |s: &Src| match s.name {
                Name::Const(_) | Name::Shared(_) => 1,
                Name::Imm(_) | Name::Float(_) => 2,
                _ => 0,
            };
            let taken = out.iter().any(|other| kind(other) == kind(&src));
            if op.category() == 2 && kind(&src) != 0 && taken {
                let part = self.lane(class);
                self.move_to(class, part, Opnd::new(operand.at));
                src = Src {
                    neg: src.neg,
                    abs: src.abs,
                    ..Src::part(part)
                };
            }
            known.push(((at, operand), src));
            out.push(src);
        }
        out
    }
}
