//! What drivers of devices with queues share: everything that knows no packet, no register and
//! no kernel driver. Most queues are rings in memory; some are calls of a kernel driver.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`span`] | checks of addresses and ranges of commands |
//! | [`backend`] | the interface to a GPU: memory, events, faults, a clock |
//! | [`kernel`] | GPUs behind a kernel driver: the driver-independent part |
//! | [`bare`] | cards without a kernel driver: the vendor-neutral part |
//! | [`core`] | shared state of an open device, and whether it is lost |
//! | [`memory`] | its buffers and signals, and how the host reaches them |
//! | [`submit`] | one queue: the vendor part, the argument block, completion fences |
//! | [`engine`] | all queues: their end, host copies, their state after a failure |
//! | [`queue`], [`device`] | the user's handles |
//!
//! A buffer needs a queue where the host does not map it, and a fault is explained by what queues were
//! doing: `core` has a trait for that, which `engine` implements.
//!
//! A vendor's driver provides a [`backend::Backend`], and for each queue a [`submit::Hardware`]: its encoder, its
//! submission (its own [ring](submit::ring), or calls), and its packet decoder.
//!
//! A queue or bound packets keep the `engine` alive, and so the queues; a buffer, program or signal only `core` and
//! its memory. The queues end with the last handle of the device, of a queue or of bound packets.
#![forbid(unsafe_code)]

pub mod backend;
pub mod bare;
pub mod core;
pub mod device;
pub mod engine;
pub mod kernel;
pub mod memory;
pub mod queue;
pub mod span;
pub mod submit;
