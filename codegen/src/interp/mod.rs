//! An interpreter of the intermediate representation: the reference for every rewrite.

pub mod run;
pub mod scalar;

pub use run::{InterpError, run};
