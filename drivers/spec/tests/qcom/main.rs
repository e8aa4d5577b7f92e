//! Facts of Adreno GPUs beside their sources.
#![allow(clippy::unwrap_used)] // A test may panic.

mod descriptors;
mod kgsl;
mod streams;
