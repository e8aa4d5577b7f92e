//! Normalizations. All are computed in at least `f32` and rounded back to the input's type.

use super::conv::per_channel;
use super::shape_error;
use crate::error::Result;
use crate::graph::Tensor;

impl Tensor {
    /// The scale and shift that are given, in the type of the tensor.
    fn affine(&self, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
        let scaled = match weight {
            Some(weight) => self.mul(&weight.cast(self.dtype())?)?,
            None => self.clone(),
        };
        match bias {
            Some(bias) => scaled.add(&bias.cast(self.dtype())?),
            None => Ok(scaled),
        }
    }

    /// Mean 0 and variance 1 over axes: `(x - mean) / sqrt(var + eps)`.
    ///
    /// # Errors
    /// Axes that the tensor lacks.
    pub fn standardize(&self, along: &[isize], eps: f64) -> Result<Tensor> {
        self.in_f32(|x| {
            let d = x.sub(&x.mean(along, true)?)?;
            let var = d.square()?.mean(along, true)?;
            d.mul(&var.add(eps)?.rsqrt()?)
        })
    }

    /// Layer normalization over the last `axes` axes; weight and bias have their shape.
    ///
    /// # Errors
    /// More axes than there are; a weight or bias that does not broadcast.
    pub fn layer_norm(
        &self,
        axes: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        if axes == 0 || axes > self.rank() {
            return shape_error(
                "layer_norm",
                format!("cannot normalize {axes} axes of {:?}", self.shape()),
            );
        }
        let along: Vec<isize> = (1..=axes as isize).map(|i| -i).collect();
        self.in_f32(|x| x.standardize(&along, eps)?.affine(weight, bias))
    }

    /// Root mean square normalization over the last axis: `x / sqrt(mean(x^2) + eps) * weight`.
    ///
    /// # Errors
    /// No axes; a weight that does not broadcast.
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.in_f32(|x| {
            let scale = x.square()?.mean(&[-1], true)?.add(eps)?.rsqrt()?;
            x.mul(&scale)?.affine(weight, None)
        })
    }

    /// Normalization of `[n, c, s..]` over groups of channels and all of `s..`; weight and bias are
    /// `[c]`.
    ///
    /// # Errors
    /// Groups that do not divide the channels.
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let c = self.shape().get(1).copied().unwrap_or(0);
        if self.rank() < 2 || groups == 0 || c % groups != 0 {
            return shape_error(
                "group_norm",
                format!(
                    "{groups} groups of {:?}: expected [n, c, s..] with groups dividing c",
                    self.shape()
                ),
            );
        }
        let channel = |v: Option<&Tensor>| {
            v.map(|v| per_channel("group_norm", v, c, self.rank()))
                .transpose()
        };
        let (weight, bias) = (channel(weight)?, channel(bias)?);
        let n = self.shape()[0];
        let rest: usize = self.shape()[1..].iter().product();
        self.in_f32(|x| {
            x.reshape(&[n, groups, rest / groups])?
                .standardize(&[-1], eps)?
                .reshape(self.shape())?
                .affine(weight.as_ref(), bias.as_ref())
        })
    }

    /// Normalization of each channel of each sample of `[n, c, s..]`.
    ///
    /// # Errors
    /// Fewer than two axes; weight or bias not `[c]`.
    pub fn instance_norm(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let c = self.shape().get(1).copied().unwrap_or(0);
        self.group_norm(c.max(1), weight, bias, eps)
    }

    /// `(x - mean) / sqrt(var + eps) * weight + bias` with one value each per channel (axis 1).
    ///
    /// # Errors
    /// Vectors that are not `[c]`.
    pub fn batch_norm(
        &self,
        mean: &Tensor,
        var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor> {
        let c = self.shape().get(1).copied().unwrap_or(0);
        if self.rank() < 2 {
            return shape_error(
                "batch_norm",
                format!("expected [n, c, s..], found {:?}", self.shape()),
            );
        }
        let channel = |v: &Tensor| per_channel("batch_norm", v, c, self.rank());
        let (mean, var) = (channel(mean)?, channel(var)?);
        let weight = weight.map(channel).transpose()?;
        let bias = bias.map(channel).transpose()?;
        self.in_f32(|x| {
            let scale = var.cast(x.dtype())?.add(eps)?.rsqrt()?;
            x.sub(&mean.cast(x.dtype())?)?
                .mul(&scale)?
                .affine(weight.as_ref(), bias.as_ref())
        })
    }

    /// Local response normalization across `size` neighbouring channels:
    /// `x / (k + alpha / size * sum of x^2) ^ beta`.
    ///
    /// # Errors
    /// Fewer than two axes; a zero size.
    pub fn local_response_norm(
        &self,
        size: usize,
        alpha: f64,
        beta: f64,
        k: f64,
    ) -> Result<Tensor> {
        if self.rank() < 2 || size == 0 {
            return shape_error(
                "local_response_norm",
                format!("size {size} of {:?}: expected [n, c, s..]", self.shape()),
            );
        }
        self.in_f32(|x| {
            let mut lo = vec![0; x.rank()];
            lo[1] = (size - 1) / 2;
            let mut shape = x.shape().to_vec();
            shape[1] = shape[1].saturating_add(size - 1);
            let near = x.square()?.pad_to(&lo, &shape, 0)?.windows(1, size, 1, 1)?;
            let sum = near.sum(&[-1], false)?;
            x.div(&sum.mul(alpha / size as f64)?.add(k)?.pow(beta)?)
        })
    }
}
