//! NVIDIA's kernel driver: what it says there is, and what it is asked for. Its resource manager (RM) makes
//! objects and answers questions; UVM maps memory for all GPUs of a process.
//!
//! What RM is asked is in `rm`, which knows no files; here is what carries it, and what only a kernel driver
//! has. Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `call` | ioctls with structs of the running branch; statuses as errors |
//! | [`mod@survey`] | which GPUs there are, and why one cannot be used |
//! | `ioctls` | the driver's files as what carries calls to RM |
//! | `uvm`, `session` | an address space for all GPUs; a client and that, both of a process |
//! | `base`, [`examine`], [`meters`] | what a GPU is asked by; whether it computes for this process; what it is at |
//! | `gpu` | a GPU with its address space and its doorbell |
//! | `dma`, `memory`, `process` | memory that it has; what GPUs share |
//! | `channel`, `event` | channels with their memory; what a thread sleeps on |
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
