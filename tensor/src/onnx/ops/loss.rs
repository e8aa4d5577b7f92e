//! Losses.

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;
use crate::ops::loss::{Classes, Reduction};

pub(super) const OPS: Table = &[
    ("NegativeLogLikelihoodLoss", |c| {
        let x = c.tensor(0)?;
        one(nll(c, &x)?)
    }),
    ("SoftmaxCrossEntropyLoss", softmax_cross_entropy),
];

/// The negative log likelihood of input 1 under log-probabilities.
fn nll(c: &mut Call, logs: &Tensor) -> Result<Tensor> {
    let target = c.tensor(1)?;
    let options = Classes {
        weight: c.optional(2)?,
        ignore: c.attr_int("ignore_index")?,
        smoothing: 0.0,
        reduction: match c.str_or("reduction", "mean")? {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            other => return c.bad_word("reduction", &["none", "sum", "mean"], other),
        },
    };
    Ok(logs.nll_loss(&target, &options)?)
}

fn softmax_cross_entropy(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    if x.rank() < 2 {
        return wrong(format!(
            "expected scores [n, c, s..], found {:?}",
            x.shape()
        ));
    }
    let logs = x.log_softmax(1)?;
    Ok(vec![nll(c, &logs)?.into(), logs.into()])
}
