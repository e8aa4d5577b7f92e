//! Queues: pure encoding, and submission as the only I/O.

use std::fmt;
use std::sync::Arc;

use crate::command::Command;
use crate::error::{Error, Result};
use crate::id::{DeviceId, QueueKind};
use crate::packets::Packets;
use crate::signal::Point;
use crate::timeline::{Timeline, Turn};
use crate::wait::Deadline;

/// One hardware queue of one device.
///
/// `encode` is pure: it looks at nothing but the commands and the facts of the chip (and may leave out
/// a wait for what the host has [seen](crate::Signal::seen)), so it is tested without a device. A fallback over a
/// vendor's runtime encodes commands to words of its own and interprets them in `submit`.
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
    fn encode(&self, commands: &[Command<'_>], out: &mut Packets) -> Result<()>;

    /// Writes packets to the ring and rings the doorbell. Returns before they are done. They hold no open patches; the address of their data block is filled in, and they are copied. `makes` is
    /// what they raise the timeline to, for kernels that count submissions themselves.
    ///
    /// Called by [`Stream`]s, which hold the timeline meanwhile.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring stays full. Nothing is submitted then.
    fn submit(&self, packets: &mut Packets, makes: u64) -> Result<()>;

    /// Places packets where the device can read them again and again.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the loss of the device.
    fn bind(&self, packets: Packets) -> Result<Box<dyn Bound>>;

    /// What counts its submissions; every handle of the queue gives the same one.
    fn timeline(&self) -> &Timeline;
}

/// Packets in device memory. Owner of one indirect buffer: patched while the device does not run
/// it, then launched with as little traffic as the way in allows.
pub trait Bound: Send {
    /// Writes the patched words.
    ///
    /// # Errors
    /// [`Error::Graph`] for a slot without value, or the loss of the device.
    fn patch(&mut self, values: &[u64]) -> Result<()>;

    /// Queues one run behind `before` (what it waits for, if it does, encoded by the same queue), and
    /// rings the doorbell once. `makes` as in [`Queue::submit`].
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring stays full. Nothing is submitted then.
    fn launch(&mut self, before: Option<&mut Packets>, makes: u64) -> Result<()>;
}

/// The error for an open slot.
pub fn no_value(slot: u16, given: usize) -> Error {
    Error::Graph(format!(
        "slot {slot} has no value: {given} were given; pass one value per slot in slot order"
    ))
}

/// A way to submit to a queue: commands in order, each submission with a [`Point`] to wait for.
///
/// A cheap handle. What counts is the queue's [`Timeline`], so any number of streams, in any threads, may
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
        let mut turn = self.reserve(after)?;
        let (signal, makes) = (turn.signal(), turn.makes());
        let packets = turn.packets();
        self.queue.encode(commands, packets)?;
        let done = Command::Signal {
            signal,
            value: makes.into(),
        };
        self.queue.encode(&[done], packets)?;
        self.queue.submit(packets, makes)?;
        Ok(turn.submitted())
    }

    /// Runs packets that are bound to the queue, after `after`. `values` are patched into them; it is
    /// given the value that they have to raise the timeline to.
    ///
    /// # Errors
    /// Those of [`Bound::patch`] and [`Bound::launch`].
    #[inline]
    pub fn launch<V: AsRef<[u64]>>(
        &self,
        after: &[Point],
        bound: &mut dyn Bound,
        values: impl FnOnce(u64) -> V,
    ) -> Result<Point> {
        let mut turn = self.reserve(after)?;
        let makes = turn.makes();
        bound.patch(values(makes).as_ref())?;
        bound.launch(turn.written(), makes)?;
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

    /// The next submission, whose packets wait for `after`.
    #[inline(always)]
    pub(crate) fn reserve(&self, after: &[Point]) -> Result<Turn<'_>> {
        let mut turn = self.queue.timeline().reserve()?;
        for point in after {
            let wait = Command::Wait {
                signal: &point.signal,
                value: point.value.into(),
            };
            self.queue.encode(&[wait], turn.packets())?;
        }
        Ok(turn)
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
