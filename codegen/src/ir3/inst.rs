//! Instructions, and the errors of their encoding.

use super::modifier::{Flags, Mods};
use super::operand::Operand;
use super::table::Op;

/// An instruction.
///
/// Its operands are in the order of the text. A memory operand is its address register; the offset is in
/// [`Mods::offset`]. A branch has its predicates as sources, and then the number of instructions from itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// Its flags.
    pub flags: Flags,
    /// `(rptN)`: it runs N more times.
    pub repeat: u8,
    /// `(nopN)`: so many slots pass after it, instead of (r) without a repetition.
    pub nop: u8,
    /// Types, counts and the like.
    pub mods: Mods,
    /// What it writes.
    pub dsts: Vec<Operand>,
    /// What it reads.
    pub srcs: Vec<Operand>,
}

impl Inst {
    /// An instruction without operands and flags.
    pub fn new(op: Op) -> Self {
        Self {
            op,
            flags: Flags::NONE,
            repeat: 0,
            nop: 0,
            mods: Mods::default(),
            dsts: Vec::new(),
            srcs: Vec::new(),
        }
    }

    /// The same with another destination.
    #[must_use]
    pub fn dst(mut self, operand: Operand) -> Self {
        self.dsts.push(operand);
        self
    }

    /// The same with another source.
    #[must_use]
    pub fn src(mut self, operand: Operand) -> Self {
        self.srcs.push(operand);
        self
    }
}

/// A part of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Inst::flags`].
    Flags,
    /// [`Inst::repeat`] or [`Inst::nop`].
    Repeat,
    /// [`Inst::mods`].
    Mods,
    /// A destination.
    Dst(usize),
    /// A source.
    Src(usize),
}

/// Why an instruction cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A value is outside the field that holds it.
    #[error("{}: {field} {value} is out of range", .op.name())]
    Range {
        /// The operation.
        op: Op,
        /// The field.
        field: &'static str,
        /// The value.
        value: i64,
    },
    /// An operand is missing, or is of a kind that its field cannot hold.
    #[error("{}: {part:?} is missing or of a kind that does not fit there", .op.name())]
    Operand {
        /// The operation.
        op: Op,
        /// The operand.
        part: Part,
    },
    /// A modifier is missing that the instruction needs.
    #[error("{}: the {field} is missing", .op.name())]
    Missing {
        /// The operation.
        op: Op,
        /// The modifier.
        field: &'static str,
    },
    /// The encoding has no place for a part as it is given.
    #[error("{}: {part:?} cannot be encoded as given", .op.name())]
    Unencodable {
        /// The operation.
        op: Op,
        /// The part that decoding would give otherwise.
        part: Part,
    },
    /// The hardware does not take these operands.
    #[error("{}: {rule}", .op.name())]
    Illegal {
        /// The operation.
        op: Op,
        /// The broken rule.
        rule: &'static str,
    },
}

/// Why a word is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It has no opcode of this instruction set.
    #[error("{word:016x} is not an instruction of Adreno 6xx")]
    Unknown {
        /// The word.
        word: u64,
    },
    /// Reserved bits are set.
    #[error("{word:016x}: reserved bits {bits:016x} of {} are set", .op.name())]
    Reserved {
        /// The word.
        word: u64,
        /// The operation.
        op: Op,
        /// The bits.
        bits: u64,
    },
    /// A field has a value without a meaning.
    #[error("{word:016x}: {} has no {field} {value}", .op.name())]
    Value {
        /// The word.
        word: u64,
        /// The operation.
        op: Op,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Bits that no text shows differ from what the encoder writes there.
    #[error("{word:016x}: bits {bits:016x} of {} are not as the encoder writes them", .op.name())]
    Hidden {
        /// The word.
        word: u64,
        /// The operation.
        op: Op,
        /// The bits.
        bits: u64,
    },
}
