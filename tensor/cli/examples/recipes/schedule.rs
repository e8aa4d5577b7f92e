//! A learning rate that warms up and falls along a cosine, beside a captured step.

use doorbell::nn::{Adam, Linear, Module, Optimizer, commit};
use doorbell::ops::loss::Classes;
use doorbell::{DType, Jit, Result, Rng, Tensor};

use super::check::{close, size, wave};

fn rate(k: usize) -> f64 {
    if k < 10 {
        0.1 * (k + 1) as f64 / 10.0
    } else {
        0.05 * (1.0 + (std::f64::consts::PI * (k - 10) as f64 / 30.0).cos())
    }
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    // Two ways to the same numbers: the rate is set between the calls, or it is an input.
    for input in [false, true] {
        let layer = Linear::new(&mut Rng::new(&engine, 1), 5, 3, true, DType::F32)?;
        layer.weight.set(wave(&engine, &[3, 5], 1.9, 0.5)?)?;
        if let Some(bias) = &layer.bias {
            bias.set(wave(&engine, &[3], 0.5, 0.1)?)?;
        }
        let mut adam = Adam::with_lr(layer.trainable(), 1.0)?;
        let rates = adam.rate().clone();
        let step = Jit::new(&engine, |batch: &[Tensor]| {
            let options = Classes::default();
            let loss = layer
                .forward(&batch[0])?
                .cross_entropy(&batch[1], &options)?;
            if input {
                adam.rate().set(batch[2].clone())?;
            }
            adam.minimize(&loss)?;
            Ok(vec![loss, adam.rate().get()])
        });
        let mut losses = Vec::new();
        for k in 0..40 {
            let x = wave(&engine, &[12, 5], 0.53 + 0.02 * k as f64, 1.0)?;
            let classes: Vec<i64> = (0..12).map(|i| (i * 7 + k as i64) % 3).collect();
            let t = Tensor::from_slice(&engine, &classes, &[12])?;
            let now = Tensor::new(&engine, rate(k) as f32)?;
            let out = if input {
                step.call(&[x, t, now])?
            } else {
                rates.set(now)?;
                if k % 2 == 0 {
                    commit(&rates)?; // makes no difference
                }
                step.call(&[x, t])?
            };
            losses.push(out[0].item::<f32>()?);
            close("the rate", &[out[1].item()?], &[rate(k) as f32]);
        }
        assert_eq!(step.captures(), 1);
        // torch.optim.Adam whose param_groups get the rate before each step.
        let some = [losses[0], losses[1], losses[15], losses[39]];
        close(
            "losses 0, 1, 15, 39",
            &some,
            &[1.100939, 1.103905, 1.125393, 1.15289],
        );
        let bias = layer
            .bias
            .as_ref()
            .map_or(Ok(0.0), |b| b.get().index(0, 0)?.item())?;
        close(
            "weights",
            &[size(&layer.weight.get())?, bias],
            &[4.543723, 0.1131492],
        );
        if input {
            println!(
                "schedule: loss {:.4} to {:.4} over 40 rates",
                losses[0], losses[39]
            );
        }
    }
    Ok(())
}
