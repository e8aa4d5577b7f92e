//! [`KernargRing`]: the memory next to a ring that holds the data blocks of submissions, and their words if the ring
//! only references them.

use std::sync::Arc;

use hcq::mem::bump::{Bump, BumpError};
use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{MemoryKind, Result};

use crate::memory::pool::{Piece, Pool};

/// The alignment of a data block in bytes: that of everything in it.
pub const DATA_ALIGN: u64 = 256;

/// What the next submission is taken to need at most, in bytes, when its room is fetched into the caches.
const NEXT: u64 = 2048;

/// After this many bytes the next submission begins at the start again, if all earlier ones are complete: that memory is
/// still in the caches, and its pages are present.
const RESTART: u64 = 64 << 10;

/// The block. Used under the queue's lock.
pub struct KernargRing {
    _memory: Piece,
    va: u64,
    window: Window,
    bump: Bump,
    /// Bytes handed out since the last mark.
    unsealed: u64,
    /// The number of the submission that the last room is of.
    of: u64,
}

/// Room for what a submission needs beside its ring.
pub struct UploadSlot {
    /// Where it is in the block; or, for a submission that is larger than all others, all of a piece.
    memory: SlotMemory,
    va: u64,
}

enum SlotMemory {
    At(u64),
    Own(Window),
}

impl UploadSlot {
    /// All of a piece of memory.
    ///
    /// # Errors
    /// [`hcq::Error::NoHostAccess`], which cannot be.
    pub fn of(piece: &Piece) -> Result<UploadSlot> {
        Ok(UploadSlot {
            memory: SlotMemory::Own(piece.shared()?),
            va: piece.va().0,
        })
    }

    /// Its address.
    #[inline]
    pub fn va(&self) -> u64 {
        self.va
    }
}

/// Why a data block has no place now.
pub struct Full {
    /// Bytes that are free.
    pub free: u64,
}

impl KernargRing {
    /// A block of `bytes` bytes for the queue `name`.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`].
    pub fn new(pool: &Arc<Pool>, bytes: u64, name: &str) -> Result<KernargRing> {
        let what = format!("the arguments of {name}");
        let memory = pool.piece(MemoryKind::Control, bytes, &what)?;
        Ok(KernargRing {
            window: memory.shared()?,
            va: memory.va().0,
            _memory: memory,
            bump: Bump::new(bytes),
            unsealed: 0,
            of: 0,
        })
    }

    /// Bytes of the block.
    #[inline]
    pub fn size(&self) -> u64 {
        self.bump.size()
    }

    /// Room of at most half of the size, for the submission of a number.
    #[inline]
    pub fn take(&mut self, bytes: u64, of: u64) -> std::result::Result<UploadSlot, Full> {
        match self.bump.alloc(bytes, DATA_ALIGN) {
            Ok(offset) => {
                self.unsealed += bytes;
                self.of = of;
                Ok(UploadSlot {
                    memory: SlotMemory::At(offset),
                    va: self.va + offset,
                })
            }
            Err(BumpError::Full { free, .. }) => Err(Full { free }),
            // Cannot be: half of the size always fits an empty block.
            Err(_) => Err(Full { free: 0 }),
        }
    }

    /// Writes words to an offset of some room.
    ///
    /// # Errors
    /// The window's.
    #[inline]
    pub fn write(
        &self,
        room: &UploadSlot,
        offset: u64,
        words: &[u32],
    ) -> std::result::Result<(), TransportError> {
        match &room.memory {
            SlotMemory::At(start) => self.window.write_words(start + offset, words),
            SlotMemory::Own(window) => window.write_words(offset, words),
        }
    }

    /// Prefetches the memory after an allocation: the next submission is likely to write there.
    #[inline]
    pub fn prefetch(&self, room: &UploadSlot, bytes: u64) {
        if let SlotMemory::At(start) = room.memory {
            let next = (start + bytes).next_multiple_of(DATA_ALIGN);
            self.window.prefetch(next, bytes.min(NEXT));
        }
    }

    /// Whether a part of it was handed out since the last mark that is worth one.
    #[inline]
    pub fn wants_mark(&self, part: u64) -> bool {
        self.unsealed >= self.bump.size() / part
    }

    /// Whether it is worth to begin at the start again.
    #[inline]
    pub fn wants_restart(&self) -> bool {
        self.bump.offset() >= RESTART
    }

    /// Begins at the start again. `submissions` submissions are complete; the device may still read the last one. Does nothing
    /// if the last allocation was for a failed submission: the memory of the last complete one is unknown then.
    pub fn restart(&mut self, submissions: u64) {
        if self.of > submissions {
            return;
        }
        self.bump.reclaim(submissions.saturating_sub(1));
        self.bump
            .restart((self.of == submissions).then_some(submissions));
        self.unsealed = 0;
    }

    /// Everything allocated so far is free once `submissions` submissions are complete.
    #[inline]
    pub fn seal(&mut self, submissions: u64) {
        self.bump.seal(submissions);
        self.unsealed = 0;
    }

    /// Frees the memory of that number of submissions.
    #[inline]
    pub fn reclaim(&mut self, passed: u64) {
        self.bump.reclaim(passed);
    }
}
