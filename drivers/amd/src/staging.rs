//! How the host reaches VRAM: through the BAR for little, by copies of an SDMA engine for much, or
//! for all where there is no mapping.
//!
//! Reads through a BAR are uncached, one at a time over the bus; a copy engine is faster from a few
//! KiB on. Writes are combined, and fast; they have arrived after a flush of the HDP.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcq::memory::RemoteMemory;
use hcq::{Command, Deadline, Error, MemoryKind, Result, Signal, Val};

use crate::channel::Channel;
use crate::core::Core;
use crate::pool::Piece;

/// Up to this much is read through the BAR, if there is a mapping.
const READ_THROUGH_BAR: usize = 4 << 10;

/// Up to this much is written through the BAR, if there is a mapping.
const WRITE_THROUGH_BAR: usize = 1 << 20;

/// Bytes of one copy: while one is under way, the host fills or empties the other.
const CHUNK: usize = 2 << 20;

/// How long one copy of a chunk may take. A bus that moves less than a MiB a second hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// VRAM of a buffer, for the host.
pub(crate) struct Staged {
    core: Arc<Core>,
    piece: Arc<Piece>,
}

impl Staged {
    pub(crate) fn new(core: Arc<Core>, piece: Arc<Piece>) -> Staged {
        Staged { core, piece }
    }
}

impl RemoteMemory for Staged {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        if let Some(view) = self.piece.view()
            && into.len() <= READ_THROUGH_BAR
        {
            self.core.lost.check()?;
            let read = view.copy_to_slice(offset as usize, into);
            return read.map_err(|e| broken(&self.core, e));
        }
        let mover = mover(&self.core)?;
        mover.read(self.piece.va().0 + offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        if let (Some(view), Some(hdp)) = (self.piece.view(), &self.core.hdp)
            && from.len() <= WRITE_THROUGH_BAR
        {
            self.core.lost.check()?;
            let written = view.copy_from_slice(offset as usize, from);
            hdp.flush();
            return written.map_err(|e| broken(&self.core, e));
        }
        let mover = mover(&self.core)?;
        mover.write(self.piece.va().0 + offset, from)
    }
}

/// The device's mover, while the device is open.
fn mover(core: &Arc<Core>) -> Result<Arc<Mover>> {
    core.lost.check()?;
    match core.engine() {
        Some(engine) => engine.mover(),
        None => Err(core.closed()),
    }
}

fn broken(core: &Core, error: hcq::mem::view::ViewError) -> Error {
    Error::Fault {
        device: core.id.clone(),
        unit: "host access".into(),
        what: error.to_string(),
    }
}

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
    pub(crate) fn new(core: &Arc<Core>, channel: Arc<Channel>) -> Result<Mover> {
        let chunk = || {
            let pool = &channel.pool;
            pool.piece(MemoryKind::Host, CHUNK as u64, "the staging memory")
        };
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

    fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
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
                let view = self.view(&state.chunks[chunk])?;
                view.copy_to_slice(0, &mut into[at..end])
                    .map_err(|e| broken(&self.core, e))?;
            }
        }
        Ok(())
    }

    fn write(&self, to: u64, from: &[u8]) -> Result<()> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        for (i, part) in from.chunks(CHUNK).enumerate() {
            let chunk = i % 2;
            self.wait(state.busy[chunk])?;
            let view = self.view(&state.chunks[chunk])?;
            view.copy_from_slice(0, part)
                .map_err(|e| broken(&self.core, e))?;
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
        self.channel.timeline()
    }

    fn wait(&self, value: u64) -> Result<()> {
        self.signal().wait(value, Deadline::after(LIMIT))
    }

    fn view(&self, chunk: &Piece) -> Result<hcq::mem::view::View> {
        chunk.view().ok_or_else(|| Error::NoHostAccess {
            device: self.core.id.clone(),
            va: chunk.va().0,
            has: "none",
            needs: "a mapping",
        })
    }
}
