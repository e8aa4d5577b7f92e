//! AMD shader cores in software: RDNA2, RDNA3, RDNA4 and CDNA3.
//!
//! [`isa`] turns words into instructions and instructions into the text that LLVM prints. Four
//! classes of instructions share the work, each a table (encoding, operands, meaning), a decoder, a
//! printer and a lowering:
//!
//! - [`scalar`]: SOP1, SOP2, SOPC, SOPK, SOPP, SMEM;
//! - [`vector`]: VOP1, VOP2, VOPC, VOP3 with DPP and SDWA;
//! - [`packed`]: VOP3P with WMMA and MFMA, VOPD;
//! - [`memory`]: DS, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF.
//!
//! A lowered instruction is a [`step::Step`]: a closure over its operands that changes a
//! [`wave::Wave`]. [`launch`] runs a grid of workgroups.
//!
//! Strict where hardware is silent: a register that is read before the wait for it, an instruction
//! that the chip does not have, an access outside of LDS, each breaks a rule.

// Loops over exactly 32 lanes by number are what the compiler makes vectors of, and shifts beside
// masks are how ISA documents write fields.
#![allow(clippy::needless_range_loop, clippy::precedence)]

pub mod code;
pub mod counters;
mod group;
pub mod isa;
pub mod launch;
pub mod memory;
pub mod packed;
pub mod page;
pub mod scalar;
pub mod simd;
mod start;
pub mod step;
mod trace;
pub mod trap;
pub mod turns;
pub mod vector;
pub mod wave;
