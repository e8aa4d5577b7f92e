//! The kernel driver of AMD GPUs, KFD: enumeration and calls.
//!
//! Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `call`, `error` | ioctls with their structs; failures as device errors |
//! | [`topology`] | the nodes of sysfs |
//! | [`mod@survey`] | which are usable, and why others are not |
//! | `process` | the kernel's state of this process: its file, address spaces |
//! | `memory` | memory objects, possibly shared by GPUs |
//! | `event` | events for sleeping threads, and faults |
//! | `queue` | queues and the kernel's requirements on their buffers |
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
