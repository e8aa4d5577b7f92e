//! Scratch: per-lane memory for values that do not fit in registers.
//!
//! Hardware assigns a slot to each running wave. COMPUTE_TMPRING_SIZE has the number of slots and their
//! size; memory for all of them is allocated before a kernel starts.

use drivers_spec::amd::regs;
use hcq::GpuVa;

use crate::chip::{Chip, Units};

/// Scratch memory of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scratch {
    /// Where it is.
    pub base: GpuVa,
    /// Bytes of it, for all XCCs.
    pub bytes: u64,
    /// Bytes of a lane, for waves of 64.
    pub lane_bytes: u32,
    /// COMPUTE_TMPRING_SIZE.
    pub tmpring: u32,
}

/// Lanes that a slot is large enough for.
const LANES: u64 = 64;

impl Scratch {
    /// The memory for `lane_bytes` per lane, with a slot for every wave that a chip with these units
    /// can hold; its address is set later ([`Scratch::at`]). `None` if a lane cannot
    /// have that much.
    pub fn plan(chip: &Chip, units: &Units, lane_bytes: u32) -> Option<Scratch> {
        let generation = chip.generation;
        let granule = u64::from(generation.scratch_granule);
        let wave = (u64::from(lane_bytes) * LANES).next_multiple_of(granule);
        let engines = units.engines();
        let waves = units.cus().checked_mul(units.scratch_slots)?;
        // Hardware shares the slots of an XCC evenly among its engines.
        let per_engine = waves / engines;
        let counted = if generation.tmpring_per_engine {
            per_engine
        } else {
            per_engine * engines
        };
        let size = generation.tmpring_wavesize;
        let units_of_wave = u32::try_from(wave / granule).ok()?;
        if size.get(size.put(units_of_wave)) != units_of_wave || regs::WAVES.get(counted) != counted
        {
            return None;
        }
        let bytes = wave
            .checked_mul(u64::from(waves))?
            .checked_mul(u64::from(units.xccs.max(1)))?;
        Some(Scratch {
            base: GpuVa(0),
            bytes,
            lane_bytes: u32::try_from(wave / LANES).ok()?,
            tmpring: regs::WAVES.put(counted) | size.put(units_of_wave),
        })
    }

    /// The same at an address, a multiple of 256.
    pub fn at(self, base: GpuVa) -> Scratch {
        Scratch { base, ..self }
    }

    /// The buffer resource that reaches it: dwords that interleave the lanes of a wave. How many lanes those
    /// are is not in it: the command processor fills that in for an AQL queue.
    ///
    /// Source: ROCR, amd_aql_queue.cpp, InitScratchSRD; RDNA2 ISA, "buffer resource descriptor".
    pub fn resource(&self, chip: &Chip) -> Option<[u32; 4]> {
        /// Word 1: swizzled.
        const SWIZZLE_ENABLE: u32 = 1 << 31;
        Some([
            self.base.lo(),
            self.base.hi() & 0xffff | SWIZZLE_ENABLE,
            u32::MAX,
            chip.generation.scratch_resource?,
        ])
    }

    /// The same for waves of 32 or 64 lanes.
    pub fn resource_of(&self, chip: &Chip, wave32: bool) -> Option<[u32; 4]> {
        /// Word 3: the stride of the index, 32 or 64 lanes.
        const INDEX_STRIDE_32: u32 = 2 << 21;
        const INDEX_STRIDE_64: u32 = 3 << 21;
        let mut words = self.resource(chip)?;
        words[3] |= if wave32 {
            INDEX_STRIDE_32
        } else {
            INDEX_STRIDE_64
        };
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{GFX942, GFX1030, GFX1100};

    fn units(cus: u32, engines: u32, xccs: u32) -> Units {
        Units {
            simds: cus * 2 * xccs,
            simds_per_cu: 2,
            xccs,
            arrays: engines * xccs,
            arrays_per_engine: 1,
            scratch_slots: 32,
            lds_kib: 64,
        }
    }

    /// As another driver, which has run on such cards, computes them for 128 bytes.
    #[test]
    fn sizes_are_the_known_ones() {
        let plan = |chip, units| {
            let s = Scratch::plan(chip, &units, 128).unwrap();
            (s.tmpring, s.bytes, s.lane_bytes)
        };
        assert_eq!(plan(&GFX1100, units(96, 6, 1)), (0x20200, 0x180_0000, 128));
        assert_eq!(plan(&GFX942, units(38, 4, 8)), (0x84c0, 0x4c0_0000, 128));
    }

    #[test]
    fn a_lane_has_whole_granules_and_a_limit() {
        let units = units(80, 4, 1);
        let lane = |bytes| Scratch::plan(&GFX1030, &units, bytes).map(|s| s.lane_bytes);
        assert_eq!(lane(1), Some(16));
        assert_eq!(lane(0), Some(0));
        assert_eq!(lane(17), Some(32));
        // 13 bits of 1 KiB for 64 lanes.
        assert_eq!(lane(0x1fff * 16), Some(0x1fff * 16));
        assert_eq!(lane(0x1fff * 16 + 1), None);
        assert_eq!(lane(u32::MAX), None);
    }

    #[test]
    fn the_resource_interleaves_the_lanes_of_a_wave() {
        let scratch = Scratch::default().at(GpuVa(0x7e40_0000_0000));
        let of = |wave32| scratch.resource_of(&GFX1030, wave32).unwrap();
        assert_eq!(of(true), [0, 0x8000_7e40, u32::MAX, 0x21c1_4fac]);
        assert_eq!(of(false)[3], 0x21e1_4fac);
        assert_eq!(scratch.resource(&GFX942), None);
    }
}
