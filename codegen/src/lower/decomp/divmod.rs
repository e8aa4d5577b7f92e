//! Division: rounded down, checked, and the remainder of floats.

use super::builder::Builder;
use crate::dtype::DType;
use crate::ir::{Binary, Id, Op, Unary, scalar};

impl Builder<'_> {
    fn int_const(&self, id: Id) -> Option<i128> {
        match self.g.op(id) {
            Op::Const(bits) => Some(scalar::to_int(self.g.dtype(id), bits)),
            _ => None,
        }
    }

    fn not_negative(&mut self, id: Id) -> bool {
        self.g.dtype(id).is_unsigned() || self.bounds.of(self.g, id).is_some_and(|b| b.0 >= 0)
    }

    /// Zero divisors can occur.
    fn may_be_zero(&mut self, id: Id) -> bool {
        match self.int_const(id) {
            Some(c) => c == 0,
            None => self
                .bounds
                .of(self.g, id)
                .is_none_or(|(lo, hi)| lo <= 0 && hi >= 0),
        }
    }

    /// `FloorDiv` and `FloorMod`: shifts and masks for powers of two, the truncating form where
    /// nothing is negative, otherwise that form corrected.
    pub fn floor_division(&mut self, op: Binary, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        if let Some(c) = self.int_const(y)
            && c > 0
            && c & (c - 1) == 0
        {
            return if op == Binary::FloorDiv {
                self.shr(x, c.trailing_zeros())
            } else {
                let mask = self.int(dtype, (c - 1) as i64);
                self.and(x, mask)
            };
        }
        let truncating = if op == Binary::FloorDiv {
            Binary::TruncDiv
        } else {
            Binary::TruncMod
        };
        if self.not_negative(x) && self.not_negative(y) {
            return self.binary(truncating, x, y);
        }
        // The remainder r has the sign of x. Where it is not zero and y has the other sign, the
        // floored quotient is one less and the floored remainder is r + y.
        let zero = self.int(dtype, 0);
        let r = self.binary(Binary::TruncMod, x, y);
        let differs = self.g.binary(Binary::Xor, r, y);
        let opposite = self.less(differs, zero);
        let some = self.g.binary(Binary::Ne, r, zero);
        let corrects = self.and(opposite, some);
        if op == Binary::FloorMod {
            let other = self.add(r, y);
            return self.select(corrects, other, r);
        }
        let q = self.binary(Binary::TruncDiv, x, y);
        let minus = self.int(dtype, -1);
        let less = self.add(q, minus);
        self.select(corrects, less, q)
    }

    /// `TruncDiv` and `TruncMod` of integers by an instruction that must not see a zero divisor or
    /// `MIN / -1`.
    pub fn trunc_division(&mut self, op: Binary, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        let by_zero = self.may_be_zero(y);
        let by_minus_one = dtype.is_signed()
            && !self.not_negative(x)
            && self
                .bounds
                .of(self.g, y)
                .is_none_or(|(lo, hi)| lo <= -1 && hi >= -1);
        if !by_zero && !by_minus_one {
            return self.g.binary(op, x, y);
        }
        let (zero, one) = (self.int(dtype, 0), self.int(dtype, 1));
        let mut divisor = y;
        let is_zero = self.equal(y, zero);
        let minus_one = self.int(dtype, -1);
        let is_minus_one = self.equal(y, minus_one);
        if by_zero {
            divisor = self.select(is_zero, one, divisor);
        }
        if by_minus_one {
            divisor = self.select(is_minus_one, one, divisor);
        }
        // Dividing by one instead: the quotient is x, the remainder 0.
        let mut result = self.g.binary(op, x, divisor);
        if by_minus_one && op == Binary::TruncDiv {
            let minus = self.g.unary(Unary::Neg, x);
            result = self.select(is_minus_one, minus, result);
        }
        if by_zero && op == Binary::TruncDiv {
            result = self.select(is_zero, zero, result);
        }
        result
    }

    /// `fmod`: exact. Each round takes away the multiple of a scaled divisor that the leading bits
    /// of the quotient say; products are exact because the quotient of a round has few bits.
    pub fn float_remainder(&mut self, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        if dtype == DType::F32 {
            // In f64 a product of a 24-bit divisor and a 28-bit quotient is exact.
            let (wx, wy) = (self.cast(x, DType::F64), self.cast(y, DType::F64));
            let r = self.remainder_rounds(wx, wy, 26, 12, false);
            return self.cast(r, dtype);
        }
        self.remainder_rounds(x, y, 50, 44, true)
    }

    /// `rounds` steps of `bits` quotient bits on `f64`; `fused`: the product needs an `Fma`.
    fn remainder_rounds(&mut self, x: Id, y: Id, bits: u32, rounds: u32, fused: bool) -> Id {
        let f64 = DType::F64;
        let zero = self.float(f64, 0.0);
        let (ax, ay) = (self.g.unary(Unary::Abs, x), self.g.unary(Unary::Abs, y));
        // Exponents are read from the bits, so a subnormal divisor is scaled up to a normal one.
        let mut r = ax;
        let exponent = |b: &mut Self, v: Id| {
            let v = b.bitcast(v, DType::I64);
            b.shr(v, 52)
        };
        let tiny = self.float(f64, f64::MIN_POSITIVE);
        let up = self.float(f64, 2f64.powi(54));
        let subnormal = self.less(ay, tiny);
        let one = self.float(f64, 1.0);
        let factor = self.select(subnormal, up, one);
        let normal = self.mul(ay, factor);
        let ey = exponent(self, normal);
        let lift = self.int(DType::I64, 54);
        let no = self.int(DType::I64, 0);
        let lift = self.select(subnormal, lift, no);
        let ey = self.sub(ey, lift);
        let limit = self.int(DType::I64, i64::from(bits));
        for round in 0..rounds {
            // Scale the divisor by 2^e so that the quotient stays below 2^bits.
            let er = exponent(self, r);
            let difference = self.sub(er, ey);
            let e = self.sub(difference, limit);
            let negative = self.less(e, no);
            // The last round is with the divisor itself; a subnormal r reads as a larger one.
            let last = round + 1 == rounds;
            let e = if last {
                no
            } else {
                self.select(negative, no, e)
            };
            // 2^e in two factors, each normal.
            let e = self.sub(e, lift);
            let half = self.shr(e, 1);
            let rest = self.sub(e, half);
            let (a, b) = (self.power_of_two(half), self.power_of_two(rest));
            let scaled = self.mul(normal, a);
            let scaled = self.mul(scaled, b);
            let q = self.g.binary(Binary::FDiv, r, scaled);
            let q = self.g.unary(Unary::Trunc, q);
            let minus = self.g.unary(Unary::Neg, q);
            let next = if fused {
                self.fma(minus, scaled, r)
            } else {
                let product = self.mul(minus, scaled);
                self.add(product, r)
            };
            // The rounded quotient can be one too large.
            let under = self.less(next, zero);
            let fixed = self.add(next, scaled);
            r = self.select(under, fixed, next);
        }
        // The sign of the dividend, also on a zero.
        let sign = self.float(f64, -0.0);
        let sign = self.bitcast(sign, DType::I64);
        let (xb, rb) = (self.bitcast(x, DType::I64), self.bitcast(r, DType::I64));
        let sign = self.and(xb, sign);
        let signed = self.or(rb, sign);
        let r = self.bitcast(signed, f64);
        // x % inf is x; a dividend that is not finite, a divisor that is zero or NaN give NaN.
        let infinity = self.float(f64, f64::INFINITY);
        let endless = self.equal(ay, infinity);
        let r = self.select(endless, x, r);
        let finite = self.less(ax, infinity);
        let divides = self.less(zero, ay);
        let ok = self.and(finite, divides);
        let nan = self.float(f64, f64::NAN);
        self.select(ok, r, nan)
    }

    /// `2^e` as `f64` for an `I64` e with `-1022 <= e <= 1023`.
    pub fn power_of_two(&mut self, e: Id) -> Id {
        let bias = self.int(DType::I64, 1023);
        let biased = self.add(e, bias);
        let bits = self.shl(biased, 52);
        self.bitcast(bits, DType::F64)
    }
}
