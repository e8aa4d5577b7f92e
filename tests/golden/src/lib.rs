//! What the tensor engine has to compute, and the runner that holds an engine to it.
#![forbid(unsafe_code)]

pub mod array;
pub mod manifest;
