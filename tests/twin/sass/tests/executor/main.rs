//! NVIDIA's shader cores: kernels that run, and instructions beside NVIDIA's disassembler.
#![allow(clippy::unwrap_used)] // A test may panic.

mod bulk;
mod compare;
mod control;
mod copies;
mod device;
mod grid;
mod layout;
mod limits;
mod matrix;
mod nvdisasm;
mod operations;
mod recorded;
mod warpgroup;
mod whole;
