//! AMD GPUs: our own packets and queues. There are two [`backend`]s: the stock kernel driver (KFD), and the card
//! itself, over PCI.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`options`](Options), [`chip`] | how to open a device; what differs between chips, as data |
//! | [`encode`], [`object`] | commands to PM4, AQL and SDMA packets, LLVM ELF objects to executable images: both pure |
//! | [`backend`] | the interface to a GPU: memory, queues, events, faults, a clock |
//! | [`kfd`] | the kernel driver as an interface: topology, ioctls |
//! | [`am`] | the GPU without a kernel driver as an interface: its blocks, which are started one by one |
//! | `program` | kernels on the device |
//! | `hardware` | a queue: encoder and ring, scratch memory, packets read back |
//! | `device` | all of it as a device |
//!
//! The vendor-neutral parts are in [`drivers_gpu`]: memory and signals, submissions, the end of queues, failure
//! evidence.
#![forbid(unsafe_code)]

pub mod am;
pub mod backend;
pub mod chip;
mod device;
pub mod encode;
mod hardware;
pub mod kfd;
pub mod object;
mod options;
mod program;

use std::sync::Arc;

use hcq::Result;
use hcq::transport::{Clock, Machine, MonotonicClock};

pub use chip::Language;
pub use device::{AmdDevice, over};
pub use options::{Options, Recorded};

/// The short name of the vendor.
const VENDOR: &str = "AMD";

/// Opens GPU number `index` of a machine ([`kfd::Found::index`]) through KFD.
///
/// # Errors
/// Those of [`kfd::open`] and [`over`].
pub fn open(machine: &Arc<dyn Machine>, index: u32, options: &Options) -> Result<Arc<AmdDevice>> {
    over(&kfd::open(machine, index, options)?, options)
}

/// Opens the GPU at an address of PCI (`0000:03:00.0`), which no kernel driver has, and starts it. `index` is its number
/// in messages.
///
/// # Errors
/// Those of [`am::open`] and [`over`].
pub fn open_pci(
    machine: &Arc<dyn Machine>,
    address: &str,
    index: u32,
    options: &Options,
) -> Result<Arc<AmdDevice>> {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    over(
        &am::open(machine, address, index, &clock, options)?,
        options,
    )
}
