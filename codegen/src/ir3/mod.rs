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
//! This is the instruction set alone: which waits and delays a program needs is not checked.

mod code;
mod form;
mod inst;
mod legal;
mod modifier;
mod operand;
mod parse;
mod print;
mod table;

pub use code::{decode, encode, encode_any};
pub use inst::{DecodeError, EncodeError, Inst, Part};
pub use modifier::{Cond, Desc, Flags, Mode, Mods, Round, Shuffle, Type};
pub use operand::{FLOATS, Operand, Reg, Value};
pub use parse::ParseError;
pub use table::Op;
