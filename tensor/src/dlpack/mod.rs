//! DLPack: tensors of other libraries in this process, both ways, without a copy.
//!
//! The structs are those of the interface (version 1, and the one before it without a version).
//!
//! **In**: [`Tensor::from_dlpack`] is a tensor over the producer's memory, with all that [`crate::blob`] says of such memory. It
//! calls the producer's deleter when nothing uses the memory any more.
//!
//! **Out**: [`Tensor::to_dlpack`] computes the tensor, waits for it, and gives its memory away, which stays until the consumer
//! calls the deleter. A tensor is a value: the consumer must not write there, and the read-only flag says so, unless
//! the memory is another owner's who allows it, or a copy. While the export lives, Doorbell does not write there either: a
//! parameter that is set meanwhile gets other memory, and the consumer keeps the old value. The old struct has no such
//! flag. What is exported by it counts as memory that others may change, and each evaluation reads it anew.
//!
//! Values on the CPU are there when the call returns: there is no stream to wait for.
//!
//! Devices: memory of the process (`kDLCPU`, `kDLCUDAHost`, `kDLROCMHost`) on a CPU engine. A GPU that Doorbell drives by itself has
//! addresses that CUDA, HIP and OpenCL do not know: copy the tensor to a CPU engine first. A `cl_mem` of Qualcomm's OpenCL is
//! imported by [`Tensor::from_import`].

pub mod abi;
mod managed;

use std::sync::Arc;

use codegen::DType;
use codegen::target::TargetKind;
use hcq::{Buffer, Sharing};

pub use abi::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
pub use managed::{Managed, Table};

use crate::blob::{Access, Layout, Owner};
use crate::error::Result;
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Engine, Tensor};
use crate::ops::{dtype_error, shape_error};
use managed::Parts;

/// Version of the structs.
pub const MAJOR: u32 = 1;
/// Version of the numbers in them.
pub const MINOR: u32 = 1;

/// What DLPack calls an element type.
pub fn type_of(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::Bool => abi::BOOL,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => abi::INT,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => abi::UINT,
        DType::F8E4M3 => abi::FLOAT8_E4M3FN,
        DType::F8E5M2 => abi::FLOAT8_E5M2,
        DType::BF16 => abi::BFLOAT,
        DType::F16 | DType::F32 | DType::F64 => abi::FLOAT,
    };
    DLDataType {
        code,
        bits: dtype.bits() as u8,
        lanes: 1,
    }
}

/// The element type that DLPack calls so.
///
/// # Errors
/// One that there is not here, by its name.
pub fn dtype_of(ty: DLDataType) -> Result<DType> {
    match DType::ALL.into_iter().find(|&dtype| type_of(dtype) == ty) {
        Some(dtype) => Ok(dtype),
        None => dtype_error(
            "from_dlpack",
            format!(
                "found elements of {}; expected integers, floats or booleans of one lane: convert it in the library that has it",
                ty.name()
            ),
        ),
    }
}

/// The device of an engine as DLPack counts them: kind and number.
///
/// # Errors
/// A device whose memory has no address that other libraries know.
pub fn device_of(engine: &Engine) -> Result<(i32, i32)> {
    executor(engine).map(|_| (abi::CPU, 0))
}

/// The executor of a CPU engine.
fn executor(engine: &Engine) -> Result<&DeviceExecutor> {
    match DeviceExecutor::of(engine) {
        Some(executor) if executor.kind() == TargetKind::Cpu => {
            executor.check()?;
            Ok(executor)
        }
        _ => shape_error(
            "dlpack",
            format!(
                "tensors of {} have no address that other libraries know; move them to a CPU engine with `to`",
                engine.name()
            ),
        ),
    }
}

/// Memory to be given away.
struct Export {
    buffer: Arc<Buffer>,
    access: Access,
}

impl Export {
    fn of(tensor: &Tensor, copy: bool) -> Result<Export> {
        let executor = executor(tensor.engine())?;
        let tensor = match copy && tensor.numel() > 0 {
            true => tensor.copied(),
            false => tensor.clone(),
        };
        let buffer = tensor.in_memory(executor)?;
        let access = match buffer.sharing() {
            _ if copy => Access::ReadWrite,
            Sharing::Writable => Access::ReadWrite,
            Sharing::Own | Sharing::ReadOnly => Access::ReadOnly,
        };
        Ok(Export { buffer, access })
    }

    fn parts(self, tensor: &Tensor, copied: bool) -> Parts {
        let shape: Vec<i64> = tensor.shape().iter().map(|&len| len as i64).collect();
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i].max(1);
        }
        let data = match tensor.numel() {
            0 => 0,
            _ => self.buffer.va().0,
        };
        Parts {
            data,
            dtype: type_of(tensor.dtype()),
            shape,
            strides,
            access: self.access,
            copied,
            keep: self.buffer,
        }
    }
}

impl Tensor {
    /// Its memory for another library: see [the module](crate::dlpack). With `copy`, a copy that the consumer may write.
    ///
    /// # Errors
    /// An engine that is not on the CPU; those of computing the tensor; [`crate::Error::Capture`] inside a captured function.
    pub fn to_dlpack(&self, copy: bool) -> Result<Managed<DLManagedTensorVersioned>> {
        let export = Export::of(self, copy)?;
        Ok(Managed::new(export.parts(self, copy)))
    }

    /// The same by the struct of before version 1, for consumers that take no other.
    ///
    /// # Errors
    /// As [`Tensor::to_dlpack`]; read-only memory of another owner, which this struct cannot say is read-only.
    pub fn to_dlpack_unversioned(&self, copy: bool) -> Result<Managed<DLManagedTensor>> {
        let export = Export::of(self, copy)?;
        if !copy {
            if export.buffer.sharing() == Sharing::ReadOnly {
                return shape_error(
                    "to_dlpack",
                    format!(
                        "{self:?} is in read-only memory of another owner, and the consumer takes no read-only flag; ask for a copy, \
                         or a consumer of DLPack 1"
                    ),
                );
            }
            export.buffer.share(Sharing::Writable);
        }
        Ok(Managed::new(export.parts(self, copy)))
    }

    /// A tensor over the memory of another library: see [the module](crate::dlpack). In any case the deleter is called, at the end or
    /// when this fails.
    ///
    /// # Errors
    /// Another device; elements that there are not here; as [`Tensor::from_blob`].
    pub fn from_dlpack<T: Table>(engine: &Engine, managed: Managed<T>) -> Result<Tensor> {
        let found = managed.tensor();
        let kind = found.device.device_type;
        if !matches!(kind, abi::CPU | abi::CUDA_HOST | abi::ROCM_HOST) {
            return shape_error(
                "from_dlpack",
                format!(
                    "the tensor is in memory of {}, expected memory of the process; move it to the CPU in the library that has it",
                    abi::device_name(kind)
                ),
            );
        }
        let dtype = dtype_of(found.dtype)?;
        let (shape, strides) = managed.axes()?;
        let mut layout = Layout::new(&shape, dtype);
        if let Some(strides) = strides {
            layout = layout.strides(&strides);
        }
        let (first, bytes) = layout.span()?;
        let Ok(offset) = isize::try_from(found.byte_offset) else {
            return shape_error(
                "from_dlpack",
                format!(
                    "its byte offset {} exceeds the address space",
                    found.byte_offset
                ),
            );
        };
        let data: *mut u8 = match found.data.is_null() {
            true => std::ptr::null_mut(),
            false => found
                .data
                .cast::<u8>()
                .wrapping_offset(offset)
                .wrapping_offset(first),
        };
        // Elements before the first one, of negative strides.
        let layout = layout.offset(first.unsigned_abs());
        let access = managed.access();
        let owner: Owner = Arc::new(managed);
        // SAFETY: whoever made a `Managed` of it has promised what the producer promises: the elements that shape and strides reach
        // stay until the deleter is called, which the owner does; they may be written unless the flag says otherwise.
        unsafe { Tensor::from_blob(engine, data, bytes, &layout, access, owner) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test may panic.

    use super::*;

    #[test]
    fn each_type_is_found_by_its_name_and_others_are_refused_by_theirs() {
        for dtype in DType::ALL {
            assert_eq!(dtype_of(type_of(dtype)).unwrap(), dtype);
        }
        let ty = |code, bits, lanes| DLDataType { code, bits, lanes };
        assert_eq!(dtype_of(ty(10, 8, 1)).unwrap(), DType::F8E4M3);
        assert_eq!(dtype_of(ty(12, 8, 1)).unwrap(), DType::F8E5M2);
        assert_eq!(dtype_of(ty(4, 16, 1)).unwrap(), DType::BF16);
        assert_eq!(dtype_of(ty(6, 8, 1)).unwrap(), DType::Bool);
        for (ty, name) in [
            (ty(5, 64, 1), "complex of 64 bits"),
            (ty(2, 32, 4), "float of 32 bits in 4 lanes"),
            (ty(11, 8, 1), "float8_e4m3fnuz"),
            (ty(17, 4, 1), "float4_e2m1fn"),
            (ty(0, 4, 1), "int of 4 bits"),
            (ty(99, 8, 1), "unknown type 99"),
        ] {
            let error = dtype_of(ty).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
