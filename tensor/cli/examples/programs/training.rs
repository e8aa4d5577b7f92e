//! A net that is trained by a captured step, whose rate changes every step. Five steps in between are
//! plain ones, and ten are done twice from a saved state.

use std::cell::RefCell;

use doorbell::nn::{Adam, Linear, Module, Optimizer, commit, part, state};
use doorbell::ops::loss::Reduction;
use doorbell::{Engine, Jit, Result, Tensor};

use super::check::{all_close, close, linear, wave};

struct Net {
    hidden: Linear,
    out: Linear,
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, doorbell::Parameter)> {
        [part("hidden", &self.hidden), part("out", &self.out)].concat()
    }
}

impl Net {
    fn loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let y_hat = self.out.forward(&self.hidden.forward(x)?.tanh()?)?;
        Ok(y_hat.mse_loss(y, Reduction::Mean)?)
    }
}

fn batch(engine: &Engine, step: usize) -> Result<[Tensor; 2]> {
    let x = wave(engine, &[16, 4], 10.0 + step as f64, 1.0)?;
    let y = x.square()?.sum(&[1], true)?;
    Ok([x, y])
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let net = Net {
        hidden: linear(&engine, 4, 16, 1.0, 0.5)?,
        out: linear(&engine, 16, 1, 2.0, 0.3)?,
    };
    // Plain steps and the captured function share it.
    let adam = RefCell::new(Adam::with_lr(net.trainable(), 0.05)?);
    let captured = Jit::new(&engine, |batch: &[Tensor]| {
        let loss = net.loss(&batch[0], &batch[1])?;
        adam.borrow_mut().minimize(&loss)?;
        Ok(vec![loss])
    });
    let step = |i: usize, plain: bool| -> Result<f32> {
        let [x, y] = batch(&engine, i)?;
        adam.borrow_mut().set_rate(0.05 / (1.0 + 0.02 * i as f64))?;
        let loss = if plain {
            let loss = net.loss(&x, &y)?;
            adam.borrow_mut().minimize(&loss)?;
            loss
        } else {
            captured.call(&[x, y])?.remove(0)
        };
        Ok(loss.item()?)
    };

    let mut losses = Vec::new();
    for i in 0..30 {
        losses.push(step(i, (20..25).contains(&i))?);
    }
    // An optimizer's state has no names of its own: these number it.
    let everything = || -> Vec<(String, doorbell::Parameter)> {
        let optimizer = adam.borrow().state();
        let optimizer = optimizer.into_iter().enumerate();
        optimizer.map(|(i, p)| (format!("adam.{i}"), p)).collect()
    };
    let path = std::env::temp_dir().join(format!("doorbell-training-{}", std::process::id()));
    state::save_tensors(everything().into_iter().map(|(n, p)| (n, p.get())), &path)?;
    let first: Vec<f32> = (30..40).map(|i| step(i, false)).collect::<Result<_>>()?;
    let saved = state::load_tensors(&engine, &path)?;
    std::fs::remove_file(&path)?;
    let mut restored = Vec::new();
    for (name, parameter) in everything() {
        parameter.set(saved[&name].clone())?;
        restored.push(parameter);
    }
    commit(&restored)?;
    let second: Vec<f32> = (30..40).map(|i| step(i, false)).collect::<Result<_>>()?;
    assert_eq!(first, second, "ten steps from a saved state, twice");
    losses.extend(second);
    for i in 40..60 {
        losses.push(step(i, false)?);
    }

    // torch.optim.Adam over the same data, 2.15.0; its rate set before each step.
    let at = [0, 1, 10, 22, 30, 59].map(|i| losses[i]);
    let expected = [1.81484, 1.076047, 0.1870797, 0.281055, 0.2687724, 0.112431];
    all_close("losses", &at, &expected, 1e-3);
    let weights = net.out.weight.get().to_vec::<f32>()?;
    let expected = [0.3535352, 0.3314247, 0.1851202, 0.1243391];
    all_close("weights", &weights[..4], &expected, 1e-3);
    close("the last loss", losses[59], 0.112431, 1e-3);
    assert_eq!(captured.captures(), 1, "all batches are alike");
    println!(
        "training: the loss falls from {:.4} to {:.4}",
        losses[0], losses[59]
    );
    Ok(())
}
