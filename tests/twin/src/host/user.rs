//! Memory of the client, as the kernel reads and writes it: a bad pointer is `EFAULT`, not a crash.
//!
//! The client lives in this process, or in another one, and its pointers are not trusted: the system copies
//! through `process_vm_readv` and `process_vm_writev`, which fail where nothing is mapped. Where these two are
//! missing (QEMU's user mode has none, containers may forbid them), memory of this process goes through a pipe,
//! whose ends fail the same way.

use std::io;
use std::os::fd::AsRawFd;

use crate::errno::{Errno, Result};

/// The end of the addresses that a process gets without asking for more: 47 bits on x86-64, 48 on arm64.
const LIMIT: u64 = match cfg!(target_arch = "aarch64") {
    true => 1 << 48,
    false => 0x7fff_ffff_f000,
};

/// The kernel's `access_ok`: the range lies among the addresses of a process.
pub fn accessible(address: u64, bytes: u64) -> bool {
    address.checked_add(bytes).is_some_and(|end| end <= LIMIT)
}

/// Reads; all or `EFAULT`.
pub fn read(address: u64, out: &mut [u8]) -> Result {
    read_of(std::process::id(), address, out)
}

/// Reads from a process; all or `EFAULT`.
pub fn read_of(pid: u32, address: u64, out: &mut [u8]) -> Result {
    let (at, bytes) = (out.as_mut_ptr(), out.len());
    let direct = |remote: *const libc::iovec| {
        let local = iovec(at, bytes);
        // SAFETY: `local` is `out`, which is ours; the system checks `remote`.
        unsafe { libc::process_vm_readv(pid as i32, &raw const local, 1, remote, 1, 0) }
    };
    let piped = || piped(address as *const u8, at, bytes);
    copy(pid, address, bytes, direct, piped)
}

/// Writes; all or `EFAULT`.
pub fn write(address: u64, data: &[u8]) -> Result {
    write_of(std::process::id(), address, data)
}

/// Writes into a process; all or `EFAULT`.
pub fn write_of(pid: u32, address: u64, data: &[u8]) -> Result {
    let (at, bytes) = (data.as_ptr(), data.len());
    let direct = |remote: *const libc::iovec| {
        let local = iovec(at.cast_mut(), bytes);
        // SAFETY: `local` is `data`, which is only read; the system checks `remote`, which the client
        // gave for this: it is memory of the client's own.
        unsafe { libc::process_vm_writev(pid as i32, &raw const local, 1, remote, 1, 0) }
    };
    let piped = || piped(at, address as *mut u8, bytes);
    copy(pid, address, bytes, direct, piped)
}

fn iovec(at: *mut u8, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: at.cast(),
        iov_len: bytes,
    }
}

fn copy(
    pid: u32,
    address: u64,
    bytes: usize,
    direct: impl FnOnce(*const libc::iovec) -> isize,
    piped: impl FnOnce() -> io::Result<()>,
) -> Result {
    if bytes == 0 {
        return Ok(());
    }
    if !accessible(address, bytes as u64) {
        return Err(Errno::EFAULT);
    }
    let remote = iovec(address as *mut u8, bytes);
    let done = usize::try_from(direct(&raw const remote)) == Ok(bytes);
    let is_missing = !done && matches!(last(), Errno::ENOSYS | Errno::EPERM);
    let ours = pid == std::process::id();
    if done || is_missing && ours && piped().is_ok() {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Copies memory of this process through a pipe.
fn piped(from: *const u8, to: *mut u8, bytes: usize) -> io::Result<()> {
    // As much as every pipe takes at once.
    const PIECE: usize = 4096;
    let (reader, writer) = io::pipe()?;
    for at in (0..bytes).step_by(PIECE) {
        let piece = PIECE.min(bytes - at);
        let (from, to) = (from.wrapping_add(at).cast(), to.wrapping_add(at).cast());
        // SAFETY: the system checks both addresses. One of them is of the caller's own slice, and the other one
        // memory that the client gave for this.
        let (put, got) = unsafe {
            let put = libc::write(writer.as_raw_fd(), from, piece);
            if put != piece as isize {
                return Err(io::Error::last_os_error());
            }
            (put, libc::read(reader.as_raw_fd(), to, piece))
        };
        if got != put {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Gives the client's own memory back to the system.
///
/// # Errors
/// What the system says.
pub fn munmap(address: u64, bytes: usize) -> Result {
    // SAFETY: the client asks for it, for its own memory or for what the twin mapped for it; the twin
    // itself uses mappings of its own.
    if unsafe { libc::munmap(address as *mut libc::c_void, bytes) } == 0 {
        Ok(())
    } else {
        Err(last())
    }
}

fn last() -> Errno {
    Errno(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    )
}

/// A clock of the system in ns.
pub fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `time`.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Whether there is a process with that number.
pub fn process_exists(pid: u32) -> bool {
    let pid = pid as libc::pid_t;
    // SAFETY: signal 0 is not delivered; the call only says whether it could be.
    let result = unsafe { libc::kill(pid, 0) };
    pid > 0 && (result == 0 || last() == Errno::EPERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_pointers_are_efault() {
        let value = 0x1234_5678_u64.to_ne_bytes();
        let address = value.as_ptr() as u64;
        let mut seen = [0; 8];
        assert_eq!(read(address, &mut seen), Ok(()));
        assert_eq!(seen, value);
        for bad in [0, 8, u64::MAX, LIMIT - 4, 0x8000_0000_0000] {
            assert_eq!(read(bad, &mut seen), Err(Errno::EFAULT), "{bad:#x}");
            assert_eq!(write(bad, &seen), Err(Errno::EFAULT), "{bad:#x}");
        }
        assert_eq!(read(8, &mut []), Ok(()));
        assert_eq!(read_of(u32::MAX, address, &mut seen), Err(Errno::EFAULT));
    }

    #[test]
    fn a_pipe_copies_as_much_and_refuses_as_much() {
        let from: Vec<u8> = (0..10_000).map(|i| i as u8).collect();
        let mut to = vec![0; from.len()];
        piped(from.as_ptr(), to.as_mut_ptr(), from.len()).unwrap();
        assert_eq!(from, to);
        let nowhere = 8 as *mut u8;
        for (from, to) in [
            (nowhere.cast_const(), to.as_mut_ptr()),
            (from.as_ptr(), nowhere),
        ] {
            let error = piped(from, to, 8).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        }
    }
}
