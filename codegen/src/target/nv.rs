//! NVIDIA GPUs, one row per chip.
//!
//! Registers, warps, shared memory: "CUDA C++ Programming Guide", technical specifications per compute
//! capability. Sums of floats in memory: "PTX ISA", `red`. Layouts of matrix instructions: "PTX ISA", "Matrix
//! Fragments for mma". Multiprocessors and caches: white papers of the chips; they only guide heuristics, the
//! device knows better.

mod warpgroup;

use super::{Atomics, Fragments, GroupCosts, MmaDesc, RegisterFile, Target, TargetKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::mma::{Digit, Fragment};
pub(crate) use warpgroup::{Warpgroup, descriptor};

/// What LLVM calls the architecture.
pub(super) const ARCH: &str = "nvptx64";
/// Work-items of a warp.
const WARP: usize = 32;
/// Work-items of a group at most.
const MAX_ITEMS: usize = 1024;
/// Shared memory of a group that is declared in its code, at most.
pub(crate) const STATIC_BYTES: usize = 48 << 10;

/// What copies a box of a tensor with so many dimensions into shared memory, in PTX.
pub(crate) fn box_copy(dimensions: usize) -> String {
    format!(
        "cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    )
}

/// What sets one chip apart.
struct Chip {
    name: &'static str,
    family: &'static Family,
    /// Multiprocessors of the largest product.
    units: usize,
    /// Level-2 cache, bytes.
    l2_bytes: usize,
}

/// What a generation has in common.
struct Family {
    /// Warps of a quarter of a multiprocessor at most.
    warps: u32,
    /// Shared memory of a multiprocessor, bytes.
    shared_bytes: u32,
    /// Of a group at most.
    group_bytes: usize,
    /// Products of `f32` per cycle of a multiprocessor.
    products: f64,
    /// The same of matrix instructions by the bytes of an operand: 1, 2, 4, 8.
    matrix_products: [f64; 4],
    /// The version of PTX that has what is used.
    ptx: &'static str,
    atomics: Atomics,
    mma: &'static [MmaDesc],
}

const PLAIN: Digit = Digit::NONE;
/// Groups of four lanes are rows (of the second operand: columns).
const fn lanes(step: u8) -> [Digit; 3] {
    [Digit::new(4, [0, step]), Digit::new(8, [1, 0]), PLAIN]
}

/// Fragments of an instruction for 16 by 8 results whose lanes hold `n` neighbours along `k`, in two halves of
/// `k`; the first operand and the result have rows that are 8 apart, too.
const fn fragments(n: u8) -> Fragments {
    let neighbours = Digit::new(n, [0, 1]);
    let rows = Digit::new(2, [8, 0]);
    let further = Digit::new(2, [0, 4 * n]);
    Fragments {
        a: Fragment {
            lane: lanes(n),
            element: [neighbours, rows, further],
        },
        b: Fragment {
            lane: lanes(n),
            element: [neighbours, further, PLAIN],
        },
        c: Fragment {
            lane: lanes(2),
            element: [Digit::new(2, [0, 1]), rows, PLAIN],
        },
    }
}

/// `m16n8k16` on operands of 16 bits.
const HALVES: &Fragments = &fragments(2);
/// `m16n8k32` on operands of 8 bits.
const BYTES: &Fragments = &fragments(4);
/// `m8n8k4` on doubles.
const DOUBLES: &Fragments = &Fragments {
    a: Fragment {
        lane: lanes(1),
        element: [PLAIN; 3],
    },
    b: Fragment {
        lane: lanes(1),
        element: [PLAIN; 3],
    },
    c: Fragment {
        lane: lanes(2),
        element: [Digit::new(2, [0, 1]), PLAIN, PLAIN],
    },
};

/// `m16n8k8` on singles as tensor cores take them: both elements of `k` that a lane holds are neighbours.
const SINGLES: &Fragments = &Fragments {
    a: Fragment {
        lane: lanes(2),
        element: [Digit::new(2, [8, 0]), Digit::new(2, [0, 1]), PLAIN],
    },
    b: Fragment {
        lane: lanes(2),
        element: [Digit::new(2, [0, 1]), PLAIN, PLAIN],
    },
    c: HALVES.c,
};

/// The type of an operand as PTX has it.
fn operand(t: DType) -> Option<&'static str> {
    Some(match t {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F8E4M3 => "e4m3",
        DType::F8E5M2 => "e5m2",
        DType::I8 => "s8",
        DType::U8 => "u8",
        DType::F32 => "tf32",
        DType::F64 => "f64",
        _ => return None,
    })
}

/// The letter of a register of a sum in assembly within CUDA C, and its type.
fn sum(t: DType) -> Option<(char, &'static str)> {
    Some(match t {
        DType::F32 => ('f', "f32"),
        DType::I32 => ('r', "s32"),
        DType::F64 => ('d', "f64"),
        _ => return None,
    })
}

/// A matrix instruction as PTX has it.
pub(crate) struct Matrix {
    /// Its name, with its types.
    pub name: String,
    /// The letter of a register of the sum in assembly within CUDA C.
    pub letter: char,
}

impl Matrix {
    /// `None` for an instruction of another vendor.
    pub fn of(d: &MmaDesc) -> Option<Matrix> {
        let of = d.fragments?;
        if ![HALVES, BYTES, SINGLES, DOUBLES].contains(&of) {
            return None;
        }
        let (letter, acc) = sum(d.acc)?;
        let [a, b] = [operand(d.operands[0])?, operand(d.operands[1])?];
        let (m, n, k) = (d.m, d.n, d.k);
        Some(Matrix {
            name: format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.{acc}.{a}.{b}.{acc}"),
            letter,
        })
    }
}

const fn mma(operands: [DType; 2], acc: DType) -> MmaDesc {
    let (m, k, fragments) = match acc {
        DType::F64 => (8, 4, DOUBLES),
        _ if operands[0].size() == 4 => (16, 8, SINGLES),
        _ if operands[0].size() == 1 => (16, 32, BYTES),
        _ => (16, 16, HALVES),
    };
    MmaDesc {
        m,
        n: 8,
        k,
        operands,
        acc,
        fragments: Some(fragments),
    }
}

use DType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, U8};

/// Of an `f32` tensor cores read ten bits behind the point: only where that is allowed.
const TF32: MmaDesc = mma([F32, F32], F32);
const HALF: MmaDesc = mma([F16, F16], F32);
const BRAIN: MmaDesc = mma([BF16, BF16], F32);
const SIGNED: MmaDesc = mma([I8, I8], I32);
const UNSIGNED: MmaDesc = mma([U8, U8], I32);
const MIXED: [MmaDesc; 2] = [mma([I8, U8], I32), mma([U8, I8], I32)];
const QUARTER: [MmaDesc; 4] = [
    mma([F8E4M3, F8E4M3], F32),
    mma([F8E5M2, F8E5M2], F32),
    mma([F8E4M3, F8E5M2], F32),
    mma([F8E5M2, F8E4M3], F32),
];
const DOUBLE: MmaDesc = mma([F64, F64], F64);

const GA100: Family = Family {
    warps: 16,
    shared_bytes: 164 << 10,
    group_bytes: STATIC_BYTES,
    products: 64.0,
    matrix_products: [2048.0, 1024.0, 512.0, 64.0],
    ptx: "7.8",
    atomics: Atomics {
        sums: &[F32, F64, F16],
        swaps: 8,
    },
    mma: &[HALF, BRAIN, SIGNED, UNSIGNED, MIXED[0], MIXED[1], DOUBLE],
};

// Doubles are a thirty-second of singles or less: matrices of them win nothing.
const GA10X: Family = Family {
    warps: 12,
    shared_bytes: 100 << 10,
    products: 128.0,
    matrix_products: [1024.0, 256.0, 128.0, 2.0],
    mma: &[HALF, BRAIN, SIGNED, UNSIGNED, MIXED[0], MIXED[1]],
    ..GA100
};

const ADA: Family = Family {
    ptx: "8.4",
    mma: &[
        HALF, BRAIN, QUARTER[0], QUARTER[1], QUARTER[2], QUARTER[3], SIGNED, UNSIGNED, MIXED[0],
        MIXED[1],
    ],
    ..GA10X
};

// What tensor cores read in shared memory is twice as fast as what they read in registers; 8-bit floats they read
// there only.
const HOPPER: Family = Family {
    warps: 16,
    shared_bytes: 228 << 10,
    group_bytes: 227 << 10,
    matrix_products: [2048.0, 1024.0, 512.0, 128.0],
    atomics: Atomics {
        sums: &[F32, F64, F16, BF16],
        swaps: 8,
    },
    ptx: "8.4",
    mma: &warpgroup::ALL,
    ..GA10X
};

const GB10X: Family = Family {
    group_bytes: STATIC_BYTES,
    ptx: "8.6",
    mma: GA100.mma,
    ..HOPPER
};

const GB20X: Family = Family {
    ptx: "8.7",
    atomics: HOPPER.atomics,
    ..ADA
};

const fn chip(name: &'static str, family: &'static Family, units: usize, l2_bytes: usize) -> Chip {
    Chip {
        name,
        family,
        units,
        l2_bytes,
    }
}

const CHIPS: &[Chip] = &[
    chip("sm_80", &GA100, 108, 40 << 20),
    chip("sm_86", &GA10X, 84, 6 << 20),
    chip("sm_89", &ADA, 142, 96 << 20),
    chip("sm_90", &HOPPER, 132, 50 << 20),
    chip("sm_100", &GB10X, 148, 126 << 20),
    chip("sm_120", &GB20X, 188, 128 << 20),
];

/// What the parts of a launch cost, from NVIDIA's documents where they say it; no chip has been measured yet.
const GROUPS: GroupCosts = GroupCosts {
    other_registers: 24,
    max_sums: 64,
    max_loads: 24,
    max_single_loads: [8, 16],
    max_products: 512,
    max_items: 512,
    address: 8.0,
    products: 128.0,
    matrix_products: [0.0; 4],
    local_bytes: 128.0,
    memory_bytes: 32.0,
    step_latency: 600.0,
    step_issue: 60.0,
    launch: 4000.0,
};

impl Target {
    /// An NVIDIA GPU by the name that compilers have for it (`sm_86`, ...), with so many multiprocessors; 0
    /// stands for those of its largest product.
    ///
    /// # Errors
    /// An unknown chip.
    pub fn nv(chip: &str, units: usize) -> Result<Target> {
        let Some(facts) = CHIPS.iter().find(|c| c.name == chip) else {
            return Err(Error::NoTarget {
                name: chip.into(),
                known: Self::nv_chips().collect::<Vec<_>>().join(", "),
            });
        };
        let family = facts.family;
        Ok(Target {
            arch: ARCH.into(),
            triple: "nvptx64-nvidia-cuda".into(),
            kind: TargetKind::Gpu,
            cpu: chip.into(),
            features: String::new(),
            vector_bytes: 16,
            vector_regs: 255,
            cores: if units > 0 { units } else { facts.units },
            l1_bytes: 64 << 10,
            l2_bytes: facts.l2_bytes,
            max_local_bytes: family.group_bytes,
            wave: WARP,
            max_items: MAX_ITEMS,
            max_groups: [i32::MAX as u32, u16::MAX as u32, u16::MAX as u32],
            // 24 bits with a sign.
            offset_bytes: 1 << 23,
            registers: Some(RegisterFile {
                per_simd: 512,
                granule: 8,
                waves: family.warps,
                simds: 4,
                local_bytes: family.shared_bytes,
                general: 255,
            }),
            groups: Some(GroupCosts {
                products: family.products,
                matrix_products: family.matrix_products,
                ..GROUPS
            }),
            images: None,
            native: DType::ALL
                .into_iter()
                .filter(|&d| !d.is_float() || matches!(d, F16 | F32 | F64))
                .collect(),
            f16_convert: true,
            f8_convert: false,
            atomics: family.atomics,
            any_order: true,
            mma: family.mma.to_vec(),
        })
    }

    /// Lets tensor cores multiply `f32`, of whose operands they read 19 of the 32 bits (TF32): ten behind the
    /// point, to which they are rounded. Nothing changes for machines other than NVIDIA's GPUs.
    #[must_use]
    pub fn with_tf32(mut self) -> Target {
        if self.is_nv() && !self.mma.contains(&TF32) {
            self.mma.push(TF32);
        }
        self
    }

    /// The same without matrices that are read in shared memory, and without more of it than code declares.
    /// Nothing changes for machines other than NVIDIA's GPUs.
    #[must_use]
    pub fn in_registers(mut self) -> Target {
        if !self.is_nv() {
            return self;
        }
        self.mma.retain(|d| !d.in_memory());
        self.max_local_bytes = STATIC_BYTES;
        self
    }

    /// The names that [`Target::nv`] knows.
    pub fn nv_chips() -> impl Iterator<Item = &'static str> {
        CHIPS.iter().map(|c| c.name)
    }
}

/// What compilers call a chip whose own instructions are used.
pub(crate) fn own_name(t: &Target) -> String {
    match t.cpu.as_str() {
        "sm_90" => "sm_90a".into(),
        name => name.into(),
    }
}

/// The version of PTX for a target.
pub(crate) fn ptx(t: &Target) -> &'static str {
    let facts = CHIPS.iter().find(|c| c.name == t.cpu);
    facts.map_or(GA100.ptx, |c| c.family.ptx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_have_targets() {
        for name in Target::nv_chips() {
            let t = Target::nv(name, 0).unwrap();
            assert!(t.mma.iter().all(|d| d.operands[0] != F32), "{name}");
            for d in &t.clone().with_tf32().mma {
                let there = d.in_memory();
                let wave = if there { 4 * t.wave } else { t.wave };
                assert_eq!(d.wave() as usize, wave, "{name}");
                assert_eq!(Matrix::of(d).is_some(), !there, "{name} {d:?}");
                assert_eq!(Warpgroup::of(d).is_some(), there, "{name} {d:?}");
            }
            assert_eq!(Target::nv(name, 7).unwrap().cores, 7);
        }
        let error = Target::nv("sm_52", 0).unwrap_err().to_string();
        assert!(
            error.contains("sm_52") && error.contains("sm_90"),
            "{error}"
        );
    }

    /// The numbers are those of NVIDIA's occupancy tables: warps of a multiprocessor, a quarter of them here.
    #[test]
    fn registers_decide_how_many_warps_fit() {
        let warps = |chip: &str, registers, local, of_group| {
            let file = Target::nv(chip, 0).unwrap().registers.unwrap();
            file.occupancy(registers, local, of_group)
        };
        for (chip, registers, want) in [
            ("sm_80", 32, 16),
            ("sm_86", 32, 12),
            ("sm_86", 64, 8),
            ("sm_90", 64, 8),
            ("sm_90", 65, 7),
            ("sm_90", 128, 4),
            ("sm_120", 255, 2),
        ] {
            assert_eq!(warps(chip, registers, 0, 4), want, "{chip} {registers}");
        }
        // Two groups of eight warps fit a multiprocessor.
        assert_eq!(warps("sm_86", 32, 40 << 10, 8), 4);
    }

    /// Where lanes hold element `i` of `mma.m16n8k32` and `mma.m8n8k4`, as the manual of PTX puts it; that of
    /// `m16n8k16` is proven beside the type.
    #[test]
    fn layouts_are_those_of_the_manual() {
        for lane in 0..32 {
            let (group, thread) = (lane >> 2, lane % 4);
            for i in 0..16 {
                let row = if matches!(i, 0..4 | 8..12) {
                    group
                } else {
                    group + 8
                };
                let col = thread * 4 + (i & 3) + if i < 8 { 0 } else { 16 };
                assert_eq!(BYTES.a.at(lane, i), [row, col]);
            }
            for i in 0..8 {
                let row = thread * 4 + (i & 3) + if i < 4 { 0 } else { 16 };
                assert_eq!(BYTES.b.at(lane, i), [group, row]);
            }
            for i in 0..4 {
                let row = if i < 2 { group } else { group + 8 };
                assert_eq!(BYTES.c.at(lane, i), [row, thread * 2 + (i & 1)]);
            }
            assert_eq!(DOUBLES.a.at(lane, 0), [group, thread]);
            assert_eq!(DOUBLES.b.at(lane, 0), [group, thread]);
            for i in 0..2 {
                assert_eq!(DOUBLES.c.at(lane, i), [group, thread * 2 + i]);
            }
        }
    }
}
