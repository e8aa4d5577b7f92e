//! [`Arguments`]: the block of memory beside a ring, from which submissions get their data blocks.

use std::sync::Arc;

use hcq::mem::bump::{Bump, BumpError};
use hcq::mem::window::Window;
use hcq::packets::{Packets, Reloc, Section, place};
use hcq::transport::TransportError;
use hcq::{MemoryKind, Result};

use crate::encode::DATA_ALIGN;
use drivers_gpu::memory::pool::{Piece, Pool};

/// The block. Used under the queue's lock.
pub(crate) struct Arguments {
    memory: Piece,
    window: Window,
    bump: Bump,
    /// Bytes handed out since the last fence.
    unsealed: u64,
    /// A data block with its addresses filled in; kept, so that nothing is allocated.
    words: Vec<u32>,
}

/// Why a data block has no place now.
pub(crate) struct Full {
    pub(crate) free: u64,
}

impl Arguments {
    /// A block of so many bytes for the queue called `name`.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`].
    pub(crate) fn new(pool: &Arc<Pool>, bytes: u64, name: &str) -> Result<Arguments> {
        let what = format!("the arguments of {name}");
        let memory = pool.piece(MemoryKind::Control, bytes, &what)?;
        Ok(Arguments {
            window: memory.shared()?,
            memory,
            bump: Bump::new(bytes),
            unsealed: 0,
            words: Vec::new(),
        })
    }

    /// Bytes of the block.
    pub(crate) fn size(&self) -> u64 {
        self.bump.size()
    }

    /// Room for a data block of at most half of the size. Returns its offset.
    pub(crate) fn take(&mut self, bytes: u64) -> std::result::Result<u64, Full> {
        match self.bump.alloc(bytes, DATA_ALIGN) {
            Ok(offset) => {
                self.unsealed += bytes;
                Ok(offset)
            }
            Err(BumpError::Full { free, .. }) => Err(Full { free }),
            // Cannot be: half of the size always fits an empty block.
            Err(_) => Err(Full { free: 0 }),
        }
    }

    /// Copies a data block to its room. Returns its address.
    pub(crate) fn write(
        &mut self,
        packets: &Packets,
        offset: u64,
    ) -> std::result::Result<u64, TransportError> {
        let base = self.memory.va().0 + offset;
        let words = place_data(packets, base, &mut self.words);
        self.window.write_words(offset, words)?;
        Ok(base)
    }

    /// Whether a part of it was handed out since the last fence that is worth one.
    pub(crate) fn wants_fence(&self, part: u64) -> bool {
        self.unsealed >= self.bump.size() / part
    }

    /// Everything handed out so far is free once a fence is reached.
    pub(crate) fn seal(&mut self, fence: u64) {
        self.bump.seal(fence);
        self.unsealed = 0;
    }

    /// Takes back what is behind no fence after this one.
    pub(crate) fn reclaim(&mut self, reached: u64) {
        self.bump.reclaim(reached);
    }
}

/// A data block at an address, with its own addresses filled in, in `room` if there are any.
pub(crate) fn place_data<'a>(packets: &'a Packets, base: u64, room: &'a mut Vec<u32>) -> &'a [u32] {
    let of_data = |r: &&Reloc| r.section == Section::Data;
    if !packets.relocs.iter().any(|r| of_data(&r)) {
        return &packets.data;
    }
    room.clear();
    room.extend_from_slice(&packets.data);
    for reloc in packets.relocs.iter().filter(of_data) {
        let value = base + u64::from(reloc.add);
        place(room, reloc.offset, reloc.part, value);
    }
    room
}
