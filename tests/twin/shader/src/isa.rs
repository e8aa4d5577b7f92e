//! From words to instructions to text.

use std::fmt;

use crate::step::Step;
use crate::{memory, packed, scalar, vector};

/// A generation of the instruction set, named by the chip that stands for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Gen {
    /// gfx1030.
    Rdna2,
    /// gfx1100.
    Rdna3,
    /// gfx1201.
    Rdna4,
    /// gfx942.
    Cdna3,
}

impl Gen {
    /// Every generation, in the order of the columns of the tables.
    pub const ALL: [Self; 4] = [Self::Rdna2, Self::Rdna3, Self::Rdna4, Self::Cdna3];

    /// LLVM's name of the chip that stands for the generation.
    pub const fn processor(self) -> &'static str {
        match self {
            Self::Rdna2 => "gfx1030",
            Self::Rdna3 => "gfx1100",
            Self::Rdna4 => "gfx1201",
            Self::Cdna3 => "gfx942",
        }
    }

    /// The column of the tables.
    pub const fn column(self) -> usize {
        self as usize
    }
}

/// An instruction, by the class that knows it.
#[derive(Clone, PartialEq, Debug)]
pub enum Inst {
    /// Scalar ALU, control flow, scalar memory.
    Scalar(scalar::Inst),
    /// Vector ALU.
    Vector(vector::Inst),
    /// Packed, dual and matrix instructions.
    Packed(packed::Inst),
    /// LDS and vector memory.
    Memory(memory::Inst),
}

/// An instruction and how many words it takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Decoded {
    /// The instruction.
    pub inst: Inst,
    /// Its length in dwords.
    pub words: usize,
}

/// Decodes the instruction at the start of `words`; none where `gen` has no such instruction or
/// `words` ends inside of it. At most 5 words are looked at.
pub fn decode(generation: Gen, words: &[u32]) -> Option<Decoded> {
    let wrap = |(inst, words)| Decoded { inst, words };
    None.or_else(|| scalar::decode(generation, words).map(|(i, n)| (Inst::Scalar(i), n)))
        .or_else(|| packed::decode(generation, words).map(|(i, n)| (Inst::Packed(i), n)))
        .or_else(|| memory::decode(generation, words).map(|(i, n)| (Inst::Memory(i), n)))
        .or_else(|| vector::decode(generation, words).map(|(i, n)| (Inst::Vector(i), n)))
        .map(wrap)
}

impl Inst {
    /// The instruction as a step for a wave of `halves` times 32 lanes.
    pub fn lower(&self, halves: usize) -> Step {
        match self {
            Self::Scalar(inst) => inst.lower(halves),
            Self::Vector(inst) => inst.lower(halves),
            Self::Packed(inst) => inst.lower(halves),
            Self::Memory(inst) => inst.lower(halves),
        }
    }
}

/// The text of an instruction, as LLVM's disassembler prints it, without the leading tab and with
/// one space after the mnemonic.
impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(inst) => inst.fmt(f),
            Self::Vector(inst) => inst.fmt(f),
            Self::Packed(inst) => inst.fmt(f),
            Self::Memory(inst) => inst.fmt(f),
        }
    }
}
