//! [`Fences`]: signals of the driver's own that are put into a ring now and then, not at each submission.
//!
//! Once a fence is reached, everything before it is done: its words may be overwritten, its arguments and
//! its indirect buffers used again. Read pointers are not enough for that: they say what was fetched.

use std::collections::VecDeque;
use std::sync::Arc;

use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{Command, MemoryKind, Packets, Result, Signal};

use crate::encode::Encoder;
use crate::interface::HardwareQueue;
use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::{Piece, Pool};
use drivers_gpu::memory::signal;

/// Fences under way at most. Each has a block of its own for what it points to.
const MOST: u64 = 16;

/// Bytes of such a block.
const BLOCK: u64 = 256;

/// What fences are made of.
pub(crate) struct Fences {
    /// Counts them, and the host's way to its value.
    signal: Signal,
    reached: Window,
    blocks: Piece,
    window: Window,
}

impl Fences {
    /// The fences of the queue called `name`.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`].
    pub(crate) fn new(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        queue: &HardwareQueue,
        name: &str,
    ) -> Result<Fences> {
        let (reached, va) = queue.progress().map_err(|e| core.broken(name, e))?;
        let what = format!("the fences of {name}");
        let blocks = pool.piece(MemoryKind::Control, MOST * BLOCK, &what)?;
        Ok(Fences {
            signal: signal::over(core, &format!("{name} fences"), reached.clone(), va),
            reached,
            window: blocks.shared()?,
            blocks,
        })
    }

    /// The packets of the fence with that number.
    ///
    /// # Errors
    /// None: every queue can signal.
    pub(crate) fn encode(&self, fence: u64, encoder: &Encoder, out: &mut Packets) -> Result<()> {
        out.clear();
        let signal = &self.signal;
        let value = fence.into();
        encoder.encode(&[Command::Signal { signal, value }], out)
    }

    /// Puts what they point to into the fence's block.
    pub(crate) fn place(
        &self,
        fence: u64,
        packets: &mut Packets,
    ) -> std::result::Result<(), TransportError> {
        let at = fence % MOST * BLOCK;
        packets.relocate(self.blocks.va().0 + at);
        match packets.data.is_empty() {
            true => Ok(()),
            false => self.window.write_words(at, &packets.data),
        }
    }

    /// The last fence that the device has reached.
    pub(crate) fn reached(&self) -> std::result::Result<u64, TransportError> {
        self.reached.load(0)
    }
}

/// Where a queue stands between its fences. Used under the queue's lock.
pub(crate) struct Progress {
    /// The last fence, and the last one that is known to be reached.
    pub(crate) issued: u64,
    pub(crate) reached: u64,
    /// Positions in the ring behind them.
    fenced: u64,
    done: u64,
    /// Fences between them, and the position behind each.
    under_way: VecDeque<(u64, u64)>,
}

impl Progress {
    /// Of a queue in which nothing is.
    pub(crate) fn new() -> Progress {
        Progress {
            issued: 0,
            reached: 0,
            fenced: 0,
            done: 0,
            under_way: VecDeque::with_capacity(MOST as usize),
        }
    }

    /// Whether there is no block for another fence.
    pub(crate) fn is_full(&self) -> bool {
        self.under_way.len() as u64 >= MOST
    }

    /// Whether no fence is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Dwords of the ring, written up to a position, that no fence stands behind.
    pub(crate) fn unfenced(&self, wptr: u64) -> u64 {
        wptr - self.fenced
    }

    /// The next fence is in the ring, before a position.
    pub(crate) fn issue(&mut self, wptr: u64) {
        self.issued += 1;
        self.fenced = wptr;
        self.under_way.push_back((self.issued, wptr));
    }

    /// Notes the fence that the device has reached. Returns the position behind what is done.
    pub(crate) fn advance(&mut self, seen: u64) -> u64 {
        // What the device has written is worth no more than what it was told.
        let seen = seen.min(self.issued);
        while let Some(&(fence, end)) = self.under_way.front()
            && fence <= seen
        {
            self.done = end;
            self.under_way.pop_front();
        }
        self.reached = self.reached.max(seen);
        self.done
    }

    /// The position behind what is done, by the fence that the device has reached; notes nothing.
    pub(crate) fn done_by(&self, seen: u64) -> u64 {
        let last = self
            .under_way
            .iter()
            .rev()
            .find(|(fence, _)| *fence <= seen);
        last.map_or(self.done, |&(_, end)| end)
    }

    /// Whether everything in the ring, written up to a position, is known to be done.
    pub(crate) fn is_idle(&self, wptr: u64) -> bool {
        self.fenced == wptr && self.reached == self.issued
    }
}
