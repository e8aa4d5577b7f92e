//! Flushes subnormal weights to zero, for devices that do so in kernels.
//!
//! Kernels of such a device would flush them anyway. Doing it once gives a weight the same value everywhere: in a
//! sum, in an output, on another device.

use codegen::DType;

use super::data::FilePlace;
use crate::exec::DeviceExecutor;
use crate::graph::{Engine, Source};

/// Whether the weights of a model on this engine have subnormal numbers replaced.
pub(super) fn are_zeros(engine: &Engine) -> bool {
    DeviceExecutor::of(engine).is_some_and(|e| !e.device().info().can.subnormals)
}

/// Replaces the subnormal numbers in little-endian elements by zeros of the same sign. Those of
/// halves and of narrower floats are left: they are normal numbers once they are computed with.
pub(super) fn flush(dtype: DType, bytes: &mut [u8]) {
    match dtype {
        DType::F64 => bytes.as_chunks_mut().0.iter_mut().for_each(|e| {
            let bits = u64::from_le_bytes(*e);
            if bits << 1 >> 53 == 0 {
                *e = (bits >> 63 << 63).to_le_bytes();
            }
        }),
        DType::F32 => bytes.as_chunks_mut().0.iter_mut().for_each(|e| {
            let bits = u32::from_le_bytes(*e);
            let keep = if bits << 1 >> 24 == 0 { 1 << 31 } else { !0 };
            *e = (bits & keep).to_le_bytes();
        }),
        DType::BF16 => bytes.as_chunks_mut().0.iter_mut().for_each(|e| {
            let bits = u16::from_le_bytes(*e);
            let keep = if bits << 1 >> 8 == 0 { 1 << 15 } else { !0 };
            *e = (bits & keep).to_le_bytes();
        }),
        _ => {}
    }
}

/// Elements in a file, without subnormal numbers.
#[derive(Debug)]
pub(super) struct Flushed {
    pub(super) place: FilePlace,
    pub(super) dtype: DType,
}

impl Source for Flushed {
    fn bytes(&self) -> usize {
        self.place.bytes()
    }

    fn read_at(&self, offset: usize, into: &mut [u8]) -> std::io::Result<()> {
        let size = self.dtype.size();
        let before = offset % size;
        if before == 0 && into.len().is_multiple_of(size) {
            self.place.read_at(offset, into)?;
            flush(self.dtype, into);
            return Ok(());
        }
        // Parts of elements at the ends: whole ones are read.
        let mut whole = vec![0; (before + into.len()).next_multiple_of(size)];
        self.place.read_at(offset - before, &mut whole)?;
        flush(self.dtype, &mut whole);
        into.copy_from_slice(&whole[before..before + into.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushed<const N: usize>(dtype: DType, elements: &[[u8; N]]) -> Vec<u8> {
        let mut bytes = elements.concat();
        flush(dtype, &mut bytes);
        bytes
    }

    #[test]
    fn subnormal_numbers_of_each_type_become_zeros_and_nothing_else_changes() {
        let (tiny, least) = (1e-40f32, f32::MIN_POSITIVE);
        let singles = [tiny, -tiny, least, -least, 0.0, -0.0, 1.0, f32::INFINITY];
        let wanted = [0.0, -0.0, least, -least, 0.0, -0.0, 1.0, f32::INFINITY];
        let bytes = |list: [f32; 8]| list.map(f32::to_le_bytes);
        assert_eq!(flushed(DType::F32, &bytes(singles)), bytes(wanted).concat());
        let (tiny, least) = (1e-310f64, f64::MIN_POSITIVE);
        let doubles = [tiny, -tiny, least, -0.0, f64::NEG_INFINITY].map(f64::to_le_bytes);
        let wanted = [0.0, -0.0, least, -0.0, f64::NEG_INFINITY].map(f64::to_le_bytes);
        assert_eq!(flushed(DType::F64, &doubles), wanted.concat());
        let brains = [0x007fu16, 0x8001, 0x0080, 0x8080, 0x7f80].map(u16::to_le_bytes);
        let wanted = [0u16, 0x8000, 0x0080, 0x8080, 0x7f80].map(u16::to_le_bytes);
        assert_eq!(flushed(DType::BF16, &brains), wanted.concat());
        let halves = [1u16, 0x03ff, 0x8001].map(u16::to_le_bytes);
        assert_eq!(flushed(DType::F16, &halves), halves.concat());
        let ints = [1u32, 2, 3].map(u32::to_le_bytes);
        assert_eq!(flushed(DType::I32, &ints), ints.concat());
    }
}
