//! Conversions of narrow floats by bit operations.

use super::builder::{Builder, small_float};
use crate::dtype::DType;
use crate::ir::{Binary, Id, Op, Unary};

/// Layout of a narrow float.
struct Format {
    bits: DType,
    mantissa: u32,
    bias: i64,
    /// Magnitude bits of the first value that is not finite.
    limit: i64,
    /// Magnitude bits of what overflow gives.
    overflow: i64,
    /// Magnitude bits of a NaN.
    nan: i64,
}

fn format(dtype: DType) -> Option<Format> {
    let (bits, mantissa, bias, limit, overflow, nan) = match dtype {
        DType::F16 => (DType::U16, 10, 15, 0x7c00, 0x7c00, 0x7e00),
        DType::BF16 => (DType::U16, 7, 127, 0x7f80, 0x7f80, 0x7fc0),
        DType::F8E4M3 => (DType::U8, 3, 7, 0x7f, 0x7f, 0x7f),
        DType::F8E5M2 => (DType::U8, 2, 15, 0x7c, 0x7c, 0x7e),
        _ => return None,
    };
    Some(Format {
        bits,
        mantissa,
        bias,
        limit,
        overflow,
        nan,
    })
}

impl Builder<'_> {
    /// Conversion by value.
    pub fn cast(&mut self, a: Id, to: DType) -> Id {
        let from = self.g.dtype(a);
        if from == to || self.caps.has_cast(from, to) {
            return self.g.cast(a, to);
        }
        if to == DType::Bool {
            let zero = self.g.bits(from, 0);
            return self.binary(Binary::Ne, a, zero);
        }
        if small_float(from) {
            let wide = self.decode(a);
            return self.cast(wide, to);
        }
        if small_float(to) {
            let single = match from {
                DType::F32 => a,
                DType::F64 => self.round_to_odd(a),
                _ => self.cast(a, DType::F32),
            };
            if self.caps.has_cast(DType::F32, to) {
                return self.g.cast(single, to);
            }
            return self.encode(single, to);
        }
        self.g.add(Op::Cast, to, &[a])
    }

    /// A narrow float as `f32`, exact.
    fn decode(&mut self, a: Id) -> Id {
        let from = self.g.dtype(a);
        let (f32, u32) = (DType::F32, DType::U32);
        if self.caps.has_cast(from, f32) {
            return self.g.cast(a, f32);
        }
        let Some(f) = format(from) else {
            return self.g.cast(a, f32);
        };
        let raw = self.bitcast(a, f.bits);
        let raw = self.g.cast(raw, u32);
        if from == DType::BF16 {
            let bits = self.shl(raw, 16);
            return self.bitcast(bits, f32);
        }
        if from == DType::F8E5M2 && self.caps.has_cast(DType::F16, f32) && !self.caps.flushes {
            // The upper byte of a half.
            let bits = self.shl(raw, 8);
            let bits = self.g.cast(bits, DType::U16);
            let half = self.bitcast(bits, DType::F16);
            return self.g.cast(half, f32);
        }
        let width = from.bits();
        let mask = self.int(u32, (1 << (width - 1)) - 1);
        let magnitude = self.and(raw, mask);
        let sign = self.shr(raw, width - 1);
        let sign = self.shl(sign, 31);
        // Exponent and mantissa in the place of those of a wider format; the product corrects the
        // bias, and makes normal numbers of subnormal ones. A half is better for that: where
        // subnormal singles are taken as zero, converting a subnormal half still gives its value.
        let half = from != DType::F16 && self.caps.has_cast(DType::F16, f32);
        let (value, bias) = if half {
            let bits = self.shl(magnitude, 10 - f.mantissa);
            let bits = self.g.cast(bits, DType::U16);
            let half = self.bitcast(bits, DType::F16);
            (self.g.cast(half, f32), 15)
        } else {
            let bits = self.shl(magnitude, 23 - f.mantissa);
            (self.bitcast(bits, f32), 127)
        };
        let scale = self.float(f32, 2f64.powi((bias - f.bias) as i32));
        let mut value = self.mul(value, scale);
        if self.caps.flushes {
            // A subnormal number has no exponent, and is an integer.
            let normal = self.int(u32, 1 << f.mantissa);
            let subnormal = self.less(magnitude, normal);
            let whole = self.g.cast(magnitude, f32);
            let unit = self.float(f32, 2f64.powi(1 - f.bias as i32 - f.mantissa as i32));
            let small = self.mul(whole, unit);
            value = self.select(subnormal, small, value);
        }
        let bits = self.bitcast(value, u32);
        let special = self.int(u32, f.limit - 1);
        let special = self.less(special, magnitude);
        let not_finite = if from == DType::F8E4M3 {
            self.int(u32, 0x7fc0_0000)
        } else {
            let mantissa = self.shl(magnitude, 23 - f.mantissa);
            let exponent = self.int(u32, 0x7f80_0000);
            self.or(mantissa, exponent)
        };
        let bits = self.select(special, not_finite, bits);
        let bits = self.or(bits, sign);
        self.bitcast(bits, f32)
    }

    /// The narrow float nearest to an `f32`, ties to even.
    fn encode(&mut self, a: Id, to: DType) -> Id {
        let Some(f) = format(to) else {
            return self.g.cast(a, to);
        };
        let (f32, u32) = (DType::F32, DType::U32);
        let raw = self.bitcast(a, u32);
        if to == DType::BF16 {
            // The upper half: exponents are the same, and what is rounded beyond the largest finite
            // value is infinity.
            let (top, one) = (self.shr(raw, 16), self.int(u32, 1));
            let lowest = self.and(top, one);
            let half = self.int(u32, 0x7fff);
            let rounded = self.add(raw, half);
            let rounded = self.add(rounded, lowest);
            let rounded = self.shr(rounded, 16);
            let (sign, quiet) = (self.int(u32, 0x8000), self.int(u32, f.nan));
            let nan = self.and(top, sign);
            let nan = self.or(nan, quiet);
            let is_nan = self.g.binary(Binary::Ne, a, a);
            let result = self.select(is_nan, nan, rounded);
            let result = self.g.cast(result, f.bits);
            return self.bitcast(result, to);
        }
        let mask = self.int(u32, 0x7fff_ffff);
        let magnitude = self.and(raw, mask);
        let shift = 23 - f.mantissa;
        // Normal results: correct the bias, add just less than half a unit, plus the lowest bit
        // that stays, and cut.
        let rebias = self.int(u32, (127 - f.bias) << 23);
        let rebiased = self.sub(magnitude, rebias);
        let lowest = self.shr(rebiased, shift);
        let one = self.int(u32, 1);
        let lowest = self.and(lowest, one);
        let half = self.int(u32, (1 << (shift - 1)) - 1);
        let rounded = self.add(rebiased, half);
        let rounded = self.add(rounded, lowest);
        let result = self.shr(rounded, shift);
        // Subnormal results: adding a power of two whose unit in the last place is that of the
        // result lets the addition round.
        let unit = 1 - f.bias as i32 - f.mantissa as i32;
        let power = self.float(f32, 2f64.powi(unit + 23));
        let value = self.bitcast(magnitude, f32);
        let sum = self.add(value, power);
        let sum = self.bitcast(sum, u32);
        let base = self.bitcast(power, u32);
        let subnormal = self.sub(sum, base);
        let smallest = self.int(u32, (127 - f.bias + 1) << 23);
        let below = self.less(magnitude, smallest);
        let result = self.select(below, subnormal, result);
        // Beyond the largest finite value. Tested on the result, after rounding; a NaN would wrap
        // around in narrow formats and is replaced below.
        let largest = self.int(u32, f.limit - 1);
        let over = self.less(largest, result);
        let overflow = self.int(u32, f.overflow);
        let result = self.select(over, overflow, result);
        let infinity = self.int(u32, 0x7f80_0000);
        let is_nan = self.less(infinity, magnitude);
        let nan = self.int(u32, f.nan);
        let result = self.select(is_nan, nan, result);
        let sign = self.shr(raw, 31);
        let sign = self.shl(sign, to.bits() - 1);
        let result = self.or(result, sign);
        let result = self.g.cast(result, f.bits);
        self.bitcast(result, to)
    }

    /// An `f64` as `f32`, inexact values to the neighbour with the odd last bit: rounding that again
    /// to a narrower type gives what rounding once gives.
    fn round_to_odd(&mut self, a: Id) -> Id {
        let (f32, u32) = (DType::F32, DType::U32);
        let near = self.g.cast(a, f32);
        let back = self.g.cast(near, DType::F64);
        let inexact = self.g.binary(Binary::Ne, back, a);
        let (big, size) = (self.g.unary(Unary::Abs, back), self.g.unary(Unary::Abs, a));
        let above = self.less(size, big);
        let bits = self.bitcast(near, u32);
        let one = self.int(u32, 1);
        let lower = self.sub(bits, one);
        let towards_zero = self.select(above, lower, bits);
        let odd = self.or(towards_zero, one);
        let nan = self.g.binary(Binary::Ne, a, a);
        let exact = self.not(inexact);
        let keep = self.or(exact, nan);
        let bits = self.select(keep, bits, odd);
        self.bitcast(bits, f32)
    }
}
