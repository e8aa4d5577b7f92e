//! The memories that a warp sees.

use std::fmt::{self, Display, Formatter};

/// Why an access is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing is there.
    #[error("nothing is mapped there")]
    Unmapped,
    /// It may be read only.
    #[error("it may not be written")]
    ReadOnly,
    /// An address must be a multiple of the size.
    #[error("the address is no multiple of the size")]
    Misaligned,
    /// It lies behind the end.
    #[error("the memory ends at {0:#x}")]
    End(u64),
}

/// Global memory, by the addresses that a program uses. What neighbouring lanes access comes as one
/// access to all of it; bytes of an aligned word of up to 8 bytes should be read and written together, as
/// one lane asks for them.
pub trait Memory {
    /// Reads.
    ///
    /// # Errors
    /// When not all of it may be read.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Denied>;

    /// Writes.
    ///
    /// # Errors
    /// When not all of it may be written.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied>;

    /// Reads, changes and writes without anybody between. `bytes` is what it held.
    ///
    /// # Errors
    /// When not all of it may be written.
    fn update(
        &mut self,
        address: u64,
        bytes: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Denied> {
        self.read(address, bytes)?;
        let mut new = [0; 16];
        let new = &mut new[..bytes.len()];
        new.copy_from_slice(bytes);
        change(new);
        self.write(address, new)
    }
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The device's.
    Global,
    /// That of a block.
    Shared,
    /// That of a lane.
    Local,
    /// Any: the address says which.
    Generic,
}

impl Display for Space {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Generic => "generic",
        })
    }
}

/// Where shared and local memory lie among generic addresses. A driver says so to each launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Where the window of shared memory begins.
    pub shared: u64,
    /// Where that of local memory begins.
    pub local: u64,
}

/// The size of each window.
const WINDOW: u64 = 1 << 24;

impl Windows {
    /// Where the window of a memory begins.
    pub(crate) fn base(&self, space: Space) -> u64 {
        if space == Space::Shared {
            self.shared
        } else {
            self.local
        }
    }

    /// Whether an address lies in the window that begins at `base`.
    #[inline]
    pub(crate) fn holds(base: u64, address: u64) -> bool {
        address.wrapping_sub(base) < WINDOW
    }

    /// The memory of a generic address, and the address in it.
    #[inline]
    pub(crate) fn resolve(&self, space: Space, address: u64) -> (Space, u64) {
        if space != Space::Generic {
            return (space, address);
        }
        for space in [Space::Shared, Space::Local] {
            let base = self.base(space);
            if Self::holds(base, address) {
                return (space, address - base);
            }
        }
        (Space::Global, address)
    }
}

/// The place of a byte of local memory: a lane has the first bytes of the window, the last ones, or both,
/// and here one behind the other. Stacks grow down from the end.
#[inline]
pub(crate) fn local(address: u64, bytes: usize) -> u64 {
    let last = WINDOW - (bytes as u64).min(WINDOW);
    address.checked_sub(last).unwrap_or(address)
}

/// A part of memory that is a vector here.
#[inline]
pub(crate) fn part(bytes: &mut [u8], address: u64, len: usize) -> Result<&mut [u8], Denied> {
    let end = bytes.len() as u64;
    usize::try_from(address)
        .ok()
        .and_then(|at| bytes.get_mut(at..at.checked_add(len)?))
        .ok_or(Denied::End(end))
}
