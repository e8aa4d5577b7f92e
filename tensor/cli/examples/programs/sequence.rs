//! Two layers of gated recurrent units learn a running sum over one long stream: the state goes on from batch to
//! batch, gradients are limited, and AdamW takes the steps, all of it in one captured function.

use doorbell::nn::optim::clip_grad_norm;
use doorbell::nn::recurrent::Stack;
use doorbell::nn::{AdamW, Gru, Linear, Module, Optimizer, Parameter, commit, part};
use doorbell::ops::loss::Reduction;
use doorbell::{DType, Jit, Result, Rng, Tensor};

use super::check::{all_close, close, linear, wave};

struct Net {
    gru: Gru,
    out: Linear,
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        [part("gru", &self.gru), part("out", &self.out)].concat()
    }
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let of = Stack {
        layers: 2,
        batch_first: true,
        ..Stack::new(3, 8)
    };
    let net = Net {
        gru: Gru::new(&mut Rng::new(&engine, 7), of, DType::F32)?,
        out: linear(&engine, 8, 1, 9.0, 0.4)?,
    };
    // Weights that PyTorch can have as well.
    for (i, cell) in net.gru.trainable().iter().enumerate() {
        cell.set(wave(&engine, cell.get().shape(), 20.0 + i as f64, 0.4)?)?;
    }
    commit(net.trainable())?;
    let state = Parameter::buffer(Tensor::zeros(&engine, &[2, 4, 8], DType::F32)?);
    let mut adam = AdamW::new(net.trainable(), 1e-2, (0.9, 0.99), 1e-8, 0.1)?;
    let step = Jit::new(&engine, |x: &[Tensor]| {
        // A value of a parameter: nothing of the batch before is behind it.
        let (y, h) = net.gru.forward(&x[0], Some(&state.get()))?;
        state.set(h)?;
        let target = x[0].cumsum(1)?.mean(&[2], true)?;
        let y = net.out.forward(&y)?;
        let loss = y.smooth_l1_loss(&target, 0.5, Reduction::Mean)?;
        let mut norm = None;
        adam.minimize_with(&loss, &mut |gradients| {
            let (limited, total) = clip_grad_norm(&gradients, 0.5)?;
            norm = Some(total);
            Ok(limited)
        })?;
        Ok([Some(loss), norm].into_iter().flatten().collect())
    });
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for i in 0..40 {
        let out = step.call(&[wave(&engine, &[4, 6, 3], 100.0 + f64::from(i), 1.0)?])?;
        losses.push(out[0].item::<f32>()?);
        norms.push(out[1].item::<f32>()?);
    }
    // torch.nn.GRU, SmoothL1Loss(beta=0.5), clip_grad_norm_ and AdamW, 2.15.0.
    let at = |all: &[f32]| [0, 10, 20, 39].map(|i: usize| all[i]);
    let expected = [0.277_891_4, 0.224_577_7, 0.157_702_4, 0.071_674_88];
    all_close("losses", &at(&losses), &expected, 1e-4);
    let expected = [0.782_359_5, 0.140_087_5, 0.163_763_5, 0.887_569_5];
    all_close("norms of gradients", &at(&norms), &expected, 1e-3);
    let h = state.get();
    close(
        "the state",
        h.abs()?.sum(&[], false)?.item()?,
        16.801_14,
        1e-4,
    );
    let h = h.index(0, 1)?.index(0, 0)?.to_vec::<f32>()?;
    let expected = [0.447_186_4, -0.183_708_2, -0.332_596];
    all_close("the state of the second layer", &h[..3], &expected, 1e-3);
    println!(
        "sequence: a state carried through 240 steps; training takes the loss from {:.4} to {:.4}",
        losses[0], losses[39]
    );
    Ok(())
}
