//! [`StagingQueue`]: copies between host memory and VRAM, and fills it, by a copy engine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hcq::transport::TransportError;
use hcq::{Command, Deadline, Error, MemoryKind, Point, Result, Staging, Val};

use crate::core::Core;
use crate::memory::pool::{Piece, Pool};
use crate::submit::{Channel, Hardware};

/// Bytes of one copy.
const CHUNK: usize = 2 << 20;

/// How long one copy of a chunk, or one fill, may take. A bus that moves less than a MiB a second hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// Copies between host memory and VRAM on a queue of its own: what the host wants to read must not
/// wait behind work that waits for the host.
pub struct StagingQueue<H: Hardware> {
    core: Arc<Core>,
    channel: Arc<Channel<H>>,
    /// Two chunks of host memory.
    staging: Mutex<Staging<Piece>>,
}

impl<H: Hardware> StagingQueue<H> {
    /// Over a copy queue that nobody else uses.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        channel: Arc<Channel<H>>,
    ) -> Result<StagingQueue<H>> {
        let chunk = || pool.piece(MemoryKind::Host, CHUNK as u64, "the staging memory");
        let chunks = [chunk()?, chunk()?];
        Ok(StagingQueue {
            core: core.clone(),
            staging: Mutex::new(Staging::new(chunks, CHUNK, LIMIT)),
            channel,
        })
    }

    /// The queue.
    pub fn channel(&self) -> &Arc<Channel<H>> {
        &self.channel
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// [`hcq::Error::Timeout`], the loss of the device.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
        self.staging().read(
            into.len(),
            |chunk, range| {
                let from = from + range.start as u64;
                self.copy(chunk.va().0, from, range.len())
            },
            |chunk, range| {
                let read = chunk.shared()?.read_bytes(0, &mut into[range]);
                read.map_err(|e| self.broken(e))
            },
        )
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// As [`StagingQueue::read`].
    pub fn write(&self, to: u64, from: &[u8]) -> Result<()> {
        let done = self.staging().write(
            from.len(),
            |chunk, range| {
                let written = chunk.shared()?.write_bytes(0, &from[range]);
                written.map_err(|e| self.broken(e))
            },
            |chunk, range| {
                let to = to + range.start as u64;
                self.copy(to, chunk.va().0, range.len())
            },
        )?;
        done.map_or(Ok(()), |done| done.wait(Deadline::after(LIMIT)))
    }

    /// Fills device memory, see [`crate::core::queues::Queues::fill`].
    ///
    /// # Errors
    /// As [`StagingQueue::read`].
    pub fn fill(&self, at: u64, value: u32, bytes: u64) -> Result<()> {
        let at = Val::Const(at);
        let done = self.submit(Command::Fill { at, value, bytes })?;
        done.wait(Deadline::after(LIMIT))
    }

    fn copy(&self, dst: u64, src: u64, bytes: usize) -> Result<Point> {
        self.submit(Command::Copy {
            dst: Val::Const(dst),
            src: Val::Const(src),
            bytes: bytes as u64,
        })
    }

    fn submit(&self, command: Command<'_>) -> Result<Point> {
        let timeline = self.channel.timeline();
        timeline.submit(|makes, packets| {
            let done = Command::Signal {
                signal: timeline.signal(),
                value: Val::Const(makes),
            };
            self.channel.hardware().encode(&[command, done], packets)?;
            self.channel.submit(packets, makes)
        })
    }

    fn staging(&self) -> MutexGuard<'_, Staging<Piece>> {
        // A panic leaves the pieces, each with the copy that it is part of.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, error: TransportError) -> Error {
        self.core.broken("host access", error)
    }
}
