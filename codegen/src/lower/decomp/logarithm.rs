//! Natural logarithms and what is made of them. The argument is a sum of two numbers, `u + c` with c far
//! below the last digit of u, so that `1 + x` loses nothing. The result is one, too, until the end.

use super::builder::{Builder, signed_bits};
use super::exponential::LOG_F64;
use super::natural::{LN_2_F32, LN_2_F64};
use crate::dtype::DType;
use crate::ir::{Binary, Id, Unary};

/// (ln(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2), error of the logarithm 2^-27.
const LN_F32: [f64; 9] = [
    0.3333333134651184,
    -0.2499999701976776,
    0.20000715553760529,
    -0.1666780263185501,
    0.14249058067798615,
    -0.12425687164068222,
    0.11685419827699661,
    -0.11479733884334564,
    0.06971611827611923,
];

/// log10 e in two parts of `f32`, and log10 2 in two, of which multiples by exponents are exact.
const LOG10_F32: [f64; 4] = [
    0.4342944920063019,
    -1.0103049952192578e-8,
    0.301025390625,
    4.605039066518657e-6,
];
/// As [`LOG10_F32`].
const LOG10_F64: [f64; 4] = [
    std::f64::consts::LOG10_E,
    1.098319650216765e-17,
    0.30102999566224753,
    1.7336659603752853e-12,
];

impl Builder<'_> {
    /// `a + b` as a sum of two, whichever is the larger.
    pub(super) fn any_sum(&mut self, a: Id, b: Id) -> (Id, Id) {
        let high = self.add(a, b);
        let of_b = self.sub(high, a);
        let of_a = self.sub(high, of_b);
        let (a, b) = (self.sub(a, of_a), self.sub(b, of_b));
        (high, self.add(a, b))
    }

    /// `(e, f, low)` with `u + c = 2^e (1 + f + low)`.
    fn exponent_and_rest(&mut self, u: Id, c: Option<Id>) -> (Id, Id, Option<Id>) {
        let dtype = self.g.dtype(u);
        let bits = signed_bits(dtype);
        let (e, f) = self.split_exponent(u);
        let low = c.map(|c| {
            let zero = self.int(bits, 0);
            let down = self.sub(zero, e);
            let factor = self.two_to(down, dtype);
            let low = self.mul(c, factor);
            // Where u is large, c is far below its last digit, and the factor may be none.
            let (most, none) = (self.float(dtype, 2f64.powi(60)), self.float(dtype, 0.0));
            let few = self.less(u, most);
            self.select(few, low, none)
        });
        (self.g.cast(e, dtype), f, low)
    }

    /// `ln(1 + f + low) - f`.
    fn ln_tail(&mut self, f: Id, low: Option<Id>) -> Id {
        let dtype = self.g.dtype(f);
        let half = self.float(dtype, 0.5);
        let square = self.mul(f, f);
        let tail = if dtype == DType::F32 {
            let q = self.polynomial(f, &LN_F32);
            let minus = self.float(dtype, -0.5);
            let q = self.fma(q, f, minus);
            self.mul(square, q)
        } else {
            // f - ln(1 + f) = f*f/2 - s*(f*f/2 + z*R(z)), which loses nothing for small f.
            let two = self.float(dtype, 2.0);
            let denominator = self.add(two, f);
            let s = self.g.binary(Binary::FDiv, f, denominator);
            let z = self.mul(s, s);
            let r = self.polynomial(z, &LOG_F64);
            let r = self.mul(z, r);
            let square = self.mul(square, half);
            let inner = self.add(square, r);
            let minus = self.g.unary(Unary::Neg, square);
            self.fma(s, inner, minus)
        };
        if let Some(low) = low {
            // low (1 - f + f^2 - low/2), of which the first two terms are enough for few digits.
            if dtype == DType::F32 {
                let minus = self.g.unary(Unary::Neg, low);
                let slope = self.fma(minus, f, low);
                return self.add(tail, slope);
            }
            let one = self.float(dtype, 1.0);
            let near = self.fma(low, half, f);
            let slope = self.sub(one, near);
            let slope = self.add(slope, square);
            return self.fma(low, slope, tail);
        }
        tail
    }

    /// ln(u + c) + e ln 2 for positive finite u as a sum of two; e is a float.
    pub(super) fn ln_parts(&mut self, u: Id, c: Option<Id>, more: Option<Id>) -> (Id, Id) {
        let dtype = self.g.dtype(u);
        let (mut e, f, low) = self.exponent_and_rest(u, c);
        if let Some(more) = more {
            e = self.add(e, more);
        }
        let tail = self.ln_tail(f, low);
        let [high, rest] = if dtype == DType::F32 {
            LN_2_F32
        } else {
            LN_2_F64
        };
        let (high, rest) = (self.float(dtype, high), self.float(dtype, rest));
        let whole = self.mul(e, high);
        let (sum, lost) = self.sum(whole, f);
        let tail = self.fma(e, rest, tail);
        (sum, self.add(lost, tail))
    }

    /// ln x.
    pub fn ln(&mut self, x: Id) -> Id {
        let (high, low) = self.ln_parts(x, None, None);
        let y = self.add(high, low);
        self.log2_limits(x, y)
    }

    /// log10 x.
    pub fn log10(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let (e, f, _) = self.exponent_and_rest(x, None);
        let tail = self.ln_tail(f, None);
        let (ln, ln_low) = self.sum(f, tail);
        let parts = if dtype == DType::F32 {
            LOG10_F32
        } else {
            LOG10_F64
        };
        let [scale, scale_low, two, two_low] = parts.map(|c| self.float(dtype, c));
        let (log, log_low) = self.product(ln, scale);
        let log_low = self.fma(ln, scale_low, log_low);
        let log_low = self.fma(ln_low, scale, log_low);
        let whole = self.mul(e, two);
        let (high, low) = self.sum(whole, log);
        let low = self.add(low, log_low);
        let low = self.fma(e, two_low, low);
        let y = self.add(high, low);
        self.log2_limits(x, y)
    }

    /// ln(1 + x).
    pub fn log1p(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let one = self.float(dtype, 1.0);
        let (u, c) = self.any_sum(one, x);
        let (high, low) = self.ln_parts(u, Some(c), None);
        let y = self.add(high, low);
        let y = self.log2_limits(u, y);
        let zero = self.float(dtype, 0.0);
        let is_zero = self.equal(x, zero);
        self.select(is_zero, x, y)
    }

    /// ln(1 + z + low) for z >= 0, or ln(2 instead) where `instead` is above `limit`.
    fn ln_beyond(&mut self, z: Id, low: Id, instead: Option<(Id, Id)>) -> Id {
        let dtype = self.g.dtype(z);
        let (one, zero) = (self.float(dtype, 1.0), self.float(dtype, 0.0));
        let (mut u, lost) = self.any_sum(one, z);
        let mut c = self.add(lost, low);
        let mut more = None;
        if let Some((instead, large)) = instead {
            u = self.select(large, instead, u);
            c = self.select(large, zero, c);
            more = Some(self.select(large, one, zero));
        }
        let (high, low) = self.ln_parts(u, Some(c), more);
        let y = self.add(high, low);
        self.log2_limits(u, y)
    }

    /// Whether ln(1 + x) is an instruction, or as good as one: then it is less work than [`Builder::ln_beyond`].
    fn has_log1p(&self, x: Id) -> bool {
        let dtype = self.g.dtype(x);
        dtype == DType::F32 && self.caps.has_unary(Unary::Log1p, dtype)
    }

    /// ln(1 + z + low) of `f32` for z >= 0, where `slope` is about 1 / (1 + z); where x is large, ln(2x).
    fn log1p_beyond(&mut self, z: Id, low: Id, slope: Id, x: Id, large: Id) -> Id {
        let dtype = DType::F32;
        let (zero, two) = (
            self.float(dtype, 0.0),
            self.float(dtype, std::f64::consts::LN_2),
        );
        // Further out it counts no more, and the slope, a difference, is wrong.
        let limit = self.float(dtype, 4096.0);
        let counts = self.less(x, limit);
        let more = self.mul(low, slope);
        let more = self.select(counts, more, zero);
        let more = self.select(large, two, more);
        let z = self.select(large, x, z);
        let y = self.unary(Unary::Log1p, z);
        self.add(y, more)
    }

    /// Where x is so large that its square counts alone; for [`Builder::log1p_beyond`], that 1 beside it does not
    /// count, either.
    fn is_large(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let exponent = match dtype {
            DType::F32 if self.has_log1p(x) => 40,
            DType::F32 => 13,
            _ => 28,
        };
        let limit = self.float(dtype, 2f64.powi(exponent));
        self.less(limit, x)
    }

    /// asinh x = ln(1 + a + a^2 / (1 + sqrt(1 + a^2))), with the sign of x.
    pub fn asinh(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let size = self.g.unary(Unary::Abs, x);
        let large = self.is_large(size);
        let one = self.float(dtype, 1.0);
        let a = self.select(large, one, size);
        let square = self.mul(a, a);
        let root = self.add(one, square);
        let root = self.g.unary(Unary::Sqrt, root);
        let bottom = self.add(one, root);
        let rest = self.g.binary(Binary::FDiv, square, bottom);
        let (z, low) = self.sum(a, rest);
        if self.has_log1p(x) {
            let slope = self.sub(root, a);
            let y = self.log1p_beyond(z, low, slope, size, large);
            return self.signed_as(y, x);
        }
        let y = self.ln_beyond(z, low, Some((size, large)));
        // Here asinh x is x.
        let zero = self.float(dtype, if dtype == DType::F32 { 1e-6 } else { 1e-14 });
        let tiny = self.less(size, zero);
        let y = self.select(tiny, size, y);
        self.signed_as(y, x)
    }

    /// acosh x = ln(1 + t + sqrt(2t + t^2)), t = x - 1.
    pub fn acosh(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let large = self.is_large(x);
        let one = self.float(dtype, 1.0);
        let (two, zero) = (self.float(dtype, 2.0), self.float(dtype, 0.0));
        let a = self.select(large, two, x);
        let t = self.sub(a, one);
        let double = self.add(t, t);
        let (square, square_low) = self.product(t, t);
        let (v, v_low) = self.any_sum(double, square);
        let v_low = self.add(v_low, square_low);
        let root = self.g.unary(Unary::Sqrt, v);
        let minus = self.g.unary(Unary::Neg, root);
        let lost = self.fma(minus, root, v);
        let lost = self.add(lost, v_low);
        let twice = self.add(root, root);
        let lost = self.g.binary(Binary::FDiv, lost, twice);
        let some = self.less(zero, root);
        let lost = self.select(some, lost, zero);
        let (z, low) = self.any_sum(t, root);
        let low = self.add(low, lost);
        let nan = self.float(dtype, f64::NAN);
        let y = if self.has_log1p(x) {
            let slope = self.sub(t, root);
            let slope = self.add(slope, one);
            self.log1p_beyond(z, low, slope, x, large)
        } else {
            let y = self.ln_beyond(z, low, Some((x, large)));
            let number = self.equal(x, x);
            self.select(number, y, nan)
        };
        let below = self.less(x, one);
        self.select(below, nan, y)
    }

    /// atanh x = ln(1 + 2a / (1 - a)) / 2, with the sign of x.
    pub fn atanh(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let a = self.g.unary(Unary::Abs, x);
        let one = self.float(dtype, 1.0);
        let minus = self.g.unary(Unary::Neg, a);
        let (d, d_low) = self.sum(one, minus);
        let double = self.add(a, a);
        let z = self.g.binary(Binary::FDiv, double, d);
        let minus = self.g.unary(Unary::Neg, z);
        let rest = self.fma(minus, d, double);
        let rest = self.fma(minus, d_low, rest);
        let half = self.float(dtype, 0.5);
        if self.has_log1p(x) {
            // What the quotient lost counts rest / d / (1 + z) = rest / (1 + a), roughly rest (1 - a/2).
            let (zero, minus) = (self.float(dtype, 0.0), self.float(dtype, -0.5));
            let slope = self.fma(a, minus, one);
            let more = self.mul(rest, slope);
            let more = self.mul(more, half);
            // There is no rest of an infinite quotient.
            let inside = self.less(a, one);
            let more = self.select(inside, more, zero);
            let y = self.unary(Unary::Log1p, z);
            let y = self.fma(y, half, more);
            return self.signed_as(y, x);
        }
        let low = self.g.binary(Binary::FDiv, rest, d);
        let y = self.ln_beyond(z, low, None);
        let y = self.mul(y, half);
        let tiny = self.float(dtype, if dtype == DType::F32 { 1e-6 } else { 1e-14 });
        let tiny = self.less(a, tiny);
        let y = self.select(tiny, a, y);
        // Beyond 1 the quotient is negative, and its logarithm not a number; infinity divides to NaN.
        let over = self.less(one, a);
        let nan = self.float(dtype, f64::NAN);
        let y = self.select(over, nan, y);
        self.signed_as(y, x)
    }
}
