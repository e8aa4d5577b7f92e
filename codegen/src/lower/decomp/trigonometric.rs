//! Sine, cosine and tangent: reduction by pi/2 (three constants for moderate arguments, the bits of 2/pi for all
//! others), then a polynomial chosen by the quadrant.

use super::builder::Builder;
use crate::dtype::DType;
use crate::ir::{Binary, Id, Unary};

/// (sin(r) / r - 1) / r^2 in powers of r^2 for |r| <= pi/4, error 2^-26.3.
const SIN_F32: [f64; 3] = [
    -0.166666641831398,
    0.008332747034728527,
    -0.00019587506540119648,
];
/// (cos(r) - 1 + r^2/2) / r^4 in powers of r^2, error 2^-30.3.
const COS_F32: [f64; 3] = [
    0.0416666641831398,
    -0.0013888301327824593,
    2.454753666825127e-05,
];
/// As [`SIN_F32`], error 2^-56.1.
const SIN_F64: [f64; 6] = [
    -0.16666666666666666,
    0.008333333333330927,
    -0.0001984126983672488,
    2.755731608492995e-06,
    -2.5051128149984192e-08,
    1.591786185378306e-10,
];
/// As [`COS_F32`], error 2^-60.8.
const COS_F64: [f64; 6] = [
    0.041666666666666664,
    -0.0013888888888887382,
    2.480158729874444e-05,
    -2.755731726062794e-07,
    2.0876143942503165e-09,
    -1.1382464188403292e-11,
];

/// pi/2 in parts of 25 bits, so that multiples up to 2^28 are exact products, and the rest.
const HALF_PI_SHORT: [f64; 3] = [
    1.5707963109016418,
    1.5893254712295857e-08,
    6.123233995736766e-17,
];
/// pi/2 in parts of 24 bits.
pub(super) const HALF_PI_F32: [f64; 2] = [1.5707963705062866, -4.371138828673793e-08];
/// pi/2 in parts of 53 bits.
const HALF_PI: [f64; 3] = [
    std::f64::consts::FRAC_PI_2,
    6.123233995736766e-17,
    -1.4973849048591698e-33,
];

/// 2/pi after the point, in digits of 32 bits. The last digits serve arguments near 2^1024.
const TWO_OVER_PI: [u32; 40] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_6bab,
    0xf0cf_bc20,
    0x9af4_361d,
];

/// Up to here the three-part reduction is exact enough.
const MODERATE: f64 = 134_217_728.0;

impl Builder<'_> {
    /// sin(x), x in radians.
    pub fn sin(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let size = self.g.unary(Unary::Abs, x);
        let (quadrant, [r, low]) = self.quadrant(size);
        let (sine, cosine) = self.waves(r, low, dtype);
        let value = self.turned(quadrant, sine, cosine);
        // sin(-x) = -sin(x), also for -0.
        let bits = super::builder::signed_bits(dtype);
        let sign = self.float(dtype, -0.0);
        let (sign, raw, value) = (
            self.bitcast(sign, bits),
            self.bitcast(x, bits),
            self.bitcast(value, bits),
        );
        let sign = self.and(raw, sign);
        let value = self.g.binary(Binary::Xor, value, sign);
        let value = self.bitcast(value, dtype);
        self.of_finite(size, value)
    }

    /// cos(x), x in radians: the sine a quadrant further.
    pub fn cos(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let size = self.g.unary(Unary::Abs, x);
        let (quadrant, [r, low]) = self.quadrant(size);
        let one = self.int(DType::I64, 1);
        let quadrant = self.add(quadrant, one);
        let (sine, cosine) = self.waves(r, low, dtype);
        let value = self.turned(quadrant, sine, cosine);
        self.of_finite(size, value)
    }

    /// tan(x), x in radians. Of `f32` the quotient is one of `f64`, which rounds once.
    pub fn tan(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let f64 = DType::F64;
        let size = self.g.unary(Unary::Abs, x);
        let (quadrant, [r, low]) = self.quadrant(size);
        let (sine, cosine) = if self.lacks_f64(dtype) {
            self.waves(r, low, dtype)
        } else if dtype == DType::F32 {
            self.waves_by(r, None, (&SIN_F32, &COS_F32))
        } else {
            self.waves(r, low, f64)
        };
        let one = self.int(DType::I64, 1);
        let odd = self.and(quadrant, one);
        let odd = self.equal(odd, one);
        let top = self.select(odd, cosine, sine);
        let bottom = self.select(odd, sine, cosine);
        let value = self.g.binary(Binary::FDiv, top, bottom);
        let minus = self.g.unary(Unary::Neg, value);
        let value = self.select(odd, minus, value);
        let value = self.cast(value, dtype);
        let zero = self.float(dtype, 0.0);
        let (minus, negative) = (self.g.unary(Unary::Neg, value), self.less(x, zero));
        let value = self.select(negative, minus, value);
        let is_zero = self.equal(x, zero);
        let value = self.select(is_zero, x, value);
        self.of_finite(size, value)
    }

    fn of_finite(&mut self, size: Id, value: Id) -> Id {
        let dtype = self.g.dtype(size);
        let infinity = self.float(dtype, f64::INFINITY);
        let finite = self.less(size, infinity);
        let nan = self.float(dtype, f64::NAN);
        self.select(finite, value, nan)
    }

    /// `(k, x - k * pi/2)` for finite x >= 0 in `f64`, if there is one, the difference as a sum of two.
    fn quadrant(&mut self, size: Id) -> (Id, [Id; 2]) {
        if self.lacks_f64(self.g.dtype(size)) {
            return self.quadrant_in_single(size);
        }
        let single = self.g.dtype(size) == DType::F32;
        // The reduction is done in f64 for both types.
        let wide = self.g.cast(size, DType::F64);
        let (near_quadrant, near, near_low) = self.reduce_moderate(wide, single);
        let (far_quadrant, far, far_low) = self.reduce_by_bits(wide, single);
        let moderate = self.float(DType::F64, MODERATE);
        let is_moderate = self.less(wide, moderate);
        let r = self.select(is_moderate, near, far);
        let low = self.select(is_moderate, near_low, far_low);
        (
            self.select(is_moderate, near_quadrant, far_quadrant),
            [r, low],
        )
    }

    /// Sine and cosine of `r + low` in a type.
    fn waves(&mut self, r: Id, low: Id, dtype: DType) -> (Id, Id) {
        if dtype == DType::F32 {
            let low = self.lacks_f64(dtype).then_some(low);
            let r = self.g.cast(r, dtype);
            return self.waves_by(r, low, (&SIN_F32, &COS_F32));
        }
        self.waves_by(r, Some(low), (&SIN_F64, &COS_F64))
    }

    fn waves_by(&mut self, r: Id, low: Option<Id>, tables: (&[f64], &[f64])) -> (Id, Id) {
        let dtype = self.g.dtype(r);
        let z = self.mul(r, r);
        let p = self.polynomial(z, tables.0);
        let rz = self.mul(r, z);
        let minus_half = self.float(dtype, -0.5);
        let one = self.float(dtype, 1.0);
        let half_down = self.fma(z, minus_half, one);
        let sine = match low {
            // low cos(r) goes in before the last sum.
            Some(low) => {
                let low = self.mul(low, half_down);
                let rest = self.fma(rz, p, low);
                self.add(r, rest)
            }
            None => self.fma(rz, p, r),
        };
        let p = self.polynomial(z, tables.1);
        let cosine = match low {
            Some(low) => {
                // What rounding 1 - z/2 loses, and low sin(r).
                let used = self.sub(one, half_down);
                let lost = self.fma(z, minus_half, used);
                let square = self.mul(z, z);
                let minus = self.g.unary(Unary::Neg, low);
                let rest = self.fma(minus, r, lost);
                let rest = self.fma(square, p, rest);
                self.add(half_down, rest)
            }
            None => {
                let p = self.fma(z, p, minus_half);
                self.fma(z, p, one)
            }
        };
        (sine, cosine)
    }

    /// The sine of what is `quadrant` quadrants further.
    fn turned(&mut self, quadrant: Id, sine: Id, cosine: Id) -> Id {
        let (bit0, bit1) = (self.int(DType::I64, 1), self.int(DType::I64, 2));
        let zero = self.int(DType::I64, 0);
        let odd = self.and(quadrant, bit0);
        let even = self.equal(odd, zero);
        let value = self.select(even, sine, cosine);
        let lower = self.and(quadrant, bit1);
        let lower = self.g.binary(Binary::Ne, lower, zero);
        let minus = self.g.unary(Unary::Neg, value);
        self.select(lower, minus, value)
    }

    /// `(k, x - k * pi/2)` for 0 <= x < [`MODERATE`], k the nearest integer; for `f64` as a sum of two.
    fn reduce_moderate(&mut self, x: Id, single: bool) -> (Id, Id, Id) {
        let f64 = DType::F64;
        let scale = self.float(f64, std::f64::consts::FRAC_2_PI);
        let magic = self.float(f64, 6_755_399_441_055_744.0);
        let k = self.mul(x, scale);
        let shifted = self.add(k, magic);
        let k = self.sub(shifted, magic);
        let minus = self.g.unary(Unary::Neg, k);
        let mut r = x;
        let mut low = self.float(f64, 0.0);
        if single {
            for part in HALF_PI_SHORT {
                let part = self.float(f64, part);
                let product = self.mul(minus, part);
                r = self.add(r, product);
            }
        } else {
            for part in HALF_PI {
                let part = self.float(f64, part);
                // What is left may be far smaller than what is taken away, so nothing of that is lost.
                let (p, p_low) = self.product(minus, part);
                let (sum, lost) = self.any_sum(r, p);
                let (sum, more) = self.any_sum(sum, p_low);
                let lost = self.add(lost, more);
                low = self.add(low, lost);
                r = sum;
            }
            (r, low) = self.sum(r, low);
        }
        (self.bitcast(shifted, DType::I64), r, low)
    }

    /// As [`Builder::reduce_moderate`] for every finite x >= 1: the integer mantissa times those
    /// digits of 2/pi that decide the quadrant and the fraction.
    fn reduce_by_bits(&mut self, x: Id, single: bool) -> (Id, Id, Id) {
        let u64 = DType::U64;
        let raw = self.bitcast(x, u64);
        // x = mantissa * 2^e. The offset makes e - offset >= 0; with 32 as a multiple the digits of
        // the table start with zeros.
        let mask = self.int(u64, (1 << 52) - 1);
        let hidden = self.int(u64, 1 << 52);
        let mantissa = self.and(raw, mask);
        let mantissa = self.or(mantissa, hidden);
        let exponent = self.shr(raw, 52);
        self.by_mantissa(
            mantissa,
            exponent,
            if single { DType::F32 } else { DType::F64 },
        )
    }

    /// The same by 53 digits, and an exponent with its bias, of a number that was of a type.
    pub(super) fn by_mantissa(&mut self, mantissa: Id, exponent: Id, of: DType) -> (Id, Id, Id) {
        let u64 = DType::U64;
        let single = of == DType::F32;
        // e + 64 = 32 * j + t
        let offset = self.int(u64, 1023 + 52 - 64);
        let e = self.sub(exponent, offset);
        let low_bits = self.int(u64, 31);
        let t = self.and(e, low_bits);
        let j = self.shr(e, 5);
        let digits = self.two_over_pi(j, single);
        let sums = self.columns(mantissa, t, &digits, single);
        self.fraction(&sums, single)
    }

    /// How many digits of 2/pi [`Builder::reduce_by_bits`] multiplies.
    const fn window(single: bool) -> usize {
        if single { 6 } else { 8 }
    }

    /// The digits of 2/pi, of 32 bits each, from digit `j` of the table on.
    fn two_over_pi(&mut self, j: Id, single: bool) -> Vec<Id> {
        let u64 = DType::U64;
        // Digit k of the window has the weight 2^(-32 k): those before it contribute multiples of 4.
        let steps: &[u32] = if single {
            &[4, 2, 1]
        } else {
            &[32, 16, 8, 4, 2, 1]
        };
        let width = Self::window(single);
        let span: usize = steps.iter().map(|&s| s as usize).sum();
        let mut digits: Vec<Id> = (0..width + span)
            .map(|i| {
                let digit = i.checked_sub(3).and_then(|i| TWO_OVER_PI.get(i)).copied();
                self.int(u64, i64::from(digit.unwrap_or(0)))
            })
            .collect();
        let none = self.int(u64, 0);
        for &step in steps {
            let bit = self.int(u64, i64::from(step));
            let bit = self.and(j, bit);
            let on = self.g.binary(Binary::Ne, bit, none);
            let step = step as usize;
            for i in 0..digits.len() - step {
                digits[i] = self.select(on, digits[i + step], digits[i]);
            }
            digits.truncate(digits.len() - step);
        }
        digits
    }

    /// Columns of the product of a mantissa, shifted by so many bits, and digits.
    fn columns(&mut self, mantissa: Id, t: Id, digits: &[Id], single: bool) -> Vec<Id> {
        let u64 = DType::U64;
        // In digits of 32 bits, the lowest first.
        let low_half = self.int(u64, 0xffff_ffff);
        let low = self.and(mantissa, low_half);
        let high = self.shr(mantissa, 32);
        let low = self.g.binary(Binary::Shl, low, t);
        let high = self.g.binary(Binary::Shl, high, t);
        let m0 = self.and(low, low_half);
        let carry = self.shr(low, 32);
        let middle = self.add(high, carry);
        let m1 = self.and(middle, low_half);
        let m2 = self.shr(middle, 32);
        // Columns of the product: column p has the weight 2^(-32 p).
        let columns = Self::window(single) - 2;
        let none = self.int(u64, 0);
        let mut sums: Vec<Id> = vec![none; columns];
        for (a, m) in [m0, m1, m2].into_iter().enumerate() {
            for (k, &digit) in digits.iter().enumerate() {
                let Some(p) = k.checked_sub(a) else {
                    continue;
                };
                if p > columns {
                    continue;
                }
                let product = self.mul(m, digit);
                if p < columns {
                    let low = self.and(product, low_half);
                    sums[p] = self.add(sums[p], low);
                }
                if p > 0 {
                    let high = self.shr(product, 32);
                    sums[p - 1] = self.add(sums[p - 1], high);
                }
            }
        }
        for p in (1..columns).rev() {
            let carry = self.shr(sums[p], 32);
            sums[p - 1] = self.add(sums[p - 1], carry);
            sums[p] = self.and(sums[p], low_half);
        }
        sums
    }

    /// The quadrant, and the angle in it with its rest.
    fn fraction(&mut self, sums: &[Id], single: bool) -> (Id, Id, Id) {
        // Fraction as 128 bits, rounded to the nearest quadrant.
        let high = self.shl(sums[1], 32);
        let high = self.or(high, sums[2]);
        let low = self.shl(sums[3], 32);
        let low = match sums.get(4) {
            Some(&digit) => self.or(low, digit),
            None => low,
        };
        let up = self.shr(high, 63);
        let quadrant = self.add(sums[0], up);
        let quadrant = self.bitcast(quadrant, DType::I64);
        let none = self.int(DType::U64, 0);
        let is_up = self.g.binary(Binary::Ne, up, none);
        let (not_high, not_low) = (self.not(high), self.not(low));
        let high = self.select(is_up, not_high, high);
        let low = self.select(is_up, not_low, low);
        let f64 = DType::F64;
        if single && self.lacks_f64(DType::F32) {
            let high = self.bitcast(high, DType::I64);
            let (r, rest) = self.angle_in_single(high);
            return self.turned_back(is_up, quadrant, r, rest);
        }
        // Both halves as signed: below 2^63 the conversion is the cheap one.
        let low = self.shr(low, 1);
        let (high, low) = (
            self.bitcast(high, DType::I64),
            self.bitcast(low, DType::I64),
        );
        let (whole, low) = (self.g.cast(high, f64), self.g.cast(low, f64));
        let half_pi = std::f64::consts::FRAC_PI_2;
        let (unit, unit_low) = (
            self.float(f64, half_pi * 2f64.powi(-64)),
            self.float(f64, half_pi * 2f64.powi(-127)),
        );
        let low = self.mul(low, unit_low);
        let (r, rest) = if single {
            (self.fma(whole, unit, low), self.float(f64, 0.0))
        } else {
            // What the conversion rounded away, and the digits of pi/2 below those of its float.
            let back = self.g.cast(whole, DType::I64);
            let lost = self.sub(high, back);
            let lost = self.g.cast(lost, f64);
            let (r, r_low) = self.product(whole, unit);
            let unit_rest = self.float(f64, HALF_PI[1] * 2f64.powi(-64));
            let low = self.fma(lost, unit, low);
            let low = self.fma(whole, unit_rest, low);
            let low = self.add(low, r_low);
            self.sum(r, low)
        };
        self.turned_back(is_up, quadrant, r, rest)
    }

    /// An angle that was taken from the next quadrant is negative.
    fn turned_back(&mut self, is_up: Id, quadrant: Id, r: Id, rest: Id) -> (Id, Id, Id) {
        let (minus, minus_rest) = (self.g.unary(Unary::Neg, r), self.g.unary(Unary::Neg, rest));
        let r = self.select(is_up, minus, r);
        let rest = self.select(is_up, minus_rest, rest);
        (quadrant, r, rest)
    }
}
