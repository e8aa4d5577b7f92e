//! Memory that is shared with other libraries: DLPack's capsules, and pointers.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::NonNull;

use doorbell::tensor::blob::{Access, Layout, Owner};
use doorbell::tensor::dlpack::{
    self, DLManagedTensor, DLManagedTensorVersioned, Managed, Table, device_of,
};
use doorbell::{Engine, Tensor};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::{Done, exception, wrong_type};

const NEW: &CStr = c"dltensor_versioned";
const NEW_USED: &CStr = c"used_dltensor_versioned";
const OLD: &CStr = c"dltensor";
const OLD_USED: &CStr = c"used_dltensor";

/// Whether a device reads the memory of the host where it is.
///
/// # Errors
/// It does not.
pub(crate) fn reads_host(engine: &Engine) -> Done<()> {
    match device_of(engine)? {
        (1, _) => Ok(()),
        (kind, index) => Err(exception(
            "PlaceError",
            &format!(
                "{}: device {kind}:{index} of DLPack does not read memory of the host",
                engine.name()
            ),
        )),
    }
}

/// A tensor over memory that is there while the owner lives.
pub(crate) fn of_memory(
    engine: &Engine,
    start: *mut u8,
    bytes: usize,
    layout: &Layout,
    access: Access,
    owner: Owner,
) -> Done<Tensor> {
    // SAFETY: the owner is the array whose interface named the memory: numpy keeps that of an array that is referenced.
    Ok(unsafe { Tensor::from_blob(engine, start, bytes, layout, access, owner) }?)
}

/// A tensor in the memory of an object with `__dlpack__`.
pub(crate) fn of_producer(given: &Bound<'_, PyAny>, engine: &Engine) -> Done<Tensor> {
    let py = given.py();
    let kwargs = PyDict::new(py);
    kwargs.set_item("max_version", (dlpack::MAJOR, dlpack::MINOR))?;
    let capsule = match given.call_method("__dlpack__", (), Some(&kwargs)) {
        // Producers from before version 1 have no such argument.
        Err(e) if e.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            given.call_method0("__dlpack__")?
        }
        found => found?,
    };
    let Ok(capsule) = capsule.cast::<PyCapsule>() else {
        let class = capsule.get_type().name()?.to_string();
        return Err(wrong_type(format!("__dlpack__ returned {class}, expected a capsule")).into());
    };
    of_capsule(capsule, engine)
}

fn of_capsule(capsule: &Bound<'_, PyCapsule>, engine: &Engine) -> Done<Tensor> {
    if let Some(raw) = taken::<DLManagedTensorVersioned>(capsule, NEW, NEW_USED)? {
        // SAFETY: taken from a capsule that a producer made, and that was not used.
        let managed = unsafe { Managed::from_raw(raw.as_ptr()) }?;
        return Ok(Tensor::from_dlpack(engine, managed)?);
    }
    if let Some(raw) = taken::<DLManagedTensor>(capsule, OLD, OLD_USED)? {
        // SAFETY: as above.
        let managed = unsafe { Managed::from_raw(raw.as_ptr()) }?;
        return Ok(Tensor::from_dlpack(engine, managed)?);
    }
    Err(exception(
        "Error",
        "from_dlpack: expected a capsule \"dltensor_versioned\" or \"dltensor\"; found another, or one that was used",
    ))
}

/// What a capsule of this name holds; it is marked as used.
fn taken<T>(
    capsule: &Bound<'_, PyCapsule>,
    name: &'static CStr,
    used: &'static CStr,
) -> PyResult<Option<NonNull<T>>> {
    // SAFETY: the object is a capsule, and the interpreter is attached; the name is checked before the pointer is taken, and
    // the new one lives for ever.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 0 {
            return Ok(None);
        }
        let raw = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
        if raw.is_null() || ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(NonNull::new(raw.cast()))
    }
}

/// A capsule of the tensor: in its memory, or of a copy.
pub(crate) fn made<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    copy: bool,
    has_version: bool,
) -> Done<Bound<'py, PyAny>> {
    match has_version {
        true => capsule(py, NEW, py.detach(|| tensor.to_dlpack(copy))?),
        false => capsule(py, OLD, py.detach(|| tensor.to_dlpack_unversioned(copy))?),
    }
}

fn capsule<'py, T: Table>(
    py: Python<'py>,
    name: &'static CStr,
    managed: Managed<T>,
) -> Done<Bound<'py, PyAny>> {
    let destructor = match name == NEW {
        true => dropped::<DLManagedTensorVersioned> as unsafe extern "C" fn(*mut ffi::PyObject),
        false => dropped::<DLManagedTensor>,
    };
    let raw = managed.into_raw();
    // SAFETY: the capsule owns the tensor, until a consumer renames it: then the destructor leaves it alone.
    unsafe {
        let made = ffi::PyCapsule_New(raw.cast(), name.as_ptr(), Some(destructor));
        if made.is_null() {
            drop(Managed::from_raw(raw));
            return Err(PyErr::fetch(py).into());
        }
        Ok(Bound::from_owned_ptr(py, made))
    }
}

/// Frees what nobody took from a capsule.
///
/// # Safety
/// The interpreter calls it with the capsule, attached.
unsafe extern "C" fn dropped<T: Table>(capsule: *mut ffi::PyObject) {
    for name in [NEW, OLD] {
        // SAFETY: a capsule that still has the name that it was made with holds the tensor that it was made of, of the type that
        // this function was chosen for.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) != 0 {
                let raw = ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
                drop(Managed::<T>::from_raw(raw.cast()));
            }
        }
    }
}
