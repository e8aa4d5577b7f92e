//! Device nodes: open, ioctl, mmap.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use hcq::mem::view::View;
use hcq::transport::{DevFile, Fault, Map, Prot, Request, TransportError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::mman::ProtFlags;

use crate::range::{Range, Unforked, page_size};
use crate::reserve::{Place, view};

/// How often a call is interrupted before that is an error: at a profiler's thousand signals a second,
/// as many seconds as waits last.
const INTERRUPTIONS: u32 = 30_000;

/// A device file of this machine.
pub(crate) struct HostFile {
    name: String,
    file: File,
}

impl HostFile {
    /// Opens `path` for reading and writing; the descriptor is not inherited by other programs.
    ///
    /// # Errors
    /// As of open(2).
    pub(crate) fn open(path: &str) -> io::Result<HostFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let name = path.into();
        Ok(HostFile { name, file })
    }

    /// One request with an argument of bytes. The caller has checked that the argument is as large as the request says.
    /// What the argument points to is between the caller and the kernel, which checks every address.
    fn ioctl_bytes(&self, request: u32, argument: &mut [u8]) -> Result<i32, Errno> {
        // Of libc, because nix makes a function of each request that is known when it is
        // compiled; here requests are rows of tables.
        // SAFETY: the descriptor is open, and the kernel copies no more bytes of the argument
        // than the request encodes, which the caller compared with its length.
        let rc = unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                request as libc::Ioctl,
                argument.as_mut_ptr(),
            )
        };
        Errno::result(rc)
    }
}

/// Makes a call. An interrupted one is made again, as libdrm does, but not without limit: a process under a storm of signals
/// has to check its deadlines. Waits are not: their limit may start anew.
fn repeated(is_wait: bool, mut call: impl FnMut() -> Result<i32, Errno>) -> Result<i32, Errno> {
    let calls = if is_wait { 1 } else { INTERRUPTIONS };
    let mut done = call();
    for _ in 1..calls {
        if done != Err(Errno::EINTR) {
            break;
        }
        done = call();
    }
    done
}

/// The system's error of an operation on a path.
pub(crate) fn refused(path: &str, operation: &str, error: &io::Error) -> TransportError {
    TransportError::new(path, operation, fault(error))
}

/// The system's error, by its number.
pub(crate) fn fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(errno) => Fault::Errno(errno),
        // Such as a path with a zero in it, or text that is not UTF-8.
        None => Fault::Unsupported(error.to_string()),
    }
}

impl DevFile for HostFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        let (name, is_wait) = (request.ioctl().name, request.is_wait());
        // Only on failure: a call that succeeds allocates nothing.
        let failed = |fault| TransportError::new(&*self.name, format!("ioctl {name}"), fault);
        let done = request
            .perform(|code, argument| repeated(is_wait, || self.ioctl_bytes(code, argument)));
        done.map_err(failed)?
            .map_err(|errno| failed(Fault::Errno(errno as i32)))
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        let failed = |fault| TransportError::new(&*self.name, map.to_string(), fault);
        let refused = |errno| failed(Fault::Errno(errno as i32));
        let prot = match map.prot {
            Prot::Read => ProtFlags::PROT_READ,
            Prot::Write => ProtFlags::PROT_WRITE,
            Prot::ReadWrite => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        };
        if map.len == 0 || !map.len.is_multiple_of(page_size()) {
            return Err(refused(Errno::EINVAL));
        }
        let offset = map.offset as i64;
        if let Some(at) = map.at {
            let place = Place::inside(at, map.len).map_err(failed)?;
            // SAFETY: only the owner of the reservation, who asks for this, has mapped anything
            // there.
            return unsafe { place.map(&self.file, offset, prot, map.prot) }.map_err(refused);
        }
        let range = Range::of_file(&self.file, offset, map.len, prot).map_err(refused)?;
        let (ptr, owner) = (range.ptr(), Arc::new(Unforked::new(range)));
        // SAFETY: mapped for as long as `owner` lives; no other code has the address.
        Ok(unsafe { view(ptr, map.len, map.prot, owner) })
    }

    fn poll(&self, limit: Duration) -> Result<bool, TransportError> {
        // Drivers tell by normal data, by priority data, or by both.
        let wanted = PollFlags::POLLIN | PollFlags::POLLPRI;
        let mut files = [PollFd::new(self.file.as_fd(), wanted)];
        // Rounded up, so that the rest of a limit is no busy loop.
        let ms = limit.as_nanos().div_ceil(1_000_000);
        let ms = i32::try_from(ms).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
        match nix::poll::poll(&mut files, timeout) {
            Ok(ready) => Ok(ready > 0),
            // The caller checks the time.
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => {
                let fault = Fault::Errno(errno as i32);
                Err(TransportError::new(&*self.name, "poll", fault))
            }
        }
    }

    fn number(&self) -> Result<u32, TransportError> {
        Ok(self.file.as_raw_fd() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq::transport::Ioctl;

    #[test]
    fn requests_are_numbered_as_everywhere() {
        let code = |direction, nr, bytes| Ioctl::new("X", direction, b'K', nr, bytes).request;
        let both = Ioctl::READ | Ioctl::WRITE;
        assert_eq!(
            u64::from(code(Ioctl::READ, 1, 8)),
            nix::request_code_read!(b'K', 1, 8)
        );
        assert_eq!(
            u64::from(code(Ioctl::WRITE, 0x10, 24)),
            nix::request_code_write!(b'K', 0x10, 24)
        );
        assert_eq!(
            u64::from(code(both, 0x26, 0x3fff)),
            nix::request_code_readwrite!(b'K', 0x26, 0x3fff)
        );
    }

    #[test]
    fn a_request_that_succeeds_fills_its_argument() {
        let pty = HostFile::open("/dev/ptmx").unwrap();
        let mut number = [0xff; 4];
        let code = nix::request_code_read!(b'T', 0x30, 4); // TIOCGPTN
        assert_eq!(pty.ioctl_bytes(code as u32, &mut number), Ok(0));
        assert_ne!(number, [0xff; 4]);
    }

    #[test]
    fn interrupted_calls_are_made_again_and_waits_are_not() {
        for (is_wait, left, done, calls) in [
            (false, 3, Ok(7), 4),
            (true, 3, Err(Errno::EINTR), 1),
            (true, 0, Ok(7), 1),
            (false, u32::MAX, Err(Errno::EINTR), INTERRUPTIONS),
        ] {
            let (mut left, mut made) = (left, 0);
            let found = repeated(is_wait, || {
                made += 1;
                match left.checked_sub(1) {
                    None => Ok(7),
                    Some(rest) => {
                        left = rest;
                        Err(Errno::EINTR)
                    }
                }
            });
            assert_eq!((found, made), (done, calls));
        }
        let refused = repeated(false, || Err(Errno::EINVAL));
        assert_eq!(refused, Err(Errno::EINVAL));
    }

    #[test]
    fn a_node_can_be_mapped_and_outlived() {
        let zero = HostFile::open("/dev/zero").unwrap();
        let map = |offset, len| Map {
            offset,
            len,
            prot: Prot::ReadWrite,
            at: None,
        };
        let refused = |len, offset| zero.mmap(map(offset, len)).unwrap_err().fault;
        for (len, offset) in [(0, 0), (10, 0), (page_size(), 1)] {
            assert_eq!(refused(len, offset), Fault::Errno(libc::EINVAL));
        }
        let view = zero.mmap(map(0, page_size())).unwrap();
        drop(zero);
        view.write(page_size() - 8, 9u64).unwrap();
        assert_eq!(view.read::<u64>(page_size() - 8), Ok(9));
        let null = HostFile::open("/dev/null").unwrap();
        let error = null.mmap(map(0, page_size())).unwrap_err();
        assert_eq!(error.fault, Fault::Errno(libc::ENODEV), "{error}");
    }

    #[test]
    fn a_file_is_waited_for() {
        // A terminal has nothing to read until somebody writes; a null device always has its end.
        let pty = HostFile::open("/dev/ptmx").unwrap();
        let start = std::time::Instant::now();
        assert_eq!(pty.poll(Duration::from_millis(20)), Ok(false));
        assert!(start.elapsed() >= Duration::from_millis(20));
        let null = HostFile::open("/dev/null").unwrap();
        assert_eq!(null.poll(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn an_ioctl_needs_its_bytes() {
        let null = HostFile::open("/dev/null").unwrap();
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
