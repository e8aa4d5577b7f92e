//! NVIDIA's kernel driver: enumeration and calls. Its resource manager (RM) creates objects and answers queries; UVM
//! maps memory for all GPUs of a process.
//!
//! The calls to RM are in `rm`, independent of files; here are their transport and the parts specific to the kernel
//! driver. Each row uses only those above it:
//!
//! | file | idea |
//! |---|---|
//! | `call` | ioctls with structs of the running branch; statuses as errors |
//! | [`mod@survey`] | the GPUs, and why one cannot be used |
//! | `ioctls` | the driver's files as the transport to RM |
//! | `uvm`, `session` | an address space for all GPUs; a client and that, both of a process |
//! | `base`, [`examine`], [`meters`] | query objects of a GPU; whether this process may compute on it; gauges |
//! | `gpu` | a GPU with its address space and its doorbell |
//! | `dma`, `memory`, `process` | its memory; memory shared by GPUs |
//! | `channel`, `event` | channels with their memory; events for sleeping threads |
//! | [`open`] | all of them as an [`NvBackend`] |

mod base;
mod call;
mod channel;
mod dma;
mod error;
mod event;
mod examine;
mod gpu;
mod ioctls;
mod memory;
pub mod meters;
mod open;
mod process;
mod session;
pub mod survey;
#[cfg(test)]
mod tests;
mod uvm;

pub use crate::rm::CallError;
pub use crate::rm::facts::Unfit;
pub use examine::examine;
pub use open::open;
pub use survey::{Driver, Found, Survey, Unusable, survey};

#[cfg(doc)]
use crate::backend::NvBackend;
