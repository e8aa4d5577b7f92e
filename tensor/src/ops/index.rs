//! Picking and placing elements by index tensors. Negative indices count from the end.
//!
//! An index out of range is an error: at once where the host knows it (data in host memory, of at most 65536
//! elements, or a constant, as it is or moved, expanded or cast to another integer). Where it is computed, or in
//! the memory of a device, or changes between the calls of a captured function, the device notes it, and the next
//! wait for results (reading, [`Engine::synchronize`](crate::Engine::synchronize)) gives
//! [`Error::Index`](crate::Error::Index), once. Until then reads return 0 and writes are dropped. Unused elements
//! and their indices are not computed.

use codegen::DType;
use codegen::ir::ReduceOp;

use super::bounds;
use super::{axis, dtype_error, shape_error};
use crate::error::Result;
use crate::graph::{Bounds, ScatterMode, Shape, Tensor};

impl Tensor {
    /// Slices of an axis at `index`, an integer tensor of any shape, which takes the place of the
    /// axis in the result.
    ///
    /// # Errors
    /// An axis that the tensor lacks; a non-integer index, or known to be out of range.
    pub fn index_select(&self, along: isize, index: &Tensor) -> Result<Tensor> {
        let at = axis("index_select", along, self.rank())?;
        self.selected("index_select", at, index)
    }

    fn selected(&self, op: &'static str, at: usize, index: &Tensor) -> Result<Tensor> {
        self.rows(at, &Bounds::of(op, self.shape()[at]).checked(index)?)
    }

    /// [`Tensor::index_select`] where no index is out of range.
    pub(crate) fn rows(&self, at: usize, index: &Tensor) -> Result<Tensor> {
        let mut line = vec![1; self.rank()];
        line[at] = index.numel();
        let mut spread = self.shape().to_vec();
        spread[at] = index.numel();
        let picked = self.pick(at, &index.reshape(&line)?.expand(&spread)?)?;
        let shape = [&self.shape()[..at], index.shape(), &self.shape()[at + 1..]].concat();
        picked.reshape(&shape)
    }

    /// Elements of the flattened tensor at `index`; the result has the shape of `index`.
    ///
    /// # Errors
    /// A non-integer index, or known to be out of range.
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        self.reshape(&[self.numel()])?.selected("take", 0, index)
    }

    /// Rows of this table `[entries, width]` at `index`: shape of `index`, then `width`.
    ///
    /// # Errors
    /// Not two axes; a non-integer index, or known to be out of range.
    pub fn embedding(&self, index: &Tensor) -> Result<Tensor> {
        if self.rank() != 2 {
            return shape_error(
                "embedding",
                format!(
                    "expected a table [entries, width], found {:?}",
                    self.shape()
                ),
            );
        }
        self.selected("embedding", 0, index)
    }

    /// This tensor with `source` added at `index` along an axis, in row-major order of the source.
    ///
    /// # Errors
    /// As [`Tensor::scatter`].
    pub fn scatter_add(&self, along: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let add = ScatterMode::Combine(ReduceOp::Add);
        self.scattered("scatter_add", along, index, source, add)
    }

    /// This tensor with the slices of `source` added to its own at `index`, a vector, along an axis: the reverse of
    /// [`Tensor::index_select`].
    ///
    /// # Errors
    /// An index that is no vector of integers; a source of another shape than the slices; as [`Tensor::scatter`].
    pub fn index_add(&self, along: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let at = axis("index_add", along, self.rank())?;
        let mut shape = self.shape().to_vec();
        shape[at] = index.numel();
        if index.rank() != 1 || source.shape() != shape {
            return shape_error(
                "index_add",
                format!(
                    "index {:?}, source {:?}: expected a vector, and a source {shape:?}",
                    index.shape(),
                    source.shape()
                ),
            );
        }
        let mut line = vec![1; self.rank()];
        line[at] = index.numel();
        let index = index.reshape(&line)?.expand(&shape)?;
        let add = ScatterMode::Combine(ReduceOp::Add);
        self.scattered("index_add", along, &index, source, add)
    }

    /// This tensor combined with `source` at `index` along an axis. Without `include_self`, elements
    /// that are written to start from the identity of the operation.
    ///
    /// # Errors
    /// As [`Tensor::scatter`].
    pub fn scatter_reduce(
        &self,
        along: isize,
        index: &Tensor,
        source: &Tensor,
        op: ReduceOp,
        include_self: bool,
    ) -> Result<Tensor> {
        let base = if include_self {
            self.clone()
        } else {
            let identity = codegen::interp::scalar::identity(op, self.dtype());
            let start = Tensor::full_bits(self.engine(), index.shape(), identity, self.dtype())?;
            self.put(
                axis("scatter_reduce", along, self.rank())?,
                index,
                &start,
                ScatterMode::Set,
            )?
        };
        let combine = ScatterMode::Combine(op);
        base.scattered("scatter_reduce", along, index, source, combine)
    }

    /// The mean of this tensor's element (if `include_self`) and of what `source` puts there.
    ///
    /// # Errors
    /// As [`Tensor::scatter`].
    pub fn scatter_mean(
        &self,
        along: isize,
        index: &Tensor,
        source: &Tensor,
        include_self: bool,
    ) -> Result<Tensor> {
        let sum = self.scatter_reduce(along, index, source, ReduceOp::Add, include_self)?;
        let start = Tensor::full(
            self.engine(),
            self.shape(),
            i64::from(include_self),
            DType::I32,
        )?;
        let ones = Tensor::ones(self.engine(), index.shape(), DType::I32)?;
        let at = axis("scatter_mean", along, self.rank())?;
        let add = ScatterMode::Combine(ReduceOp::Add);
        let count = start.put(at, index, &ones, add)?.maximum(1)?;
        if self.dtype().is_float() {
            sum.div(&count.cast(self.dtype())?)
        } else {
            sum.floor_div(&count)?.cast(self.dtype())
        }
    }

    /// 1 where the position along a new last axis of `classes` equals the value, else 0. Negative
    /// values match nothing.
    ///
    /// # Errors
    /// A tensor that holds no integers.
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Result<Tensor> {
        if !self.dtype().is_int() {
            return dtype_error(
                "one_hot",
                format!("classes must be integers, found {}", self.dtype()),
            );
        }
        let class = Tensor::iota(self.engine(), classes, DType::I64)?;
        self.unsqueeze(-1)?
            .cast(DType::I64)?
            .eq(&class)?
            .cast(dtype)
    }

    /// Elements or slices at coordinates: the last axis of `index` holds coordinates of the axes
    /// after the first `batch`, which both share.
    ///
    /// # Errors
    /// More coordinates than axes; batches that differ; coordinates known to be out of range.
    pub fn gather_nd(&self, index: &Tensor, batch: usize) -> Result<Tensor> {
        let nd = Coordinates::new("gather_nd", self, index, batch)?;
        let flat = self.reshape(&[nd.batches, nd.places, nd.slice])?;
        let linear = nd.linear("gather_nd", self, index)?;
        let count = linear.shape()[1];
        let spread = [nd.batches, count, nd.slice];
        let picked = flat.pick(1, &linear.unsqueeze(-1)?.expand(&spread)?)?;
        let outer = &index.shape()[..index.rank() - 1];
        picked.reshape(&[outer, &self.shape()[batch + nd.depth..]].concat())
    }

    /// This tensor with `updates` put at coordinates, see [`Tensor::gather_nd`].
    ///
    /// # Errors
    /// Updates that are not the shape that `gather_nd` gives.
    pub fn scatter_nd(
        &self,
        index: &Tensor,
        updates: &Tensor,
        mode: ScatterMode,
    ) -> Result<Tensor> {
        let nd = Coordinates::new("scatter_nd", self, index, 0)?;
        let outer = &index.shape()[..index.rank() - 1];
        let want: Shape = [outer, &self.shape()[nd.depth..]].concat();
        if updates.shape() != want {
            return shape_error(
                "scatter_nd",
                format!(
                    "updates have shape {:?}, expected {want:?}",
                    updates.shape()
                ),
            );
        }
        let linear = nd.linear("scatter_nd", self, index)?;
        let spread = [1, linear.shape()[1], nd.slice];
        self.reshape(&[1, nd.places, nd.slice])?
            .put(
                1,
                &linear.unsqueeze(-1)?.expand(&spread)?,
                &updates.reshape(&spread)?,
                mode,
            )?
            .reshape(self.shape())
    }
}

/// Coordinates in the last axis of an index tensor.
struct Coordinates {
    batches: usize,
    batch: usize,
    /// Axes that the coordinates name.
    depth: usize,
    /// Positions in them.
    places: usize,
    /// Elements of a slice at one position.
    slice: usize,
}

impl Coordinates {
    fn new(op: &'static str, base: &Tensor, index: &Tensor, batch: usize) -> Result<Self> {
        let depth = index.shape().last().copied().unwrap_or(0);
        let fits = index.dtype().is_int()
            && index.rank() > batch
            && depth <= base.rank().saturating_sub(batch)
            && base.rank() >= batch
            && base.shape()[..batch] == index.shape()[..batch];
        if !fits {
            return shape_error(
                op,
                format!(
                    "index {:?} {} into {:?} with {batch} batch axes: the last axis must hold integer \
                     coordinates",
                    index.shape(),
                    index.dtype(),
                    base.shape()
                ),
            );
        }
        Ok(Coordinates {
            batches: base.shape()[..batch].iter().product(),
            batch,
            depth,
            places: base.shape()[batch..batch + depth].iter().product(),
            slice: base.shape()[batch + depth..].iter().product(),
        })
    }

    /// The linear position of each coordinate tuple, `[batches, tuples]`; `places`, which is out of
    /// range again, where a coordinate is, which is an error of the operation.
    fn linear(&self, op: &'static str, base: &Tensor, given: &Tensor) -> Result<Tensor> {
        let tuples: usize = given.shape()[self.batch..given.rank() - 1].iter().product();
        let index = given
            .cast(DType::I64)?
            .reshape(&[self.batches, tuples, self.depth])?;
        let axes = &base.shape()[self.batch..self.batch + self.depth];
        let known = bounds::known(given, true).filter(|_| self.depth > 0);
        if let Some(values) = &known {
            for (i, &len) in axes.iter().enumerate() {
                let values = values.iter().copied().skip(i).step_by(self.depth);
                Bounds::of(op, len).check_values(values)?;
            }
        }
        let engine = base.engine();
        let mut sum = Tensor::zeros(engine, &[self.batches, tuples], DType::I64)?;
        let mut inside = Tensor::full(engine, &[self.batches, tuples], true, DType::Bool)?;
        for (i, &len) in axes.iter().enumerate() {
            let mut c = index.index(-1, i as isize)?;
            if known.is_none() {
                c = Bounds::of(op, len).checked(&c)?;
            }
            let c = c.lt(0)?.select(&c.add(len as i64)?, &c)?;
            inside = inside.bitand(&c.ge(0)?)?.bitand(&c.lt(len as i64)?)?;
            sum = sum.mul(len as i64)?.add(&c)?;
        }
        inside.select(&sum, &sum.full_like(self.places as i64)?)
    }
}
