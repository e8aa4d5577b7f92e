//! Where the memory of a `cl_mem` of Qualcomm's OpenCL is: the handle is the address of an object of that library, which
//! has the address of the GPU, for buffers and images alike.
//!
//! Source: tinygrad, docs/runtime.md ("Interoperability with OpenCL on Qualcomm"): 8 bytes at 0xA0 of the object. Nothing
//! that the vendor documents: what is read is checked, and KGSL is asked whether there is memory.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use hcq::{GpuVa, Import};

use crate::encode::ADDRESS_BITS;

/// Where an object has the address of its memory.
const ADDRESS_AT: u64 = 0xa0;

/// The memory of this process.
const MEMORY: &str = "/proc/self/mem";

/// Why the memory of a `cl_mem` is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The handle is no address of an object.
    #[error(
        "cl_mem {handle:#x}: expected the address of an object, a multiple of 8: pass the handle itself, not its address"
    )]
    Handle {
        /// The handle.
        handle: u64,
    },
    /// Nothing can be read there.
    #[error(
        "cl_mem {handle:#x}: its object cannot be read ({why}): the handle may have been released"
    )]
    Unreadable {
        /// The handle.
        handle: u64,
        /// What the system says.
        why: io::Error,
    },
    /// What is there is no address of the GPU.
    #[error(
        "cl_mem {handle:#x}: found {found:#x} at {ADDRESS_AT:#x} of its object, expected a GPU address: not a \
         cl_mem of Qualcomm's OpenCL, or an unsupported version of it"
    )]
    Address {
        /// The handle.
        handle: u64,
        /// What is there.
        found: u64,
    },
}

/// Reads memory.
pub type Peek<'a> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + 'a;

/// Where the GPU has the memory of a `cl_mem`; `peek` reads memory of the process that has made it.
///
/// # Errors
/// [`Error`].
pub fn address(handle: u64, peek: &Peek<'_>) -> Result<GpuVa, Error> {
    let at = handle.checked_add(ADDRESS_AT);
    let Some(at) = at.filter(|_| handle != 0 && handle.is_multiple_of(8)) else {
        return Err(Error::Handle { handle });
    };
    let mut bytes = [0; 8];
    peek(at, &mut bytes).map_err(|why| Error::Unreadable { handle, why })?;
    let found = u64::from_le_bytes(bytes);
    // Memory objects are pages, and their parts (sub-buffers) at least dwords.
    let is_address = found >= 4096 && found >> ADDRESS_BITS == 0 && found.is_multiple_of(4);
    match is_address {
        true => Ok(GpuVa(found)),
        false => Err(Error::Address { handle, found }),
    }
}

/// Reads memory of this process, by the kernel: an address that is none is an error, not a fault.
///
/// # Errors
/// The system's.
pub fn peek_here(at: u64, into: &mut [u8]) -> io::Result<()> {
    File::open(MEMORY)?.read_exact_at(into, at)
}

/// The memory of a `cl_mem` of this process, for [`hcq::Device::import`]: so many bytes of a buffer, or from the first pixel
/// of an image to its last ([`super::Picture::bytes`]). Work of OpenCL on it has ended (`clFinish`). `owner` keeps the
/// `cl_mem` from being released, as a guard that holds a reference (`clRetainMemObject`).
///
/// # Errors
/// [`Error`].
pub fn import(handle: u64, bytes: u64, owner: Arc<dyn Any + Send + Sync>) -> Result<Import, Error> {
    let va = address(handle, &peek_here)?;
    Ok(Import::Device { va, bytes, owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object with some number where the address is.
    fn object(found: u64) -> impl Fn(u64, &mut [u8]) -> io::Result<()> {
        move |at, into: &mut [u8]| match at {
            0x10a0 => {
                into.copy_from_slice(&found.to_le_bytes());
                Ok(())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    #[test]
    fn the_address_is_in_the_object() {
        let found = address(0x1000, &object(0x40_1234_5000));
        assert_eq!(found.unwrap(), GpuVa(0x40_1234_5000));
        for wrong in [0, 1, 4095, 0x40_1234_5001, 1 << 48, u64::MAX] {
            let error = address(0x1000, &object(wrong)).unwrap_err();
            assert!(matches!(error, Error::Address { .. }), "{error}");
        }
        for handle in [0, 0x1001, u64::MAX - 7] {
            let error = address(handle, &object(0x40_1234_5000)).unwrap_err();
            assert!(matches!(error, Error::Handle { .. }), "{error}");
        }
        let error = address(0x2000, &object(0x40_1234_5000)).unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    }

    #[test]
    fn memory_of_this_process_is_read_and_other_addresses_are_errors() {
        let object: Box<[u64; 32]> =
            Box::new(std::array::from_fn(|i| 0x40_0000_0000 + i as u64 * 4096));
        let handle = object.as_ptr().expose_provenance() as u64;
        assert_eq!(address(handle, &peek_here).unwrap(), GpuVa(object[20]));
        let error = address(8, &peek_here).unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    }
}
