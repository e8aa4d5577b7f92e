//! Functions of `f32` for targets without `f64`, which others use where 24 digits are too few: sums of two floats, and
//! integers.

use super::builder::Builder;
use super::trigonometric::HALF_PI_F32;
use crate::dtype::DType;
use crate::ir::{Id, Unary};

/// pi/2 in parts of 11 bits, so that multiples up to 2^13 are exact products.
const HALF_PI_PARTS: [f64; 5] = [
    1.5703125,
    0.0004837512969970703,
    7.549533620476723e-08,
    2.5632829192545614e-12,
    6.120321263680673e-17,
];
/// Up to here the reduction by parts is exact enough: 2^13 quadrants.
const MODERATE: f64 = 12_867.0;
/// 1/ln 2 and what its `f32` misses.
const LOG2_E: [f64; 2] = [1.4426950216293335, 1.925963033500011e-08];

impl Builder<'_> {
    /// Whether functions of a type cannot use `f64`.
    pub(super) fn lacks_f64(&self, dtype: DType) -> bool {
        dtype == DType::F32 && !self.caps.has_cast(dtype, DType::F64)
    }

    /// `(k, x - k * pi/2)` for finite x >= 0, the difference as a sum of two.
    pub(super) fn quadrant_in_single(&mut self, size: Id) -> (Id, [Id; 2]) {
        let f32 = DType::F32;
        let (near_quadrant, near, near_low) = self.by_parts(size);
        let (far_quadrant, far, far_low) = self.by_bits_of_single(size);
        let moderate = self.float(f32, MODERATE);
        let is_moderate = self.less(size, moderate);
        let r = self.select(is_moderate, near, far);
        let low = self.select(is_moderate, near_low, far_low);
        (
            self.select(is_moderate, near_quadrant, far_quadrant),
            [r, low],
        )
    }

    fn by_parts(&mut self, x: Id) -> (Id, Id, Id) {
        let f32 = DType::F32;
        let scale = self.float(f32, std::f64::consts::FRAC_2_PI);
        let magic = self.magic(f32);
        let k = self.mul(x, scale);
        let shifted = self.add(k, magic);
        let k = self.sub(shifted, magic);
        let minus = self.g.unary(Unary::Neg, k);
        let (mut r, mut low) = (x, self.float(f32, 0.0));
        for part in HALF_PI_PARTS {
            let part = self.float(f32, part);
            let product = self.mul(minus, part);
            let (sum, lost) = self.any_sum(r, product);
            low = self.add(low, lost);
            r = sum;
        }
        let (r, low) = self.sum(r, low);
        let raw = self.bitcast(shifted, DType::I32);
        (self.g.cast(raw, DType::I64), r, low)
    }

    /// The bits of the `f64` of the same value, whose mantissa and exponent the digits of 2/pi are chosen by.
    fn by_bits_of_single(&mut self, x: Id) -> (Id, Id, Id) {
        let u64 = DType::U64;
        let raw = self.bitcast(x, DType::U32);
        let raw = self.g.cast(raw, u64);
        let mask = self.int(u64, (1 << 23) - 1);
        let hidden = self.int(u64, 1 << 23);
        let mantissa = self.and(raw, mask);
        let mantissa = self.or(mantissa, hidden);
        let mantissa = self.shl(mantissa, 29);
        let exponent = self.shr(raw, 23);
        let bias = self.int(u64, 1023 - 127);
        let exponent = self.add(exponent, bias);
        self.by_mantissa(mantissa, exponent, DType::F32)
    }

    /// An angle from its digits: `high` and what is below it count quarters of a turn, in units of 2^-64.
    pub(super) fn angle_in_single(&mut self, high: Id) -> (Id, Id) {
        let f32 = DType::F32;
        let [unit, unit_rest] = HALF_PI_F32.map(|part| part * 2f64.powi(-64));
        let (unit, unit_rest) = (self.float(f32, unit), self.float(f32, unit_rest));
        let whole = self.g.cast(high, f32);
        let back = self.g.cast(whole, DType::I64);
        let lost = self.sub(high, back);
        let lost = self.g.cast(lost, f32);
        let (r, r_low) = self.product(whole, unit);
        let low = self.fma(lost, unit, r_low);
        let low = self.fma(whole, unit_rest, low);
        self.sum(r, low)
    }

    /// `a * b - high`, the rounded product, of `f32` without a fused multiply-add: halves of the factors have 12 digits,
    /// and their products are exact.
    pub(super) fn lost_in_product(&mut self, a: Id, b: Id, high: Id) -> Id {
        let [(ah, al), (bh, bl)] = [a, b].map(|x| {
            let raw = self.bitcast(x, DType::U32);
            let mask = self.int(DType::U32, 0xffff_f000);
            let upper = self.and(raw, mask);
            let upper = self.bitcast(upper, DType::F32);
            (upper, self.sub(x, upper))
        });
        let mut lost = self.mul(ah, bh);
        lost = self.sub(lost, high);
        for (x, y) in [(ah, bl), (al, bh), (al, bl)] {
            let part = self.mul(x, y);
            lost = self.add(lost, part);
        }
        lost
    }

    /// |x|^y, the logarithm as a sum of two numbers.
    pub(super) fn pow_in_single(&mut self, x: Id, y: Id) -> Id {
        let f32 = DType::F32;
        let (high, low) = self.ln_parts(x, None, None);
        let (ln, ln_low) = self.sum(high, low);
        let [a, a_low] = LOG2_E.map(|part| self.float(f32, part));
        let (log, log_low) = self.product(ln, a);
        let log_low = self.fma(ln_low, a, log_low);
        let log_low = self.fma(ln, a_low, log_low);
        // Zero, infinity and NaN have no low part.
        let limited = self.log2_limits(x, log);
        let (zero, infinity) = (self.float(f32, 0.0), self.float(f32, f64::INFINITY));
        let (positive, finite) = (self.less(zero, x), self.less(x, infinity));
        let ordinary = self.and(positive, finite);
        let low = self.select(ordinary, log_low, zero);
        let (p, p_low) = self.product(limited, y);
        let p_low = self.fma(low, y, p_low);
        // Where the product is beyond the range of 2^x the low part is of no use (and may be NaN).
        let limit = self.float(f32, 200.0);
        let size = self.g.unary(Unary::Abs, p);
        let small = self.less(size, limit);
        let p_low = self.select(small, p_low, zero);
        self.exp2_sum(p, Some(p_low))
    }
}
