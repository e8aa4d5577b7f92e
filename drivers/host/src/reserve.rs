//! Address space and memory that devices share with this process.
//!
//! A driver maps device memory at reserved addresses. Reservations are tracked by address, so that a mapping outside
//! all of them is refused: it would replace other memory.

use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{ANYWHERE, Fault, Prot, Reserved, TransportError};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags};

use crate::range::{Range, Unforked, no_fork, page_size};

/// A view of what is mapped for these accesses.
///
/// # Safety
/// As [`View::new`], as far as `prot` allows writes.
pub(crate) unsafe fn view(
    ptr: NonNull<u8>,
    len: usize,
    prot: Prot,
    owner: Arc<dyn Any + Send + Sync>,
) -> View {
    match prot {
        // SAFETY: the caller's promise; nothing is written through it.
        Prot::Read => unsafe { View::new_read_only(ptr, len, owner) },
        // SAFETY: the caller's promise; writable pages can be read on the processors we run on.
        Prot::Write | Prot::ReadWrite => unsafe { View::new(ptr, len, owner) },
    }
}

/// A mapping of whole pages, aligned, with `prot`, which children do not get.
fn map_aligned(
    bytes: u64,
    align: u64,
    prot: ProtFlags,
    flags: MapFlags,
    what: &str,
) -> Result<Unforked, TransportError> {
    let page = page_size();
    let mapped = || {
        let len = usize::try_from(bytes.max(1)).ok()?;
        let len = len.checked_next_multiple_of(page)?;
        let align = usize::try_from(align).ok()?.max(page);
        align.is_power_of_two().then_some((len, align))
    };
    let (len, align) = mapped()
        .ok_or(Errno::ENOMEM)
        .map_err(|e| failed(bytes, what, e))?;
    let range = Range::aligned(len, align, 0, prot, flags);
    Ok(Unforked::new(range.map_err(|e| failed(bytes, what, e))?))
}

fn failed(bytes: u64, what: &str, errno: Errno) -> TransportError {
    let fault = Fault::Errno(errno as i32);
    TransportError::new("host memory", format!("{what} {bytes:#x} bytes"), fault)
}

/// Every live reservation, by its first address.
static RESERVED: Mutex<BTreeMap<usize, Weak<Unforked>>> = Mutex::new(BTreeMap::new());

fn reserved() -> MutexGuard<'static, BTreeMap<usize, Weak<Unforked>>> {
    // Entries are inserted and removed whole.
    lock(&RESERVED)
}

/// Address space without access: see [`hcq::transport::Machine::reserve`].
///
/// # Errors
/// [`Fault::Errno`].
pub(crate) fn reserve(bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    let range = match below {
        ANYWHERE => map_aligned(bytes, align, ProtFlags::PROT_NONE, flags, "reserve")?,
        _ => Unforked::new(reserve_below(bytes, align, below)?),
    };
    let owner = Arc::new(range);
    let (base, len) = (owner.range().ptr().addr().get(), owner.range().len());
    let mut all = reserved();
    // A range that was given back may have left its entry, and one of the process that this was forked
    // from has: the address is ours again.
    all.retain(|_, range| range.upgrade().is_some_and(|range| range.ours()));
    all.insert(base, Arc::downgrade(&owner));
    Ok(Reserved::new(base as u64, len as u64, owner))
}

/// Other threads may map what was free a moment ago: so often another gap is looked for.
const GAPS: u32 = 16;

/// Address space that ends below a limit: the highest gap that is large enough.
fn reserve_below(bytes: u64, align: u64, below: u64) -> Result<Range, TransportError> {
    let failed = |fault| {
        let what = format!("reserve {bytes:#x} bytes below {below:#x}");
        TransportError::new("host memory", what, fault)
    };
    let refused = |errno| failed(Fault::Errno(errno as i32));
    let page = page_size() as u64;
    let len = bytes.max(1).checked_next_multiple_of(page);
    let (Some(len), true) = (len, align.is_power_of_two()) else {
        return Err(refused(Errno::EINVAL));
    };
    for _ in 0..GAPS {
        let maps = std::fs::read_to_string("/proc/self/maps");
        let maps = maps.map_err(|e| failed(Fault::Errno(e.raw_os_error().unwrap_or(libc::EIO))))?;
        let Some(at) = highest_gap(&maps, len, align.max(page), below) else {
            return Err(refused(Errno::ENOMEM));
        };
        let range = match Range::reserved_at(at as usize, len as usize) {
            Err(Errno::EEXIST) => continue,
            range => range.map_err(refused)?,
        };
        // Kernels before 4.17 take the address for a wish.
        if range.ptr().addr().get() as u64 == at {
            return Ok(range);
        }
        let why = "this kernel cannot map at a given address (MAP_FIXED_NOREPLACE, Linux 4.17)";
        return Err(failed(Fault::Unsupported(why.into())));
    }
    Err(refused(Errno::EAGAIN))
}

/// Where `len` bytes fit between the lines of /proc/self/maps, as high as can be.
fn highest_gap(maps: &str, len: u64, align: u64, below: u64) -> Option<u64> {
    // No lower than what the kernel lets nobody map, `vm.mmap_min_addr`, usually is.
    const FIRST: u64 = 1 << 20;
    let mapped = maps.lines().filter_map(|line| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((number(from)?, number(to)?))
    });
    let (mut start, mut found) = (FIRST, None);
    for (from, to) in mapped.chain([(below, below)]) {
        let end = from.min(below);
        let at = end.checked_sub(len).map(|at| at & !(align - 1));
        found = at.filter(|&at| at >= start).or(found);
        start = start.max(to);
    }
    found
}

/// Memory that the process shares with devices: see [`hcq::transport::Machine::memory`].
///
/// # Errors
/// [`Fault::Errno`].
pub(crate) fn memory(bytes: u64, align: u64) -> Result<View, TransportError> {
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let owner = map_aligned(bytes, align, access, MapFlags::MAP_SHARED, "map")?;
    let (ptr, len) = (owner.range().ptr(), owner.range().len());
    // SAFETY: mapped for reads and writes while the owner lives, and no other code owns it.
    Ok(unsafe { View::new(ptr, len, Arc::new(owner)) })
}

/// All of a file, from its start, also what it does not have yet.
///
/// # Errors
/// [`Fault::Errno`] of mmap(2).
pub(crate) fn of_file(file: impl AsFd, len: usize) -> Result<View, Fault> {
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let range = Range::of_file(file, 0, len, access).map_err(|e| Fault::Errno(e as i32))?;
    let owner = Unforked::new(range);
    let ptr = owner.range().ptr();
    // SAFETY: mapped for reads and writes while the owner lives, and no other code owns it. Callers access only bytes
    // that the file has.
    Ok(unsafe { View::new(ptr, len, Arc::new(owner)) })
}

/// A place inside of a reservation, which it keeps.
pub(crate) struct Place {
    keeper: Arc<Unforked>,
    offset: usize,
    len: usize,
}

impl Place {
    /// The `len` bytes at `at`.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] where they are not part of one reservation.
    pub(crate) fn inside(at: u64, len: usize) -> Result<Place, Fault> {
        let found = usize::try_from(at).ok().and_then(|at| {
            let all = reserved();
            let (base, keeper) = all.range(..=at).next_back()?;
            let keeper = keeper.upgrade().filter(|keeper| keeper.ours())?;
            let offset = at - base;
            let end = offset.checked_add(len)?;
            (end <= keeper.range().len()).then_some(Place {
                keeper,
                offset,
                len,
            })
        });
        found.ok_or_else(|| {
            Fault::Unsupported(format!(
                "{len:#x} bytes at {at:#x} are outside the reservation"
            ))
        })
    }

    /// Maps a file there, and views it.
    ///
    /// # Safety
    /// No code relies on the current contents.
    ///
    /// # Errors
    /// As of mmap(2).
    pub(crate) unsafe fn map(
        self,
        file: impl AsFd,
        offset: i64,
        access: ProtFlags,
        prot: Prot,
    ) -> Result<View, Errno> {
        let (range, len) = (self.keeper.range(), self.len);
        // SAFETY: the caller's promise.
        let ptr = unsafe { range.map_over(self.offset, file, offset, len, access)? };
        // The kernel inherits none of the reservation's advice.
        no_fork(ptr, len);
        // SAFETY: just mapped for these accesses; the keeper unmaps the reservation only with the
        // last view.
        Ok(unsafe { view(ptr, len, prot, self.keeper) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Host;
    use hcq::mem::view::ViewError;
    use hcq::transport::Map;

    #[test]
    fn what_is_mapped_for_reads_refuses_writes() {
        let host = Host::get();
        let zero = host.open("/dev/zero").unwrap();
        let reserved = host.reserve(8192, 1, ANYWHERE).unwrap();
        for at in [None, Some(reserved.base())] {
            let map = Map {
                offset: 0,
                len: 4096,
                prot: Prot::Read,
                at,
            };
            let view = zero.mmap(map).unwrap();
            assert_eq!(view.read::<u64>(8), Ok(0));
            let refused = view.write(8, 1u32);
            let (offset, bytes) = (8, 4);
            assert_eq!(refused, Err(ViewError::ReadOnly { offset, bytes }));
        }
    }

    #[test]
    fn addresses_are_reserved_below_a_limit() {
        let host = Host::get();
        for (bytes, align, below) in [(1 << 30, 2 << 20, 1 << 40), (4096, 1, 1 << 32)] {
            let all: Vec<_> = (0..8)
                .map(|_| host.reserve(bytes, align, below).unwrap())
                .collect();
            for (i, one) in all.iter().enumerate() {
                assert!(one.base() % align == 0 && one.base() + one.bytes() <= below);
                let apart = |other: &Reserved| {
                    one.base() + one.bytes() <= other.base()
                        || other.base() + other.bytes() <= one.base()
                };
                assert!(all[..i].iter().all(apart));
            }
            let base = all[0].base();
            drop(all);
            // Given back, it is the highest again.
            assert_eq!(host.reserve(bytes, align, below).unwrap().base(), base);
        }
        let error = host.reserve(1 << 33, 1, 1 << 32).unwrap_err();
        assert_eq!(error.fault, Fault::Errno(libc::ENOMEM));
        assert!(error.to_string().contains("below 0x100000000"), "{error}");
        assert!(host.reserve(u64::MAX, 1, 1 << 40).is_err());
    }

    #[test]
    fn gaps_are_found_between_mappings() {
        let maps = "00400000-00500000 r-xp 0 0 0\n00600000-00800000 rw-p 0 0 0\n\
                    7f0000000000-7f0000001000 rw-p 0 0 0\n";
        assert_eq!(
            highest_gap(maps, 0x1000, 0x1000, 1 << 32),
            Some(0xffff_f000)
        );
        assert_eq!(
            highest_gap(maps, 0x1000, 0x1000, 0x80_0000),
            Some(0x5f_f000)
        );
        assert_eq!(
            highest_gap(maps, 0x10_0001, 0x1000, 0x80_0000),
            Some(0x2f_f000)
        );
        assert_eq!(highest_gap(maps, 0x1000, 0x40_0000, 0x80_0000), None);
        assert_eq!(highest_gap(maps, 1 << 33, 1, 1 << 32), None);
    }

    #[test]
    fn files_are_mapped_into_reservations_only() {
        let host = Host::get();
        let zero = host.open("/dev/zero").unwrap();
        assert!(zero.number().unwrap() > 2);
        let reserved = host.reserve(1 << 20, 2 << 20, ANYWHERE).unwrap();
        assert_eq!(reserved.base() % (2 << 20), 0);
        let map = |at| Map {
            offset: 0,
            len: 8192,
            prot: Prot::ReadWrite,
            at: Some(at),
        };
        let view = zero.mmap(map(reserved.base() + 4096)).unwrap();
        assert_eq!(view.as_ptr() as u64, reserved.base() + 4096);
        view.write(8, 7u64).unwrap();
        for at in [
            reserved.base() + (1 << 20) - 4096,
            reserved.base() - 4096,
            0x1000,
            u64::MAX,
        ] {
            let error = zero.mmap(map(at)).unwrap_err();
            assert!(matches!(error.fault, Fault::Unsupported(_)), "{error}");
        }
        // The view keeps the range.
        let base = reserved.base();
        drop(reserved);
        assert_eq!(view.read::<u64>(8), Ok(7));
        drop(view);
        assert!(Place::inside(base, 4096).is_err());
    }

    #[test]
    fn memory_is_zeroed_aligned_and_written() {
        let view = Host::get().memory(10, 1 << 16).unwrap();
        assert_eq!((view.len(), view.as_ptr().addr() % (1 << 16)), (4096, 0));
        assert_eq!(view.read::<u64>(0), Ok(0));
        view.write(4088, u64::MAX).unwrap();
        assert!(memory(u64::MAX, 1).is_err() && memory(1 << 60, 1).is_err());
        assert!(memory(1, 3 << 12).is_err());
    }
}
