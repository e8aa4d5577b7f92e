//! [`Hardware`]: one queue as its vendor makes it; [`Submit`]: how words reach it.
//!
//! Every queue encodes commands and decodes its packets. Submission differs: most queues write words to a ring in the
//! process's memory and ring a doorbell ([`super::ring`]). Others call a kernel driver, which owns the ring and
//! counts the calls. A [`super::Channel`] works the same over both.
//!
//! Positions say where in a queue something is. They only grow: dwords of a ring, or calls.

use std::ops::Range;
use std::time::Duration;

use hcq::command_buffer::Keep;
use hcq::progress::Asked;
use hcq::transport::TransportError;
use hcq::{Command, CommandBuffer, Error, Result, Signal};

use super::decode::Packet;
use crate::core::Core;

/// Whether a queue is blocked by a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// It works, or is about to.
    Moves,
    /// It does, with a number that another wait does not have.
    Held(u64),
}

/// A hardware queue: encodes commands to words and decodes words.
///
/// It is a type parameter of the driver: submissions have no dynamic dispatch.
pub trait Hardware: Send + Sync + Sized + 'static {
    /// How words reach it.
    type Way: Submit;

    /// Whether an interrupt of any queue of the GPU wakes all threads that sleep on an event.
    const WAKES_ALL: bool;

    /// How words reach it.
    fn way(&self) -> &Self::Way;

    /// Appends the words of `commands`. Never allocates while `out` has room.
    ///
    /// # Errors
    /// [`hcq::Error::Command`] for a command that the queue cannot take; `out` then holds a part.
    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()>;

    /// Appends the words of [`Command::Signal`], which every submission has.
    ///
    /// # Errors
    /// None: every queue can.
    #[inline]
    fn raise(&self, signal: &Signal, value: u64, out: &mut CommandBuffer) -> Result<()> {
        let value = value.into();
        self.encode(&[Command::Signal { signal, value }], out)
    }

    /// Appends the head of every submission: waits for earlier work, and makes host writes before the doorbell
    /// visible.
    ///
    /// # Errors
    /// None: every queue can.
    fn begin(&self, out: &mut CommandBuffer) -> Result<()>;

    /// Whether what packets keep is what kernels use now, and so kept by the queue itself.
    fn uses(&self, kept: &Keep) -> bool {
        let _ = kept;
        false
    }

    /// Whether it takes nothing but what names words in memory, which [`Hardware::run`] makes.
    fn names_words(&self) -> bool;

    /// Whether bound words run from memory. Where not, they are handed over again each time.
    fn binds_words(&self) -> bool;

    /// Appends the words that run a block of words at an address.
    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>);

    /// Removes the queue from the hardware, once, if that can fail; otherwise dropping it does. Returns whether it can no longer
    /// write.
    fn stop(&self) -> bool {
        true
    }

    /// The operations of submitted words, in order, for messages and traces. `start` is their first position.
    /// Referenced memory is read as well.
    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet>;

    /// Shows them one by one. Looks at a long run do: without allocations, where the hardware has a way of its own.
    fn visit(&self, core: &Core, words: &[u32], start: u64, see: &mut dyn FnMut(Packet)) {
        self.decode(core, words, start).into_iter().for_each(see);
    }

    /// Its name and state as text, if it knows more than its ring and packets show; empty if idle.
    fn report(&self) -> Option<String> {
        None
    }

    /// Time without progress here and in the awaited work, if it knows more than its pointers and packets show.
    fn silence(&self, asked: &mut Asked) -> Option<Duration> {
        let _ = asked;
        None
    }

    /// Whether nothing that it was ever given waits for memory: what is in flight then ends by itself, and need not be read
    /// back to tell.
    fn never_waits(&self) -> bool {
        false
    }

    /// Whether it is at a wait, if it knows more than its packets show: the condition of a passed wait may no longer
    /// hold.
    fn stand(&self) -> Option<Stand> {
        None
    }

    /// Whether parts of the queue synchronize at this address: a wait there is internal.
    fn is_own(&self, at: u64) -> bool {
        let _ = at;
        false
    }
}

/// Submits words to a queue. The caller tracks positions and ensures free space.
pub trait Submit: Send + Sync + 'static {
    /// What positions count, for messages.
    const UNIT: &'static str;

    /// Whether looking at it is a transfer that is waited for.
    fn is_remote(&self) -> bool {
        false
    }

    /// How much may be in flight.
    fn size(&self) -> u64;

    /// Words that are handed over at once at most.
    fn most(&self) -> usize;

    /// How many of the first words are whole packets and fit `room`; 0 if the first one does not.
    fn packet_boundary(&self, words: &[u32], room: usize) -> usize;

    /// Missing space to submit this many more words while `used` is in use; 0 if they fit.
    fn missing(&self, used: u64, words: usize) -> u64;

    /// Submits words, which are after position `at`, and notifies the device.
    ///
    /// # Errors
    /// [`Failed`].
    fn submit(&self, at: u64, words: &[u32]) -> Result<Submitted, Failed>;

    /// The position after the words fetched by the device, if it reports that: free again, but not necessarily
    /// complete.
    ///
    /// # Errors
    /// Access to the queue failed.
    fn taken(&self) -> Result<Option<u64>, TransportError>;

    /// The position after the last submission; usable without the queue's lock.
    fn submitted(&self) -> u64;

    /// Positions of host and device, which advance while the device works: for messages and progress checks.
    fn pointers(&self) -> (u64, u64);

    /// The ring, if it is the process's to read.
    fn ring(&self) -> Option<&dyn Readable> {
        None
    }
}

/// What a submission has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// The position after it.
    pub end: u64,
    /// The notification: the doorbell's value, or the number of the call.
    pub told: u64,
}

/// Why words were not handed over.
#[derive(Debug)]
pub enum Failed {
    /// The transport failed; what arrived is unknown.
    Broken(TransportError),
    /// They were refused, and nothing has changed.
    Refused(Error),
}

impl From<TransportError> for Failed {
    fn from(error: TransportError) -> Failed {
        Failed::Broken(error)
    }
}

/// A ring that can be read back: for messages and bundles.
pub trait Readable {
    /// The position after the words fetched by the device, as far as it reports that.
    fn fetched(&self) -> Option<u64>;

    /// Dwords of the ring, as long as they are not overwritten; empty where they cannot be read.
    fn words(&self, range: Range<u64>) -> Vec<u32>;

    /// Whether the words of a submission are at these positions unchanged: a ring may leave its end free.
    fn is_straight(&self, place: &Range<u64>) -> bool;

    /// Whether the device leaves the dword of a position as it was written.
    fn is_left(&self, position: u64) -> bool;
}
