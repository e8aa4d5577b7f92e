//! The machine code of NVIDIA's shader cores, which NVIDIA calls SASS: Ampere, Ada,
//! Hopper and Blackwell.
//!
//! [`decode`] turns the 16 bytes of an instruction into an [`Inst`]: its name, its modifiers, its
//! operands with what is read and written, and the control word in which the compiler tells the
//! scheduler what to wait for. An instruction prints as NVIDIA's disassembler prints it, which is
//! how the tables are proven.
//!
//! Everything comes from one line per instruction in `table`: where it lies, what it prints, what it
//! reads and writes. NVIDIA documents none of this; the lines were found by flipping bits and
//! reading what `nvdisasm` makes of them.
//!
//! [`warp`] runs programs: blocks of warps over a memory.
//!
//! Strict where hardware is silent: a bit that no line names, a value of a field without a name,
//! an operation that the chip does not have, each is an error that says which.

mod control;
mod decode;
mod inst;
mod number;
mod operand;
mod special;
mod table;
mod template;
pub mod warp;
mod word;

pub use control::Control;
pub use decode::{Error, decode};
pub use inst::Inst;
pub use operand::{Kind, Memory, Number, Operand, Role, Sign};
pub use word::Word;

/// The chips whose code is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chip {
    /// Ampere: GA102 and its smaller ones.
    Sm86,
    /// Ada.
    Sm89,
    /// Hopper.
    Sm90,
    /// Blackwell: GB202 and its smaller ones.
    Sm120,
}

impl Chip {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::Sm86, Self::Sm89, Self::Sm90, Self::Sm120];

    /// The name that compilers give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sm86 => "sm_86",
            Self::Sm89 => "sm_89",
            Self::Sm90 => "sm_90",
            Self::Sm120 => "sm_120",
        }
    }
}
