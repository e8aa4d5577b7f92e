//! Gradients of four small batches are added up before one step of Adam.

use doorbell::nn::{Adam, Optimizer, commit};
use doorbell::ops::loss::Reduction;
use doorbell::{Jit, Parameter, Result, Tensor, gradients};

use super::check::{close, size, wave};

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let weights = vec![
        Parameter::new(wave(&engine, &[6, 3], 1.1, 0.5)?),
        Parameter::new(wave(&engine, &[6], 0.9, 0.1)?),
        Parameter::new(wave(&engine, &[2, 6], 1.7, 0.5)?),
    ];
    let sums: Vec<Parameter> = weights
        .iter()
        .map(|w| Ok(Parameter::buffer(w.get().zeros_like()?)))
        .collect::<Result<_>>()?;
    let mut adam = Adam::with_lr(weights.clone(), 0.02)?;

    let micro = Jit::new(&engine, |batch: &[Tensor]| {
        let w: Vec<Tensor> = weights.iter().map(Parameter::get).collect();
        let hidden = batch[0].linear(&w[0], Some(&w[1]))?.relu()?;
        let loss = hidden
            .linear(&w[2], None)?
            .mse_loss(&batch[1], Reduction::Mean)?;
        let slopes = gradients(&loss, &w.iter().collect::<Vec<_>>())?;
        for (sum, slope) in sums.iter().zip(&slopes) {
            sum.set(sum.get().add(slope.div(4)?)?)?;
        }
        Ok(vec![loss])
    });
    let step = Jit::new(&engine, |_: &[Tensor]| {
        let slopes: Vec<Tensor> = sums.iter().map(Parameter::get).collect();
        adam.step(&slopes)?;
        for sum in &sums {
            sum.set(sum.get().zeros_like()?)?;
        }
        commit(adam.state())?;
        Ok(vec![])
    });

    let (mut losses, mut first) = (Vec::new(), Vec::new());
    for k in 0..10 {
        for m in 0..4 {
            let x = wave(
                &engine,
                &[5, 3],
                0.41 + 0.1 * f64::from(m) + 0.01 * f64::from(k),
                1.0,
            )?;
            let y = Tensor::stack(&[&x.prod(&[1], false)?, &x.square()?.sum(&[1], false)?], 1)?;
            losses.push(micro.call(&[x, y])?[0].item::<f32>()?);
        }
        if k == 0 {
            first = sums.iter().map(Parameter::get).collect();
        }
        step.call(&[])?;
    }
    // `(loss / 4).backward()` four times, then torch.optim.Adam(lr=0.02).step().
    let some = [losses[0], losses[3], losses[20], losses[39]];
    close(
        "losses 0, 3, 20, 39",
        &some,
        &[1.551128, 1.403573, 0.8023977, 0.5485536],
    );
    close("the first sum", &[size(&first[0])?], &[1.940707]);
    let ends = [
        size(&weights[0].get())?,
        weights[1].get().sum(&[], false)?.item()?,
        size(&weights[2].get())?,
    ];
    close(
        "weights at the end",
        &ends,
        &[6.214154, 0.2757438, 4.527145],
    );
    println!(
        "accumulate: loss {:.4} to {:.4} in 10 steps of 4 batches",
        losses[0], losses[39]
    );
    Ok(())
}
