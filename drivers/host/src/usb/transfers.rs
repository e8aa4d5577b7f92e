//! Concurrent transfers.
//!
//! libusb calls back from the thread that handles its events, which is the waiting one here. libusb owns a transfer
//! and its buffer from submission to callback: no function returns before all callbacks, even if the first transfer
//! failed and the others are cancelled.
//!
//! Source: libusb, "Asynchronous device I/O": allocation, submission, completion, cancellation.

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use hcq::transport::{Fault, Setup, Transfer};
use rusb::constants::{
    LIBUSB_TRANSFER_COMPLETED, LIBUSB_TRANSFER_NO_DEVICE, LIBUSB_TRANSFER_OVERFLOW,
    LIBUSB_TRANSFER_STALL, LIBUSB_TRANSFER_TIMED_OUT, LIBUSB_TRANSFER_TYPE_BULK,
    LIBUSB_TRANSFER_TYPE_CONTROL,
};
use rusb::{Context, DeviceHandle, UsbContext, ffi};

/// Bytes of a setup packet, which is the start of the buffer of a control transfer.
const SETUP: usize = 8;
/// How long events are waited for until it is looked again.
const SLICE: Duration = Duration::from_secs(1);

/// A transfer of libusb's, with the memory that it uses.
struct Flight {
    raw: NonNull<ffi::libusb_transfer>,
    buffer: Vec<u8>,
    /// Set once libusb has called back.
    done: Box<AtomicI32>,
    is_submitted: bool,
}

impl Flight {
    fn is_over(&self) -> bool {
        !self.is_submitted || self.done.load(Ordering::Acquire) != 0
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // SAFETY: libusb gave the transfer, and does not use it any more: `run` drops none before it is over.
        unsafe { ffi::libusb_free_transfer(self.raw.as_ptr()) };
    }
}

extern "system" fn called_back(transfer: *mut ffi::libusb_transfer) {
    // SAFETY: libusb passes the transfer that was submitted, whose user data is the flag of its flight, which lives
    // until the flag is set.
    let done = unsafe { &*(*transfer).user_data.cast::<AtomicI32>() };
    done.store(1, Ordering::Release);
}

/// An asynchronous bulk transfer to the device.
pub(super) struct UnderWay<'a> {
    handle: &'a DeviceHandle<Context>,
    flight: Flight,
    name: String,
    limit: Duration,
}

/// Submits a bulk transfer to the device.
///
/// # Errors
/// The refused transfer, and the error.
pub(super) fn submit<'a>(
    handle: &'a DeviceHandle<Context>,
    endpoint: u8,
    bytes: &[u8],
    limit: Duration,
) -> Result<UnderWay<'a>, (String, Fault)> {
    let transfer = Transfer::BulkOut(endpoint, bytes);
    let flight = prepare(handle, &transfer, limit).ok_or_else(|| no_memory(&transfer))?;
    let mut under_way = UnderWay {
        handle,
        flight,
        name: name(&transfer),
        limit,
    };
    // SAFETY: the transfer is filled in, and its buffer and flag live until it is over: the drop waits for that.
    let code = unsafe { ffi::libusb_submit_transfer(under_way.flight.raw.as_ptr()) };
    if code != 0 {
        return Err((name(&transfer), submission(code)));
    }
    under_way.flight.is_submitted = true;
    Ok(under_way)
}

impl UnderWay<'_> {
    /// Waits for its end and returns the bytes moved.
    ///
    /// # Errors
    /// Which one it was, and how it failed.
    pub(super) fn wait(self) -> Result<usize, (String, Fault)> {
        self.land();
        match outcome(status(&self.flight), self.limit) {
            None => Ok(length(&self.flight)),
            Some(fault) => Err((self.name.clone(), fault)),
        }
    }

    fn land(&self) {
        while !self.flight.is_over() {
            handle_events(self.handle.context(), &self.flight.done);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        cancel(&self.flight);
        self.land();
    }
}

/// Runs transfers concurrently and returns the bytes moved by each.
///
/// # Errors
/// Of the first that failed: which one, and how.
pub(super) fn run(
    handle: &DeviceHandle<Context>,
    transfers: &mut [Transfer<'_>],
    limit: Duration,
) -> Result<Vec<usize>, (String, Fault)> {
    let mut flights = Vec::with_capacity(transfers.len());
    for transfer in &*transfers {
        flights.push(prepare(handle, transfer, limit).ok_or_else(|| no_memory(transfer))?);
    }
    let mut refused = None;
    for (flight, transfer) in flights.iter_mut().zip(&*transfers) {
        // SAFETY: the transfer is filled in, and its buffer and flag live until it is over.
        let code = unsafe { ffi::libusb_submit_transfer(flight.raw.as_ptr()) };
        if code != 0 {
            refused = Some((name(transfer), submission(code)));
            break;
        }
        flight.is_submitted = true;
    }
    let mut cancelled = refused.is_some();
    if cancelled {
        flights.iter().for_each(cancel);
    }
    while let Some(next) = flights.iter().find(|flight| !flight.is_over()) {
        handle_events(handle.context(), &next.done);
        let failed = |flight: &Flight| {
            flight.is_submitted && flight.is_over() && status(flight) != LIBUSB_TRANSFER_COMPLETED
        };
        if !cancelled && flights.iter().any(failed) {
            cancelled = true;
            flights.iter().for_each(cancel);
        }
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    let mut moved = Vec::with_capacity(flights.len());
    // Those that were cancelled are not why.
    let mut first = None;
    for (flight, transfer) in flights.iter().zip(&mut *transfers) {
        match outcome(status(flight), limit) {
            Some(Fault::Unsupported(why)) => {
                first.get_or_insert((name(transfer), Fault::Unsupported(why)));
            }
            Some(fault) => return Err((name(transfer), fault)),
            None => {}
        }
        let bytes = length(flight);
        moved.push(bytes);
        match transfer {
            Transfer::ControlIn(_, to) => copy(&flight.buffer[SETUP..], to, bytes),
            Transfer::BulkIn(_, to) => copy(&flight.buffer, to, bytes),
            Transfer::ControlOut(..) | Transfer::BulkOut(..) => {}
        }
    }
    first.map_or(Ok(moved), Err)
}

fn copy(from: &[u8], to: &mut [u8], bytes: usize) {
    let bytes = bytes.min(from.len()).min(to.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
}

fn prepare(
    handle: &DeviceHandle<Context>,
    transfer: &Transfer<'_>,
    limit: Duration,
) -> Option<Flight> {
    let (endpoint, kind, buffer) = match transfer {
        Transfer::ControlIn(setup, to) => {
            let mut buffer = packet(setup, to.len());
            buffer.resize(SETUP + to.len(), 0);
            (0, LIBUSB_TRANSFER_TYPE_CONTROL, buffer)
        }
        Transfer::ControlOut(setup, from) => {
            let mut buffer = packet(setup, from.len());
            buffer.extend_from_slice(from);
            (0, LIBUSB_TRANSFER_TYPE_CONTROL, buffer)
        }
        Transfer::BulkIn(endpoint, to) => (*endpoint, LIBUSB_TRANSFER_TYPE_BULK, vec![0; to.len()]),
        Transfer::BulkOut(endpoint, from) => (*endpoint, LIBUSB_TRANSFER_TYPE_BULK, from.to_vec()),
    };
    // SAFETY: no isochronous packets; the result is looked at.
    let raw = NonNull::new(unsafe { ffi::libusb_alloc_transfer(0) })?;
    let mut flight = Flight {
        raw,
        buffer,
        done: Box::default(),
        is_submitted: false,
    };
    // SAFETY: libusb has just allocated it, and no other code has it.
    let raw = unsafe { flight.raw.as_mut() };
    raw.dev_handle = handle.as_raw();
    raw.flags = 0;
    raw.endpoint = endpoint as c_uchar;
    raw.transfer_type = kind;
    // Zero would be for ever.
    raw.timeout = limit.as_millis().clamp(1, u32::MAX.into()) as c_uint;
    raw.length = flight.buffer.len() as c_int;
    raw.buffer = flight.buffer.as_mut_ptr();
    raw.callback = called_back;
    raw.user_data = (&raw const *flight.done).cast_mut().cast::<c_void>();
    Some(flight)
}

fn packet(setup: &Setup, length: usize) -> Vec<u8> {
    let mut bytes = vec![setup.request_type, setup.request];
    for half in [setup.value, setup.index, length as u16] {
        bytes.extend(half.to_le_bytes());
    }
    bytes
}

fn cancel(flight: &Flight) {
    if !flight.is_over() {
        // SAFETY: it was submitted and is not complete; if it completes now, the call fails without effect.
        unsafe { ffi::libusb_cancel_transfer(flight.raw.as_ptr()) };
    }
}

/// Handles events until a flight is over, or a while has passed.
fn handle_events(context: &Context, done: &AtomicI32) {
    let slice = libc::timeval {
        tv_sec: SLICE.as_secs() as libc::time_t,
        tv_usec: 0,
    };
    // SAFETY: the context lives; libusb reads the flag with its event lock held, which the call back is made under.
    unsafe {
        ffi::libusb_handle_events_timeout_completed(context.as_raw(), &slice, done.as_ptr());
    }
}

fn status(flight: &Flight) -> c_int {
    // SAFETY: the transfer is not freed before its flight.
    unsafe { flight.raw.as_ref() }.status
}

fn length(flight: &Flight) -> usize {
    // SAFETY: as above.
    let moved = unsafe { flight.raw.as_ref() }.actual_length;
    usize::try_from(moved).unwrap_or(0)
}

/// Why a transfer failed; `Unsupported` for one that was cancelled.
fn outcome(status: c_int, limit: Duration) -> Option<Fault> {
    Some(match status {
        LIBUSB_TRANSFER_COMPLETED => return None,
        LIBUSB_TRANSFER_TIMED_OUT => Fault::TimedOut(limit),
        LIBUSB_TRANSFER_STALL => Fault::Stall,
        LIBUSB_TRANSFER_NO_DEVICE => Fault::Gone,
        LIBUSB_TRANSFER_OVERFLOW => Fault::Errno(libc::EOVERFLOW),
        rusb::constants::LIBUSB_TRANSFER_CANCELLED => {
            Fault::Unsupported("cancelled after another transfer failed".into())
        }
        _ => Fault::Errno(libc::EIO),
    })
}

fn submission(code: c_int) -> Fault {
    use rusb::constants::{
        LIBUSB_ERROR_ACCESS, LIBUSB_ERROR_BUSY, LIBUSB_ERROR_NO_DEVICE, LIBUSB_ERROR_NO_MEM,
        LIBUSB_ERROR_PIPE,
    };
    match code {
        LIBUSB_ERROR_NO_DEVICE => Fault::Gone,
        LIBUSB_ERROR_NO_MEM => Fault::Errno(libc::ENOMEM),
        LIBUSB_ERROR_ACCESS => Fault::Errno(libc::EACCES),
        LIBUSB_ERROR_BUSY => Fault::Errno(libc::EBUSY),
        LIBUSB_ERROR_PIPE => Fault::Stall,
        _ => Fault::Errno(libc::EIO),
    }
}

fn name(transfer: &Transfer<'_>) -> String {
    match transfer {
        Transfer::ControlIn(setup, _) | Transfer::ControlOut(setup, _) => {
            format!("control request {:#04x}", setup.request)
        }
        Transfer::BulkIn(endpoint, _) | Transfer::BulkOut(endpoint, _) => {
            format!("bulk transfer of endpoint {endpoint:#04x}")
        }
    }
}

fn no_memory(transfer: &Transfer<'_>) -> (String, Fault) {
    (name(transfer), Fault::Errno(libc::ENOMEM))
}
