//! How a tensor core sums products of floating-point numbers.
//!
//! NVIDIA documents nothing of it; the manual of PTX only says that the sum is at least as good as one
//! of singles. What is here is a guess, made from measurements: M. Fasi, N. Higham, M. Mikaitis,
//! S. Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021); X. Li and others, "FTTN:
//! feature-targeted testing for numerical properties of NVIDIA and AMD matrix accelerators" (2024).
//! Products are exact. The addend and the products of a block are shifted to the greatest exponent, where
//! that of a product is the sum of its factors'; what is shifted out below some bits more than a single
//! has is cut off; the sum is exact, and is cut off to a single, or rounded to the nearest half. The next
//! block begins with that. A block is of 8 halves on Ampere and Ada with one bit more, of 16 on Hopper
//! with two; of half as many TF32, of twice as many numbers of eight bits (those are on no chip that was measured). Of
//! these Hopper keeps 13 bits below the greatest exponent where four warps multiply: DeepSeek-AI, "DeepSeek-V3
//! technical report" (2024), 3.5.2. That a sum of zero is positive, that one beyond the singles is
//! infinite, and that a half is rounded after each block, has no source.

use super::eighth::Eighth;
use super::half::Type;
use super::rounding::{Rounding, single};
use super::simd;
use super::single::canonical;
use crate::Chip;

/// What the factors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    Short(Type),
    /// Of A and of B, which may differ.
    Eighths([Eighth; 2]),
    /// The upper 19 bits of a single.
    Tf32,
}

/// What differs between chips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// Words of factors in a block.
    block: usize,
    /// Bits that are kept below those of a single.
    extra: i32,
}

impl Unit {
    pub fn of(chip: Chip) -> Self {
        if chip >= Chip::Sm90 {
            Self { block: 8, extra: 2 }
        } else {
            Self { block: 4, extra: 1 }
        }
    }

    /// Of products of four warps of Hopper, of numbers of eight bits.
    pub fn of_eighths() -> Self {
        Self {
            block: 8,
            extra: -10,
        }
    }
}

/// The exponent of zero: below all others, and of products with it, too.
const ZERO: i32 = -10_000;

/// The greatest number of words of factors in a row.
const WORDS: usize = 8;

/// A number and its exponent; without a leading one it has the least exponent of its type.
#[derive(Clone, Copy)]
struct Term {
    value: f64,
    exponent: i32,
}

impl Term {
    fn new(value: f32, least: i32) -> Self {
        let field = (f64::from(value).to_bits() >> 52 & 0x7ff) as i32;
        let exponent = if value == 0.0 {
            ZERO
        } else {
            (field - 1023).max(least)
        };
        Self {
            value: f64::from(value),
            exponent,
        }
    }
}

impl Factor {
    /// How many factors are in a word.
    fn each(self) -> usize {
        match self {
            Self::Tf32 => 1,
            Self::Short(_) => 2,
            Self::Eighths(_) => 4,
        }
    }

    /// A factor of a word of one of both operands.
    #[inline(always)]
    fn term(self, operand: usize, word: u32, k: usize) -> Term {
        match self {
            Self::Tf32 => Term::new(f32::from_bits(word & !0x1fff), -126),
            Self::Short(short) => Term::new(short.wide(word >> (16 * k) & 0xffff), least(short)),
            Self::Eighths(types) => {
                let of = types[operand];
                Term::new(of.wide(word >> (8 * k)), of.least())
            }
        }
    }
}

/// The least exponent of a type.
fn least(short: Type) -> i32 {
    match short {
        Type::Half => -14,
        Type::Brain => -126,
    }
}

/// A matrix of factors, by rows; its exponents.
struct Factors<const ROWS: usize, const MOST: usize> {
    values: [[f64; MOST]; ROWS],
    exponents: [[i32; MOST]; ROWS],
    finite: bool,
}

impl<const ROWS: usize, const MOST: usize> Factors<ROWS, MOST> {
    #[inline(always)]
    fn read(factor: Factor, operand: usize, words: &[[u32; WORDS]; ROWS], count: usize) -> Self {
        let mut factors = Self {
            values: [[0.0; MOST]; ROWS],
            exponents: [[ZERO; MOST]; ROWS],
            finite: true,
        };
        let each = factor.each();
        for (row, words) in words.iter().enumerate() {
            for (at, &word) in words[..count].iter().enumerate() {
                for k in 0..each {
                    let term = factor.term(operand, word, k);
                    factors.values[row][at * each + k] = term.value;
                    factors.exponents[row][at * each + k] = term.exponent;
                    factors.finite &= term.value.is_finite();
                }
            }
        }
        factors
    }
}

/// A product of matrices and a sum.
pub(crate) struct Product<'a> {
    pub unit: Unit,
    pub factor: Factor,
    /// Whether sums are halves; they are singles otherwise.
    pub half: bool,
    /// Words of factors in each row of A and column of B.
    pub words: usize,
    pub a: &'a [[u32; 8]; 16],
    pub b: &'a [[u32; 8]; 8],
    /// Rows of C, and of the result.
    pub sums: &'a mut [[u32; 8]; 16],
}

impl Product<'_> {
    pub fn run(self) {
        match self.factor {
            Factor::Eighths(_) => simd::run(OfAtMost::<{ 4 * WORDS }>(self)),
            _ => simd::run(OfAtMost::<{ 2 * WORDS }>(self)),
        }
    }

    /// Sums as numbers.
    fn addend(&self, bits: u32) -> Term {
        if self.half {
            Term::new(Type::Half.wide(bits), least(Type::Half))
        } else {
            Term::new(f32::from_bits(bits), -126)
        }
    }

    fn result(&self, value: f64) -> u32 {
        if self.half {
            return Type::Half.narrow(value, Rounding::Nearest);
        }
        let infinite = value.abs() >= 2_f64.powi(128);
        canonical(if infinite {
            value as f32
        } else {
            single(value, Rounding::Zero)
        })
    }
}

/// One whose rows of A have at most so many factors.
struct OfAtMost<'a, const MOST: usize>(Product<'a>);

impl<const MOST: usize> simd::Kernel for OfAtMost<'_, MOST> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        self.0.sum::<MOST>();
    }
}

impl Product<'_> {
    #[inline(always)]
    fn sum<const MOST: usize>(self) {
        let each = self.factor.each();
        let count = self.words * each;
        let block = self.unit.block * each;
        let a = Factors::<16, MOST>::read(self.factor, 0, self.a, self.words);
        let b = Factors::<8, MOST>::read(self.factor, 1, self.b, self.words);
        // By columns, so that a loop over them is over neighbours.
        let mut values = [[0.0; 8]; MOST];
        let mut exponents = [[ZERO; 8]; MOST];
        for k in 0..count {
            for n in 0..8 {
                (values[k][n], exponents[k][n]) = (b.values[n][k], b.exponents[n][k]);
            }
        }
        for m in 0..16 {
            let row = self.sums[m];
            let mut sums = row;
            for start in (0..count).step_by(block) {
                let range = start..(start + block).min(count);
                let addends = sums.map(|bits| self.addend(bits));
                let mut most = addends.map(|addend| addend.exponent);
                for k in range.clone() {
                    for n in 0..8 {
                        most[n] = most[n].max(a.exponents[m][k] + exponents[k][n]);
                    }
                }
                // Powers of two by which the last bit that is kept becomes 1, and back.
                let shift = most.map(|most| 23 + self.unit.extra - most.max(-600));
                let up = shift.map(power);
                let mut total = [0.0; 8];
                for n in 0..8 {
                    total[n] = (addends[n].value * up[n]).trunc();
                }
                for k in range {
                    for n in 0..8 {
                        total[n] += (a.values[m][k] * values[k][n] * up[n]).trunc();
                    }
                }
                for n in 0..8 {
                    sums[n] = self.result(total[n] * power(-shift[n]) + 0.0);
                }
            }
            let special = |n: usize| !self.addend(row[n]).value.is_finite();
            for n in 0..8 {
                if a.finite && b.finite && !special(n) {
                    continue;
                }
                // Of infinities, and what is no number, the order does not matter.
                let products = (0..count).map(|k| a.values[m][k] * values[k][n]);
                let total = products.fold(self.addend(row[n]).value, |sum, x| sum + x);
                if !total.is_finite() {
                    sums[n] = self.result(total);
                }
            }
            self.sums[m] = sums;
        }
    }
}

#[inline(always)]
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}
