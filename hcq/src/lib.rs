//! Hardware command queues: the one abstraction that every device of this project implements.
//!
//! ```text
//!  Command  --encode-->  Packets (words, data, patches)  --submit-->  ring, doorbell
//!     |                     pure: chip facts only            the only I/O
//!  wait signal timestamp barrier exec copy fill write poll
//! ```
//!
//! - A [`Device`] gives memory ([`Buffer`]), programs ([`Program`]), signals and queues.
//! - A [`Queue`] turns [`Command`]s into [`CommandBuffer`] without looking at the device, and submits
//!   them. Its [`Timeline`] counts the submissions; a [`Stream`] is a handle that submits, and returns a
//!   [`Point`] to wait for.
//! - A [`Signal`] is a 64-bit value that only grows, with a timestamp. How many bits the hardware
//!   compares is the driver's secret; timelines count so that comparing by halves is exact.
//! - A [`graph::Graph`] is encoded once and replayed: patch words, ring one doorbell per queue.
//! - Memory is a capability: [`HostAccess`] says how the host reaches a buffer, so the code that
//!   writes arguments and signals is the same over a mapping and over a cable.
//! - What a submission uses is kept until its point, or until its device is stopped: the rule is that of [`InFlight`].
//! - Work may take as long as it takes. A wait for it ends after a silence: [`progress`].
//! - The first fault loses the device for its handle and is kept as the cause; a device that is lost may write until it
//!   is stopped ([`LostState`]).
//!
//! Who validates: encoders check what a queue cannot take; addresses are not checked here, a wrong
//! one is a device fault. What types cannot prove is said where it matters: a device writes memory
//! at any time, so nothing here hands out a reference to it ([`mem::view`]).
//!
//! # Glossary
//! *ring*: a queue in memory, read by the device at *rptr*, written by us at *wptr*. *doorbell*: a
//! register or mapped page whose write tells the device that wptr moved. *BAR*: a window of the PCI
//! bus into the device. *IB*: indirect buffer, packets outside of the ring. *MQD*: AMD's queue
//! descriptor in memory. *QMD*: NVIDIA's launch descriptor. *PTE/PDE*: entries of the device's page
//! tables.
#![deny(unsafe_code)]

/// The example of the front page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod addr;
pub mod clock;
pub mod command;
pub mod command_buffer;
pub mod device;
pub mod error;
pub mod graph;
pub mod hazards;
pub mod id;
pub mod inflight;
pub mod kernels;
pub mod lost;
pub mod mem;
pub mod memory;
pub mod program;
pub mod progress;
pub mod queue;
pub mod reg;
pub mod signal;
pub mod staging;
pub mod sync;
pub mod text;
pub mod timeline;
pub mod transport;
pub mod wait;
pub mod width;

pub use addr::GpuVa;
pub use command::{Command, Compare, Scope, Slot, Val};
pub use command_buffer::CommandBuffer;
pub use device::{Abilities, ClockInfo, Costs, Device, DeviceInfo, cannot_import};
pub use error::{Error, Result};
pub use hazards::{Hazards, Span};
pub use id::{DeviceId, QueueKind};
pub use inflight::InFlight;
pub use lost::{LostState, lose_all_by_fork, process_generation};
pub use memory::{AllocSpec, Buffer, HostAccess, Import, MemoryKind, MemoryStats, Sharing};
pub use program::{ArgField, ArgKind, ArgLayout, KernelImage, Program};
pub use queue::{IndirectBuffer, Queue, Stream};
pub use signal::{Point, Signal, SignalMemory};
pub use staging::Staging;
pub use timeline::{Timeline, Turn};
pub use wait::Deadline;
pub use width::Width;
