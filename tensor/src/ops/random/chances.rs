//! Probabilities and weights known to the host: invalid ones are an error before anything runs.

use codegen::interp::scalar;

use super::shape_error;
use crate::error::Result;
use crate::graph::{Op, Storage, Tensor};

/// Longer lists are not looked at.
const MOST: usize = 1 << 16;

/// Refuses known numbers that are no probabilities.
pub(super) fn check_probabilities(op: &'static str, p: &Tensor) -> Result<()> {
    let values = known(p).unwrap_or_default();
    match values.iter().position(|p| !(0.0..=1.0).contains(p)) {
        Some(at) => shape_error(
            op,
            format!(
                "element {at} is {}, expected a probability within 0..=1",
                values[at]
            ),
        ),
        None => Ok(()),
    }
}

/// Refuses known weights from which `samples` different ones cannot be drawn in each row.
pub(super) fn check_weights(op: &'static str, weights: &Tensor, samples: usize) -> Result<()> {
    let Some(values) = known(weights) else {
        return Ok(());
    };
    let valid = |w: &f64| w.is_finite() && *w >= 0.0;
    if let Some(at) = values.iter().position(|w| !valid(w)) {
        return shape_error(
            op,
            format!(
                "weight {at} is {}; weights must be finite and not negative",
                values[at]
            ),
        );
    }
    let len = weights.shape().last().copied().unwrap_or(0).max(1);
    for (row, values) in values.chunks(len).enumerate() {
        let above = values.iter().filter(|w| **w > 0.0).count();
        if above < samples {
            return shape_error(
                op,
                format!(
                    "row {row} has {above} weights above 0, expected at least {samples} to draw without \
                     replacement; draw fewer, or with replacement (at least one weight above 0)"
                ),
            );
        }
    }
    Ok(())
}

/// The elements in row-major order, if they are in host memory or one constant of the graph, and few.
fn known(tensor: &Tensor) -> Option<Vec<f64>> {
    if tensor.numel() > MOST {
        return None;
    }
    let mut at = tensor.clone();
    let mut moved = false;
    while at.storage().is_none() {
        let node = at.node();
        match &node.op {
            Op::Const(bits) => {
                let value = number(&at, *bits);
                return Some(vec![value; tensor.numel()]);
            }
            Op::Reshape | Op::Contiguous | Op::Detach | Op::Cast => {}
            Op::Permute(_) | Op::Expand | Op::Flip(_) => moved = true,
            _ => return None,
        }
        let source = node.src().first().cloned()?;
        at = source;
    }
    match at.storage() {
        Some(Storage::Host(bytes)) if !moved => {
            let words = bytes.chunks_exact(at.dtype().size());
            let values = words.map(|word| number(&at, scalar::read(at.dtype(), word)));
            Some(values.collect())
        }
        _ => None,
    }
}

/// An element of a tensor.
fn number(of: &Tensor, bits: u64) -> f64 {
    match of.dtype() {
        dtype if dtype.is_float() => scalar::to_f64(dtype, bits),
        dtype => scalar::to_int(dtype, bits) as f64,
    }
}
