//! The shader cores of Adreno 6xx as a strict executor: decoder, semantics, hazards, grids of workgroups.
//!
//! A command processor fills a [`Launch`] and runs a [`Grid`] of it over a [`Memory`]:
//!
//! - [`decode`] turns words into instructions; it is written from Mesa's descriptions of the instruction set, and shares
//!   nothing with the assembler of the compiler.
//! - Arithmetic is that of the sources: Mesa's compiler and the documents of its instruction set.
//! - Results of arithmetic are ready after slots, others behind (ss) and (sy); fibers that a branch parks rejoin at (jp).
//!   Hardware gives wrong values silently where a program does not wait; here each is a broken rule, see [`rules`].
//! - Workgroups take turns, waves of a workgroup in an order that the seed gives: a run with the same seed is the same.
//!
//! Where no source tells what an instruction does, it stops with `IR3-MEANING`.

#![forbid(unsafe_code)]
// Shifts beside masks are how documents of instruction sets write fields.
#![allow(clippy::precedence)]

mod arith;
mod code;
mod decode;
mod exec;
mod fault;
mod flow;
mod grid;
mod group;
mod hazard;
pub mod inst;
pub mod launch;
mod local;
pub mod memory;
pub mod op;
mod regs;
pub mod rules;
pub mod surface;
mod texel;
mod wave;

pub use decode::{DecodeError, decode};
pub use fault::{Broken, Cause};
pub use grid::{Done, Grid};
pub use inst::Inst;
pub use launch::Launch;
pub use memory::Memory;
pub use op::Op;
pub use texel::encode;
