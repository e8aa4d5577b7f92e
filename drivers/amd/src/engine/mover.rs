//! [`Mover`]: copies between host memory and VRAM, by an SDMA engine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcq::{Command, Deadline, MemoryKind, Result, Signal, Val};

use crate::core::Core;
use crate::core::error::broken;
use crate::memory::pool::{Piece, Pool};
use crate::submit::Channel;

/// Bytes of one copy: while one is under way, the host fills or empties the other.
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
    chunks: [Piece; 2],
    /// The copies of which each was last part.
    busy: [u64; 2],
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
                chunks,
                busy: [0; 2],
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
        let state = &mut *guard;
        let pieces = into.len().div_ceil(CHUNK);
        // One copy ahead of the host.
        for i in 0..=pieces {
            if i < pieces {
                let at = i * CHUNK;
                let bytes = (into.len() - at).min(CHUNK) as u64;
                let chunk = i % 2;
                let dst = state.chunks[chunk].va().0;
                state.busy[chunk] = self.copy(&mut state.last, dst, from + at as u64, bytes)?;
            }
            if i > 0 {
                let (chunk, at) = ((i - 1) % 2, (i - 1) * CHUNK);
                self.wait(state.busy[chunk])?;
                let end = (at + CHUNK).min(into.len());
                let view = state.chunks[chunk].mapped()?;
                view.copy_to_slice(0, &mut into[at..end])
                    .map_err(|e| broken(&self.core.id, "host access", e))?;
            }
        }
        Ok(())
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// As [`Mover::read`].
    pub(crate) fn write(&self, to: u64, from: &[u8]) -> Result<()> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        for (i, part) in from.chunks(CHUNK).enumerate() {
            let chunk = i % 2;
            self.wait(state.busy[chunk])?;
            let view = state.chunks[chunk].mapped()?;
            view.copy_from_slice(0, part)
                .map_err(|e| broken(&self.core.id, "host access", e))?;
            let (dst, src) = (to + (i * CHUNK) as u64, state.chunks[chunk].va().0);
            state.busy[chunk] = self.copy(&mut state.last, dst, src, part.len() as u64)?;
        }
        self.wait(state.last)
    }

    fn copy(&self, last: &mut u64, dst: u64, src: u64, bytes: u64) -> Result<u64> {
        let value = *last + 1;
        let commands = [
            Command::Copy {
                dst: Val::Const(dst),
                src: Val::Const(src),
                bytes,
            },
            Command::Signal {
                signal: self.signal(),
                value: Val::Const(value),
            },
        ];
        self.channel.run(&commands)?;
        *last = value;
        Ok(value)
    }

    fn signal(&self) -> &Signal {
        self.channel.timeline().signal()
    }

    fn wait(&self, value: u64) -> Result<()> {
        self.signal().wait(value, Deadline::after(LIMIT))
    }
}
