//! Reductions and scans. Axes given as none mean all; `keep` leaves reduced axes with size 1.
//!
//! Sums, products and running ones accumulate in [`DType::accumulator`] (`f32` for narrower floats) and give
//! [`DType::sum_type`]: the type of floats, `i64` of booleans and integers (`u64` of `u64`); [`Tensor::sum_in`]
//! gives another one. Over no elements they return the identity of the operation. However long they are, sums of
//! `f32` are right to about 1e-6 of the sum of the sizes of their terms, and products to 1e-6 of themselves: those
//! of more than a few floats accumulate in `f64`. Devices without `f64` multiply in `f32`, whose error grows with the root
//! of the number of factors, and means and variances of integers have the digits of `f32` there.

use std::f64::consts::LOG2_E;

use codegen::DType;
use codegen::ir::ReduceOp;

use super::{axes, axis, dtype_error, shape_error};
use crate::doubles::widest;
use crate::error::Result;
use crate::graph::{Shape, Tensor};

impl Tensor {
    /// Removes reduced axes.
    fn dropped(&self, along: &[usize], keep: bool) -> Result<Tensor> {
        if keep {
            return Ok(self.clone());
        }
        let shape: Shape = (0..self.rank())
            .filter(|i| !along.contains(i))
            .map(|i| self.shape()[i])
            .collect();
        self.reshape(&shape)
    }

    /// A reduction in the accumulator type, rounded back to the type of a sum.
    fn widened(&self, op: ReduceOp, along: &[usize], keep: bool) -> Result<Tensor> {
        let result = self.dtype().sum_type();
        self.cast(self.carrier(op, result, along))?
            .reduce(op, along)?
            .dropped(along, keep)?
            .cast(result)
    }

    /// Sum over axes; booleans and integers give `I64` (`U64` of `U64`), see [`Tensor::sum_in`].
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn sum(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        self.widened(ReduceOp::Add, &axes("sum", along, self.rank())?, keep)
    }

    /// Product over axes, in the type of [`Tensor::sum`].
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn prod(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        self.widened(ReduceOp::Mul, &axes("prod", along, self.rank())?, keep)
    }

    /// Largest element over axes; NaN propagates. The gradient is split evenly among equals.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn max(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        let along = axes("max", along, self.rank())?;
        self.reduce(ReduceOp::Max, &along)?.dropped(&along, keep)
    }

    /// Smallest element over axes; NaN propagates. The gradient is split evenly among equals.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn min(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        let along = axes("min", along, self.rank())?;
        self.reduce(ReduceOp::Min, &along)?.dropped(&along, keep)
    }

    /// Whether any element over axes is not 0, as `Bool`.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn any(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        let along = axes("any", along, self.rank())?;
        self.cast(DType::Bool)?
            .reduce(ReduceOp::Or, &along)?
            .dropped(&along, keep)
    }

    /// Whether all elements over axes are not 0, as `Bool`.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn all(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        let along = axes("all", along, self.rank())?;
        self.cast(DType::Bool)?
            .reduce(ReduceOp::And, &along)?
            .dropped(&along, keep)
    }

    /// Number of elements that a reduction over `along` combines.
    fn count(&self, along: &[usize]) -> f64 {
        along.iter().map(|&i| self.shape()[i] as f64).product()
    }

    /// The type in which the elements along axes are added up or multiplied. An error of each factor counts once for each
    /// step: `f32` has no digits for many.
    fn carrier(&self, op: ReduceOp, dtype: DType, along: &[usize]) -> DType {
        let many = op == ReduceOp::Mul && self.count(along) > 16.0;
        match dtype.is_float() && many {
            true => widest(self.engine()).promote(dtype.accumulator()),
            false => dtype.accumulator(),
        }
    }

    /// As [`Tensor::in_f32`], but what has more digits than `f32` is computed in `f64` where there is one, and its result
    /// rounded to `f32`.
    fn in_float(&self, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        if self.dtype().is_int() && self.dtype().size() >= 4 {
            return f(&self.cast(widest(self.engine()))?)?.cast(DType::F32);
        }
        self.in_f32(f)
    }

    /// Mean over axes, as a float (`f32` of integers, of which all digits count); NaN over nothing.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn mean(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        let found = axes("mean", along, self.rank())?;
        let n = self.count(&found);
        self.in_float(|x| {
            x.reduce(ReduceOp::Add, &found)?
                .dropped(&found, keep)?
                .div(n)
        })
    }

    /// [`Tensor::sum`] of the elements that are not NaN.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn nansum(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        self.isnan()?.where_(0, self)?.sum(along, keep)
    }

    /// [`Tensor::mean`] of the elements that are not NaN; NaN if there are none.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn nanmean(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        self.in_float(|x| {
            let nan = x.isnan()?;
            let count = nan.logical_not()?.cast(x.dtype())?.sum(along, keep)?;
            nan.where_(0, x)?.sum(along, keep)?.div(&count)
        })
    }

    /// Variance over axes, divided by `n - correction` (1 for the unbiased estimate).
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn var(&self, along: &[isize], correction: f64, keep: bool) -> Result<Tensor> {
        let found = axes("var", along, self.rank())?;
        let n = self.count(&found);
        self.in_float(|x| {
            let d = x.sub(&x.reduce(ReduceOp::Add, &found)?.div(n)?)?;
            d.square()?
                .reduce(ReduceOp::Add, &found)?
                .dropped(&found, keep)?
                .div((n - correction).max(0.0))
        })
    }

    /// Standard deviation over axes, see [`Tensor::var`].
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn std(&self, along: &[isize], correction: f64, keep: bool) -> Result<Tensor> {
        self.in_float(|x| x.var(along, correction, keep)?.root(0.5))
    }

    /// Variance and mean over axes.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn var_mean(
        &self,
        along: &[isize],
        correction: f64,
        keep: bool,
    ) -> Result<(Tensor, Tensor)> {
        Ok((self.var(along, correction, keep)?, self.mean(along, keep)?))
    }

    /// Standard deviation and mean over axes.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn std_mean(
        &self,
        along: &[isize],
        correction: f64,
        keep: bool,
    ) -> Result<(Tensor, Tensor)> {
        Ok((self.std(along, correction, keep)?, self.mean(along, keep)?))
    }

    /// The `p`-norm over axes: the `p`-th root of the sum of `|x|^p`; p may be infinite, and 0 counts
    /// elements that are not 0. Where it is 0, so is its gradient.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn norm(&self, p: f64, along: &[isize], keep: bool) -> Result<Tensor> {
        let x = self.to_float()?;
        if p == f64::INFINITY {
            return x.abs()?.max(along, keep);
        }
        if p == f64::NEG_INFINITY {
            return x.abs()?.min(along, keep);
        }
        x.in_f32(|x| match p {
            0.0 => x.ne(0)?.cast(x.dtype())?.sum(along, keep),
            1.0 => x.abs()?.sum(along, keep),
            2.0 => x.square()?.sum(along, keep)?.root(0.5),
            // Steep at 0, where the slope of the absolute value is 0.
            _ if p > 0.0 && p < 1.0 => x.abs()?.root(p)?.sum(along, keep)?.pow(1.0 / p),
            _ => x.abs()?.pow(p)?.sum(along, keep)?.root(1.0 / p),
        })
    }

    /// `x^p` of numbers that are not negative, whose gradient at 0 is 0 where the slope is infinite.
    fn root(&self, p: f64) -> Result<Tensor> {
        let zero = self.eq(0)?;
        let safe = zero.select(&self.ones_like()?, self)?;
        let root = match p {
            0.5 => safe.sqrt()?,
            _ => safe.pow(p)?,
        };
        zero.select(&self.full_like(0f64.powf(p))?, &root)
    }

    /// Divided by the `p`-norm along an axis, or by `eps` if that is larger.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn normalize(&self, p: f64, along: isize, eps: f64) -> Result<Tensor> {
        let x = self.to_float()?;
        let norm = x.norm(p, &[along], true)?;
        x.div(&norm.clamp(Some(eps.into()), None)?)
    }

    /// The largest element over axes without gradient, 0 where it is infinite: what is subtracted
    /// before `exp`.
    fn pivot(&self, along: &[usize]) -> Result<Tensor> {
        let m = self.reduce(ReduceOp::Max, along)?.detach()?;
        m.isinf()?.select(&m.zeros_like()?, &m)
    }

    /// e^x for x <= 0 beside others of which the largest is 1: what rounding the exponent loses is below
    /// the last digit of their sum, and as much as the difference that is x has lost already.
    fn share(&self) -> Result<Tensor> {
        self.mul(LOG2_E)?.exp2()
    }

    /// ln of the sum of e^x over axes, without overflow.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn logsumexp(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        let found = axes("logsumexp", along, self.rank())?;
        self.in_f32(|x| {
            let m = x.pivot(&found)?;
            let sum = x.sub(&m)?.share()?.reduce(ReduceOp::Add, &found)?;
            sum.log()?.add(&m)?.dropped(&found, keep)
        })
    }

    /// e^x divided by its sum along an axis.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn softmax(&self, along: isize) -> Result<Tensor> {
        let at = [axis("softmax", along, self.rank())?];
        self.in_f32(|x| {
            let e = x.sub(&x.reduce(ReduceOp::Max, &at)?.detach()?)?.share()?;
            // One division per row; a product per element.
            e.mul(&e.reduce(ReduceOp::Add, &at)?.reciprocal()?)
        })
    }

    /// Softmax of the negated tensor.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn softmin(&self, along: isize) -> Result<Tensor> {
        self.to_float()?.neg()?.softmax(along)
    }

    /// ln softmax, without the loss of small probabilities.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn log_softmax(&self, along: isize) -> Result<Tensor> {
        let at = [axis("log_softmax", along, self.rank())?];
        self.in_f32(|x| {
            let d = x.sub(&x.reduce(ReduceOp::Max, &at)?.detach()?)?;
            d.sub(&d.share()?.reduce(ReduceOp::Add, &at)?.log()?)
        })
    }

    /// 1 at the first largest element along an axis, 0 elsewhere.
    ///
    /// # Errors
    /// An axis that the tensor lacks, or that is empty.
    pub fn hardmax(&self, along: isize) -> Result<Tensor> {
        let first = self.argmax(along, true)?;
        self.positions(along)?.eq(&first)?.cast(self.dtype())
    }

    /// Number of elements that are not 0 over axes, as `I64`.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn count_nonzero(&self, along: &[isize], keep: bool) -> Result<Tensor> {
        self.cast(DType::Bool)?.sum(along, keep)
    }

    /// Position of the first element that equals the extremum, or of the first NaN, as `I32`.
    fn first_of(
        &self,
        name: &'static str,
        op: ReduceOp,
        along: isize,
        keep: bool,
    ) -> Result<Tensor> {
        let at = axis(name, along, self.rank())?;
        let n = self.shape()[at];
        if n == 0 {
            return shape_error(name, format!("axis {at} of {:?} is empty", self.shape()));
        }
        let x = self.detach()?;
        let found = x.eq(&x.reduce(op, &[at])?)?.bitor(&x.isnan()?)?;
        // The earlier, the larger: the maximum is the first.
        let weight = x.positions(along)?.neg()?.add(n as i64)?;
        let best = found
            .select(&weight, &weight.zeros_like()?)?
            .reduce(ReduceOp::Max, &[at])?;
        best.neg()?.add(n as i64)?.dropped(&[at], keep)
    }

    /// Position of the first largest element along an axis, as `I32`; NaN counts as largest.
    ///
    /// # Errors
    /// An axis that the tensor lacks, or that is empty.
    pub fn argmax(&self, along: isize, keep: bool) -> Result<Tensor> {
        self.first_of("argmax", ReduceOp::Max, along, keep)
    }

    /// Position of the first smallest element along an axis, as `I32`; NaN counts as smallest.
    ///
    /// # Errors
    /// An axis that the tensor lacks, or that is empty.
    pub fn argmin(&self, along: isize, keep: bool) -> Result<Tensor> {
        self.first_of("argmin", ReduceOp::Min, along, keep)
    }

    /// Running sum along an axis, in the type of [`Tensor::sum`].
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn cumsum(&self, along: isize) -> Result<Tensor> {
        let at = axis("cumsum", along, self.rank())?;
        self.running(ReduceOp::Add, at, self.dtype().sum_type())
    }

    /// Running product along an axis, in the type of [`Tensor::sum`]. Its gradient takes as many passes over the
    /// axis as the number of its elements has bits.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn cumprod(&self, along: isize) -> Result<Tensor> {
        let at = axis("cumprod", along, self.rank())?;
        self.running(ReduceOp::Mul, at, self.dtype().sum_type())
    }

    /// A running sum or product along an axis in the accumulator type, rounded to a type.
    pub(crate) fn running(&self, op: ReduceOp, at: usize, result: DType) -> Result<Tensor> {
        self.cast(self.carrier(op, result, &[at]))?
            .scan(op, at)?
            .cast(result)
    }

    /// Running maximum along an axis. The gradient goes to the latest of equals.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn cummax(&self, along: isize) -> Result<Tensor> {
        self.scan(ReduceOp::Max, axis("cummax", along, self.rank())?)
    }

    /// Running minimum along an axis. The gradient goes to the latest of equals.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn cummin(&self, along: isize) -> Result<Tensor> {
        self.scan(ReduceOp::Min, axis("cummin", along, self.rank())?)
    }

    /// ln of the running sum of e^x along an axis, without overflow.
    ///
    /// # Errors
    /// An axis that the tensor lacks; more than 2^15 elements along it, because every pair is computed.
    pub fn logcumsumexp(&self, along: isize) -> Result<Tensor> {
        let at = axis("logcumsumexp", along, self.rank())?;
        let n = self.shape()[at];
        if n > 1 << 15 {
            return shape_error(
                "logcumsumexp",
                format!("axis {at} has {n} elements, at most 32768"),
            );
        }
        // Row i of a square holds the elements up to i, and is reduced by itself.
        self.in_f32(|x| {
            let x = x.move_axis(at as isize, -1)?;
            let mut square = x.shape().to_vec();
            square.push(n);
            let x = x.unsqueeze(-2)?.expand(&square)?;
            let later = x.positions(-1)?.gt(&x.positions(-2)?)?;
            x.masked_fill(&later, f64::NEG_INFINITY)?
                .logsumexp(&[-1], false)?
                .move_axis(-1, at as isize)
        })
    }

    /// Sum over axes in a chosen type: elements are cast first, and the sum stays in it.
    ///
    /// # Errors
    /// Axes that the tensor lacks; `Bool`.
    pub fn sum_in(&self, dtype: DType, along: &[isize], keep: bool) -> Result<Tensor> {
        if dtype == DType::Bool {
            return dtype_error(
                "sum_in",
                "bool cannot be summed; use any, or cast to an integer".into(),
            );
        }
        let along = axes("sum_in", along, self.rank())?;
        self.cast(dtype)?
            .cast(dtype.accumulator())?
            .reduce(ReduceOp::Add, &along)?
            .dropped(&along, keep)?
            .cast(dtype)
    }
}
