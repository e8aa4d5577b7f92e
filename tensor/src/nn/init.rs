//! First values of weights. The first axis of a weight is `out`, the second `in`, the rest a kernel.

use codegen::DType;

use crate::error::Result;
use crate::graph::Tensor;
use crate::ops::random::Rng;

/// Inputs and outputs of one unit of a weight of this shape.
pub fn fans(shape: &[usize]) -> (usize, usize) {
    match shape {
        [] => (1, 1),
        [n] => (*n, *n),
        [out, fan, kernel @ ..] => {
            let taps = kernel.iter().fold(1, |n: usize, &k| n.saturating_mul(k));
            (fan.saturating_mul(taps), out.saturating_mul(taps))
        }
    }
}

/// Uniform in `-bound..bound`.
///
/// # Errors
/// A non-float type.
pub fn symmetric(rng: &mut Rng, shape: &[usize], bound: f64, dtype: DType) -> Result<Tensor> {
    rng.uniform(shape, -bound, bound, dtype)
}

/// He's uniform initialization: bound `sqrt(6 / ((1 + slope^2) fan_in))` for a leaky relu.
///
/// # Errors
/// A non-float type.
pub fn kaiming_uniform(rng: &mut Rng, shape: &[usize], slope: f64, dtype: DType) -> Result<Tensor> {
    let fan = fans(shape).0.max(1) as f64;
    symmetric(
        rng,
        shape,
        (6.0 / ((1.0 + slope * slope) * fan)).sqrt(),
        dtype,
    )
}

/// He's normal initialization: deviation `sqrt(2 / ((1 + slope^2) fan_in))`.
///
/// # Errors
/// A non-float type.
pub fn kaiming_normal(rng: &mut Rng, shape: &[usize], slope: f64, dtype: DType) -> Result<Tensor> {
    let fan = fans(shape).0.max(1) as f64;
    let std = (2.0 / ((1.0 + slope * slope) * fan)).sqrt();
    rng.normal(shape, 0.0, std, dtype)
}

/// Glorot's uniform initialization: bound `sqrt(6 / (fan_in + fan_out))`.
///
/// # Errors
/// A non-float type.
pub fn glorot_uniform(rng: &mut Rng, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let (a, b) = fans(shape);
    symmetric(rng, shape, (6.0 / (a + b).max(1) as f64).sqrt(), dtype)
}

/// Glorot's normal initialization: deviation `sqrt(2 / (fan_in + fan_out))`.
///
/// # Errors
/// A non-float type.
pub fn glorot_normal(rng: &mut Rng, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let (a, b) = fans(shape);
    rng.normal(shape, 0.0, (2.0 / (a + b).max(1) as f64).sqrt(), dtype)
}

/// The default of PyTorch for linear and convolution layers: uniform within `1 / sqrt(fan_in)`.
///
/// # Errors
/// A non-float type.
pub fn by_fan_in(rng: &mut Rng, shape: &[usize], fan_in: usize, dtype: DType) -> Result<Tensor> {
    symmetric(rng, shape, 1.0 / (fan_in.max(1) as f64).sqrt(), dtype)
}
