//! Training on one device, evaluation on another: weights are copied over every five steps, and the
//! captured evaluation sees them.

use std::slice;

use doorbell::nn::{Adam, Linear, Module, Optimizer, Parameter, commit, part};
use doorbell::ops::loss::Reduction;
use doorbell::{Engine, Jit, Result, Setup, Tensor};

use super::check::{close, linear, wave};

struct Net(Linear, Linear);

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        [part("0", &self.0), part("1", &self.1)].concat()
    }
}

impl Net {
    fn new(engine: &Engine) -> Result<Net> {
        Ok(Net(
            linear(engine, 3, 8, 25.0, 0.5)?,
            linear(engine, 8, 1, 26.0, 0.5)?,
        ))
    }

    fn loss(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.1.forward(&self.0.forward(x)?.tanh()?)?;
        Ok(y.mse_loss(&x.sum(&[1], true)?.sin()?, Reduction::Mean)?)
    }
}

/// Gives one net the weights of another, of another engine.
fn copy(from: &Net, to: &Net) -> Result<()> {
    let mut changed = Vec::new();
    for ((_, from), (_, to)) in from.parameters().into_iter().zip(to.parameters()) {
        to.set(from.get().to(to.get().engine())?)?;
        changed.push(to);
    }
    Ok(commit(&changed)?)
}

pub fn run() -> Result<()> {
    let here = doorbell::open()?;
    let there = Setup::of("CPU")?.threads(1).open()?.engine;
    let trained = Net::new(&here)?;
    let evaluated = Net::new(&there)?;
    let mut adam = Adam::with_lr(trained.trainable(), 0.03)?;
    let step = Jit::new(&here, |x: &[Tensor]| {
        let loss = trained.loss(&x[0])?;
        adam.minimize(&loss)?;
        Ok(vec![loss])
    });
    let evaluate = Jit::new(&there, |x: &[Tensor]| Ok(vec![evaluated.loss(&x[0])?]));

    let held_out = wave(&there, &[20, 3], 900.0, 1.0)?;
    // torch.optim.Adam, 2.15.0: the loss of the held out before these steps.
    let mut expected = [1.74815, 0.4358067, 0.1107676, 0.06172026, 0.07382216].iter();
    let mut losses = Vec::new();
    for i in 0..21 {
        if i % 5 == 0 {
            let stale: f32 = evaluate.call(slice::from_ref(&held_out))?[0].item()?;
            if let Some(last) = losses.last() {
                assert_eq!(stale, *last, "training there changes nothing here");
            }
            copy(&trained, &evaluated)?;
            let loss: f32 = evaluate.call(slice::from_ref(&held_out))?[0].item()?;
            close(
                &format!("before step {i}"),
                loss,
                expected.next().copied().unwrap_or(f64::NAN),
                1e-3,
            );
            // The same from here: a captured step goes on after weights were read.
            let plain: f32 = trained.loss(&held_out.to(&here)?)?.item()?;
            close("on both devices", loss, f64::from(plain), 1e-5);
            losses.push(loss);
        }
        step.call(&[wave(&here, &[16, 3], 800.0 + i as f64, 1.0)?])?;
    }
    println!(
        "devices: trained on {}, evaluated on {}: {losses:.4?}",
        here.name(),
        there.name()
    );
    Ok(())
}
