//! Memory: objects of a kernel driver, where each address space of the GPU has them, and the caches in between.
//!
//! - [`object`]: the bytes of an object, in DRAM; [`cpu`]: the CPU's cache before write-back memory;
//! - [`space`]: an address space of the GPU;
//! - [`cache`]: UCHE, texture and instruction caches; [`descriptors`]: what shader cores hold of bindless descriptors;
//! - [`view`]: accesses of the command processor and of shader cores.

pub mod cache;
pub mod cpu;
pub mod descriptors;
pub mod object;
pub mod space;
pub mod view;

pub use object::Object;
pub use space::{Area, Space};

/// Bytes of a cache line, of CPU and GPU.
pub const LINE: u64 = 64;
