//! [`Host`]: this machine, as drivers of device files ask for it.
//!
//! A driver maps device memory at addresses that it has reserved before. Reservations are known
//! here by address, so that a mapping outside of every one is refused: it would replace memory that
//! belongs to someone else.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use hcq::mem::view::View;
use hcq::transport::{
    ANYWHERE, DevFile, Fault, Kept, Machine, Map, Prot, Request, Reserved, TransportError,
};

use crate::devfile::DeviceFile;
use crate::mmap::page_size;

/// This machine. One value for the process, because kernel drivers keep their state by process.
pub struct Host {
    kept: Kept,
}

impl Host {
    /// The machine.
    pub fn get() -> Arc<dyn Machine> {
        static HOST: LazyLock<Arc<Host>> = LazyLock::new(|| {
            crate::fork::watch();
            let kept = Kept::default();
            Arc::new(Host { kept })
        });
        HOST.clone()
    }
}

impl Machine for Host {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        match DeviceFile::open(path) {
            Ok(file) => Ok(Arc::new(HostFile {
                name: path.into(),
                file,
            })),
            Err(error) => Err(refused(path, "open", error.errno())),
        }
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        std::fs::read_to_string(path).map_err(|e| refused(path, "read", e.raw_os_error()))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        let failed = |e: io::Error| refused(path, "list", e.raw_os_error());
        std::fs::read_dir(path)
            .map_err(failed)?
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into()))
            .collect()
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        memory(bytes, align)
    }

    fn kept(&self) -> &Kept {
        &self.kept
    }
}

fn refused(path: &str, operation: &str, errno: Option<i32>) -> TransportError {
    let fault = match errno {
        Some(errno) => Fault::Errno(errno),
        None => Fault::Unsupported("the system gave no reason".into()),
    };
    TransportError::new(path, operation, fault)
}

/// A device file of this machine.
struct HostFile {
    name: String,
    file: DeviceFile,
}

impl DevFile for HostFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        let operation = format!("ioctl {}", request.ioctl().name);
        let failed = |fault| TransportError::new(&*self.name, &*operation, fault);
        let done = request.perform(|code, argument| self.file.ioctl_bytes(code.into(), argument));
        done.map_err(failed)?.map_err(|e| match e.raw_os_error() {
            Some(errno) => failed(Fault::Errno(errno)),
            None => failed(Fault::Unsupported(e.to_string())),
        })
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        let failed = |fault| TransportError::new(&*self.name, map.to_string(), fault);
        let (protection, page) = (protection(map.prot), page_size());
        if map.len == 0 || !map.len.is_multiple_of(page) {
            return Err(failed(Fault::Errno(libc::EINVAL)));
        }
        let offset = map.offset as libc::off_t;
        if let Some(at) = map.at {
            let place = Place::inside(at, map.len).map_err(failed)?;
            // SAFETY: the range lies in a reservation, which `place` keeps; only its owner, who
            // asks for this, has mapped anything there.
            let base = unsafe {
                libc::mmap(
                    place.ptr.as_ptr().cast(),
                    map.len,
                    protection,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    self.file.raw(),
                    offset,
                )
            };
            if base == libc::MAP_FAILED {
                return Err(failed(last()));
            }
            // The kernel inherits none of the reservation's advice.
            no_fork(place.ptr, map.len);
            // SAFETY: just mapped, and kept mapped by the reservation.
            return Ok(unsafe { place.view(map.len, map.prot) });
        }
        // SAFETY: the kernel picks an unused address.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                map.len,
                protection,
                libc::MAP_SHARED,
                self.file.raw(),
                offset,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(ptr) if base != libc::MAP_FAILED => {
                no_fork(ptr, map.len);
                let owner = Arc::new(Range { ptr, len: map.len });
                // SAFETY: mapped for as long as `owner` lives; nobody else knows the address.
                Ok(unsafe { view(ptr, map.len, map.prot, owner) })
            }
            _ => Err(failed(last())),
        }
    }

    fn number(&self) -> Result<u32, TransportError> {
        Ok(self.file.raw() as u32)
    }
}

/// A view of what is mapped for these accesses.
///
/// # Safety
/// As [`View::new`], as far as `prot` allows writes.
unsafe fn view(
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

fn protection(prot: Prot) -> libc::c_int {
    match prot {
        Prot::Read => libc::PROT_READ,
        Prot::Write => libc::PROT_WRITE,
        Prot::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    }
}

fn last() -> Fault {
    Fault::Errno(
        io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    )
}

/// Keeps a range out of child processes: after a fork, copy-on-write of memory that a device has
/// mapped makes the kernel driver stop the device's queues.
fn no_fork(ptr: NonNull<u8>, len: usize) {
    // SAFETY: advice that changes no content; a failure only means that the old rule stays.
    unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_DONTFORK) };
}

/// A mapping of ours, unmapped on drop.
struct Range {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping and accesses nothing in it.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; every view of it held this owner and has gone.
        let rc = unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
        debug_assert_eq!(rc, 0, "munmap: {}", io::Error::last_os_error());
    }
}

/// A mapping of whole pages, aligned, with `protection`.
fn map_aligned(
    bytes: u64,
    align: u64,
    protection: libc::c_int,
    flags: libc::c_int,
    what: &str,
) -> Result<Range, TransportError> {
    let failed =
        |fault| TransportError::new("host memory", format!("{what} {bytes:#x} bytes"), fault);
    let page = page_size() as u64;
    let align = align.max(page);
    let sizes = bytes.max(1).checked_next_multiple_of(page).and_then(|len| {
        let total = len.checked_add(align - page)?;
        Some((usize::try_from(len).ok()?, usize::try_from(total).ok()?))
    });
    let (len, total) = match sizes {
        Some((len, total)) if align.is_power_of_two() && total <= isize::MAX as usize => {
            (len, total)
        }
        _ => return Err(failed(Fault::Errno(libc::ENOMEM))),
    };
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            total,
            protection,
            flags | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(failed(last()));
    }
    let start = base.addr();
    let head = start.next_multiple_of(align as usize) - start;
    let tail = total - head - len;
    // SAFETY: both ends lie inside of the mapping made above, on page boundaries, and nobody knows
    // of them yet; what stays starts `head` bytes in, which is not address zero.
    let ptr = unsafe {
        if head > 0 {
            libc::munmap(base, head);
        }
        if tail > 0 {
            libc::munmap(base.byte_add(head + len), tail);
        }
        NonNull::new_unchecked(base.byte_add(head).cast::<u8>())
    };
    no_fork(ptr, len);
    Ok(Range { ptr, len })
}

/// Every live reservation, by its first address.
static RESERVED: Mutex<BTreeMap<usize, Weak<Range>>> = Mutex::new(BTreeMap::new());

fn reserved() -> MutexGuard<'static, BTreeMap<usize, Weak<Range>>> {
    // Entries are inserted and removed whole.
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Address space without access: see [`Machine::reserve`]. For this machine, and for models of
/// others that run in this process.
///
/// # Errors
/// [`Fault::Errno`].
pub fn reserve(bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    let range = match below {
        ANYWHERE => map_aligned(bytes, align, libc::PROT_NONE, flags, "reserve")?,
        _ => reserve_below(bytes, align, below)?,
    };
    let range = Arc::new(range);
    let (base, len) = (range.ptr.as_ptr().addr(), range.len);
    let mut all = reserved();
    // A range that was given back may have left its entry; the address is ours again.
    all.retain(|_, range| range.strong_count() > 0);
    all.insert(base, Arc::downgrade(&range));
    Ok(Reserved::new(base as u64, len as u64, range))
}

/// Other threads may map what was free a moment ago: so often another gap is looked for.
const GAPS: u32 = 16;

/// Address space that ends below a limit: the highest gap that is large enough.
fn reserve_below(bytes: u64, align: u64, below: u64) -> Result<Range, TransportError> {
    let failed = |fault| {
        let what = format!("reserve {bytes:#x} bytes below {below:#x}");
        TransportError::new("host memory", what, fault)
    };
    let page = page_size() as u64;
    let len = bytes.max(1).checked_next_multiple_of(page);
    let (Some(len), true) = (len, align.is_power_of_two()) else {
        return Err(failed(Fault::Errno(libc::EINVAL)));
    };
    for _ in 0..GAPS {
        let maps = std::fs::read_to_string("/proc/self/maps");
        let maps = maps.map_err(|e| failed(Fault::Errno(e.raw_os_error().unwrap_or(libc::EIO))))?;
        let Some(at) = highest_gap(&maps, len, align.max(page), below) else {
            return Err(failed(Fault::Errno(libc::ENOMEM)));
        };
        // SAFETY: the kernel maps nothing over what is there, it refuses.
        let base = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(at as usize),
                len as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE
                    | libc::MAP_NORESERVE
                    | libc::MAP_ANONYMOUS
                    | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            match last() {
                Fault::Errno(libc::EEXIST) => continue,
                fault => return Err(failed(fault)),
            }
        }
        let len = len as usize;
        let Some(ptr) = NonNull::new(base.cast::<u8>()) else {
            return Err(failed(Fault::Errno(libc::ENOMEM)));
        };
        let range = Range { ptr, len };
        // Kernels before 4.17 take the address for a wish.
        if ptr.as_ptr().addr() as u64 == at {
            no_fork(ptr, len);
            return Ok(range);
        }
        drop(range);
        let why = "this kernel reserves no given addresses (MAP_FIXED_NOREPLACE, Linux 4.17)";
        return Err(failed(Fault::Unsupported(why.into())));
    }
    Err(failed(Fault::Errno(libc::EAGAIN)))
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

/// Memory that the process shares with devices: see [`Machine::memory`].
///
/// # Errors
/// [`Fault::Errno`].
pub fn memory(bytes: u64, align: u64) -> Result<View, TransportError> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let range = map_aligned(bytes, align, access, libc::MAP_SHARED, "map")?;
    let (ptr, len) = (range.ptr, range.len);
    // SAFETY: mapped for reads and writes while the owner lives, and nobody else's.
    Ok(unsafe { View::new(ptr, len, Arc::new(range)) })
}

/// A place inside of a reservation, which it keeps.
pub struct Place {
    ptr: NonNull<u8>,
    keeper: Arc<dyn Any + Send + Sync>,
}

impl Place {
    /// The `len` bytes at `at`.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] where they are not part of one reservation.
    pub fn inside(at: u64, len: usize) -> Result<Place, Fault> {
        let found = usize::try_from(at).ok().and_then(|at| {
            let all = reserved();
            let (_, range) = all.range(..=at).next_back()?;
            let range = range.upgrade()?;
            let offset = at - range.ptr.as_ptr().addr();
            let fits = offset.checked_add(len).is_some_and(|end| end <= range.len);
            fits.then_some((range, offset))
        });
        let Some((range, offset)) = found else {
            return Err(Fault::Unsupported(format!(
                "{len:#x} bytes at {at:#x} are not part of what was reserved"
            )));
        };
        // SAFETY: `offset + len` is inside of the range.
        let ptr = unsafe { range.ptr.add(offset) };
        Ok(Place { ptr, keeper: range })
    }

    /// The first address.
    pub fn addr(&self) -> u64 {
        self.ptr.as_ptr().addr() as u64
    }

    /// A view of what has been mapped there.
    ///
    /// # Safety
    /// `len` bytes from here on are inside of the reservation, mapped for the accesses that `prot`
    /// names, and stay so as long as the reservation.
    pub unsafe fn view(self, len: usize, prot: Prot) -> View {
        // SAFETY: the caller's promise; the keeper unmaps the reservation only with the last view.
        unsafe { view(self.ptr, len, prot, self.keeper) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq::mem::view::ViewError;
    use hcq::transport::Ioctl;

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
    fn buses_of_this_machine_can_be_listed() {
        let host = Host::get();
        for function in host.pci_functions().unwrap() {
            assert_eq!(function.address.len(), "0000:00:00.0".len());
        }
        host.usb_devices().unwrap();
        let error = host.open_pci("0000:00:00.0").err().unwrap();
        assert!(
            error.to_string().contains("opens no PCI functions"),
            "{error}"
        );
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

    #[test]
    fn files_and_folders_are_read() {
        let host = Host::get();
        assert!(host.read("/proc/self/comm").unwrap().ends_with('\n'));
        assert!(host.list("/proc/self").unwrap().contains(&"comm".into()));
        let error = host.read("/sys/no/such").unwrap_err();
        assert_eq!(error.fault, Fault::Errno(libc::ENOENT));
        assert!(error.to_string().starts_with("/sys/no/such: read: errno 2"));
        let error = host.open("/dev/no-such").err().unwrap();
        assert_eq!(error.fault, Fault::Errno(libc::ENOENT));
    }

    #[test]
    fn an_ioctl_needs_its_bytes() {
        let null = Host::get().open("/dev/null").unwrap();
        let code = Ioctl::new("X", Ioctl::READ | Ioctl::WRITE, b'K', 1, 16);
        let ioctl = |argument: &mut [u8]| {
            // SAFETY: /dev/null has no ioctls.
            let mut request = unsafe { Request::raw(code, argument) };
            null.ioctl(&mut request).unwrap_err()
        };
        let error = ioctl(&mut [0; 8]);
        assert!(matches!(
            error.fault,
            Fault::Short {
                wanted: 16,
                moved: 8
            }
        ));
        assert!(matches!(ioctl(&mut [0; 17]).fault, Fault::Short { .. }));
        let error = ioctl(&mut [0; 16]);
        assert_eq!(error.fault, Fault::Errno(libc::ENOTTY));
    }
}
