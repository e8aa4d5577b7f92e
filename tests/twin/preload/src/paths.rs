//! The functions of libc that have paths: what belongs to the machine lies elsewhere on the host.
//!
//! What the `unsafe` here relies on is what [`crate::hooks`] says.
#![allow(unsafe_code)]
#![allow(missing_docs, clippy::missing_safety_doc)] // Those of libc, which its manual describes.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use crate::hooks::{begin, inside, returned};
use crate::system::{self, Next};

/// The path that the host is asked for instead; the same where that is the host's own business.
///
/// # Safety
/// `path` is null or a string.
pub unsafe fn placed(path: *const c_char) -> Option<CString> {
    // What most paths are: no file of devices begins like this. Nothing is set up for them.
    const FIRST: [&[u8]; 3] = [b"/dev/", b"/proc/", b"/sys/"];
    if path.is_null() {
        return None;
    }
    // SAFETY: a string, by the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let bytes = path.to_bytes();
    if !FIRST.iter().any(|first| bytes.starts_with(first)) && !bytes.starts_with(b"//") {
        return None;
    }
    let path = path.to_str().ok()?;
    begin(|session| session.on_host(path))
}

/// The numbers of a device of the machine that a call like `stat` was about.
fn device(folder: c_int, path: *const c_char, placed: bool) -> Option<(u32, u32)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: a string, or the system had refused it.
    let name = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    inside(|session| match name {
        "" => session.device_of(folder),
        name if placed => session.device(name),
        name => session.device(&session.named(folder, name)?),
    })
}

fn stat_at(folder: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) -> c_int {
    // SAFETY: null or a string, by the caller's promise.
    let placed = unsafe { placed(path) };
    let done = match &placed {
        Some(path) => system::stat_at(libc::AT_FDCWD, path.as_ptr(), to, flags),
        None => system::stat_at(folder, path, to, flags),
    };
    if done.is_ok()
        && let Some(numbers) = device(folder, path, placed.is_some())
    {
        // SAFETY: just filled.
        unsafe { system::make_device(to, numbers) };
    }
    returned(done)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    // SAFETY: null or a string, by the caller's promise.
    let placed = unsafe { placed(path) };
    let done = match &placed {
        Some(path) => system::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, to),
        None => system::statx(folder, path, flags, mask, to),
    };
    if done.is_ok()
        && let Some(numbers) = device(folder, path, placed.is_some())
    {
        // SAFETY: just filled.
        unsafe { system::make_device_x(to, numbers) };
    }
    returned(done)
}

/// The family of `stat`, with and without a version of the struct: there is one on 64-bit systems.
macro_rules! stat {
    ($($name:ident $(, $version:ident)?: $flags:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($version: c_int,)?
            path: *const c_char,
            to: *mut libc::stat,
        ) -> c_int {
            stat_at(libc::AT_FDCWD, path, to, $flags)
        }
    )*};
}

stat! {
    stat: 0;
    stat64: 0;
    lstat: libc::AT_SYMLINK_NOFOLLOW;
    lstat64: libc::AT_SYMLINK_NOFOLLOW;
    __xstat, _version: 0;
    __xstat64, _version: 0;
    __lxstat, _version: libc::AT_SYMLINK_NOFOLLOW;
    __lxstat64, _version: libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! fstat {
    ($($name:ident $(, $version:ident)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($version: c_int,)?
            fd: c_int,
            to: *mut libc::stat,
        ) -> c_int {
            stat_at(fd, c"".as_ptr(), to, libc::AT_EMPTY_PATH)
        }
    )*};
}

fstat! {
    fstat;
    fstat64;
    __fxstat, _version;
    __fxstat64, _version;
}

macro_rules! fstatat {
    ($($name:ident $(, $version:ident)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($version: c_int,)?
            folder: c_int,
            path: *const c_char,
            to: *mut libc::stat,
            flags: c_int,
        ) -> c_int {
            stat_at(folder, path, to, flags)
        }
    )*};
}

fstatat! {
    fstatat;
    fstatat64;
    __fxstatat, _version;
    __fxstatat64, _version;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let placed = unsafe { placed(path) };
    returned(match placed {
        Some(path) => system::access(libc::AT_FDCWD, &path, mode),
        None if path.is_null() => Err(libc::EFAULT),
        // SAFETY: not null, so a string.
        None => system::access(libc::AT_FDCWD, unsafe { CStr::from_ptr(path) }, mode),
    })
}

/// # Safety
/// `path` is null or a string, `to` has room for `bytes`.
unsafe fn read_link(folder: c_int, path: *const c_char, to: *mut c_char, bytes: usize) -> isize {
    // SAFETY: by the caller's promise.
    let placed = unsafe { placed(path) };
    returned(match placed {
        Some(path) => system::readlink(libc::AT_FDCWD, path.as_ptr(), to, bytes),
        None => system::readlink(folder, path, to, bytes),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, bytes: usize) -> isize {
    // SAFETY: what the caller handed over, by the caller's promise; so below.
    unsafe { read_link(libc::AT_FDCWD, path, to, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(
    folder: c_int,
    path: *const c_char,
    to: *mut c_char,
    bytes: usize,
) -> isize {
    // SAFETY: as above.
    unsafe { read_link(folder, path, to, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    to: *mut c_char,
    bytes: usize,
    _: usize,
) -> isize {
    // SAFETY: as above.
    unsafe { read_link(libc::AT_FDCWD, path, to, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(
    folder: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *const c_char, c_int, c_int) -> c_int;
    static NEXT: Next = Next::new(c"faccessat");
    // SAFETY: libc's function of that name has this type.
    let real: Real = unsafe { std::mem::transmute(NEXT.address()) };
    // SAFETY: what the caller handed over, by the caller's promise.
    unsafe {
        match placed(path) {
            Some(path) => real(folder, path.as_ptr(), mode, flags),
            None => real(folder, path, mode, flags),
        }
    }
}

/// A path that the system has told, as the machine has it: without the folder in which that lies.
///
/// # Safety
/// `told` is null or a string that may be written.
unsafe fn as_the_machine_has_it(told: *mut c_char) -> *mut c_char {
    if told.is_null() {
        return told;
    }
    // SAFETY: a string, by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(told) }.to_bytes_with_nul();
    let above = inside(|session| session.above(&bytes[..bytes.len() - 1]));
    if let Some(above) = above {
        // SAFETY: the rest of the string, and the zero behind it, a little earlier.
        unsafe { std::ptr::copy(told.add(above), told, bytes.len() - above) };
    }
    told
}

/// Functions of libc that get another path, and nothing else: name, what comes behind the path, what they
/// return.
macro_rules! elsewhere {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $out:ty;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char $(, $argument: $ty)*) -> $out {
            type Real = unsafe extern "C" fn(*const c_char $(, $ty)*) -> $out;
            static NEXT: Next = Next::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                },
            );
            // SAFETY: libc's function of that name has this type.
            let real: Real = unsafe { std::mem::transmute(NEXT.address()) };
            // SAFETY: what the caller handed over, by the caller's promise.
            unsafe {
                match placed(path) {
                    Some(path) => real(path.as_ptr() $(, $argument)*),
                    None => real(path $(, $argument)*),
                }
            }
        }
    )*};
}

elsewhere! {
    fopen(mode: *const c_char) -> *mut c_void;
    fopen64(mode: *const c_char) -> *mut c_void;
    freopen(mode: *const c_char, file: *mut c_void) -> *mut c_void;
    freopen64(mode: *const c_char, file: *mut c_void) -> *mut c_void;
    chdir() -> c_int;
    eaccess(mode: c_int) -> c_int;
    euidaccess(mode: c_int) -> c_int;
    opendir() -> *mut c_void;
    scandir(list: *mut c_void, filter: *const c_void, compare: *const c_void) -> c_int;
    scandir64(list: *mut c_void, filter: *const c_void, compare: *const c_void) -> c_int;
    nftw(call: *const c_void, open: c_int, flags: c_int) -> c_int;
    chmod(mode: libc::mode_t) -> c_int;
    chown(user: libc::uid_t, group: libc::gid_t) -> c_int;
    unlink() -> c_int;
    mkdir(mode: libc::mode_t) -> c_int;
    mknod(mode: libc::mode_t, device: libc::dev_t) -> c_int;
    getxattr(name: *const c_char, to: *mut c_void, bytes: usize) -> isize;
    lgetxattr(name: *const c_char, to: *mut c_void, bytes: usize) -> isize;
    listxattr(to: *mut c_char, bytes: usize) -> isize;
    llistxattr(to: *mut c_char, bytes: usize) -> isize;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __xmknod(
    version: c_int,
    path: *const c_char,
    mode: libc::mode_t,
    device: *mut libc::dev_t,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *const c_char, libc::mode_t, *mut libc::dev_t) -> c_int;
    static NEXT: Next = Next::new(c"__xmknod");
    // SAFETY: libc's function of that name has this type.
    let real: Real = unsafe { std::mem::transmute(NEXT.address()) };
    // SAFETY: what the caller handed over, by the caller's promise.
    unsafe {
        match placed(path) {
            Some(path) => real(version, path.as_ptr(), mode, device),
            None => real(version, path, mode, device),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn symlink(to: *const c_char, path: *const c_char) -> c_int {
    type Real = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;
    static NEXT: Next = Next::new(c"symlink");
    // SAFETY: libc's function of that name has this type.
    let real: Real = unsafe { std::mem::transmute(NEXT.address()) };
    // SAFETY: what the caller handed over, by the caller's promise.
    unsafe {
        match placed(path) {
            Some(path) => real(to, path.as_ptr()),
            None => real(to, path),
        }
    }
}

/// Functions of libc that tell a path: name, what comes behind the path that they get.
macro_rules! told {
    ($($name:ident($($argument:ident: $ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char $(, $argument: $ty)*) -> *mut c_char {
            type Real = unsafe extern "C" fn(*const c_char $(, $ty)*) -> *mut c_char;
            static NEXT: Next = Next::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!(),
                },
            );
            // SAFETY: libc's function of that name has this type.
            let real: Real = unsafe { std::mem::transmute(NEXT.address()) };
            // SAFETY: what the caller handed over, by the caller's promise.
            unsafe {
                as_the_machine_has_it(match placed(path) {
                    Some(path) => real(path.as_ptr() $(, $argument)*),
                    None => real(path $(, $argument)*),
                })
            }
        }
    )*};
}

told! {
    realpath(to: *mut c_char);
    __realpath_chk(to: *mut c_char, bytes: usize);
    canonicalize_file_name();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(to: *mut c_char, bytes: usize) -> *mut c_char {
    type Real = unsafe extern "C" fn(*mut c_char, usize) -> *mut c_char;
    static NEXT: Next = Next::new(c"getcwd");
    // SAFETY: libc's function of that name has this type, and what the caller handed over.
    unsafe {
        let real: Real = std::mem::transmute(NEXT.address());
        as_the_machine_has_it(real(to, bytes))
    }
}
