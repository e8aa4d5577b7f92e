//! Sorting. An element's place is the number of elements that come before it.
//!
//! Counting them takes n^2 comparisons for an axis of n elements, all in one parallel kernel and without n^2
//! memory; for the axes of networks that is cheaper than several passes. Longer axes use a radix sort in linear
//! time, see `radix`. The top few of a long axis are found in parts. Equal elements keep their order; NaN sorts as
//! larger than everything.

use codegen::DType;
use codegen::ir::ReduceOp;

use super::{axis, radix, shape_error};
use crate::error::Result;
use crate::graph::{ScatterMode, Tensor};

/// Elements of an axis that are always counted.
const SHORT: usize = 384;
/// Comparisons, of all elements with their axis, beyond which passes over the digits are faster.
const MANY: usize = 1 << 23;
/// Elements of a part of which the best are taken.
const PART: usize = 128;

impl Tensor {
    /// Whether the elements of an axis are compared with each other.
    fn counts(&self, at: usize) -> bool {
        let n = self.shape()[at];
        n <= SHORT || self.numel().saturating_mul(n) <= MANY
    }

    /// The place of each element in the sorted order along an axis, as `I32`.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn ranks(&self, along: isize, descending: bool) -> Result<Tensor> {
        let at = axis("ranks", along, self.rank())?;
        if !self.counts(at) {
            return inverse(&self.argsort(along, descending)?, at, ScatterMode::Distinct);
        }
        let mut x = self.detach()?.move_axis(at as isize, -1)?;
        if x.dtype().is_float() {
            // By their bits: a processor may take numbers below the normal ones for zeros.
            x = radix::keys(&x, false)?;
        }
        let mut square = x.shape().to_vec();
        square.push(x.shape()[x.rank() - 1]);
        let this = x.unsqueeze(-1)?.expand(&square)?;
        let other = x.unsqueeze(-2)?.expand(&square)?;
        let (low, high) = if descending {
            (&this, &other)
        } else {
            (&other, &this)
        };
        let (before, equal) = (low.lt(high)?, this.eq(&other)?);
        let earlier = other.positions(-1)?.lt(&other.positions(-2)?)?;
        let last = square.len() - 1;
        before
            .bitor(&equal.bitand(&earlier)?)?
            .cast(DType::I32)?
            .reduce(ReduceOp::Add, &[last])?
            .reshape(x.shape())?
            .move_axis(-1, at as isize)
    }

    /// The positions that sort an axis, as `I32`. Stable.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn argsort(&self, along: isize, descending: bool) -> Result<Tensor> {
        let at = axis("argsort", along, self.rank())?;
        if self.counts(at) {
            return inverse(&self.ranks(along, descending)?, at, ScatterMode::Set);
        }
        let x = self.move_axis(along, -1)?;
        let n = self.shape()[at];
        radix::argsort(&x.reshape(&[self.numel() / n, n])?, descending)?
            .reshape(x.shape())?
            .move_axis(-1, along)
    }

    /// The sorted elements along an axis, and the positions they came from (`I32`). Stable.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn sort(&self, along: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let order = self.argsort(along, descending)?;
        let at = axis("sort", along, self.rank())?;
        Ok((self.pick(at, &order)?, order))
    }

    /// The `k` largest (or smallest) elements along an axis, best first, and their positions
    /// (`I32`).
    ///
    /// # Errors
    /// More elements than the axis has.
    pub fn topk(&self, k: usize, along: isize, largest: bool) -> Result<(Tensor, Tensor)> {
        let at = axis("topk", along, self.rank())?;
        if k > self.shape()[at] {
            return shape_error(
                "topk",
                format!("k is {k}, axis {at} has {} elements", self.shape()[at]),
            );
        }
        let order = self.top_positions(k, at, largest)?;
        Ok((self.pick(at, &order)?, order))
    }

    /// The positions of [`Tensor::topk`]. The best of a long axis are among the best of its parts,
    /// which takes far fewer comparisons if there are few; parts and what is kept of them are in
    /// order, so equal elements stay in theirs.
    fn top_positions(&self, k: usize, at: usize, largest: bool) -> Result<Tensor> {
        let (axis, len) = (at as isize, self.shape()[at]);
        let part = (4 * k).max(PART);
        if self.counts(at) || part > 4 * PART || len < 2 * part {
            return self.argsort(axis, largest)?.narrow(axis, 0, k);
        }
        let (parts, rest) = (len / part, len % part);
        let split = self
            .narrow(axis, 0, parts * part)?
            .unflatten(axis, &[parts as isize, part as isize])?;
        let order = split.argsort(axis + 1, largest)?.narrow(axis + 1, 0, k)?;
        let mut first = vec![1; split.rank()];
        first[at] = parts;
        let first = Tensor::iota(self.engine(), parts, DType::I32)?
            .mul(part as i32)?
            .reshape(&first)?;
        let mut found = order.add(&first)?.flatten(axis, axis + 1)?;
        if rest > 0 {
            let tail = self.narrow(axis, parts * part, rest)?;
            let order = tail.top_positions(k.min(rest), at, largest)?;
            found = Tensor::cat(&[&found, &order.add((parts * part) as i32)?], axis)?;
        }
        let found = found.contiguous()?;
        let best = self.pick(at, &found)?.contiguous()?;
        let order = best.top_positions(k, at, largest)?;
        found.pick(at, &order)
    }

    /// The median over an axis and its position (`I32`): of two in the middle the smaller one. NaN, if one is there.
    ///
    /// # Errors
    /// An axis that the tensor lacks, or without elements.
    pub fn median(&self, along: isize, keep: bool) -> Result<(Tensor, Tensor)> {
        let at = axis("median", along, self.rank())?;
        let n = self.shape()[at];
        if n == 0 {
            let what = format!("axis {at} of {:?} is empty and has no median", self.shape());
            return shape_error("median", what);
        }
        let order = self.argsort(along, false)?;
        // NaN comes last.
        let last = self.isnan()?.sum_in(DType::I32, &[along], true)?;
        let place = last
            .eq(0)?
            .where_(((n - 1) / 2) as i64, &last.neg()?.add(n as i64)?)?;
        let position = order.pick(at, &place.cast(DType::I32)?)?;
        let value = self.pick(at, &position)?;
        match keep {
            true => Ok((value, position)),
            false => Ok((value.squeeze(&[along])?, position.squeeze(&[along])?)),
        }
    }

    /// For each value the number of elements of this ascending vector that are smaller (or not
    /// larger, if `right`), as `I32`: where it would be inserted. NaN comes after all numbers.
    ///
    /// # Errors
    /// Not one axis; more than `i32` counts.
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        if self.rank() != 1 {
            return shape_error(
                "searchsorted",
                format!("expected a vector, found {:?}", self.shape()),
            );
        }
        let n = self.numel();
        if i32::try_from(n).is_err() {
            return shape_error(
                "searchsorted",
                format!("{n} elements, but positions are i32: at most {}", i32::MAX),
            );
        }
        if n.saturating_mul(values.numel()) > MANY {
            return self.searched(values, right);
        }
        let values = values.unsqueeze(-1)?;
        self.come_before(&values, right)?
            .sum_in(DType::I32, &[-1], false)
    }

    /// Whether elements are smaller than values, or not larger: NaN comes after all numbers, as in [`Tensor::sort`].
    fn come_before(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        let before = match right {
            true => values.ge(self)?,
            false => values.gt(self)?,
        };
        if !values.dtype().is_float() {
            return Ok(before);
        }
        let last = match right {
            true => values.isnan()?,
            false => values.isnan()?.bitand(&self.isnan()?.logical_not()?)?,
        };
        before.bitor(&last)
    }

    /// [`Tensor::searchsorted`] by halves.
    fn searched(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        let n = self.numel();
        let dtype = self.dtype().promote(values.dtype());
        let (sorted, values) = (self.cast(dtype)?, values.cast(dtype)?.contiguous()?);
        let mut found = Tensor::zeros(self.engine(), values.shape(), DType::I32)?;
        // Positions stay within their type: the steps together are less than twice the first.
        let mut step = n.checked_ilog2().map_or(0, |bits| 1 << bits);
        while step > 0 {
            // Whether the next `step` elements come before the value: then so does the last of them.
            let last = found.add(step as i64 - 1)?;
            let inside = last.lt(n as i64)?;
            let element = sorted.rows(0, &inside.select(&last, &last.zeros_like()?)?)?;
            let before = element.come_before(&values, right)?;
            let taken = before.bitand(&inside)?.cast(DType::I32)?.mul(step as i64)?;
            found = found.add(&taken)?.contiguous()?;
            step /= 2;
        }
        Ok(found)
    }
}

/// The inverse of permutations along an axis.
fn inverse(places: &Tensor, at: usize, mode: ScatterMode) -> Result<Tensor> {
    let positions = places.positions(at as isize)?;
    positions.zeros_like()?.put(at, places, &positions, mode)
}
