//! Arithmetic, logic and the elementary functions. On CPUs these are right to two units in the
//! last place of `f32` and `f64`, `exp`, `log` and `sqrt` to one; narrower floats are computed in `f32`.

use std::f64::consts::{LN_10, LOG2_10};

use codegen::DType;
use codegen::ir::{Binary, Unary};

use super::{Operand, dtype_error, float_pair, pair, shape_error};
use crate::element::Scalar;
use crate::error::Result;
use crate::graph::Tensor;

/// log10 2 in two parts: multiples of the first by exponents are exact.
const LOG10_2: [f64; 2] = [0.301025390625, 4.605038981195214e-6];

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
            /// # Errors None today.
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
            /// # Errors None today.
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
            /// # Errors None today.
            pub fn $name(&self) -> Result<Tensor> {
                self.in_f32(|$x| $body)
            }
        )*}
    };
}

composed! {
    /// e to the power x.
    exp, |x| x.unary(Unary::Exp);
    /// e^x - 1, with all digits near 0.
    expm1, |x| x.unary(Unary::Expm1);
    /// Natural logarithm.
    log, |x| x.unary(Unary::Log);
    /// Logarithm to base 10.
    log10, |x| x.unary(Unary::Log10);
    /// ln(1 + x), with all digits near 0.
    log1p, |x| x.unary(Unary::Log1p);
    /// Cosine, x in radians.
    cos, |x| x.unary(Unary::Cos);
    /// Tangent, x in radians.
    tan, |x| x.unary(Unary::Tan);
    /// Inverse sine, in radians; NaN outside of -1..=1.
    asin, |x| x.unary(Unary::Asin);
    /// Inverse cosine, in radians; NaN outside of -1..=1.
    acos, |x| x.unary(Unary::Acos);
    /// Inverse tangent, in radians.
    atan, |x| x.unary(Unary::Atan);
    /// Hyperbolic sine.
    sinh, |x| x.unary(Unary::Sinh);
    /// Hyperbolic cosine.
    cosh, |x| x.unary(Unary::Cosh);
    /// Hyperbolic tangent.
    tanh, |x| x.unary(Unary::Tanh);
    /// Inverse hyperbolic sine.
    asinh, |x| x.unary(Unary::Asinh);
    /// Inverse hyperbolic cosine; NaN below 1.
    acosh, |x| x.unary(Unary::Acosh);
    /// Inverse hyperbolic tangent; NaN outside of -1..=1.
    atanh, |x| x.unary(Unary::Atanh);
    /// The error function.
    erf, |x| x.unary(Unary::Erf);
    /// 1 - erf(x), with all digits where it is small.
    erfc, |x| x.unary(Unary::Erfc);
    /// 10 to the power x, as 2^n e^r: n is the integer near x / log10 2, and r little enough that rounding it
    /// does not count.
    exp10, |x| {
        // Beyond, the result is 0 or infinity by the second factor.
        let single = x.dtype() == DType::F32;
        let (least, most) = if single { (-150, 127) } else { (-1075, 1023) };
        let n = x.detach()?.mul(LOG2_10)?.round()?.clip(least, most)?;
        let r = x.sub(&n.mul(LOG10_2[0])?)?.sub(&n.mul(LOG10_2[1])?)?;
        // 2^n in two factors, because it may be no number, and by their bits, because instructions are not exact.
        let half = n.mul(0.5)?.floor()?;
        let other = n.sub(&half)?;
        r.mul(LN_10)?.exp()?.mul(&half.power_of_two()?)?.mul(&other.power_of_two()?)
    };
    /// 1 over the square root.
    rsqrt, |x| x.sqrt()?.reciprocal();
    /// 1 / (1 + e^-x). Made of e = e^-|x|, so neither the value nor the gradient overflows. The quotient
    /// s = e / (1 + e) is that of a negative x, but 1 + e is rounded, which counts double where e is just above a
    /// power of two and s just below. In e - e s, which is the same, it counts s times; 1 - s is that of -x.
    sigmoid, |x| {
        let e = x.mul(&x.sign_choice()?)?.neg()?.exp()?;
        let s = e.div(&e.add(1.0)?)?;
        let whole = x.lt(0.0)?.where_(&e, 1.0)?;
        whole.sub(&whole.mul(&s)?)
    };
    /// ln sigmoid(x).
    logsigmoid, |x| x.neg()?.softplus(1.0)?.neg();
}

impl Tensor {
    /// Integers and booleans as `f32`, floats as they are.
    ///
    /// # Errors None today.
    pub fn to_float(&self) -> Result<Tensor> {
        if self.dtype().is_float() {
            Ok(self.clone())
        } else {
            self.cast(DType::F32)
        }
    }

    /// 2^n for whole numbers whose power is a normal number of `f32` or `f64`.
    fn power_of_two(&self) -> Result<Tensor> {
        let (bits, bias, digits) = match self.dtype() {
            DType::F64 => (DType::I64, 1023, 52),
            _ => (DType::I32, 127, 23),
        };
        let exponent = self.cast(bits)?.add(bias)?;
        exponent.mul(1i64 << digits)?.bitcast(self.dtype())
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
        let (a, b) = float_pair("div", self, other.into())?;
        a.binary(Binary::FDiv, &b)
    }

    /// Remainder with the sign of the divisor, as Python's `%`. That of an integer by 0 is 0.
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

    /// a to the power b. Floats as C's `pow`; integers by multiplication, which wraps. An integer to a
    /// negative power is rounded towards zero: 1 and -1 have powers, others (and 0) give 0.
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
            return dtype_error(
                "pow",
                "pow is not defined for bool; cast to an integer".into(),
            );
        }
        let base = a.clone();
        let (mut result, mut square) = (a.ones_like()?, a);
        for bit in 0..dtype.bits() {
            let taken = b.shr(i64::from(bit))?.bitand(1)?.ne(0)?;
            result = taken.select(&result.mul(&square)?, &result)?;
            square = square.mul(&square)?;
        }
        if dtype.is_signed() {
            // The powers of 1 and -1 go round, so they are right already.
            let unit = base.eq(1)?.bitor(&base.eq(-1)?)?;
            let none = b.lt(0)?.bitand(&unit.logical_not()?)?;
            result = none.select(&result.zeros_like()?, &result)?;
        }
        Ok(result)
    }

    /// x * x.
    ///
    /// # Errors None today.
    pub fn square(&self) -> Result<Tensor> {
        self.mul(self)
    }

    /// -1, 0 or 1 with the sign of x; NaN and zeros stay.
    ///
    /// # Errors
    /// `Bool`.
    pub fn sign(&self) -> Result<Tensor> {
        let x = self.detach()?;
        // What is neither is NaN, or counts as zero. The gradient is that of rounding: zeros.
        let rest = match x.dtype().is_float() {
            true => self.mul(0)?.trunc()?,
            false => x.clone(),
        };
        let positive = x.gt(0)?.select(&x.ones_like()?, &rest)?;
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
        let (a, b) = float_pair("copysign", self, other.into())?;
        // 1/-0 is -inf; 1/-inf is -0, which the first comparison takes.
        let negative = b.lt(0)?.bitor(&b.reciprocal()?.lt(0)?)?;
        let magnitude = a.abs()?;
        let y = negative.select(&magnitude.neg()?, &magnitude)?;
        // It depends on the sign, with a gradient of zeros.
        let never = Tensor::full(b.engine(), b.shape(), false, DType::Bool)?;
        never.select(&b, &y)
    }

    /// ln(e^a + e^b), without overflow: the larger plus `ln(1 + e^-|a - b|)`, rounded in units of the larger of
    /// these.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let (a, b) = float_pair("logaddexp", self, other.into())?;
        let dtype = a.dtype();
        let (a, b) = (a.cast(dtype.accumulator())?, b.cast(dtype.accumulator())?);
        let m = a.maximum(&b)?;
        // The same infinity twice has no distance.
        let apart = a.eq(&b)?.select(&a.zeros_like()?, &a.sub(&b)?)?;
        let more = apart.abs()?.neg()?.exp()?.log1p()?;
        m.add(&more)?.cast(dtype)
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
    /// # Errors None today.
    pub fn isnan(&self) -> Result<Tensor> {
        self.ne(self)
    }

    /// Where the value is infinite, as `Bool`.
    ///
    /// # Errors None today.
    pub fn isinf(&self) -> Result<Tensor> {
        if !matches!(self.dtype(), d if d.is_float() && d != DType::F8E4M3) {
            return self.zeros_like()?.cast(DType::Bool);
        }
        self.abs()?.eq(f64::INFINITY)
    }

    /// Where the value is neither NaN nor infinite, as `Bool`.
    ///
    /// # Errors None today.
    pub fn isfinite(&self) -> Result<Tensor> {
        self.isnan()?.bitor(&self.isinf()?)?.not()
    }

    /// Where `|a - b| <= atol + rtol * |b|`, or both are the same infinity, or both are NaN if
    /// `equal_nan`.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
        // An integer beside a smaller float is compared as it is, not as that float has it.
        let (a, b) = match self.dtype() == DType::F64 || other.dtype() == DType::F64 {
            true => float_pair("isclose", self, other.into())?,
            false => pair("isclose", &self.to_float()?, (&other.to_float()?).into())?,
        };
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
    /// # Errors None today.
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
        return shape_error(op, "expected at least one tensor".into());
    };
    rest.iter().try_fold(first.clone(), |sum, &t| f(&sum, t))
}
