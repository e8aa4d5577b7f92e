//! Anonymous memory straight from the kernel: for queues, buffers and machine code.
//!
//! The owners here hand out addresses, never references to memory that a queue's other side may
//! write: whoever uses [`Memory::ptr`] decides how to access it.

mod arena;

use std::io;
use std::ops;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags};

use crate::range::Range;
pub use crate::range::page_size;
pub use arena::{CodeArenas, CodeRoom, SharedCode};

/// The size from which memory is aligned for huge pages: 2 MiB, the second level of the page
/// tables of x86-64 and of AArch64 with 4 KiB pages.
pub const HUGE_PAGE: usize = 2 << 20;

/// Memory that could not be had, or not with the access that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// A mapping of nothing.
    #[error("host memory: expected a size of at least 1 byte, found 0; skip empty allocations")]
    Empty,
    /// The size, rounded up and with its alignment slack, does not fit an address.
    #[error(
        "host memory: {len} bytes rounded up to pages exceed the address space; check the size \
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
    /// A range that is not inside the memory, or does not start on a page.
    #[error(
        "host memory: code range {start:#x}..{end:#x} must start on a page ({page:#x} bytes) and \
         end within {len:#x} bytes; align the sections that are loaded"
    )]
    Range {
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Size of a page.
        page: usize,
        /// Size of the memory.
        len: usize,
    },
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
    /// At least `len` bytes.
    ///
    /// # Errors
    /// [`MapError::Empty`], [`MapError::TooLarge`] or what mmap(2) answered.
    pub fn new(len: usize) -> Result<Memory, MapError> {
        Memory::with_guards(len, 0)
    }

    /// At least `len` bytes between two pages that trap, so that an access past either end of the
    /// pages faults instead of hitting a neighbour. The size is still rounded up to whole pages.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn guarded(len: usize) -> Result<Memory, MapError> {
        Memory::with_guards(len, page_size())
    }

    fn with_guards(len: usize, guard: usize) -> Result<Memory, MapError> {
        if len == 0 {
            return Err(MapError::Empty);
        }
        let page = page_size();
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
        let failed = |errno: Errno| {
            let hint = match errno {
                Errno::ENOMEM => {
                    "free memory, raise `ulimit -v` or the memory limit of the container, or raise \
                     vm.max_map_count if there are very many mappings"
                }
                _ => "the limits of this process may be too low: see `ulimit -a`",
            };
            MapError::Map {
                len: total,
                source: errno.into(),
                hint,
            }
        };
        // Reserved without access first: what stays so is the guards.
        let (none, private) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
        let range = Range::aligned(size + 2 * guard, align, guard, none, private);
        let range = range.map_err(failed)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: nobody else knows of the range yet.
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

    /// The usable size in bytes: what was asked for, rounded up to whole pages.
    #[allow(clippy::len_without_is_empty)] // Empty memory cannot be made.
    pub fn len(&self) -> usize {
        self.range.len() - 2 * self.guard
    }
}

/// Memory that will hold machine code: writable now, executable after [`CodeBuilder::seal`],
/// never both.
#[derive(Debug)]
pub struct CodeBuilder {
    memory: Memory,
}

impl CodeBuilder {
    /// Room for `len` bytes of code and of the data that belongs to it, zeroed.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn new(len: usize) -> Result<CodeBuilder, MapError> {
        Memory::guarded(len).map(|memory| CodeBuilder { memory })
    }

    /// Where the first byte is and will stay: relocations are computed against it.
    pub fn addr(&self) -> usize {
        self.memory.ptr().addr().get()
    }

    /// The content.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` initialised (zeroed) bytes, private to this value, and
        // borrowed mutably with it. Nothing executes it or lends its address before `seal`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.ptr().as_ptr(), self.memory.len()) }
    }

    /// Makes everything readable and executable, and nothing writable.
    ///
    /// # Errors
    /// [`MapError::Protect`] where the system forbids code made at run time.
    pub fn seal(self) -> Result<Code, MapError> {
        let all = 0..self.memory.len();
        self.seal_range(all)
    }

    /// Makes `code` readable and executable and leaves the rest readable and writable: the rest
    /// holds data of the program. `code` starts on a page and is extended to the end of one.
    ///
    /// # Errors
    /// [`MapError::Range`] for a range outside or off a page, [`MapError::Protect`] where the
    /// system forbids code made at run time.
    pub fn seal_range(self, code: ops::Range<usize>) -> Result<Code, MapError> {
        let (page, len) = (page_size(), self.memory.len());
        if !code.start.is_multiple_of(page) || code.start >= code.end || code.end > len {
            return Err(MapError::Range {
                start: code.start,
                end: code.end,
                page,
                len,
            });
        }
        let size = code.end.next_multiple_of(page) - code.start; // `len` is whole pages
        // SAFETY: start < len, checked above.
        let start = unsafe { self.memory.ptr().byte_add(code.start) };
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        let at = self.memory.guard + code.start;
        // SAFETY: the range is whole pages of the mapping that `self` owns, and no reference into
        // it exists: `bytes_mut` borrows `self`, which was moved here.
        if let Err(errno) = unsafe { self.memory.range.protect(at, size, access) } {
            return Err(MapError::Protect {
                addr: start.addr().get(),
                len: size,
                to: "read, execute",
                source: errno.into(),
            });
        }
        flush_instruction_cache(start, size);
        Ok(Code {
            memory: self.memory,
        })
    }
}

/// x86 keeps instruction fetch coherent with stores; mprotect has serialised us anyway.
#[cfg(target_arch = "x86_64")]
fn flush_instruction_cache(_start: NonNull<u8>, _len: usize) {}

/// AArch64 does not: lines must be cleaned to the point of unification and invalidated.
#[cfg(not(target_arch = "x86_64"))]
fn flush_instruction_cache(start: NonNull<u8>, len: usize) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut u8, end: *mut u8);
    }
    // SAFETY: the range is mapped and readable; the function of the compiler's runtime library
    // only issues cache maintenance.
    unsafe { __clear_cache(start.as_ptr(), start.as_ptr().byte_add(len)) }
}

/// Machine code that can be run and not written; unmapped on drop.
#[derive(Debug)]
pub struct Code {
    memory: Memory,
}

impl Code {
    /// The first byte. Calling into it is up to the caller, who knows the signature and keeps
    /// this owner alive meanwhile.
    pub fn ptr(&self) -> NonNull<u8> {
        self.memory.ptr()
    }

    /// The size in bytes, whole pages.
    #[allow(clippy::len_without_is_empty)] // Empty memory cannot be made.
    pub fn len(&self) -> usize {
        self.memory.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let memory = Memory::new(10).unwrap();
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
            for memory in [Memory::new(len).unwrap(), Memory::guarded(len).unwrap()] {
                assert_eq!(memory.ptr().as_ptr().addr() % HUGE_PAGE, 0);
                assert_eq!(memory.len(), len.next_multiple_of(page_size()));
                // SAFETY: the last byte of a live mapping.
                unsafe { memory.ptr().add(memory.len() - 1).write_volatile(1) };
            }
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
            Memory::new(0).unwrap_err().to_string(),
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
        let text = Memory::new(isize::MAX as usize / 2)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("Cannot allocate memory") && text.contains("ulimit -v"),
            "{text}"
        );
    }

    #[test]
    fn code_is_writable_or_executable_and_never_both() {
        let builder = CodeBuilder::new(100).unwrap();
        let addr = builder.addr();
        assert_eq!(access(addr).as_deref(), Some("rw-p"));
        let code = builder.seal().unwrap();
        assert_eq!(code.ptr().as_ptr().addr(), addr);
        assert_eq!(access(addr).as_deref(), Some("r-xp"));
    }

    #[test]
    fn data_beside_the_code_stays_writable() {
        let page = page_size();
        let builder = CodeBuilder::new(3 * page).unwrap();
        let addr = builder.addr();
        let _code = builder.seal_range(page..page + 10).unwrap();
        assert_eq!(access(addr).as_deref(), Some("rw-p"));
        assert_eq!(access(addr + page).as_deref(), Some("r-xp"));
        assert_eq!(access(addr + 2 * page).as_deref(), Some("rw-p"));
    }

    #[test]
    fn code_ranges_are_checked() {
        let page = page_size();
        for range in [1..page, 0..page + 1, page..page, 0..0] {
            let error = CodeBuilder::new(page)
                .unwrap()
                .seal_range(range)
                .unwrap_err();
            assert!(matches!(error, MapError::Range { .. }), "{error}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn sealed_code_runs() {
        let mut builder = CodeBuilder::new(16).unwrap();
        // lea eax, [rdi + rsi]; ret
        builder.bytes_mut()[..4].copy_from_slice(&[0x8d, 0x04, 0x37, 0xc3]);
        let code = builder.seal().unwrap();
        // SAFETY: the bytes above are a function of this signature, and `code` outlives the call.
        let sum = unsafe {
            let add: extern "C" fn(u32, u32) -> u32 = std::mem::transmute(code.ptr().as_ptr());
            add(40, 2)
        };
        assert_eq!(sum, 42);
    }
}
