//! What the tensor engine has to compute, and the runner that holds an engine to it.
//!
//! The expectations in `ops/` come from PyTorch and NumPy (`scripts/op-references`); nothing of the
//! engine took part in making them. [`suite::run_suite`] takes any engine.
#![forbid(unsafe_code)]

pub mod array;
pub mod call;
#[cfg(feature = "engines")]
pub mod engines;
pub mod judge;
pub mod manifest;
pub mod random;
pub mod suite;
