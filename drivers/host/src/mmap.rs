//! Anonymous memory straight from the kernel: for queues, buffers and machine code.
//!
//! The owners here hand out addresses, never references to memory that a queue's other side may write: the user of
//! [`Memory::ptr`] decides how to access it.

mod arena;

use std::io;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::range::Range;
pub use crate::range::page_size;
pub use arena::{Code, CodeArenas, CodeRoom};

/// The size from which memory is aligned for huge pages: 2 MiB, the second level of the page
/// tables of x86-64 and of AArch64 with 4 KiB pages.
pub const HUGE_PAGE: usize = 2 << 20;

/// Memory could not be mapped, or not with the requested access.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// A mapping of nothing.
    #[error("host memory: expected a size of at least 1 byte, found 0; skip empty allocations")]
    Empty,
    /// The size, rounded up and with its alignment slack, does not fit an address.
    #[error(
        "host memory: {len} bytes, rounded up to pages, exceed the address space; check the size \
         computation of the caller"
    )]
    TooLarge {
        /// The size that was asked for, in bytes.
        len: usize,
    },
    /// mmap(2) refused.
    #[error("host memory: mmap of {len} bytes failed: {source}; {hint}")]
    Map {
        /// The size of the mapping, in bytes.
        len: usize,
        /// What the kernel answered.
        source: io::Error,
        /// What to look at.
        hint: &'static str,
    },
    /// mprotect(2) refused.
    #[error(
        "host memory: mprotect({to}) of {len} bytes at {addr:#x} failed: {source}; a security \
         policy (SELinux execmem, PaX) may forbid code made at run time"
    )]
    Protect {
        /// The first address of the range.
        addr: usize,
        /// The size of the range, in bytes.
        len: usize,
        /// The access that was asked for.
        to: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// What helps where mmap(2) or mprotect(2) refused memory.
fn hint(errno: Errno) -> &'static str {
    if errno != Errno::ENOMEM {
        return "check this process's limits (`ulimit -a`)";
    }
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((limit, _)) if limit != RLIM_INFINITY => {
            "raise `ulimit -v` (RLIMIT_AS is set); otherwise free memory, raise the container's memory limit, or raise \
             vm.max_map_count if there are very many mappings"
        }
        _ => {
            "free memory, raise the container's memory limit, or raise vm.max_map_count if there are very many mappings"
        }
    }
}

/// Private, zeroed, readable and writable memory, unmapped on drop.
///
/// Page-aligned; from [`HUGE_PAGE`] on aligned to that and advised to use huge pages.
#[derive(Debug)]
pub struct Memory {
    /// The whole mapping, with its guards.
    range: Range,
    /// Bytes of a guard.
    guard: usize,
}

impl Memory {
    /// At least `len` bytes between two pages that trap, so that an access past either end of the
    /// pages faults instead of hitting a neighbour. The size is still rounded up to whole pages.
    ///
    /// # Errors
    /// [`MapError::Empty`], [`MapError::TooLarge`] or what mmap(2) answered.
    pub fn guarded(len: usize) -> Result<Memory, MapError> {
        if len == 0 {
            return Err(MapError::Empty);
        }
        let (page, guard) = (page_size(), page_size());
        let align = if len >= HUGE_PAGE { HUGE_PAGE } else { page };
        let too_large = MapError::TooLarge { len };
        let Some(size) = len.checked_next_multiple_of(page) else {
            return Err(too_large);
        };
        let Some(total) = size
            .checked_add(2 * guard + align - page)
            .filter(|&n| n <= isize::MAX as usize)
        else {
            return Err(too_large);
        };
        let failed = |errno: Errno| MapError::Map {
            len: total,
            source: errno.into(),
            hint: hint(errno),
        };
        // Reserved without access first: what stays so is the guards.
        let (none, private) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
        let range = Range::aligned(size + 2 * guard, align, guard, none, private);
        let range = range.map_err(failed)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no other code has the range yet.
        unsafe { range.protect(guard, size, access) }.map_err(failed)?;
        if align == HUGE_PAGE {
            range.advise_huge_pages(guard, size);
        }
        Ok(Memory { range, guard })
    }

    /// The first byte.
    pub fn ptr(&self) -> NonNull<u8> {
        // SAFETY: the guard is a part of the mapping.
        unsafe { self.range.ptr().byte_add(self.guard) }
    }

    /// The usable size in bytes: the requested size, rounded up to whole pages.
    #[allow(clippy::len_without_is_empty)] // Empty memory cannot be made.
    pub fn len(&self) -> usize {
        self.range.len() - 2 * self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::setrlimit;

    /// The access letters of the mapping that holds `addr`, from /proc/self/maps.
    fn access(addr: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let (from, to) = (
                usize::from_str_radix(from, 16).ok()?,
                usize::from_str_radix(to, 16).ok()?,
            );
            (from..to).contains(&addr).then(|| rest[..4].to_string())
        })
    }

    #[test]
    fn memory_is_zeroed_page_aligned_and_writable() {
        let memory = Memory::guarded(10).unwrap();
        assert_eq!(memory.len(), page_size());
        assert_eq!(memory.ptr().as_ptr().addr() % page_size(), 0);
        for i in 0..memory.len() {
            // SAFETY: i < len of a live mapping.
            unsafe {
                assert_eq!(memory.ptr().add(i).read_volatile(), 0);
                memory.ptr().add(i).write_volatile(i as u8);
                assert_eq!(memory.ptr().add(i).read_volatile(), i as u8);
            }
        }
    }

    #[test]
    fn large_memory_starts_on_a_huge_page() {
        for len in [HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE - 1] {
            let memory = Memory::guarded(len).unwrap();
            assert_eq!(memory.ptr().as_ptr().addr() % HUGE_PAGE, 0);
            assert_eq!(memory.len(), len.next_multiple_of(page_size()));
            // SAFETY: the last byte of a live mapping.
            unsafe { memory.ptr().add(memory.len() - 1).write_volatile(1) };
        }
    }

    #[test]
    fn guards_have_no_access() {
        for len in [1, 5 * page_size(), HUGE_PAGE + 5] {
            let memory = Memory::guarded(len).unwrap();
            let first = memory.ptr().as_ptr().addr();
            assert_eq!(access(first - 1).as_deref(), Some("---p"));
            assert_eq!(access(first).as_deref(), Some("rw-p"));
            assert_eq!(access(first + memory.len() - 1).as_deref(), Some("rw-p"));
            assert_eq!(access(first + memory.len()).as_deref(), Some("---p"));
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert_eq!(
            Memory::guarded(0).unwrap_err().to_string(),
            "host memory: expected a size of at least 1 byte, found 0; skip empty allocations"
        );
        for len in [
            usize::MAX,
            usize::MAX - page_size() - 1,
            isize::MAX as usize,
        ] {
            let text = Memory::guarded(len).unwrap_err().to_string();
            assert!(text.contains("exceed the address space"), "{text}");
        }
        let text = Memory::guarded(isize::MAX as usize / 2).unwrap_err();
        let text = text.to_string();
        assert!(text.contains("Cannot allocate memory"), "{text}");
    }

    #[test]
    fn a_limit_of_the_address_space_is_named() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
        assert!(!hint(Errno::EPERM).contains("vm.max_map_count"));
        assert!(hint(Errno::ENOMEM).contains("vm.max_map_count"));
        assert_eq!(
            hint(Errno::ENOMEM).contains("ulimit -v"),
            soft != RLIM_INFINITY
        );
        let _before = Before(soft, hard);
        // One that no test of this process is near.
        setrlimit(Resource::RLIMIT_AS, hard.min(1 << 46), hard).unwrap();
        let hint = hint(Errno::ENOMEM);
        assert!(hint.contains("ulimit -v"), "{hint}");
        assert!(hint.contains("vm.max_map_count"), "{hint}");
    }

    /// Limits of the address space that come back at the end of a test, whatever comes of it.
    struct Before(u64, u64);

    impl Drop for Before {
        fn drop(&mut self) {
            _ = setrlimit(Resource::RLIMIT_AS, self.0, self.1);
        }
    }
}
