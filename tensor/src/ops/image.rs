//! Resizing, and exchange between channels and space. Tensors are `[n, c, s..]`.

use super::shape_error;
use crate::error::Result;
use crate::graph::Tensor;

/// How [`Tensor::interpolate`] fills the new grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// The element at `floor(i * old / new)`.
    Nearest,
    /// The element nearest to the centre of the new one.
    NearestExact,
    /// A weighted mean of neighbours along each axis.
    Linear {
        /// Corners of both grids coincide; otherwise their edges do.
        align_corners: bool,
    },
}

impl Tensor {
    /// The spatial axes resized to `size`.
    ///
    /// # Errors
    /// Another number of sizes than spatial axes; an empty axis resized to something.
    pub fn interpolate(&self, size: &[usize], mode: Interpolation) -> Result<Tensor> {
        if self.rank() < 3 || size.len() != self.rank() - 2 {
            return shape_error(
                "interpolate",
                format!(
                    "{:?} to {size:?}: wants [n, c, s..] and one size per s",
                    self.shape()
                ),
            );
        }
        let mut x = self.clone();
        for (i, &new) in size.iter().enumerate() {
            let old = x.shape()[2 + i];
            if old == 0 && new > 0 {
                return shape_error(
                    "interpolate",
                    format!("{:?} has nothing to resize", x.shape()),
                );
            }
            if old != new {
                x = x.resize(2 + i, old, new, mode)?;
            }
        }
        Ok(x)
    }

    fn resize(&self, at: usize, old: usize, new: usize, mode: Interpolation) -> Result<Tensor> {
        let along = at as isize;
        let ratio = old as f64 / new as f64;
        let last = old.saturating_sub(1);
        let vector = |f: &dyn Fn(usize) -> i64| {
            let data: Vec<i64> = (0..new).map(f).collect();
            Tensor::from_slice(self.engine(), &data, &[new])
        };
        let whole =
            |i: usize| (((i as u128 * old as u128) / new.max(1) as u128) as usize).min(last);
        let align_corners = match mode {
            Interpolation::Nearest => {
                return self.index_select(along, &vector(&|i| whole(i) as i64)?);
            }
            Interpolation::NearestExact => {
                let centre = |i: usize| (((i as f64 + 0.5) * ratio) as usize).min(last) as i64;
                return self.index_select(along, &vector(&centre)?);
            }
            Interpolation::Linear { align_corners } => align_corners,
        };
        let place = |i: usize| {
            if align_corners {
                i as f64 * last as f64 / new.saturating_sub(1).max(1) as f64
            } else {
                ((i as f64 + 0.5) * ratio - 0.5).max(0.0)
            }
        };
        let low = vector(&|i| (place(i) as usize).min(last) as i64)?;
        let high = vector(&|i| (place(i) as usize + 1).min(last) as i64)?;
        let weights: Vec<f64> = (0..new).map(|i| place(i).fract()).collect();
        let mut line = vec![1; self.rank()];
        line[at] = new;
        let weights = Tensor::from_slice(self.engine(), &weights, &line)?;
        self.in_f32(|x| {
            let (a, b) = (x.index_select(along, &low)?, x.index_select(along, &high)?);
            a.lerp(&b, &weights.cast(x.dtype())?)
        })
    }

    /// Blocks of channels moved into space, 2-D: `[n, c * r * r, h, w]` gives `[n, c, h * r, w * r]`
    /// (also called pixel shuffle). With `block_first` the channel is the fastest of the three parts
    /// of the channel axis, else the slowest.
    ///
    /// # Errors
    /// Channels that `r * r` does not divide.
    pub fn depth_to_space(&self, r: usize, block_first: bool) -> Result<Tensor> {
        let &[n, c, h, w] = self.shape() else {
            return shape_error(
                "depth_to_space",
                format!("{:?} is not [n, c, h, w]", self.shape()),
            );
        };
        if r == 0 || r.checked_mul(r).is_none_or(|square| c % square != 0) {
            return shape_error(
                "depth_to_space",
                format!("{c} channels in blocks of {r} by {r}"),
            );
        }
        let inner = c / (r * r);
        let x = if block_first {
            self.reshape(&[n, r, r, inner, h, w])?
                .permute(&[0, 3, 4, 1, 5, 2])?
        } else {
            self.reshape(&[n, inner, r, r, h, w])?
                .permute(&[0, 1, 4, 2, 5, 3])?
        };
        x.reshape(&[n, inner, h * r, w * r])
    }

    /// Blocks of space moved into channels, 2-D: `[n, c, h * r, w * r]` gives
    /// `[n, r * r * c, h, w]`, with the channel as the fastest part of the channel axis if
    /// `block_first`, else the slowest.
    ///
    /// # Errors
    /// Sizes that `r` does not divide.
    pub fn space_to_depth(&self, r: usize, block_first: bool) -> Result<Tensor> {
        let &[n, c, h, w] = self.shape() else {
            return shape_error(
                "space_to_depth",
                format!("{:?} is not [n, c, h, w]", self.shape()),
            );
        };
        if r == 0 || h % r != 0 || w % r != 0 {
            return shape_error(
                "space_to_depth",
                format!("{h} by {w} in blocks of {r} by {r}"),
            );
        }
        let order: [usize; 6] = if block_first {
            [0, 3, 5, 1, 2, 4]
        } else {
            [0, 1, 3, 5, 2, 4]
        };
        self.reshape(&[n, c, h / r, r, w / r, r])?
            .permute(&order)?
            .reshape(&[n, c * r * r, h / r, w / r])
    }
}
