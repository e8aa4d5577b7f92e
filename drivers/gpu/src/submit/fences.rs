//! [`Fences`]: signals of the driver's own that are put into a ring now and then, not at each submission.
//!
//! Once a fence is reached, everything before it is done: its words may be overwritten, its arguments and
//! its indirect buffers used again. Read pointers are not enough for that: they say what was fetched.

use std::collections::VecDeque;
use std::sync::Arc;

use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{Command, GpuVa, MemoryKind, Packets, Result, Signal};

use super::hardware::Hardware;
use crate::core::Core;
use crate::memory::pool::{Piece, Pool};
use crate::memory::signal;

/// Fences under way at most. Each has a block of its own for what it points to.
const MOST: u64 = 16;

/// Bytes of such a block.
const BLOCK: u64 = 256;

/// What fences are made of.
pub struct Fences {
    /// Counts them, and the host's way to its value.
    signal: Signal,
    reached: Window,
    blocks: Piece,
    window: Window,
}

impl Fences {
    /// The fences of the queue called `name`, which are counted in 16 bytes of zeros.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`].
    pub fn new(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        (reached, va): (Window, GpuVa),
        name: &str,
    ) -> Result<Fences> {
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
    pub fn encode<H: Hardware>(&self, fence: u64, hardware: &H, out: &mut Packets) -> Result<()> {
        out.clear();
        let signal = &self.signal;
        let value = fence.into();
        hardware.encode(&[Command::Signal { signal, value }], out)
    }

    /// Puts what they point to into the fence's block; and them, if the ring names words in memory:
    /// what it takes is in their place then.
    pub fn place<H: Hardware>(
        &self,
        fence: u64,
        hardware: &H,
        packets: &mut Packets,
    ) -> std::result::Result<(), TransportError> {
        let at = fence % MOST * BLOCK;
        let va = self.blocks.va().0 + at;
        let data_at = match H::ENTRIES {
            true => (packets.words.len() as u64 * 4).next_multiple_of(16),
            false => 0,
        };
        packets.relocate(va + data_at);
        if !packets.data.is_empty() {
            self.window.write_words(at + data_at, &packets.data)?;
        }
        if H::ENTRIES {
            self.window.write_words(at, &packets.words)?;
            packets.data.clear();
            hardware.run(va, &packets.words, &mut packets.data);
            std::mem::swap(&mut packets.words, &mut packets.data);
        }
        Ok(())
    }

    /// The last fence that the device has reached.
    #[inline]
    pub fn reached(&self) -> std::result::Result<u64, TransportError> {
        self.reached.load(0)
    }
}

/// Where a queue stands between its fences. Used under the queue's lock.
pub struct Progress {
    /// The last fence, and the last one that is known to be reached.
    pub issued: u64,
    /// See above.
    pub reached: u64,
    /// Positions in the ring behind them.
    fenced: u64,
    done: u64,
    /// Fences between them, and the position behind each.
    under_way: VecDeque<(u64, u64)>,
}

impl Progress {
    /// Of a queue in which nothing is.
    pub fn new() -> Progress {
        Progress {
            issued: 0,
            reached: 0,
            fenced: 0,
            done: 0,
            under_way: VecDeque::with_capacity(MOST as usize),
        }
    }

    /// Whether there is no block for another fence.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.under_way.len() as u64 >= MOST
    }

    /// Whether no fence is under way.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Dwords of the ring, written up to a position, that no fence stands behind.
    #[inline]
    pub fn unfenced(&self, wptr: u64) -> u64 {
        wptr - self.fenced
    }

    /// The next fence is in the ring, before a position.
    #[inline]
    pub fn issue(&mut self, wptr: u64) {
        self.issued += 1;
        self.fenced = wptr;
        self.under_way.push_back((self.issued, wptr));
    }

    /// Notes the fence that the device has reached. Returns the position behind what is done.
    #[inline]
    pub fn advance(&mut self, seen: u64) -> u64 {
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
    pub fn done_by(&self, seen: u64) -> u64 {
        let last = self
            .under_way
            .iter()
            .rev()
            .find(|(fence, _)| *fence <= seen);
        last.map_or(self.done, |&(_, end)| end)
    }

    /// Whether everything in the ring, written up to a position, is known to be done.
    #[inline]
    pub fn is_idle(&self, wptr: u64) -> bool {
        self.fenced == wptr && self.reached == self.issued
    }
}
