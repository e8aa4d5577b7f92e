//! Resizing, and moves between channels and space. Tensors are `[n, c, s..]`.

use codegen::DType;

use super::shape_error;
use crate::doubles::widest;
use crate::error::Result;
use crate::graph::{Engine, Tensor};

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

/// Positions of a new grid in an old one. Lists of them are made on the host, or in the graph where they
/// are long.
struct Grid<'a> {
    engine: &'a Engine,
    old: usize,
    new: usize,
}

impl Grid<'_> {
    /// Elements from which a list of positions is part of the graph.
    const LONG: usize = 1 << 20;

    fn last(&self) -> usize {
        self.old.saturating_sub(1)
    }

    /// `0..new`, where the list is long, and the device has what places are computed in.
    fn counted(&self) -> Result<Option<Tensor>> {
        if self.new < Self::LONG || widest(self.engine) != DType::F64 {
            return Ok(None);
        }
        Tensor::iota(self.engine, self.new, DType::I64).map(Some)
    }

    fn listed(&self, f: impl Fn(usize) -> i64) -> Result<Tensor> {
        let data: Vec<i64> = (0..self.new).map(f).collect();
        Tensor::from_slice(self.engine, &data, &[self.new])
    }

    /// `floor(i * old / new)`.
    fn floor(&self) -> Result<Tensor> {
        let (old, new, last) = (self.old as u128, self.new.max(1) as u128, self.last());
        let Some(i) = self.counted()? else {
            return self.listed(|i| ((i as u128 * old / new) as usize).min(last) as i64);
        };
        // i * old in two parts of the ratio, neither of which overflows as long as the tensors fit.
        let (whole, part) = (old / new, old % new);
        let rest = match part.checked_mul(new) {
            Some(most) if most <= i64::MAX as u128 => i.mul(part as i64)?.floor_div(new as i64)?,
            _ => (i.cast(DType::F64)?)
                .mul(part as f64 / new as f64)?
                .cast(DType::I64)?,
        };
        i.mul(whole as i64)?.add(&rest)?.minimum(last as i64)
    }

    /// The element nearest to the centre of each new one.
    fn centre(&self) -> Result<Tensor> {
        let (ratio, last) = (self.old as f64 / self.new as f64, self.last());
        let Some(i) = self.counted()? else {
            return self.listed(|i| (((i as f64 + 0.5) * ratio) as usize).min(last) as i64);
        };
        let place = i.cast(DType::F64)?.add(0.5)?.mul(ratio)?;
        place.cast(DType::I64)?.minimum(last as i64)
    }

    /// The neighbours of each new element, and the weight of the second, `wide` for elements of `f64`.
    fn between(&self, align_corners: bool, wide: bool) -> Result<(Tensor, Tensor, Tensor)> {
        let (last, steps) = (self.last(), self.new.saturating_sub(1).max(1) as f64);
        let ratio = self.old as f64 / self.new as f64;
        let Some(i) = self.counted()? else {
            let place = |i: usize| match align_corners {
                true => i as f64 * last as f64 / steps,
                false => ((i as f64 + 0.5) * ratio - 0.5).max(0.0),
            };
            let weights = (0..self.new).map(|i| place(i).fract());
            // Not every device has doubles.
            let weights = match wide {
                true => {
                    let all: Vec<f64> = weights.collect();
                    Tensor::from_slice(self.engine, &all, &[self.new])
                }
                false => {
                    let all: Vec<f32> = weights.map(|weight| weight as f32).collect();
                    Tensor::from_slice(self.engine, &all, &[self.new])
                }
            };
            return Ok((
                self.listed(|i| (place(i) as usize).min(last) as i64)?,
                self.listed(|i| (place(i) as usize + 1).min(last) as i64)?,
                weights?,
            ));
        };
        let i = i.cast(DType::F64)?;
        let place = match align_corners {
            true => i.mul(last as f64)?.div(steps)?,
            false => i.add(0.5)?.mul(ratio)?.sub(0.5)?.maximum(0.0)?,
        };
        let low = place.cast(DType::I64)?;
        Ok((
            low.minimum(last as i64)?,
            low.add(1)?.minimum(last as i64)?,
            place.sub(&place.floor()?)?,
        ))
    }
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
                    "{:?} to {size:?}: expected [n, c, s..] and one size per s",
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
                    format!("cannot resize the empty {:?}", x.shape()),
                );
            }
            if old != new {
                x = x.resize(2 + i, old, new, mode)?;
            }
        }
        Ok(x)
    }

    fn resize(&self, at: usize, old: usize, new: usize, mode: Interpolation) -> Result<Tensor> {
        let mut shape = self.shape().to_vec();
        shape[at] = new;
        super::check_size("interpolate", &shape, self.dtype())?;
        let grid = Grid {
            engine: self.engine(),
            old,
            new,
        };
        let align_corners = match mode {
            Interpolation::Nearest => return self.rows(at, &grid.floor()?),
            Interpolation::NearestExact => return self.rows(at, &grid.centre()?),
            Interpolation::Linear { align_corners } => align_corners,
        };
        let (low, high, weights) = grid.between(align_corners, self.dtype() == DType::F64)?;
        let mut line = vec![1; self.rank()];
        line[at] = new;
        let weights = weights.reshape(&line)?;
        self.in_f32(|x| {
            let (a, b) = (x.rows(at, &low)?, x.rows(at, &high)?);
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
                format!("expected [n, c, h, w], found {:?}", self.shape()),
            );
        };
        if r == 0 || r.checked_mul(r).is_none_or(|square| c % square != 0) {
            return shape_error(
                "depth_to_space",
                format!("{c} channels do not divide into blocks of {r} by {r}"),
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
                format!("expected [n, c, h, w], found {:?}", self.shape()),
            );
        };
        if r == 0 || h % r != 0 || w % r != 0 {
            return shape_error(
                "space_to_depth",
                format!("{h} by {w} does not divide into blocks of {r} by {r}"),
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
