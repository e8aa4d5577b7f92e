//! Devices: found, opened, asked what they are.

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use crate::error;
use crate::wire::{About, Wire};

/// `libusb_device`.
pub struct Device(About);

/// `libusb_device_handle`.
pub struct Handle {
    device: Arc<Device>,
    pub(crate) wire: Wire,
}

/// `libusb_get_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_device_list(
    _: *mut c_void,
    list: *mut *mut *const Device,
) -> isize {
    let found = match Wire::new().and_then(|wire| wire.list()) {
        Ok(found) => found,
        Err(why) => {
            eprintln!("stand-in for libusb: {why}");
            return error::IO as isize;
        }
    };
    let count = found.len();
    let devices = found
        .into_iter()
        .map(|about| Arc::into_raw(Arc::new(Device(about))));
    let all: Box<[_]> = devices.chain([ptr::null()]).collect();
    // SAFETY: see the front page.
    unsafe { list.write(Box::into_raw(all).cast()) };
    count as isize
}

/// `libusb_free_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_free_device_list(list: *mut *const Device, unref: c_int) {
    if list.is_null() {
        return;
    }
    let mut count = 0;
    // SAFETY: it is a list of `libusb_get_device_list`, which ends in null and is given back here.
    unsafe {
        while !(*list.add(count)).is_null() {
            if unref != 0 {
                libusb_unref_device(*list.add(count));
            }
            count += 1;
        }
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(
            list,
            count + 1,
        )));
    }
}

/// `libusb_ref_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_ref_device(device: *const Device) -> *const Device {
    // SAFETY: it lives.
    unsafe { Arc::increment_strong_count(device) };
    device
}

/// `libusb_unref_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_unref_device(device: *const Device) {
    // SAFETY: it lives, and the caller has a count of it.
    unsafe { Arc::decrement_strong_count(device) };
}

/// `libusb_get_bus_number`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_bus_number(device: *const Device) -> u8 {
    // SAFETY: it lives.
    unsafe { &*device }.0.bus
}

/// `libusb_get_device_address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_device_address(device: *const Device) -> u8 {
    // SAFETY: it lives.
    unsafe { &*device }.0.number
}

/// `libusb_get_port_number`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_get_port_number(_: *const Device) -> u8 {
    1
}

/// `libusb_get_port_numbers`: each device is at port 1 of its bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_port_numbers(
    _: *const Device,
    ports: *mut u8,
    room: c_int,
) -> c_int {
    if room < 1 {
        return error::OVERFLOW;
    }
    // SAFETY: see the front page.
    unsafe { ports.write(1) };
    1
}

/// `libusb_get_device_speed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_device_speed(device: *const Device) -> c_int {
    // SAFETY: it lives.
    match unsafe { &*device }.0.speed {
        480 => 3,
        5000 => 4,
        10_000 => 5,
        _ => 0,
    }
}

/// `libusb_get_device_descriptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_device_descriptor(
    device: *const Device,
    to: *mut [u8; 18],
) -> c_int {
    // SAFETY: both live; the structure has the order of the bytes on a host whose lowest byte is first.
    unsafe { to.write((*device).0.descriptor) };
    0
}

/// `libusb_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_open(device: *const Device, to: *mut *mut Handle) -> c_int {
    // SAFETY: it lives, and the handle has a count of it.
    let device = unsafe { Arc::from_raw(libusb_ref_device(device)) };
    let Ok(wire) = Wire::new() else {
        return error::IO;
    };
    match wire.open(device.0.number) {
        Ok(0) => {
            // SAFETY: see the front page.
            unsafe { to.write(Box::into_raw(Box::new(Handle { device, wire }))) };
            0
        }
        Ok(code) => code,
        Err(_) => error::IO,
    }
}

/// `libusb_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_close(handle: *mut Handle) {
    if !handle.is_null() {
        // SAFETY: it was made by `libusb_open`.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// `libusb_get_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_get_device(handle: *mut Handle) -> *const Device {
    // SAFETY: it lives.
    Arc::as_ptr(&unsafe { &*handle }.device)
}

/// `libusb_kernel_driver_active`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_kernel_driver_active(_: *mut Handle, _: c_int) -> c_int {
    0
}

/// `libusb_detach_kernel_driver`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_detach_kernel_driver(_: *mut Handle, _: c_int) -> c_int {
    error::NOT_FOUND
}

/// `libusb_set_auto_detach_kernel_driver`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_set_auto_detach_kernel_driver(_: *mut Handle, _: c_int) -> c_int {
    0
}

/// `libusb_claim_interface`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_claim_interface(_: *mut Handle, number: c_int) -> c_int {
    if number == 0 { 0 } else { error::NOT_FOUND }
}

/// `libusb_release_interface`.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_release_interface(_: *mut Handle, number: c_int) -> c_int {
    if number == 0 { 0 } else { error::NOT_FOUND }
}

/// `libusb_set_configuration`: a device that is open has its first.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_set_configuration(_: *mut Handle, number: c_int) -> c_int {
    if number == 1 { 0 } else { error::NOT_FOUND }
}

/// `libusb_set_interface_alt_setting`: the first.
#[unsafe(no_mangle)]
pub extern "C" fn libusb_set_interface_alt_setting(
    _: *mut Handle,
    number: c_int,
    setting: c_int,
) -> c_int {
    if (number, setting) == (0, 0) {
        0
    } else {
        error::NOT_FOUND
    }
}

/// `libusb_clear_halt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_clear_halt(handle: *mut Handle, endpoint: c_uchar) -> c_int {
    // SAFETY: it lives.
    let cleared = unsafe { &*handle }.wire.clear_halt(endpoint);
    cleared.unwrap_or(error::IO)
}

/// `libusb_reset_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libusb_reset_device(handle: *mut Handle) -> c_int {
    // SAFETY: it lives.
    let reset = unsafe { &*handle }.wire.reset();
    reset.unwrap_or(error::IO)
}
