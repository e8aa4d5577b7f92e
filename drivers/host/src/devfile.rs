//! Device nodes: open, ioctl, mmap, with errors that say what to do.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use crate::mmap::page_size;

/// A request that a device node refused.
#[derive(Debug, thiserror::Error)]
pub enum DeviceFileError {
    /// open(2) failed.
    #[error("{path}: open for reading and writing failed: {source}; {hint}")]
    Open {
        /// The node.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
        /// What to do next.
        hint: String,
    },
    /// ioctl(2) failed.
    #[error("{path}: ioctl {name} ({request:#x}) failed: {source}; {hint}")]
    Ioctl {
        /// The node.
        path: PathBuf,
        /// The name of the request in the kernel's header.
        name: &'static str,
        /// Its number.
        request: u64,
        /// What the kernel answered.
        source: io::Error,
        /// What to do next.
        hint: String,
    },
    /// A mapping of nothing, or one that does not start on a page.
    #[error(
        "{path}: mmap of {len} bytes at offset {offset:#x}: expected a size above 0 and an offset \
         that is a multiple of {page}; round the offset down and the size up"
    )]
    Range {
        /// The node.
        path: PathBuf,
        /// Offset that was asked for.
        offset: u64,
        /// Size that was asked for, in bytes.
        len: usize,
        /// Size of a page.
        page: usize,
    },
    /// mmap(2) failed.
    #[error("{path}: mmap of {len} bytes at offset {offset:#x} failed: {source}; {hint}")]
    Map {
        /// The node.
        path: PathBuf,
        /// Offset that was asked for.
        offset: u64,
        /// Size that was asked for, in bytes.
        len: usize,
        /// What the kernel answered.
        source: io::Error,
        /// What to do next.
        hint: String,
    },
}

impl DeviceFileError {
    /// The error number of the kernel, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            DeviceFileError::Open { source, .. }
            | DeviceFileError::Ioctl { source, .. }
            | DeviceFileError::Map { source, .. } => source.raw_os_error(),
            DeviceFileError::Range { .. } => None,
        }
    }
}

/// What a person can do about an error number at a node. Device nodes mean the same few things by
/// them: see open(2), ioctl(2), mmap(2) and the drivers' own headers.
fn hint(path: &Path, errno: Option<i32>) -> String {
    let Some(errno) = errno else {
        return "the kernel named no reason; see `dmesg`".to_string();
    };
    match errno {
        libc::ENOENT => format!(
            "the node does not exist: is the kernel driver loaded (`lsmod`), and in a container, \
             was it passed in (`--device {}`)?",
            path.display()
        ),
        libc::EACCES | libc::EPERM => format!(
            "this user may not do that: compare `ls -l {}` with `id`; after `usermod -aG GROUP \
             USER` a new login is needed, and a container needs the group's number",
            path.display()
        ),
        libc::ENXIO | libc::ENODEV => {
            "the device behind the node is gone or was never found: see `dmesg`".to_string()
        }
        libc::ENOTTY => {
            "the driver does not know this request: the node is of another kind, or the kernel is \
             older than the request"
                .to_string()
        }
        libc::EINVAL => "the driver refused an argument: see `dmesg` for which".to_string(),
        libc::EBUSY => {
            format!(
                "somebody else uses the device: `fuser -v {}` names them",
                path.display()
            )
        }
        libc::ENOMEM => "out of memory or over a limit: see `ulimit -l` and `dmesg`".to_string(),
        libc::EMFILE | libc::ENFILE => "too many open files: raise `ulimit -n`".to_string(),
        libc::EIO => "the device did not answer: see `dmesg`; it may need a reset".to_string(),
        _ => "see `dmesg`".to_string(),
    }
}

/// How often a call is interrupted before that is an error: at a profiler's thousand signals a second,
/// as many seconds as waits last.
const INTERRUPTIONS: u32 = 30_000;

/// An open device node.
#[derive(Debug)]
pub struct DeviceFile {
    path: PathBuf,
    file: File,
}

impl DeviceFile {
    /// Opens `path` for reading and writing; the descriptor is not inherited by child processes.
    ///
    /// # Errors
    /// [`DeviceFileError::Open`].
    pub fn open(path: impl AsRef<Path>) -> Result<DeviceFile, DeviceFileError> {
        let path = path.as_ref().to_path_buf();
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(DeviceFile { path, file }),
            Err(source) => {
                let hint = hint(&path, source.raw_os_error());
                Err(DeviceFileError::Open { path, source, hint })
            }
        }
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One request. Interrupted calls are repeated, as libdrm does. `name` is the request's name
    /// in the kernel's header and only goes into the error.
    ///
    /// # Safety
    /// `request` must be one that reads and writes at most `size_of::<T>()` bytes at `argument`
    /// (bits 16..30 of an encoded request hold that size), leaves a valid `T` there, and does to
    /// any memory that `T` points to only what the caller allows.
    ///
    /// # Errors
    /// [`DeviceFileError::Ioctl`].
    pub unsafe fn ioctl<T>(
        &self,
        name: &'static str,
        request: u64,
        argument: &mut T,
    ) -> Result<i32, DeviceFileError> {
        loop {
            // SAFETY: the descriptor is open, `argument` is a valid `T`, and the caller promises
            // that the request stays inside it.
            let rc = unsafe {
                libc::ioctl(
                    self.file.as_raw_fd(),
                    request as libc::Ioctl,
                    ptr::from_mut(argument),
                )
            };
            if rc >= 0 {
                return Ok(rc);
            }
            let source = io::Error::last_os_error();
            if source.raw_os_error() == Some(libc::EINTR) {
                continue;
            }
            let hint = hint(&self.path, source.raw_os_error());
            return Err(DeviceFileError::Ioctl {
                path: self.path.clone(),
                name,
                request,
                source,
                hint,
            });
        }
    }

    /// One request on an argument of bytes; see [`DeviceFile::ioctl`], but for interruptions, which are
    /// an error in the end: a process under a storm of signals has to get to look at its deadlines. The caller has checked that
    /// the argument is as large as the request says. What the argument points to is between the
    /// caller and the kernel, which checks every address.
    pub(crate) fn ioctl_bytes(&self, request: u64, argument: &mut [u8]) -> io::Result<i32> {
        let mut interrupted = 0;
        loop {
            // SAFETY: the descriptor is open, and the kernel copies no more bytes of the argument
            // than the request encodes, which the caller compared with its length.
            let rc = unsafe {
                libc::ioctl(
                    self.file.as_raw_fd(),
                    request as libc::Ioctl,
                    argument.as_mut_ptr(),
                )
            };
            if rc >= 0 {
                return Ok(rc);
            }
            let error = io::Error::last_os_error();
            interrupted += 1;
            if error.raw_os_error() != Some(libc::EINTR) || interrupted == INTERRUPTIONS {
                return Err(error);
            }
        }
    }

    /// The descriptor.
    pub(crate) fn raw(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Maps `len` bytes at `offset` (many drivers encode an object in it), shared with the device,
    /// readable and writable. The size is rounded up to whole pages.
    ///
    /// # Errors
    /// [`DeviceFileError::Range`] or [`DeviceFileError::Map`].
    pub fn map(&self, offset: u64, len: usize) -> Result<DeviceMapping, DeviceFileError> {
        let (path, page) = (|| self.path.clone(), page_size());
        let size = len
            .checked_next_multiple_of(page)
            .filter(|&n| n > 0 && n <= isize::MAX as usize);
        let at = libc::off_t::try_from(offset)
            .ok()
            .filter(|_| offset.is_multiple_of(page as u64));
        let (Some(size), Some(at)) = (size, at) else {
            return Err(DeviceFileError::Range {
                path: path(),
                offset,
                len,
                page,
            });
        };
        // SAFETY: the kernel picks an unused address, so no memory of ours is replaced.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                at,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(ptr) if base != libc::MAP_FAILED => Ok(DeviceMapping { ptr, len: size }),
            _ => {
                let source = io::Error::last_os_error();
                let hint = hint(&self.path, source.raw_os_error());
                Err(DeviceFileError::Map {
                    path: path(),
                    offset,
                    len: size,
                    source,
                    hint,
                })
            }
        }
    }
}

impl AsFd for DeviceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Memory shared with a device, unmapped on drop. It stays valid after its [`DeviceFile`] closes.
///
/// The device may write it at any time: access it through raw, volatile operations only. An access
/// after the device is gone may raise SIGBUS.
#[derive(Debug)]
pub struct DeviceMapping {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns the mapping and hands out its address only; accesses are the business of
// whoever makes them.
unsafe impl Send for DeviceMapping {}
// SAFETY: as above; all methods return plain values.
unsafe impl Sync for DeviceMapping {}

impl DeviceMapping {
    /// The first byte.
    pub fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The size in bytes, whole pages.
    #[allow(clippy::len_without_is_empty)] // Empty mappings cannot be made.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for DeviceMapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `DeviceFile::map`, unmapped once.
        let rc = unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
        debug_assert_eq!(rc, 0, "munmap: {}", io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_node_is_named() {
        let error = DeviceFile::open("/dev/no-such-node").unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOENT));
        assert_eq!(
            error.to_string(),
            "/dev/no-such-node: open for reading and writing failed: No such file or directory (os \
             error 2); the node does not exist: is the kernel driver loaded (`lsmod`), and in a \
             container, was it passed in (`--device /dev/no-such-node`)?"
        );
    }

    #[test]
    fn an_unknown_request_is_named() {
        let null = DeviceFile::open("/dev/null").unwrap();
        let mut argument = 0u32;
        // SAFETY: /dev/null implements no requests, so nothing is read or written.
        let error = unsafe { null.ioctl("NO_SUCH_REQUEST", 0xc004_4b01, &mut argument) };
        assert_eq!(
            error.unwrap_err().to_string(),
            "/dev/null: ioctl NO_SUCH_REQUEST (0xc0044b01) failed: Inappropriate ioctl for device \
             (os error 25); the driver does not know this request: the node is of another kind, or \
             the kernel is older than the request"
        );
    }

    #[test]
    fn a_request_that_succeeds_fills_its_argument() {
        let pty = DeviceFile::open("/dev/ptmx").unwrap();
        let mut number = u32::MAX;
        // SAFETY: TIOCGPTN writes one unsigned int.
        let rc = unsafe { pty.ioctl("TIOCGPTN", libc::TIOCGPTN, &mut number) };
        assert_eq!(rc.unwrap(), 0);
        assert_ne!(number, u32::MAX);
    }

    #[test]
    fn a_node_can_be_mapped_and_outlived() {
        let zero = DeviceFile::open("/dev/zero").unwrap();
        assert_eq!(zero.path(), Path::new("/dev/zero"));
        let mapping = zero.map(0, 10).unwrap();
        drop(zero);
        assert_eq!(mapping.len(), page_size());
        // SAFETY: inside the live mapping.
        unsafe {
            let last = mapping.ptr().add(mapping.len() - 1);
            assert_eq!(last.read_volatile(), 0);
            last.write_volatile(9);
            assert_eq!(last.read_volatile(), 9);
        }
    }

    #[test]
    fn mappings_that_cannot_be_are_refused() {
        let zero = DeviceFile::open("/dev/zero").unwrap();
        for (offset, len) in [(0, 0), (1, 4096), (0, usize::MAX), (!0xfff, 4096)] {
            let error = zero.map(offset, len).unwrap_err();
            assert!(matches!(error, DeviceFileError::Range { .. }), "{error}");
        }
        let null = DeviceFile::open("/dev/null").unwrap();
        let error = null.map(0, 4096).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/dev/null: mmap of 4096 bytes at offset 0x0 failed: No such device (os error 19); the \
             device behind the node is gone or was never found: see `dmesg`"
        );
    }

    #[test]
    fn every_hint_says_something() {
        for errno in 1..134 {
            assert!(!hint(Path::new("/dev/x"), Some(errno)).is_empty());
        }
        let text = hint(Path::new("/dev/kfd"), Some(libc::EACCES));
        assert!(
            text.contains("ls -l /dev/kfd") && text.contains("usermod"),
            "{text}"
        );
    }
}
