//! A stand-in for libusb 1.0: what drivers of the bridges need of it, on a simulated machine in another process
//! (`usb_remote`, an example of `twin-amd`). The variable `DOORBELL_USB` says where that listens.
//!
//! It is no model of the library: transfers that are submitted begin when events are handled, all of them at once,
//! and all contexts are one. Which interface is claimed, and whether a kernel driver has one, nobody asks here.
//!
//! What the `unsafe` here relies on: callers keep what libusb's documentation asks of them (pointers of this library
//! live, results have a place, buffers have their size, a transfer stays until its callback).
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // It is said once, above.

mod device;
mod transfer;
mod wire;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// `enum libusb_error`.
mod error {
    use std::ffi::c_int;

    pub(crate) const IO: c_int = -1;
    pub(crate) const INVALID_PARAM: c_int = -2;
    pub(crate) const NO_DEVICE: c_int = -4;
    pub(crate) const NOT_FOUND: c_int = -5;
    pub(crate) const TIMEOUT: c_int = -7;
    pub(crate) const OVERFLOW: c_int = -8;
    pub(crate) const PIPE: c_int = -9;
    pub(crate) const NOT_SUPPORTED: c_int = -12;
}

/// `struct libusb_version`.
#[repr(C)]
pub struct Version {
    numbers: [u16; 4],
    texts: [*const c_char; 2],
}

// SAFETY: nothing of it ever changes.
unsafe impl Sync for Version {}

/// `libusb_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_init(context: *mut *mut c_void) -> c_int {
    if !context.is_null() {
        // SAFETY: see the front page. It is only handed back.
        unsafe { context.write(ptr::dangling_mut()) };
    }
    0
}

/// `libusb_init_context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_init_context(
    context: *mut *mut c_void,
    _: *const c_void,
    _: c_int,
) -> c_int {
    // SAFETY: the same.
    unsafe { libusb_init(context) }
}

/// `libusb_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_exit(_: *mut c_void) {}

/// `libusb_set_option`; arguments beyond are not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_set_option(_: *mut c_void, _: c_int) -> c_int {
    0
}

/// `libusb_set_debug`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_set_debug(_: *mut c_void, _: c_int) {}

/// `libusb_has_capability`: but for the question itself, none.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_has_capability(capability: u32) -> c_int {
    (capability == 0).into()
}

/// `libusb_get_version`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_get_version() -> *const Version {
    static VERSION: Version = Version {
        numbers: [1, 0, 26, 0],
        texts: [c"".as_ptr(), c"".as_ptr()],
    };
    &raw const VERSION
}

fn text(code: c_int) -> &'static CStr {
    match code {
        0 => c"Success",
        error::IO => c"Input/Output Error",
        error::INVALID_PARAM => c"Invalid parameter",
        error::NO_DEVICE => c"No such device (it may have been disconnected)",
        error::NOT_FOUND => c"Entity not found",
        error::TIMEOUT => c"Operation timed out",
        error::OVERFLOW => c"Overflow",
        error::PIPE => c"Pipe error",
        error::NOT_SUPPORTED => c"Operation not supported or unimplemented on this platform",
        _ => c"Other error",
    }
}

/// `libusb_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_strerror(code: c_int) -> *const c_char {
    text(code).as_ptr()
}

/// `libusb_error_name`: the same text.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_error_name(code: c_int) -> *const c_char {
    text(code).as_ptr()
}
