//! What a multiprocessor holds, by the number that compilers have for its generation.
//!
//! Source: NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Shared
//! Memory" of each; Mesa, nak/qmd.rs, and tinygrad, ops_nv.py: how QMDs say carve-outs and versions of code.

use drivers_spec::nv::cubin::SHARED_RESERVED;

/// Facts of a multiprocessor.
#[derive(Debug, PartialEq, Eq)]
pub struct Limits {
    /// 86 is sm_86.
    pub sm: u32,
    /// Its carve-outs for shared memory, in KiB.
    carve_outs: &'static [u32],
    /// Warps that it runs at most.
    pub warps: u32,
    /// Blocks that it runs at most.
    pub blocks: u32,
    /// SASS_VERSION of a QMD.
    pub sass_version: u32,
}

/// Threads of a warp.
pub const WARP: u32 = 32;
/// Threads of a block at most; along z 64.
pub const MAX_THREADS: u32 = 1024;
/// Blocks of a grid at most.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Allocation granule of a warp's registers.
pub const REGISTER_GRANULE: u32 = 256;
/// Granules of registers that a multiprocessor has: 64 Ki registers.
pub const REGISTER_GRANULES: u32 = 0x1_0000 / REGISTER_GRANULE;
/// A quarter of a multiprocessor has a quarter of its registers, and warps.
pub const QUARTERS: u32 = 4;

const SMALL: &[u32] = &[0, 8, 16, 32, 64, 100];
const LARGE: &[u32] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228];

const fn limits(
    sm: u32,
    carve_outs: &'static [u32],
    warps: u32,
    blocks: u32,
    sass_version: u32,
) -> Limits {
    Limits {
        sm,
        carve_outs,
        warps,
        blocks,
        sass_version,
    }
}

const ALL: &[Limits] = &[
    limits(80, LARGE.split_at(8).0, 64, 32, 0x80),
    limits(86, SMALL, 48, 16, 0x86),
    limits(89, SMALL, 48, 24, 0x89),
    limits(90, LARGE, 64, 32, 0x90),
    limits(100, LARGE, 64, 32, 0xa0),
    limits(120, SMALL, 48, 24, 0xa4),
];

impl Limits {
    /// Those of a generation; none for one that is not described here.
    pub fn of(sm: u32) -> Option<&'static Limits> {
        ALL.iter().find(|limits| limits.sm == sm)
    }

    /// Every generation that is described here.
    pub fn all() -> &'static [Limits] {
        ALL
    }

    /// Maximum bytes of shared memory of a block, including the system's.
    pub fn shared(&self) -> u32 {
        self.carve_outs.last().map_or(0, |kib| kib << 10)
    }

    /// The same without.
    pub fn shared_of_block(&self) -> u32 {
        self.shared() - SHARED_RESERVED
    }

    /// The QMD's encoding of the smallest carve-out of at least `bytes`; of the largest one if all are smaller.
    #[inline]
    pub fn carve_out(&self, bytes: u32) -> u32 {
        let fits = self.carve_outs.iter().find(|&&kib| kib << 10 >= bytes);
        fits.or(self.carve_outs.last()).map_or(0, |kib| kib / 4 + 1)
    }

    /// Warps of a block that fit in a multiprocessor's registers, for a number of granules each.
    pub fn warps_of(&self, granules: u32) -> u32 {
        REGISTER_GRANULES / QUARTERS / granules.max(1) * QUARTERS
    }

    /// Blocks that run on a multiprocessor at once, by warps and registers.
    #[inline]
    pub fn resident(&self, warps: u32, granules: u32) -> u32 {
        let warps = warps.max(1);
        let by_registers = self.warps_of(granules) / warps;
        self.blocks.min(self.warps / warps).min(by_registers).max(1)
    }
}

/// Granules of registers of a warp, for a number of registers per thread.
pub const fn granules(registers: u32) -> u32 {
    (registers * WARP).div_ceil(REGISTER_GRANULE)
}

#[cfg(test)]
mod tests {
    use drivers_spec::nv::chip::CHIPS;

    use super::*;

    #[test]
    fn every_chip_has_limits() {
        for chip in CHIPS {
            let limits = Limits::of(chip.sm).unwrap();
            assert!(limits.carve_outs.is_sorted() && limits.shared() <= 228 << 10);
            assert!(limits.warps * WARP >= MAX_THREADS);
        }
        assert_eq!(Limits::of(87), None);
    }

    /// Source: CUDA C++ Programming Guide, "Maximum amount of shared memory per thread block".
    #[test]
    fn a_block_has_as_much_shared_memory_as_the_guide_says() {
        let kib = |sm| Limits::of(sm).unwrap().shared_of_block() >> 10;
        assert_eq!(
            [80, 86, 89, 90, 100, 120].map(kib),
            [163, 99, 99, 227, 227, 99]
        );
    }

    /// As Mesa and tinygrad say carve-outs.
    #[test]
    fn carve_outs_are_the_next_larger_ones() {
        let hopper = Limits::of(90).unwrap();
        let codes = [0, 1, 8 << 10, 33 << 10, 228 << 10, 1 << 20].map(|b| hopper.carve_out(b));
        assert_eq!(codes, [1, 3, 3, 17, 0x3a, 0x3a]);
        assert_eq!(Limits::of(86).unwrap().carve_out(u32::MAX), 0x1a);
    }

    #[test]
    fn blocks_are_bound_by_warps_registers_and_their_number() {
        let ada = Limits::of(89).unwrap();
        assert_eq!(ada.resident(1, granules(16)), 24);
        assert_eq!(ada.resident(32, granules(16)), 1);
        assert_eq!(ada.resident(8, granules(40)), 6);
        // 64 warps of 1024 registers, but 48 run.
        assert_eq!(ada.resident(4, granules(32)), 12);
        assert_eq!(ada.resident(4, granules(255)), 2);
        assert_eq!(ada.warps_of(granules(255)), 8);
        assert_eq!(ada.warps_of(granules(168)), 12);
    }
}
