//! Products by four warps together (`wgmma`): operands in shared memory, sums in registers.
//!
//! Source: "PTX ISA", "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": fragments of `wgmma`,
//! matrix descriptor.

use super::{
    BF16, BRAIN, DOUBLE, Digit, F8E4M3, F8E5M2, F16, F32, Fragment, Fragments, HALF, I8, I32,
    MIXED, MmaDesc, SIGNED, U8, UNSIGNED, operand, sum,
};
use crate::dtype::DType;
use crate::ir::mma::{ROW, Rows};

/// Sixteen rows are a warp's, which holds them as `mma.m16n8` does, for each eight columns.
const fn sums(columns: u16) -> Fragments {
    Fragments {
        a: Fragment::NOWHERE,
        b: Fragment::NOWHERE,
        c: Fragment {
            lane: [
                Digit::new(4, [0, 2]),
                Digit::new(8, [1, 0]),
                Digit::new(4, [16, 0]),
            ],
            element: [
                Digit::new(2, [0, 1]),
                Digit::new(2, [8, 0]),
                Digit::new((columns / 8) as u8, [0, 8]),
            ],
        },
    }
}

/// By the columns of a product: 64, 128, 256. Fewer are no faster than they are in registers.
const SUMS: [&Fragments; 3] = [&sums(64), &sums(128), &sums(256)];

const fn of(operands: [DType; 2], acc: DType, size: usize) -> MmaDesc {
    MmaDesc {
        m: 64,
        n: 64 << size,
        k: (32 / operands[0].size()) as u16,
        operands,
        acc,
        fragments: Some(SUMS[size]),
    }
}

/// The types that are multiplied.
const TYPES: [([DType; 2], DType); 10] = [
    ([F16, F16], F32),
    ([BF16, BF16], F32),
    ([F8E4M3, F8E4M3], F32),
    ([F8E5M2, F8E5M2], F32),
    ([F8E4M3, F8E5M2], F32),
    ([F8E5M2, F8E4M3], F32),
    ([I8, I8], I32),
    ([U8, U8], I32),
    ([I8, U8], I32),
    ([U8, I8], I32),
];

/// Those of what is in registers, too.
const PLAINER: [MmaDesc; 7] = [HALF, BRAIN, SIGNED, UNSIGNED, MIXED[0], MIXED[1], DOUBLE];

/// All products of the chip.
pub(super) const ALL: [MmaDesc; 3 * TYPES.len() + PLAINER.len()] = {
    let mut all = [HALF; 3 * TYPES.len() + PLAINER.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < 3 * TYPES.len() {
            let (operands, acc) = TYPES[i / 3];
            of(operands, acc, i % 3)
        } else {
            PLAINER[i - 3 * TYPES.len()]
        };
        i += 1;
    }
    all
};

/// Such an instruction as PTX has it.
pub(crate) struct Warpgroup {
    /// Its name, with its types.
    pub name: String,
    /// What follows the descriptors and the predicate that the sum goes on.
    pub rest: String,
    /// The letter of a register of the sum in assembly within CUDA C.
    pub letter: char,
}

impl Warpgroup {
    /// `None` for an instruction of another kind.
    pub fn of(d: &MmaDesc) -> Option<Warpgroup> {
        if !d.in_memory() {
            return None;
        }
        let (letter, acc) = sum(d.acc)?;
        let [a, b] = [operand(d.operands[0])?, operand(d.operands[1])?];
        let (m, n, k) = (d.m, d.n, d.k);
        Some(Warpgroup {
            name: format!("wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{acc}.{a}.{b}"),
            // Neither operand is negated.
            rest: if d.acc.is_float() {
                ", 1, 1".into()
            } else {
                String::new()
            },
            letter,
        })
    }

    /// The same, for operands that lie in such rows.
    pub fn rows(d: &MmaDesc, rows: [Rows; 2]) -> Option<Warpgroup> {
        let mut made = Self::of(d)?;
        if d.operands[0].size() == 2 {
            for rows in rows {
                made.rest += if rows.turned { ", 1" } else { ", 0" };
            }
        } else if rows.iter().any(|rows| rows.turned) {
            return None;
        }
        Some(made)
    }
}

/// The descriptor of a matrix, but for its address: that is in its lowest 14 bits, without its four lowest ones.
pub(crate) fn descriptor(rows: Rows, dtype: DType) -> u64 {
    let field = |bytes: usize, at: u32| ((bytes >> 4) as u64 & 0x3fff) << at;
    // From eight rows to the next, and to the next column of rows.
    let eights = ROW * Rows::orders() as usize;
    let columns = if rows.turned {
        rows.slab as usize * dtype.size()
    } else {
        0
    };
    // The mixing of rows of 128 bytes.
    let mixed = 1 << 62;
    field(columns, 16) | field(eights, 32) | mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "PTX ISA", "Register Fragments and Shared Memory Matrix Layouts": accumulator D.
    #[test]
    fn sums_lie_as_the_manual_has_them() {
        for d in ALL.iter().filter(|d| d.in_memory()) {
            let c = &d.fragments.unwrap().c;
            assert_eq!(d.elements(), [1, 1, u32::from(d.n) / 2]);
            for lane in 0..128 {
                for i in 0..i64::from(d.n) / 2 {
                    let row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
                    let column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                    assert_eq!(c.at(lane, i), [row, column], "{lane} {i}");
                }
            }
        }
    }

    /// The rows that the graph makes and the instruction reads are one.
    #[test]
    fn every_element_has_a_place_of_its_own() {
        for (dtype, turned) in [(BF16, false), (BF16, true), (I8, false), (F32, false)] {
            let width = Rows::width(dtype);
            let slab = 128 * width;
            let rows = Rows {
                turned,
                slab: slab as u32,
            };
            let mut seen = vec![false; 2 * slab as usize];
            for row in 0..128 {
                for across in 0..2 * width {
                    let (side, k) = if turned { (across, row) } else { (row, across) };
                    let at = rows.at(dtype, 0, side, k) as usize;
                    assert!(!std::mem::replace(&mut seen[at], true), "{side} {k}");
                }
            }
        }
    }
}
