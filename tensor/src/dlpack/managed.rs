//! Structs of DLPack with their deleters.
//!
//! `unsafe`: reads the structs and calls the deleters of producers, as whoever hands one over promises; frees its own.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use hcq::Buffer;

use super::abi::{
    self, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use super::{MAJOR, MINOR};
use crate::blob::Access;
use crate::error::Result;
use crate::ops::shape_error;

/// A tensor to be given away.
pub struct Parts {
    /// The first element; 0 if there is none.
    pub(super) data: u64,
    pub(super) dtype: DLDataType,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) access: Access,
    pub(super) copied: bool,
    /// The memory.
    pub(super) keep: Arc<Buffer>,
}

/// A struct of DLPack with a deleter: [`DLManagedTensor`] or [`DLManagedTensorVersioned`].
pub trait Table: sealed::Struct {}

impl Table for DLManagedTensor {}
impl Table for DLManagedTensorVersioned {}

mod sealed {
    use super::{Access, DLPackVersion, DLTensor, NonNull, Parts, c_void};

    /// What both structs have.
    pub trait Struct: Sized + 'static {
        /// One of this library, whose context is `context`.
        fn filled(tensor: DLTensor, context: *mut c_void, parts: &Parts) -> Self;

        /// # Safety
        /// One that the producer has not deleted, whatever its version.
        unsafe fn version(at: NonNull<Self>) -> Option<DLPackVersion>;

        /// # Safety
        /// As before, and nobody uses it later.
        unsafe fn delete(at: NonNull<Self>);

        fn tensor(&self) -> &DLTensor;

        fn access(&self) -> Access;
    }
}
use sealed::Struct;

/// What a struct of this library points to, with the struct.
struct Held<T> {
    table: Option<T>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _keep: Arc<Buffer>,
}

impl Struct for DLManagedTensor {
    fn filled(tensor: DLTensor, context: *mut c_void, _: &Parts) -> Self {
        DLManagedTensor {
            dl_tensor: tensor,
            manager_ctx: context,
            deleter: Some(free_unversioned),
        }
    }

    unsafe fn version(_: NonNull<Self>) -> Option<DLPackVersion> {
        None
    }

    unsafe fn delete(at: NonNull<Self>) {
        // SAFETY: the caller's promise: the struct is whole, and its deleter takes it.
        unsafe {
            if let Some(deleter) = (*at.as_ptr()).deleter {
                deleter(at.as_ptr());
            }
        }
    }

    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn access(&self) -> Access {
        Access::ReadWrite
    }
}

impl Struct for DLManagedTensorVersioned {
    fn filled(tensor: DLTensor, context: *mut c_void, parts: &Parts) -> Self {
        let read_only = match parts.access {
            Access::ReadOnly => abi::READ_ONLY,
            Access::ReadWrite => 0,
        };
        let copied = if parts.copied { abi::IS_COPIED } else { 0 };
        DLManagedTensorVersioned {
            version: DLPackVersion {
                major: MAJOR,
                minor: MINOR,
            },
            manager_ctx: context,
            deleter: Some(free_versioned),
            flags: read_only | copied,
            dl_tensor: tensor,
        }
    }

    unsafe fn version(at: NonNull<Self>) -> Option<DLPackVersion> {
        // SAFETY: the caller's promise: the version is the first field of all versions.
        Some(unsafe { (&raw const (*at.as_ptr()).version).read() })
    }

    unsafe fn delete(at: NonNull<Self>) {
        // SAFETY: the caller's promise; the deleter is at the same place in all versions.
        unsafe {
            if let Some(deleter) = (&raw const (*at.as_ptr()).deleter).read() {
                deleter(at.as_ptr());
            }
        }
    }

    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn access(&self) -> Access {
        match self.flags & abi::READ_ONLY {
            0 => Access::ReadWrite,
            _ => Access::ReadOnly,
        }
    }
}

unsafe extern "C" fn free_unversioned(table: *mut DLManagedTensor) {
    if !table.is_null() {
        // SAFETY: one that `Managed::new` has made, which its consumer deletes once: the context is its box.
        drop(unsafe { Box::from_raw((*table).manager_ctx.cast::<Held<DLManagedTensor>>()) });
    }
}

unsafe extern "C" fn free_versioned(table: *mut DLManagedTensorVersioned) {
    if !table.is_null() {
        // SAFETY: as above.
        drop(unsafe {
            Box::from_raw(
                (*table)
                    .manager_ctx
                    .cast::<Held<DLManagedTensorVersioned>>(),
            )
        });
    }
}

/// A tensor of DLPack that this side owns: when it is dropped, the deleter is called.
#[derive(Debug)]
pub struct Managed<T: Table>(NonNull<T>);

// SAFETY: a struct of DLPack belongs to one owner, which may be any thread, and whose deleter may be called by any; nothing
// changes what is in it.
unsafe impl<T: Table> Send for Managed<T> {}
// SAFETY: as above: it is only read.
unsafe impl<T: Table> Sync for Managed<T> {}

impl<T: Table> Drop for Managed<T> {
    fn drop(&mut self) {
        // SAFETY: it is this one's, by `from_raw` or `new`, and not used later.
        unsafe { T::delete(self.0) };
    }
}

impl<T: Table> Managed<T> {
    /// A struct for a consumer, of memory that it keeps.
    pub(super) fn new(parts: Parts) -> Managed<T> {
        let raw = Box::into_raw(Box::new(Held {
            table: None,
            shape: parts.shape.clone(),
            strides: parts.strides.clone(),
            _keep: parts.keep.clone(),
        }));
        // SAFETY: the box that was just made, of which nobody else knows; it is freed by the deleter alone.
        let held: &mut Held<T> = unsafe { &mut *raw };
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(parts.data as usize),
            device: DLDevice {
                device_type: abi::CPU,
                device_id: 0,
            },
            ndim: parts.shape.len() as i32,
            dtype: parts.dtype,
            shape: held.shape.as_mut_ptr(),
            strides: held.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let filled = T::filled(tensor, raw.cast(), &parts);
        Managed(NonNull::from(held.table.insert(filled)))
    }

    /// The struct, which is the caller's from now on: it, or whoever it hands it to, calls the deleter.
    pub fn into_raw(self) -> *mut T {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    /// The struct of a producer, which is this one's from now on, also where this fails.
    ///
    /// # Errors
    /// A null pointer; a version whose layout is another one.
    ///
    /// # Safety
    /// It came from a producer (or [`Managed::into_raw`]), nobody else owns it, and its memory is what [`crate::Tensor::from_blob`] asks for
    /// until the deleter is called, which any thread may do.
    pub unsafe fn from_raw(raw: *mut T) -> Result<Managed<T>> {
        let Some(at) = NonNull::new(raw) else {
            return shape_error(
                "from_dlpack",
                "expected a tensor of DLPack, found a null pointer".into(),
            );
        };
        let managed = Managed(at);
        // SAFETY: the caller's promise.
        match unsafe { T::version(at) } {
            Some(version) if version.major != MAJOR => shape_error(
                "from_dlpack",
                format!(
                    "expected DLPack {MAJOR}, found {}.{}; ask the producer for that (max_version)",
                    version.major, version.minor
                ),
            ),
            _ => Ok(managed),
        }
    }

    fn table(&self) -> &T {
        // SAFETY: it lives until this one is dropped, in the layout of this version, and is only read.
        unsafe { self.0.as_ref() }
    }

    /// The tensor in it.
    pub fn tensor(&self) -> &DLTensor {
        self.table().tensor()
    }

    /// What may be done with its memory.
    pub fn access(&self) -> Access {
        self.table().access()
    }

    /// Sizes and strides of the axes.
    ///
    /// # Errors
    /// Negative numbers; axes without sizes.
    pub(super) fn axes(&self) -> Result<(Vec<usize>, Option<Vec<isize>>)> {
        let tensor = self.tensor();
        let Ok(rank) = usize::try_from(tensor.ndim) else {
            return wrong(format!("{} axes", tensor.ndim));
        };
        if rank == 0 {
            return Ok((Vec::new(), None));
        }
        if tensor.shape.is_null() {
            return wrong(format!("{rank} axes without sizes"));
        }
        // SAFETY: the producer's promise: as many numbers as axes, which nobody changes while this one lives.
        let sizes = unsafe { std::slice::from_raw_parts(tensor.shape, rank) };
        let shape = sizes.iter().map(|&len| usize::try_from(len));
        let Ok(shape) = shape.collect::<Result<Vec<usize>, _>>() else {
            return wrong(format!("the shape {sizes:?}"));
        };
        if tensor.strides.is_null() {
            return Ok((shape, None));
        }
        // SAFETY: as above.
        let steps = unsafe { std::slice::from_raw_parts(tensor.strides, rank) };
        let strides = steps.iter().map(|&step| isize::try_from(step));
        match strides.collect::<Result<Vec<isize>, _>>() {
            Ok(strides) => Ok((shape, Some(strides))),
            Err(_) => wrong(format!("the strides {steps:?}")),
        }
    }
}

fn wrong<T>(found: String) -> Result<T> {
    shape_error(
        "from_dlpack",
        format!("found {found}; the producer's tensor is damaged"),
    )
}
