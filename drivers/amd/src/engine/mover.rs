//! [`Mover`]: copies between host memory and VRAM, by an SDMA engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcq::transport::TransportError;
use hcq::{Command, Deadline, Error, MemoryKind, Point, Result, Signal, Staging, Val};

use crate::core::Core;
use crate::memory::pool::{Piece, Pool};
use crate::submit::Channel;

/// Bytes of one copy.
const CHUNK: usize = 2 << 20;

/// How long one copy of a chunk may take. A bus that moves less than a MiB a second hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// Copies between host memory and VRAM on a queue of its own: what the host wants to read must not
/// wait behind work that waits for the host.
pub(crate) struct Mover {
    core: Arc<Core>,
    channel: Arc<Channel>,
    state: Mutex<State>,
}

struct State {
    /// Two chunks of host memory.
    staging: Staging<Piece>,
    /// The last copy.
    last: u64,
}

impl Mover {
    /// A mover over a copy queue that nobody else uses.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn new(core: &Arc<Core>, pool: &Arc<Pool>, channel: Arc<Channel>) -> Result<Mover> {
        let chunk = || pool.piece(MemoryKind::Host, CHUNK as u64, "the staging memory");
        let chunks = [chunk()?, chunk()?];
        Ok(Mover {
            core: core.clone(),
            state: Mutex::new(State {
                staging: Staging::new(chunks, CHUNK, LIMIT),
                last: 0,
            }),
            channel,
        })
    }

    /// The queue.
    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// [`hcq::Error::Timeout`], the loss of the device.
    pub(crate) fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { staging, last } = &mut *guard;
        staging.read(
            into.len(),
            |chunk, range| {
                let from = from + range.start as u64;
                self.copy(last, chunk.va().0, from, range.len())
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
    /// As [`Mover::read`].
    pub(crate) fn write(&self, to: u64, from: &[u8]) -> Result<()> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { staging, last } = &mut *guard;
        let done = staging.write(
            from.len(),
            |chunk, range| {
                let written = chunk.shared()?.write_bytes(0, &from[range]);
                written.map_err(|e| self.broken(e))
            },
            |chunk, range| {
                let to = to + range.start as u64;
                self.copy(last, to, chunk.va().0, range.len())
            },
        )?;
        done.map_or(Ok(()), |done| done.wait(Deadline::after(LIMIT)))
    }

    fn copy(&self, last: &mut u64, dst: u64, src: u64, bytes: usize) -> Result<Point> {
        let (signal, value) = (self.signal().clone(), *last + 1);
        let commands = [
            Command::Copy {
                dst: Val::Const(dst),
                src: Val::Const(src),
                bytes: bytes as u64,
            },
            Command::Signal {
                signal: &signal,
                value: Val::Const(value),
            },
        ];
        self.channel.run(&commands)?;
        *last = value;
        Ok(Point { signal, value })
    }

    fn broken(&self, error: TransportError) -> Error {
        self.core.broken("host access", error)
    }

    fn signal(&self) -> &Signal {
        self.channel.timeline().signal()
    }
}
