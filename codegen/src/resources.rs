//! GPU resources of a compiled kernel.

use std::fmt;

use drivers_spec::nv::cubin::{Cubin, SHARED_RESERVED};

use crate::target::Target;

/// Registers and memory of a kernel, and the resulting occupancy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Vector registers of a work-item, those for accumulators of matrix instructions included.
    pub vector: u32,
    /// Scalar registers of a wave.
    pub scalar: u32,
    /// Spilled vector registers.
    pub spilled: u32,
    /// Local memory of a group, bytes.
    pub local: u32,
    /// Private memory of a work-item, bytes.
    pub private: u32,
    /// Waves that fit a SIMD at the same time.
    pub waves: u32,
    /// Waves of a SIMD at most.
    pub most_waves: u32,
}

impl Resources {
    /// Its numbers, for the compile cache.
    pub(crate) fn words(&self) -> [u32; 7] {
        [
            self.vector,
            self.scalar,
            self.spilled,
            self.local,
            self.private,
            self.waves,
            self.most_waves,
        ]
    }

    /// From [`Resources::words`].
    pub(crate) fn of_words(words: [u32; 7]) -> Resources {
        let [vector, scalar, spilled, local, private, waves, most_waves] = words;
        Resources {
            vector,
            scalar,
            spilled,
            local,
            private,
            waves,
            most_waves,
        }
    }

    /// Of the one kernel of an object for AMD GPUs with so many work-items in a group; `None` for CPUs, and for
    /// objects without metadata.
    ///
    /// Source: LLVM, "User Guide for AMDGPU Backend", code object metadata: a MessagePack map in a note
    /// of the object, with these keys for each kernel.
    pub fn of_amdhsa(object: &[u8], target: &Target, items: u32) -> Option<Resources> {
        let file = target.registers?;
        let (vector, accumulators) = (
            number(object, ".vgpr_count")?,
            number(object, ".agpr_count"),
        );
        // The metadata counts all of them where there are two kinds.
        let vector = vector.max(accumulators.unwrap_or(0));
        let local = number(object, ".group_segment_fixed_size")?;
        let waves_of_group = items.div_ceil(target.wave.max(1) as u32);
        Some(Resources {
            vector,
            scalar: number(object, ".sgpr_count")?,
            spilled: number(object, ".vgpr_spill_count")?,
            local,
            private: number(object, ".private_segment_fixed_size")?,
            waves: file.occupancy(vector, local, waves_of_group),
            most_waves: file.waves,
        })
    }
}

impl Resources {
    /// Of the one kernel of a cubin with so many work-items in a group. Spilled registers are indistinguishable
    /// from other local memory, which our kernels do not use, so all of it counts.
    pub fn of_cubin(cubin: &[u8], target: &Target, items: u32) -> Option<Resources> {
        let file = target.registers?;
        let cubin = Cubin::parse(cubin).ok()?;
        let [kernel] = cubin.kernels.as_slice() else {
            return None;
        };
        let warps = items.div_ceil(target.wave.max(1) as u32);
        let local = kernel.shared_bytes + SHARED_RESERVED;
        Some(Resources {
            vector: kernel.registers,
            scalar: 0,
            spilled: kernel.local_bytes.div_ceil(4),
            local: kernel.shared_bytes,
            private: kernel.local_bytes,
            waves: file.occupancy(kernel.registers, local, warps),
            most_waves: file.waves,
        })
    }
}

impl Resources {
    /// With the local memory that launches ask for, where the object has none of its own.
    pub fn asking(self, target: &Target, bytes: usize, items: u32) -> Resources {
        let Some(file) = target
            .registers
            .filter(|_| target.is_nv() && self.local == 0)
        else {
            return self;
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let warps = items.div_ceil(target.wave.max(1) as u32);
        let local = bytes.saturating_add(SHARED_RESERVED);
        Resources {
            local: bytes,
            waves: file.occupancy(self.vector, local, warps),
            ..self
        }
    }
}

/// The unsigned integer behind a key, in MessagePack: a string of at most 31 bytes (`0xa0` plus its
/// length), then a number below 128 or `0xcc`, `0xcd`, `0xce` and its bytes, the highest first.
fn number(object: &[u8], key: &str) -> Option<u32> {
    let mut text = vec![0xa0 | key.len() as u8];
    text.extend_from_slice(key.as_bytes());
    let at = object.windows(text.len()).position(|w| w == text)? + text.len();
    let (&first, rest) = object.get(at..)?.split_first()?;
    let bytes = match first {
        0..0x80 => return Some(u32::from(first)),
        0xcc => 1,
        0xcd => 2,
        0xce => 4,
        _ => return None,
    };
    let fold = |n: u32, &b: &u8| n << 8 | u32::from(b);
    Some(rest.get(..bytes)?.iter().fold(0, fold))
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} VGPRs, {} SGPRs, {} bytes LDS, {} bytes scratch",
            self.vector, self.scalar, self.local, self.private
        )?;
        if self.spilled > 0 {
            write!(f, " ({} registers spilled)", self.spilled)?;
        }
        write!(f, ", occupancy {}/{}", self.waves, self.most_waves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_keys() {
        let bytes =
            |n: &[u8]| [b"xx\xab.vgpr_count".as_slice(), n, b"\xab.sgpr_count\x07"].concat();
        for (n, want) in [
            (&[0x05][..], Some(5)),
            (&[0xcc, 0x80], Some(128)),
            (&[0xcd, 0x01, 0x00], Some(256)),
            (&[0xce, 0, 1, 0, 0], Some(65536)),
            (&[0xc0], None),
        ] {
            assert_eq!(number(&bytes(n), ".vgpr_count"), want);
        }
        assert_eq!(number(&bytes(&[5]), ".sgpr_count"), Some(7));
        assert_eq!(number(&bytes(&[5]), ".agpr_count"), None);
        assert_eq!(number(b"\xab.vgpr_count", ".vgpr_count"), None);
    }
}
