//! Convolution layers, of as many spatial axes as the kernel has sizes.

use codegen::DType;

use super::{Module, Parameter, init, named};
use crate::error::Result;
use crate::graph::Tensor;
use crate::ops::conv::ConvParams;
use crate::ops::random::Rng;
use crate::ops::shape_error;

/// A convolution of `[n, c_in, s..]`.
#[derive(Clone, Debug)]
pub struct Conv {
    /// `[c_out, c_in / groups, k..]`.
    pub weight: Parameter,
    /// `[c_out]`.
    pub bias: Option<Parameter>,
    /// Strides, padding and dilation.
    pub sliding: ConvParams,
    /// Groups of independent channels.
    pub groups: usize,
}

/// Channels of a convolution layer: in, out, and groups.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// Of the input.
    pub inputs: usize,
    /// Of the output.
    pub outputs: usize,
    /// Independent groups; divides both.
    pub groups: usize,
}

impl Channels {
    /// One group.
    pub fn new(inputs: usize, outputs: usize) -> Channels {
        Channels {
            inputs,
            outputs,
            groups: 1,
        }
    }

    fn check(&self, op: &'static str) -> Result<()> {
        let g = self.groups;
        if g == 0 || !self.inputs.is_multiple_of(g) || !self.outputs.is_multiple_of(g) {
            return shape_error(
                op,
                format!("{self:?}: groups must divide inputs and outputs"),
            );
        }
        Ok(())
    }
}

fn weights(
    rng: &mut Rng,
    shape: &[usize],
    outputs: usize,
    bias: bool,
    dtype: DType,
) -> Result<(Parameter, Option<Parameter>)> {
    let fan = shape[1..]
        .iter()
        .fold(1, |n: usize, &len| n.saturating_mul(len));
    let weight = Parameter::new(init::by_fan_in(rng, shape, fan, dtype)?);
    let bias = match bias {
        true => Some(Parameter::new(init::by_fan_in(
            rng,
            &[outputs],
            fan,
            dtype,
        )?)),
        false => None,
    };
    Ok((weight, bias))
}

impl Conv {
    /// A layer with weights uniform within `1 / sqrt(fan_in)`.
    ///
    /// # Errors
    /// Groups that do not divide the channels; a non-float type.
    pub fn new(
        rng: &mut Rng,
        channels: Channels,
        kernel: &[usize],
        sliding: ConvParams,
        bias: bool,
        dtype: DType,
    ) -> Result<Conv> {
        channels.check("Conv")?;
        let shape = [
            &[channels.outputs, channels.inputs / channels.groups],
            kernel,
        ]
        .concat();
        let (weight, bias) = weights(rng, &shape, channels.outputs, bias, dtype)?;
        Ok(Conv {
            weight,
            bias,
            sliding,
            groups: channels.groups,
        })
    }

    /// `[n, c_in, s..]` to `[n, c_out, o..]`, see [`Tensor::conv`].
    ///
    /// # Errors
    /// Incompatible shapes.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Parameter::get);
        x.conv(
            &self.weight.get(),
            bias.as_ref(),
            &self.sliding,
            self.groups,
        )
    }
}

impl Module for Conv {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        named([("weight", Some(&self.weight)), ("bias", self.bias.as_ref())])
    }
}

/// The transpose of a convolution of `[n, c_in, s..]`.
#[derive(Clone, Debug)]
pub struct ConvTranspose {
    /// `[c_in, c_out / groups, k..]`.
    pub weight: Parameter,
    /// `[c_out]`.
    pub bias: Option<Parameter>,
    /// Strides, padding and dilation.
    pub sliding: ConvParams,
    /// Added to the far side of each spatial axis of the result; may be empty.
    pub output_padding: Vec<usize>,
    /// Groups of independent channels.
    pub groups: usize,
}

impl ConvTranspose {
    /// A layer with weights uniform within `1 / sqrt(c_out / groups * k)`.
    ///
    /// # Errors
    /// Groups that do not divide the channels; a non-float type.
    pub fn new(
        rng: &mut Rng,
        channels: Channels,
        kernel: &[usize],
        sliding: ConvParams,
        bias: bool,
        dtype: DType,
    ) -> Result<ConvTranspose> {
        channels.check("ConvTranspose")?;
        let shape = [
            &[channels.inputs, channels.outputs / channels.groups],
            kernel,
        ]
        .concat();
        let (weight, bias) = weights(rng, &shape, channels.outputs, bias, dtype)?;
        Ok(ConvTranspose {
            weight,
            bias,
            sliding,
            output_padding: Vec::new(),
            groups: channels.groups,
        })
    }

    /// `[n, c_in, s..]` to `[n, c_out, o..]`, see [`Tensor::conv_transpose`].
    ///
    /// # Errors
    /// Incompatible shapes.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Parameter::get);
        x.conv_transpose(
            &self.weight.get(),
            bias.as_ref(),
            &self.sliding,
            &self.output_padding,
            self.groups,
        )
    }
}

impl Module for ConvTranspose {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        named([("weight", Some(&self.weight)), ("bias", self.bias.as_ref())])
    }
}
