//! Numbers with an exponent of their own: products of many do not leave what the type holds.

use codegen::DType;

use crate::error::Result;
use crate::graph::Tensor;

/// Beyond, an exponent says no more than that the number is 0 or infinite. Two of them still have a sum.
const MOST: i64 = 1 << 29;

/// `mantissa * 2^exponent`: an `f32` or `f64`, 1 to 2 or 0, and an `I32`.
#[derive(Clone)]
pub(super) struct Scaled {
    mantissa: Tensor,
    exponent: Tensor,
}

impl Scaled {
    /// The numbers of a tensor.
    pub(super) fn new(x: &Tensor) -> Result<Scaled> {
        let exponent = Tensor::zeros(x.engine(), x.shape(), DType::I32)?;
        Scaled {
            mantissa: x.clone(),
            exponent,
        }
        .normal()
    }

    /// The numbers as the type has them.
    pub(super) fn value(&self) -> Result<Tensor> {
        scaled(&self.mantissa, &self.exponent)
    }

    /// How many there are along an axis.
    pub(super) fn len(&self, axis: usize) -> usize {
        self.mantissa.shape()[axis]
    }

    /// `f` of the parts.
    pub(super) fn each(&self, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Scaled> {
        Ok(Scaled {
            mantissa: f(&self.mantissa)?,
            exponent: f(&self.exponent)?,
        })
    }

    /// One after the other along an axis.
    pub(super) fn cat(&self, other: &Scaled, along: isize) -> Result<Scaled> {
        Ok(Scaled {
            mantissa: Tensor::cat(&[&self.mantissa, &other.mantissa], along)?,
            exponent: Tensor::cat(&[&self.exponent, &other.exponent], along)?,
        })
    }

    /// The products.
    pub(super) fn mul(&self, other: &Scaled) -> Result<Scaled> {
        Scaled {
            mantissa: self.mantissa.mul(&other.mantissa)?,
            exponent: self.exponent.add(&other.exponent)?,
        }
        .normal()
    }

    /// The sums.
    pub(super) fn add(&self, other: &Scaled) -> Result<Scaled> {
        // The exponent of a zero counts only where both are.
        let lower = self.exponent.minimum(&other.exponent)?;
        let counted = |x: &Scaled| x.mantissa.eq(0)?.where_(&lower, &x.exponent);
        let exponent = counted(self)?.maximum(&counted(other)?)?;
        let part = |x: &Scaled| scaled(&x.mantissa, &x.exponent.sub(&exponent)?);
        Scaled {
            mantissa: part(self)?.add(&part(other)?)?,
            exponent: exponent.clone(),
        }
        .normal()
    }

    /// With mantissas from 1 to 2; zeros stay.
    fn normal(self) -> Result<Scaled> {
        let bits = match self.mantissa.dtype() {
            DType::F64 => DType::I64,
            _ => DType::I32,
        };
        let (digits, bias) = format(self.mantissa.dtype());
        // What is below the normal numbers has the exponent of the smallest one.
        let field = self.mantissa.bitcast(bits)?.shr(digits)?;
        let field = field.bitand(2 * bias + 1)?.cast(DType::I32)?;
        let own = field.maximum(1)?.sub(bias)?;
        let own = self.mantissa.eq(0)?.where_(0, &own)?;
        Ok(Scaled {
            mantissa: scaled(&self.mantissa, &own.neg()?)?,
            exponent: self.exponent.add(&own)?.clip(-MOST, MOST)?,
        })
    }
}

/// Digits after the point, and what is added to exponents.
fn format(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::F64 => (52, 1023),
        _ => (23, 127),
    }
}

/// `x 2^exponent`, in two factors, because one may be no number.
fn scaled(x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let (digits, bias) = format(x.dtype());
    let bits = match x.dtype() {
        DType::F64 => DType::I64,
        _ => DType::I32,
    };
    let power = |n: &Tensor| {
        let field = n.cast(bits)?.add(bias)?;
        field.shl(digits)?.bitcast(x.dtype())
    };
    let exponent = exponent.clip(-2 * bias + 2, 2 * bias)?;
    let half = exponent.shr(1)?;
    x.mul(&power(&half)?)?.mul(&power(&exponent.sub(&half)?)?)
}
