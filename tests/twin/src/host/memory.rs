//! Host memory: files in memory that the twin and its client both map, and the client's own memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hcq::mem::view::View;

use super::PAGE;
use super::frame::Frame;

/// Which file of the host something is: device and inode.
pub type Identity = (u64, u64);

/// A part of a file that holds memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where in the file.
    pub offset: u64,
    /// How much, in whole pages.
    pub bytes: u64,
}

/// A range of host memory that the twin can follow pointers into.
///
/// Either a file in memory, mapped by the twin for as long as this lives; parts of another process's file,
/// mapped the same way; or memory of the client itself, which the twin finds at the client's own addresses.
pub struct Mapping {
    base: *mut u8,
    bytes: usize,
    of: Of,
}

/// What a mapping is one of.
enum Of {
    /// A file of its own.
    File(File),
    /// Parts of a file that the client shares.
    Shared(File),
    /// The client's own memory, in this process.
    Client,
}

// SAFETY: the memory behind `base` is only accessed atomically, through frames and the functions
// below; nothing else in here changes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What the last call to libc said, as an errno.
fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Which file of the host this is one of.
pub fn identity(file: &File) -> Option<Identity> {
    let about = file.metadata().ok()?;
    Some((about.dev(), about.ino()))
}

/// A file in memory, of no bytes yet.
///
/// # Errors
/// An errno.
pub fn memory_file() -> Result<File, i32> {
    // SAFETY: a new descriptor, named by a string that ends in zero.
    let fd = unsafe { libc::memfd_create(c"twin".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: `fd` is open and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The ranges of pages of a file in memory that somebody has touched, as first page and end.
pub fn touched(file: BorrowedFd<'_>, bytes: u64) -> Vec<(u64, u64)> {
    let seek = |from: u64, whence| {
        // SAFETY: moves the position of a descriptor that nothing else uses.
        let at = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
        u64::try_from(at).ok()
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(data) = seek(at, libc::SEEK_DATA) {
        let end = seek(data, libc::SEEK_HOLE).unwrap_or(bytes);
        ranges.push((data / PAGE, end.div_ceil(PAGE)));
        at = end;
    }
    ranges
}

impl Mapping {
    /// A new file in memory, all zeros, of `bytes` bytes (rounded up to pages), mapped here. Pages
    /// take room only once they are touched.
    ///
    /// # Errors
    /// An errno.
    pub fn new(bytes: u64) -> Result<Self, i32> {
        let bytes = bytes
            .checked_next_multiple_of(PAGE)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|&bytes| bytes > 0)
            .ok_or(libc::EINVAL)?;
        let file = memory_file()?;
        let fd = file.as_raw_fd();
        file.set_len(bytes as u64)
            .map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
        // SAFETY: a fresh mapping at an address that the system chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(Self {
            base: base.cast(),
            bytes,
            of: Of::File(file),
        })
    }

    /// Parts of a file that another process shares, one after the other.
    ///
    /// # Errors
    /// An errno; `EINVAL` where a part is not whole pages, or there is none.
    pub fn of_parts(file: BorrowedFd<'_>, parts: &[Part]) -> Result<Self, i32> {
        let total = parts.iter().try_fold(0u64, |total, part| {
            let whole = (part.offset | part.bytes).is_multiple_of(PAGE) && part.bytes > 0;
            total.checked_add(part.bytes).filter(|_| whole)
        });
        let bytes = total.and_then(|total| usize::try_from(total).ok());
        let bytes = bytes.filter(|&bytes| bytes > 0).ok_or(libc::EINVAL)?;
        let kept = file.try_clone_to_owned();
        let kept = kept.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
        let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address that the system chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, none, private, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(errno());
        }
        let mapping = Self {
            base: base.cast(),
            bytes,
            of: Of::Shared(kept.into()),
        };
        let mut at = 0;
        for part in parts {
            let offset = libc::off_t::try_from(part.offset).map_err(|_| libc::EINVAL)?;
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: inside of what was just mapped, and nobody has seen yet.
            let done = unsafe {
                libc::mmap(
                    mapping.base.add(at).cast(),
                    part.bytes as usize,
                    rights,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    file.as_raw_fd(),
                    offset,
                )
            };
            if done == libc::MAP_FAILED {
                return Err(errno());
            }
            at += part.bytes as usize;
        }
        Ok(mapping)
    }

    /// The client's own memory, which must be mapped there and stay so for as long as a GPU may use
    /// it. Its pages are brought in now, as the kernel driver does when it pins them.
    ///
    /// # Errors
    /// `EINVAL` where it does not start at a page, `EFAULT` where it is not mapped with those rights.
    pub fn of_client(address: u64, bytes: u64, write: bool) -> Result<Self, i32> {
        if address == 0 || bytes == 0 || !(address | bytes).is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        let length = usize::try_from(bytes).map_err(|_| libc::EINVAL)?;
        let base = address as *mut u8;
        let advice = if write {
            libc::MADV_POPULATE_WRITE
        } else {
            libc::MADV_POPULATE_READ
        };
        // SAFETY: this advice changes no content, and fails where nothing is mapped.
        if unsafe { libc::madvise(base.cast(), length, advice) } != 0 {
            return Err(libc::EFAULT);
        }
        Ok(Self {
            base,
            bytes: length,
            of: Of::Client,
        })
    }

    /// The file that it is all of, to be handed to another process.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.of {
            Of::File(file) => Some(file.as_fd()),
            Of::Shared(_) | Of::Client => None,
        }
    }

    /// Which file that is.
    pub fn identity(&self) -> Option<Identity> {
        match &self.of {
            Of::File(file) => identity(file),
            Of::Shared(_) | Of::Client => None,
        }
    }

    /// Whether it lies in a file that has a name: its pages stay when the process that has made it ends.
    pub fn has_name(&self) -> bool {
        let file = match &self.of {
            Of::File(file) | Of::Shared(file) => file,
            Of::Client => return false,
        };
        file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// All of it as a driver of this repository sees it, which keeps it.
    pub fn view(self: &Arc<Self>) -> View {
        let base = NonNull::new(self.base).unwrap_or(NonNull::dangling());
        // SAFETY: mapped for reads and writes as long as `self`, which the view keeps; only accessed atomically
        // here; a mapping of this length exists, so it is not more than `isize::MAX`. Null is never mapped.
        unsafe { View::new(base, self.bytes, self.clone()) }
    }

    /// The page of that number, if there is one.
    pub fn frame(&self, page: u64) -> Option<Frame<'_>> {
        let offset = usize::try_from(page.checked_mul(PAGE)?).ok()?;
        if offset >= self.bytes {
            return None;
        }
        // SAFETY: a whole page inside the mapping, which lives as long as `self` (a file is mapped
        // until `drop`; the client promised it for its own memory), and which the twin only ever
        // accesses through frames and atomics.
        Some(unsafe { Frame::new(self.base.add(offset)) })
    }

    /// Whether the page is still there: a client may have unmapped memory of its own.
    pub fn alive(&self, page: u64) -> bool {
        if !matches!(self.of, Of::Client) {
            return true;
        }
        let mut resident = 0;
        let at = self.base.wrapping_add((page * PAGE) as usize);
        // SAFETY: writes one byte into `resident`, for one page; fails where nothing is mapped.
        unsafe { libc::mincore(at.cast(), PAGE as usize, &raw mut resident) == 0 }
    }

    fn word<T>(&self, offset: usize) -> Option<*mut T> {
        let fits = offset.checked_add(size_of::<T>())? <= self.bytes;
        (fits && offset.is_multiple_of(size_of::<T>()))
            .then(|| self.base.wrapping_add(offset).cast())
    }

    /// The 8 bytes at `offset`, or 0 where that is not aligned or not inside.
    pub fn load64(&self, offset: usize) -> u64 {
        self.word(offset).map_or(0, |at| {
            // SAFETY: aligned, inside the mapping, and only accessed atomically.
            unsafe { AtomicU64::from_ptr(at) }.load(Ordering::Acquire)
        })
    }

    /// Stores 8 bytes at `offset`; nothing where that is not aligned or not inside.
    pub fn store64(&self, offset: usize, value: u64) {
        if let Some(at) = self.word(offset) {
            // SAFETY: as for `load64`.
            unsafe { AtomicU64::from_ptr(at) }.store(value, Ordering::Release);
        }
    }

    /// Takes the 4 bytes at `offset` and leaves others; 0 where that is not aligned or not inside.
    pub fn swap32(&self, offset: usize, value: u32) -> u32 {
        self.word(offset).map_or(0, |at| {
            // SAFETY: as for `load64`.
            unsafe { AtomicU32::from_ptr(at) }.swap(value, Ordering::AcqRel)
        })
    }

    /// Calls `each` for the pieces of a range, page by page: the page, the place in it, and the bytes of the
    /// range. Whether all of it lies inside; else nothing is called.
    fn walk(
        &self,
        at: u64,
        bytes: usize,
        mut each: impl FnMut(Frame<'_>, usize, Range<usize>),
    ) -> bool {
        let end = at.checked_add(bytes as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return false;
        }
        let mut done = 0;
        while done < bytes {
            let (page, inside) = ((at + done as u64) / PAGE, (at + done as u64) % PAGE);
            let piece = (bytes - done).min((PAGE - inside) as usize);
            let Some(frame) = self.frame(page) else {
                return false;
            };
            each(frame, inside as usize, done..done + piece);
            done += piece;
        }
        true
    }

    /// Reads from byte `at` on, aligned words of 8 bytes at once. Whether all of it lies inside; else
    /// nothing is read.
    pub fn read(&self, at: u64, out: &mut [u8]) -> bool {
        self.walk(at, out.len(), |frame, inside, piece| {
            frame.read(inside, &mut out[piece]);
        })
    }

    /// Writes from byte `at` on, aligned words of 8 bytes at once. Whether all of it lies inside; else
    /// nothing is written.
    pub fn write(&self, at: u64, data: &[u8]) -> bool {
        self.walk(at, data.len(), |frame, inside, piece| {
            frame.write(inside, &data[piece]);
        })
    }

    /// Maps `bytes` from `offset` into the client, as its `mmap` asks. Returns the address.
    ///
    /// # Errors
    /// An errno; `EINVAL` where this has no file or the range lies outside of it.
    pub fn map_client(
        &self,
        address: u64,
        bytes: u64,
        protection: i32,
        flags: i32,
        offset: u64,
    ) -> Result<u64, i32> {
        let file = self.file().ok_or(libc::EINVAL)?;
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes as u64);
        if !inside || bytes == 0 || !offset.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        let offset = libc::off_t::try_from(offset).map_err(|_| libc::EINVAL)?;
        // SAFETY: the client asked for this mapping at this address; what was there before is the
        // client's own, and it gives it up, as with the real driver.
        let at = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                bytes as usize,
                protection,
                flags,
                file.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(at as u64)
    }

    /// All of it is zeros again, and takes no room. Of a file of its own only.
    pub fn clear(&self) {
        if let Some(file) = self.file() {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: changes what a file of this mapping holds, which everybody accesses as atomics.
            let done =
                unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, self.bytes as libc::off_t) };
            debug_assert_eq!(done, 0, "a file in memory has holes");
        }
    }

    /// The ranges of pages that somebody has touched, as first page and end.
    pub fn touched(&self) -> Vec<(u64, u64)> {
        self.file()
            .map_or_else(Vec::new, |file| touched(file, self.bytes()))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !matches!(self.of, Of::Client) {
            // SAFETY: mapped by `new` or `of_parts` with this size, and every frame of it has ended.
            unsafe { libc::munmap(self.base.cast(), self.bytes) };
        }
    }
}
