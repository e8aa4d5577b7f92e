//! NVIDIA's kernel driver: what it says there is, and what it is asked for. Its resource manager (RM) makes
//! objects and answers questions; UVM maps memory for all GPUs of a process.
//!
//! Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `call` | ioctls with structs of the running branch; statuses as errors |
//! | [`mod@survey`] | which GPUs there are, and why one cannot be used |
//! | `rm`, `uvm`, `session` | a client and its objects; an address space for all GPUs; both of a process |
//! | `base`, `facts` | what a GPU is asked by; what it tells of itself, and whether it computes for this process |
//! | [`meters`] | what GPUs are at, and who has them |
//! | `gpu` | a GPU with its address space and its doorbell |
//! | `dma`, `memory`, `process` | memory that it has; what GPUs share |
//! | `channel`, `event`, `fault` | channels; what a thread sleeps on; why a channel has died |
//! | [`open`] | all of them as an [`NvInterface`] |

mod base;
mod call;
mod channel;
mod dma;
mod error;
mod event;
mod facts;
mod fault;
mod gpu;
mod memory;
pub mod meters;
mod open;
mod process;
mod rm;
mod session;
pub mod survey;
mod uvm;

pub use call::CallError;
pub use facts::examine;
pub use open::open;
pub use survey::{Driver, Found, Survey, Unusable, survey};

#[cfg(doc)]
use crate::interface::NvInterface;
