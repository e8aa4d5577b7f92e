//! Vector ALU: VOP1, VOP2, VOPC and VOP3, with DPP and SDWA.
//!
//! [`table`] says how the rows of [`vop1`], [`vop2`], [`vop3`] and [`vopc`] are read; decoder, printer
//! and lowering all go by them.

// Loops over lanes index several arrays, and with exactly 32 steps they become SIMD code.
#![allow(clippy::needless_range_loop)]

pub mod arith;
pub mod extreme;
pub mod float;
pub mod fp8;
pub mod input;
pub mod inst;
pub mod lane_select;
pub mod lanes;
mod lower;
pub mod math;
pub mod moves;
pub mod operand;
pub mod output;
pub mod rules;
pub mod run;
mod simple;
mod suffix;
pub mod table;
mod text;
pub mod value;
pub mod vop1;
pub mod vop2;
pub mod vop3;
pub mod vopc;

pub use inst::{Inst, decode};
