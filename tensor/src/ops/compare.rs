//! Comparisons and limits. Numbers are compared by value, whatever the type of the tensor.

use codegen::DType;
use codegen::interp::scalar;
use codegen::ir::Binary;

use super::{Operand, pair};
use crate::element::Scalar;
use crate::error::Result;
use crate::graph::Tensor;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

impl Relation {
    fn name(self) -> &'static str {
        match self {
            Relation::Lt => "lt",
            Relation::Le => "le",
            Relation::Gt => "gt",
            Relation::Ge => "ge",
            Relation::Eq => "eq",
            Relation::Ne => "ne",
        }
    }

    /// The answer for an element below the number.
    fn below(self) -> bool {
        matches!(self, Relation::Lt | Relation::Le | Relation::Ne)
    }

    /// The answer for an element above it.
    fn above(self) -> bool {
        matches!(self, Relation::Gt | Relation::Ge | Relation::Ne)
    }

    /// On equal shapes and types.
    fn of(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        match self {
            Relation::Lt => a.binary(Binary::Lt, b),
            Relation::Gt => b.binary(Binary::Lt, a),
            Relation::Le => a.binary(Binary::Lt, b)?.bitor(&a.binary(Binary::Eq, b)?),
            Relation::Ge => b.binary(Binary::Lt, a)?.bitor(&a.binary(Binary::Eq, b)?),
            Relation::Eq => a.binary(Binary::Eq, b),
            Relation::Ne => a.binary(Binary::Ne, b),
        }
    }
}

/// Defines methods that broadcast, promote and compare.
macro_rules! comparison {
    ($($(#[$doc:meta])* $name:ident, $relation:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Shapes that do not broadcast.
            pub fn $name(&self, other: impl Into<Operand>) -> Result<Tensor> {
                self.compare(Relation::$relation, other.into())
            }
        )*}
    };
}

comparison! {
    /// `self < other`, as `Bool`.
    lt, Lt;
    /// `self <= other`, as `Bool`; false with NaN.
    le, Le;
    /// `self > other`, as `Bool`.
    gt, Gt;
    /// `self >= other`, as `Bool`; false with NaN.
    ge, Ge;
    /// `self == other`, as `Bool`.
    eq, Eq;
    /// `self != other`, as `Bool`; true with NaN.
    ne, Ne;
}

impl Tensor {
    fn compare(&self, relation: Relation, other: Operand) -> Result<Tensor> {
        let number = match other {
            Operand::Scalar(number) => number,
            tensor => {
                let (a, b) = pair(relation.name(), self, tensor)?;
                return relation.of(&a, &b);
            }
        };
        if self.dtype().is_float() {
            return self.compare_float(relation, number);
        }
        let integer = match (self.dtype(), number) {
            (DType::Bool, Scalar::Int(_) | Scalar::Float(_)) => self.cast(DType::I32)?,
            _ => self.clone(),
        };
        integer.compare_int(relation, number)
    }

    /// An integer (or boolean) tensor with a number.
    fn compare_int(&self, relation: Relation, number: Scalar) -> Result<Tensor> {
        // Between two integers lies no third: a fraction is compared as one of its neighbours.
        let whole = match number {
            Scalar::Float(x) if x.is_nan() => return self.all_are(relation == Relation::Ne),
            Scalar::Float(x) => match relation {
                Relation::Lt | Relation::Ge => x.ceil() as i128,
                Relation::Le | Relation::Gt => x.floor() as i128,
                _ if x.fract() != 0.0 => return self.all_are(relation == Relation::Ne),
                _ => x as i128,
            },
            Scalar::Int(x) => i128::from(x),
            Scalar::Bool(x) => i128::from(x),
        };
        let (low, high) = scalar::int_limits(self.dtype());
        if whole > high {
            return self.all_are(relation.below());
        }
        if whole < low {
            return self.all_are(relation.above());
        }
        let bits = scalar::from_int(self.dtype(), whole);
        let b = Tensor::full_bits(self.engine(), self.shape(), bits, self.dtype())?;
        relation.of(self, &b)
    }

    /// A float tensor with a number, which is rounded to the type as in arithmetic. One too large for it
    /// lies between the largest number and infinity.
    fn compare_float(&self, relation: Relation, number: Scalar) -> Result<Tensor> {
        let dtype = self.dtype();
        let bits = number.bits(dtype);
        let full = |bits| Tensor::full_bits(self.engine(), self.shape(), bits, dtype);
        let Some(value) = beyond(number, dtype) else {
            return relation.of(self, &full(bits)?);
        };
        let infinity = full(scalar::from_f64(dtype, f64::INFINITY.copysign(value)))?;
        match (relation, value > 0.0) {
            (Relation::Eq, _) => self.all_are(false),
            (Relation::Ne, _) => self.all_are(true),
            // Only the infinity of that side lies beyond; NaN lies nowhere.
            (Relation::Gt | Relation::Ge, true) | (Relation::Lt | Relation::Le, false) => {
                self.binary(Binary::Eq, &infinity)
            }
            _ if dtype == DType::F8E4M3 => self.binary(Binary::Eq, self),
            (_, true) => Relation::Lt.of(self, &infinity),
            (_, false) => Relation::Gt.of(self, &infinity),
        }
    }

    /// One truth value in the shape of the tensor.
    fn all_are(&self, truth: bool) -> Result<Tensor> {
        Tensor::full_bits(self.engine(), self.shape(), u64::from(truth), DType::Bool)
    }

    /// Larger of both; NaN propagates.
    ///
    /// # Errors
    /// Shapes that do not broadcast; a number above what the type holds.
    pub fn maximum(&self, other: impl Into<Operand>) -> Result<Tensor> {
        self.limit("maximum", Binary::Max, other.into())
    }

    /// Smaller of both; NaN propagates.
    ///
    /// # Errors
    /// Shapes that do not broadcast; a number below what the type holds.
    pub fn minimum(&self, other: impl Into<Operand>) -> Result<Tensor> {
        self.limit("minimum", Binary::Min, other.into())
    }

    fn limit(&self, op: &'static str, binary: Binary, other: Operand) -> Result<Tensor> {
        match self.limited(op, binary, other)? {
            Some((a, b)) => a.binary(binary, &b),
            None => Ok(self.clone()),
        }
    }

    /// The same for one side of [`Tensor::clamp`]: an element that is at a number is that number.
    fn bounded(&self, op: &'static str, binary: Binary, other: Operand) -> Result<Tensor> {
        let Operand::Scalar(number) = other else {
            return self.limit(op, binary, other);
        };
        let Some((a, b)) = self.limited(op, binary, other)? else {
            return Ok(self.clone());
        };
        if !a.dtype().is_float() {
            return a.binary(binary, &b);
        }
        let mut beyond = match binary {
            Binary::Max => Relation::Le.of(&a, &b)?,
            _ => Relation::Ge.of(&a, &b)?,
        };
        if matches!(number, Scalar::Float(x) if x.is_nan()) {
            // A limit that is NaN is the result.
            beyond = beyond.bitor(&b.binary(Binary::Ne, &b)?)?;
        }
        beyond.select(&b, &a)
    }

    /// Limited by two tensors, which may leave no room: then each element is at one of them, or is what both are.
    fn between(&self, op: &'static str, low: &Tensor, high: &Tensor) -> Result<Tensor> {
        let (x, low) = pair(op, self, low.into())?;
        let (x, high) = pair(op, &x, high.into())?;
        let (x, low) = pair(op, &x, (&low).into())?;
        let limited = x.binary(Binary::Max, &low)?.binary(Binary::Min, &high)?;
        if !x.dtype().is_float() {
            return Ok(limited);
        }
        let same = Relation::Eq.of(&low, &high)?;
        let below = same.bitand(&Relation::Lt.of(&x, &low)?)?;
        let within = same.bitand(&Relation::Eq.of(&x, &low)?)?;
        let single = below.select(&low, &within.select(&x, &high)?)?;
        // NaN is not limited: it stays in `limited`.
        let single_room = Relation::Ge
            .of(&low, &high)?
            .bitand(&Relation::Eq.of(&x, &x)?)?;
        single_room.select(&single, &limited)
    }

    /// Elements and limits in one shape and type; nothing if no element reaches its limit.
    fn limited(
        &self,
        op: &'static str,
        binary: Binary,
        other: Operand,
    ) -> Result<Option<(Tensor, Tensor)>> {
        let dtype = self.dtype();
        // A limit on the far side of every element, which none reaches.
        let idle = |below: bool| match binary {
            Binary::Max => below,
            _ => !below,
        };
        match other {
            Operand::Scalar(Scalar::Int(x)) if dtype.is_int() => {
                let (low, high) = scalar::int_limits(dtype);
                let x = i128::from(x);
                if x <= low && idle(true) || x >= high && idle(false) {
                    return Ok(None);
                }
            }
            Operand::Scalar(x)
                if dtype.is_float() && beyond(x, dtype).is_some_and(|x| idle(x < 0.0)) =>
            {
                return Ok(None);
            }
            _ => {}
        }
        pair(op, self, other).map(Some)
    }

    /// Limited to `low..=high`; a missing limit does nothing. The gradient is PyTorch's: an element at a limit that is
    /// a number has none, one at a limit that is a tensor shares it with the limit.
    ///
    /// # Errors
    /// Shapes that do not broadcast; a limit that all would become and that does not fit.
    pub fn clamp(&self, low: Option<Operand>, high: Option<Operand>) -> Result<Tensor> {
        self.limits("clamp", low, high)
    }

    /// Limited to `low..=high`, with the gradient of [`Tensor::clamp`].
    ///
    /// # Errors
    /// As [`Tensor::clamp`].
    pub fn clip(&self, low: impl Into<Operand>, high: impl Into<Operand>) -> Result<Tensor> {
        self.limits("clip", Some(low.into()), Some(high.into()))
    }

    fn limits(
        &self,
        op: &'static str,
        low: Option<Operand>,
        high: Option<Operand>,
    ) -> Result<Tensor> {
        if let (Some(Operand::Tensor(low)), Some(Operand::Tensor(high))) = (&low, &high) {
            return self.between(op, low, high);
        }
        let x = match low {
            Some(low) => self.bounded(op, Binary::Max, low)?,
            None => self.clone(),
        };
        match high {
            Some(high) => x.bounded(op, Binary::Min, high),
            None => Ok(x),
        }
    }
}

/// The value of a number that is larger than every number of a float type, without being one of its values.
fn beyond(number: Scalar, dtype: DType) -> Option<f64> {
    let value = match number {
        Scalar::Float(x) => x,
        Scalar::Int(x) => x as f64,
        Scalar::Bool(x) => f64::from(u8::from(x)),
    };
    let held = scalar::to_f64(dtype, number.bits(dtype));
    (!value.is_nan() && !held.is_finite() && held != value).then_some(value)
}
