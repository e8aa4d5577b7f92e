//! How the host reaches VRAM: through the BAR for little, by copies of an SDMA engine for much, or
//! for all where there is no mapping.
//!
//! Reads through a BAR are uncached, one at a time over the bus; a copy engine is faster from a few
//! KiB on. Writes are combined, and fast; they have arrived after a flush of the HDP.

use std::sync::Arc;

use hcq::Result;
use hcq::memory::RemoteMemory;

use super::pool::Piece;
use crate::core::Core;
use crate::core::queues::Copies;

/// Up to this much is read through the BAR, if there is a mapping.
const READ_THROUGH_BAR: usize = 4 << 10;

/// Up to this much is written through the BAR, if there is a mapping.
const WRITE_THROUGH_BAR: usize = 1 << 20;

/// VRAM of a buffer, for the host.
pub struct Vram {
    core: Arc<Core>,
    piece: Arc<Piece>,
}

impl Vram {
    /// The host's access to a piece.
    pub fn new(core: Arc<Core>, piece: Arc<Piece>) -> Vram {
        Vram { core, piece }
    }

    /// Zeros from the start on.
    ///
    /// # Errors
    /// [`hcq::Error::Timeout`], [`hcq::Error::OutOfMemory`] for the queue, the loss of the device.
    pub fn zero(&self, bytes: u64) -> Result<()> {
        if let Some(window) = self.piece.window()
            && bytes <= WRITE_THROUGH_BAR as u64
        {
            self.core.lost.check()?;
            let written = window.fill(0, bytes, 0);
            written.map_err(|e| self.core.broken("host access", e))?;
            return self.core.backend.flush_vram();
        }
        // A piece is made of whole words.
        let bytes = bytes.next_multiple_of(4);
        self.copies()?.fill(self.piece.va().0, 0, bytes)
    }

    /// What copies, while the device is open.
    fn copies(&self) -> Result<Arc<dyn Copies>> {
        self.core.lost.check()?;
        self.core.copies().ok_or_else(|| self.core.closed())
    }
}

impl RemoteMemory for Vram {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        if let Some(window) = self.piece.window()
            && into.len() <= READ_THROUGH_BAR
        {
            self.core.lost.check()?;
            let read = window.read_bytes(offset, into);
            read.map_err(|e| self.core.broken("host access", e))?;
            // All ones: the GPU has left the bus.
            return match into.iter().all(|byte| *byte == 0xff) {
                true => self.core.look(),
                false => Ok(()),
            };
        }
        self.copies()?.read(self.piece.va().0 + offset, into)
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        if let Some(window) = self.piece.window()
            && from.len() <= WRITE_THROUGH_BAR
        {
            self.core.lost.check()?;
            let written = window.write_bytes(offset, from);
            written.map_err(|e| self.core.broken("host access", e))?;
            return self.core.backend.flush_vram();
        }
        self.copies()?.write(self.piece.va().0 + offset, from)
    }
}
