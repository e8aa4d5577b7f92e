//! Qualcomm Adreno 6xx GPUs: our own packets for the command processor, without OpenCL or Vulkan. There are two
//! [`backend`]s: [`kgsl`], the vendor's kernel driver, and [`msm`], that of Linux.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`lines`](CacheLines) | the CPU's cache before memory that no kernel driver maintains it for |
//! | [`options`](Options) | how to open a device |
//! | [`object`] | compiled kernels: code with footprints, constants and images |
//! | [`encode`] | commands to packets, pure |
//! | [`backend`] | the interface to a GPU, besides memory and events: contexts |
//! | [`kgsl`], [`msm`] | a kernel driver as an interface |
//! | [`interop`] | memory of other libraries, used in place |
//! | [`vendor`] | kernels of Qualcomm's OpenCL compiler |
//! | `program` | kernels on the device |
//! | `hardware` | a queue: encoder and context, private memory, packets read back |
//! | `device` | all of it as a device |
//!
//! The vendor-neutral parts are in [`drivers_gpu`]: memory and signals, submissions, the end of queues, failure
//! evidence.
#![forbid(unsafe_code)]

pub mod backend;
mod device;
pub mod encode;
mod hardware;
pub mod interop;
pub mod kgsl;
mod lines;
pub mod msm;
pub mod object;
mod options;
mod program;
pub mod vendor;

pub use device::{QcomDevice, over};
pub use lines::CacheLines;
pub use options::Options;

/// The short name of the vendor.
const VENDOR: &str = "QCOM";
