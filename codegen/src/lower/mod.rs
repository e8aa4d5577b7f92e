//! From the kernel graph to what a target can execute.

pub mod decomp;
