//! The fully connected layer.

use codegen::DType;

use super::{Module, Parameter, init, named};
use crate::error::Result;
use crate::graph::Tensor;
use crate::ops::random::Rng;
use crate::ops::shape_error;

/// `x weight^T + bias`, from `[.., in]` to `[.., out]`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Parameter,
    /// `[out]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// A layer with weights uniform within `1 / sqrt(in)`.
    ///
    /// # Errors
    /// A non-float type.
    pub fn new(
        rng: &mut Rng,
        inputs: usize,
        outputs: usize,
        bias: bool,
        dtype: DType,
    ) -> Result<Linear> {
        let weight = init::by_fan_in(rng, &[outputs, inputs], inputs, dtype)?;
        let bias = match bias {
            true => Some(init::by_fan_in(rng, &[outputs], inputs, dtype)?),
            false => None,
        };
        Ok(Linear {
            weight: Parameter::new(weight),
            bias: bias.map(Parameter::new),
        })
    }

    /// `[.., in]` to `[.., out]`.
    ///
    /// # Errors
    /// Another last size than `in`; a weight that is not `[out, in]`, or a bias that is not `[out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.like();
        let &[out, own] = weight.shape() else {
            return shape_error(
                "Linear",
                format!(
                    "its weight has shape {:?}; expected [out, in], as in PyTorch",
                    weight.shape()
                ),
            );
        };
        if let Some(bias) = self.bias.as_ref().map(Parameter::like)
            && bias.shape() != [out]
        {
            return shape_error(
                "Linear",
                format!(
                    "its bias has shape {:?}; with a weight {:?} expected [{out}]",
                    bias.shape(),
                    weight.shape()
                ),
            );
        }
        if x.shape().last() != Some(&own) {
            return shape_error(
                "Linear",
                format!("expected [.., {own}], found {:?}", x.shape()),
            );
        }
        let bias = self.bias.as_ref().map(Parameter::get);
        x.linear(&self.weight.get(), bias.as_ref())
    }
}

impl Module for Linear {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        named([("weight", Some(&self.weight)), ("bias", self.bias.as_ref())])
    }
}
