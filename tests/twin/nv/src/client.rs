//! The memory of a process that calls the driver.
//!
//! The driver reads and writes arguments there, pins pages of it for devices, and maps memory of devices
//! into it. [`Here`] is this process itself: its addresses are those of the GPU, as with the real driver.
//! [`Pages`] is a process of its own in software: a client whose addresses mean nothing here, such as one
//! that was recorded, runs on it.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::sync::lock;
use twin::host::{Mapping, user};

use crate::contents::{Contents, Piece};
use crate::errno::Errno;
use crate::ranges::Ranges;

pub use twin::host::PAGE;
pub use twin::process::Wanted;

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

    /// Memory of the process, whole pages, for a device: to be read, or written, too.
    ///
    /// # Errors
    /// `EFAULT`: not all of it is mapped with those rights.
    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Contents, Errno>;

    /// Maps memory of a device; returns where.
    ///
    /// # Errors
    /// `ENOMEM`, `EEXIST`, or what else the system says.
    fn map(&self, wanted: Wanted, piece: &Piece) -> Result<u64, Errno>;

    /// Takes away what the process has mapped in a range, of a device or its own.
    ///
    /// # Errors
    /// What the system says.
    fn unmap(&self, at: u64, bytes: u64) -> Result<(), Errno>;
}

/// This process. What it has pinned stays mapped while a device may use it, also where it takes it away: as
/// with the real driver, the device has the pages. Their addresses are not given out again then.
#[derive(Default)]
pub struct Here(Mutex<Vec<(u64, Weak<Mapping>)>>);

impl Here {
    /// What of a range is pinned, in order: first addresses and ends.
    fn pinned(&self, at: u64, bytes: u64) -> Vec<(u64, u64)> {
        let end = at.saturating_add(bytes);
        // Entries are inserted and removed whole.
        let mut pins = lock(&self.0);
        pins.retain(|(_, pages)| pages.strong_count() > 0);
        let all = pins.iter().filter_map(|(first, pages)| {
            let last = first + pages.upgrade()?.bytes();
            (*first < end && last > at).then_some((*first, last))
        });
        let mut found: Vec<(u64, u64)> = all.collect();
        found.sort_unstable();
        found
    }
}

impl Memory for Here {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        user::read(address, out)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        user::write(address, data)
    }

    fn pin(&self, address: u64, bytes: u64, write: bool) -> Result<Contents, Errno> {
        let pages = Arc::new(Mapping::of_client(address, bytes, write)?);
        let mut pins = lock(&self.0);
        pins.push((address, Arc::downgrade(&pages)));
        Ok(Contents::whole(pages))
    }

    fn map(&self, wanted: Wanted, piece: &Piece) -> Result<u64, Errno> {
        let Wanted {
            address,
            bytes,
            protection,
            flags,
        } = wanted;
        let Piece { of, offset } = piece;
        Ok(of.map_client(address, bytes, protection, flags, *offset)?)
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        let (mut from, end) = (at, at.saturating_add(bytes));
        let behind = (end, u64::MAX);
        for (first, last) in self.pinned(at, bytes).into_iter().chain([behind]) {
            if first > from {
                let bytes = usize::try_from(first - from).map_err(|_| Errno::EINVAL)?;
                user::munmap(from, bytes)?;
            }
            from = from.max(last);
        }
        Ok(())
    }
}

/// A process in software.
#[derive(Default)]
pub struct Pages(Mutex<State>);

#[derive(Default)]
struct State {
    /// All that is mapped: what is the process's own, and what devices have.
    all: Ranges<Owned>,
}

/// Pages, and whether they are those of a device.
#[derive(Clone)]
struct Owned {
    piece: Piece,
    device: bool,
}

impl crate::ranges::Part for Owned {
    fn from(&self, bytes: u64) -> Self {
        Owned {
            piece: self.piece.from(bytes),
            device: self.device,
        }
    }
}

/// Where addresses are given from.
const FIRST: u64 = 0x7f00_0000_0000;

impl Pages {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole entries are inserted and removed.
        lock(&self.0)
    }

    /// Gives the process zeroed memory at an address, in whole pages. What it has of its own there stays.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn provide(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        let first = address / PAGE * PAGE;
        let end = (address + bytes).next_multiple_of(PAGE);
        let mut state = self.lock();
        let there: Vec<(u64, u64, Owned)> = state
            .all
            .inside(first, end - first)
            .filter(|(.., owned)| !owned.device)
            .map(|(at, bytes, owned)| (at, bytes, owned.clone()))
            .collect();
        let of = Arc::new(Mapping::new(end - first)?);
        let piece = Piece { of, offset: 0 };
        let zeros = Owned {
            piece,
            device: false,
        };
        state.all.insert(first, end - first, zeros);
        for (at, bytes, owned) in there {
            state.all.insert(at, bytes, owned);
        }
        Ok(())
    }

    /// What is mapped in a range.
    fn contents(&self, address: u64, bytes: u64, own: bool) -> Result<Contents, Errno> {
        let mut contents = Contents::default();
        let state = self.lock();
        let end = address.checked_add(bytes).ok_or(Errno::EFAULT)?;
        let mut at = address;
        while at < end {
            let (owned, rest) = state.all.at(at).ok_or(Errno::EFAULT)?;
            if own && owned.device {
                return Err(Errno::EFAULT);
            }
            let rest = rest.min(end - at);
            contents.push(at - address, rest, owned.piece);
            at += rest;
        }
        Ok(contents)
    }
}

impl Memory for Pages {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        let contents = self.contents(address, out.len() as u64, false)?;
        let done = contents.read(0, out);
        done.then_some(()).ok_or(Errno::EFAULT)
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        let contents = self.contents(address, data.len() as u64, false)?;
        let done = contents.write(0, data);
        done.then_some(()).ok_or(Errno::EFAULT)
    }

    fn pin(&self, address: u64, bytes: u64, _: bool) -> Result<Contents, Errno> {
        self.contents(address, bytes, true)
    }

    fn map(&self, wanted: Wanted, piece: &Piece) -> Result<u64, Errno> {
        let mut state = self.lock();
        let bytes = wanted.bytes;
        let at = match wanted.flags & libc::MAP_FIXED {
            0 => {
                let last = state.all.iter().last();
                let behind = last.map_or(FIRST, |(at, bytes, _)| at + bytes);
                behind.max(FIRST)
            }
            _ => wanted.address,
        };
        at.checked_add(bytes).ok_or(Errno::ENOMEM)?;
        let piece = piece.clone();
        let device = true;
        state.all.insert(at, bytes, Owned { piece, device });
        Ok(at)
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        self.lock().all.cut(at, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Piece {
        let of = Arc::new(Mapping::new(2 * PAGE).unwrap());
        Piece { of, offset: 0 }
    }

    #[test]
    fn memory_is_read_and_written_across_pages() {
        let pages = Pages::default();
        pages.provide(0x1000, 0x1000).unwrap();
        pages.provide(0x1000, 0x2000).unwrap();
        let data: Vec<u8> = (0..100).collect();
        pages.write(0x1fd0, &data).unwrap();
        pages.provide(0x1800, 0x1000).unwrap();
        let mut out = vec![0; 100];
        pages.read(0x1fd0, &mut out).unwrap();
        assert_eq!(out, data);
        for (at, bytes) in [(0x2ff0, 17), (0, 1), (u64::MAX, 2)] {
            assert_eq!(pages.read(at, &mut vec![0; bytes]), Err(Errno::EFAULT));
        }
        assert!(pages.pin(0x1000, 0x2000, true).is_ok());
        assert!(pages.pin(0x1000, 0x3000, true).is_err());
    }

    fn wanted(address: u64, flags: i32) -> Wanted {
        Wanted {
            address,
            bytes: PAGE,
            protection: libc::PROT_READ | libc::PROT_WRITE,
            flags: libc::MAP_SHARED | flags,
        }
    }

    #[test]
    fn a_device_and_the_cpu_see_the_same_bytes() {
        let software = Pages::default();
        software.provide(0x1000, 0x1000).unwrap();
        let place = twin::host::client::Reservations::default();
        let place = place.reserve(PAGE, 1, u64::MAX).unwrap();
        for (memory, fixed) in [
            (&software as &dyn Memory, 0x1000),
            (&Here::default(), place.base()),
        ] {
            let piece = device();
            let at = memory.map(wanted(0, 0), &piece).unwrap();
            memory.write(at + 8, b"client").unwrap();
            let mut seen = [0; 6];
            assert!(piece.of.read(8, &mut seen) && seen == *b"client");
            assert!(piece.of.write(8, b"device"));
            memory.read(at + 8, &mut seen).unwrap();
            assert_eq!(&seen, b"device");
            let behind = Piece {
                offset: PAGE,
                ..piece.clone()
            };
            let at = memory.map(wanted(fixed, libc::MAP_FIXED), &behind).unwrap();
            assert_eq!(at, fixed);
            memory.write(at, &[7]).unwrap();
            assert!(piece.of.read(PAGE, &mut seen) && seen[0] == 7);
            memory.unmap(at, PAGE).unwrap();
            assert_eq!(memory.read(at, &mut seen), Err(Errno::EFAULT));
        }
    }

    #[test]
    fn pinned_pages_are_the_client_s_own() {
        let view = twin::host::client::memory(2 * PAGE, PAGE).unwrap();
        let at = view.as_ptr() as u64;
        let here = Here::default();
        let contents = here.pin(at, 2 * PAGE, true).unwrap();
        view.write(4096, 0x1234_u32).unwrap();
        let mut seen = [0; 4];
        assert!(contents.read(4096, &mut seen) && seen == [0x34, 0x12, 0, 0]);
        assert!(contents.write(4096, &[1]));
        assert_eq!(view.read::<u32>(4096), Ok(0x1201));
        assert!(here.pin(0x1000, PAGE, true).is_err());
        // What a device has stays until it has it no more.
        here.unmap(at + PAGE, PAGE).unwrap();
        assert!(contents.read(4096, &mut seen) && seen == [1, 0x12, 0, 0]);
        drop(contents);
        assert!(here.pinned(0, u64::MAX).is_empty());
    }
}
