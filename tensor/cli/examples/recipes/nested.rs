//! An encoder and a decoder are captured functions, called alone and inside of a captured training step.

use doorbell::nn::{Optimizer, Sgd};
use doorbell::ops::loss::Reduction;
use doorbell::{Jit, Parameter, Result, Tensor};

use super::check::{close, size, wave};

pub fn run() -> Result<()> {
    // However often a part was called alone before, the step has the same numbers.
    for before in [0, 1, 3] {
        let (losses, first, last) = trained(before)?;
        // torch.optim.SGD(lr=0.2) through both functions.
        let some = [losses[0], losses[1], losses[2], losses[3], losses[29]];
        let want = [0.5157869, 0.5034148, 0.5001401, 0.5043771, 0.187206];
        close(&format!("losses after {before} calls alone"), &some, &want);
        close("codes", &[first, last], &[0.1939738, -0.7989588]);
        if before == 3 {
            println!(
                "nested: loss {:.4} to {:.4} through two captured functions",
                losses[0], losses[29]
            );
        }
    }
    Ok(())
}

/// The losses, and the sums of the first and the last codes.
fn trained(before: usize) -> Result<(Vec<f32>, f32, f32)> {
    let engine = doorbell::open()?;
    let weights = vec![
        Parameter::new(wave(&engine, &[4, 6], 1.3, 0.5)?),
        Parameter::new(wave(&engine, &[2, 4], 1.9, 0.5)?),
        Parameter::new(wave(&engine, &[4, 2], 0.7, 0.5)?),
        Parameter::new(wave(&engine, &[6, 4], 2.3, 0.5)?),
    ];
    let mut sgd = Sgd::plain(weights.clone(), 0.2)?;
    let two = |x: &Tensor, a: &Parameter, b: &Parameter| -> Result<Tensor> {
        Ok(x.linear(&a.get(), None)?.tanh()?.linear(&b.get(), None)?)
    };
    let encoder = Jit::new(&engine, |x: &[Tensor]| {
        Ok(vec![two(&x[0], &weights[0], &weights[1])?])
    });
    let decoder = Jit::new(&engine, |z: &[Tensor]| {
        Ok(vec![two(&z[0], &weights[2], &weights[3])?])
    });
    let step = Jit::new(&engine, |x: &[Tensor]| {
        let code = encoder.call(x)?;
        let loss = decoder.call(&code)?[0].mse_loss(&x[0], Reduction::Mean)?;
        sgd.minimize(&loss)?;
        Ok(vec![loss])
    });
    let (mut losses, mut codes) = (Vec::new(), Vec::new());
    for k in 0..30 {
        let x = wave(&engine, &[10, 6], 0.47 + 0.01 * f64::from(k), 1.0)?;
        if k == 0 {
            for _ in 0..before {
                let code = encoder.call(std::slice::from_ref(&x))?;
                decoder.call(&code)?;
            }
        }
        codes.push(encoder.call(std::slice::from_ref(&x))?.remove(0));
        losses.push(step.call(&[x])?[0].item()?);
    }
    let sizes: Vec<f32> = weights
        .iter()
        .map(|w| size(&w.get()))
        .collect::<Result<_>>()?;
    close("weights", &sizes, &[8.146632, 3.324948, 3.550845, 8.161201]);
    let sum = |code: &Tensor| -> Result<f32> { Ok(code.sum(&[], false)?.item()?) };
    Ok((losses, sum(&codes[0])?, sum(&codes[29])?))
}
