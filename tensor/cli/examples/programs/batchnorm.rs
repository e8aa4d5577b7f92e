//! Batch normalization: captured training, plain evaluation in between, and a copy by way of a file that
//! evaluates and trains on alike.

use doorbell::nn::{BatchNorm, Linear, Module, Optimizer, Parameter, Sgd, part, state};
use doorbell::ops::loss::Reduction;
use doorbell::{DType, Engine, Jit, Result, Tensor};

use super::check::{all_close, close, linear, wave};

struct Net {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        let (first, norm) = (part("first", &self.first), part("norm", &self.norm));
        [first, norm, part("last", &self.last)].concat()
    }
}

impl Net {
    fn new(engine: &Engine, seed: f64) -> Result<Net> {
        Ok(Net {
            first: linear(engine, 3, 6, seed, 0.6)?,
            norm: BatchNorm::new(engine, 6, DType::F32)?,
            last: linear(engine, 6, 1, seed + 1.0, 0.5)?,
        })
    }

    fn loss(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let h = self.norm.forward(&self.first.forward(x)?, training)?;
        let y = self.last.forward(&h.relu()?)?;
        Ok(y.mse_loss(&x.sum(&[1], true)?, Reduction::Mean)?)
    }
}

/// A captured training step of a net.
macro_rules! step {
    ($engine:expr, $net:expr) => {{
        let mut sgd = Sgd::plain($net.trainable(), 0.05)?;
        let net = &$net;
        Jit::new($engine, move |x: &[Tensor]| {
            let loss = net.loss(&x[0], true)?;
            sgd.minimize(&loss)?;
            Ok(vec![loss])
        })
    }};
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let batch = |i: usize| wave(&engine, &[12, 3], 200.0 + i as f64, 1.0);
    let held_out = wave(&engine, &[10, 3], 300.0, 1.0)?;
    let path = std::env::temp_dir().join(format!("doorbell-batchnorm-{}", std::process::id()));

    let net = Net::new(&engine, 11.0)?;
    let step = step!(&engine, net);
    // torch.nn.BatchNorm1d between two torch.nn.Linear, torch.optim.SGD, 2.15.0: after these steps the
    // loss of the step, the loss in evaluation, the first running mean and variance.
    let expected = [
        (0, [2.222566, 2.777561, -0.05084231, 0.9914758]),
        (4, [0.5564142, 1.019548, -0.2265025, 0.9453153]),
        (9, [0.1680509, 0.2467083, -0.3623915, 0.9530448]),
        (14, [0.08281149, 0.0949743, -0.4257208, 0.9201553]),
    ];
    let mut evaluated = Vec::new();
    for i in 0..15 {
        let loss = step.call(&[batch(i)?])?.remove(0);
        let Some((_, expected)) = expected.iter().find(|(at, _)| *at == i) else {
            continue;
        };
        let lazy = net.loss(&held_out, false)?;
        let now = [
            loss.item()?,
            net.loss(&held_out, false)?.item()?,
            net.norm.running_mean.get().to_vec::<f32>()?[0],
            net.norm.running_var.get().to_vec::<f32>()?[0],
        ];
        all_close(&format!("after step {i}"), &now, expected, 1e-3);
        evaluated.push((now[1], lazy));
        if i == 9 {
            state::save(&net, &path)?;
        }
    }
    for (then, lazy) in &evaluated {
        close(
            "an evaluation read later",
            lazy.item()?,
            f64::from(*then),
            1e-5,
        );
    }
    let mean = [
        -0.4257208, -0.2979148, -0.1232826, 0.0642613, 0.2588626, 0.4251939,
    ];
    all_close(
        "means",
        &net.norm.running_mean.get().to_vec::<f32>()?,
        &mean,
        1e-3,
    );
    let var = [
        0.9201553, 0.2690896, 0.9701686, 0.3179937, 0.8076994, 0.6719313,
    ];
    all_close(
        "variances",
        &net.norm.running_var.get().to_vec::<f32>()?,
        &var,
        1e-3,
    );
    assert_eq!(net.norm.num_batches_tracked.get().item::<i64>()?, 15);

    // Other weights, which the file's replace; the step is captured over those.
    let copy = Net::new(&engine, 40.0)?;
    let again = step!(&engine, copy);
    for i in 0..3 {
        again.call(&[batch(i)?])?;
    }
    state::load(&copy, &path)?;
    std::fs::remove_file(&path)?;
    let loaded: f32 = copy.loss(&held_out, false)?.item()?;
    assert_eq!(loaded, evaluated[2].0, "the loss after step 9, loaded");
    for i in 10..15 {
        again.call(&[batch(i)?])?;
    }
    let last: f32 = copy.loss(&held_out, false)?.item()?;
    close("five steps after loading", last, 0.0949743, 1e-3);
    assert_eq!(copy.norm.num_batches_tracked.get().item::<i64>()?, 15);
    println!(
        "batchnorm: evaluated at {:.4} after one step and {last:.4} after fifteen, saved and loaded in between",
        evaluated[0].0
    );
    Ok(())
}
