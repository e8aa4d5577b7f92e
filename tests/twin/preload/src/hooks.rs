//! The functions of libc that stand in for the real ones.
//!
//! Each looks whether what it is about belongs to devices ([`Session`]), and passes it on where it does
//! not. Variadic ones are declared with the arguments that they may have: where one is missing, what
//! stands in its register is not looked at.
//!
//! What the `unsafe` here relies on: callers keep what libc asks of them (strings end, buffers have room).
#![allow(unsafe_code)]
#![allow(missing_docs, clippy::missing_safety_doc)] // Those of libc, which its manual describes.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::driver::{Map, Result};
use crate::paths::placed;
use crate::session::{Session, begun, running, session};
use crate::system::{self, Inside, Next};

/// A result as libc returns it.
pub trait Returned {
    fn lost() -> Self;
}

macro_rules! lost {
    ($($ty:ty: $lost:expr;)*) => {$(
        impl Returned for $ty {
            fn lost() -> Self {
                $lost
            }
        }
    )*};
}

lost! {
    c_int: -1;
    isize: -1;
    *mut c_void: libc::MAP_FAILED;
}

pub fn returned<T: Returned>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(errno) => {
            system::set_errno(errno);
            T::lost()
        }
    }
}

/// Runs `ours` inside, if a session has begun and the thread is not inside.
pub fn inside<T>(ours: impl FnOnce(&Session) -> Option<T>) -> Option<T> {
    match begun() {
        true => with(running, ours),
        false => None,
    }
}

/// The same, and begins a session if the environment asks for one: a path may be the machine's.
pub fn begin<T>(ours: impl FnOnce(&Session) -> Option<T>) -> Option<T> {
    with(session, ours)
}

fn with<T>(
    find: fn() -> Option<&'static Session>,
    ours: impl FnOnce(&Session) -> Option<T>,
) -> Option<T> {
    let _inside = Inside::enter()?;
    let errno = system::errno();
    let done = ours(find()?);
    // What was asked on the way is not the caller's business.
    system::set_errno(errno);
    done
}

fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> Result<c_int> {
    // SAFETY: a string, by the caller's promise; not null there, or the system says so.
    let name = unsafe { path.as_ref() }.map(|path| unsafe { CStr::from_ptr(path) });
    let Some(name) = name else {
        return Err(libc::EFAULT);
    };
    if let Ok(text) = name.to_str() {
        let opened = match text.starts_with("/dev/") {
            true => begin(|session| session.open(text, flags)),
            false => inside(|session| session.open(&session.named(folder, text)?, flags)),
        };
        if let Some(opened) = opened {
            return opened;
        }
    }
    // SAFETY: as above.
    match unsafe { placed(path) } {
        Some(path) => system::open_at(libc::AT_FDCWD, &path, flags, mode),
        None => system::open_at(folder, name, flags, mode),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    returned(open_at(libc::AT_FDCWD, path, flags, mode))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    returned(open_at(libc::AT_FDCWD, path, flags, mode))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    returned(open_at(libc::AT_FDCWD, path, flags, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    returned(open_at(libc::AT_FDCWD, path, flags, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    returned(open_at(at, path, flags, mode))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    returned(open_at(at, path, flags, mode))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    returned(open_at(at, path, flags, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    returned(open_at(at, path, flags, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    inside(|session| {
        session.closing(fd);
        Some(())
    });
    returned(system::close(fd))
}

/// Notes what a new descriptor is another one of.
fn duplicate(from: c_int, made: Result<c_int>) -> c_int {
    if let Ok(to) = made
        && to != from
    {
        inside(|session| {
            session.duplicated(from, to);
            Some(())
        });
    }
    returned(made)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    duplicate(fd, system::dup(fd, None))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    duplicate(fd, system::dup(fd, Some((to, 0))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    duplicate(fd, system::dup(fd, Some((to, flags))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    let done = system::fcntl(fd, command, argument);
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicate(fd, done),
        _ => returned(done),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the same function.
    unsafe { fcntl(fd, command, argument) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let (request, argument) = (request as u32, argument as u64);
    let ours = inside(|session| session.ioctl(fd, request, argument));
    returned(ours.unwrap_or_else(|| system::ioctl(fd, request, argument)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, to: *mut c_void, bytes: usize) -> isize {
    let device = inside(|session| session.is_open(fd).then_some(()));
    returned(match device {
        // These files have no `read`.
        Some(()) => Err(libc::EINVAL),
        None => system::read(fd, to, bytes),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, bytes: usize) -> isize {
    let device = inside(|session| session.is_open(fd).then_some(()));
    returned(match device {
        Some(()) => Err(libc::EINVAL),
        None => system::write(fd, from, bytes),
    })
}

/// Maps memory of the host. The C library unmaps some by itself (a large `free`): no hook sees that. Where the system
/// gives such a place out again, nothing was mapped there any more, so devices have to forget it first; that takes the
/// new mapping away, too.
fn mapped_anew(fd: c_int, map: Map) -> Result<u64> {
    loop {
        let at = system::mmap(fd, map)?;
        let known = inside(|session| session.knows(at, map.bytes).then_some(()));
        if known.is_none() {
            return Ok(at);
        }
        match inside(|session| session.munmap(at, map.bytes)) {
            Some(Ok(true)) => {}
            Some(Err(errno)) => return Err(errno),
            Some(Ok(false)) | None => return Ok(at),
        }
    }
}

fn map(map: Map, fd: c_int) -> *mut c_void {
    let ours = inside(|session| session.mmap(fd, map));
    let at = ours.unwrap_or_else(|| {
        // Whatever was there is gone.
        if map.flags & libc::MAP_FIXED != 0 {
            inside(|session| session.munmap(map.at, map.bytes));
        }
        mapped_anew(fd, map)
    });
    returned(at.map(|at| at as *mut c_void))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let wanted = Map {
        at: at as u64,
        bytes: bytes as u64,
        protection,
        flags,
        offset: offset as u64,
    };
    map(wanted, fd)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off64_t,
) -> *mut c_void {
    // SAFETY: the same function.
    unsafe { mmap(at, bytes, protection, flags, fd, offset) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, bytes: usize) -> c_int {
    let (at, bytes) = (at as u64, bytes as u64);
    let ours = inside(|session| session.munmap(at, bytes));
    returned(match ours {
        Some(Ok(true)) => Ok(0),
        Some(Err(errno)) => Err(errno),
        Some(Ok(false)) | None => system::munmap(at, bytes),
    })
}

/// What a thread of the twin's own begins with.
struct Start {
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
}

extern "C" fn start_inside(start: *mut c_void) -> *mut c_void {
    // SAFETY: made by `pthread_create` below, for this call.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    Inside::stay();
    (start.run)(start.argument)
}

/// Threads that are started inside are inside.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Real = unsafe extern "C" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        extern "C" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    static NEXT: Next = Next::new(c"pthread_create");
    // SAFETY: libc's function of that name has this type.
    let real: Real = unsafe { std::mem::transmute(NEXT.address()) };
    if !Inside::is() {
        // SAFETY: what the caller handed over, by the caller's promise.
        return unsafe { real(thread, attributes, run, argument) };
    }
    let start = Box::into_raw(Box::new(Start { run, argument }));
    // SAFETY: as above; the thread takes `start`.
    let started = unsafe { real(thread, attributes, start_inside, start.cast()) };
    if started != 0 {
        // SAFETY: no thread has taken it.
        drop(unsafe { Box::from_raw(start) });
    }
    started
}

/// The last that runs of this library: after what others of the process do at its end.
/// For programs that are recorded: they have come to a place that has a name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_mark(name: *const c_char) {
    // SAFETY: a string, as callers promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    inside(|session| {
        session.mark(&name);
        Some(())
    });
}

extern "C" fn at_the_end() {
    crate::end::end();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = at_the_end;
