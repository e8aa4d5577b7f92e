//! Inverse trigonometric functions: arguments near 0 by a polynomial, others by identities, with pi/2
//! in two parts.

use super::builder::Builder;
use crate::dtype::DType;
use crate::ir::{Binary, Id, Unary};

/// (atan(x) / x - 1) / x^2 in powers of x^2 for |x| <= tan(pi/8), error of the function 2^-28.
const ATAN_F32: [f64; 5] = [
    -0.3333333134651184,
    0.19999539852142334,
    -0.14263944327831268,
    0.10743605345487595,
    -0.06451509147882462,
];
/// As [`ATAN_F32`], error 2^-56.9.
const ATAN_F64: [f64; 11] = [
    -0.3333333333333333,
    0.19999999999995513,
    -0.1428571428466482,
    0.11111111015117626,
    -0.09090904572487347,
    0.07692183059894114,
    -0.06664509603255386,
    0.05858132894427922,
    -0.05085365922344248,
    0.03922923713835943,
    -0.01917392228554793,
];
/// (asin(x) / x - 1) / x^2 in powers of x^2 for |x| <= 1/2, error of the function 2^-27.6.
const ASIN_F32: [f64; 5] = [
    0.16666753590106964,
    0.07495241612195969,
    0.045477088540792465,
    0.024147646501660347,
    0.04221849516034126,
];
/// As [`ASIN_F32`], error 2^-57.4.
const ASIN_F64: [f64; 13] = [
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
];

/// pi/2 in two parts.
const HALF_PI_F32: [f64; 2] = [1.5707963705062866, -4.371138828673793e-8];
/// As [`HALF_PI_F32`].
const HALF_PI_F64: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17];

/// The root of `(1 - |x|) / 2`, whose inverse sine is that of x in other words, or x itself where it is
/// small.
struct Arc {
    /// |x| <= 1/2.
    near: Id,
    root: Id,
    /// What rounding the root lost, plus the rest of its inverse sine.
    rest: Id,
}

impl Builder<'_> {
    fn half_pi(&mut self, dtype: DType) -> [Id; 2] {
        let parts = if dtype == DType::F32 {
            HALF_PI_F32
        } else {
            HALF_PI_F64
        };
        parts.map(|part| self.float(dtype, part))
    }

    /// atan(x).
    pub fn atan(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let a = self.g.unary(Unary::Abs, x);
        let (zero, one) = (self.float(dtype, 0.0), self.float(dtype, 1.0));
        let minus_one = self.float(dtype, -1.0);
        let quarter = self.float(dtype, 0.5);
        // tan(pi/8) and its reciprocal
        let near = self.float(dtype, 0.414_213_562_373_095_03);
        let far = self.float(dtype, 2.414_213_562_373_095);
        let middle = self.less(near, a);
        let beyond = self.less(far, a);
        let (less, more) = (self.sub(a, one), self.add(a, one));
        let top = self.select(middle, less, a);
        let top = self.select(beyond, minus_one, top);
        let bottom = self.select(middle, more, one);
        let bottom = self.select(beyond, a, bottom);
        let z = self.g.binary(Binary::FDiv, top, bottom);
        let of = self.select(middle, quarter, zero);
        let of = self.select(beyond, one, of);
        let [base, base_low] = self.half_pi(dtype).map(|part| self.mul(part, of));
        let square = self.mul(z, z);
        let table: &[f64] = if dtype == DType::F32 {
            &ATAN_F32
        } else {
            &ATAN_F64
        };
        let p = self.polynomial(square, table);
        let cube = self.mul(z, square);
        let rest = self.fma(cube, p, base_low);
        let (high, low) = self.sum(base, z);
        let rest = self.add(low, rest);
        let y = self.add(high, rest);
        self.signed_as(y, x)
    }

    fn arc(&mut self, x: Id) -> Arc {
        let dtype = self.g.dtype(x);
        let a = self.g.unary(Unary::Abs, x);
        let (half, zero) = (self.float(dtype, 0.5), self.float(dtype, 0.0));
        let one = self.float(dtype, 1.0);
        let outside = self.less(half, a);
        let near = self.not(outside);
        let apart = self.sub(one, a);
        let apart = self.mul(apart, half);
        let square = self.mul(a, a);
        let z = self.select(near, square, apart);
        let root = self.g.unary(Unary::Sqrt, apart);
        let minus = self.g.unary(Unary::Neg, root);
        let lost = self.fma(minus, root, apart);
        let twice = self.add(root, root);
        let lost = self.g.binary(Binary::FDiv, lost, twice);
        let some = self.less(zero, root);
        let lost = self.select(some, lost, zero);
        let lost = self.select(near, zero, lost);
        let root = self.select(near, a, root);
        let table: &[f64] = if dtype == DType::F32 {
            &ASIN_F32
        } else {
            &ASIN_F64
        };
        let p = self.polynomial(z, table);
        let cube = self.mul(root, z);
        Arc {
            near,
            root,
            rest: self.fma(cube, p, lost),
        }
    }

    /// `base - by (root + rest)`, rounded about once; |base| >= |by root| or base = 0. `by` is a power
    /// of two.
    fn less_arc(&mut self, base: Id, base_low: Id, by: Id, arc: &Arc) -> Id {
        let minus = self.g.unary(Unary::Neg, by);
        let first = self.mul(minus, arc.root);
        let (high, low) = self.sum(base, first);
        let rest = self.fma(minus, arc.rest, base_low);
        let rest = self.add(low, rest);
        self.add(high, rest)
    }

    /// asin(x): `pi/2 - 2 asin(root)` beyond 1/2.
    pub fn asin(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let arc = self.arc(x);
        let [base, base_low] = self.half_pi(dtype);
        let (zero, two) = (self.float(dtype, 0.0), self.float(dtype, 2.0));
        let minus_one = self.float(dtype, -1.0);
        let base = self.select(arc.near, zero, base);
        let base_low = self.select(arc.near, zero, base_low);
        let by = self.select(arc.near, minus_one, two);
        let y = self.less_arc(base, base_low, by, &arc);
        let y = self.signed_as(y, x);
        self.inside(x, y)
    }

    /// acos(x): `pi/2 - asin(x)`, `2 asin(root)` above 1/2, `pi - 2 asin(root)` below -1/2.
    pub fn acos(&mut self, x: Id) -> Id {
        let dtype = self.g.dtype(x);
        let arc = self.arc(x);
        let parts = self.half_pi(dtype);
        let (zero, one) = (self.float(dtype, 0.0), self.float(dtype, 1.0));
        let two = self.float(dtype, 2.0);
        let (minus_one, minus_two) = (self.float(dtype, -1.0), self.float(dtype, -2.0));
        let negative = self.less(x, zero);
        let times = self.select(negative, two, zero);
        let times = self.select(arc.near, one, times);
        let [base, base_low] = parts.map(|part| self.mul(part, times));
        let signed = self.select(negative, minus_one, one);
        let far = self.select(negative, two, minus_two);
        let by = self.select(arc.near, signed, far);
        let y = self.less_arc(base, base_low, by, &arc);
        self.inside(x, y)
    }

    /// NaN outside of -1..=1.
    fn inside(&mut self, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        let (a, one) = (self.g.unary(Unary::Abs, x), self.float(dtype, 1.0));
        let (over, number) = (self.less(one, a), self.equal(x, x));
        let nan = self.float(dtype, f64::NAN);
        let y = self.select(over, nan, y);
        self.select(number, y, nan)
    }
}
