//! AMD GPUs: our own packets and queues. The way in is an [`interface`]; there is one, the stock kernel
//! driver (KFD).
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`options`](Options), [`chip`] | how to open a device; what differs between chips, as data |
//! | [`encode`], [`object`] | commands to PM4, AQL and SDMA packets, ELF objects of LLVM to what a GPU runs: both pure |
//! | [`interface`] | what a way to a GPU gives: memory, queues, events, faults, a clock |
//! | [`kfd`] | the kernel driver as an interface: topology, ioctls |
//! | `submit` | one queue: its ring, the arguments beside it, fences that say what is done |
//! | `engine` | all queues: their end, copies for the host, what they were doing when something went wrong |
//! | `queue`, `program`, `device` | what the user holds |
//!
//! What knows nothing of AMD is in [`drivers_gpu`]: the state of an open device, its memory and signals.
//!
//! Handles keep what they need: a queue or bound packets the `engine`, and so the queues; a buffer,
//! program or signal only the state of the device and its memory. The queues end with the last handle of the device, of a
//! queue or of bound packets.
#![forbid(unsafe_code)]

pub mod chip;
mod device;
pub mod encode;
mod engine;
pub mod interface;
pub mod kfd;
pub mod object;
mod options;
mod program;
mod queue;
mod submit;

use std::sync::Arc;

use hcq::Result;
use hcq::transport::Machine;

pub use chip::Language;
pub use device::AmdDevice;
pub use options::Options;

/// The short name of the vendor.
const VENDOR: &str = "AMD";

/// Opens GPU number `index` of a machine ([`kfd::Found::index`]) through KFD.
///
/// # Errors
/// Those of [`kfd::open`] and [`AmdDevice::open`].
pub fn open(machine: &Arc<dyn Machine>, index: u32, options: &Options) -> Result<Arc<AmdDevice>> {
    AmdDevice::open(&kfd::open(machine, index, options)?, options)
}
