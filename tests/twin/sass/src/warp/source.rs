//! Operands as the executor wants them: resolved once, when a program is lowered.

use super::program::Refusal;
use crate::inst::Inst;
use crate::operand::{Kind, Memory, Number, Operand, Role};

/// A value of 32 bits for each lane of a warp.
pub(crate) type Lanes = [u32; 32];
/// A value of 64 bits for each lane of a warp.
pub(crate) type Pairs = [u64; 32];

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Register(u8),
    Uniform(u8),
    /// The low word and the high one.
    Immediate(u32, u32),
    Constant(u8, u16),
}

/// A source, and what is done to it: `((x & and) ^ xor) + plus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub from: From,
    pub and: u32,
    pub xor: u32,
    pub plus: u32,
}

impl Source {
    /// Whether nothing is done to it.
    pub fn plain(&self) -> bool {
        self.and == u32::MAX && self.xor == 0 && self.plus == 0
    }

    /// Whether it is the negative of an integer.
    pub fn negative(&self) -> bool {
        self.plus != 0
    }
}

/// What a sign means to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Of an integer.
    Integer,
    /// The top bit, of a single or of the upper word of a double.
    Float,
    /// The top bits of two halves.
    Halves,
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Register(u8),
    Uniform(u8),
}

/// A predicate that is read: of the lanes, or of the warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub uniform: bool,
    pub number: u8,
    pub inverted: bool,
}

/// A predicate that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    pub uniform: bool,
    pub number: u8,
}

/// The operands of an instruction, taken one after the other.
pub(crate) struct Reading<'a> {
    pub inst: &'a Inst,
    at: usize,
}

impl<'a> Reading<'a> {
    pub fn new(inst: &'a Inst) -> Self {
        Self { inst, at: 0 }
    }

    pub fn has(&self, modifier: &str) -> bool {
        self.inst.has(modifier)
    }

    /// Which of some modifiers it has, if any.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        choices
            .iter()
            .find(|choice| self.has(choice.0))
            .map(|choice| choice.1)
    }

    pub fn refuse(&self, why: impl Into<String>) -> Refusal {
        Refusal::new(self.inst, why)
    }

    pub fn peek(&self) -> Option<&'a Operand> {
        self.inst.operands.get(self.at)
    }

    pub fn next(&mut self) -> Result<&'a Operand, Refusal> {
        let operand = self
            .peek()
            .ok_or_else(|| self.refuse("an operand is missing"))?;
        self.at += 1;
        Ok(operand)
    }

    /// How many operands are left.
    pub fn left(&self) -> usize {
        self.inst.operands.len() - self.at
    }

    fn wrong(&self, expected: &str, operand: &Operand) -> Refusal {
        self.refuse(format!("{expected} was expected, not '{operand}'"))
    }

    pub fn place(&mut self) -> Result<Place, Refusal> {
        let operand = self.next()?;
        match operand.kind {
            Kind::Register(n) if operand.role == Role::Write => Ok(Place::Register(n)),
            Kind::Uniform(n) if operand.role == Role::Write => Ok(Place::Uniform(n)),
            _ => Err(self.wrong("a register to write", operand)),
        }
    }

    pub fn flag(&mut self) -> Result<Flag, Refusal> {
        let operand = self.next()?;
        match operand.kind {
            Kind::Predicate(number) => Ok(Flag {
                uniform: false,
                number,
            }),
            Kind::UniformPredicate(number) => Ok(Flag {
                uniform: true,
                number,
            }),
            _ => Err(self.wrong("a predicate to write", operand)),
        }
    }

    pub fn condition(&mut self) -> Result<Condition, Refusal> {
        let operand = self.next()?;
        condition(operand).ok_or_else(|| self.wrong("a predicate", operand))
    }

    pub fn number(&mut self) -> Result<u64, Refusal> {
        let operand = self.next()?;
        match operand.kind {
            Kind::Immediate(value, _) => Ok(value),
            _ => Err(self.wrong("a number", operand)),
        }
    }

    pub fn memory(&mut self) -> Result<Memory, Refusal> {
        let operand = self.next()?;
        match operand.kind {
            Kind::Memory(memory) => Ok(memory),
            _ => Err(self.wrong("an address", operand)),
        }
    }

    /// A source, with the part of it that is meant.
    pub fn part(&mut self, style: Style) -> Result<(Source, &'static str), Refusal> {
        let part = self.peek().map_or("", |operand| operand.part);
        Ok((self.source(style)?, part))
    }

    pub fn source(&mut self, style: Style) -> Result<Source, Refusal> {
        let operand = self.next()?;
        let from = match operand.kind {
            Kind::Register(n) => From::Register(n),
            Kind::Uniform(n) => From::Uniform(n),
            Kind::Immediate(value, Number::F64) => From::Immediate(0, value as u32),
            Kind::Immediate(value, _) => From::Immediate(value as u32, 0),
            Kind::Constant(bank, at, None) => From::Constant(bank, at.cast_unsigned()),
            _ => return Err(self.wrong("a source", operand)),
        };
        let sign = operand.sign;
        let mut source = Source {
            from,
            and: u32::MAX,
            xor: if sign.inverted { u32::MAX } else { 0 },
            plus: 0,
        };
        let top = match style {
            Style::Float => 0x8000_0000,
            Style::Halves => 0x8000_8000,
            Style::Integer if sign.absolute => return Err(self.wrong("no absolute value", operand)),
            Style::Integer => 0,
        };
        if sign.absolute {
            source.and = !top;
        }
        if sign.negative && style == Style::Integer {
            source.xor ^= u32::MAX;
            source.plus = 1;
        } else if sign.negative {
            source.xor ^= top;
        }
        Ok(source)
    }
}

impl Reading<'_> {
    /// A source that is printed as an absolute value, but is read with its sign, of which `.XORSIGN` makes
    /// that of the result.
    pub fn signed(&self, source: Source) -> Result<Source, Refusal> {
        if source.and == u32::MAX || source.xor != 0 {
            return Err(self.refuse("what .XORSIGN does with such a source is not known"));
        }
        Ok(Source {
            and: u32::MAX,
            ..source
        })
    }
}

/// An operand as a predicate that is read.
pub(crate) fn condition(operand: &Operand) -> Option<Condition> {
    let inverted = operand.sign.inverted;
    match operand.kind {
        Kind::Predicate(number) => Some(Condition {
            uniform: false,
            number,
            inverted,
        }),
        Kind::UniformPredicate(number) => Some(Condition {
            uniform: true,
            number,
            inverted,
        }),
        _ => None,
    }
}
