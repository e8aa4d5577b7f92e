//! [`Hardware`]: one queue as its vendor makes it.

use std::ops::Range;

use hcq::packets::Keep;
use hcq::transport::TransportError;
use hcq::{Command, Packets, Result};

use super::decode::Packet;
use crate::core::Core;

/// A queue of the hardware: commands to words, and words to where it takes them.
///
/// Which one it is, is known when the driver is compiled: nothing is looked up on the way of a
/// submission.
///
/// A ring has dwords, and positions in it are counts of dwords since the queue was made. Who calls
/// keeps them, and sees to it that there is room. What it takes are the words of commands themselves, or
/// entries of its own that name words in memory ([`Hardware::ENTRIES`]).
pub trait Hardware: Send + Sync + Sized + 'static {
    /// Whether the ring takes nothing but entries that name words in memory, which
    /// [`Hardware::run`] makes.
    const ENTRIES: bool;

    /// Whether an interrupt of any queue of the GPU wakes whoever sleeps on an event.
    const WAKES_ALL: bool;

    /// Appends the words of `commands`. Never allocates while `out` has room.
    ///
    /// # Errors
    /// [`hcq::Error::Command`] for a command that the queue cannot take; `out` then holds a part.
    fn encode(&self, commands: &[Command<'_>], out: &mut Packets) -> Result<()>;

    /// Appends what every submission starts with: what follows sees what the host wrote before the
    /// doorbell.
    fn begin(&self, out: &mut Packets);

    /// Whether what packets keep is what kernels use now, and so kept by the queue itself.
    fn uses(&self, kept: &Keep) -> bool {
        let _ = kept;
        false
    }

    /// Whether bound words run from memory. Where not, they go to the ring again each time.
    fn binds_words(&self) -> bool;

    /// Appends what the ring takes to run words that lie at an address.
    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>);

    /// Takes the queue from the hardware, once, if that can fail; otherwise dropping it does. Says whether nothing of it can
    /// write any more.
    fn stop(&self) -> bool {
        true
    }

    /// Whether looking at the ring is a transfer that is waited for.
    fn is_remote(&self) -> bool;

    /// The size of the ring.
    fn dwords(&self) -> u64;

    /// Dwords that are written at once at most.
    fn most(&self) -> usize;

    /// Dwords that are missing so that so many more fit; 0 if they do.
    fn missing(&self, used: u64, more: u64) -> u64;

    /// How many of the first words of the ring are whole packets and fit `room`; 0 if the first one does
    /// not.
    fn whole(&self, words: &[u32], room: usize) -> usize;

    /// Writes words for which there is room, and rings the doorbell. Returns the position behind them,
    /// and what the doorbell was given.
    ///
    /// # Errors
    /// The windows'.
    fn write(&self, wptr: u64, words: &[u32]) -> Result<(u64, u64), TransportError>;

    /// Behind what the device has taken, where it tells.
    ///
    /// # Errors
    /// The windows'.
    fn taken(&self) -> Result<Option<u64>, TransportError>;

    /// Behind what was written last, as the device was told; for who does not hold the queue's lock.
    fn published(&self) -> u64;

    /// Both pointers of the hardware, write and read, whatever they are worth: for messages.
    fn pointers(&self) -> (u64, u64);

    /// Behind what the device has fetched, as far as it tells, whatever that is worth: for bundles.
    fn fetched(&self) -> Option<u64>;

    /// Dwords of the ring, as long as they are not overwritten; empty where they cannot be read.
    fn words(&self, range: Range<u64>) -> Vec<u32>;

    /// What words of the ring do, in order, for messages and traces. Their positions are counted from
    /// `start` on. What they name in memory is read there.
    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet>;

    /// Whether the words of a submission lie at these positions as they were given: a ring may leave its end free.
    fn is_straight(&self, place: &Range<u64>) -> bool {
        let _ = place;
        true
    }

    /// Whether the device leaves the dword of a position as it was written.
    fn is_left(&self, position: u64) -> bool {
        let _ = position;
        true
    }

    /// Whether an address is one at which parts of the queue wait for each other: a wait there is for
    /// nobody else.
    fn is_own(&self, at: u64) -> bool {
        let _ = at;
        false
    }
}
