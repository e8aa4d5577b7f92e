//! The meaning of the intermediate representation, executed: the judge of every rewrite.

pub mod run;
pub mod scalar;

pub use run::{InterpError, run};
