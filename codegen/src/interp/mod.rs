//! An interpreter of the intermediate representation: the reference for every rewrite.

pub mod run;

pub use crate::ir::scalar;
pub use run::{InterpError, run};
