//! A lowered instruction.

use std::fmt;

use smallvec::SmallVec;
use twin::rule::{Proof, Rule};

use crate::counters::Counter;
use crate::page::MemFault;
use crate::wave::Wave;

/// An instruction whose operands, or the combination of them, the ISA document reserves.
pub static ISA_RESERVED: Rule = Rule {
    name: "ISA-RESERVED",
    text: "an executed instruction has no reserved operands and is allowed in compute programs",
    source: "ISA documents, \"scalar operands\" and the formats",
    proof: Proof::Sourced,
};

/// A scalar register that is not there.
pub static SGPR_RANGE: Rule = Rule {
    name: "SGPR-RANGE",
    text: "scalar registers are below the number of the wave's scalar registers",
    source: "ISA documents, \"SGPR allocation\": 106 in RDNA; in CDNA RSRC1 says how many",
    proof: Proof::Sourced,
};

/// A vector register that is not allocated.
pub static VGPR_RANGE: Rule = Rule {
    name: "VGPR-RANGE",
    text: "vector registers are below the number that RSRC1 (and RSRC3 in CDNA) allocates",
    source: "ISA documents, \"VGPR allocation\"; LLVM AMDGPUUsage, \"kernel descriptor\"",
    proof: Proof::Sourced,
};

/// What an instruction does to a wave, operands resolved.
pub type Run = Box<dyn Fn(&mut Wave) -> Result<Flow, Stop> + Send + Sync>;

/// An instruction, ready to run.
pub struct Step {
    /// What it does.
    pub run: Run,
    /// Every register that it reads or writes: none may be in flight.
    pub touches: SmallVec<[Regs; 4]>,
    /// Where the first of `touches` is written by an operation that comes back in order on this
    /// counter: it may be in flight on the same counter, and the later operation wins.
    pub lands: Option<Counter>,
}

/// A range of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Regs {
    /// Which file.
    pub file: File,
    /// The first register; a code of the scalar operand space for [`File::S`].
    pub first: u16,
    /// How many dwords.
    pub count: u16,
}

/// A register file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// Scalar operands 0 to 127: SGPRs, VCC, TTMPs, M0, EXEC.
    S,
    /// VGPRs; 256 and up are the accumulation registers of CDNA.
    V,
}

/// Where a wave goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// With the next instruction.
    Next,
    /// At this address.
    Jump(u64),
    /// With the next instruction, of code that is fetched anew.
    Refetch,
    /// Nowhere yet: with the same instruction, after other waves have had a turn.
    Again,
    /// Nowhere: the wave is halted, for a debugger or for ever.
    Halt,
    /// Nowhere: the wave has ended.
    End,
    /// With the next instruction, once every wave of the group has come to the barrier with this
    /// number (0: the barrier of the workgroup; others: RDNA4's trap and named barriers).
    Barrier(i8),
    /// With the next instruction, after other waves have had a turn (`s_sleep` and the like).
    Yield,
}

/// Why a wave cannot go on.
#[derive(Clone, Debug)]
pub enum Stop {
    /// It broke a rule; what was done.
    Rule(&'static Rule, String),
    /// Memory did not answer.
    Fault(MemFault),
    /// `s_trap`, where no handler is set: what it was.
    Trap(String),
}

impl fmt::Display for Regs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (letter, first) = match (self.file, self.first) {
            (File::S, first) => ("s", first),
            (File::V, first @ 256..) => ("a", first - 256),
            (File::V, first) => ("v", first),
        };
        match self.count {
            1 => write!(f, "{letter}{first}"),
            n => write!(f, "{letter}[{first}:{}]", first + n - 1),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule, what) => write!(f, "rule {} ({}): {what}", rule.name, rule.text),
            Self::Fault(fault) => write!(f, "memory fault: {fault}"),
            Self::Trap(what) => write!(f, "trap: {what}"),
        }
    }
}

impl From<MemFault> for Stop {
    fn from(fault: MemFault) -> Self {
        Self::Fault(fault)
    }
}
