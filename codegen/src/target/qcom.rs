//! Adreno GPUs of generation 6, by the rows of `drivers_spec::qcom::chip`.
//!
//! Register file, waves and local memory: Mesa `freedreno_devices.py` and `ir3_compiler.c`, as those rows have them.
//! Rates: measurements on an A630 by others (arithmetic of 345 to 468 GFLOPS on `f32` at 710 MHz on two shader
//! processors, 150 GB/s from the texture cache); none of ours.

use drivers_spec::qcom::chip::{CHIPS, Chip as Row, MAX_SIDE, PITCH_ALIGNMENT, by_name};

use super::{Atomics, GroupCosts, ImageCosts, RegisterFile, Target, TargetKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir3::Chip;

/// The architecture.
pub(crate) const ARCH: &str = "adreno6xx";

/// Registers of 32 bits that a work-item can name: r0 to r47.
const REGISTERS: usize = 48 * 4;

/// What the parts of a launch cost.
const GROUPS: GroupCosts = GroupCosts {
    other_registers: 24,
    // A quarter of the file: eight waves of 64 stay.
    max_sums: 32,
    max_loads: 16,
    max_single_loads: [8, 8],
    max_products: 256,
    max_items: 256,
    address: 4.0,
    products: 128.0,
    matrix_products: [0.0; 4],
    local_bytes: 64.0,
    memory_bytes: 32.0,
    step_latency: 400.0,
    step_issue: 60.0,
    launch: 8000.0,
};

/// Images. 150 GB/s from the texture cache are 105 bytes per cycle and shader processor; products by plain loads had a
/// third of the rate of those by images, on the same device of others. Coordinates are two instructions and a part of a
/// third, of four cycles each for a wave of 64. What a launch takes longer for two more tables, of a sampler and of
/// descriptors, and a dozen registers is an estimate; nobody has measured it.
const IMAGES: ImageCosts = ImageCosts {
    bytes: 105.0,
    plain_bytes: 35.0,
    coordinates: 10.0,
    row_coordinates: 4.0,
    launch: 500.0,
    side: MAX_SIDE,
    // PITCHALIGN counts from here: Mesa `a6xx_descriptors.xml`.
    row_bytes: 64,
    row_pixels: PITCH_ALIGNMENT,
    most: 16,
};

impl Target {
    /// An Adreno GPU by its name (`a630`, ...), with so many shader processors; 0 stands for those of the chip.
    ///
    /// # Errors
    /// An unknown chip.
    pub fn qcom(chip: &str, units: usize) -> Result<Target> {
        let Some(row) = by_name(chip) else {
            return Err(Error::NoTarget {
                name: chip.into(),
                known: Self::qcom_chips().collect::<Vec<_>>().join(", "),
            });
        };
        let facts = row.facts();
        Ok(Target {
            arch: ARCH.into(),
            triple: String::new(),
            kind: TargetKind::Gpu,
            cpu: row.name.to_ascii_lowercase(),
            features: String::new(),
            vector_bytes: 16,
            vector_regs: REGISTERS,
            cores: if units > 0 { units } else { row.cores as usize },
            l1_bytes: 1 << 10,
            l2_bytes: 128 << 10,
            max_local_bytes: row.shared as usize,
            wave: row.wave as usize,
            max_items: Row::MAX_GROUP as usize,
            max_groups: [u16::MAX as u32, u16::MAX as u32, u16::MAX as u32],
            offset_bytes: 1 << 12,
            registers: Some(RegisterFile {
                // Waves of 64 fibers share the vectors; two start together.
                per_simd: facts.registers * 4,
                granule: 4,
                waves: Row::MAX_WAVES / row.wave_granularity,
                simds: row.wave_granularity,
                local_bytes: row.shared,
                general: REGISTERS,
            }),
            groups: Some(GROUPS),
            images: Some(IMAGES),
            native: DType::ALL
                .into_iter()
                .filter(|&d| !d.is_float() || matches!(d, DType::F16 | DType::F32))
                .collect(),
            f16_convert: true,
            f8_convert: false,
            // Atomics of 64 bits begin with Adreno 7xx: Mesa `ir3_compiler.c`.
            atomics: Atomics {
                sums: &[],
                swaps: 4,
            },
            any_order: true,
            mma: Vec::new(),
        })
    }

    /// The names that [`Target::qcom`] knows.
    pub fn qcom_chips() -> impl Iterator<Item = &'static str> {
        CHIPS.iter().map(|c| c.name)
    }

    /// Whether it is an Adreno GPU.
    pub fn is_qcom(&self) -> bool {
        self.arch == ARCH
    }
}

/// The register file of a target's chip, for the allocation of registers.
pub(crate) fn registers(t: &Target) -> Chip {
    by_name(&t.cpu).map_or_else(Chip::default, |row| Chip {
        vectors: row.facts().registers,
        waves: Row::MAX_WAVES,
        granularity: row.wave_granularity,
        wave: row.wave,
        double: row.double_threadsize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_have_targets() {
        for name in Target::qcom_chips() {
            let t = Target::qcom(name, 0).unwrap();
            assert!(t.is_qcom() && t.cores > 0 && !t.native.contains(&DType::F64));
            assert!(registers(&t).vectors >= 48);
        }
        assert_eq!(Target::qcom("a630", 7).unwrap().cores, 7);
        // The name that devices have.
        assert_eq!(Target::qcom("A642L", 0).unwrap().cpu, "a643");
        let error = Target::qcom("a730", 0).unwrap_err().to_string();
        assert!(error.contains("a730") && error.contains("A630"), "{error}");
    }

    #[test]
    fn registers_decide_how_many_waves_fit() {
        let chip = registers(&Target::qcom("a630", 0).unwrap());
        for (vectors, double, want) in [
            (1, false, 16),
            (12, false, 16),
            (13, false, 14),
            (24, true, 4),
            (48, false, 4),
            (48, true, 2),
        ] {
            assert_eq!(chip.occupancy(vectors, double), want, "{vectors} {double}");
        }
    }
}
