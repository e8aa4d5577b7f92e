//! Attention.

use codegen::DType;

use super::{dtype_error, shape_error};
use crate::error::Result;
use crate::graph::Tensor;

/// Options of [`Tensor::attention`].
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// Floats, which are added to the scores, or `Bool`: where it is false the score is -inf. Broadcasts to
    /// `[.., heads, queries, keys]`.
    pub mask: Option<Tensor>,
    /// Query i sees key j only if `j <= i + (keys - queries)`: the last query sees all.
    pub causal: bool,
    /// Factor of the scores; default 1 / sqrt(width).
    pub scale: Option<f64>,
    /// Scores become `cap * tanh(score / cap)`.
    pub softcap: Option<f64>,
}

impl Tensor {
    /// Scaled dot-product attention: queries `[.., heads, q, width]`, keys `[.., kv_heads, k,
    /// width]`, values `[.., kv_heads, k, out]` give `[.., heads, q, out]`. With fewer key heads
    /// than heads, groups of neighbouring heads share one. Computed in at least `f32`. A query that
    /// sees no key gives 0.
    ///
    /// # Errors
    /// Incompatible shapes; head counts that do not divide; a mask of integers.
    pub fn attention(&self, key: &Tensor, value: &Tensor, options: &Attention) -> Result<Tensor> {
        let (q, k, v) = (self.shape(), key.shape(), value.shape());
        let fits = self.rank() >= 3
            && key.rank() == self.rank()
            && value.rank() == self.rank()
            && q[q.len() - 1] == k[k.len() - 1]
            && k[k.len() - 2] == v[v.len() - 2]
            && k[k.len() - 3] == v[v.len() - 3]
            && k[k.len() - 3] > 0
            && q[q.len() - 3] % k[k.len() - 3] == 0;
        if !fits {
            return shape_error(
                "attention",
                format!(
                    "queries {q:?}, keys {k:?}, values {v:?}: expected [.., heads, q, width], \
                     [.., kv_heads, k, width], [.., kv_heads, k, out] with kv_heads dividing heads"
                ),
            );
        }
        if let Some(mask) = &options.mask
            && mask.dtype().is_int()
        {
            return dtype_error(
                "attention",
                format!(
                    "expected a mask of bool (false hides a key) or floats (added to the scores), found \
                     {}; convert zeros and ones with `mask.ne(0)`",
                    mask.dtype()
                ),
            );
        }
        let result = self.dtype().promote(value.dtype());
        let wide = self
            .dtype()
            .promote(key.dtype())
            .promote(value.dtype())
            .promote(DType::F32)
            .accumulator();
        let group = q[q.len() - 3] / k[k.len() - 3];
        let shared = |t: &Tensor| t.repeat_interleave(group, -3);
        let scale = options
            .scale
            .unwrap_or(1.0 / (q[q.len() - 1] as f64).sqrt());
        let mut scores = self.matmul_in(&shared(key)?.t()?, wide)?.mul(scale)?;
        if let Some(cap) = options.softcap {
            scores = scores.div(cap)?.tanh()?.mul(cap)?;
        }
        let low = f64::NEG_INFINITY;
        if options.causal {
            let shift = k[k.len() - 2] as i64 - q[q.len() - 2] as i64;
            let last = scores.positions(-2)?.cast(DType::I64)?.add(shift)?;
            let hidden = scores.positions(-1)?.cast(DType::I64)?.gt(&last)?;
            scores = scores.masked_fill(&hidden, low)?;
        }
        if let Some(mask) = &options.mask {
            scores = if mask.dtype() == DType::Bool {
                scores.masked_fill(&mask.not()?, low)?
            } else {
                scores.add(mask)?
            };
        }
        let top = scores.max(&[-1], true)?.detach()?;
        let top = top.isinf()?.select(&top.zeros_like()?, &top)?;
        let weights = scores.sub(&top)?.exp()?;
        let sum = weights.sum(&[-1], true)?;
        let sum = sum.eq(0)?.select(&sum.ones_like()?, &sum)?;
        weights
            .div(&sum)?
            .matmul_in(&shared(value)?, wide)?
            .cast(result)
    }

    /// Rotary position embedding of `[.., positions, width]`: pairs of elements turned by the angles
    /// whose `cos` and `sin` are `[.., positions, width / 2]`. Pairs are neighbours if `interleaved`,
    /// else element i with element `i + width / 2`.
    ///
    /// # Errors
    /// An odd width; angles that do not broadcast.
    pub fn rotary(&self, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Result<Tensor> {
        let width = self.shape().last().copied().unwrap_or(0);
        if width == 0 || width % 2 != 0 {
            return shape_error(
                "rotary",
                format!("{:?}: the width must be even", self.shape()),
            );
        }
        let half = width / 2;
        let (a, b, join) = if interleaved {
            let pairs = self.unflatten(-1, &[half as isize, 2])?;
            (pairs.index(-1, 0)?, pairs.index(-1, 1)?, true)
        } else {
            (
                self.narrow(-1, 0, half)?,
                self.narrow(-1, half, half)?,
                false,
            )
        };
        let x = a.mul(cos)?.sub(&b.mul(sin)?)?;
        let y = a.mul(sin)?.add(&b.mul(cos)?)?;
        if join {
            Tensor::stack(&[&x, &y], -1)?.flatten(-2, -1)
        } else {
            Tensor::cat(&[&x, &y], -1)
        }
    }

    /// `cos` and `sin` of the rotary angles `position * base^(-2 i / width)`, each
    /// `[positions, width / 2]` in `f32`; this tensor holds the positions, `[n]`.
    ///
    /// # Errors
    /// Not one axis; an odd width, or one above 2^20.
    pub fn rotary_angles(&self, width: usize, base: f64) -> Result<(Tensor, Tensor)> {
        if self.rank() != 1 || width == 0 || !width.is_multiple_of(2) {
            return shape_error(
                "rotary_angles",
                format!(
                    "positions {:?}, width {width}: expected a vector and an even width",
                    self.shape()
                ),
            );
        }
        // The rates are a list on the host.
        if width > 1 << 20 {
            return shape_error(
                "rotary_angles",
                format!("width {width}: expected at most 1048576"),
            );
        }
        let rates: Vec<f32> = (0..width / 2)
            .map(|i| base.powf(-2.0 * i as f64 / width as f64) as f32)
            .collect();
        let rates = Tensor::from_slice(self.engine(), &rates, &[width / 2])?;
        let angles = self.cast(DType::F32)?.unsqueeze(1)?.mul(&rates)?;
        Ok((angles.cos()?, angles.sin()?))
    }
}
