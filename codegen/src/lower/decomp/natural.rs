//! e^x and what is made of it. The argument is reduced to |r| <= ln 2 / 2 with `e^x = 2^n e^r`; r has a
//! second part with what it was rounded by. The hyperbolic functions take the even and the odd part of
//! e^r apart, so that nothing cancels: `sinh x = (2^n - 2^-n)/2 cosh r + (2^n + 2^-n)/2 sinh r`.

use super::builder::{Builder, signed_bits};
use crate::dtype::DType;
use crate::ir::{Binary, Id, Unary};

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, error of e^r 2^-28.3.
const EXP_F32: [f64; 5] = [
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.008368716575205326,
    0.001381459878757596,
];
/// As [`EXP_F32`], error 2^-61.
const EXP_F64: [f64; 11] = [
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333326136,
    0.0013888888888883748,
    0.00019841269874820627,
    2.4801587325547743e-05,
    2.7557255400206422e-06,
    2.75572736431103e-07,
    2.5105217004720745e-08,
    2.0914686968086876e-09,
];
/// (sinh(r) / r - 1) / r^2 in powers of r^2, error 2^-27.6.
const SINH_F32: [f64; 3] = [
    0.1666666716337204,
    0.00833331048488617,
    0.00019890991097781807,
];
/// As [`SINH_F32`], error 2^-56.6.
const SINH_F64: [f64; 6] = [
    0.16666666666666666,
    0.008333333333333333,
    0.00019841269841263298,
    2.755731924721873e-06,
    2.505207109429355e-08,
    1.608662795678037e-10,
];
/// (cosh(r) - 1) / r^2 in powers of r^2, error 2^-28.5.
const COSH_F32: [f64; 3] = [0.5, 0.04166646674275398, 0.0013933649752289057];
/// As [`COSH_F32`], error 2^-61.6.
const COSH_F64: [f64; 7] = [
    0.5,
    0.041666666666666664,
    0.0013888888888888892,
    2.4801587301575853e-05,
    2.755731925121229e-07,
    2.0876723753512937e-09,
    1.1490859141867783e-11,
];

/// (tanh(x) / x - 1) / x^2 in powers of x^2 for |x| <= [`TANH_NEAR`], error 2^-28.5.
const TANH_F32: [f64; 5] = [
    -0.33333298563957214,
    0.13331957161426544,
    -0.05378655344247818,
    0.020804893225431442,
    -0.0059052431024611,
];
/// Beyond, 1 less tanh is computed.
const TANH_NEAR: f64 = 0.6;

/// (sinh(x) / x - 1) / x^2 in powers of x^2 for |x| <= 1, error 2^-31.3.
const SINH_NEAR_F32: [f64; 4] = [
    0.1666666716337204,
    0.008333316072821617,
    0.00019841419998556376,
    2.7915382361243246e-06,
];
/// e/2 in two parts, the first one below it.
const HALF_E_F32: [f64; 2] = [1.3591408729553223, 4.12742018e-8];
/// 1 / 2e
const HALF_INVERSE_E: f64 = 0.18393972058572117;

/// ln 2 in parts: multiples of the first by exponents are exact.
pub(super) const LN_2_F32: [f64; 2] = [0.693145751953125, 1.428606765330187e-06];
/// As [`LN_2_F32`].
pub(super) const LN_2_F64: [f64; 2] = [0.6931471803691238, 1.9082149292705877e-10];

/// An argument as `n ln 2 + r + low`.
struct Reduced {
    /// n in the low bits.
    shifted: Id,
    r: Id,
    low: Id,
}

/// A power of e as `2^n (value + low)`.
pub(super) struct Power {
    pub value: Id,
    /// What rounding the value lost.
    pub low: Id,
    /// n in the low bits.
    pub shifted: Id,
}

/// The parts of e^r: r plus the rest of the odd part, and the even part less 1.
struct Halves {
    r: Id,
    odd: Id,
    even: Id,
}

impl Builder<'_> {
    fn one_of(&mut self, x: Id, single: f64, double: f64) -> Id {
        let dtype = self.g.dtype(x);
        self.float(dtype, if dtype == DType::F32 { single } else { double })
    }

    fn table<'t>(&self, x: Id, single: &'t [f64], double: &'t [f64]) -> &'t [f64] {
        match self.g.dtype(x) {
            DType::F32 => single,
            _ => double,
        }
    }

    /// At least `least` and at most `most`; NaN passes.
    fn within(&mut self, x: Id, least: Id, most: Id) -> Id {
        let under = self.less(x, least);
        let x = self.select(under, least, x);
        let over = self.less(most, x);
        self.select(over, most, x)
    }

    /// x in parts.
    fn reduced(&mut self, x: Id) -> Reduced {
        let dtype = self.g.dtype(x);
        let scale = self.float(dtype, std::f64::consts::LOG2_E);
        let magic = self.magic(dtype);
        let shifted = self.fma(x, scale, magic);
        let n = self.sub(shifted, magic);
        let [high, rest] = if dtype == DType::F32 {
            LN_2_F32
        } else {
            LN_2_F64
        };
        let (high, rest) = (self.float(dtype, -high), self.float(dtype, rest));
        // Exact: the product has few digits, and is near x.
        let near = self.fma(n, high, x);
        let away = self.mul(n, rest);
        let r = self.sub(near, away);
        let used = self.sub(near, r);
        let low = self.sub(used, away);
        Reduced { shifted, r, low }
    }

    /// e^r - 1 - r, with the rest of the argument.
    fn exp_tail(&mut self, to: &Reduced) -> Id {
        let q = self.polynomial(to.r, self.table(to.r, &EXP_F32, &EXP_F64));
        let square = self.mul(to.r, to.r);
        self.fma(square, q, to.low)
    }

    /// e^x. Where 2^x is an instruction, that is not used: its error, of two units in the last place on NVIDIA and one on
    /// AMD, would be a part of this one's.
    pub fn exp(&mut self, x: Id) -> Id {
        // Beyond these the result is 0 or infinity anyway.
        let (least, most) = (self.one_of(x, -105.0, -746.0), self.one_of(x, 89.0, 710.0));
        let clamped = self.within(x, least, most);
        let to = self.power(clamped);
        self.scaled(to.value, to.shifted)
    }

    /// e^x for an x whose power is near the range of floats, at most.
    fn power(&mut self, x: Id) -> Power {
        let to = self.reduced(x);
        let tail = self.exp_tail(&to);
        let part = self.add(to.r, tail);
        let one = self.one_of(x, 1.0, 1.0);
        let (value, low) = self.sum(one, part);
        Power {
            value,
            low,
            shifted: to.shifted,
        }
    }

    /// As [`Builder::power`], unless e^x is an instruction.
    pub(super) fn power_apart(&mut self, x: Id) -> Option<Power> {
        let whole = self.caps.has_unary(Unary::Exp, self.g.dtype(x));
        (!whole).then(|| self.power(x))
    }

    /// e^x - 1.
    pub fn expm1(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let bits = signed_bits(dtype);
        let (least, most) = (self.one_of(x, -20.0, -40.0), self.one_of(x, 89.0, 710.0));
        let clamped = self.within(x, least, most);
        let to = self.reduced(clamped);
        let tail = self.exp_tail(&to);
        // 2^h ((2^(n-h) - 2^-h) + 2^(n-h) (e^r - 1)), h about n/2: no factor overflows. The integer n
        // itself, because its sign counts.
        let magic = self.magic(dtype);
        let (raw, zero) = (self.bitcast(to.shifted, bits), self.bitcast(magic, bits));
        let n = self.sub(raw, zero);
        let half = self.shr(n, 1);
        let rest = self.sub(n, half);
        let none = self.int(bits, 0);
        let down = self.sub(none, half);
        let [up, down, out] = [rest, down, half].map(|e| self.two_to(e, dtype));
        let whole = self.sub(up, down);
        let first = self.mul(up, to.r);
        let (high, low) = self.sum(whole, first);
        let low = self.fma(up, tail, low);
        let y = self.add(high, low);
        let y = self.mul(y, out);
        let zero = self.float(dtype, 0.0);
        let is_zero = self.equal(x, zero);
        self.select(is_zero, x, y)
    }

    fn halves(&mut self, to: &Reduced) -> Halves {
        let z = self.mul(to.r, to.r);
        let s = self.polynomial(z, self.table(z, &SINH_F32, &SINH_F64));
        let c = self.polynomial(z, self.table(z, &COSH_F32, &COSH_F64));
        let cube = self.mul(to.r, z);
        Halves {
            r: to.r,
            odd: self.fma(cube, s, to.low),
            even: self.mul(z, c),
        }
    }

    /// `a (1 + even) + b (r + odd)`, rounded about once; |a| >= |b r| or a = 0.
    fn joined(&mut self, a: Id, b: Id, by: &Halves) -> Id {
        let (high, rest) = self.joined_parts(a, b, by);
        self.add(high, rest)
    }

    /// As [`Builder::joined`], as a sum of two.
    fn joined_parts(&mut self, a: Id, b: Id, by: &Halves) -> (Id, Id) {
        let (p, p_low) = self.product(b, by.r);
        let (high, low) = self.sum(a, p);
        let even = self.mul(a, by.even);
        let rest = self.fma(b, by.odd, even);
        let rest = self.add(p_low, rest);
        (high, self.add(low, rest))
    }

    /// A quarter of `2^n - 2^-n` and of `2^n + 2^-n`, for n >= 0.
    fn quarters(&mut self, to: &Reduced) -> (Id, Id) {
        let dtype = self.g.dtype(to.r);
        let bits = signed_bits(dtype);
        let magic = self.magic(dtype);
        let (raw, zero) = (self.bitcast(to.shifted, bits), self.bitcast(magic, bits));
        let n = self.sub(raw, zero);
        // 2^-n is far below the last digit from here on.
        let limit = self.int(bits, 80);
        let few = self.less(n, limit);
        let down = self.select(few, n, limit);
        let two = self.int(bits, 2);
        let none = self.int(bits, -2);
        let (up, down) = (self.sub(n, two), self.sub(none, down));
        let up = self.two_to(up, dtype);
        let down = self.two_to(down, dtype);
        (self.sub(up, down), self.add(up, down))
    }

    /// The magnitude with the sign of x.
    pub(super) fn signed_as(&mut self, magnitude: Id, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let bits = signed_bits(dtype);
        let sign = self.float(dtype, -0.0);
        let [sign, raw, value] = [sign, x, magnitude].map(|v| self.bitcast(v, bits));
        let sign = self.and(raw, sign);
        let value = self.or(value, sign);
        self.bitcast(value, dtype)
    }

    /// Whether e^x is an instruction, or as good as one: then it is less work than its halves are.
    fn has_exp(&self, x: Id) -> bool {
        let dtype = self.g.dtype(x);
        dtype == DType::F32 && self.caps.has_unary(Unary::Exp, dtype)
    }

    /// `e^a / 2 + sign e^-a / 2` of `f32`. The power is that of a - 1, which is exact where it counts and does not
    /// overflow before the sum does.
    fn half_powers(&mut self, a: Id, sign: f64) -> Id {
        let dtype = self.g.dtype(a);
        let minus_one = self.float(dtype, -1.0);
        let [half, half_low] = HALF_E_F32.map(|part| self.float(dtype, part));
        let inverse = self.float(dtype, sign * HALF_INVERSE_E);
        let apart = self.add(a, minus_one);
        let power = self.unary(Unary::Exp, apart);
        let other = self.g.binary(Binary::FDiv, inverse, power);
        let rest = self.fma(power, half_low, other);
        self.fma(power, half, rest)
    }

    /// sinh(x) of `f32` by [`Builder::half_powers`], and near 0 by a polynomial.
    fn sinh_by_exp(&mut self, x: Id) -> Id {
        let size = self.g.unary(Unary::Abs, x);
        let square = self.mul(size, size);
        let p = self.polynomial(square, &SINH_NEAR_F32);
        let cube = self.mul(size, square);
        let near = self.fma(cube, p, size);
        let far = self.half_powers(size, -1.0);
        let limit = self.float(DType::F32, 1.0);
        let is_near = self.less(size, limit);
        let y = self.select(is_near, near, far);
        self.signed_as(y, x)
    }

    /// sinh(x).
    pub fn sinh(&mut self, x: Id) -> Id {
        if self.has_exp(x) {
            return self.sinh_by_exp(x);
        }
        let size = self.g.unary(Unary::Abs, x);
        let most = self.one_of(x, 89.5, 710.6);
        let over = self.less(most, size);
        let clamped = self.select(over, most, size);
        let to = self.reduced(clamped);
        let halves = self.halves(&to);
        let (minus, plus) = self.quarters(&to);
        let y = self.joined(minus, plus, &halves);
        let y = self.add(y, y);
        // Here sinh x is x, of which the smallest has no half.
        let tiny = self.one_of(x, 2f64.powi(-13), 2f64.powi(-28));
        let tiny = self.less(size, tiny);
        let y = self.select(tiny, size, y);
        self.signed_as(y, x)
    }

    /// cosh(x).
    pub fn cosh(&mut self, x: Id) -> Id {
        let size = self.g.unary(Unary::Abs, x);
        if self.has_exp(x) {
            return self.half_powers(size, 1.0);
        }
        let most = self.one_of(x, 89.5, 710.6);
        let over = self.less(most, size);
        let clamped = self.select(over, most, size);
        let to = self.reduced(clamped);
        let halves = self.halves(&to);
        let (minus, plus) = self.quarters(&to);
        // plus (1 + even) + minus (r + odd)
        let y = self.joined(plus, minus, &halves);
        self.add(y, y)
    }

    /// tanh(x).
    pub fn tanh(&mut self, x: Id) -> Id {
        match self.g.dtype(x) {
            DType::F32 => self.tanh_single(x),
            _ => self.tanh_double(x),
        }
    }

    /// tanh(x) of `f32`: a polynomial, or `1 - 2 / (e^2a + 1)`, which has the digits further out.
    fn tanh_single(&mut self, x: Id) -> Id {
        let dtype = DType::F32;
        let size = self.g.unary(Unary::Abs, x);
        let square = self.mul(size, size);
        let p = self.polynomial(square, &TANH_F32);
        let cube = self.mul(size, square);
        let near = self.fma(cube, p, size);
        let double = self.add(size, size);
        let power = self.unary(Unary::Exp, double);
        let (one, two) = (self.float(dtype, 1.0), self.float(dtype, 2.0));
        let bottom = self.add(power, one);
        let rest = self.g.binary(Binary::FDiv, two, bottom);
        let far = self.sub(one, rest);
        let limit = self.float(dtype, TANH_NEAR);
        let is_near = self.less(size, limit);
        let y = self.select(is_near, near, far);
        self.signed_as(y, x)
    }

    /// tanh(x) of `f64`: the quotient of sinh and cosh, both times 2^(n+1).
    fn tanh_double(&mut self, x: Id) -> Id {
        let dtype = DType::F64;
        let size = self.g.unary(Unary::Abs, x);
        // From here on it rounds to 1.
        let most = self.float(dtype, 20.0);
        let over = self.less(most, size);
        let clamped = self.select(over, most, size);
        let to = self.reduced(clamped);
        let halves = self.halves(&to);
        let raw = self.bitcast(to.shifted, DType::I64);
        let double = self.add(raw, raw);
        let power = self.two_to(double, dtype);
        let (one, zero) = (self.float(dtype, 1.0), self.float(dtype, 0.0));
        let (minus, plus) = (self.sub(power, one), self.add(power, one));
        let (high, low) = self.joined_parts(minus, plus, &halves);
        let (near, near_low) = self.sum(high, low);
        let (high, low) = self.joined_parts(plus, minus, &halves);
        let (bottom, bottom_low) = self.sum(high, low);
        // Further out 1 - tanh x has the digits: e^-x over cosh x.
        let apart = self.sub(halves.even, halves.odd);
        let apart = self.sub(apart, halves.r);
        let minus_two = self.float(dtype, -2.0);
        let apart = self.fma(apart, minus_two, minus_two);
        let limit = self.float(dtype, TANH_NEAR);
        let far = self.less(limit, size);
        let top = self.select(far, apart, near);
        let top_low = self.select(far, zero, near_low);
        let base = self.select(far, one, zero);
        let y = self.g.binary(Binary::FDiv, top, bottom);
        // What the quotient lost.
        let minus = self.g.unary(Unary::Neg, y);
        let rest = self.fma(minus, bottom, top);
        let rest = self.add(rest, top_low);
        let rest = self.fma(minus, bottom_low, rest);
        let rest = self.g.binary(Binary::FDiv, rest, bottom);
        let (high, low) = self.sum(base, y);
        let rest = self.add(low, rest);
        let y = self.add(high, rest);
        self.signed_as(y, x)
    }
}
