//! Training stops when the validation loss no longer falls, and the best weights come back.

use doorbell::nn::{Optimizer, Sgd, commit};
use doorbell::ops::loss::Reduction;
use doorbell::{Jit, Parameter, Result, Tensor};

use super::check::{close, size, wave};

fn forward(weights: &[Parameter], x: &Tensor) -> Result<Tensor> {
    Ok(x.linear(&weights[0].get(), None)?
        .tanh()?
        .linear(&weights[1].get(), None)?)
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let target = |x: &Tensor| -> Result<Tensor> { Ok(x.narrow(1, 0, 1)?.sub(x.narrow(1, 1, 1)?)?) };
    let x = wave(&engine, &[10, 8], 0.9, 1.0)?;
    let y = target(&x)?.add(wave(&engine, &[10, 1], 5.3, 0.8)?)?;
    let unseen = wave(&engine, &[20, 8], 0.77, 1.0)?;
    let truth = target(&unseen)?;
    let weights = vec![
        Parameter::new(wave(&engine, &[16, 8], 1.3, 0.3)?),
        Parameter::new(wave(&engine, &[1, 16], 2.3, 0.3)?),
    ];
    let mut sgd = Sgd::new(weights.clone(), 0.1, 0.9, false, 0.0)?;
    let step = Jit::new(&engine, |batch: &[Tensor]| {
        let loss = forward(&weights, &batch[0])?.mse_loss(&batch[1], Reduction::Mean)?;
        sgd.minimize(&loss)?;
        Ok(vec![loss])
    });
    let score = Jit::new(&engine, |batch: &[Tensor]| {
        Ok(vec![
            forward(&weights, &batch[0])?.mse_loss(&batch[1], Reduction::Mean)?,
        ])
    });

    let (mut scores, mut best, mut at) = (Vec::new(), f32::INFINITY, 0);
    let (mut kept, mut all, mut last) = (Vec::new(), Vec::new(), 0.0);
    for k in 0..200 {
        last = step.call(&[x.clone(), y.clone()])?[0].item::<f32>()?;
        let now: f32 = score.call(&[unseen.clone(), truth.clone()])?[0].item()?;
        all.push(weights[0].get());
        scores.push(now);
        if now < best {
            (best, at) = (now, k);
            kept = weights.iter().map(Parameter::get).collect();
        }
        if k - at >= 10 {
            break;
        }
    }
    let ended = size(&weights[0].get())?;
    for (weight, best) in weights.iter().zip(&kept) {
        weight.set(best.clone())?;
    }
    commit(&weights)?;
    let again: f32 = score.call(&[unseen.clone(), truth.clone()])?[0].item()?;
    // torch.optim.SGD(lr=0.1, momentum=0.9), ten steps of patience, clones of the best weights.
    assert_eq!(
        (scores.len(), at),
        (13, 2),
        "when it stopped, and the best step"
    );
    let ends = [best, scores[0], scores[12], last];
    close(
        "scores",
        &ends,
        &[0.06617038, 0.6647146, 0.3437509, 0.03319205],
    );
    assert_eq!(again, best, "the score of the restored weights");
    let sizes = [size(&kept[0])?, ended, kept[1].sum(&[], false)?.item()?];
    close("weights", &sizes, &[23.60209, 23.12959, 0.228742]);
    assert_eq!(
        size(&all[2])?,
        size(&weights[0].get())?,
        "the handle of step 2"
    );

    // Training goes on from the restored weights, and the handles stay what they are.
    step.call(&[x.clone(), y.clone()])?;
    close("the kept weight", &[size(&kept[0])?], &[23.60209]);
    assert_ne!(size(&kept[0])?, size(&weights[0].get())?);
    println!(
        "early: the best of {} steps was {at}, with {best:.4}",
        scores.len()
    );
    Ok(())
}
