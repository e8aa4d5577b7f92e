//! From words to instructions.
//!
//! Written from Mesa src/freedreno/isa/ir3-cat0.xml to ir3-cat7.xml for generation 600. Bits that Mesa marks as
//! indifferent must be 0, as its assembler writes them.

mod alu;
mod bits;
mod flow;
mod mem;
mod tex;

pub use bits::DecodeError;

use crate::inst::Inst;
use bits::Bits;

/// The instruction of a word.
///
/// # Errors
/// The word is no instruction of generation 600.
pub fn decode(word: u64) -> Result<Inst, DecodeError> {
    let mut bits = Bits::new(word);
    let inst = match bits.take(63, 61) {
        0 => flow::category0(&mut bits),
        1 => flow::category1(&mut bits),
        2 => alu::category2(&mut bits),
        3 => alu::category3(&mut bits),
        4 => alu::category4(&mut bits),
        5 => tex::category5(&mut bits),
        6 => mem::category6(&mut bits),
        _ => flow::category7(&mut bits),
    }?;
    bits.end()?;
    Ok(inst)
}

/// An instruction without fields.
fn empty(op: crate::op::Op, marks: crate::inst::Marks) -> Inst {
    Inst {
        op,
        marks,
        repeat: 0,
        nop: 0,
        dsts: Vec::new(),
        srcs: Vec::new(),
        mods: crate::inst::Mods::default(),
    }
}
