//! The kernel driver of AMD GPUs, KFD: what it says there is, and what it is asked for.
//!
//! | file | idea |
//! |---|---|
//! | [`topology`] | the nodes of sysfs |
//! | [`mod@survey`] | which of them can be used, and why not |
//! | `process` | what the kernel keeps of this process: address spaces, the event page |
//! | `memory` | memory objects; `ranges`: which addresses are, or were, whose |
//! | `event` | what a thread sleeps on, and how it learns of faults |
//! | `queue` | queues and what the kernel wants of their buffers |

pub(crate) mod call;
pub(crate) mod event;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod ranges;
pub mod survey;
pub mod topology;

pub use survey::{Found, Survey, Unusable, survey};
