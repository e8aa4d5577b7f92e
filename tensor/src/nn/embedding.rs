//! Embedding and dropout.

use codegen::DType;

use super::{Module, Parameter, named};
use crate::error::Result;
use crate::graph::Tensor;
use crate::ops::random::Rng;

/// A table of vectors, looked up by integers.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[entries, width]`.
    pub weight: Parameter,
}

impl Embedding {
    /// A table with normal entries.
    ///
    /// # Errors
    /// A non-float type.
    pub fn new(rng: &mut Rng, entries: usize, width: usize, dtype: DType) -> Result<Embedding> {
        let weight = Parameter::new(rng.randn(&[entries, width], dtype)?);
        Ok(Embedding { weight })
    }

    /// Shape of `index`, then `width`.
    ///
    /// # Errors
    /// A non-integer index.
    pub fn forward(&self, index: &Tensor) -> Result<Tensor> {
        self.weight.get().embedding(index)
    }
}

impl Module for Embedding {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        named([("weight", Some(&self.weight))])
    }
}

/// Sets elements to 0 at random in training.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// Probability of 0.
    pub p: f64,
}

impl Dropout {
    /// The tensor itself outside of training, else see [`Rng::dropout`].
    ///
    /// # Errors
    /// A probability that is not in `0..=1`.
    pub fn forward(&self, x: &Tensor, rng: Option<&mut Rng>) -> Result<Tensor> {
        match rng {
            Some(rng) => rng.dropout(x, self.p),
            None => Ok(x.clone()),
        }
    }
}
