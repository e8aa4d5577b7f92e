//! The kernel driver of AMD GPUs, KFD: what it says there is, and what it is asked for.
//!
//! Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `call`, `error` | ioctls with their structs; refusals as errors of the device |
//! | [`topology`] | the nodes of sysfs |
//! | [`mod@survey`] | which of them can be used, and why not |
//! | `process` | what the kernel keeps of this process: its file, address spaces |
//! | `memory` | memory objects, which several GPUs may reach |
//! | `event` | what a thread sleeps on, and how it learns of faults |
//! | `queue` | queues and what the kernel wants of their buffers |
//! | [`open`] | all of them as an [`AmdBackend`] |

mod call;
mod error;
mod event;
mod memory;
mod open;
mod process;
mod queue;
pub mod survey;
pub mod topology;

pub use open::open;
pub use survey::{Found, Survey, Unusable, survey};

#[cfg(doc)]
use crate::backend::AmdBackend;
