//! Points of the plane: their angle and their distance from the origin.

use std::f64::consts::{FRAC_PI_2, PI};

use codegen::DType;

use super::float_pair;
use crate::Operand;
use crate::error::Result;
use crate::graph::{Slope, Tensor};

/// π and π/2, with what rounding them to the type loses.
fn turn(dtype: DType, exact: f64) -> [f64; 2] {
    // The rest of π beyond an `f64` is 1.2246467991473532e-16, and half of it that of π/2.
    const REST: f64 = 1.224_646_799_147_353_2e-16;
    match dtype {
        DType::F64 => [exact, REST * exact / PI],
        _ => {
            let near = f64::from(exact as f32);
            [near, exact - near]
        }
    }
}

impl Tensor {
    /// Whether the sign bit is set, also that of -0, as `Bool`.
    fn is_minus(&self) -> Result<Tensor> {
        // 1 / -0 is minus infinity; 1 / minus infinity is -0, which the first comparison takes.
        self.lt(0)?.bitor(&self.reciprocal()?.lt(0)?)
    }

    /// Both in one shape and as floats of at least `f32`, and the type of the result.
    fn points(&self, op: &'static str, other: Operand) -> Result<(Tensor, Tensor, DType)> {
        let (a, b) = float_pair(op, self, other)?;
        let dtype = a.dtype();
        let wide = dtype.accumulator();
        Ok((a.cast(wide)?, b.cast(wide)?, dtype))
    }

    /// The angle of the points `(x, self)` in radians, from -π to π, with the signs of zeros as C's `atan2`. Its gradient
    /// is 0 at the origin.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn atan2(&self, x: impl Into<Operand>) -> Result<Tensor> {
        let (y, x, dtype) = self.points("atan2", x.into())?;
        let (below, left) = (y.is_minus()?, x.is_minus()?);
        let size = |t: &Tensor, minus: &Tensor| minus.select(&t.neg()?, t);
        let (height, width) = (size(&y, &below)?, size(&x, &left)?);
        let steep = width.lt(&height)?;
        let top = steep.select(&width, &height)?;
        let bottom = steep.select(&height, &width)?;
        // The quotient is at most 1. That of two zeros is 0, and that of two infinities 1.
        let both = |x: f64| top.eq(x)?.bitand(&bottom.eq(x)?);
        let (origin, endless) = (both(0.0)?, both(f64::INFINITY)?);
        let bottom = origin.bitor(&endless)?.where_(1.0, &bottom)?;
        let top = origin.where_(0.0, &endless.where_(1.0, &top)?)?;
        let angle = top.div(&bottom)?.atan()?;
        let from = |turn: [f64; 2], angle: &Tensor| angle.neg()?.add(turn[1])?.add(turn[0]);
        let wide = y.dtype();
        let angle = steep.select(&from(turn(wide, FRAC_PI_2), &angle)?, &angle)?;
        let angle = left.select(&from(turn(wide, PI), &angle)?, &angle)?;
        below.select(&angle.neg()?, &angle)?.cast(dtype)
    }

    /// The distance of the points `(self, other)` from the origin, `sqrt(a^2 + b^2)`, without overflow on the way. It is
    /// infinite where one of them is. Its gradient is `self / length` and
    /// `other / length`, and 0 at the origin and at infinite lengths.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn hypot(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let (a, b, dtype) = self.points("hypot", other.into())?;
        // The way over the quotient has numbers in the size of the length times the gradient, which may be none.
        let (near, far) = (a.detach()?.abs()?, b.detach()?.abs()?);
        let flat = near.lt(&far)?;
        let (long, short) = (flat.select(&far, &near)?, flat.select(&near, &far)?);
        let endless = long.eq(f64::INFINITY)?.bitor(&short.eq(f64::INFINITY)?)?;
        let origin = long.eq(0)?.bitand(&short.eq(0)?)?;
        let single = endless.bitor(&origin)?;
        let quotient = single
            .where_(0.0, &short)?
            .div(&single.where_(1.0, &long)?)?;
        let y = quotient
            .square()?
            .add(1)?
            .sqrt()?
            .mul(&endless.where_(1.0, &long)?)?;
        let y = endless.where_(f64::INFINITY, &y)?;
        y.sloped(Slope::Hypot, &[&a, &b]).cast(dtype)
    }
}
