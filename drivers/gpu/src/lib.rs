//! What drivers of GPUs share whose queues lie in memory: everything that knows no packet, no register and
//! no kernel driver.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`interface`] | what a way to a GPU gives: memory, events, faults, a clock |
//! | [`core`] | what every part of an open device knows, and whether it is lost |
//! | [`memory`] | its buffers and signals, and how the host reaches them |
//!
//! A buffer needs a queue where the host does not map it, and a fault is explained by what queues were
//! doing: `core` has a trait for that, which whoever has the queues implements.
#![forbid(unsafe_code)]

pub mod core;
pub mod interface;
pub mod memory;
