//! Data that both sides can make, and comparisons that say what differs.

use doorbell::nn::{Linear, Parameter};
use doorbell::{Engine, Result, Tensor};

/// `scale * sin(seed + 0.37 i + 0.011 i^2)`, row-major: not random, but without a pattern that a net
/// could have for free. Computed in `f64` and rounded, so that Python has the same numbers.
pub fn wave(engine: &Engine, shape: &[usize], seed: f64, scale: f64) -> Result<Tensor> {
    let values: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|i| {
            let i = i as f64;
            (scale * (seed + 0.37 * i + 0.011 * i * i).sin()) as f32
        })
        .collect();
    Ok(Tensor::from_slice(engine, &values, shape)?)
}

/// A layer with such weights; its bias has the seed and a half.
pub fn linear(
    engine: &Engine,
    inputs: usize,
    outputs: usize,
    seed: f64,
    scale: f64,
) -> Result<Linear> {
    Ok(Linear {
        weight: Parameter::new(wave(engine, &[outputs, inputs], seed, scale)?),
        bias: Some(Parameter::new(wave(engine, &[outputs], seed + 0.5, scale)?)),
    })
}

/// Two numbers are the same up to a part of the larger one, or up to 1 in 10^6.
#[track_caller]
pub fn close(what: &str, got: f32, expected: f64, part: f64) {
    let got = f64::from(got);
    assert!(
        (got - expected).abs() <= part * expected.abs() + 1e-6,
        "{what}: {got}, PyTorch has {expected}"
    );
}

/// As [`close`], one by one.
#[track_caller]
pub fn all_close(what: &str, got: &[f32], expected: &[f64], part: f64) {
    assert_eq!(got.len(), expected.len(), "{what}: {got:?}");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        close(&format!("{what} [{i}]"), got, expected, part);
    }
}
