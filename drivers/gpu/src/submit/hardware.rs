//! [`Hardware`]: one queue as its vendor makes it; [`Submit`]: how words reach it.
//!
//! Every queue encodes commands, and says what its packets do. How words get there is another matter: most write them to a
//! ring in memory that the process owns, and ring a doorbell ([`super::ring`]). Others call a kernel driver, which has the
//! ring, and counts the calls. A [`super::Channel`] is the same over both.
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

/// Whether a queue stands at a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// It works, or is about to.
    Moves,
    /// It does, with a number that another wait does not have.
    Held(u64),
}

/// A queue of the hardware: commands to words, and words back to what they do.
///
/// Which one it is, is known when the driver is compiled: nothing is looked up on the way of a
/// submission.
pub trait Hardware: Send + Sync + Sized + 'static {
    /// How words reach it.
    type Way: Submit;

    /// Whether an interrupt of any queue of the GPU wakes whoever sleeps on an event.
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

    /// Appends what every submission starts with: what an earlier one has left is done before, and what follows sees
    /// what the host wrote before the doorbell.
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

    /// Appends what the queue takes to run words that lie at an address.
    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>);

    /// Takes the queue from the hardware, once, if that can fail; otherwise dropping it does. Says whether nothing of it can
    /// write any more.
    fn stop(&self) -> bool {
        true
    }

    /// What words that were handed over do, in order, for messages and traces. They stand at these positions from `start`
    /// on. What they name in memory is read there.
    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet>;

    /// Where it stands, in words, with its name, if it knows better than its ring and its packets tell; empty if it has
    /// nothing to do.
    fn report(&self) -> Option<String> {
        None
    }

    /// For how long nothing has moved here, nor in what it waits for, if it knows better than its pointers and its
    /// packets tell.
    fn silence(&self, asked: &mut Asked) -> Option<Duration> {
        let _ = asked;
        None
    }

    /// Whether it stands at a wait, if it knows better than its packets tell: a wait that was passed need not hold any more.
    fn stand(&self) -> Option<Stand> {
        None
    }

    /// Whether an address is one at which parts of the queue wait for each other: a wait there is for
    /// nobody else.
    fn is_own(&self, at: u64) -> bool {
        let _ = at;
        false
    }
}

/// How words reach a queue. Who calls keeps the positions, and sees to it that there is room.
pub trait Submit: Send + Sync + 'static {
    /// What positions count, for messages.
    const UNIT: &'static str;

    /// Whether looking at it is a transfer that is waited for.
    fn is_remote(&self) -> bool {
        false
    }

    /// How much may be under way.
    fn size(&self) -> u64;

    /// Words that are handed over at once at most.
    fn most(&self) -> usize;

    /// How many of the first words are whole packets and fit `room`; 0 if the first one does not.
    fn whole(&self, words: &[u32], room: usize) -> usize;

    /// What is missing so that so many more words may be handed over while so much is `used`; 0 if nothing is.
    fn missing(&self, used: u64, words: usize) -> u64;

    /// Hands over words, which stand behind position `at`, and has the device look.
    ///
    /// # Errors
    /// [`Failed`].
    fn submit(&self, at: u64, words: &[u32]) -> Result<Submitted, Failed>;

    /// Behind what the device has taken, where it tells: so much is free again. It need not be done.
    ///
    /// # Errors
    /// The loss of the way there.
    fn taken(&self) -> Result<Option<u64>, TransportError>;

    /// Behind what was submitted last; for who does not hold the queue's lock.
    fn submitted(&self) -> u64;

    /// What moves while the device works, whatever it is worth: for messages, and for who asks whether anything moves. Where
    /// the host is, and where the device.
    fn pointers(&self) -> (u64, u64);

    /// The ring, if it is the process's to read.
    fn ring(&self) -> Option<&dyn Readable> {
        None
    }
}

/// What a submission has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// The position behind it.
    pub end: u64,
    /// What the device was told: the doorbell's value, or the number of the call.
    pub told: u64,
}

/// Why words were not handed over.
#[derive(Debug)]
pub enum Failed {
    /// The way there is broken, and nobody knows what has arrived.
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
    /// Behind what the device has fetched, as far as it tells, whatever that is worth.
    fn fetched(&self) -> Option<u64>;

    /// Dwords of the ring, as long as they are not overwritten; empty where they cannot be read.
    fn words(&self, range: Range<u64>) -> Vec<u32>;

    /// Whether the words of a submission lie at these positions as they were given: a ring may leave its end free.
    fn is_straight(&self, place: &Range<u64>) -> bool;

    /// Whether the device leaves the dword of a position as it was written.
    fn is_left(&self, position: u64) -> bool;
}
