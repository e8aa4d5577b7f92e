//! The memory of an open device: where it comes from, and how the host reaches it.
//!
//! | file | idea |
//! |---|---|
//! | [`pool`] | pieces, cut from memory objects of the kernel |
//! | [`vram`] | the host's way to what it does not map |
//! | [`buffer`] | a piece with that way: what [`hcq::Device::alloc`] gives |
//! | [`signal`] | a piece that host and GPUs share, and wait for |

pub mod buffer;
pub mod pool;
pub mod signal;
pub mod vram;
