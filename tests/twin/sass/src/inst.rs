//! An instruction that was decoded.

use std::fmt::{self, Display, Formatter};

use crate::control::Control;
use crate::operand::{Kind, Number, Operand, Role};
use crate::word::Word;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// Its bits.
    pub word: Word,
    /// Its operation, without modifiers.
    pub name: &'static str,
    /// Its modifiers, each with its dots.
    pub modifiers: Vec<&'static str>,
    /// The predicate without which nothing happens; [`Kind::Predicate`] 7 is none.
    pub guard: Operand,
    /// What it reads and writes, in the order in which it prints; also what goes without saying: carries
    /// into nowhere, conditions that are true. So the same operand has the same place.
    pub operands: Vec<Operand>,
    /// What the scheduler is told.
    pub control: Control,
}

impl Inst {
    /// Whether it has a modifier, written with its dot.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// The registers of each lane that it reads, or that it writes.
    pub fn registers(&self, role: Role) -> impl Iterator<Item = u8> {
        self.operands.iter().flat_map(move |operand| {
            let (first, count) = match operand.kind {
                Kind::Register(n) if operand.role == role => (n, operand.width),
                Kind::Memory(memory) if role == Role::Read => match memory.base {
                    Some(base) => (base, memory.width.max(1)),
                    None => (255, 0),
                },
                _ => (255, 0),
            };
            let (first, count) = match operand.kind {
                Kind::Constant(.., Some(base)) if role == Role::Read => (base, 1),
                _ => (first, count),
            };
            let count = if first == 255 { 0 } else { count };
            (0..count).map(move |i| first.saturating_add(i))
        })
    }

    /// What a multiplication is called when it is used as something simpler.
    fn alias(&self) -> Option<&'static str> {
        if self.name != "IMAD" || self.word.field(0, 9) != 0x024 || self.has(".X") {
            return None;
        }
        let [_, a, b, c] = self.operands.as_slice() else {
            return None;
        };
        let zero = |operand: &Operand| operand.kind == Kind::Register(255);
        // Uniform registers and 0x10000 are exceptions of NVIDIA's.
        match b.kind {
            _ if matches!(c.kind, Kind::Uniform(_) | Kind::ConstantOf(..)) => None,
            Kind::Register(_) | Kind::Immediate(..) if zero(a) => Some(".MOV"),
            Kind::Register(255) | Kind::Immediate(0, _) => Some(".MOV"),
            Kind::Immediate(1, _) if zero(c) => Some(".MOV"),
            Kind::Immediate(1, _) => Some(".IADD"),
            Kind::Immediate(0x1_0000, _) => None,
            Kind::Immediate(n, _) if n.is_power_of_two() && zero(c) => Some(".SHL"),
            _ => None,
        }
    }
}

/// As it prints at address 0.
impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

/// An instruction at its address, which branches print.
struct At<'a>(&'a Inst, u64);

impl Display for At<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.print(f, self.1)
    }
}

impl Inst {
    /// As it prints at an address.
    pub fn at(&self, address: u64) -> impl Display + '_ {
        At(self, address)
    }

    fn print(&self, f: &mut Formatter<'_>, address: u64) -> fmt::Result {
        if !matches!(
            self.guard.kind,
            Kind::Predicate(7) | Kind::UniformPredicate(7)
        ) || self.guard.sign.inverted
        {
            write!(f, "@{} ", self.guard)?;
        }
        write!(f, "{}{}", self.name, self.alias().unwrap_or_default())?;
        for modifier in &self.modifiers {
            f.write_str(modifier)?;
        }
        for (i, operand) in self
            .operands
            .iter()
            .filter(|operand| !operand.hidden)
            .enumerate()
        {
            let between = if i == 0 || operand.joined { " " } else { ", " };
            let mut operand = *operand;
            if let Kind::Immediate(offset, Number::Target) = operand.kind {
                let target = address.wrapping_add(16).wrapping_add(offset);
                operand.kind = Kind::Immediate(target, Number::Target);
            }
            write!(f, "{between}{operand}")?;
        }
        Ok(())
    }
}
