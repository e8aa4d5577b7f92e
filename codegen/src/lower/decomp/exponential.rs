//! 2^x, log2 and powers. The polynomials are minimax fits over the reduced interval; the comment at
//! each says its error relative to the function.

use super::builder::{Builder, signed_bits};
use crate::dtype::DType;
use crate::ir::{Binary, Id, Op, Unary};

/// 2^f for |f| <= 1/2, error 2^-27.9; the first coefficient is exactly 1, so powers of integers are
/// exact.
pub(crate) const EXP2_F32: [f64; 7] = [
    1.0,
    0.6931472420692444,
    0.24022650718688965,
    0.05550297349691391,
    0.009618030861020088,
    0.0013410000829026103,
    0.00015469732170458883,
];

/// As [`EXP2_F32`], error 2^-58.
const EXP2_F64: [f64; 12] = [
    1.0,
    std::f64::consts::LN_2,
    0.2402265069591013,
    0.055504108664820084,
    0.009618129107594122,
    0.0013333558146774525,
    0.00015403530457109793,
    1.5252733493199663e-05,
    1.3215435283317969e-06,
    1.0178199548814691e-07,
    7.073783092780602e-09,
    4.434773890095194e-10,
];

/// log2(1 + f) / f for sqrt(1/2) <= 1 + f <= sqrt(2), error 2^-27.9.
const LOG2_F32: [f64; 10] = [
    1.4426950216293335,
    -0.7213473320007324,
    0.4808982312679291,
    -0.3606966435909271,
    0.2885674238204956,
    -0.23961743712425232,
    0.20460055768489838,
    -0.19106246531009674,
    0.18617527186870575,
    -0.10995057970285416,
];

/// (ln(1 + f) / s - 2) / s^2 in powers of s^2, where s = f / (2 + f); error 2^-63.8.
pub(super) const LOG_F64: [f64; 8] = [
    0.6666666666666666,
    0.4000000000000089,
    0.28571428570794766,
    0.22222222393603783,
    0.18181795448270974,
    0.15386249681085098,
    0.1326851628843818,
    0.13089219145905778,
];

/// What [`LOG_F64`] leaves after its exact first coefficient 2/3, divided by s^2; error 2^-69.
const LOG_TAIL_F64: [f64; 8] = [
    0.4,
    0.2857142857142938,
    0.2222222222164818,
    0.181818183370346,
    0.15384594796294804,
    0.13334813317048258,
    0.11706014884414756,
    0.11725409493674789,
];

/// 2/3 and what its `f64` misses.
const TWO_THIRDS: (f64, f64) = (0.6666666666666666, 3.700743415417188e-17);
/// 1/ln 2 and what its `f64` misses.
const LOG2_E: (f64, f64) = (std::f64::consts::LOG2_E, 2.0355273740931033e-17);

impl Builder<'_> {
    /// 2^x: round to the integer n, polynomial of the rest, scale by 2^n.
    pub fn exp2(&mut self, x: Id) -> Id {
        self.exp2_sum(x, None)
    }

    /// 2^(x + low), where low is far below the unit in the last place of x.
    pub(super) fn exp2_sum(&mut self, x: Id, low: Option<Id>) -> Id {
        let dtype = self.g.dtype(x);
        let single = dtype == DType::F32;
        // Beyond these the result is 0 or infinity anyway; the comparisons let NaN pass.
        let (least, most) = if single {
            (-160.0, 130.0)
        } else {
            (-1090.0, 1030.0)
        };
        let (least, most) = (self.float(dtype, least), self.float(dtype, most));
        let under = self.less(x, least);
        let clamped = self.select(under, least, x);
        let over = self.less(most, clamped);
        let x = self.select(over, most, clamped);
        let magic = self.magic(dtype);
        let shifted = self.add(x, magic);
        let n = self.sub(shifted, magic);
        let mut f = self.sub(x, n);
        if let Some(low) = low {
            f = self.add(f, low);
        }
        let p = self.polynomial(f, if single { &EXP2_F32 } else { &EXP2_F64 });
        self.scaled(p, shifted)
    }

    /// 1.5 * 2^mantissa: added, it rounds to an integer and leaves that in the low bits of the sum.
    pub(super) fn magic(&mut self, dtype: DType) -> Id {
        let single = dtype == DType::F32;
        self.float(
            dtype,
            if single {
                12_582_912.0
            } else {
                6_755_399_441_055_744.0
            },
        )
    }

    /// `y * 2^n`, where n is in the low bits of `shifted`, in two normal factors, so that results below
    /// the normal range are rounded once. The high bits of the magic number leave on the left.
    pub(super) fn scaled(&mut self, y: Id, shifted: Id) -> Id {
        let bits = signed_bits(self.g.dtype(y));
        let raw = self.bitcast(shifted, bits);
        let half = self.shr(raw, 1);
        let rest = self.sub(raw, half);
        let mut y = y;
        for e in [half, rest] {
            let factor = self.two_to(e, self.g.dtype(y));
            y = self.mul(y, factor);
        }
        y
    }

    /// 2^e for an integer within the range of normal numbers; of more bits, the low ones count.
    pub(super) fn two_to(&mut self, e: Id, dtype: DType) -> Id {
        let (mantissa, bias) = match dtype {
            DType::F32 => (23, 127),
            _ => (52, 1023),
        };
        let bias = self.int(signed_bits(dtype), bias);
        let e = self.add(e, bias);
        let e = self.shl(e, mantissa);
        self.bitcast(e, dtype)
    }

    /// `x = 2^e * (1 + f)` with `sqrt(1/2) <= 1 + f < sqrt(2)`, for positive finite x: `(e, f)`, where e
    /// is an integer.
    pub(super) fn split_exponent(&mut self, x: Id) -> (Id, Id) {
        let dtype = self.g.dtype(x);
        let bits = signed_bits(dtype);
        let (smallest, scale, mantissa, root) = if dtype == DType::F32 {
            (f64::from(f32::MIN_POSITIVE), 23, 23, 0x3f35_04f3)
        } else {
            (f64::MIN_POSITIVE, 52, 52, 0x3fe6_a09e_667f_3bcd)
        };
        let smallest = self.float(dtype, smallest);
        let subnormal = self.less(x, smallest);
        let up = self.float(dtype, 2f64.powi(scale));
        let scaled = self.mul(x, up);
        let x = self.select(subnormal, scaled, x);
        // Distance of the bits from those of sqrt(1/2): the exponent is what carries out of the
        // mantissa.
        let raw = self.bitcast(x, bits);
        let root = self.int(bits, root);
        let distance = self.sub(raw, root);
        let e = self.shr(distance, mantissa);
        let exponent = self.shl(e, mantissa);
        let m = self.sub(raw, exponent);
        let m = self.bitcast(m, dtype);
        let one = self.float(dtype, 1.0);
        let f = self.sub(m, one);
        let lifted = self.int(bits, -i64::from(scale));
        let none = self.int(bits, 0);
        let correction = self.select(subnormal, lifted, none);
        let e = self.add(e, correction);
        (e, f)
    }

    /// log2: exponent plus the logarithm of the mantissa.
    pub fn log2(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let (e, f) = self.split_exponent(x);
        let e = self.g.cast(e, dtype);
        let y = if dtype == DType::F32 {
            let p = self.polynomial(f, &LOG2_F32);
            self.fma(f, p, e)
        } else {
            // ln(1 + f) = f - (f*f/2 - s*(f*f/2 + z*R(z))), which loses nothing for small f.
            let two = self.float(dtype, 2.0);
            let denominator = self.add(two, f);
            let s = self.g.binary(Binary::FDiv, f, denominator);
            let z = self.mul(s, s);
            let r = self.polynomial(z, &LOG_F64);
            let r = self.mul(z, r);
            let half = self.float(dtype, 0.5);
            let square = self.mul(f, f);
            let square = self.mul(square, half);
            let inner = self.add(square, r);
            let inner = self.mul(s, inner);
            let inner = self.sub(square, inner);
            let ln = self.sub(f, inner);
            let (high, low) = (self.float(dtype, LOG2_E.0), self.float(dtype, LOG2_E.1));
            let low = self.mul(ln, low);
            let small = self.fma(ln, high, low);
            self.add(small, e)
        };
        self.log2_limits(x, y)
    }

    /// `y`, a logarithm of a positive finite x, completed for the rest.
    pub(super) fn log2_limits(&mut self, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        let zero = self.float(dtype, 0.0);
        let infinity = self.float(dtype, f64::INFINITY);
        let minus_infinity = self.float(dtype, f64::NEG_INFINITY);
        let nan = self.float(dtype, f64::NAN);
        let is_zero = self.equal(x, zero);
        let outside = self.select(is_zero, minus_infinity, nan);
        let positive = self.less(zero, x);
        let y = self.select(positive, y, outside);
        let endless = self.equal(x, infinity);
        self.select(endless, infinity, y)
    }

    /// x to the power y as C defines it: 2^(y * log2|x|), sign and special cases apart.
    pub fn pow(&mut self, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        let size = self.g.unary(Unary::Abs, x);
        let power = if self.lacks_f64(dtype) {
            self.pow_in_single(size, y)
        } else if dtype == DType::F32 {
            // f64 has bits enough to multiply the logarithm by a large exponent.
            let (wide, exponent) = (self.cast(size, DType::F64), self.cast(y, DType::F64));
            let log = self.log2(wide);
            let product = self.mul(log, exponent);
            let power = self.exp2(product);
            self.cast(power, dtype)
        } else {
            self.pow_wide(size, y)
        };
        let one = self.float(dtype, 1.0);
        let zero = self.float(dtype, 0.0);
        let (unit, number) = (self.equal(size, one), self.equal(y, y));
        let exact = self.and(unit, number);
        let power = self.select(exact, one, power);
        // The sign of a negative base survives an odd exponent; an exponent that is no integer
        // leaves NaN, but for -0 and -inf.
        let whole = self.g.unary(Unary::Trunc, y);
        let integer = self.equal(whole, y);
        let half = self.float(dtype, 0.5);
        let half = self.mul(y, half);
        let half_whole = self.g.unary(Unary::Trunc, half);
        let uneven = self.g.binary(Binary::Ne, half, half_whole);
        let odd = self.and(integer, uneven);
        let bits = signed_bits(dtype);
        let sign = self.bitcast(x, bits);
        let none = self.int(bits, 0);
        let negative = self.less(sign, none);
        let flips = self.and(odd, negative);
        let minus = self.g.unary(Unary::Neg, power);
        let power = self.select(flips, minus, power);
        let infinity = self.float(dtype, f64::INFINITY);
        let (below, finite) = (self.less(x, zero), self.less(size, infinity));
        let not_integer = self.not(integer);
        let invalid = self.and(below, finite);
        let invalid = self.and(invalid, not_integer);
        let nan = self.float(dtype, f64::NAN);
        let power = self.select(invalid, nan, power);
        let (y_zero, x_one) = (self.equal(y, zero), self.equal(x, one));
        let always_one = self.or(y_zero, x_one);
        self.select(always_one, one, power)
    }

    /// `a * b` as a sum of two.
    pub(super) fn product(&mut self, a: Id, b: Id) -> (Id, Id) {
        let high = self.mul(a, b);
        let dtype = self.g.dtype(a);
        if dtype == DType::F32 && !self.caps.fma.has(dtype) {
            return (high, self.lost_in_product(a, b, high));
        }
        let minus = self.g.unary(Unary::Neg, high);
        (high, self.fma(a, b, minus))
    }

    /// `a + b` as a sum of two, |a| >= |b| or a = 0.
    pub(super) fn sum(&mut self, a: Id, b: Id) -> (Id, Id) {
        let high = self.add(a, b);
        let used = self.sub(high, a);
        (high, self.sub(b, used))
    }

    /// |x|^y in `f64`, the logarithm as a sum of two numbers. Needs a fused multiply-add to keep its
    /// accuracy.
    fn pow_wide(&mut self, x: Id, y: Id) -> Id {
        let f64 = DType::F64;
        let (e, f) = self.split_exponent(x);
        let e = self.g.cast(e, f64);
        // s = f / (2 + f), both parts.
        let two = self.float(f64, 2.0);
        let (d, d_low) = self.sum(two, f);
        let s = self.g.binary(Binary::FDiv, f, d);
        let minus_s = self.g.unary(Unary::Neg, s);
        let rest = self.fma(minus_s, d, f);
        let rest = self.fma(minus_s, d_low, rest);
        let s_low = self.g.binary(Binary::FDiv, rest, d);
        // ln(1 + f) = 2s + s^3 * (2/3 + s^2 * tail).
        let (z, z_low) = self.product(s, s);
        let s2 = self.mul(two, s);
        let z_low = self.fma(s2, s_low, z_low);
        let (third, third_low) = (self.float(f64, TWO_THIRDS.0), self.float(f64, TWO_THIRDS.1));
        let (c, c_low) = self.product(z, third);
        let c_low = self.fma(z_low, third, c_low);
        let c_low = self.fma(z, third_low, c_low);
        let tail = self.polynomial(z, &LOG_TAIL_F64);
        let zz = self.mul(z, z);
        let c_low = self.fma(zz, tail, c_low);
        // (2 + c) * (s + s_low)
        let (k, k_low) = self.sum(two, c);
        let k_low = self.add(k_low, c_low);
        let (ln, ln_low) = self.product(s, k);
        let ln_low = self.fma(s_low, k, ln_low);
        let ln_low = self.fma(s, k_low, ln_low);
        // log2 = ln / ln 2 + e.
        let (a, a_low) = (self.float(f64, LOG2_E.0), self.float(f64, LOG2_E.1));
        let (log, log_low) = self.product(ln, a);
        let log_low = self.fma(ln_low, a, log_low);
        let log_low = self.fma(ln, a_low, log_low);
        let (high, low) = self.sum(e, log);
        let low = self.add(low, log_low);
        let (high, low) = self.sum(high, low);
        // Zero, infinity and NaN have no low part.
        let limited = self.log2_limits(x, high);
        let (zero, infinity) = (self.float(f64, 0.0), self.float(f64, f64::INFINITY));
        let (positive, finite) = (self.less(zero, x), self.less(x, infinity));
        let ordinary = self.and(positive, finite);
        let low = self.select(ordinary, low, zero);
        let (p, p_low) = self.product(limited, y);
        let p_low = self.fma(low, y, p_low);
        // Where the product is beyond the range of 2^x the low part is of no use (and may be NaN).
        let limit = self.float(f64, 2000.0);
        let size = self.g.add(Op::Unary(Unary::Abs), f64, &[p]);
        let small = self.less(size, limit);
        let p_low = self.select(small, p_low, zero);
        self.exp2_sum(p, Some(p_low))
    }
}
