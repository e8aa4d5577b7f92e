//! Matrix instructions of a wave: which element of its operands each lane holds.

use crate::DType;

/// Who executes a matrix instruction together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum MmaScope {
    /// One thread (CPU vector or matrix instructions).
    Thread,
    /// One warp or wave.
    Warp,
    /// Four warps (Hopper `wgmma`).
    WarpGroup,
}

/// A coordinate of an element that lane `l` holds at position `i` of its vector:
/// `low * (l % 16) + high * (l / 16) + element * i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Factor of the lower four bits of the lane.
    pub low: i64,
    /// Factor of the other bits of the lane.
    pub high: i64,
    /// Factor of the position in the vector.
    pub element: i64,
}

impl Place {
    const fn new(low: i64, high: i64, element: i64) -> Place {
        Place { low, high, element }
    }

    /// The coordinate.
    pub const fn at(&self, lane: i64, i: i64) -> i64 {
        self.low * (lane % 16) + self.high * (lane / 16) + self.element * i
    }
}

/// How the lanes of a wave share the operands and the result of a matrix instruction. Every lane
/// holds a vector of each; the coordinates are those of [`MmaDesc::a`], [`MmaDesc::b`] and
/// [`MmaDesc::c`].
///
/// Which lane holds which `k` does not matter as long as both operands agree, so the order here is
/// the one in which a lane reads neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Fragments {
    /// No lanes share anything ([`MmaScope::Thread`]).
    None,
    /// WMMA of RDNA3 in waves of 32: lanes 16 to 31 repeat the operands of lanes 0 to 15, and the
    /// rows of the result alternate between the two halves ("RDNA3 ISA", 7.9).
    Rdna3,
    /// WMMA of RDNA4 in waves of 32: each half has half of `k`, and eight rows of the result.
    Rdna4,
    /// MFMA of CDNA in waves of 64, 16 by 16 with one block: each sixteen lanes have a quarter of
    /// `k` and four rows of the result ("CDNA3 ISA", 7.1).
    Cdna,
}

/// A building block of contractions: `acc[m, n] += a[m, k] * b[k, n]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MmaDesc {
    /// Rows of the accumulator tile.
    pub m: u16,
    /// Columns of the accumulator tile.
    pub n: u16,
    /// Depth of one step.
    pub k: u16,
    /// Types of the operands.
    pub operands: [DType; 2],
    /// Type of the accumulator.
    pub acc: DType,
    /// Who executes it.
    pub scope: MmaScope,
    /// How they share the operands.
    pub fragments: Fragments,
}

impl MmaDesc {
    /// Whether it multiplies operands of these types: its own, or 8-bit floats where it takes
    /// `F16`, which has all their values.
    pub fn takes(&self, operands: [DType; 2]) -> bool {
        let narrow = |t| matches!(t, DType::F8E4M3 | DType::F8E5M2);
        let mut both = operands.into_iter().zip(self.operands);
        both.all(|(is, own)| is == own || own == DType::F16 && narrow(is))
    }

    /// Lanes of the wave that executes it.
    pub const fn wave(&self) -> u32 {
        match self.fragments {
            Fragments::None => 1,
            Fragments::Rdna3 | Fragments::Rdna4 => 32,
            Fragments::Cdna => 64,
        }
    }

    /// Elements of `a`, of `b` and of the accumulator that a lane holds.
    pub const fn elements(&self) -> [u32; 3] {
        let (m, n, k, wave) = (self.m as u32, self.n as u32, self.k as u32, self.wave());
        let repeated = match self.fragments {
            Fragments::Rdna3 => 2,
            _ => 1,
        };
        [
            m * k * repeated / wave,
            n * k * repeated / wave,
            m * n / wave,
        ]
    }

    /// Row and `k` of an element of the first operand.
    pub const fn a(&self) -> [Place; 2] {
        [Place::new(1, 0, 0), self.along_k()]
    }

    /// Column and `k` of an element of the second operand.
    pub const fn b(&self) -> [Place; 2] {
        self.a()
    }

    const fn along_k(&self) -> Place {
        match self.fragments {
            Fragments::Rdna3 => Place::new(0, 0, 1),
            _ => Place::new(0, self.elements()[0] as i64, 1),
        }
    }

    /// Row and column of an element of the accumulator.
    pub const fn c(&self) -> [Place; 2] {
        let rows = match (self.fragments, self.acc) {
            (Fragments::Rdna3, _) => Place::new(0, 1, 2),
            (Fragments::Cdna, DType::F64) => Place::new(0, 1, 4),
            _ => Place::new(0, self.elements()[2] as i64, 1),
        };
        [rows, Place::new(1, 0, 0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(fragments: Fragments, k: u16, operand: DType, acc: DType) -> MmaDesc {
        let operands = [operand; 2];
        MmaDesc {
            m: 16,
            n: 16,
            k,
            operands,
            acc,
            scope: MmaScope::Warp,
            fragments,
        }
    }

    /// How often each element of a matrix of `rows` by `cols` is held.
    fn held(d: &MmaDesc, [x, y]: [Place; 2], count: u32, rows: i64, cols: i64) -> Vec<u32> {
        let mut out = vec![0; (rows * cols) as usize];
        for lane in 0..i64::from(d.wave()) {
            for i in 0..i64::from(count) {
                let (r, c) = (x.at(lane, i), y.at(lane, i));
                assert!(r < rows && c < cols, "{d:?}: lane {lane} holds {r}, {c}");
                out[(r * cols + c) as usize] += 1;
            }
        }
        out
    }

    #[test]
    fn lanes_hold_every_element_equally_often() {
        for (d, repeated) in [
            (desc(Fragments::Rdna3, 16, DType::F16, DType::F32), 2),
            (desc(Fragments::Rdna4, 16, DType::BF16, DType::F32), 1),
            (desc(Fragments::Cdna, 16, DType::F16, DType::F32), 1),
            (desc(Fragments::Cdna, 4, DType::F32, DType::F32), 1),
            (desc(Fragments::Cdna, 4, DType::F64, DType::F64), 1),
            (desc(Fragments::Cdna, 32, DType::I8, DType::I32), 1),
        ] {
            let [a, b, c] = d.elements();
            let k = i64::from(d.k);
            for n in held(&d, d.a(), a, 16, k) {
                assert_eq!(n, repeated, "{d:?}: a");
            }
            for n in held(&d, d.b(), b, 16, k) {
                assert_eq!(n, repeated, "{d:?}: b");
            }
            for n in held(&d, d.c(), c, 16, 16) {
                assert_eq!(n, 1, "{d:?}: accumulator");
            }
        }
    }
}
