//! The system, past the hooks: system calls themselves, and the functions of libc that a hook stands in
//! for.
//!
//! What the `unsafe` here relies on: a system call checks the addresses that it is handed, and what it
//! writes goes where the caller of a hook asked for it, or into memory of this file; functions of libc are
//! looked up by the name that goes with their type.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::driver::{Map, Result};

/// What a system call with these arguments returned.
macro_rules! call {
    ($number:ident $(, $argument:expr)*) => {{
        // SAFETY: see the front page.
        let result = unsafe { libc::syscall(libc::$number $(, $argument)*) };
        match result {
            -1 => Err(errno()),
            result => Ok(result),
        }
    }};
}

/// The calling thread's errno.
pub fn errno() -> i32 {
    // SAFETY: libc gives the address of a variable of this thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub fn set_errno(errno: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is inside until this is dropped: hooks pass its calls through.
pub struct Inside(());

impl Inside {
    /// Marks the thread; none where it has the mark.
    pub fn enter() -> Option<Inside> {
        let before = INSIDE.try_with(|inside| inside.replace(true));
        // A thread that ends has no such variables any more, and no business with devices.
        before.is_ok_and(|before| !before).then(|| Inside(()))
    }

    /// Whether the thread has the mark.
    pub fn is() -> bool {
        INSIDE.try_with(Cell::get).unwrap_or(true)
    }

    /// The mark stays as long as the thread.
    pub fn stay() {
        let _ = INSIDE.try_with(|inside| inside.set(true));
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

/// The path as C has it.
pub fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::ENOENT)
}

/// Opens a file of the host.
///
/// # Errors
/// An errno.
pub fn open(path: &str, flags: i32) -> Result<i32> {
    let path = c_path(Path::new(path))?;
    open_at(libc::AT_FDCWD, &path, flags, 0)
}

/// Opens a file of the host.
///
/// # Errors
/// An errno.
pub fn open_at(folder: i32, path: &CStr, flags: i32, mode: u32) -> Result<i32> {
    let fd = call!(SYS_openat, folder, path.as_ptr(), flags, mode)?;
    Ok(fd as i32)
}

/// A descriptor that stands for a device: nothing is read from it, and `poll` wakes up once
/// [`signal`] is called.
///
/// # Errors
/// An errno.
pub fn placeholder(flags: i32) -> Result<i32> {
    let flags = libc::EFD_NONBLOCK | (flags & libc::O_CLOEXEC);
    Ok(call!(SYS_eventfd2, 0, flags)? as i32)
}

/// Wakes up `poll` on a placeholder, or puts it to sleep again.
pub fn signal(placeholder: i32, ready: bool) {
    let mut word = 1_u64;
    let word = &raw mut word;
    // One that is full, empty or closed stays as it is.
    let _ = match ready {
        true => call!(SYS_write, placeholder, word, 8),
        false => call!(SYS_read, placeholder, word, 8),
    };
}

/// `ppoll`: how many are ready; `timeout` becomes what is left of it.
///
/// # Errors
/// An errno.
pub fn poll(
    all: &mut [libc::pollfd],
    timeout: &mut Option<libc::timespec>,
    mask: *const libc::sigset_t,
) -> Result<i32> {
    let timeout = timeout
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let count = all.len();
    // The system's masks have 64 signals.
    let ready = call!(SYS_ppoll, all.as_mut_ptr(), count, timeout, mask, 8_usize)?;
    Ok(ready as i32)
}

/// Closes.
///
/// # Errors
/// An errno.
pub fn close(fd: i32) -> Result<i32> {
    Ok(call!(SYS_close, fd)? as i32)
}

/// Another descriptor: the lowest, or the one that is named.
///
/// # Errors
/// An errno.
pub fn dup(fd: i32, to: Option<(i32, i32)>) -> Result<i32> {
    let new = match to {
        None => call!(SYS_dup, fd)?,
        // What dup2 may and dup3 may not.
        Some((to, 0)) if to == fd => {
            call!(SYS_fcntl, fd, libc::F_GETFD).map(|_| c_long::from(fd))?
        }
        Some((to, flags)) => call!(SYS_dup3, fd, to, flags)?,
    };
    Ok(new as i32)
}

/// `fcntl`.
///
/// # Errors
/// An errno.
pub fn fcntl(fd: i32, command: i32, argument: c_long) -> Result<i32> {
    Ok(call!(SYS_fcntl, fd, command, argument)? as i32)
}

/// An ioctl of the host.
///
/// # Errors
/// An errno.
pub fn ioctl(fd: i32, request: u32, argument: u64) -> Result<i32> {
    Ok(call!(SYS_ioctl, fd, c_long::from(request), argument)? as i32)
}

/// A read of the host.
///
/// # Errors
/// An errno.
pub fn read(fd: i32, to: *mut c_void, bytes: usize) -> Result<isize> {
    Ok(call!(SYS_read, fd, to, bytes)? as isize)
}

/// A write of the host.
///
/// # Errors
/// An errno.
pub fn write(fd: i32, from: *const c_void, bytes: usize) -> Result<isize> {
    Ok(call!(SYS_write, fd, from, bytes)? as isize)
}

/// Maps a file of the host.
///
/// # Errors
/// An errno.
pub fn mmap(fd: i32, map: Map) -> Result<u64> {
    let Map {
        at,
        bytes,
        protection,
        flags,
        offset,
    } = map;
    Ok(call!(SYS_mmap, at, bytes, protection, flags, fd, offset)? as u64)
}

/// Reads what is mapped of a device; the system reads such memory for nobody.
pub fn peek(at: u64, to: &mut [u8]) -> bool {
    if !at.is_multiple_of(4) {
        return false;
    }
    for (i, word) in to.chunks_mut(4).enumerate() {
        // SAFETY: the caller names a mapping of this process that may be read and is not taken away
        // meanwhile: its hook of munmap waits for us. A device may change it, hence volatile.
        let value = unsafe { (at as *const u32).add(i).read_volatile() };
        word.copy_from_slice(&value.to_ne_bytes()[..word.len()]);
    }
    true
}

/// Takes mappings away.
///
/// # Errors
/// An errno.
pub fn munmap(at: u64, bytes: u64) -> Result<i32> {
    Ok(call!(SYS_munmap, at, bytes)? as i32)
}

/// `newfstatat`.
///
/// # Errors
/// An errno.
pub fn stat_at(folder: i32, path: *const c_char, to: *mut libc::stat, flags: i32) -> Result<i32> {
    Ok(call!(SYS_newfstatat, folder, path, to, flags)? as i32)
}

/// Makes what `stat` wrote that of a device.
///
/// # Safety
/// `stat` was just filled by [`stat_at`].
pub unsafe fn make_device(stat: *mut libc::stat, (major, minor): (u32, u32)) {
    // SAFETY: by the caller's promise.
    let stat = unsafe { &mut *stat };
    stat.st_mode = libc::S_IFCHR | 0o666;
    stat.st_rdev = libc::makedev(major, minor);
    (stat.st_uid, stat.st_gid) = (0, 0);
}

/// `statx`.
///
/// # Errors
/// An errno.
pub fn statx(
    folder: i32,
    path: *const c_char,
    flags: i32,
    mask: u32,
    to: *mut libc::statx,
) -> Result<i32> {
    Ok(call!(SYS_statx, folder, path, flags, mask, to)? as i32)
}

/// Makes what `statx` wrote that of a device.
///
/// # Safety
/// `stat` was just filled by [`statx`].
pub unsafe fn make_device_x(stat: *mut libc::statx, (major, minor): (u32, u32)) {
    // SAFETY: by the caller's promise.
    let stat = unsafe { &mut *stat };
    stat.stx_mode = (libc::S_IFCHR | 0o666) as u16;
    (stat.stx_rdev_major, stat.stx_rdev_minor) = (major, minor);
    (stat.stx_uid, stat.stx_gid) = (0, 0);
}

/// `faccessat`.
///
/// # Errors
/// An errno.
pub fn access(folder: i32, path: &CStr, mode: i32) -> Result<i32> {
    Ok(call!(SYS_faccessat, folder, path.as_ptr(), mode)? as i32)
}

/// `readlinkat`.
///
/// # Errors
/// An errno.
pub fn readlink(folder: i32, path: *const c_char, to: *mut c_char, bytes: usize) -> Result<isize> {
    Ok(call!(SYS_readlinkat, folder, path, to, bytes)? as isize)
}

/// A function of libc behind the hook of that name.
pub struct Next {
    name: &'static CStr,
    found: OnceLock<usize>,
}

impl Next {
    /// That of a name.
    pub const fn new(name: &'static CStr) -> Next {
        Next {
            name,
            found: OnceLock::new(),
        }
    }

    /// Its address.
    ///
    /// # Panics
    /// libc does not have it: then nobody can have called the hook, unless by mistake of ours.
    pub fn address(&self) -> *mut c_void {
        let found = *self.found.get_or_init(|| {
            // SAFETY: the name is a string.
            unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) as usize }
        });
        assert!(found != 0, "libc has no {:?}", self.name);
        found as *mut c_void
    }
}

/// Where a signal says that it came, and where it is answered; -1 before [`watch_signals`].
static ASKED: AtomicI32 = AtomicI32::new(-1);
static ANSWERED: AtomicI32 = AtomicI32::new(-1);
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Runs `report` on a thread of its own when SIGABRT or SIGTERM comes, and lets the signal do then what it
/// does: a handler itself may take no locks.
pub fn watch_signals(report: fn()) {
    if WATCHED.swap(true, Ordering::SeqCst) {
        return;
    }
    let (Ok(asked), Ok(answered)) = (
        call!(SYS_eventfd2, 0, libc::EFD_CLOEXEC),
        call!(SYS_eventfd2, 0, libc::EFD_CLOEXEC),
    ) else {
        return;
    };
    ASKED.store(asked as i32, Ordering::SeqCst);
    ANSWERED.store(answered as i32, Ordering::SeqCst);
    let reporter = std::thread::Builder::new().name("twin-signals".into());
    let started = reporter.spawn(move || {
        Inside::stay();
        let mut word = 0_u64;
        if read(asked as i32, (&raw mut word).cast(), 8).is_ok() {
            report();
            signal(answered as i32, true);
        }
    });
    if started.is_err() {
        return;
    }
    for signal in [libc::SIGABRT, libc::SIGTERM] {
        // SAFETY: zeros are a valid sigaction: no handler, no flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESETHAND;
        // SAFETY: the handler calls what may be called in one.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

extern "C" fn on_signal(number: c_int) {
    signal(ASKED.load(Ordering::SeqCst), true);
    let mut answer = libc::pollfd {
        fd: ANSWERED.load(Ordering::SeqCst),
        events: libc::POLLIN,
        revents: 0,
    };
    // Long enough for a report, short enough where the signal hit who has the lock for it.
    let mut timeout = libc::timespec {
        tv_sec: 5,
        tv_nsec: 0,
    };
    let mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: one entry and a time, which are ours; then the signal again, whose handler is gone (SA_RESETHAND).
    unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            &raw mut answer,
            1,
            &raw mut timeout,
            mask,
            8_usize,
        );
        libc::raise(number);
    }
}

/// A file in memory, of no bytes yet.
///
/// # Errors
/// An errno.
pub fn memory_file() -> Result<File> {
    let fd = call!(SYS_memfd_create, c"doorbell".as_ptr(), libc::MFD_CLOEXEC)?;
    // SAFETY: a new descriptor, and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Gives a part of a file back to the system.
pub fn punch(file: &File, offset: u64, bytes: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // Without it the memory is kept longer.
    let _ = call!(SYS_fallocate, file.as_raw_fd(), mode, offset, bytes);
}

/// Any process of the same user may look at this one, also where only parents may otherwise.
pub fn be_looked_at_by_all() {
    // Systems without that limit do not know it.
    let _ = call!(
        SYS_prctl,
        libc::PR_SET_PTRACER,
        libc::PR_SET_PTRACER_ANY,
        0,
        0,
        0
    );
}

/// Another descriptor of a file, for this process alone.
///
/// # Errors
/// An errno.
pub fn another(fd: i32) -> Result<OwnedFd> {
    let made = fcntl(fd, libc::F_DUPFD_CLOEXEC, 0)?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Has `child` called in processes that are forked from this one, before they do anything else.
pub fn after_fork(child: extern "C" fn()) {
    // SAFETY: the function is one of ours. It fails where there is no memory left: a child then has what its
    // parent had, and is told that it is not its own.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Memory that nobody writes for a while: who does waits until this is dropped.
///
/// One thread at a time may hold one, see [`crate::own`].
pub struct Still {
    before: libc::sigaction,
}

/// Whether one is kept.
static STILL: AtomicBool = AtomicBool::new(false);

/// Who writes to memory that is kept still comes here, and tries again once it is over. Who has another
/// reason for the signal does so, too, and finds the handler that was there before.
extern "C" fn wait_until_over(_: c_int) {
    while STILL.load(Ordering::Acquire) {
        // SAFETY: a system call that a handler may make.
        unsafe { libc::syscall(libc::SYS_sched_yield) };
    }
}

impl Still {
    /// Keeps a range still.
    ///
    /// # Errors
    /// An errno: it is not all mapped.
    pub fn keep(at: u64, bytes: u64) -> Result<Still> {
        // SAFETY: zeros are a valid sigaction.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = wait_until_over as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: as above; it is filled.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        STILL.store(true, Ordering::Release);
        // SAFETY: the handler calls what may be called in one.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
        let still = Still { before };
        call!(SYS_mprotect, at, bytes, libc::PROT_READ)?;
        Ok(still)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        // SAFETY: what was there before.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const self.before, std::ptr::null_mut()) };
        STILL.store(false, Ordering::Release);
    }
}

/// Ends the process at once, after what stdio still holds.
pub fn leave(code: i32) -> ! {
    // SAFETY: null flushes every stream.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(code)
    }
}
