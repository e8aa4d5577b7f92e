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
//! | [`am`] | the GPU without a kernel driver: what it is, its registers, page tables; nothing is started yet |
//! | `program` | kernels on the device |
//! | `hardware` | a queue: encoder and ring, scratch memory, packets read back |
//! | `device` | all of it as a device |
//!
//! What knows nothing of AMD is in [`drivers_gpu`]: memory and signals, submissions, the end of queues, what
//! they were doing when something went wrong.
#![forbid(unsafe_code)]

pub mod am;
pub mod chip;
mod device;
pub mod encode;
mod hardware;
pub mod interface;
pub mod kfd;
pub mod object;
mod options;
mod program;

use std::sync::Arc;

use hcq::Result;
use hcq::transport::Machine;

pub use chip::Language;
pub use device::{AmdDevice, over};
pub use options::Options;

/// The short name of the vendor.
const VENDOR: &str = "AMD";

/// Opens GPU number `index` of a machine ([`kfd::Found::index`]) through KFD.
///
/// # Errors
/// Those of [`kfd::open`] and [`over`].
pub fn open(machine: &Arc<dyn Machine>, index: u32, options: &Options) -> Result<Arc<AmdDevice>> {
    over(&kfd::open(machine, index, options)?, options)
}
