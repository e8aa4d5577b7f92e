//! Making tensors from data, numbers and patterns.

use std::sync::Arc;

use codegen::DType;

use crate::element::{Element, Scalar};
use crate::error::Result;
use crate::graph::{Engine, Source, Storage, Tensor};
use crate::ops::{axis, check_size, dtype_error, shape_error};

impl Tensor {
    /// A tensor of host data, shape `shape`, row-major; the type is that of `T`.
    ///
    /// # Errors
    /// A number of elements that is not that of the shape.
    pub fn from_slice<T: Element>(engine: &Engine, data: &[T], shape: &[usize]) -> Result<Tensor> {
        let numel = check_size("from_slice", shape, T::DTYPE)?;
        if numel != data.len() {
            return shape_error(
                "from_slice",
                format!("shape {shape:?} has {numel} elements, found {}", data.len()),
            );
        }
        let mut bytes = Vec::with_capacity(numel * T::DTYPE.size());
        for &element in data {
            element.put(&mut bytes);
        }
        Tensor::from_bytes(engine, bytes, shape, T::DTYPE)
    }

    /// Numbers of the host in a type: devices need no `f64` to read them.
    pub(crate) fn from_floats(
        engine: &Engine,
        list: &[f64],
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor> {
        let mut bytes = Vec::with_capacity(list.len() * dtype.size());
        for &x in list {
            let bits = Scalar::Float(x).bits(dtype);
            bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
        }
        Tensor::from_bytes(engine, bytes, shape, dtype)
    }

    /// A tensor of little-endian bytes, row-major.
    ///
    /// # Errors
    /// A number of bytes that is not that of the shape and type.
    pub fn from_bytes(
        engine: &Engine,
        bytes: Vec<u8>,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor> {
        let want = check_size("from_bytes", shape, dtype)? * dtype.size();
        if want != bytes.len() {
            return shape_error(
                "from_bytes",
                format!(
                    "shape {shape:?} of {dtype} has {want} bytes, found {}",
                    bytes.len()
                ),
            );
        }
        let storage = Storage::Host(Arc::from(bytes));
        Ok(Tensor::stored(engine, storage, shape, dtype))
    }

    /// A tensor of little-endian bytes, row-major, that are read when they are first used.
    ///
    /// # Errors
    /// A number of bytes that is not that of the shape and type.
    pub fn from_source(
        engine: &Engine,
        source: Arc<dyn Source>,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor> {
        let want = check_size("from_source", shape, dtype)? * dtype.size();
        if want != source.bytes() {
            return shape_error(
                "from_source",
                format!(
                    "shape {shape:?} of {dtype} has {want} bytes, {source:?} has {}",
                    source.bytes()
                ),
            );
        }
        Ok(Tensor::stored(
            engine,
            Storage::Source(source),
            shape,
            dtype,
        ))
    }

    /// A number as a tensor without axes.
    ///
    /// # Errors
    /// A number that does not fit into the type, see [`Scalar`].
    pub fn scalar(engine: &Engine, value: impl Into<Scalar>, dtype: DType) -> Result<Tensor> {
        Tensor::full(engine, &[], value, dtype)
    }

    /// A tensor of one number, which must fit into the type, see [`Scalar`].
    ///
    /// # Errors
    /// A shape that exceeds the address space; a number that does not fit.
    pub fn full(
        engine: &Engine,
        shape: &[usize],
        value: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        Tensor::full_bits(engine, shape, value.into().fit("full", dtype)?, dtype)
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn zeros(engine: &Engine, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::full(engine, shape, 0, dtype)
    }

    /// A tensor of ones.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn ones(engine: &Engine, shape: &[usize], dtype: DType) -> Result<Tensor> {
        Tensor::full(engine, shape, 1, dtype)
    }

    /// One number in the shape, type and engine of this tensor.
    ///
    /// # Errors
    /// A number that does not fit into the type, see [`Scalar`].
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(self.engine(), self.shape(), value, self.dtype())
    }

    /// Zeros in the shape, type and engine of this tensor.
    ///
    /// # Errors None today.
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_like(0)
    }

    /// Ones in the shape, type and engine of this tensor.
    ///
    /// # Errors None today.
    pub fn ones_like(&self) -> Result<Tensor> {
        self.full_like(1)
    }

    /// `start, start + step, ...` below `stop` (above it for a negative step), shape `[n]`.
    ///
    /// # Errors
    /// A zero or non-finite step; elements that do not fit into the type; `Bool`.
    pub fn arange(
        engine: &Engine,
        start: impl Into<Scalar>,
        stop: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<Tensor> {
        let (start, stop, step) = (start.into(), stop.into(), step.into());
        let len = match (start, stop, step) {
            (Scalar::Int(a), Scalar::Int(b), Scalar::Int(d)) if d != 0 => {
                let (span, d) = (i128::from(b) - i128::from(a), i128::from(d));
                let up = d.signum();
                (((span * up + d.abs() - 1).max(0) / d.abs()) as u64) as f64
            }
            _ => {
                let number = |x| match x {
                    Scalar::Float(x) => x,
                    Scalar::Int(x) => x as f64,
                    Scalar::Bool(x) => f64::from(u8::from(x)),
                };
                ((number(stop) - number(start)) / number(step))
                    .ceil()
                    .max(0.0)
            }
        };
        if !(len.is_finite() && len < 2f64.powi(53)) || step.bits(DType::F64) << 1 == 0 {
            return shape_error(
                "arange",
                format!("{start:?} to {stop:?} by {step:?} has no finite number of steps"),
            );
        }
        if dtype == DType::Bool {
            return dtype_error(
                "arange",
                "arange is not defined for bool; compare a numeric arange".into(),
            );
        }
        let len = len as usize;
        if len > 0 && dtype.is_int() {
            // The ends are elements; what lies between them fits if they do.
            start.fit("arange", dtype)?;
            if let (Scalar::Int(a), Scalar::Int(d)) = (start, step) {
                let last = i128::from(a) + (len as i128 - 1) * i128::from(d);
                Scalar::Int(i64::try_from(last).unwrap_or(i64::MAX)).fit("arange", dtype)?;
            }
        }
        let (compute, index) = if dtype.is_float() {
            let wide = if dtype == DType::F64 {
                dtype
            } else {
                DType::F32
            };
            let index = if len > 1 << 24 {
                DType::I64
            } else {
                DType::I32
            };
            (wide, Tensor::iota(engine, len, index)?.cast(wide)?)
        } else {
            // Computed modulo the width, so that no intermediate has to fit.
            let index = if len as u64 > i32::MAX as u64 {
                DType::I64
            } else {
                DType::I32
            };
            (dtype, Tensor::iota(engine, len, index)?.cast(dtype)?)
        };
        let step = Tensor::full_bits(engine, &[len], step.bits(compute), compute)?;
        let start = Tensor::full_bits(engine, &[len], start.bits(compute), compute)?;
        index.mul(step)?.add(start)?.cast(dtype)
    }

    /// `steps` numbers from `start` to `stop`, both included, shape `[steps]`.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn linspace(
        engine: &Engine,
        start: f64,
        stop: f64,
        steps: usize,
        dtype: DType,
    ) -> Result<Tensor> {
        let wide = if dtype == DType::F64 {
            dtype
        } else {
            DType::F32
        };
        let index = Tensor::iota(engine, steps, DType::I64)?;
        let last = steps.saturating_sub(1);
        let delta = (stop - start) / last.max(1) as f64;
        // The upper half counts from the end, so that the last element is `stop` exactly.
        let low = index.cast(wide)?.mul(delta)?.add(start)?;
        let high = index.sub(last as i64)?.cast(wide)?.mul(delta)?.add(stop)?;
        let low_half = index.lt((steps / 2).max(1) as i64)?;
        low_half.select(&low, &high)?.cast(dtype)
    }

    /// The matrix `[rows, columns]` with ones on the diagonal.
    ///
    /// # Errors
    /// More rows or columns than `i32` counts.
    pub fn eye(engine: &Engine, rows: usize, columns: usize, dtype: DType) -> Result<Tensor> {
        let row = Tensor::iota(engine, rows, DType::I32)?.reshape(&[rows, 1])?;
        let column = Tensor::iota(engine, columns, DType::I32)?;
        row.eq(&column)?.cast(dtype)
    }

    /// The positions along an axis of this tensor's shape, as `I32`.
    ///
    /// # Errors
    /// An axis that the tensor lacks.
    pub fn positions(&self, along: isize) -> Result<Tensor> {
        let along = axis("positions", along, self.rank())?;
        let mut shape = vec![1; self.rank()];
        shape[along] = self.shape()[along];
        Tensor::iota(self.engine(), shape[along], DType::I32)?
            .reshape(&shape)?
            .expand(self.shape())
    }

    /// The lower triangle of the last two axes: elements with `column - row <= diagonal`, else 0.
    ///
    /// # Errors
    /// Fewer than two axes.
    pub fn tril(&self, diagonal: i64) -> Result<Tensor> {
        let keep = self.above("tril", diagonal)?.not()?;
        keep.select(self, &self.zeros_like()?)
    }

    /// The upper triangle of the last two axes: elements with `column - row >= diagonal`, else 0.
    ///
    /// # Errors
    /// Fewer than two axes.
    pub fn triu(&self, diagonal: i64) -> Result<Tensor> {
        let keep = self.above("triu", diagonal.saturating_sub(1))?;
        keep.select(self, &self.zeros_like()?)
    }

    /// Where `column - row > diagonal`.
    fn above(&self, op: &'static str, diagonal: i64) -> Result<Tensor> {
        if self.rank() < 2 {
            return shape_error(
                op,
                format!("expected at least two axes, found {:?}", self.shape()),
            );
        }
        let row = self.positions(-2)?.cast(DType::I64)?;
        let column = self.positions(-1)?.cast(DType::I64)?;
        column.sub(&row)?.gt(diagonal)
    }
}
