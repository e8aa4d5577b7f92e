//! The memory of an open device: where it comes from, and how the host reaches it.
//!
//! | file | idea |
//! |---|---|
//! | [`pool`] | pieces, cut from memory objects of the kernel |
//! | [`vram`] | host access to unmapped memory |
//! | [`buffer`] | a piece with host access: the result of [`hcq::Device::alloc`] |
//! | [`signal`] | a piece shared by host and GPUs, which they wait for |

pub mod buffer;
pub mod pool;
pub mod signal;
pub mod vram;
