//! Two nets against each other, each with an optimizer of its own: plainly, captured as two functions,
//! and captured as one. All three train alike.

use std::cell::RefCell;

use doorbell::nn::{Adam, Linear, Module, Optimizer};
use doorbell::ops::loss::Reduction;
use doorbell::{Engine, Jit, Result, Tensor};

use super::check::{all_close, linear, wave};

struct Net(Vec<Linear>);

impl Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.0[1].forward(&self.0[0].forward(x)?.tanh()?)?)
    }
}

struct Gan {
    generator: Net,
    critic: Net,
    down_generator: RefCell<Adam>,
    down_critic: RefCell<Adam>,
}

impl Gan {
    fn new(engine: &Engine) -> Result<Gan> {
        let generator = vec![
            linear(engine, 2, 8, 3.0, 0.5)?,
            linear(engine, 8, 2, 4.0, 0.5)?,
        ];
        let critic = vec![
            linear(engine, 2, 8, 5.0, 0.5)?,
            linear(engine, 8, 1, 6.0, 0.5)?,
        ];
        let adam = |net: &Vec<Linear>| Adam::new(net.trainable(), 0.02, (0.5, 0.999), 1e-8, 0.0);
        Ok(Gan {
            down_generator: RefCell::new(adam(&generator)?),
            down_critic: RefCell::new(adam(&critic)?),
            generator: Net(generator),
            critic: Net(critic),
        })
    }

    fn verdict(&self, x: &Tensor, real: bool) -> Result<Tensor> {
        let logits = self.critic.forward(x)?;
        let target = logits.full_like(if real { 1.0 } else { 0.0 })?;
        Ok(logits.binary_cross_entropy_logits(&target, None, Reduction::Mean)?)
    }

    /// The critic's step, and its loss.
    fn criticize(&self, real: &Tensor, noise: &Tensor) -> Result<Tensor> {
        let fake = self.generator.forward(noise)?.detach()?;
        let loss = self
            .verdict(real, true)?
            .add(&self.verdict(&fake, false)?)?;
        self.down_critic.borrow_mut().minimize(&loss)?;
        Ok(loss)
    }

    /// The generator's step against the critic of now, and its loss.
    fn deceive(&self, noise: &Tensor) -> Result<Tensor> {
        let loss = self.verdict(&self.generator.forward(noise)?, true)?;
        self.down_generator.borrow_mut().minimize(&loss)?;
        Ok(loss)
    }

    fn check(&self, how: &str, losses: &[(f32, f32)]) -> Result<()> {
        // PyTorch 2.15.0 with two torch.optim.Adam, the fakes detached for the critic.
        let critic = [0, 5, 10, 19].map(|i| losses[i].0);
        let expected = [1.515454, 1.343139, 1.416075, 1.378986];
        all_close(
            &format!("{how}: the critic's losses"),
            &critic,
            &expected,
            1e-3,
        );
        let generator = [0, 5, 10, 19].map(|i| losses[i].1);
        let expected = [0.4141496, 0.5168941, 0.5484167, 0.7348841];
        all_close(
            &format!("{how}: the generator's losses"),
            &generator,
            &expected,
            1e-3,
        );
        for (net, expected) in [
            (&self.generator, &[-0.3028619, -0.1218817][..]),
            (&self.critic, &[-0.1600162]),
        ] {
            let bias = net.0[1].bias.as_ref().map(|b| b.get().to_vec::<f32>());
            let bias = bias.transpose()?.unwrap_or_default();
            all_close(&format!("{how}: the last bias"), &bias, expected, 1e-3);
        }
        Ok(())
    }
}

fn data(engine: &Engine, step: usize) -> Result<[Tensor; 2]> {
    let real = wave(engine, &[16, 2], 30.0 + step as f64, 0.5)?.add(1.0)?;
    let noise = wave(engine, &[16, 2], 50.0 + step as f64, 1.0)?;
    Ok([real, noise])
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;

    let gan = Gan::new(&engine)?;
    let mut losses = Vec::new();
    for i in 0..20 {
        let [real, noise] = data(&engine, i)?;
        let (critic, generator) = (gan.criticize(&real, &noise)?, gan.deceive(&noise)?);
        losses.push((critic.item()?, generator.item()?));
    }
    gan.check("plain", &losses)?;

    let gan = Gan::new(&engine)?;
    let criticize = Jit::new(&engine, |x: &[Tensor]| {
        Ok(vec![gan.criticize(&x[0], &x[1])?])
    });
    let deceive = Jit::new(&engine, |x: &[Tensor]| Ok(vec![gan.deceive(&x[0])?]));
    losses.clear();
    for i in 0..20 {
        let [real, noise] = data(&engine, i)?;
        let critic = criticize.call(&[real, noise.clone()])?;
        let generator = deceive.call(&[noise])?;
        losses.push((critic[0].item()?, generator[0].item()?));
    }
    gan.check("captured as two", &losses)?;

    let gan = Gan::new(&engine)?;
    let both = Jit::new(&engine, |x: &[Tensor]| {
        let critic = gan.criticize(&x[0], &x[1])?;
        Ok(vec![critic, gan.deceive(&x[1])?])
    });
    // Nothing is read before the end: every handle keeps its step's value.
    let kept: Vec<Vec<Tensor>> = (0..20)
        .map(|i| Ok(both.call(&data(&engine, i)?)?))
        .collect::<Result<_>>()?;
    losses.clear();
    for step in &kept {
        losses.push((step[0].item()?, step[1].item()?));
    }
    gan.check("captured as one", &losses)?;

    println!(
        "gan: the generator's loss goes from {:.4} to {:.4}, plainly and captured",
        losses[0].1, losses[19].1
    );
    Ok(())
}
