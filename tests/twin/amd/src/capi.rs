//! The C interface, as `include/doorbell_twin.h` documents it.
//!
//! All `unsafe` of it is here. A C caller promises what the header says: pointers of this library, that
//! live; strings with a terminating zero; buffers of the given size. No panic crosses the boundary: one
//! is a bug of the twin, is printed, and is `-EFAULT` for the caller.

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use twin::rule::Violation;

use crate::config::Config;
use crate::kernel::errno::{Errno, Result};
use crate::kernel::{Machine, Process};

/// A machine, as C holds it.
pub struct Twin(Arc<Machine>);

/// A process, as C holds it.
pub struct TwinProcess(Arc<Process>);

/// Runs `call`; what it panics with is printed, and `lost` is returned.
fn guard<T>(lost: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a text");
        eprintln!("doorbell_twin: a bug of the twin itself: {text}");
        lost
    })
}

/// 0 or more, or a negative errno.
fn int(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|errno| -errno.0)
}

fn system_call(call: impl FnOnce() -> Result<c_int>) -> c_int {
    guard(-libc::EFAULT, || int(call()))
}

/// # Safety
/// `text` is null or a string with a terminating zero.
unsafe fn string<'a>(text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: not null, so a string, by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Errno::ENOENT)
}

/// # Safety
/// `process` is null or comes from `doorbell_twin_attach` and has not been detached.
unsafe fn process<'a>(process: *const TwinProcess) -> Result<&'a Process> {
    // SAFETY: by the caller's promise.
    unsafe { process.as_ref() }
        .map(|process| &*process.0)
        .ok_or(Errno::EFAULT)
}

/// Copies a text with a terminating zero, as much as fits.
///
/// # Safety
/// `to` is null or has room for `bytes` bytes.
unsafe fn copy_text(text: &str, to: *mut c_char, bytes: usize) {
    if to.is_null() || bytes == 0 {
        return;
    }
    let length = text.len().min(bytes - 1);
    // SAFETY: `length` bytes and a zero fit, by the caller's promise; the source is ours.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        *to.add(length) = 0;
    }
}

/// Makes a machine.
///
/// # Safety
/// As the header says: `config` is a string, `error` has room for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_new(
    config: *const c_char,
    error: *mut c_char,
    error_bytes: usize,
) -> *mut Twin {
    let made = guard(
        Err("a bug of the twin itself".into()),
        || -> std::result::Result<_, String> {
            let text = if config.is_null() {
                Ok("")
            } else {
                // SAFETY: a string, by the caller's promise.
                unsafe { string(config) }
            };
            let text = text.map_err(|_| "the config string is not UTF-8")?;
            let config = Config::parse(text).map_err(|e| e.to_string())?;
            Machine::new(config).map_err(|e| e.to_string())
        },
    );
    match made {
        Ok(machine) => Box::into_raw(Box::new(Twin(machine))),
        Err(text) => {
            // SAFETY: room, by the caller's promise.
            unsafe { copy_text(&text, error, error_bytes) };
            std::ptr::null_mut()
        }
    }
}

/// Ends a machine.
///
/// # Safety
/// `twin` is null or comes from `doorbell_twin_new`; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_free(twin: *mut Twin) {
    if !twin.is_null() {
        // SAFETY: made by `doorbell_twin_new`, and given back once.
        let twin = unsafe { Box::from_raw(twin) };
        guard((), || drop(twin));
    }
}

/// A process of the machine.
///
/// # Safety
/// `twin` is null or comes from `doorbell_twin_new` and lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_attach(twin: *const Twin) -> *mut TwinProcess {
    // SAFETY: by the caller's promise.
    let Some(twin) = (unsafe { twin.as_ref() }) else {
        return std::ptr::null_mut();
    };
    guard(std::ptr::null_mut(), || {
        Box::into_raw(Box::new(TwinProcess(twin.0.attach())))
    })
}

/// Ends a process.
///
/// # Safety
/// `process` is null or comes from `doorbell_twin_attach`; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_detach(process: *mut TwinProcess) {
    if !process.is_null() {
        // SAFETY: made by `doorbell_twin_attach`, and given back once.
        let process = unsafe { Box::from_raw(process) };
        guard((), || process.0.exit());
    }
}

/// Whether the machine has that file: 1 or 0.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_exists(
    on: *const TwinProcess,
    path: *const c_char,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let (process, path) = unsafe { (process(on)?, string(path)?) };
        Ok(process.exists(path).into())
    })
}

/// open.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_open(
    on: *const TwinProcess,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let (process, path) = unsafe { (process(on)?, string(path)?) };
        process.open(path, flags)
    })
}

/// close.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_close(on: *const TwinProcess, fd: c_int) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        unsafe { process(on)? }.close(fd).map(|()| 0)
    })
}

/// pread.
///
/// # Safety
/// As the header says: `data` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_read(
    on: *const TwinProcess,
    fd: c_int,
    data: *mut c_void,
    bytes: usize,
    offset: c_long,
) -> isize {
    guard(-(libc::EFAULT as isize), || {
        let read = || -> Result<isize> {
            let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
            // No file is longer, and no buffer of the client needs to be trusted.
            let mut text = vec![0; bytes.min(1 << 20)];
            // SAFETY: by the caller's promise.
            let length = unsafe { process(on)? }.read(fd, offset, &mut text)?;
            crate::kernel::user::write(data as u64, &text[..length])?;
            Ok(length as isize)
        };
        read().unwrap_or_else(|errno| -(errno.0 as isize))
    })
}

/// The names in a folder.
///
/// # Safety
/// As the header says: `names` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_readdir(
    on: *const TwinProcess,
    fd: c_int,
    names: *mut c_char,
    bytes: usize,
) -> isize {
    guard(-(libc::EFAULT as isize), || {
        let read = || -> Result<isize> {
            // SAFETY: by the caller's promise.
            let all: String = unsafe { process(on)? }
                .readdir(fd)?
                .iter()
                .map(|name| format!("{name}\n"))
                .collect();
            crate::kernel::user::write(names as u64, &all.as_bytes()[..bytes.min(all.len())])?;
            Ok(all.len() as isize)
        };
        read().unwrap_or_else(|errno| -(errno.0 as isize))
    })
}

/// ioctl.
///
/// # Safety
/// As the header says. `argument` is checked as the kernel checks it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_ioctl(
    on: *const TwinProcess,
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise. The kernel takes 32 bits of the request.
        unsafe { process(on)? }
            .ioctl(fd, request as u32, argument as u64)
            .map(|()| 0)
    })
}

/// mmap. An errno is returned negative, as a pointer.
///
/// # Safety
/// As the header says. As with the system's mmap, MAP_FIXED replaces what is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_mmap(
    on: *const TwinProcess,
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    let result = guard(Err(Errno::EFAULT), || {
        // SAFETY: by the caller's promise.
        let process = unsafe { process(on)? };
        process.mmap(
            address as u64,
            bytes as u64,
            protection,
            flags,
            fd,
            offset as u64,
        )
    });
    match result {
        Ok(at) => at as *mut c_void,
        Err(errno) => -(errno.0 as isize) as *mut c_void,
    }
}

/// munmap.
///
/// # Safety
/// As the header says: the memory is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_munmap(
    on: *const TwinProcess,
    address: *mut c_void,
    bytes: usize,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        unsafe { process(on)? }
            .munmap(address as u64, bytes as u64)
            .map(|()| 0)
    })
}

/// How many rules have been broken.
///
/// # Safety
/// `twin` is null or comes from `doorbell_twin_new` and lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_broken(twin: *const Twin) -> usize {
    // SAFETY: by the caller's promise.
    let twin = unsafe { twin.as_ref() };
    twin.map_or(0, |twin| guard(0, || twin.0.journal.violations().len()))
}

/// The reports, from number `first` on.
///
/// # Safety
/// As the header says: `text` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_report(
    twin: *const Twin,
    first: usize,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: by the caller's promise.
    let Some(twin) = (unsafe { twin.as_ref() }) else {
        return 0;
    };
    let reports = guard(String::new(), || {
        let all = twin.0.journal.violations();
        let block = |violation: &Violation| format!("{violation}\n\n");
        all.iter().skip(first).map(block).collect()
    });
    // SAFETY: room, by the caller's promise.
    unsafe { copy_text(&reports, text, bytes) };
    reports.len()
}
