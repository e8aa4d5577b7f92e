//! Products of matrices: WMMA and SWMMAC of RDNA, MFMA and SMFMAC of CDNA.
//!
//! Where each element lies: AMD's matrix instruction calculator (ROCm/amd_matrix_instruction_calculator)
//! and the chapters "Wave Matrix Multiply Accumulate" and "Matrix Arithmetic Instructions" of the ISA
//! documents.
//!
//! The order in which hardware adds products is not documented. Here it is that of `k`, from the
//! addend on: `fma(a[k], b[k], sum)`, to nearest, denormals kept, whatever MODE says. Results of 16
//! bits are rounded once, at the end; a NaN is the default one. EXEC is not looked at.

use twin::rule::{Proof, Rule};

use super::formats::Element;
use super::operand::Ty;
use super::product::{Job, Shape};
use super::registers::Cell;
use super::vop3p::Mods;
use crate::isa::Gen;
use crate::step::Stop;
use crate::vector::operand::Source;
use crate::wave::Wave;

/// Lanes 16 and up of A and B repeat lanes 0 to 15 in RDNA3.
static WMMA_REPLICATE: Rule = Rule {
    name: "WMMA-REPLICATE",
    text: "each group of 16 lanes of the A and B matrices of WMMA has the same values",
    source: "RDNA3 ISA, 7.9; GPUOpen, \"How to accelerate AI applications on RDNA 3 using WMMA\"",
    proof: Proof::Sourced,
};

/// Broadcasts of blocks of A.
static MFMA_CBSZ: Rule = Rule {
    name: "MFMA-CBSZ",
    text: "cbsz is at most log2 of the blocks of A and abid below 2^cbsz; both are 0 where A has one block",
    source: "ROCm, amd_matrix_instruction_calculator, \"CBSZ and ABID\"; CDNA3 ISA, 7.1",
    proof: Proof::Sourced,
};

/// Patterns of lanes of B.
static MFMA_BLGP: Rule = Rule {
    name: "MFMA-BLGP",
    text: "blgp is 0 where the instruction has no B-matrix lane group pattern",
    source: "ROCm, amd_matrix_instruction_calculator, details of each instruction",
    proof: Proof::Sourced,
};

/// What the product is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Result {
    /// Half precision.
    F16,
    /// Brain float.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Integers of 32 bits.
    I32,
}

/// How many bits an element takes.
impl Result {
    pub const fn bits(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::F32 | Self::I32 => 32,
            Self::F64 => 64,
        }
    }
}

/// `D = A B + C`: `blocks` products of `mn` by `k` and `k` by `mn` elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Matrix {
    /// Whose instruction it is.
    pub generation: Gen,
    /// Rows of A and D, columns of B and D.
    pub mn: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// How many products.
    pub blocks: usize,
    /// What A holds.
    pub a: Element,
    /// What B holds.
    pub b: Element,
    /// What C and D hold.
    pub d: Result,
    /// Of each four elements along `k`, A has two, and C is D.
    pub sparse: bool,
}

impl Matrix {
    /// RDNA3.
    pub const fn wmma3(d: Result, ab: Element) -> Self {
        Self {
            generation: Gen::Rdna3,
            mn: 16,
            k: 16,
            blocks: 1,
            a: ab,
            b: ab,
            d,
            sparse: false,
        }
    }

    /// RDNA4.
    pub const fn wmma(d: Result, k: usize, a: Element, b: Element, sparse: bool) -> Self {
        Self {
            generation: Gen::Rdna4,
            mn: 16,
            k,
            blocks: 1,
            a,
            b,
            d,
            sparse,
        }
    }

    /// CDNA3.
    pub const fn mfma(
        d: Result,
        [mn, k]: [usize; 2],
        blocks: usize,
        a: Element,
        b: Element,
        sparse: bool,
    ) -> Self {
        Self {
            generation: Gen::Cdna3,
            mn,
            k,
            blocks,
            a,
            b,
            d,
            sparse,
        }
    }

    /// Whether it is one of RDNA3.
    pub const fn is_rdna3(&self) -> bool {
        matches!(self.generation, Gen::Rdna3)
    }

    /// Whether two elements of 16 bits of C and D share a dword.
    pub const fn is_packed(&self) -> bool {
        self.d.bits() == 16 && !self.is_rdna3()
    }

    /// How many lanes share the elements, in the waves that LLVM prints registers for.
    const fn lanes(&self) -> usize {
        match self.generation {
            Gen::Cdna3 => 64,
            _ => 32,
        }
    }

    const fn words_of_ab(&self, bits: usize, lanes: usize) -> usize {
        match self.generation {
            Gen::Rdna3 => self.k * bits / 32,
            _ => {
                let words = self.mn * self.k * self.blocks * bits / 32 / lanes;
                if words == 0 { 1 } else { words }
            }
        }
    }

    /// Dwords of A in a lane.
    pub const fn words_of_a(&self) -> u8 {
        self.words_of_ab(
            self.a.bits() / if self.sparse { 2 } else { 1 },
            self.lanes(),
        ) as u8
    }

    /// Dwords of B in a lane.
    pub const fn words_of_b(&self) -> u8 {
        self.words_of_ab(self.b.bits(), self.lanes()) as u8
    }

    const fn words_of_d_in(&self, lanes: usize) -> usize {
        match self.generation {
            // A result of 16 bits has a dword of its own.
            Gen::Rdna3 => self.mn * self.mn / lanes,
            _ => self.mn * self.mn * self.blocks * self.d.bits() / 32 / lanes,
        }
    }

    /// Dwords of C and D in a lane.
    pub const fn words_of_d(&self) -> u8 {
        self.words_of_d_in(self.lanes()) as u8
    }

    /// Dwords of A, B, C (or the indices of a sparse A) and D in a lane of a wave of so many.
    pub fn words(&self, lanes: usize) -> [usize; 4] {
        let d = self.words_of_d_in(lanes);
        let a = self.words_of_ab(self.a.bits() / if self.sparse { 2 } else { 1 }, lanes);
        let b = self.words_of_ab(self.b.bits(), lanes);
        [a, b, if self.sparse { 1 } else { d }, d]
    }

    /// How a constant C is read.
    pub fn ty_of_c(&self) -> Ty {
        match self.d {
            Result::F16 => Ty::F16x2,
            Result::Bf16 => Ty::Bf16x2,
            Result::F32 | Result::I32 => Ty::B32,
            Result::F64 => Ty::B64,
        }
    }

    /// How many elements along `k` a lane has of A, those that are not stored included, or of B.
    fn along_k(&self, element: Element, stored: usize, lanes: usize) -> usize {
        let words = self.words_of_ab(element.bits() / stored, lanes);
        words * 32 * stored / element.bits()
    }

    /// Block, row of A or column of B, and `k` of the element `e` along `k` of a lane that has `per`.
    fn coordinates(&self, bits: usize, per: usize, lane: usize, e: usize) -> [usize; 3] {
        let (mn, k) = (self.mn, self.k);
        match self.generation {
            Gen::Cdna3 => {
                let group = lane / mn;
                [
                    group % self.blocks,
                    lane % mn,
                    group / self.blocks * per + e,
                ]
            }
            Gen::Rdna4 => {
                // The two highest bits of k are bits 4 and 5 of the lane; in waves of 32 lanes there
                // is no bit 5, and the highest bit of e takes its place. Where elements are halves
                // bit 4 is the lower of the two. If lanes have all of the rest, they repeat it.
                let (bit4, bit5) = (lane / 16 % 2, lane / 32);
                let (low, high) = if bits == 16 {
                    (bit4, bit5)
                } else {
                    (bit5, bit4)
                };
                let k = match (per * 4 == k, bits) {
                    (true, _) => high * k / 2 + low * k / 4 + e,
                    (false, 16) => e % (per / 2) + low * k / 4 + e / (per / 2) * k / 2,
                    (false, _) => high * k / 2 + e,
                };
                [0, lane % 16, k]
            }
            _ => [0, lane % 16, e],
        }
    }

    /// Where row `i` of a block of C or D is: lane of its first column, and which element of a lane.
    fn row_of_d(&self, lanes: usize, block: usize, i: usize) -> [usize; 2] {
        match (self.generation, self.mn, lanes, self.d.bits()) {
            (Gen::Cdna3, 16, _, 64) => [16 * (i % 4), i / 4],
            (Gen::Cdna3, 4, _, 64) => [16 * i + 4 * block, 0],
            (Gen::Cdna3, 32, ..) => [32 * (i / 4 % 2), 16 * block + 4 * (i / 8) + i % 4],
            (Gen::Cdna3, 16, ..) => [16 * (i / 4), 4 * block + i % 4],
            (Gen::Cdna3, ..) => [4 * block, i],
            (Gen::Rdna4, _, 32, _) => [16 * (i / 8), i % 8],
            (Gen::Rdna4, ..) => [32 * (i / 4 % 2) + 16 * (i / 8), i % 4],
            _ => [16 * i % lanes, 16 * i / lanes],
        }
    }

    /// Whether CDNA has these modifiers.
    fn check(&self, mods: Mods) -> std::result::Result<(), Stop> {
        let Mods {
            neg_hi: cbsz,
            neg_lo: blgp,
            ..
        } = mods;
        let (cbsz, abid) = (usize::from(cbsz), mods.abid());
        if 1 << cbsz > self.blocks || abid >> cbsz != 0 {
            let what = format!("cbsz {cbsz}, abid {abid} with {} blocks", self.blocks);
            return Err(Stop::Rule(&MFMA_CBSZ, what));
        }
        if blgp != 0 && self.d != Result::F64 && !self.has_blgp() {
            return Err(Stop::Rule(&MFMA_BLGP, format!("blgp {blgp}")));
        }
        Ok(())
    }

    /// Whether `blgp` moves lanes of B.
    fn has_blgp(&self) -> bool {
        self.d != Result::F64 && (self.blocks > 1 || self.b == Element::F32)
    }
}

/// A product, operands resolved.
pub(super) struct Lowered {
    matrix: Matrix,
    mods: Mods,
    /// The first VGPRs of A and B.
    ab: [usize; 2],
    c: Source,
    d: usize,
    shape: Shape,
}

impl Lowered {
    /// Resolves everything that does not depend on the contents of registers.
    pub fn new(
        matrix: Matrix,
        mods: Mods,
        halves: usize,
        ab: [usize; 2],
        c: Source,
        d: usize,
    ) -> std::result::Result<Self, Stop> {
        let lanes = 32 * halves;
        let Matrix { mn, k, blocks, .. } = matrix;
        let stored = if matrix.sparse { 2 } else { 1 };
        if matrix.generation == Gen::Cdna3 && !matrix.sparse {
            matrix.check(mods)?;
        }
        let mut a = vec![0; blocks * mn * k / stored];
        let per = matrix.along_k(matrix.a, stored, lanes);
        for lane in (0..lanes).rev() {
            for e in (0..per).step_by(stored) {
                let [block, i, k_of] = matrix.coordinates(matrix.a.bits(), per, lane, e);
                let at = ((block * mn + i) * k + k_of) / stored;
                a[at] = (e / stored * lanes + lane) as u16;
            }
        }
        if matrix.generation == Gen::Cdna3 && !matrix.sparse {
            // One block of A stands for 2^cbsz of them.
            let (group, size) = ((1 << mods.neg_hi) - 1, mn * k);
            for block in 0..blocks {
                let from = (block & !group) + mods.abid();
                a.copy_within(from * size..(from + 1) * size, block * size);
            }
        }
        let mut b = vec![0; blocks * k];
        let per = matrix.along_k(matrix.b, 1, lanes);
        for lane in (0..lanes).rev() {
            for e in 0..per {
                let [block, j, k_of] = matrix.coordinates(matrix.b.bits(), per, lane, e);
                if j == 0 {
                    b[block * k + k_of] = (e * lanes + lane) as u16;
                }
            }
        }
        let d_rows = (0..blocks * mn).map(|row| {
            let [lane, at] = matrix.row_of_d(lanes, row / mn, row % mn);
            (at * lanes + lane) as u16
        });
        let shape = Shape {
            lanes,
            mn,
            k: k / stored,
            a,
            b,
            d: d_rows.collect(),
            sparse: matrix.sparse,
        };
        Ok(Self {
            matrix,
            mods,
            ab,
            c,
            d,
            shape,
        })
    }
}

impl Lowered {
    /// Multiplies.
    pub fn run(&self, wave: &mut Wave) -> std::result::Result<(), Stop> {
        if self.matrix.is_rdna3() {
            self.check_replicas(wave)?;
        }
        // The large products are those of CDNA with more than 16 rows, or more than one block.
        let small = self.shape.d.len() * self.matrix.mn <= 256 && self.shape.fits(512);
        match (self.matrix.d, small) {
            (Result::F64, _) => self.multiply::<f64, 512, 256>(wave),
            (Result::I32, true) => self.multiply::<i32, 512, 256>(wave),
            (Result::I32, false) => self.multiply::<i32, 1024, 2048>(wave),
            (_, true) => self.multiply::<f32, 512, 256>(wave),
            (_, false) => self.multiply::<f32, 1024, 2048>(wave),
        }
        Ok(())
    }

    fn check_replicas(&self, wave: &Wave) -> std::result::Result<(), Stop> {
        let words = [self.matrix.words_of_a(), self.matrix.words_of_b()];
        for (first, words) in self.ab.into_iter().zip(words) {
            for register in first..first + usize::from(words) {
                let mut differs = 0;
                for half in 0..wave.halves {
                    let (lanes, row) = (wave.vgpr(register, half), wave.vgpr(register, 0));
                    for i in 0..16 {
                        differs |= (lanes[i] ^ row[i]) | (lanes[i + 16] ^ row[i]);
                    }
                }
                if differs != 0 {
                    let what = format!("rows of 16 lanes of v{register} differ");
                    return Err(Stop::Rule(&WMMA_REPLICATE, what));
                }
            }
        }
        Ok(())
    }

    fn multiply<T: Cell, const AB: usize, const D: usize>(&self, wave: &mut Wave) {
        let (matrix, lanes) = (&self.matrix, self.shape.lanes);
        // CDNA has other modifiers in the place of these, but for f64.
        let signed = matrix.generation != Gen::Cdna3 || matrix.d == Result::F64;
        let signs = |k: usize| {
            [self.mods.neg_lo, self.mods.neg_hi].map(|bits| signed && bits >> k & 1 != 0)
        };
        let (mut a, mut b, mut d) = ([T::default(); AB], [T::default(); AB], [T::default(); D]);
        let [words_of_a, words_of_b, _, words] = matrix.words(lanes);
        T::unpack(wave, matrix.a, signs(0), self.ab[0], words_of_a, &mut a);
        T::unpack(wave, matrix.b, signs(1), self.ab[1], words_of_b, &mut b);
        if matrix.has_blgp() {
            pattern(self.mods.neg_lo, &mut b);
        }
        let high = self.mods.op_sel & 4 != 0;
        // A sparse product adds to D; its third source has the indices.
        let d_itself = Source::Vgpr(self.d);
        let c = if matrix.sparse { &d_itself } else { &self.c };
        T::load(wave, matrix, c, signs(2), high, words, &mut d);
        let indices = self.indices(wave);
        // Clamp saturates the sum; all before it fits.
        let clamp = self.mods.clamp && matrix.generation != Gen::Cdna3;
        let c = clamp.then(|| std::mem::replace(&mut d, [T::default(); D]));
        T::multiply(Job {
            shape: &self.shape,
            a: &a,
            b: &b,
            d: &mut d,
            indices: &indices,
        });
        if let Some(c) = c {
            for (d, c) in d.iter_mut().zip(c) {
                *d = d.saturating_add(c);
            }
        }
        T::store(wave, matrix, self.d, high, words, &d);
    }

    /// For each lane, where the stored elements of A are among four along `k`, two bits for each.
    fn indices(&self, wave: &Wave) -> [u32; 64] {
        let mut indices = [0; 64];
        if !self.shape.sparse {
            return indices;
        }
        let Source::Vgpr(register) = self.c else {
            return indices;
        };
        let stored = self.matrix.along_k(self.matrix.a, 2, self.shape.lanes) / 2;
        let key = match self.matrix.generation {
            Gen::Cdna3 if self.mods.neg_hi != 0 => 0,
            Gen::Cdna3 => self.mods.abid(),
            _ => usize::from(self.mods.op_sel & 3),
        };
        let shift = (key * 2 * stored) as u32 & 31;
        for half in 0..wave.halves {
            for (to, from) in indices[32 * half..]
                .iter_mut()
                .zip(wave.vgpr(register, half))
            {
                *to = from >> shift;
            }
        }
        indices
    }
}

/// `blgp`: 1 and 2 repeat one half of the lanes, 3 rotates by 16, 4 to 7 repeat one row of 16.
fn pattern<T: Copy>(blgp: u8, b: &mut [T]) {
    let from = |lane: usize| match blgp {
        1 => lane % 32,
        2 => 32 + lane % 32,
        3 => (lane + 16) % 64,
        4.. => 16 * (usize::from(blgp) - 4) + lane % 16,
        _ => lane,
    };
    if blgp != 0 {
        for register in b.chunks_exact_mut(64) {
            let old: [T; 64] = std::array::from_fn(|lane| register[lane]);
            for (lane, to) in register.iter_mut().enumerate() {
                *to = old[from(lane)];
            }
        }
    }
}
