//! A recurrent net whose state is carried over calls: as a parameter that the captured function sets, as
//! an output that is the next input, and through training that cuts the gradient at each call.

use doorbell::nn::{Linear, Module, Optimizer, Parameter, Sgd, part};
use doorbell::ops::loss::Reduction;
use doorbell::{DType, Engine, Jit, Result, Tensor};

use super::check::{all_close, linear, wave};

struct Cell {
    input: Linear,
    state: Linear,
    out: Linear,
}

impl Module for Cell {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        let (input, state) = (part("input", &self.input), part("state", &self.state));
        [input, state, part("out", &self.out)].concat()
    }
}

impl Cell {
    fn new(engine: &Engine) -> Result<Cell> {
        Ok(Cell {
            input: linear(engine, 3, 8, 7.0, 0.4)?,
            state: linear(engine, 8, 8, 8.0, 0.3)?,
            out: linear(engine, 8, 1, 9.0, 0.4)?,
        })
    }

    /// Steps `[t, n, 3]` from a state, to `[t, n, 1]` and the state after them.
    fn forward(&self, x: &Tensor, mut h: Tensor) -> Result<(Tensor, Tensor)> {
        let mut outputs = Vec::new();
        for t in 0..x.shape()[0] {
            let driven = self.input.forward(&x.index(0, t as isize)?)?;
            h = driven.add(&self.state.forward(&h)?)?.tanh()?;
            outputs.push(self.out.forward(&h)?);
        }
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        Ok((Tensor::stack(&outputs, 0)?, h))
    }
}

fn chunk(engine: &Engine, call: usize) -> Result<Tensor> {
    wave(engine, &[5, 4, 3], 100.0 + call as f64, 1.0)
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let zeros = Tensor::zeros(&engine, &[4, 8], DType::F32)?;

    let cell = Cell::new(&engine)?;
    let state = Parameter::buffer(zeros.clone());
    let kept = Jit::new(&engine, |x: &[Tensor]| {
        let (y, h) = cell.forward(&x[0], state.get())?;
        state.set(h)?;
        Ok(vec![y])
    });
    let handed = Jit::new(&engine, |x: &[Tensor]| {
        let (y, h) = cell.forward(&x[0], x[1].clone())?;
        Ok(vec![y, h])
    });
    let mut h = zeros.clone();
    let mut old = Vec::new();
    for i in 0..200 {
        let x = chunk(&engine, i)?;
        let y = kept.call(std::slice::from_ref(&x))?;
        let mut both = handed.call(&[x, h])?;
        h = both.remove(1);
        if i == 3 || i == 199 {
            old.push((y[0].clone(), both.remove(0), state.get(), h.clone()));
        }
    }
    for (y, z, state, h) in &old {
        assert_eq!(y.to_vec::<f32>()?, z.to_vec::<f32>()?, "outputs");
        assert_eq!(state.to_vec::<f32>()?, h.to_vec::<f32>()?, "states");
    }
    // torch.nn.Linear and tanh, 2.15.0: the last outputs and the state after 1,000 steps.
    let y = old[1].0.index(0, 4)?.to_vec::<f32>()?;
    all_close(
        "outputs",
        &y,
        &[0.276772, 0.5263933, 0.2607448, 0.3236477],
        1e-4,
    );
    let expected = [0.399619, 0.003354984, 0.4398656];
    all_close(
        "the state",
        &state.get().to_vec::<f32>()?[..3],
        &expected,
        1e-4,
    );

    let cell = Cell::new(&engine)?;
    state.set(zeros)?;
    let mut sgd = Sgd::new(cell.trainable(), 0.05, 0.9, false, 0.0)?;
    let train = Jit::new(&engine, |x: &[Tensor]| {
        // A value of a parameter: nothing of the call before is behind it.
        let (y, h) = cell.forward(&x[0], state.get())?;
        let loss = y.mse_loss(&x[0].mean(&[2], true)?, Reduction::Mean)?;
        state.set(h)?;
        sgd.minimize(&loss)?;
        Ok(vec![loss])
    });
    let losses: Vec<f32> = (0..30)
        .map(|i| Ok(train.call(&[chunk(&engine, i)?])?[0].item()?))
        .collect::<Result<_>>()?;
    // The same with torch.optim.SGD and the state detached before each call.
    let at = [0, 5, 15, 29].map(|i| losses[i]);
    all_close(
        "losses",
        &at,
        &[0.2179373, 0.05503683, 0.009172286, 0.01241338],
        1e-3,
    );
    let expected = [0.3457525, 0.1106486, 0.4645548];
    all_close(
        "the trained state",
        &state.get().to_vec::<f32>()?[..3],
        &expected,
        1e-3,
    );
    println!(
        "recurrent: a state carried through 1,000 steps; training takes the loss from {:.4} to {:.4}",
        losses[0], losses[29]
    );
    Ok(())
}
