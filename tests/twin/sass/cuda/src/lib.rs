//! A stand-in for NVIDIA's `libcuda.so.1`: what a program needs of it that loads cubins, copies memory and
//! launches kernels, on the model of the shader cores. For rehearsals of programs that are to run on a card;
//! it is no model of the library, whose errors and order it does not have.
//!
//! `TWIN_CUDA_CHIP` is the card: `sm_90`, or another one. `TWIN_CUDA_FAIL=FUNCTION[:N]` has the Nth call of a
//! function fail, from 1 on, as it would fail on a card; `crash` and `hang` end the process, or never return, at
//! the Nth launch.
//!
//! What the `unsafe` here relies on: callers keep what NVIDIA's documentation asks of them (results have a
//! place, strings end, buffers have their size).
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // It is said once, above.

mod device;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use device::{Device, Error};

static DEVICE: Mutex<Option<Device>> = Mutex::new(None);

/// The device; a call after one that panicked finds it as that one left it.
fn lock() -> MutexGuard<'static, Option<Device>> {
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with the device, unless the call is one that shall fail.
fn with(call: &str, body: impl FnOnce(&mut Device) -> Result<(), Error>) -> c_int {
    let mut device = lock();
    let device = device.get_or_insert_with(Device::new);
    let done = device.enter(call).and_then(|()| body(device));
    done.map_or_else(|error| error.code(), |()| 0)
}

/// Writes a result.
///
/// # Safety
/// `to` is null or has room.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::InvalidValue);
    }
    // SAFETY: not null; the caller's word for the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// `cuInit`.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> c_int {
    with("cuInit", |device| device.start())
}

/// `cuDriverGetVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: see the front page.
    with("cuDriverGetVersion", |_| unsafe { put(version, 13_000) })
}

/// `cuDeviceGetCount`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    // SAFETY: see the front page.
    with("cuDeviceGetCount", |_| unsafe { put(count, 1) })
}

/// `cuDeviceGet`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    with("cuDeviceGet", |_| {
        if ordinal != 0 {
            return Err(Error::InvalidDevice);
        }
        // SAFETY: see the front page.
        unsafe { put(device, 0) }
    })
}

/// `cuDeviceGetName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, _: c_int) -> c_int {
    with("cuDeviceGetName", |_| {
        let text = c"stand-in of twin-cuda".to_bytes_with_nul();
        let len = usize::try_from(len).map_err(|_| Error::InvalidValue)?;
        if name.is_null() || len < text.len() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: see the front page; it fits.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(())
    })
}

/// `cuDeviceGetAttribute`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: c_int, _: c_int) -> c_int {
    with("cuDeviceGetAttribute", |device| {
        let found = device.attribute(which)?;
        // SAFETY: see the front page.
        unsafe { put(value, found) }
    })
}

/// `cuDevicePrimaryCtxRetain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _: c_int) -> c_int {
    with("cuDevicePrimaryCtxRetain", |_| {
        let one = std::ptr::without_provenance_mut(1);
        // SAFETY: see the front page.
        unsafe { put(context, one) }
    })
}

/// `cuCtxSetCurrent`.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(_: *mut c_void) -> c_int {
    with("cuCtxSetCurrent", |_| Ok(()))
}

/// `cuCtxSynchronize`.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> c_int {
    with("cuCtxSynchronize", |device| device.synchronize())
}

/// `cuModuleLoadData`, of a cubin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int {
    with("cuModuleLoadData", |device| {
        if image.is_null() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: an image is an ELF file, whose header says how long it is.
        let bytes = unsafe {
            let head = std::slice::from_raw_parts(image.cast::<u8>(), 64);
            std::slice::from_raw_parts(image.cast::<u8>(), device::bytes_of(head)?)
        };
        let number = device.load(bytes)?;
        // SAFETY: see the front page.
        unsafe { put(module, std::ptr::without_provenance_mut(number)) }
    })
}

/// `cuModuleUnload`.
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: *mut c_void) -> c_int {
    with("cuModuleUnload", |device| device.unload(module.addr()))
}

/// `cuModuleGetFunction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    with("cuModuleGetFunction", |device| {
        // SAFETY: see the front page.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_str().map_err(|_| Error::NotFound)?;
        let number = device.function(module.addr(), name)?;
        // SAFETY: see the front page.
        unsafe { put(function, std::ptr::without_provenance_mut(number)) }
    })
}

/// `cuFuncGetAttribute`, of shared memory that a kernel declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    which: c_int,
    function: *mut c_void,
) -> c_int {
    with("cuFuncGetAttribute", |device| {
        let found = device.kernel_attribute(function.addr(), which)?;
        // SAFETY: see the front page.
        unsafe { put(value, found) }
    })
}

/// `cuFuncSetAttribute`.
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: *mut c_void, which: c_int, _: c_int) -> c_int {
    with("cuFuncSetAttribute", |device| {
        device.kernel_attribute(function.addr(), which).map(|_| ())
    })
}

/// `cuMemAlloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    with("cuMemAlloc_v2", |device| {
        let at = device.allocate(bytes)?;
        // SAFETY: see the front page.
        unsafe { put(address, at) }
    })
}

/// `cuMemFree`.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    with("cuMemFree_v2", |device| device.free(address))
}

/// `cuMemcpyHtoD`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> c_int {
    with("cuMemcpyHtoD_v2", |device| {
        let place = device.bytes(to, bytes)?;
        // SAFETY: see the front page; both have so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.cast(), place.as_mut_ptr(), bytes) };
        Ok(())
    })
}

/// `cuMemcpyDtoH`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    with("cuMemcpyDtoH_v2", |device| {
        let place = device.bytes(from, bytes)?;
        // SAFETY: see the front page; both have so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), to.cast(), bytes) };
        Ok(())
    })
}

/// `cuLaunchKernel`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // They are NVIDIA's.
pub unsafe extern "C" fn cuLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    _: *mut c_void,
    parameters: *const *const c_void,
    _: *const *const c_void,
) -> c_int {
    with("cuLaunchKernel", |device| {
        let values = device.parameters(function.addr())?.enumerate();
        let values = values.map(|(i, size)| {
            // SAFETY: see the front page: a pointer for each parameter, to as many bytes as it has.
            unsafe { std::slice::from_raw_parts((*parameters.add(i)).cast::<u8>(), size).to_vec() }
        });
        let values: Vec<Vec<u8>> = values.collect();
        device.launch(
            function.addr(),
            [grid_x, grid_y, grid_z],
            [block_x, block_y, block_z],
            shared,
            &values,
        )
    })
}

/// `cuGetErrorName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> c_int {
    let name = Error::of(error).map_or(c"CUDA_ERROR_UNKNOWN", Error::name);
    // SAFETY: see the front page.
    unsafe { put(text, name.as_ptr()) }.map_or_else(|error| error.code(), |()| 0)
}

/// `cuGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    let name = Error::of(error).map_or(c"unknown error", Error::text);
    // SAFETY: see the front page.
    unsafe { put(text, name.as_ptr()) }.map_or_else(|error| error.code(), |()| 0)
}
