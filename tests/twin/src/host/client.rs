//! The address space of a client that is a driver of this repository: what it reserves, what is mapped
//! there, and what becomes of that when it forks.
//!
//! The twin does not stand on the driver's way to the host, so that a mistake of one is not one of both.
//! What it relies on: a range is unmapped by its one owner, which every view
//! of it keeps, and only in the process that mapped it; a view is made of what was just mapped inside.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, Once, Weak};

use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{ANYWHERE, Fault, Prot, Reserved};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

use super::PAGE;

/// A range of addresses, given back on drop; children of a fork do not get it, as of memory that a
/// device has mapped.
struct Range {
    at: NonNull<u8>,
    bytes: usize,
    generation: u32,
}

// SAFETY: the value owns the range and accesses nothing in it.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl Range {
    fn new(at: NonNull<u8>, bytes: usize) -> Self {
        let generation = hcq::process_generation();
        not_for_children(at, bytes);
        Self {
            at,
            bytes,
            generation,
        }
    }

    /// Whole pages at a multiple of `align`, a power of two, at an address of the system's choice.
    fn aligned(
        bytes: usize,
        align: usize,
        rights: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        // Room to align in: the system aligns to pages only.
        let room = bytes.checked_add(align - PAGE as usize);
        let room = room.and_then(NonZeroUsize::new).ok_or(Errno::ENOMEM)?;
        // SAFETY: nothing is replaced where the system chooses.
        let start = unsafe { mmap_anonymous(None, room, rights, flags)? }.cast::<u8>();
        let before = start.align_offset(align);
        let after = room.get() - before - bytes;
        // SAFETY: both rests lie inside of what was just mapped and are nobody's; one that cannot be given
        // back (the limit of mappings) stays without use.
        unsafe {
            for (rest, bytes) in [(start, before), (start.add(before + bytes), after)] {
                if bytes > 0 {
                    let _ = munmap(rest.cast(), bytes);
                }
            }
            Ok(Self::new(start.add(before), bytes))
        }
    }

    /// Whole pages without rights, the highest below a limit that are free.
    fn below(bytes: usize, align: usize, limit: usize) -> Result<Self, Errno> {
        // The kernel gives the first 64 KiB to nobody.
        const FIRST: usize = 1 << 16;
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED_NOREPLACE;
        let highest = limit.checked_sub(bytes).ok_or(Errno::ENOMEM)? & !(align - 1);
        for at in (FIRST..=highest).rev().step_by(align.max(FIRST)) {
            let wanted = NonZeroUsize::new(at).ok_or(Errno::ENOMEM)?;
            // SAFETY: the system refuses where something is mapped.
            match unsafe { mmap_anonymous(Some(wanted), length, ProtFlags::PROT_NONE, flags) } {
                Ok(start) if start.addr() == wanted => return Ok(Self::new(start.cast(), bytes)),
                // A kernel that takes the address for a wish: given back.
                Ok(start) => {
                    drop(Self::new(start.cast(), bytes));
                    return Err(Errno::EOPNOTSUPP);
                }
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Whether it is one of this process, and not of the one that this was forked from.
    fn ours(&self) -> bool {
        self.generation == hcq::process_generation()
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if self.ours() {
            // SAFETY: the range is this value's; views of it keep the value.
            let unmapped = unsafe { munmap(self.at.cast(), self.bytes) };
            debug_assert_eq!(unmapped, Ok(()), "munmap");
        }
    }
}

fn not_for_children(at: NonNull<u8>, bytes: usize) {
    // SAFETY: changes no content.
    let _ = unsafe { madvise(at.cast(), bytes, MmapAdvise::MADV_DONTFORK) };
}

/// Bytes and alignment in whole pages.
fn in_pages(bytes: u64, align: u64) -> Result<(usize, usize), Errno> {
    let bytes = bytes.max(1).checked_next_multiple_of(PAGE);
    let align = align.max(PAGE);
    let fits = |n: u64| {
        usize::try_from(n)
            .ok()
            .filter(|&n| n <= isize::MAX as usize)
    };
    match (bytes.and_then(fits), fits(align)) {
        (Some(bytes), Some(align)) if align.is_power_of_two() => Ok((bytes, align)),
        _ => Err(Errno::ENOMEM),
    }
}

fn fault(errno: Errno) -> Fault {
    Fault::Errno(errno as i32)
}

/// Memory that the client shares with devices, zeroed.
///
/// # Errors
/// [`Fault::Errno`].
pub fn memory(bytes: u64, align: u64) -> Result<View, Fault> {
    let (bytes, align) = in_pages(bytes, align).map_err(fault)?;
    let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let range = Range::aligned(bytes, align, rights, MapFlags::MAP_SHARED).map_err(fault)?;
    // SAFETY: mapped for reads and writes while the owner lives, and nobody else's.
    Ok(unsafe { View::new(range.at, bytes, Arc::new(range)) })
}

/// Addresses of the client's at which it may not access anything.
///
/// # Errors
/// [`Fault::Errno`].
pub fn without_rights(bytes: u64, align: u64) -> Result<View, Fault> {
    let (bytes, align) = in_pages(bytes, align).map_err(fault)?;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    let range = Range::aligned(bytes, align, ProtFlags::PROT_NONE, flags).map_err(fault)?;
    // SAFETY: the addresses are nobody else's while the owner lives. An access ends the process: it changes nothing.
    Ok(unsafe { View::new(range.at, bytes, Arc::new(range)) })
}

/// What a client has reserved, by its first address.
#[derive(Default)]
pub struct Reservations(Mutex<BTreeMap<u64, Weak<Range>>>);

impl Reservations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Range>>> {
        // Entries are inserted and removed whole.
        lock(&self.0)
    }

    /// Address space without rights, below a limit or [`ANYWHERE`].
    ///
    /// # Errors
    /// [`Fault::Errno`].
    pub fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, Fault> {
        let (bytes, align) = in_pages(bytes, align).map_err(fault)?;
        let range = match usize::try_from(below) {
            Ok(limit) if below != ANYWHERE => Range::below(bytes, align, limit),
            _ => {
                let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
                Range::aligned(bytes, align, ProtFlags::PROT_NONE, flags)
            }
        };
        let range = Arc::new(range.map_err(fault)?);
        let base = range.at.addr().get() as u64;
        let mut all = self.lock();
        // What was given back may have left its entry.
        all.retain(|_, range| range.strong_count() > 0);
        all.insert(base, Arc::downgrade(&range));
        Ok(Reserved::new(base, bytes as u64, range))
    }

    /// Has `map` map the `bytes` at an address with those rights, which lie in one reservation, and views
    /// them.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] where they do not; what `map` says.
    pub fn map(
        &self,
        at: u64,
        bytes: usize,
        prot: Prot,
        map: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<View, Fault> {
        let found = {
            let all = self.lock();
            let first = all.range(..=at).next_back();
            first.and_then(|(first, range)| Some((range.upgrade()?, (at - first) as usize)))
        };
        let inside = |(range, offset): &(Arc<Range>, usize)| {
            let end = offset.checked_add(bytes);
            range.ours() && end.is_some_and(|end| end <= range.bytes)
        };
        let Some((range, offset)) = found.filter(inside) else {
            return Err(Fault::Unsupported(format!(
                "{bytes:#x} bytes at {at:#x} are not part of what was reserved"
            )));
        };
        map()?;
        // SAFETY: inside, as checked above.
        let at = unsafe { range.at.add(offset) };
        // What is mapped over the range has not its advice.
        not_for_children(at, bytes);
        // SAFETY: `map` has mapped just these bytes with these rights (the twin's own mmap, which says
        // when it has not), and they are unmapped with the range, which the view keeps. Of what may only
        // be written, the processors that we run on can also be read.
        Ok(unsafe {
            match prot {
                Prot::Read => View::new_read_only(at, bytes, range),
                Prot::Write | Prot::ReadWrite => View::new(at, bytes, range),
            }
        })
    }
}

/// Makes every device lost to processes that are forked from this one: their threads, of which the twin's
/// is one, are not there.
pub fn watch_forks() {
    static WATCHED: Once = Once::new();
    extern "C" fn in_the_child() {
        hcq::lose_all_by_fork();
    }
    WATCHED.call_once(|| {
        // Of libc, because nix has no pthread_atfork.
        // SAFETY: the function counts one up and calls nothing, as it must between a fork and its return.
        let rc = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
        // Out of memory, the only failure there is: forks stay as they are.
        debug_assert_eq!(rc, 0, "pthread_atfork");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reservations_are_mapped() {
        let client = Reservations::default();
        let reserved = client.reserve(1 << 20, 2 << 20, ANYWHERE).unwrap();
        let base = reserved.base();
        assert_eq!((base % (2 << 20), reserved.bytes()), (0, 1 << 20));
        let never = || panic!("nothing is mapped");
        for at in [base - 4096, base + (1 << 20) - 4096, 0x1000, u64::MAX] {
            let refused = client.map(at, 8192, Prot::ReadWrite, never);
            assert!(matches!(refused, Err(Fault::Unsupported(_))));
        }
        let map = |at| client.map(at, 8192, Prot::Read, || Ok(()));
        let view = map(base + 4096).unwrap();
        assert_eq!(view.as_ptr() as u64, base + 4096);
        // The view keeps the range.
        drop(reserved);
        assert!(map(base).is_ok());
        drop(view);
        assert!(map(base).is_err());
    }

    #[test]
    fn limits_are_kept() {
        let client = Reservations::default();
        let limit = 1 << 40;
        let all: Vec<_> = (0..4)
            .map(|_| client.reserve(1 << 30, 2 << 20, limit).unwrap())
            .collect();
        for (i, one) in all.iter().enumerate() {
            assert!(one.base() % (2 << 20) == 0 && one.base() + one.bytes() <= limit);
            let base = one.base();
            let apart = |other: &Reserved| base.abs_diff(other.base()) >= 1 << 30;
            assert!(all[..i].iter().all(apart));
        }
        let refused = client.reserve(1 << 33, 1, 1 << 32).map(drop);
        assert_eq!(refused, Err(Fault::Errno(libc::ENOMEM)));
    }

    #[test]
    fn memory_is_zeroed_aligned_and_written() {
        let view = memory(10, 1 << 16).unwrap();
        assert_eq!((view.len(), view.as_ptr().addr() % (1 << 16)), (4096, 0));
        assert_eq!(view.read::<u64>(0), Ok(0));
        view.write(4088, u64::MAX).unwrap();
        assert!(memory(u64::MAX, 1).is_err() && memory(1 << 60, 1).is_err());
        assert!(memory(1, 3 << 12).is_err());
    }
}
