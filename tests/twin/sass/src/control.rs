//! What the compiler tells the scheduler beside each instruction.
//!
//! The hardware checks no hazard of registers: an instruction of fixed latency is waited for by
//! stalling, one of variable latency raises one of six barriers, for which later ones wait.

use crate::word::Word;

/// Bits 105 to 125 of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Cycles before the next instruction of the warp may issue.
    pub stall: u8,
    /// Whether the scheduler should rather stay with this warp.
    pub stay: bool,
    /// The barrier that is raised until the results are written.
    pub writes: Option<u8>,
    /// The barrier that is raised until the sources are read.
    pub reads: Option<u8>,
    /// The barriers that must be down before the instruction issues, a bit each.
    pub waits: u8,
    /// The sources that stay in the operand cache, a bit each.
    pub reuse: u8,
}

/// The bits of the control word but for those of reuse.
pub(crate) const MASK: u128 = 0x1_ffff << 105;

impl Control {
    /// The control word of an instruction.
    pub fn of(word: Word) -> Self {
        let barrier = |at| Some(word.field(at, 3) as u8).filter(|&barrier| barrier != 7);
        Self {
            stall: word.field(105, 4) as u8,
            stay: word.bit(109),
            writes: barrier(110),
            reads: barrier(113),
            waits: word.field(116, 6) as u8,
            reuse: word.field(122, 4) as u8,
        }
    }
}
