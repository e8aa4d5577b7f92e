//! Arithmetic, logic and the elementary functions.

use std::f64::consts::{FRAC_PI_2, LN_2, LN_10, LOG2_E, LOG10_2};

use codegen::DType;
use codegen::ir::{Binary, Unary};

use super::{Operand, dtype_error, pair, shape_error};
use crate::element::Scalar;
use crate::error::Result;
use crate::graph::Tensor;

/// Coefficients of `ln(erfc(a) e^(a^2) / t)` by powers of `2t - 1`, t = 1 / (1 + a/2): the Chebyshev
/// series of 26 terms, computed with 60 digits.
const ERFC: [f64; 26] = [
    -0.6717940840566922,
    0.672643223977656,
    0.047343306841863525,
    -0.046895610231083025,
    -0.009872689364099222,
    0.008824938553738764,
    0.0017589335074028032,
    -0.002345812444802156,
    -0.00014624628742128406,
    0.0006736782697069831,
    -9.373894767667295e-5,
    -0.00017429984933155644,
    7.141810433422301e-5,
    3.173310599377061e-5,
    -3.023784054007137e-5,
    1.699233231227702e-7,
    8.662535397475538e-6,
    -3.007645434410669e-6,
    -1.409445991433531e-6,
    1.3267813608518889e-6,
    -4.146853754663641e-8,
    -3.168341367694147e-7,
    7.745572408758512e-8,
    3.972203547273795e-8,
    -1.2776086554968677e-8,
    -1.5867042924138042e-9,
];

/// Defines methods that broadcast, promote and apply one [`Binary`].
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Shapes that do not broadcast, or a type for which it is not defined.
            pub fn $name(&self, other: impl Into<Operand>) -> Result<Tensor> {
                let (a, b) = pair(stringify!($name), self, other.into())?;
                a.binary(Binary::$op, &b)
            }
        )*}
    };
}

binary! {
    /// Sum; `or` for `Bool`.
    add, Add;
    /// Difference; exclusive or for `Bool`.
    sub, Sub;
    /// Product; `and` for `Bool`.
    mul, Mul;
    /// Integer quotient rounded down; 0 where the divisor is 0.
    floor_div, FloorDiv;
    /// Integer quotient rounded towards zero; 0 where the divisor is 0.
    trunc_div, TruncDiv;
    /// Remainder with the sign of the dividend, as C's `fmod`.
    fmod, TruncMod;
    /// Bitwise and; logical for `Bool`.
    bitand, And;
    /// Bitwise or; logical for `Bool`.
    bitor, Or;
    /// Bitwise exclusive or; logical for `Bool`.
    bitxor, Xor;
    /// Shift left; 0 if the count is the width or more.
    shl, Shl;
    /// Shift right, with the sign for signed types.
    shr, Shr;
}

/// Defines methods that apply one [`Unary`].
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// A type for which it is not defined.
            pub fn $name(&self) -> Result<Tensor> {
                self.unary(Unary::$op)
            }
        )*}
    };
}

unary! {
    /// Negation; wraps for integers.
    neg, Neg;
    /// Bitwise complement; logical for `Bool`.
    not, Not;
    /// Absolute value.
    abs, Abs;
}

/// Defines methods over floats that apply one [`Unary`] after the conversion of integers to `f32`.
macro_rules! float_unary {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// None today.
            pub fn $name(&self) -> Result<Tensor> {
                self.to_float()?.unary(Unary::$op)
            }
        )*}
    };
}

float_unary! {
    /// 1/x.
    reciprocal, Recip;
    /// Square root; NaN below zero.
    sqrt, Sqrt;
    /// 2 to the power x.
    exp2, Exp2;
    /// Logarithm to base 2.
    log2, Log2;
    /// Sine, x in radians.
    sin, Sin;
}

/// Defines rounding methods: integers and booleans stay as they are.
macro_rules! rounding {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// None today.
            pub fn $name(&self) -> Result<Tensor> {
                if self.dtype().is_float() {
                    self.unary(Unary::$op)
                } else {
                    Ok(self.clone())
                }
            }
        )*}
    };
}

rounding! {
    /// Rounded towards zero; integers stay.
    trunc, Trunc;
    /// Rounded down; integers stay.
    floor, Floor;
    /// Rounded up; integers stay.
    ceil, Ceil;
    /// Rounded to the nearest integer, ties to even; integers stay.
    round, RoundEven;
}

/// Defines functions of one float that are made of several operations, computed in at least `f32`.
macro_rules! composed {
    ($($(#[$doc:meta])* $name:ident, |$x:ident| $body:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// None today.
            pub fn $name(&self) -> Result<Tensor> {
                self.in_f32(|$x| $body)
            }
        )*}
    };
}

composed! {
    /// e to the power x.
    exp, |x| x.mul(LOG2_E)?.exp2();
    /// e^x - 1.
    expm1, |x| {
        // Near 0 the difference has no digits left: there, the Taylor series.
        let near = x.abs()?.le(0.5)?;
        let z = near.where_(x, 0.0)?;
        let mut series = z.full_like(1.0)?;
        for n in (2..=14).rev() {
            series = series.mul(&z)?.mul(1.0 / f64::from(n))?.add(1.0)?;
        }
        near.where_(&series.mul(&z)?, &x.exp()?.sub(1)?)
    };
    /// Natural logarithm.
    log, |x| x.log2()?.mul(LN_2);
    /// ln(1 + x).
    log1p, |x| {
        // What rounding 1 + x lost comes back as the first term of the series around it.
        let z = x.gt(-1.0)?.logical_and(&x.le(1.0)?)?.where_(x, 0.0)?;
        let u = z.add(1)?;
        let lost = z.sub(&u.sub(1)?)?.div(&u)?;
        x.add(1)?.log()?.add(&lost)
    };
    /// Logarithm to base 10.
    log10, |x| x.log2()?.mul(LOG10_2);
    /// 10 to the power x.
    exp10, |x| x.mul(LN_10 * LOG2_E)?.exp2();
    /// 1 over the square root.
    rsqrt, |x| x.sqrt()?.reciprocal();
    /// Cosine, x in radians. `1 - 2 sin^2(x/2)`: halving is exact, subtracting pi/2 is not.
    cos, |x| {
        let s = x.mul(0.5)?.sin()?;
        s.mul(&s)?.mul(-2.0)?.add(1.0)
    };
    /// Tangent, x in radians.
    tan, |x| x.sin()?.div(&x.cos()?);
    /// Inverse sine, in radians; NaN outside of -1..=1.
    asin, |x| {
        let root = x.mul(-1.0)?.add(1.0)?.mul(&x.add(1.0)?)?.sqrt()?;
        x.div(&root.add(1.0)?)?.atan()?.mul(2.0)
    };
    /// Inverse cosine, in radians; NaN outside of -1..=1.
    acos, |x| {
        let ratio = x.mul(-1.0)?.add(1.0)?.div(&x.add(1.0)?)?;
        ratio.sqrt()?.atan()?.mul(2.0)
    };
    /// Inverse tangent, in radians.
    atan, |x| {
        // |x| > 1 goes through atan x = pi/2 - atan 1/x. The sign comes from `where`, because
        // `abs` has no gradient at 0.
        let sign = x.sign_choice()?;
        let a = x.mul(&sign)?;
        let large = a.gt(1.0)?;
        let z = large.where_(&large.where_(&a, 1.0)?.reciprocal()?, &a)?;
        // Abramowitz and Stegun 4.4.49, within 1e-5...
        let y = z.mul(&z)?.polynomial(&[
            0.999_866_0, -0.330_299_5, 0.180_141_0, -0.085_133_0, 0.020_835_1,
        ])?.mul(&z)?;
        // ...and atan z = y + atan((z cos y - sin y) / (cos y + z sin y)), whose argument is so
        // small that it is its own inverse tangent to the last bit of binary64.
        let (s, c) = (y.sin()?, y.cos()?);
        let rest = z.mul(&c)?.sub(&s)?.div(&z.mul(&s)?.add(&c)?)?;
        let y = y.add(&rest)?;
        large.where_(&y.neg()?.add(FRAC_PI_2)?, &y)?.mul(&sign)
    };
    /// Hyperbolic sine.
    sinh, |x| x.exp()?.sub(&x.neg()?.exp()?)?.mul(0.5);
    /// Hyperbolic cosine.
    cosh, |x| x.exp()?.add(&x.neg()?.exp()?)?.mul(0.5);
    /// Hyperbolic tangent.
    tanh, |x| {
        // (e^2x - 1) / (e^2x + 1) has no digits left near 0: there, three levels of Lambert's
        // continued fraction are exact to the last bits, in binary64 seven. One quotient for both.
        let (reach, top, bottom): (f64, &[f64], &[f64]) = match x.dtype() {
            DType::F64 => (
                0.5,
                &[135_135.0, 17_325.0, 378.0, 1.0],
                &[135_135.0, 62_370.0, 3_150.0, 28.0],
            ),
            _ => (0.25, &[15.0, 1.0], &[15.0, 6.0]),
        };
        let near = x.abs()?.le(reach)?;
        let z = near.where_(x, 0.0)?;
        let square = z.mul(&z)?;
        // Beyond 20 the quotient is 1, before e^2x is infinite.
        let e = x.minimum(20.0)?.mul(2.0 * LOG2_E)?.exp2()?;
        let top = near.where_(&square.polynomial(top)?.mul(&z)?, &e.sub(1.0)?)?;
        top.div(&near.where_(&square.polynomial(bottom)?, &e.add(1.0)?)?)
    };
    /// Inverse hyperbolic sine.
    asinh, |x| {
        let sign = x.sign_choice()?;
        let a = x.mul(&sign)?;
        // a^2 overflows for large a, where asinh a = ln 2a to the last bit.
        let large = a.gt(1e9)?;
        let z = large.where_(1.0, &a)?;
        let y = z.mul(&z)?.add(1.0)?.sqrt()?.add(&z)?.log()?;
        large.where_(&a.log()?.add(LN_2)?, &y)?.mul(&sign)
    };
    /// Inverse hyperbolic cosine; NaN below 1.
    acosh, |x| {
        // The sum overflows for large x, where acosh x = ln 2x to the last bit.
        let large = x.gt(1e9)?;
        let z = large.where_(2.0, x)?;
        let y = z.sub(1.0)?.sqrt()?.mul(&z.add(1.0)?.sqrt()?)?.add(&z)?.log()?;
        large.where_(&x.log()?.add(LN_2)?, &y)
    };
    /// Inverse hyperbolic tangent; NaN outside of -1..=1.
    atanh, |x| x.add(1.0)?.div(&x.neg()?.add(1.0)?)?.log()?.mul(0.5);
    /// The error function, within 1.2e-7; in `f64` within 1e-15.
    erf, |x| {
        // erfc(a) = t exp(-a^2 + p) with t = 1 / (1 + a/2), a >= 0; p is a polynomial in t
        // (Numerical Recipes, erfcc), or in 2t - 1.
        let sign = x.sign_choice()?;
        let a = x.mul(&sign)?;
        let t = a.mul(0.5)?.add(1.0)?.reciprocal()?;
        let p = if x.dtype() == DType::F64 {
            t.mul(2.0)?.sub(1.0)?.polynomial(&ERFC)?
        } else {
            t.polynomial(&[
                -1.265_512_23, 1.000_023_68, 0.374_091_96, 0.096_784_18, -0.186_288_06,
                0.278_868_07, -1.135_203_98, 1.488_515_87, -0.822_152_23, 0.170_872_77,
            ])?
        };
        let erfc = p.sub(&a.mul(&a)?)?.exp()?.mul(&t)?;
        erfc.neg()?.add(1.0)?.mul(&sign)
    };
    /// 1 / (1 + e^-x). Made of e^-|x|, so neither the value nor the gradient overflows.
    sigmoid, |x| {
        let e = x.mul(&x.sign_choice()?)?.neg()?.exp()?;
        x.lt(0.0)?.where_(&e, 1.0)?.div(&e.add(1.0)?)
    };
    /// ln sigmoid(x).
    logsigmoid, |x| x.neg()?.softplus(1.0)?.neg();
}

impl Tensor {
    /// Integers and booleans as `f32`, floats as they are.
    ///
    /// # Errors
    /// None today.
    pub fn to_float(&self) -> Result<Tensor> {
        if self.dtype().is_float() {
            Ok(self.clone())
        } else {
            self.cast(DType::F32)
        }
    }

    /// Applies `f` to the tensor as a float of at least 32 bits, and rounds back to its type.
    pub(crate) fn in_f32(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let x = self.to_float()?;
        f(&x.cast(x.dtype().accumulator())?)?.cast(x.dtype())
    }

    /// -1 below zero, else 1, in the type of the tensor; a factor that makes `|x|` with the right
    /// gradient at 0.
    pub(crate) fn sign_choice(&self) -> Result<Tensor> {
        self.lt(0)?.select(&self.full_like(-1)?, &self.ones_like()?)
    }

    /// `c[0] + c[1] x + c[2] x^2 ...`, by Horner's rule.
    pub(crate) fn polynomial(&self, c: &[f64]) -> Result<Tensor> {
        let mut sum = self.full_like(c.last().copied().unwrap_or(0.0))?;
        for &c in c.iter().rev().skip(1) {
            sum = sum.mul(self)?.add(c)?;
        }
        Ok(sum)
    }

    /// True quotient: integers and booleans divide as `f32`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn div(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let other = other.into();
        // A number meets the float that the tensor becomes, and need not fit into an integer.
        let (a, b) = match other {
            Operand::Scalar(_) => pair("div", &self.to_float()?, other)?,
            Operand::Tensor(_) => pair("div", self, other)?,
        };
        a.to_float()?.binary(Binary::FDiv, &b.to_float()?)
    }

    /// Remainder with the sign of the divisor, as Python's `%`.
    ///
    /// # Errors
    /// Shapes that do not broadcast; `Bool`.
    pub fn modulo(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let (a, b) = pair("modulo", self, other.into())?;
        if !a.dtype().is_float() {
            return a.binary(Binary::FloorMod, &b);
        }
        let r = a.binary(Binary::TruncMod, &b)?;
        let wrong = r.ne(0)?.bitand(&r.lt(0)?.bitxor(&b.lt(0)?)?)?;
        wrong.select(&r.add(&b)?, &r)
    }

    /// a to the power b. Floats as C's `pow`; integers by multiplication, which wraps, with the
    /// exponent taken as unsigned.
    ///
    /// # Errors
    /// Shapes that do not broadcast; `Bool`.
    pub fn pow(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let (a, b) = pair("pow", self, other.into())?;
        let dtype = a.dtype();
        if dtype.is_float() {
            return a.binary(Binary::Pow, &b);
        }
        if dtype == DType::Bool {
            return dtype_error("pow", "bool has no powers; cast to an integer".into());
        }
        let (mut result, mut square) = (a.ones_like()?, a);
        for bit in 0..dtype.bits() {
            let taken = b.shr(i64::from(bit))?.bitand(1)?.ne(0)?;
            result = taken.select(&result.mul(&square)?, &result)?;
            square = square.mul(&square)?;
        }
        Ok(result)
    }

    /// x * x.
    ///
    /// # Errors
    /// None today.
    pub fn square(&self) -> Result<Tensor> {
        self.mul(self)
    }

    /// -1, 0 or 1 with the sign of x; NaN and zeros stay.
    ///
    /// # Errors
    /// `Bool`.
    pub fn sign(&self) -> Result<Tensor> {
        let x = self.detach()?;
        let positive = x.gt(0)?.select(&x.ones_like()?, &x)?;
        if x.dtype().is_unsigned() {
            return Ok(positive);
        }
        x.lt(0)?.select(&x.full_like(-1)?, &positive)
    }

    /// The magnitude of this tensor with the sign of `other` (also of -0).
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn copysign(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let (a, b) = pair("copysign", &self.to_float()?, other.into())?;
        // 1/-0 is -inf; 1/-inf is -0, which the first comparison takes.
        let negative = b.lt(0)?.bitor(&b.reciprocal()?.lt(0)?)?;
        let magnitude = a.abs()?;
        negative.select(&magnitude.neg()?, &magnitude)
    }

    /// ln(e^a + e^b), without overflow.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let (a, b) = pair("logaddexp", &self.to_float()?, other.into())?;
        let dtype = a.dtype();
        let (a, b) = (a.cast(dtype.accumulator())?, b.cast(dtype.accumulator())?);
        let m = a.maximum(&b)?.detach()?;
        let m = m.isinf()?.select(&m.zeros_like()?, &m)?;
        let sum = a.sub(&m)?.exp()?.add(&b.sub(&m)?.exp()?)?;
        sum.log()?.add(&m)?.cast(dtype)
    }

    /// `self + (end - self) * weight`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn lerp(&self, end: &Tensor, weight: impl Into<Operand>) -> Result<Tensor> {
        self.add(&end.sub(self)?.mul(weight)?)
    }

    /// Where the value is NaN, as `Bool`.
    ///
    /// # Errors
    /// None today.
    pub fn isnan(&self) -> Result<Tensor> {
        self.ne(self)
    }

    /// Where the value is infinite, as `Bool`.
    ///
    /// # Errors
    /// None today.
    pub fn isinf(&self) -> Result<Tensor> {
        if !matches!(self.dtype(), d if d.is_float() && d != DType::F8E4M3) {
            return self.zeros_like()?.cast(DType::Bool);
        }
        self.abs()?.eq(f64::INFINITY)
    }

    /// Where the value is neither NaN nor infinite, as `Bool`.
    ///
    /// # Errors
    /// None today.
    pub fn isfinite(&self) -> Result<Tensor> {
        self.isnan()?.bitor(&self.isinf()?)?.not()
    }

    /// Where `|a - b| <= atol + rtol * |b|`, or both are the same infinity, or both are NaN if
    /// `equal_nan`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
        let (a, b) = pair("isclose", &self.to_float()?, other.into())?;
        let near = a.sub(&b)?.abs()?.le(b.abs()?.mul(rtol)?.add(atol)?)?;
        let near = near.bitand(&b.isfinite()?)?.bitor(&a.eq(&b)?)?;
        if equal_nan {
            near.bitor(&a.isnan()?.bitand(&b.isnan()?)?)
        } else {
            Ok(near)
        }
    }

    /// Whether all elements are close, see [`Tensor::isclose`]; a tensor without axes.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64) -> Result<Tensor> {
        self.isclose(other, rtol, atol, false)?.all(&[], false)
    }

    /// `self ? a : b`, broadcast and promoted; `self` is true where it is not 0.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn where_(&self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Tensor> {
        let (a, b) = match (a.into(), b.into()) {
            (Operand::Tensor(a), b) => pair("where", &a, b)?,
            (a, Operand::Tensor(b)) => {
                let (b, a) = pair("where", &b, a)?;
                (a, b)
            }
            (Operand::Scalar(a), Operand::Scalar(b)) => {
                let base = DType::Bool;
                let dtype = a.beside(base).promote(b.beside(base));
                let full = |x: Scalar| {
                    Tensor::full_bits(self.engine(), &[], x.fit("where", dtype)?, dtype)
                };
                (full(a)?, full(b)?)
            }
        };
        let shape = super::broadcast_shapes("where", &[self.shape(), a.shape()])?;
        self.cast(DType::Bool)?
            .expand(&shape)?
            .select(&a.expand(&shape)?, &b.expand(&shape)?)
    }

    /// `value` where the mask is true, this tensor elsewhere; keeps the type.
    ///
    /// # Errors
    /// Shapes that do not broadcast; a number that does not fit.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Operand>) -> Result<Tensor> {
        let value = match value.into() {
            Operand::Scalar(number) => {
                let bits = number.fit("masked_fill", self.dtype())?;
                Tensor::full_bits(self.engine(), &[], bits, self.dtype())?.into()
            }
            tensor => tensor,
        };
        mask.where_(value, self)?.cast(self.dtype())
    }

    /// True where the value is 0, as `Bool`.
    ///
    /// # Errors
    /// None today.
    pub fn logical_not(&self) -> Result<Tensor> {
        self.cast(DType::Bool)?.not()
    }

    /// True where both are not 0, as `Bool`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn logical_and(&self, other: &Tensor) -> Result<Tensor> {
        self.cast(DType::Bool)?.bitand(&other.cast(DType::Bool)?)
    }

    /// True where one is not 0, as `Bool`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn logical_or(&self, other: &Tensor) -> Result<Tensor> {
        self.cast(DType::Bool)?.bitor(&other.cast(DType::Bool)?)
    }

    /// True where exactly one is not 0, as `Bool`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn logical_xor(&self, other: &Tensor) -> Result<Tensor> {
        self.cast(DType::Bool)?.bitxor(&other.cast(DType::Bool)?)
    }

    /// The sum of several tensors.
    ///
    /// # Errors
    /// No tensors; shapes that do not broadcast.
    pub fn sum_of(tensors: &[&Tensor]) -> Result<Tensor> {
        fold("sum_of", tensors, |a, b| a.add(b))
    }

    /// The product of several tensors.
    ///
    /// # Errors
    /// No tensors; shapes that do not broadcast.
    pub fn product_of(tensors: &[&Tensor]) -> Result<Tensor> {
        fold("product_of", tensors, |a, b| a.mul(b))
    }
}

fn fold(
    op: &'static str,
    tensors: &[&Tensor],
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let Some((&first, rest)) = tensors.split_first() else {
        return shape_error(op, "takes at least one tensor".into());
    };
    rest.iter().try_fold(first.clone(), |sum, &t| f(&sum, t))
}
