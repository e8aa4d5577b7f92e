//! [`Calls`]: the system calls of VFIO, made on this machine or on a model of a kernel.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hcq::mem::view::View;
use hcq::transport::{Map, MonotonicClock, Prot};
use hcq::wait::Deadline;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::mman::ProtFlags;

use crate::pci::System;
use crate::range::{Range, Unforked};
use crate::reserve::view;

/// The argument of a request.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A number.
    Value(u32),
    /// The address of bytes, which the kernel may change.
    Bytes(&'a mut [u8]),
}

/// System calls on descriptors, which are numbers that the one gives who is asked.
///
/// Errors are those of the system.
#[allow(clippy::missing_errors_doc)] // As above.
pub trait Calls: Send + Sync {
    /// Opens a file for reads and writes.
    fn open(&self, path: &str) -> io::Result<i32>;

    /// Closes a descriptor that this has given.
    fn close(&self, fd: i32);

    /// A request.
    ///
    /// # Safety
    /// The kernel takes no more bytes than there are, and what it does with addresses in them is allowed.
    unsafe fn ioctl(&self, fd: i32, request: u32, argument: Argument<'_>) -> io::Result<i32>;

    /// Reads from an offset.
    fn read_at(&self, fd: i32, to: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset.
    fn write_at(&self, fd: i32, from: &[u8], offset: u64) -> io::Result<usize>;

    /// Maps a part of a device's file, at any address.
    fn map(&self, fd: i32, map: Map) -> io::Result<View>;

    /// A new eventfd.
    fn event(&self) -> io::Result<i32>;

    /// Waits for an eventfd and takes its count; `None` if it did not fire, possibly before the limit.
    fn wait(&self, fd: i32, limit: Duration) -> io::Result<Option<u64>>;
}

/// Waits for an eventfd until a deadline and takes its count; `None` if it did not fire.
pub(crate) fn until(calls: &dyn Calls, fd: i32, deadline: Deadline) -> io::Result<Option<u64>> {
    loop {
        // A deadline in wall time looks at no clock; on another clock the limit is looked at in between.
        let left = deadline.remaining(&MonotonicClock);
        match calls.wait(fd, left)? {
            None if !left.is_zero() => {}
            came => return Ok(came),
        }
    }
}

/// The kernel of this machine, with device files where a system has them.
pub(crate) fn this(system: &System) -> Arc<dyn Calls> {
    let system = system.clone();
    Arc::new(Kernel { system })
}

struct Kernel {
    system: System,
}

/// A descriptor for the length of a call.
fn borrowed<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: who calls has got the number from here, has it until `close`, and does not close it during a call.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

impl Calls for Kernel {
    fn open(&self, path: &str) -> io::Result<i32> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(self.system.path(path));
        Ok(file?.into_raw_fd())
    }

    fn close(&self, fd: i32) {
        // SAFETY: the number was given to one caller, who gives it back once.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }

    unsafe fn ioctl(&self, fd: i32, request: u32, argument: Argument<'_>) -> io::Result<i32> {
        let request = request as libc::Ioctl;
        // Of libc, because nix makes a function of each request that is known when it is compiled.
        // SAFETY: the caller's promise.
        let done = unsafe {
            match argument {
                Argument::Value(value) => libc::ioctl(fd, request, libc::c_ulong::from(value)),
                Argument::Bytes(bytes) => libc::ioctl(fd, request, bytes.as_mut_ptr()),
            }
        };
        Ok(Errno::result(done)?)
    }

    fn read_at(&self, fd: i32, to: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(nix::sys::uio::pread(borrowed(fd), to, offset as i64)?)
    }

    fn write_at(&self, fd: i32, from: &[u8], offset: u64) -> io::Result<usize> {
        Ok(nix::sys::uio::pwrite(borrowed(fd), from, offset as i64)?)
    }

    fn map(&self, fd: i32, map: Map) -> io::Result<View> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let range = Range::of_file(borrowed(fd), map.offset as i64, map.len, access)?;
        let (ptr, owner) = (range.ptr(), Arc::new(Unforked::new(range)));
        // SAFETY: mapped for as long as `owner` lives; nobody else knows the address.
        Ok(unsafe { view(ptr, map.len, Prot::ReadWrite, owner) })
    }

    fn event(&self) -> io::Result<i32> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags)?;
        Ok(OwnedFd::from(event).into_raw_fd())
    }

    fn wait(&self, fd: i32, limit: Duration) -> io::Result<Option<u64>> {
        // Rounded up: what is left of a limit is no busy loop.
        let ms = i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
        let mut files = [PollFd::new(borrowed(fd), PollFlags::POLLIN)];
        match poll(&mut files, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(None),
            ready => ready?,
        };
        let mut count = [0; 8];
        match nix::unistd::read(borrowed(fd), &mut count) {
            // Another thread has taken it.
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            read => read
                .map(|_| Some(u64::from_ne_bytes(count)))
                .map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eventfd_counts_until_it_is_waited_for() {
        let kernel = this(&System::this());
        let event = kernel.event().unwrap();
        let short = Duration::from_millis(10);
        assert_eq!(kernel.wait(event, short).unwrap(), None);
        for _ in 0..3 {
            nix::unistd::write(borrowed(event), &1u64.to_ne_bytes()).unwrap();
        }
        assert_eq!(kernel.wait(event, short).unwrap(), Some(3));
        assert_eq!(kernel.wait(event, short).unwrap(), None);
        kernel.close(event);
    }

    #[test]
    fn a_file_is_read_written_and_refuses_what_is_not_its_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), [0; 4096]).unwrap();
        let kernel = this(&System::at(folder.path()));
        let file = kernel.open("/file").unwrap();
        assert_eq!(kernel.write_at(file, &[1, 2], 0x10).unwrap(), 2);
        let map = Map {
            offset: 0,
            len: 4096,
            prot: Prot::ReadWrite,
            at: None,
        };
        assert_eq!(kernel.map(file, map).unwrap().read::<u16>(0x10), Ok(0x201));
        let mut word = [0; 2];
        assert_eq!(kernel.read_at(file, &mut word, 0x10).unwrap(), 2);
        assert_eq!(word, [1, 2]);
        // SAFETY: a plain file knows no requests.
        let refused = unsafe { kernel.ioctl(file, 0x3b64, Argument::Value(0)) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        kernel.close(file);
        assert!(kernel.open("/none").is_err());
    }
}
