//! [`Fences`]: signals of the driver, for words of a ring that the queue's timeline does not cover. See
//! [`super::marks`].

use std::sync::Arc;

use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{Command, CommandBuffer, GpuVa, MemoryKind, Result, Signal};

use super::hardware::Hardware;
use crate::core::Core;
use crate::memory::pool::{Piece, Pool};
use crate::memory::signal;

/// Maximum number of pending fences. Each has its own block for its data.
pub const MOST: u64 = 16;

/// Bytes of such a block.
const BLOCK: u64 = 256;

/// What fences are made of.
pub struct Fences {
    /// Counts them; with the host's window of the value.
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
    pub fn encode<H: Hardware>(
        &self,
        fence: u64,
        hardware: &H,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        out.clear();
        let signal = &self.signal;
        let value = fence.into();
        hardware.encode(&[Command::Signal { signal, value }], out)
    }

    /// Writes their data to the fence's block; also the words, if the ring takes references: then the reference
    /// replaces them.
    pub fn place<H: Hardware>(
        &self,
        fence: u64,
        hardware: &H,
        packets: &mut CommandBuffer,
    ) -> std::result::Result<(), TransportError> {
        let at = fence % MOST * BLOCK;
        let va = self.blocks.va().0 + at;
        let data_at = match hardware.names_words() {
            true => (packets.words.len() as u64 * 4).next_multiple_of(16),
            false => 0,
        };
        packets.relocate(va + data_at);
        if !packets.data.is_empty() {
            self.window.write_words(at + data_at, &packets.data)?;
        }
        if hardware.names_words() {
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
