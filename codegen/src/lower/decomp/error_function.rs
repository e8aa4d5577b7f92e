//! The error function and its complement: `erf x = x + x P(x^2)` near 0, and
//! `erfc a = t e^(Q(t) - a^2)` with `t = 1 / (1 + a/2)` further out.

use super::builder::Builder;
use crate::DType;
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
/// ln(erfc(a) e^(a^2) / t) in powers of `t - CENTER` for a >= 1/2, error 2^-28.6.
const ERFC_F32: [f64; 10] = [
    -0.6968812346458435,
    1.3378149271011353,
    0.2100692093372345,
    -0.3623749315738678,
    -0.18369099497795105,
    0.26731327176094055,
    0.15093059837818146,
    -0.282664030790329,
    -0.09407135099172592,
    0.2654982805252075,
];
const CENTER_F32: f64 = 0.48130080103874207;
/// As [`ERFC_F32`], error 2^-55.6.
const ERFC_F64: [f64; 23] = [
    -0.7597873548004955,
    1.3155413166994032,
    0.2588534788885953,
    -0.32190499851091575,
    -0.24099037097770762,
    0.21165020056063283,
    0.23840150065399443,
    -0.22537747946509437,
    -0.24228012003308974,
    0.3087641832440821,
    0.21737474656870262,
    -0.4516432126692742,
    -0.10644997020805687,
    0.6170160799073927,
    -0.15829764181482986,
    -0.6959555537383374,
    0.5909727605683812,
    0.5215269082303329,
    -1.0315100433146922,
    -0.07287440991009114,
    1.1074977924119616,
    -0.22256213003973827,
    -0.5909292199810108,
];
const CENTER_F64: f64 = 0.43389829993247986;

impl Builder<'_> {
    /// erf(x) for |x| <= 1.
    fn erf_near(&mut self, x: Id) -> Id {
        let square = self.mul(x, x);
        let table: &[f64] = if self.g.dtype(x) == DType::F32 {
            &ERF_F32
        } else {
            &ERF_F64
        };
        let p = self.polynomial(square, table);
        self.fma(x, p, x)
    }

    /// erfc(a) for a >= 1/2. `exact`: for its own sake, not only beside 1.
    fn erfc_far(&mut self, a: Id, exact: bool) -> Id {
        let dtype = self.g.dtype(a);
        let (half, one) = (self.float(dtype, 0.5), self.float(dtype, 1.0));
        let (table, center): (&[f64], f64) = if dtype == DType::F32 {
            (&ERFC_F32, CENTER_F32)
        } else {
            (&ERFC_F64, CENTER_F64)
        };
        let bottom = self.fma(a, half, one);
        let t = self.g.binary(Binary::FDiv, one, bottom);
        let center = self.float(dtype, center);
        let u = self.sub(t, center);
        let q = self.polynomial(u, table);
        let minus = self.g.unary(Unary::Neg, a);
        let power = if exact {
            // The square has digits below those of its float, and they count.
            let (square, square_low) = self.product(minus, a);
            let (high, low) = self.any_sum(square, q);
            let low = self.add(low, square_low);
            let power = self.unary(Unary::Exp, high);
            self.fma(power, low, power)
        } else {
            let power = self.fma(minus, a, q);
            self.unary(Unary::Exp, power)
        };
        self.mul(power, t)
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
        let near = self.erf_near(close);
        let rest = self.erfc_far(a, false);
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
        let near = self.erf_near(close);
        let near = self.sub(one, near);
        let apart = self.select(far, a, one);
        let rest = self.erfc_far(apart, true);
        let other = self.sub(two, rest);
        let negative = self.less(x, zero);
        let y = self.select(negative, other, rest);
        let y = self.select(far, y, near);
        let number = self.equal(x, x);
        self.select(number, y, x)
    }
}
