//! The kernel compiler: from index expressions over loop ranges to machine code.
#![deny(unsafe_code)]

pub mod dtype;
pub mod interp;
pub mod ir;
pub mod lower;
pub mod rewrite;
pub mod symbolic;

pub use dtype::DType;
pub use ir::Kernel;
