//! The header that every amdgpu firmware file starts with.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.h, `struct common_firmware_header`.

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `common_firmware_header`, 32 bytes, little-endian; names as in the source.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CommonFirmwareHeader {
    /// Size of the file in bytes.
    pub size_bytes: U32,
    /// Size of the whole header of this block's version in bytes.
    pub header_size_bytes: U32,
    /// Layout of the header.
    pub header_version_major: U16,
    /// Layout of the header, compatible changes.
    pub header_version_minor: U16,
    /// Version of the hardware block.
    pub ip_version_major: U16,
    /// Version of the hardware block.
    pub ip_version_minor: U16,
    /// Version of the code.
    pub ucode_version: U32,
    /// Size of the code in bytes.
    pub ucode_size_bytes: U32,
    /// Offset of the code from the start of the file in bytes.
    pub ucode_array_offset_bytes: U32,
    /// Checksum of the payload. The kernel driver prints it and does not check it; what it is
    /// computed over is UNKNOWN here.
    pub crc32: U32,
}

const _: () = assert!(size_of::<CommonFirmwareHeader>() == 32);
