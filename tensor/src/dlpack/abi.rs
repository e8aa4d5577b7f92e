//! The structs and numbers of DLPack.
//!
//! Source: `include/dlpack/dlpack.h` of dmlc/dlpack, version 1.1.

use std::ffi::c_void;

/// `kDLCPU`: memory of the process.
pub const CPU: i32 = 1;
/// `kDLCUDAHost`: memory of the process that CUDA has pinned.
pub const CUDA_HOST: i32 = 3;
/// `kDLROCMHost`: memory of the process that HIP has pinned.
pub const ROCM_HOST: i32 = 11;

/// Kinds of devices by number.
const DEVICES: [(i32, &str); 16] = [
    (CPU, "kDLCPU"),
    (2, "kDLCUDA"),
    (CUDA_HOST, "kDLCUDAHost"),
    (4, "kDLOpenCL"),
    (7, "kDLVulkan"),
    (8, "kDLMetal"),
    (9, "kDLVPI"),
    (10, "kDLROCM"),
    (ROCM_HOST, "kDLROCMHost"),
    (12, "kDLExtDev"),
    (13, "kDLCUDAManaged"),
    (14, "kDLOneAPI"),
    (15, "kDLWebGPU"),
    (16, "kDLHexagon"),
    (17, "kDLMAIA"),
    (18, "kDLTrn"),
];

/// The name of a kind of device.
pub(super) fn device_name(kind: i32) -> String {
    let known = DEVICES.iter().find(|(number, _)| *number == kind);
    known.map_or_else(
        || format!("the unknown device type {kind}"),
        |known| known.1.into(),
    )
}

/// `kDLInt`.
pub const INT: u8 = 0;
/// `kDLUInt`.
pub const UINT: u8 = 1;
/// `kDLFloat`: IEEE 754.
pub const FLOAT: u8 = 2;
/// `kDLBfloat`.
pub const BFLOAT: u8 = 4;
/// `kDLBool`: one byte.
pub const BOOL: u8 = 6;
/// `kDLFloat8_e4m3fn`.
pub const FLOAT8_E4M3FN: u8 = 10;
/// `kDLFloat8_e5m2`.
pub const FLOAT8_E5M2: u8 = 12;

/// Kinds of elements by number. Those behind `bool` have their bits in their names.
const TYPES: [&str; 18] = [
    "int",
    "uint",
    "float",
    "handle",
    "bfloat",
    "complex",
    "bool",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
];

/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
pub const READ_ONLY: u64 = 1;
/// `DLPACK_FLAG_BITMASK_IS_COPIED`.
pub const IS_COPIED: u64 = 2;

/// The version of a struct.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLPackVersion {
    /// Of the layout.
    pub major: u32,
    /// Of the numbers.
    pub minor: u32,
}

/// A device.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDevice {
    /// `DLDeviceType`.
    pub device_type: i32,
    /// Which one.
    pub device_id: i32,
}

/// An element type.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDataType {
    /// `DLDataTypeCode`.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes of an element.
    pub lanes: u16,
}

impl DLDataType {
    /// What people call it.
    pub(super) fn name(self) -> String {
        let Some(kind) = TYPES.get(self.code as usize) else {
            return format!("the unknown type {}", self.code);
        };
        match self.lanes {
            1 => format!("{kind} of {} bits", self.bits),
            n => format!("{kind} of {} bits in {n} lanes", self.bits),
        }
    }
}

/// A tensor in memory, which something else keeps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The memory; null if there are no elements.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// Number of axes.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// Sizes of the axes.
    pub shape: *mut i64,
    /// Distances in elements; null for row-major.
    pub strides: *mut i64,
    /// Where in the memory the first element is, bytes.
    pub byte_offset: u64,
}

/// A tensor with what keeps it, from before version 1.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor with what keeps it.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Up to the flags all versions are the same.
    pub version: DLPackVersion,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once by the consumer, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`READ_ONLY`], [`IS_COPIED`].
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

// As a C compiler lays the header's structs out where a pointer has 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<DLPackVersion>() == 8);
    assert!(size_of::<DLDevice>() == 8);
    assert!(size_of::<DLDataType>() == 4);
    assert!(size_of::<DLTensor>() == 48);
    assert!(offset_of!(DLTensor, device) == 8);
    assert!(offset_of!(DLTensor, ndim) == 16);
    assert!(offset_of!(DLTensor, dtype) == 20);
    assert!(offset_of!(DLTensor, shape) == 24);
    assert!(offset_of!(DLTensor, strides) == 32);
    assert!(offset_of!(DLTensor, byte_offset) == 40);
    assert!(size_of::<DLManagedTensor>() == 64);
    assert!(offset_of!(DLManagedTensor, manager_ctx) == 48);
    assert!(offset_of!(DLManagedTensor, deleter) == 56);
    assert!(size_of::<DLManagedTensorVersioned>() == 80);
    assert!(offset_of!(DLManagedTensorVersioned, manager_ctx) == 8);
    assert!(offset_of!(DLManagedTensorVersioned, deleter) == 16);
    assert!(offset_of!(DLManagedTensorVersioned, flags) == 24);
    assert!(offset_of!(DLManagedTensorVersioned, dl_tensor) == 32);
};
