//! Transfers: one at a time, or submitted and told by callbacks.

use std::ffi::{c_int, c_long, c_uchar, c_uint, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::device::Handle;
use crate::error;
use crate::wire::Wanted;

/// `enum libusb_transfer_status`.
mod status {
    use std::ffi::c_int;

    pub(crate) const COMPLETED: c_int = 0;
    pub(crate) const ERROR: c_int = 1;
    pub(crate) const TIMED_OUT: c_int = 2;
    pub(crate) const CANCELLED: c_int = 3;
    pub(crate) const STALL: c_int = 4;
    pub(crate) const NO_DEVICE: c_int = 5;
}

/// Bytes of a setup packet.
const SETUP: usize = 8;
/// How long a transfer without a limit may take, in ms.
const LONG: u32 = 60_000;

/// `struct libusb_transfer`.
#[repr(C)]
pub struct Transfer {
    handle: *mut Handle,
    flags: u8,
    endpoint: c_uchar,
    kind: c_uchar,
    timeout: c_uint,
    status: c_int,
    length: c_int,
    actual: c_int,
    callback: Option<extern "C" fn(*mut Transfer)>,
    user: *mut c_void,
    buffer: *mut c_uchar,
    packets: c_int,
}

/// `struct timeval`.
#[repr(C)]
pub struct Time {
    seconds: c_long,
    micros: c_long,
}

/// A transfer between its submission and its callback.
struct Submitted(*mut Transfer);

// SAFETY: a transfer is the library's from its submission to its callback, in whatever thread.
unsafe impl Send for Submitted {}

#[derive(Default)]
struct Pending {
    waiting: Vec<Submitted>,
    cancelled: Vec<Submitted>,
}

static PENDING: Mutex<Pending> = Mutex::new(Pending {
    waiting: Vec::new(),
    cancelled: Vec::new(),
});

fn pending() -> MutexGuard<'static, Pending> {
    // Transfers are added and removed whole.
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn limit(timeout: c_uint) -> u32 {
    if timeout == 0 { LONG } else { timeout }
}

/// What goes out, or room for what comes in.
///
/// # Safety
/// The buffer has so many bytes.
unsafe fn data(buffer: *const u8, bytes: usize, comes_in: bool) -> Vec<u8> {
    if comes_in || bytes == 0 || buffer.is_null() {
        return vec![0; bytes];
    }
    // SAFETY: the caller's word.
    unsafe { std::slice::from_raw_parts(buffer, bytes) }.to_vec()
}

/// Does one transfer. What comes in is copied to the buffer.
///
/// # Safety
/// The handle lives, the buffer has its size.
unsafe fn one(handle: *mut Handle, wanted: Wanted, buffer: *mut u8) -> c_int {
    let comes_in = wanted.comes_in();
    let mut all = [wanted];
    // SAFETY: the caller's word.
    let results = unsafe { &*handle }.wire.transfer(&mut all);
    let result = results.ok().and_then(|all| all.first().copied());
    let result = result.unwrap_or(error::NO_DEVICE);
    if let (true, Ok(moved)) = (comes_in, usize::try_from(result)) {
        // SAFETY: the caller's word; not more than there was room for has come.
        unsafe { ptr::copy_nonoverlapping(all[0].data.as_ptr(), buffer, moved) };
    }
    result
}

/// `libusb_control_transfer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_control_transfer(
    handle: *mut Handle,
    kind: u8,
    request: u8,
    value: u16,
    index: u16,
    buffer: *mut u8,
    length: u16,
    timeout: c_uint,
) -> c_int {
    let [value, index, bytes] = [value, index, length].map(u16::to_le_bytes);
    let setup = [
        kind, request, value[0], value[1], index[0], index[1], bytes[0], bytes[1],
    ];
    let wanted = Wanted {
        endpoint: 0,
        setup,
        limit: limit(timeout),
        // SAFETY: see the front page.
        data: unsafe { data(buffer, length.into(), kind & 0x80 != 0) },
    };
    // SAFETY: see the front page.
    unsafe { one(handle, wanted, buffer) }
}

/// `libusb_bulk_transfer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_bulk_transfer(
    handle: *mut Handle,
    endpoint: c_uchar,
    buffer: *mut u8,
    length: c_int,
    moved: *mut c_int,
    timeout: c_uint,
) -> c_int {
    let Ok(length) = usize::try_from(length) else {
        return error::INVALID_PARAM;
    };
    let wanted = Wanted {
        endpoint,
        setup: [0; SETUP],
        limit: limit(timeout),
        // SAFETY: see the front page.
        data: unsafe { data(buffer, length, endpoint & 0x80 != 0) },
    };
    // SAFETY: see the front page.
    let result = unsafe { one(handle, wanted, buffer) };
    if !moved.is_null() {
        // SAFETY: see the front page.
        unsafe { moved.write(result.max(0)) };
    }
    result.min(0)
}

/// `libusb_get_string_descriptor_ascii`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_string_descriptor_ascii(
    handle: *mut Handle,
    index: u8,
    to: *mut u8,
    length: c_int,
) -> c_int {
    let mut found = [0; 255];
    let value = 0x300 | u16::from(index);
    // SAFETY: the handle lives, the buffer is this one.
    let got = unsafe {
        libusb_control_transfer(handle, 0x80, 6, value, 0x409, found.as_mut_ptr(), 255, 1000)
    };
    let Ok(got) = usize::try_from(got) else {
        return got;
    };
    let units = found[..got].get(2..).unwrap_or_default().as_chunks::<2>().0;
    let room = usize::try_from(length).unwrap_or(0).saturating_sub(1);
    let ascii = units
        .iter()
        .map(|[low, high]| if *high == 0 { *low } else { b'?' });
    let text: Vec<u8> = ascii.take(room).chain([0]).collect();
    if length > 0 {
        // SAFETY: not more than there is room for.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), to, text.len()) };
    }
    text.len() as c_int - 1
}

/// `libusb_alloc_transfer`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_alloc_transfer(packets: c_int) -> *mut Transfer {
    if packets != 0 {
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(Transfer {
        handle: ptr::null_mut(),
        flags: 0,
        endpoint: 0,
        kind: 0,
        timeout: 0,
        status: 0,
        length: 0,
        actual: 0,
        callback: None,
        user: ptr::null_mut(),
        buffer: ptr::null_mut(),
        packets: 0,
    }))
}

/// `libusb_free_transfer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_free_transfer(transfer: *mut Transfer) {
    if !transfer.is_null() {
        // SAFETY: it was made by `libusb_alloc_transfer`.
        drop(unsafe { Box::from_raw(transfer) });
    }
}

/// `libusb_submit_transfer`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_submit_transfer(transfer: *mut Transfer) -> c_int {
    pending().waiting.push(Submitted(transfer));
    0
}

/// `libusb_cancel_transfer`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_cancel_transfer(transfer: *mut Transfer) -> c_int {
    let mut pending = pending();
    let found = pending.waiting.iter().position(|one| one.0 == transfer);
    let Some(found) = found else {
        return error::NOT_FOUND;
    };
    let cancelled = pending.waiting.remove(found);
    pending.cancelled.push(cancelled);
    0
}

/// What is asked for by a transfer.
///
/// # Safety
/// It is one that was submitted.
unsafe fn wanted(transfer: *const Transfer) -> Wanted {
    // SAFETY: it is the library's now, and its buffer has its length.
    let transfer = unsafe { &*transfer };
    let length = usize::try_from(transfer.length).unwrap_or(0);
    let mut setup = [0; SETUP];
    let mut from = transfer.buffer;
    let mut bytes = length;
    // The buffer of a control transfer begins with the setup packet.
    if transfer.kind == 0 {
        // SAFETY: as above.
        setup = unsafe { from.cast::<[u8; SETUP]>().read() };
        // SAFETY: as above.
        from = unsafe { from.add(SETUP) };
        bytes = length.saturating_sub(SETUP);
    }
    let mut wanted = Wanted {
        endpoint: if transfer.kind == 0 {
            0
        } else {
            transfer.endpoint
        },
        setup,
        limit: limit(transfer.timeout),
        data: Vec::new(),
    };
    // SAFETY: as above.
    wanted.data = unsafe { data(from, bytes, wanted.comes_in()) };
    wanted
}

/// Does what waits: all transfers of a device at once. Whether there was something.
fn work() -> bool {
    let mut all = std::mem::take(&mut *pending());
    let mut done = Vec::new();
    for Submitted(transfer) in all.cancelled {
        done.push((transfer, status::CANCELLED, 0));
    }
    while let Some(Submitted(first)) = all.waiting.first() {
        // SAFETY: it is the library's until its callback.
        let handle = unsafe { (**first).handle };
        let (these, others): (Vec<_>, Vec<_>) = all
            .waiting
            .into_iter()
            // SAFETY: as above.
            .partition(|one| unsafe { (*one.0).handle } == handle);
        all.waiting = others;
        // SAFETY: as above.
        let mut asked: Vec<_> = these.iter().map(|one| unsafe { wanted(one.0) }).collect();
        // SAFETY: a handle lives as long as it has transfers.
        let results = unsafe { &*handle }.wire.transfer(&mut asked);
        let results = results.unwrap_or_else(|_| vec![error::NO_DEVICE; asked.len()]);
        for ((Submitted(transfer), wanted), result) in these.into_iter().zip(asked).zip(results) {
            let moved = usize::try_from(result).unwrap_or(0);
            if wanted.comes_in() {
                let skipped = if wanted.endpoint == 0 { SETUP } else { 0 };
                // SAFETY: the buffer has room for what was asked for.
                unsafe {
                    let to = (*transfer).buffer.add(skipped);
                    ptr::copy_nonoverlapping(wanted.data.as_ptr(), to, moved);
                }
            }
            let status = match result {
                0.. => status::COMPLETED,
                error::TIMEOUT => status::TIMED_OUT,
                error::PIPE => status::STALL,
                error::NO_DEVICE => status::NO_DEVICE,
                _ => status::ERROR,
            };
            done.push((transfer, status, moved));
        }
    }
    let some = !done.is_empty();
    for (transfer, status, moved) in done {
        // SAFETY: as above; from the callback on it is the caller's.
        let callback = unsafe {
            (*transfer).status = status;
            (*transfer).actual = moved as c_int;
            (*transfer).callback
        };
        if let Some(callback) = callback {
            callback(transfer);
        }
    }
    some
}

/// `libusb_handle_events_timeout_completed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_handle_events_timeout_completed(
    _: *mut c_void,
    time: *const Time,
    completed: *const c_int,
) -> c_int {
    // SAFETY: see the front page.
    if !completed.is_null() && unsafe { completed.read() } != 0 {
        return 0;
    }
    if !work() {
        let most = match time.is_null() {
            true => Duration::MAX,
            // SAFETY: see the front page.
            false => unsafe {
                let seconds = u64::try_from((*time).seconds).unwrap_or(0);
                let micros = u64::try_from((*time).micros).unwrap_or(0);
                Duration::from_secs(seconds) + Duration::from_micros(micros)
            },
        };
        std::thread::sleep(most.min(Duration::from_millis(1)));
    }
    0
}

/// `libusb_handle_events_timeout`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_handle_events_timeout(
    context: *mut c_void,
    time: *const Time,
) -> c_int {
    // SAFETY: the same.
    unsafe { libusb_handle_events_timeout_completed(context, time, ptr::null()) }
}

/// `libusb_handle_events_completed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_handle_events_completed(
    context: *mut c_void,
    completed: *const c_int,
) -> c_int {
    // SAFETY: the same.
    unsafe { libusb_handle_events_timeout_completed(context, ptr::null(), completed) }
}

/// `libusb_handle_events`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_handle_events(context: *mut c_void) -> c_int {
    // SAFETY: the same.
    unsafe { libusb_handle_events_timeout_completed(context, ptr::null(), ptr::null()) }
}

/// `libusb_interrupt_event_handler`: nobody waits for long.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_interrupt_event_handler(_: *mut c_void) {}
