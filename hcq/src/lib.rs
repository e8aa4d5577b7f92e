//! Hardware command queues: the one abstraction that every device of this project implements.
#![deny(unsafe_code)]

pub mod addr;
pub mod command;
pub mod device;
pub mod error;
pub mod graph;
pub mod mem;
pub mod memory;
pub mod packets;
pub mod program;
pub mod queue;
pub mod signal;
mod sync;
pub mod transport;
pub mod wait;

pub use addr::GpuVa;
pub use command::{Command, Compare, Scope, Slot, Val, Width};
pub use device::{ClockInfo, Device, DeviceId, DeviceInfo};
pub use error::{Error, LostState, Result};
pub use memory::{AllocSpec, Buffer, HostAccess, MemoryKind, MemoryStats};
pub use packets::Packets;
pub use program::{ArgLayout, KernelImage, Program};
pub use queue::{Bound, Queue, QueueKind, Stream};
pub use signal::{Point, Signal, SignalMemory};
pub use wait::Deadline;
