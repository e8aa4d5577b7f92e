//! NVIDIA GPUs: our own push buffers and QMDs, without CUDA. There is one [`backend`], NVIDIA's kernel driver (NVK:
//! its resource manager and UVM). On a card without that driver, [`gsp`] starts the same `rm` from the public firmware.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`options`](Options), [`chip`] | how to open a device; what differs between chips |
//! | [`encode`], [`object`] | commands to methods and QMDs, cubins to executable images: both pure |
//! | [`backend`] | the interface to a GPU, besides memory and events: channels |
//! | `rm` | the resource manager, independent of the transport |
//! | [`nvk`] | the kernel driver as an interface: RM by ioctls, and UVM |
//! | [`gsp`] | a card without a kernel driver: its start, and RM by messages |
//! | `program` | kernels on the device |
//! | `hardware` | a queue: encoder and ring, local memory, push buffers read back |
//! | `device` | all of it as a device |
//!
//! The vendor-neutral parts are in [`drivers_gpu`]: memory and signals, submissions, the end of queues, failure
//! evidence.
#![forbid(unsafe_code)]

pub mod backend;
pub mod chip;
mod device;
pub mod encode;
pub mod gsp;
mod hardware;
pub mod nvk;
pub mod object;
mod options;
mod program;
mod rm;

use std::sync::Arc;

use hcq::Result;
use hcq::transport::Machine;

pub use device::{NvDevice, over};
pub use options::Options;

/// The short name of the vendor.
const VENDOR: &str = "NV";

/// Opens GPU number `index` of a machine ([`nvk::Found::index`]) through NVIDIA's kernel driver.
///
/// # Errors
/// Those of [`nvk::open`] and [`over`].
pub fn open(machine: &Arc<dyn Machine>, index: u32, options: &Options) -> Result<Arc<NvDevice>> {
    over(&nvk::open(machine, index, options)?, options)
}
