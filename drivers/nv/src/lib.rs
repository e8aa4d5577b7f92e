//! NVIDIA GPUs: our own push buffers and QMDs, without CUDA. There are two [`backend`]s: NVIDIA's kernel driver (NVK:
//! its resource manager and UVM), and the card itself, over PCI: [`gsp`] starts the same `rm` on it from the public firmware.
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
//! | [`pci`] | that card as an interface: its VRAM, page tables and channels |
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
pub mod pci;
mod program;
mod rm;

use std::sync::Arc;

use hcq::Result;
use hcq::transport::{Clock, Machine, MonotonicClock};

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

/// Opens the GPU at an address of PCI (`0000:01:00.0`), which no kernel driver has, and starts it. `index` is its number
/// in messages.
///
/// # Errors
/// Those of [`pci::open`] and [`over`].
pub fn open_pci(
    machine: &Arc<dyn Machine>,
    address: &str,
    index: u32,
    options: &Options,
) -> Result<Arc<NvDevice>> {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    over(
        &pci::open(machine, address, index, &clock, options)?,
        options,
    )
}
