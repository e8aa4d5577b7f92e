//! NVIDIA GPUs: our own push buffers and QMDs, without CUDA. The way in is an [`interface`]; there is one,
//! NVIDIA's kernel driver (NVK: its resource manager and UVM). GSP's own way in would stand beside it.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`options`](Options), [`chip`] | how to open a device; what differs between chips |
//! | [`encode`], [`object`] | commands to methods and QMDs, cubins to what a GPU runs: both pure |
//! | [`interface`] | what a way to a GPU gives beside memory and events: channels |
//! | [`nvk`] | the kernel driver as an interface: escapes, objects, UVM |
#![forbid(unsafe_code)]

pub mod chip;
pub mod encode;
pub mod interface;
pub mod nvk;
pub mod object;
mod options;

pub use options::Options;

/// The short name of the vendor.
const VENDOR: &str = "NV";
