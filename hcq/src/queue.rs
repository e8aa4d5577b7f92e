//! Queues: pure encoding, and submission as the only I/O.

use std::fmt;
use std::sync::Arc;

use crate::command::Command;
use crate::command_buffer::CommandBuffer;
use crate::error::{Error, Result};
use crate::id::{DeviceId, QueueKind};
use crate::signal::{Point, Signal};
use crate::timeline::{Timeline, Turn};
use crate::wait::Deadline;

/// One hardware queue of one device.
///
/// `encode` is pure: it depends on the commands and the chip only (and may skip a wait for a value the host has
/// already [seen](crate::Signal::seen)), so it is tested without a device. A fallback over a vendor's runtime encodes
/// commands to its own words and interprets them in `submit`.
pub trait Queue: Send + Sync {
    /// The device it belongs to.
    fn device(&self) -> &DeviceId;

    /// Its kind.
    fn kind(&self) -> QueueKind;

    /// Its number among the queues of this kind.
    fn index(&self) -> u32;

    /// Appends the packets of `commands`.
    ///
    /// # Errors
    /// [`Error::Command`] if the queue cannot take one of them; `out` then holds a part, and is
    /// cleared by the caller.
    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()>;

    /// Appends the packets that set a signal once all earlier work is done; every submission ends with them.
    ///
    /// # Errors
    /// [`Error::Command`].
    #[inline]
    fn raise(&self, signal: &Signal, value: u64, out: &mut CommandBuffer) -> Result<()> {
        let value = value.into();
        self.encode(&[Command::Signal { signal, value }], out)
    }

    /// Writes the packets of a turn to the ring and rings the doorbell. Returns before they complete. The packets
    /// have no open patches; they are copied, with the address of their data block filled in.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring stays full; [`Error::Command`] for a turn of another queue.
    /// Nothing is submitted then.
    fn submit(&self, turn: &mut Turn<'_>) -> Result<()>;

    /// Places packets in device memory for repeated execution.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the loss of the device.
    fn bind(&self, packets: CommandBuffer) -> Result<Box<dyn IndirectBuffer>>;

    /// The timeline that counts its submissions; the same for every handle of the queue.
    fn timeline(&self) -> &Timeline;

    /// Reserves the next value for a turn; its packets wait for `after`.
    ///
    /// # Errors
    /// [`Error::Command`].
    #[inline(always)]
    fn reserve(&self, turn: &mut Turn<'_>, after: &[Point]) -> Result<()> {
        turn.reserve()?;
        match after.is_empty() {
            true => Ok(()),
            false => self.wait(turn, after),
        }
    }

    /// Appends waits for `after` to the packets of a turn.
    ///
    /// # Errors
    /// [`Error::Command`].
    fn wait(&self, turn: &mut Turn<'_>, after: &[Point]) -> Result<()> {
        for point in after {
            let wait = Command::Wait {
                signal: &point.signal,
                value: point.value.into(),
            };
            self.encode(&[wait], turn.packets())?;
        }
        Ok(())
    }

    /// What [`Stream::submit`] does. It is compiled for each kind of queue, so that nothing is looked up on the way.
    ///
    /// # Errors
    /// Those of [`Stream::submit`].
    fn run(&self, after: &[Point], commands: &[Command<'_>]) -> Result<Point> {
        self.timeline().check()?;
        let mut turn = self.timeline().turn();
        self.reserve(&mut turn, after)?;
        let (signal, signal_value) = (turn.signal(), turn.signal_value());
        let packets = turn.packets();
        self.encode(commands, packets)?;
        self.raise(signal, signal_value, packets)?;
        self.submit(&mut turn)?;
        Ok(turn.submitted())
    }
}

/// Packets in device memory: one indirect buffer, patched while the device does not run it, then launched with
/// minimal traffic.
pub trait IndirectBuffer: Send {
    /// Writes the patched words.
    ///
    /// # Errors
    /// [`Error::Graph`] for a slot without value, or the loss of the device.
    fn patch(&mut self, values: &[u64]) -> Result<()>;

    /// Queues one run after the packets of a turn (its waits, if any), and rings the doorbell once.
    ///
    /// # Errors
    /// As [`Queue::submit`].
    fn launch(&mut self, turn: &mut Turn<'_>) -> Result<()>;
}

/// The error for an open slot.
pub fn no_value(slot: u16, given: usize) -> Error {
    Error::Graph(format!(
        "slot {slot} has no value, {given} values given; pass one value per slot, in slot order"
    ))
}

/// Submits to a queue: commands in order, each submission with a [`Point`] to wait for.
///
/// A cheap handle. Submissions are counted by the queue's [`Timeline`], so any number of streams in any threads may
/// submit to one queue.
#[derive(Clone)]
pub struct Stream {
    queue: Arc<dyn Queue>,
}

impl Stream {
    /// A stream over a queue.
    pub fn new(queue: Arc<dyn Queue>) -> Stream {
        Stream { queue }
    }

    /// The queue under it.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// Submits commands: waits for `after`, runs them, signals. No allocation in a steady state.
    ///
    /// # Errors
    /// [`Error::Command`] if a command cannot be encoded (nothing is submitted then), or the loss
    /// of the device.
    pub fn submit(&self, after: &[Point], commands: &[Command<'_>]) -> Result<Point> {
        self.queue.run(after, commands)
    }

    /// Runs packets bound to the queue, after `after`. `values` are patched into them; it receives the value to which
    /// they must raise the timeline.
    ///
    /// # Errors
    /// Those of [`IndirectBuffer::patch`] and [`IndirectBuffer::launch`].
    #[inline]
    pub fn launch<V: AsRef<[u64]>>(
        &self,
        after: &[Point],
        bound: &mut dyn IndirectBuffer,
        values: impl FnOnce(u64) -> V,
    ) -> Result<Point> {
        self.queue.timeline().check()?;
        let mut turn = self.queue.timeline().turn();
        self.queue.reserve(&mut turn, after)?;
        let signal_value = turn.signal_value();
        bound.patch(values(signal_value).as_ref())?;
        bound.launch(&mut turn)?;
        Ok(turn.submitted())
    }

    /// The moment after everything submitted to the queue so far.
    pub fn last(&self) -> Point {
        self.queue.timeline().last()
    }

    /// Blocks until everything submitted to the queue so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        // Unlike a point that was seen, a queue is asked for how it is, also where it has no work.
        let Point { signal, value } = self.last();
        signal.wait(value, deadline)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Stream({} {} {})",
            self.queue.device(),
            self.queue.kind(),
            self.queue.index()
        )
    }
}
