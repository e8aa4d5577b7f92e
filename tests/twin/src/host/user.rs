//! Memory of the client, as the kernel reads and writes it: a bad pointer is `EFAULT`, not a crash.
//!
//! The client lives in this process, or in another one, and its pointers are not trusted: the system copies
//! through `process_vm_readv` and `process_vm_writev`, which fail where nothing is mapped.

use crate::errno::{Errno, Result};

/// The end of the addresses of a process (x86-64 and arm64 with 47 bits or more).
const LIMIT: u64 = 0x7fff_ffff_f000;

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
    let bytes = out.len();
    copy(address, bytes, |remote| {
        let local = libc::iovec {
            iov_base: out.as_mut_ptr().cast(),
            iov_len: bytes,
        };
        // SAFETY: `local` is `out`, which is ours; the system checks `remote`.
        unsafe { libc::process_vm_readv(pid as i32, &raw const local, 1, remote, 1, 0) }
    })
}

/// Writes; all or `EFAULT`.
pub fn write(address: u64, data: &[u8]) -> Result {
    write_of(std::process::id(), address, data)
}

/// Writes into a process; all or `EFAULT`.
pub fn write_of(pid: u32, address: u64, data: &[u8]) -> Result {
    copy(address, data.len(), |remote| {
        let local = libc::iovec {
            iov_base: data.as_ptr().cast_mut().cast(),
            iov_len: data.len(),
        };
        // SAFETY: `local` is `data`, which is only read; the system checks `remote`, which the client
        // gave for this: it is memory of the client's own.
        unsafe { libc::process_vm_writev(pid as i32, &raw const local, 1, remote, 1, 0) }
    })
}

fn copy(address: u64, bytes: usize, call: impl FnOnce(*const libc::iovec) -> isize) -> Result {
    if bytes == 0 {
        return Ok(());
    }
    if !accessible(address, bytes as u64) {
        return Err(Errno::EFAULT);
    }
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: bytes,
    };
    if usize::try_from(call(&raw const remote)) == Ok(bytes) {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
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
}
