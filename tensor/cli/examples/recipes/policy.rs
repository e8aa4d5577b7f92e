//! REINFORCE on a bandit with four arms: actions and rewards are drawn inside of the captured step.

use doorbell::nn::commit;
use doorbell::{DType, Engine};
use doorbell::{Jit, Parameter, Result, Rng, Tensor, gradients};

use super::check::close;

struct Agent {
    logits: Parameter,
    base: Parameter,
    rng: Rng,
}

impl Agent {
    fn new(engine: &Engine) -> Result<Agent> {
        Ok(Agent {
            logits: Parameter::new(Tensor::zeros(engine, &[4], DType::F32)?),
            base: Parameter::buffer(Tensor::scalar(engine, 0, DType::F32)?),
            rng: Rng::new(engine, 3),
        })
    }

    /// One step with `means[0]`, the chance of a reward of each arm: loss, actions, rewards.
    fn step(&mut self, means: &[Tensor]) -> Result<Vec<Tensor>> {
        let (logits, base) = (self.logits.get(), self.base.get());
        let actions = self.rng.multinomial(&logits.softmax(0)?, 16, true)?;
        let rewards = self.rng.bernoulli(&means[0].take(&actions)?)?;
        let chosen = logits.log_softmax(0)?.take(&actions)?;
        let loss = rewards.sub(&base)?.mul(chosen)?.mean(&[], false)?.neg()?;
        let slope = gradients(&loss, &[&logits])?.remove(0);
        self.logits.set(logits.sub(slope.mul(0.5)?)?)?;
        self.base
            .set(base.mul(0.9)?.add(rewards.mean(&[], false)?.mul(0.1)?)?)?;
        commit([self.logits.clone(), self.base.clone()])?;
        Ok(vec![loss, actions, rewards])
    }
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let means = [Tensor::new(&engine, [0.2f32, 0.8, 0.5, 0.1])?];
    let mut plain = Agent::new(&engine)?;
    let mut agent = Agent::new(&engine)?;
    let (logits, base) = (agent.logits.clone(), agent.base.clone());
    let captured = Jit::new(&engine, |means: &[Tensor]| Ok(agent.step(means)?));

    let (mut losses, mut log) = (Vec::new(), Vec::new());
    for k in 0..60 {
        let out = captured.call(&means)?;
        let (actions, rewards) = (out[1].to_vec::<i32>()?, out[2].to_vec::<f32>()?);
        losses.push(out[0].item::<f32>()?);
        if k < 6 {
            // A captured step draws what a plain one draws.
            let out = plain.step(&means)?;
            assert_eq!(actions, out[1].to_vec::<i32>()?, "actions of step {k}");
            assert_eq!(rewards, out[2].to_vec::<f32>()?, "rewards of step {k}");
            close("the plain loss", &[losses[k]], &[out[0].item()?]);
        }
        log.extend(actions.into_iter().zip(rewards));
    }
    let pulled = |arm| log.iter().filter(|(action, _)| *action == arm).count();
    assert_eq!([0, 1, 2, 3].map(pulled), [82, 660, 139, 79], "pulls");
    let paid: f32 = log
        .iter()
        .filter(|(action, _)| *action == 1)
        .map(|(_, reward)| reward)
        .sum();
    assert!(
        (paid / 660.0 - 0.8).abs() < 0.05,
        "the second arm pays {paid} of 660 times"
    );
    // PyTorch, given these actions and rewards: log_softmax and autograd.grad.
    let some = [losses[0], losses[5], losses[59], base.get().item()?];
    close(
        "losses 0, 5, 59 and the base",
        &some,
        &[0.6065038, 0.5083106, -0.2449041, 0.7160329],
    );
    let chances = logits.get().softmax(0)?.to_vec::<f32>()?;
    close(
        "chances",
        &chances,
        &[0.02171328, 0.9126273, 0.04055071, 0.02510879],
    );
    println!(
        "policy: chances {chances:.3?} after {} pulls of the best arm",
        pulled(1)
    );
    Ok(())
}
