//! The error function and its complement: `erf x = x + x P(x^2)` near 0, and
//! `erfc a = e^(-a^2) t (1 + Q(t))` with `t = 3/4 / (1 + a)` further out.

use super::builder::Builder;
use crate::dtype::DType;
use crate::ir::{Binary, Id, Unary};

/// erf(x) / x - 1 in powers of x^2 for |x| <= 1, error 2^-29.2.
const ERF_F32: [f64; 8] = [
    0.12837916612625122,
    -0.37612637877464294,
    0.11283782124519348,
    -0.026865430176258087,
    0.005221031606197357,
    -0.0008484080317430198,
    0.00011265958892181516,
    -9.667044650996104e-06,
];
/// As [`ERF_F32`], error 2^-56.2.
const ERF_F64: [f64; 14] = [
    0.1283791670955126,
    -0.37612638903183754,
    0.1128379167095512,
    -0.02686617064512984,
    0.0052239776254232985,
    -0.000854832702193483,
    0.00012055332902888736,
    -1.4925647567519332e-05,
    1.6462045441468418e-06,
    -1.6364642158167616e-07,
    1.4792401209404813e-08,
    -1.216456005728345e-09,
    8.709045129053106e-11,
    -4.230945824295338e-12,
];
/// erfc(a) e^(a^2) / t - 1 in powers of `t - CENTER` for a >= 1/2, error 2^-28.7.
const ERFC_F32: [f64; 11] = [
    0.05569394677877426,
    0.9962783455848694,
    -0.7116494178771973,
    -1.0987229347229004,
    2.2576632499694824,
    -0.21762250363826752,
    -5.487905025482178,
    9.938804626464844,
    -0.7463362812995911,
    -30.688308715820312,
    46.10666275024414,
];
const CENTER_F32: f64 = 0.2834821343421936;
/// As [`ERFC_F32`], error 2^-55.9.
const ERFC_F64: [f64; 27] = [
    0.03525619074236502,
    1.023649415360309,
    -0.6394157664795692,
    -1.2813175226162803,
    2.2429582357213786,
    0.5296197668756196,
    -6.8579647306036495,
    9.76178828145394,
    4.332233065086957,
    -43.39858662346196,
    80.30484551869827,
    -19.571964107436376,
    -281.72823415831334,
    825.9896048367884,
    -1015.2474325428706,
    -934.6870397010987,
    7457.580578013829,
    -16591.172509543023,
    17626.813765103412,
    -7230.520552323902,
    -141571.66740095188,
    1062270.0826399843,
    -1577698.1640261868,
    -5999044.855615328,
    15875582.821642209,
    11052518.610897623,
    -42116133.90476562,
];
const CENTER_F64: f64 = 0.2632508873939514;
/// The quotient t (1 + a): about the middle of what erfc(a) e^(a^2) takes its place, so that the rest is
/// small beside 1.
const TOP: f64 = 0.75;
/// The slope of that rest by t, roughly.
const SLOPE: f64 = 1.0;

/// What erfc(a) e^(a^2) is made of, `scale t (1 + rest)`.
struct Tail {
    /// 1 + a in two parts.
    bottom: (Id, Id),
    t: Id,
    rest: Id,
}

impl Builder<'_> {
    /// erf(x) / x - 1 for |x| <= 1.
    fn erf_rest(&mut self, x: Id) -> Id {
        let square = self.mul(x, x);
        let table: &[f64] = if self.g.dtype(x) == DType::F32 {
            &ERF_F32
        } else {
            &ERF_F64
        };
        self.polynomial(square, table)
    }

    /// 1 - erf(x) for |x| <= 1, rounded about once.
    fn one_less_erf(&mut self, x: Id) -> Id {
        let one = self.float(self.g.dtype(x), 1.0);
        let rest = self.erf_rest(x);
        let minus = self.g.unary(Unary::Neg, x);
        let (high, low) = self.sum(one, minus);
        let rest = self.fma(minus, rest, low);
        self.add(high, rest)
    }

    /// erfc(a) e^(a^2) for a >= 1/2, but for what t is rounded by; `scale` is a power of two.
    fn tail(&mut self, a: Id, scale: f64) -> Tail {
        let dtype = self.g.dtype(a);
        let (table, center): (&[f64], f64) = if dtype == DType::F32 {
            (&ERFC_F32, CENTER_F32)
        } else {
            (&ERFC_F64, CENTER_F64)
        };
        let (one, top) = (self.float(dtype, 1.0), self.float(dtype, TOP * scale));
        let bottom = self.sum(one, a);
        let t = self.g.binary(Binary::FDiv, top, bottom.0);
        let (unit, center) = (self.float(dtype, 1.0 / scale), self.float(dtype, -center));
        let u = self.fma(t, unit, center);
        Tail {
            bottom,
            t,
            rest: self.polynomial(u, table),
        }
    }

    /// erfc(a) for a >= 1/2, with the digits that count beside 1.
    fn erfc_beside_one(&mut self, a: Id) -> Id {
        let of = self.tail(a, 1.0);
        let minus = self.g.unary(Unary::Neg, a);
        let square = self.mul(minus, a);
        let power = self.unary(Unary::Exp, square);
        let y = self.fma(of.t, of.rest, of.t);
        self.mul(power, y)
    }

    /// erfc(a) for a >= 1/2. Only the result is rounded, and e^(-a^2) where that is an instruction: what the square,
    /// the sum, the quotient and the products lose comes back.
    fn erfc_far(&mut self, a: Id) -> Id {
        let dtype = self.g.dtype(a);
        let minus = self.g.unary(Unary::Neg, a);
        let (square, square_low) = self.product(minus, a);
        let apart = self.power_apart(square);
        // Large enough that parts of a subnormal result are normal numbers.
        let scale = 2f64.powi(if apart.is_some() { 0 } else { 24 });
        let of = self.tail(a, scale);
        // The quotient is t (1 + lost / TOP), and the rest is a function of it.
        let top = self.float(dtype, TOP * scale);
        let minus = self.g.unary(Unary::Neg, of.t);
        let lost = self.fma(minus, of.bottom.0, top);
        let lost = self.fma(minus, of.bottom.1, lost);
        let slope = self.float(dtype, SLOPE / TOP / scale / scale);
        let whole = self.float(dtype, 1.0 / TOP / scale);
        let slope = self.fma(of.t, slope, whole);
        let lost = self.fma(lost, slope, square_low);
        let lost = self.fma(of.rest, lost, lost);
        let rest = self.add(of.rest, lost);
        // t (1 + rest) as a sum, times the power.
        let high = self.fma(of.t, rest, of.t);
        let low = self.sub(of.t, high);
        let low = self.fma(of.t, rest, low);
        if let Some(power) = apart {
            let low = self.mul(power.value, low);
            let low = self.fma(power.low, high, low);
            let y = self.fma(power.value, high, low);
            return self.scaled(y, power.shifted);
        }
        let power = self.unary(Unary::Exp, square);
        let low = self.mul(power, low);
        let y = self.fma(power, high, low);
        let down = self.float(dtype, 1.0 / scale);
        self.mul(y, down)
    }

    /// erf(x).
    pub fn erf(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let a = self.g.unary(Unary::Abs, x);
        let one = self.float(dtype, 1.0);
        // From here on it rounds to 1.
        let most = self.float(dtype, if dtype == DType::F32 { 4.0 } else { 6.0 });
        let over = self.less(most, a);
        let a = self.select(over, most, a);
        let far = self.less(one, a);
        let close = self.select(far, one, x);
        let near = self.erf_rest(close);
        let near = self.fma(close, near, close);
        let rest = self.erfc_beside_one(a);
        let y = self.sub(one, rest);
        let y = self.signed_as(y, x);
        self.select(far, y, near)
    }

    /// 1 - erf(x), with all digits where it is small.
    pub fn erfc(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let a = self.g.unary(Unary::Abs, x);
        let (half, one) = (self.float(dtype, 0.5), self.float(dtype, 1.0));
        let (zero, two) = (self.float(dtype, 0.0), self.float(dtype, 2.0));
        // From here on it rounds to 0.
        let most = self.float(dtype, if dtype == DType::F32 { 10.2 } else { 27.4 });
        let over = self.less(most, a);
        let a = self.select(over, most, a);
        let far = self.less(half, a);
        let close = self.select(far, half, x);
        let near = self.one_less_erf(close);
        let apart = self.select(far, a, one);
        let rest = self.erfc_far(apart);
        let other = self.sub(two, rest);
        let negative = self.less(x, zero);
        let y = self.select(negative, other, rest);
        let y = self.select(far, y, near);
        let number = self.equal(x, x);
        self.select(number, y, x)
    }
}
