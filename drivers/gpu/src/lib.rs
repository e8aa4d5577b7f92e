//! What drivers of devices with queues share: everything that knows no packet, no register and
//! no kernel driver. Most queues are rings in memory; some are calls of a kernel driver.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`span`] | checks of addresses and ranges of commands |
//! | [`backend`] | what a way to a GPU gives: memory, events, faults, a clock |
//! | [`kernel`] | GPUs of a kernel driver: what is the same for every driver |
//! | [`bare`] | cards without a kernel driver, as an interface: what is the same for every vendor |
//! | [`core`] | what every part of an open device knows, and whether it is lost |
//! | [`memory`] | its buffers and signals, and how the host reaches them |
//! | [`submit`] | one queue: what a vendor gives for it, the arguments beside it, fences that say what is done |
//! | [`engine`] | all queues: their end, copies for the host, what they were doing when something went wrong |
//! | [`queue`], [`device`] | what the user holds |
//!
//! A buffer needs a queue where the host does not map it, and a fault is explained by what queues were
//! doing: `core` has a trait for that, which `engine` implements.
//!
//! A vendor's driver gives an [`backend::Backend`], and for each queue a [`submit::Hardware`]: its encoder,
//! how words reach it (a [ring](submit::ring) of its own, or calls), and how its packets are read back.
//!
//! Handles keep what they need: a queue or bound packets the `engine`, and so the queues; a buffer,
//! program or signal only `core` and its memory. The queues end with the last handle of the device, of a
//! queue or of bound packets.
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
