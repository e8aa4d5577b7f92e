//! The memory of a process that calls the driver.
//!
//! The driver reads and writes arguments there, pins pages of it for devices, and maps memory of devices
//! into it. [`Pages`] is a process of its own in software: a client whose addresses mean nothing here,
//! such as one that was recorded, runs on it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errno::Errno;

/// Bytes of a page of a process.
pub const PAGE: u64 = 4096;

/// See the front page.
pub trait Memory: Send + Sync {
    /// Reads; all or `EFAULT`.
    ///
    /// # Errors
    /// `EFAULT`.
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Errno>;

    /// Writes; all or `EFAULT`.
    ///
    /// # Errors
    /// `EFAULT`.
    fn write(&self, address: u64, data: &[u8]) -> Result<(), Errno>;

    /// Whether the whole range is memory of the process that a device may be given.
    fn pins(&self, address: u64, bytes: u64) -> bool;

    /// Maps memory of a device: at an address that is given, whatever is there, or where there is room.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn map(&self, at: Option<u64>, bytes: u64) -> Result<u64, Errno>;

    /// Takes such a mapping away.
    fn unmap(&self, at: u64, bytes: u64);
}

/// A process in software.
#[derive(Default)]
pub struct Pages(Mutex<State>);

#[derive(Default)]
struct State {
    /// Pages of the process itself.
    pages: BTreeMap<u64, Box<[u8]>>,
    /// Mappings of devices: first address and bytes.
    devices: BTreeMap<u64, u64>,
}

/// Where addresses are given from.
const FIRST: u64 = 0x7f00_0000_0000;

impl Pages {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole entries are inserted and removed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the process zeroed memory at an address, in whole pages.
    pub fn provide(&self, address: u64, bytes: u64) {
        let mut state = self.lock();
        let first = address / PAGE;
        for page in first..(address + bytes).div_ceil(PAGE) {
            let zeros = || vec![0; PAGE as usize].into_boxed_slice();
            state.pages.entry(page).or_insert_with(zeros);
        }
    }

    /// Calls `each` with every piece of a range and where it begins in it.
    fn walk(
        &self,
        address: u64,
        bytes: usize,
        mut each: impl FnMut(&mut [u8], usize),
    ) -> Result<(), Errno> {
        let fault = Errno(libc::EFAULT);
        let mut state = self.lock();
        let end = address.checked_add(bytes as u64).ok_or(fault)?;
        let pages = address / PAGE..end.div_ceil(PAGE);
        if !pages.clone().all(|page| state.pages.contains_key(&page)) {
            return Err(fault);
        }
        for page in pages {
            let from = (page * PAGE).max(address);
            let to = ((page + 1) * PAGE).min(end);
            let content = state.pages.get_mut(&page).ok_or(fault)?;
            let inside = (from % PAGE) as usize..(from % PAGE + to - from) as usize;
            each(&mut content[inside], (from - address) as usize);
        }
        Ok(())
    }
}

impl Memory for Pages {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.walk(address, out.len(), |piece, at| {
            out[at..][..piece.len()].copy_from_slice(piece);
        })
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        self.walk(address, data.len(), |piece, at| {
            piece.copy_from_slice(&data[at..][..piece.len()]);
        })
    }

    fn pins(&self, address: u64, bytes: u64) -> bool {
        let state = self.lock();
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        (address / PAGE..end.div_ceil(PAGE)).all(|page| state.pages.contains_key(&page))
    }

    fn map(&self, at: Option<u64>, bytes: u64) -> Result<u64, Errno> {
        let mut state = self.lock();
        let after = |(at, bytes): (&u64, &u64)| at + bytes;
        let at = at.unwrap_or_else(|| {
            let last = state.devices.last_key_value().map_or(FIRST, after);
            last.max(FIRST)
        });
        let end = at.checked_add(bytes).ok_or(Errno(libc::ENOMEM))?;
        for page in at / PAGE..end.div_ceil(PAGE) {
            state.pages.remove(&page);
        }
        state.devices.insert(at, bytes);
        Ok(at)
    }

    fn unmap(&self, at: u64, _: u64) {
        self.lock().devices.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_and_written_across_pages() {
        let pages = Pages::default();
        pages.provide(0x1000, 0x2000);
        let data: Vec<u8> = (0..100).collect();
        pages.write(0x1fd0, &data).unwrap();
        let mut out = vec![0; 100];
        pages.read(0x1fd0, &mut out).unwrap();
        assert_eq!(out, data);
        for (at, bytes) in [(0x2ff0, 17), (0, 1), (u64::MAX, 2)] {
            assert_eq!(
                pages.read(at, &mut vec![0; bytes]),
                Err(Errno(libc::EFAULT))
            );
        }
        assert!(pages.pins(0x1000, 0x2000) && !pages.pins(0x1000, 0x2001));
        let at = pages.map(None, 0x1000).unwrap();
        let next = pages.map(None, 0x1000).unwrap();
        assert_eq!(next, at + 0x1000);
        assert_eq!(pages.map(Some(0x1000), 0x1000), Ok(0x1000));
        assert!(!pages.pins(0x1000, 0x1000));
    }
}
