//! Operations that move elements without computing.

use super::{axes, axis, check_size, shape_error};
use crate::element::Scalar;
use crate::error::Result;
use crate::graph::{Shape, Tensor};

/// The elements beyond the edges in [`Tensor::pad`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PadMode {
    /// One number.
    Constant(Scalar),
    /// The elements mirrored at the edge element, which is not repeated.
    Reflect,
    /// The edge element.
    Replicate,
    /// The elements from the other side.
    Circular,
}

/// A part of an axis: `start..stop` by `step`; negative positions count from the end, positions out
/// of range are clamped, a negative step goes backwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The first position; none is the first in the direction of the step.
    pub start: Option<isize>,
    /// Behind the last position; none is behind the last in the direction of the step.
    pub stop: Option<isize>,
    /// Distance of the positions taken; not 0.
    pub step: isize,
}

impl Slice {
    /// The whole axis.
    pub const ALL: Slice = Slice {
        start: None,
        stop: None,
        step: 1,
    };

    /// `start..stop` by 1.
    pub fn range(start: isize, stop: isize) -> Slice {
        Slice {
            start: Some(start),
            stop: Some(stop),
            step: 1,
        }
    }

    /// First position, number of positions. The step is not 0.
    fn resolve(self, len: usize) -> (usize, usize) {
        let n = len as i128;
        let (low, high) = if self.step > 0 { (0, n) } else { (-1, n - 1) };
        let place = |p: isize| {
            let p = p as i128;
            (if p < 0 { p + n } else { p }).clamp(low, high)
        };
        let (first, last) = if self.step > 0 {
            (low, high)
        } else {
            (high, low)
        };
        let start = self.start.map_or(first, place);
        let stop = self.stop.map_or(last, place);
        let step = self.step as i128;
        let count = ((stop - start) * step.signum() + step.abs() - 1).max(0) / step.abs();
        (start.max(0) as usize, count as usize)
    }
}

impl From<std::ops::Range<isize>> for Slice {
    fn from(range: std::ops::Range<isize>) -> Slice {
        Slice::range(range.start, range.end)
    }
}

impl Tensor {
    /// [`Tensor::reshape`] where one size may be -1, which is found from the others.
    ///
    /// # Errors
    /// More than one -1, other negative sizes, or another number of elements.
    pub fn view(&self, shape: &[isize]) -> Result<Tensor> {
        let known: usize = shape
            .iter()
            .filter(|&&n| n >= 0)
            .fold(1, |product, &n| product.saturating_mul(n as usize));
        let free = shape.iter().filter(|&&n| n < 0).count();
        let bad = shape.iter().any(|&n| n < -1) || free > 1;
        if bad || free == 1 && (known == 0 || !self.numel().is_multiple_of(known)) {
            return shape_error(
                "view",
                format!("{:?} does not divide into {shape:?}", self.shape()),
            );
        }
        let sizes: Shape = shape
            .iter()
            .map(|&n| {
                if n < 0 {
                    self.numel() / known
                } else {
                    n as usize
                }
            })
            .collect();
        self.reshape(&sizes)
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let a = axis("transpose", a, self.rank())?;
        let b = axis("transpose", b, self.rank())?;
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.permute(&order)
    }

    /// The last two axes exchanged.
    ///
    /// # Errors
    /// Fewer than two axes.
    pub fn t(&self) -> Result<Tensor> {
        self.transpose(-2, -1)
    }

    /// An axis moved to another place; the others keep their order.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn move_axis(&self, from: isize, to: isize) -> Result<Tensor> {
        let from = axis("move_axis", from, self.rank())?;
        let to = axis("move_axis", to, self.rank())?;
        let mut order: Vec<usize> = (0..self.rank()).filter(|&a| a != from).collect();
        order.insert(to, from);
        self.permute(&order)
    }

    /// The axes reversed; none given means all.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn flip(&self, along: &[isize]) -> Result<Tensor> {
        self.reverse(&axes("flip", along, self.rank())?)
    }

    /// Axes of size 1 removed; none given means all of them. Named axes of other sizes stay.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn squeeze(&self, along: &[isize]) -> Result<Tensor> {
        let along = axes("squeeze", along, self.rank())?;
        let shape: Shape = self
            .shape()
            .iter()
            .enumerate()
            .filter(|(i, len)| **len != 1 || !along.contains(i))
            .map(|(_, &len)| len)
            .collect();
        self.reshape(&shape)
    }

    /// A new axis of size 1 that becomes axis `at` of the result.
    ///
    /// # Errors
    /// A place beyond the end.
    pub fn unsqueeze(&self, at: isize) -> Result<Tensor> {
        let at = axis("unsqueeze", at, self.rank() + 1)?;
        let mut shape = self.shape().to_vec();
        shape.insert(at, 1);
        self.reshape(&shape)
    }

    /// Axes `first..=last` as one.
    ///
    /// # Errors
    /// Axes that the tensor lacks, or in the wrong order.
    pub fn flatten(&self, first: isize, last: isize) -> Result<Tensor> {
        if self.rank() == 0 {
            return self.reshape(&[1]);
        }
        let first = axis("flatten", first, self.rank())?;
        let last = axis("flatten", last, self.rank())?;
        if first > last {
            return shape_error("flatten", format!("axis {first} comes after axis {last}"));
        }
        let mut shape = self.shape()[..first].to_vec();
        shape.push(self.shape()[first..=last].iter().product());
        shape.extend_from_slice(&self.shape()[last + 1..]);
        self.reshape(&shape)
    }

    /// One axis split into several, one of which may be -1.
    ///
    /// # Errors
    /// An axis that the tensor lacks; sizes that do not multiply to its size.
    pub fn unflatten(&self, along: isize, sizes: &[isize]) -> Result<Tensor> {
        let along = axis("unflatten", along, self.rank())?;
        let len = self.shape()[along];
        let known = sizes
            .iter()
            .filter(|&&n| n >= 0)
            .fold(1, |product: usize, &n| product.saturating_mul(n as usize));
        let mut shape = self.shape()[..along].to_vec();
        for &n in sizes {
            match n {
                -1 if known > 0 => shape.push(len / known),
                n if n >= 0 => shape.push(n as usize),
                _ => return shape_error("unflatten", format!("cannot split {len} into {sizes:?}")),
            }
        }
        let product = shape[along..]
            .iter()
            .try_fold(1usize, |n, &size| n.checked_mul(size));
        if product != Some(len) {
            return shape_error("unflatten", format!("{len} does not divide into {sizes:?}"));
        }
        shape.extend_from_slice(&self.shape()[along + 1..]);
        self.reshape(&shape)
    }

    /// `start..start + len` of an axis.
    ///
    /// # Errors
    /// A part that does not lie within the axis.
    pub fn narrow(&self, along: isize, start: usize, len: usize) -> Result<Tensor> {
        let along = axis("narrow", along, self.rank())?;
        let mut lo = vec![0; self.rank()];
        let mut shape = self.shape().to_vec();
        lo[along] = start;
        shape[along] = len;
        self.shrink(&lo, &shape)
    }

    /// One position of an axis, which goes away; negative positions count from the end.
    ///
    /// # Errors
    /// A position out of range.
    pub fn index(&self, along: isize, position: isize) -> Result<Tensor> {
        let along = axis("index", along, self.rank())?;
        let len = self.shape()[along];
        let found = match position < 0 {
            true => len.checked_add_signed(position),
            false => Some(position.unsigned_abs()),
        };
        let Some(position) = found.filter(|&found| found < len) else {
            let what = match len {
                0 => format!("axis {along} has no elements"),
                _ => format!(
                    "position {position} of axis {along}, which has {len}; use -{len}..{len}"
                ),
            };
            return shape_error("index", what);
        };
        let part = self.narrow(along as isize, position, 1)?;
        let mut shape = part.shape().to_vec();
        shape.remove(along);
        part.reshape(&shape)
    }

    /// Parts of the leading axes; the rest stays whole.
    ///
    /// # Errors
    /// More parts than axes; a zero step.
    pub fn slice(&self, parts: &[Slice]) -> Result<Tensor> {
        if parts.len() > self.rank() || parts.iter().any(|part| part.step == 0) {
            return shape_error(
                "slice",
                format!(
                    "{parts:?} of {:?}: too many parts, or a step of 0",
                    self.shape()
                ),
            );
        }
        let mut out = self.clone();
        for (along, part) in parts.iter().enumerate() {
            out = out.slice_axis(along, *part)?;
        }
        Ok(out)
    }

    fn slice_axis(&self, along: usize, part: Slice) -> Result<Tensor> {
        let len = self.shape()[along];
        let (start, count) = part.resolve(len);
        let step = part.step.unsigned_abs();
        let (source, start) = if part.step < 0 {
            // Position p of the axis is len - 1 - p of the reversed one.
            (self.reverse(&[along])?, len.saturating_sub(1 + start))
        } else {
            (self.clone(), start)
        };
        let along = along as isize;
        if count == 0 {
            return source.narrow(along, 0, 0);
        }
        let span = (count - 1) * step + 1;
        let part = source.narrow(along, start, span)?;
        part.every(along as usize, step)
    }

    /// Every `step`-th element of an axis, from the first.
    pub(crate) fn every(&self, along: usize, step: usize) -> Result<Tensor> {
        if step == 1 || self.shape()[along] == 0 {
            return Ok(self.clone());
        }
        let out = self.windows(along, 1, step, 1)?;
        let shape = out.shape()[..self.rank()].to_vec();
        out.reshape(&shape)
    }

    /// Elements of an axis moved `step` apart, zeros between them; the length becomes
    /// `(len - 1) * step + 1`.
    pub(crate) fn dilate(&self, along: usize, step: usize) -> Result<Tensor> {
        let len = self.shape()[along];
        if step == 1 || len == 0 {
            return Ok(self.clone());
        }
        let mut apart = self.shape().to_vec();
        apart.insert(along + 1, 1);
        let mut padded = apart.clone();
        padded[along + 1] = step;
        let mut merged = self.shape().to_vec();
        merged[along] = len.saturating_mul(step);
        self.reshape(&apart)?
            .pad_to(&vec![0; apart.len()], &padded, 0)?
            .reshape(&merged)?
            .narrow(along as isize, 0, (len - 1) * step + 1)
    }

    /// Elements added before and after each axis, `amounts[i]` to axis i; negative amounts cut.
    ///
    /// # Errors
    /// Another number of amounts than axes; a number that does not fit into the type; more cut than
    /// is there; a reflection that is not shorter than the axis, a circle longer than it, or nothing
    /// to repeat.
    pub fn pad(&self, amounts: &[(isize, isize)], mode: PadMode) -> Result<Tensor> {
        if amounts.len() != self.rank() {
            return shape_error(
                "pad",
                format!(
                    "{} amounts for {} axes: pass one per axis",
                    amounts.len(),
                    self.rank()
                ),
            );
        }
        let mut out = self.clone();
        for (along, &(before, after)) in amounts.iter().enumerate() {
            let len = out.shape()[along];
            let cut = |n: isize| if n < 0 { n.unsigned_abs() } else { 0 };
            let (cut_before, cut_after) = (cut(before), cut(after));
            let Some(kept) = len.checked_sub(cut_before.saturating_add(cut_after)) else {
                return shape_error(
                    "pad",
                    format!(
                        "cannot cut {cut_before} and {cut_after} elements from axis {along} of size {len}"
                    ),
                );
            };
            out = out.narrow(along as isize, cut_before, kept)?;
            let (before, after) = (before.max(0) as usize, after.max(0) as usize);
            if before + after > 0 {
                out = out.pad_axis(along, before, after, mode)?;
            }
        }
        Ok(out)
    }

    fn pad_axis(&self, along: usize, before: usize, after: usize, mode: PadMode) -> Result<Tensor> {
        let len = self.shape()[along];
        let axis = along as isize;
        let longest = before.max(after);
        let limit = match mode {
            PadMode::Constant(number) => {
                let mut lo = vec![0; self.rank()];
                let mut shape = self.shape().to_vec();
                lo[along] = before;
                shape[along] = len.saturating_add(before).saturating_add(after);
                return self.pad_to(&lo, &shape, number.fit("pad", self.dtype())?);
            }
            PadMode::Reflect => len.saturating_sub(1),
            PadMode::Replicate if len > 0 => usize::MAX,
            PadMode::Replicate => 0,
            PadMode::Circular => len,
        };
        if longest > limit {
            return shape_error(
                "pad",
                format!(
                    "cannot pad axis {along} of size {len} by {before} and {after} with {mode:?}"
                ),
            );
        }
        let side = |start: usize, n: usize| -> Result<Option<Tensor>> {
            if n == 0 {
                return Ok(None);
            }
            Ok(Some(match mode {
                PadMode::Reflect => self.narrow(axis, start, n)?.reverse(&[along])?,
                PadMode::Replicate => {
                    let edge = self.narrow(axis, start, 1)?;
                    let mut shape = self.shape().to_vec();
                    shape[along] = n;
                    edge.expand(&shape)?
                }
                _ => self.narrow(axis, start, n)?,
            }))
        };
        let (head, tail) = match mode {
            PadMode::Reflect => (
                side(1, before)?,
                side(len.saturating_sub(1 + after), after)?,
            ),
            PadMode::Replicate => (side(0, before)?, side(len.saturating_sub(1), after)?),
            _ => (side(len - before, before)?, side(0, after)?),
        };
        let parts: Vec<&Tensor> = head.iter().chain([self]).chain(tail.iter()).collect();
        Tensor::cat(&parts, axis)
    }

    /// Tensors one after the other along an axis; types promote.
    ///
    /// # Errors
    /// No tensors; shapes that differ in another axis.
    pub fn cat(tensors: &[&Tensor], along: isize) -> Result<Tensor> {
        let Some(&first) = tensors.first() else {
            return shape_error("cat", "expected at least one tensor".into());
        };
        let at = axis("cat", along, first.rank())?;
        let dtype = tensors
            .iter()
            .fold(first.dtype(), |d, t| d.promote(t.dtype()));
        let mut shape = first.shape().to_vec();
        shape[at] = 0;
        for &t in tensors {
            super::same_engine("cat", first, t)?;
            let same = t.rank() == shape.len()
                && (0..shape.len()).all(|i| i == at || t.shape()[i] == shape[i]);
            if !same {
                return shape_error(
                    "cat",
                    format!(
                        "{:?} and {:?} differ in an axis other than {at}",
                        first.shape(),
                        t.shape()
                    ),
                );
            }
            shape[at] = shape[at].saturating_add(t.shape()[at]);
        }
        check_size("cat", &shape, dtype)?;
        if let [one] = tensors {
            return Ok((*one).clone());
        }
        // Each part padded with zeros to the whole, and chosen by position: exact for every value,
        // which a sum would not be for NaN and -0.
        let mut lo = vec![0; shape.len()];
        let mut out: Option<Tensor> = None;
        let position = if tensors.len() > 1 {
            let mut line = vec![1; shape.len()];
            line[at] = shape[at];
            Some(
                Tensor::iota(first.engine(), shape[at], codegen::DType::I64)?
                    .reshape(&line)?
                    .expand(&shape)?,
            )
        } else {
            None
        };
        for &t in tensors {
            let part = t.cast(dtype)?.pad_to(&lo, &shape, 0)?;
            out = Some(match (out, &position) {
                (Some(before), Some(position)) => {
                    position.lt(lo[at] as i64)?.select(&before, &part)?
                }
                _ => part,
            });
            lo[at] += t.shape()[at];
        }
        match out {
            Some(out) => Ok(out),
            None => shape_error("cat", "expected at least one tensor".into()),
        }
    }

    /// Tensors of one shape along a new axis.
    ///
    /// # Errors
    /// No tensors; shapes that differ.
    pub fn stack(tensors: &[&Tensor], along: isize) -> Result<Tensor> {
        let first = tensors.first().map_or(&[][..], |t| t.shape());
        if let Some(i) = tensors.iter().position(|t| t.shape() != first) {
            let other = tensors[i].shape();
            return shape_error(
                "stack",
                format!(
                    "tensor 0 has shape {first:?}, tensor {i} {other:?}; all shapes must be equal"
                ),
            );
        }
        let parts = tensors
            .iter()
            .map(|t| t.unsqueeze(along))
            .collect::<Result<Vec<_>>>()?;
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), along)
    }

    /// The axis cut into parts of the given sizes.
    ///
    /// # Errors
    /// Sizes whose sum is not that of the axis.
    pub fn split(&self, sizes: &[usize], along: isize) -> Result<Vec<Tensor>> {
        let at = axis("split", along, self.rank())?;
        let total = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
        if total != Some(self.shape()[at]) {
            return shape_error(
                "split",
                format!(
                    "{sizes:?} do not add up to {} of axis {at}",
                    self.shape()[at]
                ),
            );
        }
        let mut start = 0;
        sizes
            .iter()
            .map(|&n| {
                let part = self.narrow(along, start, n);
                start += n;
                part
            })
            .collect()
    }

    /// The axis cut into at most `count` parts of one size, the last of which may be shorter.
    ///
    /// # Errors
    /// No parts.
    pub fn chunk(&self, count: usize, along: isize) -> Result<Vec<Tensor>> {
        let at = axis("chunk", along, self.rank())?;
        if count == 0 {
            return shape_error("chunk", "expected at least one part".into());
        }
        let len = self.shape()[at];
        let size = len.div_ceil(count).max(1);
        let sizes: Vec<usize> = (0..len.div_ceil(size).max(1))
            .map(|i| size.min(len - i * size))
            .collect();
        self.split(&sizes, along)
    }

    /// The whole tensor repeated `times[i]` times along axis i; leading axes are added as needed.
    ///
    /// # Errors
    /// Fewer numbers than axes.
    pub fn repeat(&self, times: &[usize]) -> Result<Tensor> {
        if times.len() < self.rank() {
            return shape_error(
                "repeat",
                format!(
                    "{} numbers for {} axes: pass at least one per axis",
                    times.len(),
                    self.rank()
                ),
            );
        }
        let mut base = vec![1; times.len() - self.rank()];
        base.extend_from_slice(self.shape());
        let apart: Shape = base.iter().flat_map(|&len| [1, len]).collect();
        let spread: Shape = base
            .iter()
            .zip(times)
            .flat_map(|(&len, &n)| [n, len])
            .collect();
        check_size("repeat", &spread, self.dtype())?;
        let merged: Shape = base.iter().zip(times).map(|(&len, &n)| len * n).collect();
        self.reshape(&apart)?.expand(&spread)?.reshape(&merged)
    }

    /// Each element of an axis repeated in place.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn repeat_interleave(&self, times: usize, along: isize) -> Result<Tensor> {
        let at = axis("repeat_interleave", along, self.rank())?;
        let mut apart = self.shape().to_vec();
        apart.insert(at + 1, 1);
        let mut spread = apart.clone();
        spread[at + 1] = times;
        check_size("repeat_interleave", &spread, self.dtype())?;
        let mut merged = self.shape().to_vec();
        merged[at] *= times;
        self.reshape(&apart)?.expand(&spread)?.reshape(&merged)
    }

    /// Elements shifted by `amount` along an axis, those that leave re-enter at the other end.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn roll(&self, amount: isize, along: isize) -> Result<Tensor> {
        let at = axis("roll", along, self.rank())?;
        let len = self.shape()[at];
        if len == 0 {
            return Ok(self.clone());
        }
        let cut = len - (amount as i128).rem_euclid(len as i128) as usize;
        if cut == len {
            return Ok(self.clone());
        }
        let tail = self.narrow(along, cut, len - cut)?;
        Tensor::cat(&[&tail, &self.narrow(along, 0, cut)?], along)
    }

    /// The windows of `size` elements every `step` along an axis, as a new last axis.
    ///
    /// # Errors
    /// A window longer than the axis; a zero size or step.
    pub fn unfold(&self, along: isize, size: usize, step: usize) -> Result<Tensor> {
        self.windows(axis("unfold", along, self.rank())?, size, step, 1)
    }

    /// A vector as the diagonal of a square matrix `[n, n]`.
    ///
    /// # Errors
    /// Not one axis.
    pub fn diag(&self) -> Result<Tensor> {
        let &[n] = self.shape() else {
            return shape_error(
                "diag",
                format!("expected a vector, found {:?}", self.shape()),
            );
        };
        // Each element followed by n zeros, without the zeros after the last.
        let spread = n.saturating_add(1);
        self.reshape(&[n, 1])?
            .pad_to(&[0, 0], &[n, spread], 0)?
            .reshape(&[n * spread])?
            .narrow(0, 0, n * n)?
            .reshape(&[n, n])
    }

    /// The elements with equal positions in two axes, as a new last axis of the shorter size.
    ///
    /// # Errors
    /// One axis twice; axes that the tensor lacks.
    pub fn diagonal(&self, a: isize, b: isize) -> Result<Tensor> {
        let a = axis("diagonal", a, self.rank())?;
        let b = axis("diagonal", b, self.rank())?;
        if a == b {
            return shape_error("diagonal", format!("axis {a} is named twice"));
        }
        let n = self.shape()[a].min(self.shape()[b]);
        let mut order: Vec<usize> = (0..self.rank()).filter(|&i| i != a && i != b).collect();
        let outer: Shape = order.iter().map(|&i| self.shape()[i]).collect();
        order.extend([a, b]);
        let square: Shape = outer.iter().copied().chain([n, n]).collect();
        let square = self
            .permute(&order)?
            .shrink(&vec![0; self.rank()], &square)?;
        let shaped = |sizes: &[usize]| -> Shape { [&outer[..], sizes].concat() };
        // Row i, flattened and padded to rows of n + 1, starts with element (i, i).
        let line = square.reshape(&shaped(&[n * n]))?;
        line.pad_to(&vec![0; line.rank()], &shaped(&[n * (n + 1)]), 0)?
            .reshape(&shaped(&[n, n + 1]))?
            .narrow(-1, 0, if n == 0 { 0 } else { 1 })?
            .reshape(&shaped(&[n]))
    }

    /// Vectors as coordinates of a grid: result i has the shape of all lengths and varies along
    /// axis i (`ij` indexing).
    ///
    /// # Errors
    /// Tensors with other than one axis.
    pub fn meshgrid(vectors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let mut shape = Shape::new();
        for v in vectors {
            let &[n] = v.shape() else {
                return shape_error(
                    "meshgrid",
                    format!("expected a vector, found {:?}", v.shape()),
                );
            };
            shape.push(n);
        }
        vectors
            .iter()
            .enumerate()
            .map(|(i, v)| {
                let mut line = vec![1; shape.len()];
                line[i] = shape[i];
                v.reshape(&line)?.expand(&shape)
            })
            .collect()
    }

    /// This tensor with the part that starts at `lo` replaced by `part`.
    ///
    /// # Errors
    /// A part that does not lie within the tensor; types that differ.
    pub fn slice_assign(&self, lo: &[usize], part: &Tensor) -> Result<Tensor> {
        if part.dtype() != self.dtype() {
            return super::dtype_error(
                "slice_assign",
                format!(
                    "cannot assign {} to {}; cast the part",
                    part.dtype(),
                    self.dtype()
                ),
            );
        }
        let mask = Tensor::full(self.engine(), part.shape(), true, codegen::DType::Bool)?.pad_to(
            lo,
            self.shape(),
            0,
        )?;
        mask.select(&part.pad_to(lo, self.shape(), 0)?, self)
    }
}
