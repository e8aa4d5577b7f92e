//! The kernel compiler: from index expressions over loop ranges to machine code.
#![deny(unsafe_code)]

pub mod dtype;
pub mod ir;

pub use dtype::DType;
pub use ir::Kernel;
