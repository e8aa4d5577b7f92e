//! What the programs share: numbers that PyTorch can make as well, and the comparison with its results.

use doorbell::{Engine, Result, Tensor};

/// `scale * sin(frequency * i)` for i = 1, 2, ... in a shape: computed in `f64`, rounded once.
pub fn wave(engine: &Engine, shape: &[usize], frequency: f64, scale: f64) -> Result<Tensor> {
    let values: Vec<f32> = (1..=shape.iter().product::<usize>())
        .map(|i| ((i as f64 * frequency).sin() * scale) as f32)
        .collect();
    Ok(Tensor::from_slice(engine, &values, shape)?)
}

/// The sum of the absolute values, a number that every element counts in.
pub fn size(x: &Tensor) -> Result<f32> {
    Ok(x.abs()?.sum(&[], false)?.item()?)
}

/// Numbers beside those of PyTorch: equal within a share of 0.0002, and 0.000002 for those near 0.
///
/// # Panics
/// Where one is not.
pub fn close(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}: how many numbers");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(
            (g - w).abs() <= 2e-4 * w.abs() + 2e-6,
            "{what}, number {i}: {g}, but PyTorch has {w}; all: {got:?} beside {want:?}"
        );
    }
}

/// The memory of this process in KiB, where the system tells it as Linux does.
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
