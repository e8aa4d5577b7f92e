//! Facts of NVIDIA GPUs beside their sources.
#![allow(clippy::unwrap_used)] // A test may panic.

mod cubin;
mod streams;
mod tensor_maps;
