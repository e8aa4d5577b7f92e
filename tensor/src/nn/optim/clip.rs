//! Gradient clipping. It is lazy, so it works in captured steps.

use crate::error::Result;
use crate::graph::Tensor;
use crate::ops::shape_error;

/// The gradients, scaled down so that the norm of all of them together is at most `most`, and the original norm in
/// at least `f32`: PyTorch's `clip_grad_norm_` with the 2-norm. Gradients whose norm is infinite or NaN become NaN
/// or 0 where they are finite, as there.
///
/// # Errors
/// No gradients; those of different engines.
pub fn clip_grad_norm(gradients: &[Tensor], most: f64) -> Result<(Vec<Tensor>, Tensor)> {
    let mut square: Option<Tensor> = None;
    for g in gradients {
        let own = g.cast(g.dtype().accumulator())?.square()?.sum(&[], false)?;
        square = Some(match square {
            Some(sum) => sum.add(&own)?,
            None => own,
        });
    }
    let Some(square) = square else {
        return shape_error("clip_grad_norm", "no gradients to clip".into());
    };
    let norm = square.sqrt()?;
    // What is added keeps the quotient finite.
    let scale = norm.full_like(most)?.div(&norm.add(1e-6)?)?.minimum(1.0)?;
    let scaled = gradients.iter().map(|g| {
        let wide = g.dtype().accumulator();
        g.cast(wide)?.mul(&scale.cast(wide)?)?.cast(g.dtype())
    });
    Ok((scaled.collect::<Result<_>>()?, norm))
}

/// The gradients with each element limited to `-most..=most`.
///
/// # Errors
/// A limit that is negative or NaN.
pub fn clip_grad_value(gradients: &[Tensor], most: f64) -> Result<Vec<Tensor>> {
    if most.is_nan() || most < 0.0 {
        return shape_error(
            "clip_grad_value",
            format!("the limit {most} is negative; use the largest absolute value of a gradient"),
        );
    }
    gradients.iter().map(|g| g.clip(-most, most)).collect()
}
