//! Queues: pure encoding, and submission as the only I/O.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::command::Command;
use crate::error::{Error, Result};
use crate::id::DeviceId;
use crate::packets::Packets;
use crate::signal::{Point, Signal};
use crate::timeline::{Counter, Step};
use crate::wait::Deadline;

/// What a queue can do. A device may lack a kind and then offers the same command on another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum QueueKind {
    /// Kernels; takes every command.
    Compute,
    /// Copies beside running kernels; takes every command but `Exec`.
    Copy,
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueKind::Compute => "compute",
            QueueKind::Copy => "copy",
        })
    }
}

/// One hardware queue of one device.
///
/// `encode` is pure: it looks at nothing but the commands and the facts of the chip (and may leave out
/// a wait that is over for good), so it is tested without a device. A fallback over a vendor's runtime encodes commands to words of its
/// own and interprets them in `submit`.
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

    /// Writes packets to the ring and rings the doorbell. Returns before they are done. The packets
    /// are copied, and hold no open patches.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring stays full.
    fn submit(&self, packets: &Packets) -> Result<()>;

    /// Places packets where the device can read them again and again.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the loss of the device.
    fn bind(&self, packets: Packets) -> Result<Box<dyn Bound>>;

    /// The signal that every [`Stream`] submission of this queue raises.
    fn timeline(&self) -> &Signal;
}

/// Packets in device memory. Owner of one indirect buffer: patched while the device does not run
/// it, then launched with as little traffic as the way in allows.
pub trait Bound: Send {
    /// Writes the patched words.
    ///
    /// # Errors
    /// [`Error::Graph`] for a slot without value, or the loss of the device.
    fn patch(&mut self, values: &[u64]) -> Result<()>;

    /// Queues one run and rings the doorbell.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring stays full.
    fn launch(&mut self) -> Result<()>;
}

/// [`Bound`] for queues without indirect buffers: keeps the packets and submits them again.
pub struct Resubmit<Q: Queue + ?Sized> {
    queue: Arc<Q>,
    packets: Packets,
}

impl<Q: Queue + ?Sized> Resubmit<Q> {
    /// Keeps `packets` for `queue`.
    pub fn new(queue: Arc<Q>, packets: Packets) -> Self {
        Resubmit { queue, packets }
    }
}

impl<Q: Queue + ?Sized> Bound for Resubmit<Q> {
    fn patch(&mut self, values: &[u64]) -> Result<()> {
        self.packets
            .patch(values)
            .map_err(|slot| no_value(slot.0, values.len()))
    }

    fn launch(&mut self) -> Result<()> {
        self.queue.submit(&self.packets)
    }
}

/// The error for an open slot.
pub fn no_value(slot: u16, given: usize) -> Error {
    Error::Graph(format!(
        "slot {slot} has no value: {given} were given; pass one value per slot in slot order"
    ))
}

/// A queue with its timeline: submissions in order, each with a [`Point`] to wait for.
///
/// The timeline's value is reserved, encoded and submitted under one lock, so it only grows. It grows
/// by one, except where it passes a multiple of 2^32: see [`Counter`].
pub struct Stream {
    queue: Arc<dyn Queue>,
    state: Mutex<State>,
}

struct State {
    count: Counter,
    packets: Packets,
}

impl Stream {
    /// A stream over a queue. One queue has one stream: two would hand out the same values.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn new(queue: Arc<dyn Queue>) -> Result<Arc<Stream>> {
        let count = Counter::after(queue.timeline().value()?);
        let state = Mutex::new(State {
            count,
            packets: Packets::new(),
        });
        Ok(Arc::new(Stream { queue, state }))
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
        let mut state = self.lock();
        let State { count, packets } = &mut *state;
        let next = self.next(count)?;
        let Step { signal, point } = next.last();
        let timeline = self.queue.timeline();
        packets.clear();
        for point in after {
            let wait = Command::Wait {
                signal: &point.signal,
                value: point.value.into(),
            };
            self.queue.encode(&[wait], packets)?;
        }
        self.queue.encode(commands, packets)?;
        let done = Command::Signal {
            signal: timeline,
            value: signal.into(),
        };
        self.queue.encode(&[done], packets)?;
        self.queue.submit(packets)?;
        *count = next;
        Ok(self.point(point))
    }

    /// Reserves the next timeline value and lets `launch` submit packets that set it. The lock
    /// is held meanwhile, so nothing else enters the queue between.
    ///
    /// # Errors
    /// What `launch` returns; the value is then not used up.
    pub fn launch_with(&self, launch: impl FnOnce(u64) -> Result<()>) -> Result<Point> {
        let mut state = self.lock();
        let next = self.next(&state.count)?;
        launch(next.last().signal)?;
        state.count = next;
        Ok(self.point(next.last().point))
    }

    /// The moment after everything submitted so far.
    pub fn last(&self) -> Point {
        self.point(self.lock().count.last().point)
    }

    /// Blocks until everything submitted so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        self.last().wait(deadline)
    }

    fn next(&self, count: &Counter) -> Result<Counter> {
        count.next().ok_or_else(|| Error::Command {
            device: self.queue.device().clone(),
            queue: format!("{} {}", self.queue.kind(), self.queue.index()),
            command: "signal".into(),
            why: "its timeline has used up 64 bits: open the device again".into(),
        })
    }

    fn point(&self, value: u64) -> Point {
        Point {
            signal: self.queue.timeline().clone(),
            value,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while encoding leaves packets that the next call clears: the state stays good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
