//! A word whose bits are counted as they are read: what nothing has read must be 0.

use crate::inst::{Marks, Operand, Type, Value};

/// Why a word is no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There is no such opcode.
    #[error("{word:016x} has no opcode of generation 600")]
    Opcode {
        /// The word.
        word: u64,
    },
    /// Reserved bits are set.
    #[error("{word:016x} has reserved bits {bits:016x} set")]
    Reserved {
        /// The word.
        word: u64,
        /// The bits.
        bits: u64,
    },
    /// A field holds a value without a meaning.
    #[error("{word:016x}: no {field} has the value {value:#x}")]
    Value {
        /// The word.
        word: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

/// A word being decoded.
pub(super) struct Bits {
    word: u64,
    read: u64,
}

impl Bits {
    pub fn new(word: u64) -> Self {
        Self { word, read: 0 }
    }

    /// The bits from `high` down to `low`.
    pub fn take(&mut self, high: u32, low: u32) -> u64 {
        let mask = (u64::MAX >> (63 - high)) & !((1 << low) - 1);
        self.read |= mask;
        (self.word & mask) >> low
    }

    /// The same without counting them as read.
    pub fn peek(&self, high: u32, low: u32) -> u64 {
        self.word >> low & (u64::MAX >> (63 - (high - low)))
    }

    pub fn flag(&mut self, at: u32) -> bool {
        self.take(at, at) != 0
    }

    pub fn byte(&mut self, high: u32, low: u32) -> u8 {
        self.take(high, low) as u8
    }

    /// A field in two's complement.
    pub fn signed(&mut self, high: u32, low: u32) -> i64 {
        sign(self.take(high, low), high - low + 1)
    }

    /// Bits that every form has so.
    pub fn fixed(&mut self, high: u32, low: u32, value: u64) -> Result<(), DecodeError> {
        match self.take(high, low) == value {
            true => Ok(()),
            false => Err(self.opcode()),
        }
    }

    pub fn opcode(&self) -> DecodeError {
        DecodeError::Opcode { word: self.word }
    }

    pub fn value(&self, field: &'static str, value: u64) -> DecodeError {
        let word = self.word;
        DecodeError::Value { word, field, value }
    }

    /// All that was not read is 0.
    pub fn end(&self) -> Result<(), DecodeError> {
        let bits = self.word & !self.read;
        match bits {
            0 => Ok(()),
            _ => Err(DecodeError::Reserved {
                word: self.word,
                bits,
            }),
        }
    }

    /// (sy) and (jp), which all categories have.
    pub fn marks(&mut self) -> Marks {
        Marks {
            sy: self.flag(60),
            jp: self.flag(59),
            ..Marks::default()
        }
    }

    /// Those and (ss), (ul).
    pub fn alu_marks(&mut self) -> Marks {
        Marks {
            ss: self.flag(44),
            ul: self.flag(45),
            ..self.marks()
        }
    }

    pub fn ty(&mut self, high: u32, low: u32) -> Result<Type, DecodeError> {
        let bits = self.take(high, low);
        Type::from_bits(bits).ok_or_else(|| self.value("type", bits))
    }

    /// A register of 8 bits.
    pub fn reg(&mut self, high: u32, low: u32, half: bool) -> Operand {
        Operand::new(Value::Reg(self.byte(high, low)), half)
    }

    /// A register, or a number where the bit `imm` is set.
    pub fn reg_or_imm(&mut self, high: u32, low: u32, imm: bool) -> Operand {
        let bits = self.byte(high, low);
        let value = if imm {
            Value::Imm(bits.into())
        } else {
            Value::Reg(bits)
        };
        Operand::new(value, false)
    }
}

/// A number in two's complement of so many bits.
pub(super) fn sign(bits: u64, width: u32) -> i64 {
    (bits << (64 - width)) as i64 >> (64 - width)
}
