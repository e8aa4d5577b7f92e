//! Random numbers.

use codegen::DType;

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one, sizes};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
    ("RandomNormal", |c| random(c, false, true)),
    ("RandomNormalLike", |c| random(c, true, true)),
    ("RandomUniform", |c| random(c, false, false)),
    ("RandomUniformLike", |c| random(c, true, false)),
];

fn random(c: &mut Call, like: bool, normal: bool) -> Result<Vec<Value>> {
    let (shape, of) = match like {
        true => {
            let x = c.array(0)?.tensor;
            (x.shape().to_vec(), x.dtype())
        }
        false => {
            let shape = c.attr_ints("shape")?;
            (sizes(&c.needed("shape", shape)?)?, DType::F32)
        }
    };
    let dtype = c.attr_dtype("dtype")?.unwrap_or(of);
    let (a, b) = match normal {
        true => (c.float_or("mean", 0.0)?, c.float_or("scale", 1.0)?),
        false => (c.float_or("low", 0.0)?, c.float_or("high", 1.0)?),
    };
    let mut rng = c.rng()?;
    one(match normal {
        true => rng.normal(&shape, a, b, dtype)?,
        false => rng.uniform(&shape, a, b, dtype)?,
    })
}

fn bernoulli(c: &mut Call) -> Result<Vec<Value>> {
    let p = c.tensor(0)?;
    let dtype = c.attr_dtype("dtype")?.unwrap_or(p.dtype());
    one(c.rng()?.bernoulli(&p)?.cast(dtype)?)
}

fn multinomial(c: &mut Call) -> Result<Vec<Value>> {
    let logits = c.tensor(0)?;
    let count = sizes(&[c.int_or("sample_size", 1)?])?[0];
    let dtype = c.attr_dtype("dtype")?.unwrap_or(DType::I32);
    let p = logits.softmax(-1)?;
    one(c.rng()?.multinomial(&p, count, true)?.cast(dtype)?)
}

/// Outside of training nothing is dropped.
pub(super) fn dropout(c: &mut Call) -> Result<Vec<Value>> {
    let training = match c.opset() {
        12.. => c.has(2) && c.int(2)? != 0,
        // An older model is only ever run outside of training, whatever `is_test` says.
        _ => false,
    };
    let ratio = match c.opset() {
        12.. if c.has(1) => c.floats(1)?.first().copied().unwrap_or(0.5),
        12.. => 0.5,
        _ => c.float_or("ratio", 0.5)?,
    };
    if !(0.0..=1.0).contains(&ratio) {
        return wrong(format!("expected a ratio in 0..=1, found {ratio}"));
    }
    let x = c.tensor(0)?;
    if !training || ratio == 0.0 {
        let mask = Tensor::full(x.engine(), x.shape(), true, DType::Bool)?;
        let mask = match c.opset() {
            10.. => mask,
            _ => mask.cast(x.dtype())?,
        };
        return Ok(vec![x.into(), mask.into()]);
    }
    let keep = c.rng()?.rand(x.shape(), DType::F32)?.ge(ratio)?;
    // With a ratio of 1 nothing is kept, and the factor does not matter.
    let scaled = x
        .mul(1.0 / (1.0 - ratio).max(f64::MIN_POSITIVE))?
        .cast(x.dtype())?;
    let dropped = keep.where_(&scaled, &x.zeros_like()?)?;
    Ok(vec![dropped.into(), keep.into()])
}
