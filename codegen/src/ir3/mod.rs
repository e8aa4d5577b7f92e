//! The instruction set of Adreno 6xx (Mesa calls it ir3): an assembler and a disassembler from one table.
//!
//! ```
//! use codegen::ir3::{self, Inst};
//!
//! let inst: Inst = "(nop3) add.u r2.z, r4.w, r0.w".parse()?;
//! let word = ir3::encode(&inst)?;
//! assert_eq!(word, 0x4218080a_00030013);
//! assert_eq!(ir3::decode(word)?.to_string(), "(nop3) add.u r2.z, r4.w, r0.w");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The text is that of Mesa's disassembler, to the letter. It has no more than Mesa shows: a word that differs from
//! what the encoder writes in bits without a text is refused ([`DecodeError::Hidden`]), as are reserved bits and
//! reserved values of fields.
//!
//! [`encode`] also refuses operands that the hardware does not take; [`encode_any`] does not.
//!
//! Behind the instruction set is the backend of the compiler: [`compile`] takes instructions of virtual registers
//! ([`virt`]) to an [`Object`]; [`check`](check::check) proves that machine code has all the waits and delays that it needs.

mod backend;
pub mod check;
mod code;
mod form;
mod inst;
mod legal;
mod merge;
mod modifier;
mod object;
mod operand;
mod pack;
mod parse;
mod print;
mod schedule;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod units;
pub mod virt;

pub use backend::{BackendError, Chip, Launch, compile};

pub use code::{decode, encode, encode_any};
pub use inst::{DecodeError, EncodeError, Inst, Part};
pub use modifier::{Cond, Desc, Flags, Mode, Mods, Round, Shuffle, Type};
pub use object::{Footprint, GROUP, ITEM, Image, Object, ObjectError, SAMPLER, Statistics};
pub use operand::{FLOATS, Operand, Reg, Value};
pub use parse::ParseError;
pub use table::Op;
