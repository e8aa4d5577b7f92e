//! Functions and layers that PyTorch has, beside its numbers: on the reference executor, and on the CPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod equations;
mod losses;
mod points;
mod pools;
mod products;
mod recurrent;
mod reductions;
mod sizes;
#[path = "../support/mod.rs"]
mod support;

use tensor::{Engine, Result, Tensor};

pub(crate) fn floats(e: &Engine, data: &[f64]) -> Result<Tensor> {
    Tensor::from_slice(e, data, &[data.len()])
}
