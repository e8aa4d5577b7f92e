//! Packed, dual and matrix instructions: VOP3P with WMMA and MFMA, VOPD.
//!
//! `table` has a row for each VOP3P instruction, `dual` one for each half of a VOPD; decoding,
//! printing and lowering read the same rows.

mod arith;
mod dual;
mod formats;
mod lower;
mod matrix;
mod mode;
mod operand;
mod product;
mod registers;
mod singles;
mod table;
mod vop3p;

#[cfg(test)]
mod tests;

use std::fmt;

use crate::isa::Gen;
use crate::step::Step;

/// An instruction of this class.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst(Kind);

#[derive(Clone, PartialEq, Debug)]
enum Kind {
    Vop3p(vop3p::Vop3p),
    Dual(dual::Dual),
}

/// Decodes an instruction and says how many words it takes; none where it is not of this class or
/// the generation has no such instruction.
pub fn decode(generation: Gen, words: &[u32]) -> Option<(Inst, usize)> {
    let dual = || dual::Dual::decode(generation, words).map(|(i, n)| (Kind::Dual(i), n));
    let mov = || vop3p::Vop3p::decode_acc_mov(generation, words).map(|(i, n)| (Kind::Vop3p(i), n));
    vop3p::Vop3p::decode(generation, words)
        .map(|(i, n)| (Kind::Vop3p(i), n))
        .or_else(dual)
        .or_else(mov)
        .map(|(kind, n)| (Inst(kind), n))
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Vop3p(inst) => inst.fmt(f),
            Kind::Dual(inst) => inst.fmt(f),
        }
    }
}

impl Inst {
    /// The instruction as a step for a wave of `halves` times 32 lanes.
    pub fn lower(&self, halves: usize) -> Step {
        match &self.0 {
            Kind::Vop3p(inst) => inst.lower(halves),
            Kind::Dual(inst) => inst.lower(halves),
        }
    }
}
