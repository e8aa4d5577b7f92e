//! `poll` of devices of a machine: a descriptor that stands for one wakes it up, and the machine says whether
//! that is so, and forgets what was seen.
//!
//! Not `select` and `epoll`: these find a device ready until `poll` has looked.
#![allow(unsafe_code)]
#![allow(missing_docs, clippy::missing_safety_doc)] // Those of libc, which its manual describes.

use std::ffi::{c_int, c_short};
use std::slice;

use libc::{nfds_t, pollfd, sigset_t, timespec};

use crate::driver::Result;
use crate::hooks::{inside, returned};
use crate::system;

/// What a device says that has an event (nvidia_poll); descriptors that stand for one say POLLIN.
const EVENT: c_short = libc::POLLIN | libc::POLLPRI;

/// All entries, until one is ready or the time is over.
fn poll_all(
    all: &mut [pollfd],
    mut timeout: Option<timespec>,
    mask: *const sigset_t,
) -> Result<c_int> {
    let is_device = |one: &pollfd| inside(|session| Some(session.is_open(one.fd))) == Some(true);
    let devices: Vec<bool> = all.iter().map(is_device).collect();
    if !devices.contains(&true) {
        return system::poll(all, &mut timeout, mask);
    }
    let wanted: Vec<c_short> = all.iter().map(|one| one.events).collect();
    loop {
        for (one, device) in all.iter_mut().zip(&devices) {
            if *device && one.events & EVENT != 0 {
                one.events |= libc::POLLIN;
            }
        }
        let woken = system::poll(all, &mut timeout, mask);
        for ((one, device), wanted) in all.iter_mut().zip(&devices).zip(&wanted) {
            one.events = *wanted;
            if *device && one.revents != 0 {
                let ready = inside(|session| Some(session.ready(one.fd))) == Some(true);
                one.revents = if ready { EVENT & wanted } else { 0 };
            }
        }
        // Another thread may have seen it first.
        let ready = all.iter().filter(|one| one.revents != 0).count();
        if ready > 0 || woken? == 0 {
            return Ok(ready as c_int);
        }
    }
}

/// # Safety
/// As `poll` has it: `all` has as many entries as `count`.
unsafe fn poll_at(
    all: *mut pollfd,
    count: nfds_t,
    timeout: Option<timespec>,
    mask: *const sigset_t,
) -> c_int {
    let all = match count {
        0 => &mut [],
        _ if all.is_null() => return returned(Err(libc::EFAULT)),
        // SAFETY: by the caller's promise.
        _ => unsafe { slice::from_raw_parts_mut(all, count as usize) },
    };
    returned(poll_all(all, timeout, mask))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(all: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
    let timeout = u32::try_from(milliseconds).ok().map(|ms| timespec {
        tv_sec: i64::from(ms / 1000),
        tv_nsec: i64::from(ms % 1000) * 1_000_000,
    });
    // SAFETY: as the caller promises.
    unsafe { poll_at(all, count, timeout, std::ptr::null()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    all: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: null, or a time, as the caller promises; and its entries.
    unsafe { poll_at(all, count, timeout.as_ref().copied(), mask) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    all: *mut pollfd,
    count: nfds_t,
    milliseconds: c_int,
    _: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { poll(all, count, milliseconds) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    all: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    _: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { ppoll(all, count, timeout, mask) }
}
