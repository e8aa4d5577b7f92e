//! Normalization layers.

use codegen::DType;

use super::{Module, Parameter, named};
use crate::error::Result;
use crate::graph::{Engine, Tensor};
use crate::ops::shape_error;

/// A scale of ones and a shift of zeros.
fn affine(engine: &Engine, shape: &[usize], dtype: DType) -> Result<(Parameter, Parameter)> {
    Ok((
        Parameter::new(Tensor::ones(engine, shape, dtype)?),
        Parameter::new(Tensor::zeros(engine, shape, dtype)?),
    ))
}

/// The normalized axes are those of the weight: one of size 1 would broadcast.
fn last_axes(op: &'static str, own: &[usize], x: &Tensor) -> Result<()> {
    if !own.is_empty() && x.shape().ends_with(own) {
        return Ok(());
    }
    let sizes: Vec<String> = own.iter().map(usize::to_string).collect();
    shape_error(
        op,
        format!(
            "its weight has shape {own:?}; expected [.., {}], found {:?}",
            sizes.join(", "),
            x.shape()
        ),
    )
}

macro_rules! weight_and_bias {
    ($name:ident) => {
        impl Module for $name {
            fn parameters(&self) -> Vec<(String, Parameter)> {
                named([("weight", Some(&self.weight)), ("bias", Some(&self.bias))])
            }
        }
    };
}

/// Layer normalization over the last axes.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Scale, of the shape of the normalized axes.
    pub weight: Parameter,
    /// Shift, of the same shape.
    pub bias: Parameter,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Over the last axes, which have `shape`.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn new(engine: &Engine, shape: &[usize], eps: f64, dtype: DType) -> Result<LayerNorm> {
        let (weight, bias) = affine(engine, shape, dtype)?;
        Ok(LayerNorm { weight, bias, eps })
    }

    /// The same shape.
    ///
    /// # Errors
    /// Last axes of another shape; a bias of another shape than the weight.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.get();
        let bias = self.bias.like();
        if bias.shape() != weight.shape() {
            return shape_error(
                "LayerNorm",
                format!(
                    "its weight is {:?}, its bias {:?}; both must have the shape of the normalized axes",
                    weight.shape(),
                    bias.shape()
                ),
            );
        }
        last_axes("LayerNorm", weight.shape(), x)?;
        x.layer_norm(
            weight.rank(),
            Some(&weight),
            Some(&self.bias.get()),
            self.eps,
        )
    }
}
weight_and_bias!(LayerNorm);

/// Group normalization of `[n, c, s..]`.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// Scale, `[c]`.
    pub weight: Parameter,
    /// Shift, `[c]`.
    pub bias: Parameter,
    /// Groups of channels.
    pub groups: usize,
    /// Added to the variance.
    pub eps: f64,
}

impl GroupNorm {
    /// Of `channels` in `groups`.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn new(
        engine: &Engine,
        groups: usize,
        channels: usize,
        eps: f64,
        dtype: DType,
    ) -> Result<GroupNorm> {
        let (weight, bias) = affine(engine, &[channels], dtype)?;
        Ok(GroupNorm {
            weight,
            bias,
            groups,
            eps,
        })
    }

    /// The same shape.
    ///
    /// # Errors
    /// Other channels; groups that do not divide them.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.get(), self.bias.get());
        x.group_norm(self.groups, Some(&weight), Some(&bias), self.eps)
    }
}
weight_and_bias!(GroupNorm);

/// Instance normalization of `[n, c, s..]`.
#[derive(Clone, Debug)]
pub struct InstanceNorm {
    /// Scale, `[c]`.
    pub weight: Parameter,
    /// Shift, `[c]`.
    pub bias: Parameter,
    /// Added to the variance.
    pub eps: f64,
}

impl InstanceNorm {
    /// Of `channels`.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn new(engine: &Engine, channels: usize, eps: f64, dtype: DType) -> Result<InstanceNorm> {
        let (weight, bias) = affine(engine, &[channels], dtype)?;
        Ok(InstanceNorm { weight, bias, eps })
    }

    /// The same shape.
    ///
    /// # Errors
    /// Other channels.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.instance_norm(Some(&self.weight.get()), Some(&self.bias.get()), self.eps)
    }
}
weight_and_bias!(InstanceNorm);

/// Root mean square normalization over the last axis.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// Scale, of the size of the last axis.
    pub weight: Parameter,
    /// Added to the mean square.
    pub eps: f64,
}

impl RmsNorm {
    /// Over a last axis of `width`.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn new(engine: &Engine, width: usize, eps: f64, dtype: DType) -> Result<RmsNorm> {
        let weight = Parameter::new(Tensor::ones(engine, &[width], dtype)?);
        Ok(RmsNorm { weight, eps })
    }

    /// The same shape.
    ///
    /// # Errors
    /// A last axis of another size; a weight of another rank.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.get();
        if weight.rank() != 1 {
            return shape_error(
                "RmsNorm",
                format!(
                    "its weight is {:?} for {:?}; expected [width], the size of the last axis",
                    weight.shape(),
                    x.shape()
                ),
            );
        }
        last_axes("RmsNorm", weight.shape(), x)?;
        x.rms_norm(Some(&weight), self.eps)
    }
}

impl Module for RmsNorm {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        named([("weight", Some(&self.weight))])
    }
}

/// Batch normalization of `[n, c, s..]`.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// Scale, `[c]`.
    pub weight: Parameter,
    /// Shift, `[c]`.
    pub bias: Parameter,
    /// Running mean, `[c]`; not trained.
    pub running_mean: Parameter,
    /// Running unbiased variance, `[c]`; not trained.
    pub running_var: Parameter,
    /// Batches seen in training, an `I64`.
    pub num_batches_tracked: Parameter,
    /// Added to the variance.
    pub eps: f64,
    /// Share of a new batch in the running statistics.
    pub momentum: f64,
}

impl BatchNorm {
    /// Of `channels`, with eps 1e-5 and momentum 0.1.
    ///
    /// # Errors
    /// A shape that exceeds the address space.
    pub fn new(engine: &Engine, channels: usize, dtype: DType) -> Result<BatchNorm> {
        let (weight, bias) = affine(engine, &[channels], dtype)?;
        let (mean, var) = (
            Tensor::zeros(engine, &[channels], dtype)?,
            Tensor::ones(engine, &[channels], dtype)?,
        );
        Ok(BatchNorm {
            weight,
            bias,
            running_mean: Parameter::buffer(mean),
            running_var: Parameter::buffer(var),
            num_batches_tracked: Parameter::buffer(Tensor::from_slice(engine, &[0i64], &[])?),
            eps: 1e-5,
            momentum: 0.1,
        })
    }

    /// The same shape. In training it normalizes with the batch statistics and updates the running ones lazily:
    /// commit them with the weights.
    ///
    /// # Errors
    /// Other channels; in training, one value per channel, which has no variance.
    pub fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let weight = self.weight.like();
        let &[channels] = weight.shape() else {
            return shape_error(
                "BatchNorm",
                format!(
                    "its weight is {:?}; expected [c], one value per channel",
                    weight.shape()
                ),
            );
        };
        if x.shape().get(1) != Some(&channels) {
            return shape_error(
                "BatchNorm",
                format!("expected [n, {channels}, ..], found {:?}", x.shape()),
            );
        }
        if training && x.numel() == channels {
            return shape_error(
                "BatchNorm",
                format!(
                    "{:?} has one value per channel, so no variance; use a larger batch, or call it \
                     with `training` false",
                    x.shape()
                ),
            );
        }
        let (weight, bias) = (self.weight.get(), self.bias.get());
        let (mean, var) = if training {
            let axes: Vec<isize> = (0..x.rank() as isize).filter(|&a| a != 1).collect();
            let wide = x.cast(x.dtype().accumulator())?;
            let (var, mean) = wide.var_mean(&axes, 0.0, false)?;
            let n: usize = x.numel() / x.shape().get(1).copied().unwrap_or(1).max(1);
            let unbiased = var.mul(n as f64 / n.saturating_sub(1).max(1) as f64)?;
            self.track(&self.running_mean, &mean)?;
            self.track(&self.running_var, &unbiased)?;
            let seen = &self.num_batches_tracked;
            seen.set(seen.get().add(1)?)?;
            (mean, var)
        } else {
            (self.running_mean.get(), self.running_var.get())
        };
        x.batch_norm(&mean, &var, Some(&weight), Some(&bias), self.eps)
    }

    fn track(&self, running: &Parameter, new: &Tensor) -> Result<()> {
        let old = running.get();
        let new = new.detach()?.cast(old.dtype())?;
        running.set(old.lerp(&new, self.momentum)?)
    }
}

impl Module for BatchNorm {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        named([
            ("weight", Some(&self.weight)),
            ("bias", Some(&self.bias)),
            ("running_mean", Some(&self.running_mean)),
            ("running_var", Some(&self.running_var)),
            ("num_batches_tracked", Some(&self.num_batches_tracked)),
        ])
    }
}
