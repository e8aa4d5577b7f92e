//! The process that makes a system call, as a kernel driver sees it: its memory, and its descriptors.
//!
//! [`Here`] is this process itself. One of the host's other processes, whose calls come through a socket, is
//! another one.

use std::os::fd::BorrowedFd;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::host::{Identity, Mapping, user};
use crate::process::Wanted;

/// See the front page.
///
/// Errors are those of the system.
#[allow(clippy::missing_errors_doc)] // As above.
pub trait Caller: Send + Sync {
    /// Its number.
    fn pid(&self) -> u32;

    /// Reads its memory; all or `EFAULT`.
    fn read(&self, address: u64, out: &mut [u8]) -> Result;

    /// Writes its memory; all or `EFAULT`.
    fn write(&self, address: u64, data: &[u8]) -> Result;

    /// Whole pages of its memory, for a device: `EFAULT` where not all of it is there with those rights.
    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Mapping>;

    /// Maps memory of a device from an offset; returns where.
    fn map(&self, wanted: Wanted, of: &Mapping, offset: u64) -> Result<u64>;

    /// Takes away what it has mapped in a range, of a device or its own.
    fn unmap(&self, address: u64, bytes: u64) -> Result;

    /// A new descriptor, which stands for that memory or for something else. None where the twin gives
    /// descriptors numbers of its own.
    fn descriptor(&self, of: Option<BorrowedFd<'_>>) -> Result<Option<i32>>;

    /// Which file of the host a descriptor is one of.
    fn identity(&self, fd: i32) -> Option<Identity>;
}

/// The largest piece of memory that the kernel's `kmalloc` gives: arrays of clients are copied there.
const LARGEST: usize = 4 << 20;

impl dyn Caller + '_ {
    /// Reads a struct.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn get<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T> {
        let mut value = T::new_zeroed();
        self.read(address, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Writes a struct.
    ///
    /// # Errors
    /// `EFAULT`.
    pub fn put<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result {
        self.write(address, value.as_bytes())
    }

    /// Reads an array of `count` elements.
    ///
    /// # Errors
    /// `EFAULT`; `ENOMEM` where the kernel has no room for it.
    pub fn get_all<T: FromBytes + IntoBytes + Clone>(
        &self,
        address: u64,
        count: usize,
    ) -> Result<Vec<T>> {
        let bytes = count.checked_mul(size_of::<T>());
        bytes
            .filter(|&bytes| bytes <= LARGEST)
            .ok_or(Errno::ENOMEM)?;
        let mut values = vec![T::new_zeroed(); count];
        self.read(address, values.as_mut_slice().as_mut_bytes())?;
        Ok(values)
    }
}

/// This process.
pub struct Here;

impl Caller for Here {
    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn read(&self, address: u64, out: &mut [u8]) -> Result {
        user::read(address, out)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result {
        user::write(address, data)
    }

    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Mapping> {
        Ok(Mapping::of_client(address, bytes, write)?)
    }

    fn map(&self, wanted: Wanted, of: &Mapping, offset: u64) -> Result<u64> {
        let Wanted {
            address,
            bytes,
            protection,
            flags,
        } = wanted;
        Ok(of.map_client(address, bytes, protection, flags, offset)?)
    }

    fn unmap(&self, address: u64, bytes: u64) -> Result {
        let bytes = usize::try_from(bytes).map_err(|_| Errno::EINVAL)?;
        user::munmap(address, bytes)
    }

    fn descriptor(&self, _: Option<BorrowedFd<'_>>) -> Result<Option<i32>> {
        Ok(None)
    }

    fn identity(&self, _: i32) -> Option<Identity> {
        // Descriptors of the twin's own: no file of the host.
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_and_arrays_are_copied() {
        let here: &dyn Caller = &Here;
        let value = 0x1234_5678_u64;
        let address = &raw const value as u64;
        assert_eq!(here.get::<u64>(address), Ok(value));
        assert_eq!(here.get_all::<u32>(address, 2), Ok(vec![0x1234_5678, 0]));
        assert_eq!(here.get::<u64>(8), Err(Errno::EFAULT));
        assert_eq!(here.put(8, &value), Err(Errno::EFAULT));
        let far = here.get_all::<u64>(address, usize::MAX / 4);
        assert_eq!(far, Err(Errno::ENOMEM));
    }
}
