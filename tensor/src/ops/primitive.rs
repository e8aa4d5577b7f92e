//! One constructor per [`Op`], with its rule of shape and type. All other operations are composed of these.

use codegen::DType;
use codegen::interp::scalar;
use codegen::ir::{Binary, ReduceOp, Unary};

use super::{check_size, dtype_error, same_engine, shape_error};
use crate::error::Result;
use crate::graph::{Bounds, Engine, Op, ScatterMode, Slope, Tensor};

/// Whether a reduction is defined for a type: the bitwise ones are not for floats.
fn check_reduce(op: ReduceOp, dtype: DType) -> Result<()> {
    if !op.binary().row().types.has(dtype) {
        return dtype_error(
            op.row().name,
            format!("{dtype} has no bitwise operations; cast to an integer or bool first"),
        );
    }
    Ok(())
}

impl Tensor {
    /// A tensor of one value given as bits (see [`codegen::ir::Op::Const`]).
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn full_bits(engine: &Engine, shape: &[usize], bits: u64, dtype: DType) -> Result<Tensor> {
        Tensor::make(engine, Op::Const(bits), &[], &[], dtype).expand(shape)
    }

    /// 0, 1, 2... `len - 1`, shape `[len]`, of an integer type.
    ///
    /// # Errors
    /// A type that is no integer, or that does not hold `len - 1`.
    pub fn iota(engine: &Engine, len: usize, dtype: DType) -> Result<Tensor> {
        if !dtype.is_int() {
            return dtype_error(
                "iota",
                format!("{dtype} is not an integer type; cast the result"),
            );
        }
        if len as i128 - 1 > scalar::int_limits(dtype).1 {
            return shape_error(
                "iota",
                format!("{len} numbers from 0 do not fit into {dtype}"),
            );
        }
        check_size("iota", &[len], dtype)?;
        Ok(Tensor::make(engine, Op::Iota, &[], &[len], dtype))
    }

    /// An elementwise operation of one operand; same shape and type.
    ///
    /// # Errors
    /// A type for which it is not defined.
    pub fn unary(&self, op: Unary) -> Result<Tensor> {
        let dtype = self.dtype();
        let row = op.row();
        if !row.types.has(dtype) {
            let wants = row.types.name();
            return dtype_error(
                row.name,
                format!("expected {wants}, found {dtype}; cast it"),
            );
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Unary(op),
            &[self],
            self.shape(),
            dtype,
        ))
    }

    /// An elementwise operation on equal shapes and types; comparisons give `Bool`.
    ///
    /// # Errors
    /// Shapes or types that differ, or a type for which it is not defined.
    pub fn binary(&self, op: Binary, other: &Tensor) -> Result<Tensor> {
        let (name, types) = (op.row().name, op.row().types);
        same_engine(name, self, other)?;
        let dtype = self.dtype();
        if dtype != other.dtype() {
            return dtype_error(
                name,
                format!("{dtype} and {} differ; cast one", other.dtype()),
            );
        }
        if self.shape() != other.shape() {
            return shape_error(
                name,
                format!(
                    "{:?} and {:?} differ; expand one",
                    self.shape(),
                    other.shape()
                ),
            );
        }
        if !types.has(dtype) {
            let wants = types.name();
            return dtype_error(name, format!("expected {wants}, found {dtype}; cast both"));
        }
        let result = if op.is_compare() { DType::Bool } else { dtype };
        Ok(Tensor::make(
            self.engine(),
            Op::Binary(op),
            &[self, other],
            self.shape(),
            result,
        ))
    }

    /// `self ? a : b`, all of one shape; `self` is `Bool`, `a` and `b` of one type.
    ///
    /// # Errors
    /// Shapes or types that differ.
    pub fn select(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        same_engine("where", self, a)?;
        same_engine("where", a, b)?;
        if self.dtype() != DType::Bool || a.dtype() != b.dtype() {
            return dtype_error(
                "where",
                format!(
                    "expected bool and two operands of one type, found {}, {}, {}",
                    self.dtype(),
                    a.dtype(),
                    b.dtype()
                ),
            );
        }
        if self.shape() != a.shape() || a.shape() != b.shape() {
            return shape_error(
                "where",
                format!(
                    "{:?}, {:?} and {:?} differ; expand them",
                    self.shape(),
                    a.shape(),
                    b.shape()
                ),
            );
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Where,
            &[self, a, b],
            a.shape(),
            a.dtype(),
        ))
    }

    /// Conversion by value; the laws are those of [`codegen::ir::op`].
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        check_size("cast", self.shape(), dtype)?;
        Ok(Tensor::make(
            self.engine(),
            Op::Cast,
            &[self],
            self.shape(),
            dtype,
        ))
    }

    /// The same bits as another type of the same width. No gradient goes through.
    ///
    /// # Errors
    /// Widths that differ, or a cast to or from `Bool`.
    pub fn bitcast(&self, dtype: DType) -> Result<Tensor> {
        let from = self.dtype();
        if dtype == from {
            return Ok(self.clone());
        }
        if dtype.size() != from.size() || dtype == DType::Bool || from == DType::Bool {
            return dtype_error(
                "bitcast",
                format!("{from} and {dtype} must have the same width and not be bool"),
            );
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Bitcast,
            &[self],
            self.shape(),
            dtype,
        ))
    }

    /// Reduction over axes (ascending, no repeats), which stay with size 1; same type, and the
    /// accumulator has that type too. [`Tensor::sum`] and its family choose a wider one.
    ///
    /// # Errors
    /// Axes that the tensor lacks; a bitwise reduction of floats.
    pub fn reduce(&self, op: ReduceOp, axes: &[usize]) -> Result<Tensor> {
        check_reduce(op, self.dtype())?;
        let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || axes.last().is_some_and(|&last| last >= self.rank()) {
            return shape_error(
                op.row().name,
                format!(
                    "axes {axes:?} of shape {:?} must be ascending",
                    self.shape()
                ),
            );
        }
        if axes.is_empty() {
            return Ok(self.clone());
        }
        let mut shape = self.shape().to_vec();
        for &axis in axes {
            shape[axis] = 1;
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Reduce(op, axes.to_vec()),
            &[self],
            &shape,
            self.dtype(),
        ))
    }

    /// Inclusive prefix reduction along an axis; same shape and type.
    ///
    /// # Errors
    /// An axis that the tensor lacks; a bitwise scan of floats.
    pub fn scan(&self, op: ReduceOp, axis: usize) -> Result<Tensor> {
        check_reduce(op, self.dtype())?;
        if axis >= self.rank() {
            return shape_error(
                "scan",
                format!("axis {axis} is out of range for shape {:?}", self.shape()),
            );
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Scan(op, axis),
            &[self],
            self.shape(),
            self.dtype(),
        ))
    }

    /// The same elements in row-major order under another shape.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn reshape(&self, shape: &[usize]) -> Result<Tensor> {
        if shape == self.shape() {
            return Ok(self.clone());
        }
        if check_size("reshape", shape, self.dtype())? != self.numel() {
            return shape_error(
                "reshape",
                format!(
                    "{:?} has {} elements, {shape:?} has {}",
                    self.shape(),
                    self.numel(),
                    shape.iter().product::<usize>()
                ),
            );
        }
        // A reshape of a reshape is one reshape when it runs. Here it is two: somebody may ask for the gradient of the
        // first one.
        Ok(Tensor::make(
            self.engine(),
            Op::Reshape,
            &[self],
            shape,
            self.dtype(),
        ))
    }

    /// Axis `i` of the result is axis `order[i]` of the tensor.
    ///
    /// # Errors
    /// An order that is no permutation of the axes.
    pub fn permute(&self, order: &[usize]) -> Result<Tensor> {
        let mut seen = vec![false; self.rank()];
        for &axis in order {
            match seen.get_mut(axis) {
                Some(seen) => *seen = true,
                None => break,
            }
        }
        if order.len() != self.rank() || seen.contains(&false) {
            return shape_error(
                "permute",
                format!("{order:?} does not name each of {} axes once", self.rank()),
            );
        }
        if order.iter().enumerate().all(|(i, &axis)| i == axis) {
            return Ok(self.clone());
        }
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape()[axis]).collect();
        Ok(Tensor::make(
            self.engine(),
            Op::Permute(order.to_vec()),
            &[self],
            &shape,
            self.dtype(),
        ))
    }

    /// Repeats axes of size 1, and adds leading axes, to get `shape`.
    ///
    /// # Errors
    /// A size that is neither 1 nor already the wanted one; fewer axes than the tensor has.
    pub fn expand(&self, shape: &[usize]) -> Result<Tensor> {
        if shape == self.shape() {
            return Ok(self.clone());
        }
        check_size("expand", shape, self.dtype())?;
        let fits = shape.len() >= self.rank()
            && (self.shape().iter().rev().zip(shape.iter().rev()))
                .all(|(&have, &want)| have == want || have == 1);
        if !fits {
            return shape_error(
                "expand",
                format!(
                    "{:?} does not expand to {shape:?}: aligned from the last axis, sizes must be equal or 1",
                    self.shape()
                ),
            );
        }
        let mut aligned = vec![1; shape.len() - self.rank()];
        aligned.extend_from_slice(self.shape());
        let aligned = self.reshape(&aligned)?;
        if aligned.shape() == shape {
            return Ok(aligned);
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Expand,
            &[&aligned],
            shape,
            self.dtype(),
        ))
    }

    /// `lo[i]` elements before axis i and as many after as `shape[i]` leaves, all with the value
    /// of `bits` (see [`codegen::ir::Op::Const`]).
    ///
    /// # Errors
    /// Ranks that differ, or a shape that does not hold the tensor at `lo`.
    pub fn pad_to(&self, lo: &[usize], shape: &[usize], bits: u64) -> Result<Tensor> {
        check_size("pad", shape, self.dtype())?;
        let fits = lo.len() == self.rank()
            && shape.len() == self.rank()
            && (0..lo.len()).all(|i| {
                lo[i]
                    .checked_add(self.shape()[i])
                    .is_some_and(|end| end <= shape[i])
            });
        if !fits {
            return shape_error(
                "pad",
                format!("{:?} at {lo:?} does not lie within {shape:?}", self.shape()),
            );
        }
        if shape == self.shape() {
            return Ok(self.clone());
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Pad(lo.to_vec(), bits),
            &[self],
            shape,
            self.dtype(),
        ))
    }

    /// The part that starts at `lo` and has `shape`.
    ///
    /// # Errors
    /// Ranks that differ, or a part that does not lie within the tensor.
    pub fn shrink(&self, lo: &[usize], shape: &[usize]) -> Result<Tensor> {
        let fits = lo.len() == self.rank()
            && shape.len() == self.rank()
            && (0..lo.len()).all(|i| {
                lo[i]
                    .checked_add(shape[i])
                    .is_some_and(|end| end <= self.shape()[i])
            });
        if !fits {
            return shape_error(
                "shrink",
                format!("{shape:?} at {lo:?} does not lie within {:?}", self.shape()),
            );
        }
        if shape == self.shape() {
            return Ok(self.clone());
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Shrink(lo.to_vec()),
            &[self],
            shape,
            self.dtype(),
        ))
    }

    /// These axes reversed (ascending, no repeats).
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn reverse(&self, axes: &[usize]) -> Result<Tensor> {
        let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || axes.last().is_some_and(|&last| last >= self.rank()) {
            return shape_error(
                "flip",
                format!(
                    "axes {axes:?} of shape {:?} must be ascending",
                    self.shape()
                ),
            );
        }
        if axes.is_empty() {
            return Ok(self.clone());
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Flip(axes.to_vec()),
            &[self],
            self.shape(),
            self.dtype(),
        ))
    }

    /// The windows along `axis` as a new last axis of `size`, see [`Op::Windows`].
    ///
    /// # Errors
    /// A zero size, stride or dilation; a window longer than the axis.
    pub fn windows(
        &self,
        axis: usize,
        size: usize,
        stride: usize,
        dilation: usize,
    ) -> Result<Tensor> {
        let Some(&len) = self.shape().get(axis) else {
            return shape_error(
                "windows",
                format!("axis {axis} is out of range for shape {:?}", self.shape()),
            );
        };
        if size == 0 || stride == 0 || dilation == 0 {
            return shape_error(
                "windows",
                format!("size {size}, stride {stride}, dilation {dilation} must be at least 1"),
            );
        }
        let span = dilation
            .checked_mul(size - 1)
            .and_then(|reach| reach.checked_add(1));
        let Some(span) = span.filter(|&span| span <= len) else {
            return shape_error(
                "windows",
                format!(
                    "a window of {size} elements with dilation {dilation} is longer than axis {axis} of \
                     {:?}; pad the axis",
                    self.shape()
                ),
            );
        };
        let mut shape = self.shape().to_vec();
        shape[axis] = (len - span) / stride + 1;
        shape.push(size);
        check_size("windows", &shape, self.dtype())?;
        Ok(Tensor::make(
            self.engine(),
            Op::Windows {
                axis,
                size,
                stride,
                dilation,
            },
            &[self],
            &shape,
            self.dtype(),
        ))
    }

    /// The elements that `index` names along an axis; the result has the shape of `index`, see
    /// [`Op::Gather`].
    ///
    /// # Errors
    /// A non-integer index, of another rank, or larger than the tensor elsewhere; one with values known to the host
    /// that are out of range (see [`crate::ops::index`]).
    pub fn gather(&self, axis: isize, index: &Tensor) -> Result<Tensor> {
        let axis = super::axis("gather", axis, self.rank())?;
        self.check_index("gather", axis, index)?;
        let index = Bounds::of("gather", self.shape()[axis]).checked(index)?;
        self.pick(axis, &index)
    }

    /// [`Tensor::gather`] where no index is out of range, or is no mistake: it gives 0.
    pub(crate) fn pick(&self, axis: usize, index: &Tensor) -> Result<Tensor> {
        self.check_index("gather", axis, index)?;
        check_size("gather", index.shape(), self.dtype())?;
        Ok(Tensor::make(
            self.engine(),
            Op::Gather(axis),
            &[self, index],
            index.shape(),
            self.dtype(),
        ))
    }

    /// The tensor with `source` put at `index` along an axis, see [`Op::Scatter`].
    ///
    /// # Errors
    /// As [`Tensor::gather`]; a source of another type, or of another shape than the index.
    pub fn scatter(
        &self,
        axis: isize,
        index: &Tensor,
        source: &Tensor,
        mode: ScatterMode,
    ) -> Result<Tensor> {
        self.scattered("scatter", axis, index, source, mode)
    }

    /// [`Tensor::scatter`] for an operation of this name.
    pub(crate) fn scattered(
        &self,
        op: &'static str,
        axis: isize,
        index: &Tensor,
        source: &Tensor,
        mode: ScatterMode,
    ) -> Result<Tensor> {
        let axis = super::axis(op, axis, self.rank())?;
        self.check_index(op, axis, index)?;
        let index = Bounds::of(op, self.shape()[axis]).checked(index)?;
        self.put(axis, &index, source, mode)
    }

    /// [`Tensor::scatter`] where no index is out of range, or is no mistake: nothing is written.
    pub(crate) fn put(
        &self,
        axis: usize,
        index: &Tensor,
        source: &Tensor,
        mode: ScatterMode,
    ) -> Result<Tensor> {
        self.check_index("scatter", axis, index)?;
        same_engine("scatter", self, source)?;
        if let ScatterMode::Combine(op) = mode {
            check_reduce(op, self.dtype())?;
        }
        if source.dtype() != self.dtype() {
            return dtype_error(
                "scatter",
                format!(
                    "cannot scatter {} into {}; cast the source",
                    source.dtype(),
                    self.dtype()
                ),
            );
        }
        if source.shape() != index.shape() {
            return shape_error(
                "scatter",
                format!(
                    "index {:?} and source {:?} must have the same shape",
                    index.shape(),
                    source.shape()
                ),
            );
        }
        Ok(Tensor::make(
            self.engine(),
            Op::Scatter(axis, mode),
            &[self, index, source],
            self.shape(),
            self.dtype(),
        ))
    }

    fn check_index(&self, op: &'static str, axis: usize, index: &Tensor) -> Result<()> {
        same_engine(op, self, index)?;
        if !index.dtype().is_int() {
            return dtype_error(
                op,
                format!("the index is {}, not an integer", index.dtype()),
            );
        }
        let fits = index.rank() == self.rank()
            && (0..self.rank()).all(|i| i == axis || index.shape()[i] <= self.shape()[i]);
        if !fits {
            return shape_error(
                op,
                format!(
                    "index {:?} into {:?} along axis {axis}: the other axes must not be larger",
                    index.shape(),
                    self.shape()
                ),
            );
        }
        Ok(())
    }

    /// The same value, forced into memory of its own.
    ///
    /// # Errors None today.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.storage().is_some() || matches!(self.node().op, Op::Contiguous) {
            return Ok(self.clone());
        }
        Ok(self.same(Op::Contiguous))
    }

    /// The same value in other memory, also where it is in memory already.
    pub(crate) fn copied(&self) -> Tensor {
        self.same(Op::Contiguous)
    }

    /// The same value without gradient. For a realized tensor it keeps no graph. A lazy one is recomputed from its
    /// whole graph, so [`Tensor::realize`] loop-carried state, or keep it in a [`Parameter`](crate::Parameter).
    ///
    /// # Errors None today.
    pub fn detach(&self) -> Result<Tensor> {
        Ok(match (self.storage(), &self.node().op) {
            (Some(_), op) if !matches!(op, Op::Data) => self.as_data(),
            _ => self.same(Op::Detach),
        })
    }

    /// The same value, with the gradient that a rule has for it as a function of `of`.
    pub(crate) fn sloped(&self, slope: Slope, of: &[&Tensor]) -> Tensor {
        let src: Vec<&Tensor> = std::iter::once(self).chain(of.iter().copied()).collect();
        let op = Op::Sloped(slope);
        Tensor::make(self.engine(), op, &src, self.shape(), self.dtype())
    }

    fn same(&self, op: Op) -> Tensor {
        Tensor::make(self.engine(), op, &[self], self.shape(), self.dtype())
    }

    /// The same value on another engine.
    ///
    /// # Errors
    /// None before the copy runs.
    pub fn to(&self, engine: &Engine) -> Result<Tensor> {
        if self.engine() == engine {
            return Ok(self.clone());
        }
        Ok(Tensor::make(
            engine,
            Op::Copy,
            &[self],
            self.shape(),
            self.dtype(),
        ))
    }
}
