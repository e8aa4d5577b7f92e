//! Losses and random numbers.

use tensor::ops::loss::{Classes, Reduction};
use tensor::ops::random::threefry_tensors;
use tensor::{Rng, Tensor};

use super::{Call, CallError, Outcome};

fn reduction(c: &Call<'_>) -> Result<Reduction, CallError> {
    match c.case.text("reduction")? {
        "mean" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        "none" => Ok(Reduction::None),
        other => Err(c.word("way to reduce losses", other)),
    }
}

fn classes(c: &Call<'_>) -> Result<Classes, CallError> {
    Ok(Classes {
        weight: c.inputs.get(2).cloned(),
        ignore: c.case.maybe_float("ignore")?.map(|x| x as i64),
        smoothing: c.case.float("smoothing")?,
        reduction: reduction(c)?,
    })
}

fn loss(c: &Call<'_>) -> Outcome {
    let (x, y) = match c.inputs {
        [x, y, ..] => (x, y),
        _ => return Ok(None),
    };
    let out = match c.case.op.as_str() {
        "cross_entropy" => x.cross_entropy(y, &classes(c)?),
        "nll_loss" => x.nll_loss(y, &classes(c)?),
        "sparse_categorical_crossentropy" => x.sparse_categorical_crossentropy(y),
        "binary_cross_entropy" => x.binary_cross_entropy(y, reduction(c)?),
        "binary_cross_entropy_logits" => {
            x.binary_cross_entropy_logits(y, c.inputs.get(2), reduction(c)?)
        }
        "mse_loss" => x.mse_loss(y, reduction(c)?),
        "l1_loss" => x.l1_loss(y, reduction(c)?),
        "smooth_l1_loss" => x.smooth_l1_loss(y, c.case.float("beta")?, reduction(c)?),
        "huber_loss" => x.huber_loss(y, c.case.float("delta")?, reduction(c)?),
        "kl_div" => x.kl_div(y, reduction(c)?),
        _ => return Ok(None),
    };
    Ok(Some(vec![out?]))
}

fn random(c: &Call<'_>) -> Outcome {
    let case = c.case;
    let rng = || Ok::<_, CallError>(Rng::new(c.engine, case.size("seed")? as u64));
    let shape = || case.sizes("shape");
    let float = |name| case.float(name);
    let out: tensor::Result<Tensor> = match case.op.as_str() {
        "threefry_tensors" => {
            let key = [c.input(0)?, c.input(1)?];
            let [a, b] = threefry_tensors(key, [c.input(2)?, c.input(3)?])?;
            return Ok(Some(vec![a, b]));
        }
        "bits" => rng()?.bits(&shape()?),
        "rand" => rng()?.rand(&shape()?, c.dtype()?),
        "uniform" => rng()?.uniform(&shape()?, float("low")?, float("high")?, c.dtype()?),
        "randn" => rng()?.randn(&shape()?, c.dtype()?),
        "normal" => rng()?.normal(&shape()?, float("mean")?, float("std")?, c.dtype()?),
        "randint" => {
            let (low, high) = (case.int("low")? as i64, case.int("high")? as i64);
            rng()?.randint(&shape()?, low, high, c.dtype()?)
        }
        "bernoulli" => rng()?.bernoulli(c.input(0)?),
        "randperm" => rng()?.randperm(case.size("n")?),
        "multinomial" => {
            let replacement = case.flag("replacement")?;
            rng()?.multinomial(c.input(0)?, case.size("samples")?, replacement)
        }
        "dropout" => rng()?.dropout(c.input(0)?, float("p")?),
        _ => return Ok(None),
    };
    Ok(Some(vec![out?]))
}

pub(super) fn call(c: &Call<'_>) -> Outcome {
    match loss(c)? {
        Some(results) => Ok(Some(results)),
        None => random(c),
    }
}
