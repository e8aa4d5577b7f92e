//! AMD GPUs, one row per chip.
//!
//! Registers and waves: LLVM's `AMDGPUBaseInfo.cpp` and `GCNProcessors.td` (a test compares the
//! occupancy that follows from them with LLVM's), RDNA2, RDNA3, RDNA4 and CDNA3 ISA documents.
//! Sums of floats in memory: LLVM's `AMDGPU.td` (`FeatureAtomicFaddNoRtnInsts`,
//! `FeatureAtomicBufferGlobalPkAddF16Insts`, `FeatureAtomicGlobalPkAddBF16Inst`,
//! `FeatureFlatBufferGlobalAtomicFaddF64Inst`).
//! Compute units and caches: AMD's product pages; they only guide heuristics, the device knows
//! better.

use super::{Atomics, Fragments, GroupCosts, MmaDesc, RegisterFile, Target, TargetKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::mma::{Digit, Fragment};

/// What LLVM calls the architecture.
pub(super) const ARCH: &str = "amdgcn";
/// Local memory of a group at most, bytes: the limit of `ds` addresses and of the descriptor.
const LOCAL_BYTES: usize = 64 << 10;
/// Work-items of a group at most.
const MAX_ITEMS: usize = 1024;

/// What sets one chip apart.
struct Chip {
    name: &'static str,
    family: &'static Family,
    /// Registers of a SIMD, per lane.
    registers: u32,
    /// They are handed out in blocks of this size.
    granule: u32,
    /// Compute units of the largest product.
    units: usize,
    /// Level-2 cache, bytes.
    l2_bytes: usize,
}

/// What a generation has in common.
struct Family {
    wave: usize,
    /// Waves of a SIMD at most.
    waves: u32,
    /// SIMDs of a compute unit.
    simds: u32,
    /// Registers that one work-item can name.
    addressable: usize,
    /// How far the offset field of `global` instructions reaches: 12, 13 or 24 bits with a sign.
    offset_bytes: i64,
    /// It converts the 8-bit floats of OCP. gfx942 converts those of other encodings (see below).
    f8_convert: bool,
    /// Features of LLVM that are not the default.
    features: &'static str,
    atomics: Atomics,
    mma: &'static [MmaDesc],
}

/// Fragments of an instruction for 16 by 16 results: lanes 16 by 16 have further `k` (or the same ones once more),
/// `held` elements of it each, and rows `row` apart, whose next element is `next` rows further.
const fn fragments(wave: u8, held: u8, repeats: bool, [row, next]: [u8; 2]) -> Fragments {
    let sixteens = wave / 16;
    let further = if repeats { 0 } else { held };
    let operand = Fragment::plain(
        [Digit::new(16, [1, 0]), Digit::new(sixteens, [0, further])],
        Digit::new(held, [0, 1]),
    );
    Fragments {
        a: operand,
        b: operand,
        c: Fragment::plain(
            [Digit::new(16, [0, 1]), Digit::new(sixteens, [row, 0])],
            Digit::new(16 / sixteens, [next, 0]),
        ),
    }
}

/// WMMA of RDNA3 in waves of 32: lanes 16 to 31 repeat the operands of lanes 0 to 15, and the
/// rows of the result alternate between the two halves ("RDNA3 ISA", 7.9).
const WMMA3: &Fragments = &fragments(32, 16, true, [1, 2]);
/// WMMA of RDNA4 in waves of 32: each half has half of `k`, and eight rows of the result.
const WMMA4: &Fragments = &fragments(32, 8, false, [8, 1]);
/// MFMA of CDNA in waves of 64, 16 by 16 with one block, by `k`: each sixteen lanes have a quarter of
/// `k` and four rows of the result ("CDNA3 ISA", 7.1).
const MFMA4: &Fragments = &fragments(64, 1, false, [4, 1]);
const MFMA16: &Fragments = &fragments(64, 4, false, [4, 1]);
const MFMA32: &Fragments = &fragments(64, 8, false, [4, 1]);
/// The rows of `f64` alternate.
const MFMA4_F64: &Fragments = &fragments(64, 1, false, [1, 4]);

/// The kinds of matrix instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Matrix {
    /// RDNA3.
    Wmma3,
    /// RDNA4.
    Wmma4,
    /// CDNA.
    Mfma,
}

impl Matrix {
    /// By how the lanes share operands; `None` for an instruction of another vendor.
    pub fn of(d: &MmaDesc) -> Option<Matrix> {
        let fragments = d.fragments?;
        match fragments {
            f if f == WMMA3 => Some(Matrix::Wmma3),
            f if f == WMMA4 => Some(Matrix::Wmma4),
            f if [MFMA4, MFMA16, MFMA32, MFMA4_F64].contains(&f) => Some(Matrix::Mfma),
            _ => None,
        }
    }
}

const fn mma(fragments: &'static Fragments, k: u16, operand: DType, acc: DType) -> MmaDesc {
    mixed(fragments, k, [operand; 2], acc)
}

const fn mixed(fragments: &'static Fragments, k: u16, operands: [DType; 2], acc: DType) -> MmaDesc {
    MmaDesc {
        m: 16,
        n: 16,
        k,
        operands,
        acc,
        fragments: Some(fragments),
    }
}

/// What the parts of a launch cost, from the documents of the instruction sets where they say it, and from what
/// LLVM makes of many blocks; no chip has been measured yet.
const GROUPS: GroupCosts = GroupCosts {
    other_registers: 24,
    max_sums: 64,
    max_loads: 24,
    max_single_loads: [8, 16],
    max_products: 512,
    max_items: 512,
    address: 20.0,
    products: 64.0,
    matrix_products: [1024.0, 512.0, 128.0, 64.0],
    local_bytes: 128.0,
    memory_bytes: 24.0,
    step_latency: 700.0,
    step_issue: 60.0,
    launch: 4000.0,
};

// In CU mode the waves of a group share one compute unit: its local memory is nearer, and its
// level-0 cache is one, so that a group needs no fence of wider scope to see its own stores.
const RDNA2: Family = Family {
    wave: 32,
    waves: 16,
    simds: 2,
    addressable: 256,
    offset_bytes: 1 << 11,
    f8_convert: false,
    features: "+wavefrontsize32,+cumode,-real-true16",
    atomics: Atomics {
        sums: &[],
        swaps: 8,
    },
    mma: &[],
};

// `v_wmma_f16` and `v_wmma_bf16` are not used: they round every sum to 16 bits.
const RDNA3: Family = Family {
    offset_bytes: 1 << 12,
    mma: &[
        mma(WMMA3, 16, DType::F16, DType::F32),
        mma(WMMA3, 16, DType::BF16, DType::F32),
        mma(WMMA3, 16, DType::I8, DType::I32),
        mma(WMMA3, 16, DType::U8, DType::I32),
        mixed(WMMA3, 16, [DType::I8, DType::U8], DType::I32),
        mixed(WMMA3, 16, [DType::U8, DType::I8], DType::I32),
    ],
    atomics: Atomics {
        sums: &[DType::F32],
        swaps: 8,
    },
    ..RDNA2
};

const RDNA4: Family = Family {
    offset_bytes: 1 << 23,
    mma: &[
        mma(WMMA4, 16, DType::F16, DType::F32),
        mma(WMMA4, 16, DType::BF16, DType::F32),
        mma(WMMA4, 16, DType::F8E4M3, DType::F32),
        mma(WMMA4, 16, DType::F8E5M2, DType::F32),
        mixed(WMMA4, 16, [DType::F8E4M3, DType::F8E5M2], DType::F32),
        mixed(WMMA4, 16, [DType::F8E5M2, DType::F8E4M3], DType::F32),
        mma(WMMA4, 16, DType::I8, DType::I32),
        mma(WMMA4, 16, DType::U8, DType::I32),
        mixed(WMMA4, 16, [DType::I8, DType::U8], DType::I32),
        mixed(WMMA4, 16, [DType::U8, DType::I8], DType::I32),
    ],
    f8_convert: true,
    atomics: Atomics {
        sums: &[DType::F32, DType::F16, DType::BF16],
        swaps: 8,
    },
    ..RDNA2
};

// The matrix instructions and conversions of 8-bit floats are not used: gfx942 reads them in the FNUZ
// encodings, whose bias is one higher, which have no infinity, and NaN in the place of -0 ("CDNA3
// ISA", 7.2). What a conversion would need around it (a product by two, two comparisons and two
// choices for NaN and -0, and for infinities of E5M2 as much again) is as long as the shifts that do
// without. Products of them are products of halves, which have all their values.
const CDNA3: Family = Family {
    wave: 64,
    waves: 8,
    simds: 4,
    addressable: 512,
    offset_bytes: 1 << 12,
    f8_convert: false,
    features: "",
    atomics: Atomics {
        sums: &[DType::F32, DType::F64, DType::F16, DType::BF16],
        swaps: 8,
    },
    mma: &[
        mma(MFMA16, 16, DType::F16, DType::F32),
        mma(MFMA16, 16, DType::BF16, DType::F32),
        mma(MFMA4, 4, DType::F32, DType::F32),
        mma(MFMA4_F64, 4, DType::F64, DType::F64),
        mma(MFMA32, 32, DType::I8, DType::I32),
    ],
};

const fn chip(
    name: &'static str,
    family: &'static Family,
    [registers, granule]: [u32; 2],
    units: usize,
    l2_bytes: usize,
) -> Chip {
    Chip {
        name,
        family,
        registers,
        granule,
        units,
        l2_bytes,
    }
}

/// Registers and their granule of the larger and the smaller register file of RDNA.
const LARGE: [u32; 2] = [1536, 24];
const SMALL: [u32; 2] = [1024, 16];

const CHIPS: &[Chip] = &[
    chip("gfx1030", &RDNA2, SMALL, 80, 4 << 20),
    chip("gfx1031", &RDNA2, SMALL, 40, 3 << 20),
    chip("gfx1032", &RDNA2, SMALL, 32, 2 << 20),
    chip("gfx1034", &RDNA2, SMALL, 16, 1 << 20),
    chip("gfx1100", &RDNA3, LARGE, 96, 6 << 20),
    chip("gfx1101", &RDNA3, LARGE, 60, 4 << 20),
    chip("gfx1102", &RDNA3, SMALL, 32, 2 << 20),
    chip("gfx1103", &RDNA3, SMALL, 12, 2 << 20),
    chip("gfx1150", &RDNA3, SMALL, 16, 2 << 20),
    chip("gfx1151", &RDNA3, LARGE, 40, 2 << 20),
    chip("gfx1200", &RDNA4, LARGE, 32, 4 << 20),
    chip("gfx1201", &RDNA4, LARGE, 64, 8 << 20),
    chip("gfx942", &CDNA3, [512, 8], 304, 4 << 20),
];

impl Target {
    /// An AMD GPU by the name of its instruction set: `gfx1100`, ...
    ///
    /// # Errors
    /// An unknown chip.
    pub fn amd(chip: &str) -> Result<Target> {
        let Some(facts) = CHIPS.iter().find(|c| c.name == chip) else {
            return Err(Error::NoTarget {
                name: chip.into(),
                known: Self::amd_chips().collect::<Vec<_>>().join(", "),
            });
        };
        let family = facts.family;
        Ok(Target {
            arch: ARCH.into(),
            triple: "amdgcn-amd-amdhsa".into(),
            kind: TargetKind::Gpu,
            cpu: chip.into(),
            features: family.features.into(),
            vector_bytes: 16,
            vector_regs: family.addressable,
            cores: facts.units,
            l1_bytes: 32 << 10,
            l2_bytes: facts.l2_bytes,
            max_local_bytes: LOCAL_BYTES,
            wave: family.wave,
            max_items: MAX_ITEMS,
            max_groups: [
                u32::MAX / MAX_ITEMS as u32,
                u16::MAX as u32,
                u16::MAX as u32,
            ],
            offset_bytes: family.offset_bytes,
            registers: Some(RegisterFile {
                per_simd: facts.registers,
                granule: facts.granule,
                waves: family.waves,
                simds: family.simds,
                local_bytes: LOCAL_BYTES as u32,
                general: 256,
            }),
            groups: Some(GROUPS),
            images: None,
            native: DType::ALL
                .into_iter()
                .filter(|&d| !d.is_float() || matches!(d, DType::F16 | DType::F32 | DType::F64))
                .collect(),
            f16_convert: true,
            f8_convert: family.f8_convert,
            atomics: family.atomics,
            any_order: true,
            mma: family.mma.to_vec(),
        })
    }

    /// The names that [`Target::amd`] knows.
    pub fn amd_chips() -> impl Iterator<Item = &'static str> {
        CHIPS.iter().map(|c| c.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_have_targets() {
        for name in Target::amd_chips() {
            let t = Target::amd(name).unwrap();
            assert!(t.mma.iter().all(|d| d.wave() as usize == t.wave));
        }
        let error = Target::amd("gfx906").unwrap_err().to_string();
        assert!(
            error.contains("gfx906") && error.contains("gfx1100"),
            "{error}"
        );
    }

    /// The numbers are what LLVM prints as `Occupancy` for these registers.
    #[test]
    fn registers_decide_how_many_waves_fit() {
        let waves = |chip: &str, registers, local| {
            let file = Target::amd(chip).unwrap().registers.unwrap();
            file.occupancy(registers, local, 1)
        };
        for (chip, want) in [
            ("gfx1030", 9),
            ("gfx1031", 9),
            ("gfx1032", 9),
            ("gfx1034", 9),
            ("gfx1100", 12),
            ("gfx1101", 12),
            ("gfx1102", 9),
            ("gfx1103", 9),
            ("gfx1150", 9),
            ("gfx1151", 12),
            ("gfx1200", 12),
            ("gfx1201", 12),
            ("gfx942", 4),
        ] {
            assert_eq!(waves(chip, 97, 0), want, "{chip}");
            assert!(waves(chip, 1, 0) >= 8);
        }
        // Two groups of one wave fit a compute unit: one wave per SIMD.
        assert_eq!(waves("gfx1100", 1, 32 << 10), 1);
    }
}
