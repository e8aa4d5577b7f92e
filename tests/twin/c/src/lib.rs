//! The C interface of twins, as `include/doorbell_twin.h` documents it: `libdoorbell_twin.so`.
//!
//! All `unsafe` of it is here and in `pci`. A C caller promises what the header says: pointers of this library, that
//! live; strings with a terminating zero; buffers of the given size. No panic crosses the boundary: one
//! is a bug of the twin, is printed, and is `-EFAULT` for the caller.

mod pci;

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use twin::errno::{Errno, Result};
use twin::process::{Calls, Process, Wanted};
use twin::rule::{Journal, Violation};

pub use pci::*;

/// A machine, as C holds it.
pub enum Twin {
    /// With GPUs of AMD.
    Amd(Arc<twin_amd::kernel::Machine>),
    /// With GPUs of NVIDIA.
    Nv(Arc<twin_nv::kernel::Machine>),
    /// With a GPU of Qualcomm.
    Qcom(Arc<twin_qcom::kernel::Machine>),
}

/// A process, as C holds it.
pub struct TwinProcess(Arc<dyn Calls>);

impl Twin {
    /// A machine of a config string: the chip says whose.
    fn new(config: &str) -> std::result::Result<Twin, String> {
        let mut keys = config.split(',').filter_map(|part| part.split_once('='));
        let chip = keys.find(|(key, _)| *key == "chip");
        let first = chip.and_then(|(_, chips)| chips.split('+').next());
        let nv = first.is_some_and(|chip| twin_nv::chip::Chip::by_name(chip).is_some());
        if nv {
            return twin_nv::kernel::Process::start(config).map(Twin::Nv);
        }
        if first.is_some_and(|chip| twin_qcom::chip::Chip::by_name(chip).is_some()) {
            return twin_qcom::kernel::Process::start(config).map(Twin::Qcom);
        }
        twin_amd::kernel::Process::start(config).map(Twin::Amd)
    }

    fn attach(&self) -> TwinProcess {
        match self {
            Twin::Amd(machine) => TwinProcess(twin_amd::kernel::Process::on(machine)),
            Twin::Nv(machine) => TwinProcess(twin_nv::kernel::Process::on(machine)),
            Twin::Qcom(machine) => TwinProcess(twin_qcom::kernel::Process::on(machine)),
        }
    }

    fn journal(&self) -> &Journal {
        match self {
            Twin::Amd(machine) => twin_amd::kernel::Process::journal(machine),
            Twin::Nv(machine) => twin_nv::kernel::Process::journal(machine),
            Twin::Qcom(machine) => twin_qcom::kernel::Process::journal(machine),
        }
    }
}

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
unsafe fn process<'a>(process: *const TwinProcess) -> Result<&'a dyn Calls> {
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
            Twin::new(text)
        },
    );
    match made {
        Ok(twin) => Box::into_raw(Box::new(twin)),
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
        Box::into_raw(Box::new(twin.attach()))
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

/// dup.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_dup(on: *const TwinProcess, fd: c_int) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        unsafe { process(on)? }.dup(fd)
    })
}

/// What the process has of the machine, a line each.
///
/// # Safety
/// As the header says: `text` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_objects(
    on: *const TwinProcess,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    let lines = guard(String::new(), || {
        // SAFETY: by the caller's promise.
        let objects = unsafe { process(on) }.map(|process| process.objects());
        let line = |one: &String| format!("{one}\n");
        objects.iter().flatten().map(line).collect()
    });
    // SAFETY: room, by the caller's promise.
    unsafe { copy_text(&lines, text, bytes) };
    lines.len()
}

/// Whether poll finds a file ready: 1 or 0.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_twin_ready(on: *const TwinProcess, fd: c_int) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        unsafe { process(on)? }.ready(fd).map(c_int::from)
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
            twin::host::user::write(data as u64, &text[..length])?;
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
                .list(fd)?
                .iter()
                .map(|name| format!("{name}\n"))
                .collect();
            twin::host::user::write(names as u64, &all.as_bytes()[..bytes.min(all.len())])?;
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
        let wanted = Wanted {
            address: address as u64,
            bytes: bytes as u64,
            protection,
            flags,
        };
        process.mmap(wanted, fd, offset as u64)
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
    twin.map_or(0, |twin| guard(0, || twin.journal().violations().len()))
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
    // SAFETY: room, by the caller's promise.
    unsafe { reports(twin.journal(), first, text, bytes) }
}

/// Copies reports of broken rules, and returns how long they all are.
///
/// # Safety
/// `text` is null or has room for `bytes` bytes.
unsafe fn reports(journal: &Journal, first: usize, text: *mut c_char, bytes: usize) -> usize {
    let reports = guard(String::new(), || {
        let all = journal.violations();
        let block = |violation: &Violation| format!("{violation}\n\n");
        all.iter().skip(first).map(block).collect()
    });
    // SAFETY: room, by the caller's promise.
    unsafe { copy_text(&reports, text, bytes) };
    reports.len()
}
