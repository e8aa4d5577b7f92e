//! What an engine sees of memory.
//!
//! One trait for all that an engine reads and writes: the address space of its channel, where addresses
//! are virtual; and the pages that the host has by their physical addresses (USERD, notifiers), where they
//! count from the first byte.

use std::fmt;

use crate::space::{self, Access};

/// An access that was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address, of the first byte that is not there.
    pub va: u64,
    /// What was to be done.
    pub access: Access,
    /// What the MMU has instead.
    pub why: space::Fault,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { va, access, why } = self;
        let verb = match access {
            Access::Read => "a read",
            Access::Write => "a write",
            Access::Atomic => "an atomic operation",
        };
        match why {
            space::Fault::Unmapped => write!(f, "{verb} at {va:#x}, where nothing is mapped"),
            space::Fault::Denied(rights) => {
                write!(f, "{verb} at {va:#x}, which is mapped {rights:?}")
            }
        }
    }
}

/// See the front page. Blocks of a grid run on several threads, each with the same bus.
///
/// Bytes of an aligned word of up to 8 bytes are read and written together, as the client sees them.
pub trait Bus: Send + Sync {
    /// Reads all, or nothing.
    ///
    /// # Errors
    /// Not all of it may be read.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// Writes all, or nothing.
    ///
    /// # Errors
    /// Not all of it may be written.
    fn write(&self, at: u64, data: &[u8]) -> Result<(), Fault>;

    /// Reads, changes and writes up to 16 bytes, naturally aligned, with nobody between; `held` gets what
    /// was there.
    ///
    /// # Errors
    /// It may not be changed at once.
    fn update(
        &self,
        at: u64,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Fault>;
}

impl dyn Bus + '_ {
    /// A word of 4 bytes.
    ///
    /// # Errors
    /// As [`Bus::read`].
    pub fn word(&self, at: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// One of 8.
    ///
    /// # Errors
    /// As [`Bus::read`].
    pub fn long(&self, at: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
