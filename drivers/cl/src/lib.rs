//! Devices behind a vendor's OpenCL, 1.2 and up: the fallback for GPUs that no driver of this project knows, Intel's
//! among them.
//!
//! The library is loaded when a device is looked for, and nothing of it is needed to build. Queues are those of
//! [`drivers_cpu::runtime`]: a thread per queue reads packets and hands kernels, copies and fills over to an in-order queue
//! of OpenCL; events tell when they are done.
//!
//! # Addresses
//! OpenCL has objects, not addresses. An object gets a range of addresses beyond those of the process
//! ([`memory`]); an address in it is the object and an offset. A kernel takes a buffer as two parameters, object and offset in bytes
//! (`codegen::render::OpenClRenderer`), so a buffer may begin anywhere in an object, whatever
//! `CL_DEVICE_MEM_BASE_ADDR_ALIGN` wants of sub-buffers. Memory of the process is an object for the time of a launch
//! (`CL_MEM_USE_HOST_PTR`), and mapped before and after it.
//!
//! # Images of kernels
//! [`hcq::KernelImage::bytes`] are OpenCL C; the entry is a kernel with `reqd_work_group_size(N, 1, 1)`, whose parameters
//! are, for each argument in order: of a buffer `__global uchar *, ulong`, of a number `long` or `int`.
//!
//! | file | idea |
//! |---|---|
//! | [`status`] | names of numbers |
//! | `api` | the library and its objects |
//! | [`mod@survey`] | which devices there are |
//! | [`memory`] | objects by address |
//! | `cache` | built programs on disk |
//! | `program` | kernels |
//! | `queue` | what a queue is handed |
//! | `device` | the device |
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod api;
mod cache;
mod device;
pub mod memory;
mod program;
#[allow(unsafe_code)]
mod queue;
pub mod status;
pub mod survey;

pub use device::{Options, open};
pub use survey::{Found, NoLibrary, survey};
