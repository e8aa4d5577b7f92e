//! Loss, accuracy and the norm of the gradient at every step, read at once and read again at the end from
//! handles that were kept, with the weights of every step.

use doorbell::nn::{Linear, Module, Optimizer, Sgd, part};
use doorbell::ops::loss::Classes;
use doorbell::{DType, Engine, Jit, Result, Tensor, gradients};

use super::check::{all_close, linear, wave};

fn batch(engine: &Engine, step: usize) -> Result<[Tensor; 2]> {
    let x = wave(engine, &[24, 4], 700.0 + step as f64, 1.0)?;
    let y = x.narrow(1, 0, 3)?.argmax(1, false)?;
    Ok([x, y])
}

struct Net(Linear, Linear);

impl Module for Net {
    fn parameters(&self) -> Vec<(String, doorbell::Parameter)> {
        [part("0", &self.0), part("1", &self.1)].concat()
    }
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let net = Net(
        linear(&engine, 4, 12, 23.0, 0.6)?,
        linear(&engine, 12, 3, 24.0, 0.6)?,
    );
    let mut sgd = Sgd::new(net.trainable(), 0.2, 0.9, false, 0.0)?;
    let step = Jit::new(&engine, |b: &[Tensor]| {
        let logits = net.1.forward(&net.0.forward(&b[0])?.relu()?)?;
        let loss = logits.cross_entropy(&b[1], &Classes::default())?;
        let right = logits.argmax(1, false)?.eq(&b[1])?.cast(DType::F32)?;

        let weights: Vec<Tensor> = net.trainable().iter().map(|p| p.get()).collect();
        let slopes = gradients(&loss, &weights.iter().collect::<Vec<_>>())?;
        let squares: Vec<Tensor> = slopes
            .iter()
            .map(|s| s.square()?.sum(&[], false))
            .collect::<Result<_, _>>()?;
        let norm = Tensor::sum_of(&squares.iter().collect::<Vec<_>>())?.sqrt()?;
        // As torch.nn.utils.clip_grad_norm_ with 0.5.
        let factor = norm.add(1e-6)?.reciprocal()?.mul(0.5)?.minimum(1.0)?;
        let clipped: Vec<Tensor> = slopes
            .iter()
            .map(|s| s.mul(&factor))
            .collect::<Result<_, _>>()?;
        sgd.step(&clipped)?;
        Ok(vec![loss, right.mean(&[], false)?, norm])
    });

    let (mut rows, mut kept) = (Vec::new(), Vec::new());
    for i in 0..25 {
        let before = net.0.weight.get();
        let outputs = step.call(&batch(&engine, i)?)?;
        let row: Vec<f32> = outputs.iter().map(Tensor::item).collect::<Result<_, _>>()?;
        // Every other step's weights are read only at the end.
        let weights = (i % 2 == 0).then(|| before.to_vec::<f32>()).transpose()?;
        rows.push(row);
        kept.push((outputs, before, weights));
    }
    // PyTorch 2.15.0 with torch.optim.SGD: loss, accuracy, norm before it was clipped.
    for (i, expected) in [
        (0, [0.8503478, 0.7083333, 0.6215571]),
        (1, [0.9539902, 0.6666667, 0.6346408]),
        (6, [0.381246, 0.9583333, 0.5094631]),
        (12, [0.4989991, 0.75, 0.3750606]),
        (24, [0.2334031, 0.9583333, 0.4612499]),
    ] {
        all_close(&format!("step {i}"), &rows[i], &expected, 1e-3);
    }
    let mut seen: Vec<Vec<f32>> = Vec::new();
    for ((outputs, before, weights), row) in kept.iter().zip(&rows) {
        let again: Vec<f32> = outputs.iter().map(Tensor::item).collect::<Result<_, _>>()?;
        assert_eq!(again, *row, "metrics, read again");
        let now = before.to_vec::<f32>()?;
        assert_eq!(weights.as_ref().unwrap_or(&now), &now, "kept weights");
        assert!(!seen.contains(&now), "weights of two steps are the same");
        seen.push(now);
    }
    let last = &rows[24];
    println!(
        "metrics: after 25 steps loss {:.4}, accuracy {:.2}, gradient {:.4}",
        last[0], last[1], last[2]
    );
    Ok(())
}
