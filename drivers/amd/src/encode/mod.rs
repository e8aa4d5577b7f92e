//! Commands to packets, pure.
//!
//! An [`Encoder`] turns the commands of one queue into packets. It knows the chip's facts and the few
//! addresses of a [`Setup`], and touches no memory of a device.
//!
//! | language | words | data block |
//! |---|---|---|
//! | [`pm4`] | packets, as the ring takes them | kernel arguments |
//! | [`aql`] | packets of 16 dwords | kernel arguments; PM4 that vendor packets name |
//! | [`sdma`] | packets, as the ring takes them | nothing |
//!
//! # How packets reach a ring
//!
//! 1. Once per queue: [`Encoder::begin`] gives packets that every submission starts with (to acquire
//!    earlier writes of the host). They are placed like any others and kept.
//! 2. A submission is these words, then the packets' words. The data block may be at any address that
//!    the device can read, at a multiple of [`DATA_ALIGN`], until the submission is done; the host's writes
//!    to it come before the doorbell.
//! 3. Where words are cut (the ring is smaller than the submission; the end of an SDMA ring),
//!    [`Language::packet_boundary`] says how many words are whole packets. PM4 may straddle the end of the ring and
//!    be cut between any packets; SDMA must not straddle; AQL is cut at multiples of 16, and the first
//!    dword of a packet is written after its others.
//! 4. A bound submission of PM4 runs from an indirect buffer, which [`pm4::indirect`] references in the ring; on several XCCs
//!    every submission does ([`Encoder::names_words`]). AQL and SDMA have none here ([`Encoder::binds_words`]): their packets are
//!    copied to the ring again.

pub mod aql;
mod commands;
mod kernarg;
pub mod launch;
pub mod pm4;
pub mod scratch;
pub mod sdma;
mod sink;
mod span;
#[cfg(test)]
mod tests;

use drivers_spec::amd::packet::Gfx;
use hcq::command_buffer::Keep;
use hcq::{Command, CommandBuffer, DeviceId, Error, GpuVa, QueueKind, Result};

pub use aql::Aql;
pub use launch::Launch;
pub use pm4::Pm4;
pub use scratch::Scratch;
pub use sdma::Sdma;

use crate::chip::{Chip, Language};
use crate::options::Recorded;

/// The alignment of a data block in bytes: that of everything in it.
pub const DATA_ALIGN: u64 = 256;

/// Bytes by which XCCs meet: two counters, in a cache line of their own each.
pub const XCC_BARRIER_BYTES: u64 = 512;

/// What an encoder has to know of an opened queue.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device, for messages.
    pub device: DeviceId,
    /// The kind of the queue, for messages.
    pub kind: QueueKind,
    /// Its number among those of its kind, for messages.
    pub index: u32,
    /// The chip.
    pub chip: &'static Chip,
    /// XCCs that run a queue's packets: those of the GPU for compute queues.
    pub xccs: u32,
    /// Address of [`XCC_BARRIER_BYTES`] of device memory, zero at first, by which the XCCs of a PM4 queue
    /// meet. Others do not use it.
    pub xcc_barrier: GpuVa,
    /// Address of the queue structure (`amd_queue_t`), for kernels that ask for it.
    pub queue: GpuVa,
    /// Address of 4 bytes in uncached memory that are zero and belong to this queue: SDMA waits on
    /// them until its writes have arrived. Compute queues do not use them.
    pub fence: GpuVa,
    /// The interrupt that a signal of the timeline raises, if it raises one.
    pub interrupt: Option<Interrupt>,
    /// Where packets are not of our choice.
    pub recorded: Recorded,
}

/// An interrupt that the kernel driver turns into an event.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    /// The address of the signal ([`hcq::Signal::va`]) that raises it.
    pub signal: GpuVa,
    /// Address of the event's slot in the event page.
    pub mailbox: GpuVa,
    /// The event id, which is written there.
    pub event: u32,
}

impl Setup {
    /// Refuses a command.
    fn refused(&self, command: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Command {
            device: self.device.clone(),
            queue: format!("{} {}", self.kind, self.index),
            command: command.into(),
            why: why.into(),
        }
    }
}

/// Where words may be cut, on a generation of chips.
impl Language {
    /// How many of the first words are whole packets and take no more than `room` dwords. All of
    /// them if they fit; 0 if the first packet does not.
    ///
    /// A packet that skips others (COND_EXE of SDMA) counts as one with the skipped packets.
    pub fn packet_boundary(self, gfx: Gfx, words: &[u32], room: usize) -> usize {
        match self {
            Language::Pm4 => pm4::packet_boundary(words, room),
            Language::Aql => packet_boundary(words, room, |_| aql::PACKET),
            Language::Sdma => packet_boundary(words, room, |words| sdma::length(gfx, words)),
        }
    }
}

/// How many of the first words are whole packets and take no more than `room` dwords; `length` gives
/// that of the first packet.
fn packet_boundary(words: &[u32], room: usize, length: impl Fn(&[u32]) -> usize) -> usize {
    if words.len() <= room {
        return words.len();
    }
    let mut at = 0;
    while at < words.len() {
        let end = at + length(&words[at..]);
        if end > room || end > words.len() {
            break;
        }
        at = end;
    }
    at
}

/// The encoder of a queue.
#[derive(Debug)]
pub enum Encoder {
    /// A compute queue that takes PM4.
    Pm4(Pm4),
    /// A compute queue that takes AQL.
    Aql(Aql),
    /// A copy queue.
    Sdma(Sdma),
}

impl Encoder {
    /// Appends the packets of `commands`. Never allocates while `out` has room.
    ///
    /// # Errors
    /// [`Error::Command`] for a command that the queue cannot take; `out` then holds a part.
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        match self {
            Encoder::Pm4(pm4) => pm4.encode(commands, out),
            Encoder::Aql(aql) => aql.encode(commands, out),
            Encoder::Sdma(sdma) => sdma.encode(commands, out),
        }
    }

    /// Appends what every submission starts with: the HDP is flushed and caches are invalidated, so
    /// that what follows sees what the host wrote before the doorbell.
    pub fn begin(&self, out: &mut CommandBuffer) {
        match self {
            Encoder::Pm4(pm4) => pm4.begin(out),
            Encoder::Aql(aql) => aql.begin(out),
            Encoder::Sdma(sdma) => sdma.begin(out),
        }
    }

    /// From now on kernels use this scratch memory, which `keep` owns. Earlier packets
    /// use the old memory: they hold it by [`CommandBuffer::keep`]. A copy queue has no use
    /// for scratch.
    pub fn set_scratch(&self, scratch: Scratch, keep: Option<Keep>) {
        match self {
            Encoder::Pm4(pm4) => pm4.set_scratch(scratch, keep),
            Encoder::Aql(aql) => aql.set_scratch(scratch),
            Encoder::Sdma(_) => {}
        }
    }

    /// Whether what packets keep is what kernels use now, and so kept by the encoder itself.
    pub fn uses(&self, kept: &Keep) -> bool {
        match self {
            Encoder::Pm4(pm4) => pm4.uses(kept),
            Encoder::Aql(_) | Encoder::Sdma(_) => false,
        }
    }

    /// Whether words run from indirect buffers alone.
    pub fn names_words(&self) -> bool {
        matches!(self, Encoder::Pm4(pm4) if pm4.per_xcc())
    }

    /// Whether bound words run from an indirect buffer. Where not, they go to the ring.
    pub fn binds_words(&self) -> bool {
        matches!(self, Encoder::Pm4(_))
    }

    /// Its packets.
    pub fn language(&self) -> Language {
        match self {
            Encoder::Pm4(_) => Language::Pm4,
            Encoder::Aql(_) => Language::Aql,
            Encoder::Sdma(_) => Language::Sdma,
        }
    }
}
