//! Multi-head attention.

use codegen::DType;

use super::{Linear, Module, Parameter, part};
use crate::error::Result;
use crate::graph::Tensor;
use crate::ops::attention::Attention;
use crate::ops::random::Rng;
use crate::ops::shape_error;

/// Attention with learned projections of queries, keys, values and the result.
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    /// Projects queries to `heads * width`.
    pub q_proj: Linear,
    /// Projects keys to `kv_heads * width`.
    pub k_proj: Linear,
    /// Projects values to `kv_heads * width`.
    pub v_proj: Linear,
    /// Projects the result back.
    pub out_proj: Linear,
    heads: usize,
    kv_heads: usize,
}

impl MultiHeadAttention {
    /// Of vectors of `width`; `kv_heads` below `heads` shares keys and values among heads.
    ///
    /// # Errors
    /// Heads that do not divide the width, or `kv_heads` that do not divide the heads.
    pub fn new(
        rng: &mut Rng,
        width: usize,
        heads: usize,
        kv_heads: usize,
        bias: bool,
        dtype: DType,
    ) -> Result<MultiHeadAttention> {
        let fits = heads > 0
            && kv_heads > 0
            && width.is_multiple_of(heads)
            && heads.is_multiple_of(kv_heads);
        if !fits {
            return shape_error(
                "MultiHeadAttention",
                format!(
                    "width {width}, {heads} heads, {kv_heads} kv heads: each must divide the one before"
                ),
            );
        }
        let shared = width / heads * kv_heads;
        Ok(MultiHeadAttention {
            q_proj: Linear::new(rng, width, width, bias, dtype)?,
            k_proj: Linear::new(rng, width, shared, bias, dtype)?,
            v_proj: Linear::new(rng, width, shared, bias, dtype)?,
            out_proj: Linear::new(rng, width, width, bias, dtype)?,
            heads,
            kv_heads,
        })
    }

    /// Queries `[.., q, width]`, keys and values `[.., k, width]` to `[.., q, width]`.
    ///
    /// # Errors
    /// Incompatible shapes.
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: &Attention,
    ) -> Result<Tensor> {
        let rows = |proj: &Linear| proj.weight.like().shape().first().copied();
        let width = rows(&self.q_proj).unwrap_or(0) / self.heads;
        let shared = width * self.kv_heads;
        for (name, proj) in [("k_proj", &self.k_proj), ("v_proj", &self.v_proj)] {
            if rows(proj) != Some(shared) {
                let (own, of) = (proj.weight.like(), key.shape().last());
                return shape_error(
                    "MultiHeadAttention",
                    format!(
                        "the weight of {name} has shape {:?}; {} kv heads of width {width} need {:?}",
                        own.shape(),
                        self.kv_heads,
                        [shared, of.copied().unwrap_or(0)]
                    ),
                );
            }
        }
        let split = |x: Tensor, heads: usize| -> Result<Tensor> {
            x.unflatten(-1, &[heads as isize, -1])?.transpose(-2, -3)
        };
        let q = split(self.q_proj.forward(query)?, self.heads)?;
        let k = split(self.k_proj.forward(key)?, self.kv_heads)?;
        let v = split(self.v_proj.forward(value)?, self.kv_heads)?;
        let joined = q
            .attention(&k, &v, options)?
            .transpose(-2, -3)?
            .flatten(-2, -1)?;
        self.out_proj.forward(&joined)
    }
}

impl Module for MultiHeadAttention {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        [
            part("q_proj", &self.q_proj),
            part("k_proj", &self.k_proj),
            part("v_proj", &self.v_proj),
            part("out_proj", &self.out_proj),
        ]
        .concat()
    }
}
