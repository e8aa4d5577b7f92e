//! The engine: values, gradients, captured calls, state, on the reference executor and on the CPU.
#![allow(clippy::unwrap_used)] // A test may panic.

mod basics;
mod calls;
mod chains;
mod contractions;
mod device;
mod gradients;
mod lent;
mod loops;
mod nn;
mod packed;
mod scalars;
mod schedule;
mod shared;
mod state;
#[path = "../support/mod.rs"]
mod support;
mod training;
mod values;
