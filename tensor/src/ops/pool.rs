//! Pooling: windows and a reduction. Tensors are `[n, c, s..]`.

use codegen::DType;

use super::conv::{ConvParams, spatial};
use super::shape_error;
use crate::element::Scalar;
use crate::error::Result;
use crate::graph::{ScatterMode, Tensor};
use crate::ops::movement::PadMode;

/// The geometry of one pooling: padding on each side (with what `ceil` adds), strides, dilations.
struct Pooling {
    stride: Vec<usize>,
    padding: Vec<(usize, usize)>,
    /// Padding on the far side that only `ceil` asked for.
    extra: Vec<usize>,
    dilation: Vec<usize>,
}

fn geometry(
    op: &'static str,
    x: &Tensor,
    kernel: &[usize],
    sliding: &ConvParams,
    ceil: bool,
) -> Result<Pooling> {
    if x.rank() < 3 || kernel.len() != x.rank() - 2 || kernel.contains(&0) {
        return shape_error(
            op,
            format!(
                "kernel {kernel:?} for {:?}: expected [n, c, s..] and k..",
                x.shape()
            ),
        );
    }
    let ConvParams {
        stride,
        padding,
        dilation,
    } = sliding.resolve(op, kernel)?;
    let mut extra = vec![0; kernel.len()];
    for (i, extra) in extra.iter_mut().enumerate() {
        let len = x.shape()[2 + i] + padding[i].0 + padding[i].1;
        let span = dilation[i].saturating_mul(kernel[i] - 1).saturating_add(1);
        if !ceil || span > len {
            continue;
        }
        let rest = (len - span) % stride[i];
        // One more window, if it starts within the input or its left padding.
        let start = (len - span - rest).saturating_add(stride[i]);
        if rest != 0 && start < x.shape()[2 + i] + padding[i].0 {
            *extra = start + span - len;
        }
    }
    Ok(Pooling {
        stride,
        padding,
        extra,
        dilation,
    })
}

impl Pooling {
    /// The windows of the padded tensor, `[n, c, o.., k..]`.
    fn windows(&self, x: &Tensor, kernel: &[usize], fill: Scalar, padded: bool) -> Result<Tensor> {
        let amounts: Vec<(usize, usize)> = self
            .padding
            .iter()
            .zip(&self.extra)
            .map(|(&(a, b), &extra)| if padded { (a, b + extra) } else { (0, extra) })
            .collect();
        let mut x = x.pad(&spatial(&amounts), PadMode::Constant(fill))?;
        for (i, &k) in kernel.iter().enumerate() {
            x = x.windows(2 + i, k, self.stride[i], self.dilation[i])?;
        }
        Ok(x)
    }
}

fn kernel_axes(rank: usize) -> Vec<isize> {
    (0..rank as isize - 2).map(|i| -1 - i).collect()
}

/// What loses against every value of the type.
fn lowest(dtype: DType) -> Scalar {
    if dtype == DType::F8E4M3 {
        // The type has no infinity.
        Scalar::Float(-448.0)
    } else if dtype.is_float() {
        Scalar::Float(f64::NEG_INFINITY)
    } else {
        let (low, _) = codegen::interp::scalar::int_limits(dtype);
        Scalar::Int(low as i64)
    }
}

impl Tensor {
    /// The largest element of each window. `ceil` adds a partial window at the end. The gradient is split evenly
    /// among equals.
    ///
    /// # Errors
    /// A kernel that does not fit the shape.
    pub fn max_pool(&self, kernel: &[usize], sliding: &ConvParams, ceil: bool) -> Result<Tensor> {
        geometry("max_pool", self, kernel, sliding, ceil)?
            .windows(self, kernel, lowest(self.dtype()), true)?
            .max(&kernel_axes(self.rank()), false)
    }

    /// [`Tensor::max_pool`] and, as `I32`, the position of each largest element in its spatial plane
    /// (row-major over `s..`).
    ///
    /// # Errors
    /// As [`Tensor::max_pool`].
    pub fn max_pool_indices(
        &self,
        kernel: &[usize],
        sliding: &ConvParams,
        ceil: bool,
    ) -> Result<(Tensor, Tensor)> {
        let g = geometry("max_pool", self, kernel, sliding, ceil)?;
        let plane: usize = self.shape()[2..].iter().product();
        let numbers = Tensor::iota(self.engine(), plane, DType::I32)?
            .reshape(&[&[1, 1], &self.shape()[2..]].concat())?
            .expand(self.shape())?;
        let values = g.windows(self, kernel, lowest(self.dtype()), true)?;
        // -1 marks padding, so that it never wins against an element of the same value.
        let numbers = g.windows(&numbers, kernel, Scalar::Int(-1), true)?;
        let first = self.rank() as isize;
        let values = values.flatten(first, -1)?;
        let numbers = numbers.flatten(first, -1)?;
        let best = values.max(&[-1], true)?;
        let found = values.eq(&best)?.bitor(&values.isnan()?)?;
        let found = found.bitand(&numbers.ge(0)?)?;
        // The smallest position among the largest elements.
        let limit = numbers.full_like(i64::from(i32::MAX))?;
        let position = found.select(&numbers, &limit)?.min(&[-1], false)?;
        Ok((self.max_pool(kernel, sliding, ceil)?, position))
    }

    /// The inverse of [`Tensor::max_pool_indices`]: elements at their positions in planes of shape
    /// `spatial_shape`, zeros elsewhere.
    ///
    /// # Errors
    /// Indices of another shape or no integers.
    pub fn max_unpool(&self, indices: &Tensor, spatial_shape: &[usize]) -> Result<Tensor> {
        if self.rank() < 3 || indices.shape() != self.shape() {
            return shape_error(
                "max_unpool",
                format!(
                    "values {:?}, indices {:?}: expected equal shapes [n, c, s..]",
                    self.shape(),
                    indices.shape()
                ),
            );
        }
        let outer = &self.shape()[..2];
        let plane = super::check_size("max_unpool", spatial_shape, self.dtype())?;
        let zeros = Tensor::zeros(self.engine(), &[outer, &[plane]].concat(), self.dtype())?;
        zeros
            .scattered(
                "max_unpool",
                2,
                &indices.flatten(2, -1)?,
                &self.flatten(2, -1)?,
                ScatterMode::Set,
            )?
            .reshape(&[outer, spatial_shape].concat())
    }

    /// The mean of each window. Padding counts as zeros if `count_padding`, else it does not count;
    /// what `ceil` adds never counts.
    ///
    /// # Errors
    /// A kernel that does not fit the shape.
    pub fn avg_pool(
        &self,
        kernel: &[usize],
        sliding: &ConvParams,
        ceil: bool,
        count_padding: bool,
    ) -> Result<Tensor> {
        let g = geometry("avg_pool", self, kernel, sliding, ceil)?;
        let axes = kernel_axes(self.rank());
        self.in_f32(|x| {
            let sum = g
                .windows(x, kernel, Scalar::Int(0), true)?
                .sum(&axes, false)?;
            let size: usize = kernel.iter().product();
            let plain = g.extra.iter().all(|&e| e == 0);
            if plain && (count_padding || g.padding.iter().all(|&p| p == (0, 0))) {
                return sum.div(size as f64);
            }
            let ones = Tensor::ones(x.engine(), &[&[1, 1], &x.shape()[2..]].concat(), x.dtype())?;
            let count = if count_padding {
                let ones = ones.pad(&spatial(&g.padding), PadMode::Constant(1.into()))?;
                g.windows(&ones, kernel, Scalar::Int(0), false)?
            } else {
                g.windows(&ones, kernel, Scalar::Int(0), true)?
            };
            sum.div(&count.sum(&axes, false)?)
        })
    }

    /// The means of windows that divide each spatial axis into as many parts as `sizes` says, as evenly as they can: part
    /// i of an axis is from `floor(i len / size)` to `ceil((i + 1) len / size)`. `[n, c, s..]` to `[n, c, sizes..]`.
    ///
    /// # Errors
    /// Another number of sizes than spatial axes; a spatial axis without elements.
    pub fn adaptive_avg_pool(&self, sizes: &[usize]) -> Result<Tensor> {
        let axes = self.spatial_axes("adaptive_avg_pool")?;
        if axes.len() != sizes.len() || self.shape()[2..].contains(&0) {
            return shape_error(
                "adaptive_avg_pool",
                format!(
                    "{:?} to sizes {sizes:?}: expected [n, c, s..] and one size for each of s",
                    self.shape()
                ),
            );
        }
        self.in_f32(|x| {
            let mut x = x.clone();
            for (&along, &size) in axes.iter().zip(sizes) {
                x = x.parts_mean(along, size)?;
            }
            Ok(x)
        })
    }

    /// The means of as many parts of an axis as evenly long as they can be.
    fn parts_mean(&self, along: isize, size: usize) -> Result<Tensor> {
        let len = self.shape()[along as usize];
        let part = |i: usize| i * len / size..((i + 1) * len).div_ceil(size);
        let longest = (0..size).map(|i| part(i).len()).max().unwrap_or(0);
        let mut index = Vec::with_capacity(size * longest);
        let mut inside = Vec::with_capacity(size * longest);
        for i in 0..size {
            for k in 0..longest {
                let at = part(i).start + k;
                index.push(at.min(len - 1) as i64);
                inside.push(at < part(i).end);
            }
        }
        let engine = self.engine();
        let rest = vec![1; self.rank() - 1 - along as usize];
        let index = Tensor::from_slice(engine, &index, &[size, longest])?;
        let inside = Tensor::from_slice(engine, &inside, &[&[size, longest], &rest[..]].concat())?;
        let taken = inside.where_(&self.index_select(along, &index)?, 0)?;
        let count = inside.cast(self.dtype())?.sum(&[1], false)?;
        taken.sum(&[along + 1], false)?.div(&count)
    }

    /// The `p`-norm of each window.
    ///
    /// # Errors
    /// A kernel that does not fit the shape.
    pub fn lp_pool(
        &self,
        p: f64,
        kernel: &[usize],
        sliding: &ConvParams,
        ceil: bool,
    ) -> Result<Tensor> {
        let g = geometry("lp_pool", self, kernel, sliding, ceil)?;
        self.to_float()?.in_f32(|x| {
            g.windows(x, kernel, Scalar::Int(0), true)?
                .norm(p, &kernel_axes(self.rank()), false)
        })
    }

    /// The mean over all spatial axes, which stay with size 1.
    ///
    /// # Errors
    /// No spatial axes.
    pub fn global_avg_pool(&self) -> Result<Tensor> {
        self.mean(&self.spatial_axes("global_avg_pool")?, true)
    }

    /// The largest element over all spatial axes, which stay with size 1.
    ///
    /// # Errors
    /// No spatial axes.
    pub fn global_max_pool(&self) -> Result<Tensor> {
        self.max(&self.spatial_axes("global_max_pool")?, true)
    }

    fn spatial_axes(&self, op: &'static str) -> Result<Vec<isize>> {
        if self.rank() < 3 {
            return shape_error(
                op,
                format!("expected [n, c, s..], found {:?}", self.shape()),
            );
        }
        Ok((2..self.rank() as isize).collect())
    }
}
