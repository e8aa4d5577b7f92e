//! Address ranges of this process, owned by their mapper.

use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{
    MapFlags, MmapAdvise, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use nix::unistd::{SysconfVar, sysconf};

/// The page size in bytes, as reported by the kernel.
pub fn page_size() -> usize {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok())
        .filter(|n| n.is_power_of_two())
        .unwrap_or(4096)
}

/// A mapping of ours, unmapped on drop. This value gives out the address only and does not
/// access the memory.
#[derive(Debug)]
pub(crate) struct Range {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping and accesses nothing in it.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl Range {
    /// `len` bytes of anonymous memory, whole pages. The byte `ahead` (whole pages too) lies at a
    /// multiple of `align`, a power of two and at least a page.
    ///
    /// # Errors
    /// `ENOMEM` also where the sizes exceed the address space.
    pub(crate) fn aligned(
        len: usize,
        align: usize,
        ahead: usize,
        prot: ProtFlags,
        flags: MapFlags,
    ) -> Result<Range, Errno> {
        // mmap aligns to a page: the slack makes room for an aligned start.
        let total = len
            .checked_add(align - page_size())
            .filter(|&total| total <= isize::MAX as usize)
            .and_then(NonZeroUsize::new)
            .ok_or(Errno::ENOMEM)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap_anonymous(None, total, prot, flags)? };
        let start = base.addr().get() + ahead;
        let head = start.next_multiple_of(align) - start;
        let tail = total.get() - head - len;
        // SAFETY: both ends lie inside of the mapping made above, on page boundaries, and nobody
        // knows of them yet. Giving back what was just mapped cannot fail but for the limit of
        // mappings, and then it stays reserved.
        let ptr = unsafe {
            if head > 0 {
                let _ = munmap(base, head);
            }
            if tail > 0 {
                let _ = munmap(base.byte_add(head + len), tail);
            }
            base.byte_add(head).cast()
        };
        Ok(Range { ptr, len })
    }

    /// `len` bytes without access at `at`, where nothing may be mapped yet: `EEXIST`.
    ///
    /// # Errors
    /// As of mmap(2).
    pub(crate) fn reserved_at(at: usize, len: usize) -> Result<Range, Errno> {
        let (at, total) = NonZeroUsize::new(at)
            .zip(NonZeroUsize::new(len))
            .ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_FIXED_NOREPLACE;
        // SAFETY: the kernel does not replace existing mappings, it refuses.
        let base = unsafe { mmap_anonymous(Some(at), total, ProtFlags::PROT_NONE, flags)? };
        let ptr = base.cast();
        Ok(Range { ptr, len })
    }

    /// `len` bytes of a file from `offset` on, shared with it, at an address of the kernel's choice.
    ///
    /// # Errors
    /// As of mmap(2).
    pub(crate) fn of_file(
        file: impl AsFd,
        offset: i64,
        len: usize,
        prot: ProtFlags,
    ) -> Result<Range, Errno> {
        let bytes = NonZeroUsize::new(len).ok_or(Errno::EINVAL)?;
        // Huge pages are not set aside for all of it.
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        // SAFETY: the kernel picks an unused address.
        let base = unsafe { mmap(None, bytes, prot, flags, file, offset)? };
        let ptr = base.cast();
        Ok(Range { ptr, len })
    }

    /// Maps `len` bytes of a file over a part of this range, shared with it.
    ///
    /// # Safety
    /// No code relies on the current contents.
    ///
    /// # Errors
    /// As of mmap(2), and `EINVAL` for a part that is not inside.
    pub(crate) unsafe fn map_over(
        &self,
        at: usize,
        file: impl AsFd,
        offset: i64,
        len: usize,
        prot: ProtFlags,
    ) -> Result<NonNull<u8>, Errno> {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        let (true, Some(bytes)) = (inside, NonZeroUsize::new(len)) else {
            return Err(Errno::EINVAL);
        };
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        let to = self.ptr.addr().saturating_add(at);
        // SAFETY: the range is ours, the part is inside, and the caller gives up what was there.
        let base = unsafe { mmap(Some(to), bytes, prot, flags, file, offset)? };
        Ok(base.cast())
    }

    /// Changes the access to `len` bytes from `at` on.
    ///
    /// # Safety
    /// No code has references into them, or accesses them against `prot`.
    ///
    /// # Errors
    /// As of mprotect(2), and `EINVAL` for a part that is not inside.
    pub(crate) unsafe fn protect(
        &self,
        at: usize,
        len: usize,
        prot: ProtFlags,
    ) -> Result<(), Errno> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: inside of the range that `self` owns; the caller's promise for the rest.
        unsafe { mprotect(self.ptr.byte_add(at).cast(), len, prot) }
    }

    /// Gives the memory of `len` bytes from `at` on back to the system: they are zero when they are accessed again.
    ///
    /// # Safety
    /// No code has references into them, or relies on their contents.
    ///
    /// # Errors
    /// As of madvise(2), and `EINVAL` for a part that is not inside.
    pub(crate) unsafe fn forget(&self, at: usize, len: usize) -> Result<(), Errno> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: inside of the range that `self` owns; the caller's promise for the rest.
        unsafe { madvise(self.ptr.byte_add(at).cast(), len, MmapAdvise::MADV_DONTNEED) }
    }

    /// Advises the use of huge pages for `len` bytes from `at` on. A kernel without them answers
    /// `EINVAL`, and nothing is lost.
    pub(crate) fn advise_huge_pages(&self, at: usize, len: usize) {
        debug_assert!(at.checked_add(len).is_some_and(|end| end <= self.len));
        let at = self.ptr.map_addr(|ptr| ptr.saturating_add(at));
        // SAFETY: advice that changes no content.
        let _ = unsafe { madvise(at.cast(), len, MmapAdvise::MADV_HUGEPAGE) };
    }

    /// The first byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The size in bytes, whole pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: exactly the mapped range; holders of addresses into it also hold this owner.
        let unmapped = unsafe { munmap(self.ptr.cast(), self.len) };
        // No panic: this drops while errors of a device that is gone are under way, too.
        if let Err(error) = unmapped {
            let (at, bytes) = (self.ptr.addr(), self.len);
            tracing::warn!("munmap of {bytes} bytes at {at:#x}: {error}: they stay mapped");
        }
    }
}

/// A range that child processes do not get: after a fork, copy-on-write of memory that a device has
/// mapped makes the kernel driver stop the device's queues.
pub(crate) struct Unforked {
    range: ManuallyDrop<Range>,
    generation: u32,
}

impl Unforked {
    /// Keeps a range out of children from now on.
    pub(crate) fn new(range: Range) -> Unforked {
        let generation = hcq::process_generation();
        no_fork(range.ptr, range.len);
        let range = ManuallyDrop::new(range);
        Unforked { range, generation }
    }

    /// The range.
    pub(crate) fn range(&self) -> &Range {
        &self.range
    }

    /// Whether it is one of this process, and not of the one that this was forked from: in a child,
    /// the addresses may have become somebody else's.
    pub(crate) fn ours(&self) -> bool {
        self.generation == hcq::process_generation()
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        if self.ours() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.range) };
        }
    }
}

/// Keeps a range out of child processes; see [`Unforked`].
pub(crate) fn no_fork(ptr: NonNull<u8>, len: usize) {
    // SAFETY: advice that changes no content; a failure only means that the old rule stays.
    let _ = unsafe { madvise(ptr.cast(), len, MmapAdvise::MADV_DONTFORK) };
}
