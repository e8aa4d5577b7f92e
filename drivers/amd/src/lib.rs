//! AMD GPUs: our own packets and queues, through the stock kernel driver (KFD).
//!
//! | file | idea |
//! |---|---|
//! | [`chip`] | what differs between chips, as data |
//! | [`encode`] | commands to PM4, AQL and SDMA packets, pure |
//! | [`object`] | relocatable ELF objects of LLVM to what a GPU runs |
//! | [`kfd`] | the kernel driver: topology, memory, queues, events |
//! | `core`, `device` | an open device |
//! | `pool`, `staging` | its buffers, and how the host reaches them |
//! | `channel`, `queue`, `engine` | rings, what is bound to them, all queues together |
//! | `signal`, `program` | signals; kernels in device memory |
//! | `inflight`, `fault` | what a queue was doing when something went wrong |
#![forbid(unsafe_code)]

mod channel;
pub mod chip;
mod core;
mod device;
pub mod encode;
mod engine;
mod fault;
mod inflight;
pub mod kfd;
pub mod object;
mod options;
mod pool;
mod program;
mod queue;
mod signal;
mod staging;

use std::sync::Arc;

use hcq::transport::Machine;
use hcq::{Device, Result};

pub use device::AmdDevice;

pub use options::{Options, Packets};

/// Opens GPU number `index` of a machine ([`kfd::Found::index`]) through KFD.
///
/// # Errors
/// [`hcq::Error::NoDevice`] with the reason if it cannot be used, see [`kfd::Unusable`];
/// [`hcq::Error::OutOfMemory`]; [`hcq::Error::Os`] for what the kernel refuses.
pub fn open(machine: &Arc<dyn Machine>, index: u32, options: &Options) -> Result<Arc<dyn Device>> {
    Ok(AmdDevice::open(machine, index, options)?)
}
