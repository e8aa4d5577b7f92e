//! Functions of libc that stand in for the real ones in this program: files of VFIO are those of a model of a kernel.
//!
//! The crate `pci-driver` lets nobody else implement its devices, and makes its system calls by itself. So its own code runs
//! here, down to the calls. Variadic functions are declared with the arguments that they may have. Descriptors of the
//! model begin where a test has none.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq::mem::view::View;
use hcq::transport::{Map, Prot};
use twin::errno::Result;
use twin::vfio::Kernel;

/// The first descriptor of the model.
const FIRST: c_int = 100;

static STATE: Mutex<Option<State>> = Mutex::new(None);

struct State {
    kernel: Arc<Kernel>,
    /// What is mapped, by its address.
    maps: BTreeMap<usize, View>,
    /// What eventfds count that were polled.
    counts: BTreeMap<c_int, u64>,
}

/// From now on, `/dev/vfio` is that of this kernel.
pub fn install(kernel: &Arc<Kernel>) {
    *STATE.lock().unwrap() = Some(State {
        kernel: kernel.clone(),
        maps: BTreeMap::new(),
        counts: BTreeMap::new(),
    });
}

/// The kernel, and nothing locked: what it does may come here again.
fn kernel() -> Option<Arc<Kernel>> {
    STATE
        .lock()
        .ok()?
        .as_ref()
        .map(|state| state.kernel.clone())
}

/// The kernel, for a descriptor of its own.
fn of(fd: c_int) -> Option<Arc<Kernel>> {
    if fd < FIRST { None } else { kernel() }
}

fn state<T>(with: impl FnOnce(&mut State) -> T) -> Option<T> {
    STATE.lock().ok()?.as_mut().map(with)
}

/// A result as libc returns it.
fn returned<T: Into<i64>>(result: Result<T>) -> i64 {
    match result {
        Ok(value) => value.into(),
        Err(errno) => {
            // SAFETY: the address is this thread's own.
            unsafe { *libc::__errno_location() = errno.0 };
            -1
        }
    }
}

fn open_at(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: a string, by the caller's promise.
    let name = unsafe { CStr::from_ptr(path) }.to_str().unwrap_or_default();
    if name.starts_with("/dev/vfio/")
        && let Some(kernel) = kernel()
    {
        return returned(kernel.open(name)) as c_int;
    }
    // SAFETY: the call as it was made.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) };
    assert!(fd < FIRST.into(), "a test with so many files");
    fd as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    open_at(path, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    match of(fd) {
        Some(kernel) => returned(kernel.close(fd).map(|()| 0)) as c_int,
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_close, fd) as c_int },
    }
}

/// The standard library asks before it closes a descriptor whether it is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, what: c_int, argument: c_ulong) -> c_int {
    match of(fd) {
        Some(_) => libc::FD_CLOEXEC,
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_fcntl, fd, what, argument) as c_int },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    match of(fd) {
        Some(kernel) => returned(kernel.ioctl(fd, request as u32, argument)) as c_int,
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) as c_int },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, to: *mut c_void, bytes: usize, at: i64) -> isize {
    match of(fd) {
        Some(kernel) => {
            // SAFETY: room for so many bytes, by the caller's promise.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast(), bytes) };
            let read = kernel.read_at(fd, to, at as u64);
            returned(read.map(|count| count as i64)) as isize
        }
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_pread64, fd, to, bytes, at) as isize },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, bytes: usize, at: i64) -> isize {
    match of(fd) {
        Some(kernel) => {
            // SAFETY: so many bytes, by the caller's promise.
            let from = unsafe { std::slice::from_raw_parts(from.cast(), bytes) };
            let written = kernel.write_at(fd, from, at as u64);
            returned(written.map(|count| count as i64)) as isize
        }
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, bytes, at) as isize },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    let Some(kernel) = of(fd) else {
        // SAFETY: the call as it was made.
        let at = unsafe { libc::syscall(libc::SYS_mmap, at, bytes, prot, flags, fd, offset) };
        return at as *mut c_void;
    };
    let map = Map {
        offset: offset as u64,
        len: bytes,
        prot: Prot::ReadWrite,
        at: None,
    };
    let mapped = kernel.map(fd, map).map(|view| {
        let at = view.as_ptr().addr();
        state(|state| state.maps.insert(at, view));
        at as i64
    });
    returned(mapped) as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, bytes: usize) -> c_int {
    // The view is dropped with nothing locked: its memory may be unmapped here.
    let view = state(|state| state.maps.remove(&at.addr())).flatten();
    match view {
        Some(view) => {
            drop(view);
            0
        }
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_munmap, at, bytes) as c_int },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd(count: c_uint, flags: c_int) -> c_int {
    match kernel() {
        Some(kernel) => kernel.event(),
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_eventfd2, count, flags) as c_int },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(files: *mut libc::pollfd, count: libc::nfds_t, limit: c_int) -> c_int {
    // SAFETY: so many, by the caller's promise.
    let all = unsafe { std::slice::from_raw_parts_mut(files, count as usize) };
    let only = all.first().filter(|_| count == 1).map(|file| file.fd);
    let Some((fd, kernel)) = only.and_then(|fd| Some((fd, of(fd)?))) else {
        let limit = libc::timespec {
            tv_sec: (limit / 1000).into(),
            tv_nsec: i64::from(limit % 1000) * 1_000_000,
        };
        let limit = if limit.tv_sec < 0 || limit.tv_nsec < 0 {
            std::ptr::null()
        } else {
            &raw const limit
        };
        // SAFETY: as it was made; the last two arguments are no set of signals.
        let done = unsafe { libc::syscall(libc::SYS_ppoll, files, count, limit, 0usize, 0usize) };
        return done as c_int;
    };
    let limit = Duration::from_millis(limit.max(0) as u64);
    let came = kernel.wait(fd, limit).map(|count| match count {
        Some(count) => {
            state(|state| *state.counts.entry(fd).or_default() += count);
            all[0].revents = libc::POLLIN;
            1
        }
        None => 0,
    });
    returned(came) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, to: *mut c_void, bytes: usize) -> isize {
    match state(|state| state.counts.remove(&fd)).flatten() {
        Some(count) => {
            assert_eq!(bytes, size_of::<u64>());
            // SAFETY: room for so many bytes, by the caller's promise.
            unsafe { to.cast::<u64>().write_unaligned(count) };
            bytes as isize
        }
        // SAFETY: the call as it was made.
        None => unsafe { libc::syscall(libc::SYS_read, fd, to, bytes) as isize },
    }
}
