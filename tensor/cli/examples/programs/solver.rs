//! Conjugate gradients: a captured step over state that stays on the device, and a loop that stops when the
//! residual, which is read after each step, is small.

use doorbell::nn::{Parameter, commit};
use doorbell::{DType, Jit, Result, Tensor};

use super::check::{all_close, wave};

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let b = wave(&engine, &[16, 16], 18.0, 1.0)?;
    let a = b
        .matmul(&b.t()?)?
        .div(16.0)?
        .add(&Tensor::eye(&engine, 16, 16, DType::F32)?)?;
    let right = wave(&engine, &[16], 19.0, 1.0)?;

    let [x, r, p] = [
        Tensor::zeros(&engine, &[16], DType::F32)?,
        right.clone(),
        right.clone(),
    ]
    .map(Parameter::buffer);
    let square = Parameter::buffer(right.dot(&right)?);
    let step = Jit::new(&engine, |_: &[Tensor]| {
        let along = a.matmul(&p.get())?;
        let length = square.get().div(&p.get().dot(&along)?)?;
        x.set(x.get().add(&p.get().mul(&length)?)?)?;
        r.set(r.get().sub(&along.mul(&length)?)?)?;
        let next = r.get().dot(&r.get())?; // of the residual that was set one line above
        p.set(r.get().add(&p.get().mul(&next.div(square.get())?)?)?)?;
        square.set(next)?;
        Ok(vec![square.get().sqrt()?])
    });
    // The same system, and another right side that the state is set to.
    let mut counts = Vec::new();
    for scale in [1.0f64, -2.0] {
        let right = right.mul(scale)?;
        x.set(right.zeros_like()?)?;
        r.set(right.clone())?;
        p.set(right.clone())?;
        square.set(right.dot(&right)?)?;
        commit([x.clone(), r.clone(), p.clone(), square.clone()])?;
        let mut residuals = Vec::new();
        while residuals
            .last()
            .is_none_or(|r| *r > 1e-4 * scale.abs() as f32)
        {
            residuals.push(step.call(&[])?[0].item::<f32>()?);
            assert!(residuals.len() < 50, "no end: {residuals:?}");
        }
        counts.push(residuals.len());
        // The same loop in PyTorch 2.15.0 makes six steps; the tolerance is that of the roundings in
        // what has almost vanished. torch.linalg.solve in float64 has the solution.
        let expected = [0.7165622, 0.1140597, 0.01769854, 0.004265510, 0.000533515];
        let at: Vec<f32> = residuals
            .iter()
            .take(5)
            .map(|r| r / scale.abs() as f32)
            .collect();
        all_close("residuals", &at, &expected, 5e-3);
        let found: Vec<f32> = x.get().div(scale)?.to_vec()?;
        let expected = [-0.1663589, 0.6053264, 0.5774828, 0.8726011];
        all_close("the solution", &found[..4], &expected, 5e-4);
    }
    assert_eq!(counts, [6, 6], "steps");
    println!(
        "solver: {counts:?} steps for two right sides, {} graph",
        step.captures()
    );
    Ok(())
}
