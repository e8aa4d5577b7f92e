//! Normalisation.

use codegen::DType;

use super::nn::attr_axis;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axes, one};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("BatchNormalization", batch_normalization),
    ("GroupNormalization", group_normalization),
    ("Hardmax", |c| along_rest(c, Tensor::hardmax)),
    ("InstanceNormalization", instance_normalization),
    ("LRN", lrn),
    ("LayerNormalization", layer_normalization),
    ("LogSoftmax", |c| along_rest(c, Tensor::log_softmax)),
    ("LpNormalization", lp_normalization),
    ("MeanVarianceNormalization", mean_variance),
    ("RMSNormalization", rms_normalization),
    ("Softmax", |c| along_rest(c, Tensor::softmax)),
];

/// Before version 13 these work on the matrix that an axis cuts the input into.
fn along_rest(
    c: &mut Call,
    f: impl Fn(&Tensor, isize) -> crate::Result<Tensor>,
) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    if c.opset() >= 13 {
        let axis = attr_axis(c, "axis", -1, x.rank())?;
        return one(f(&x, axis as isize)?);
    }
    let axis = match c.int_or("axis", 1)? {
        // The axis after the last one is allowed: rows of one element.
        n if n == x.rank() as i64 => x.rank(),
        n => crate::onnx::call::axis(n, x.rank())?,
    };
    let rows: usize = x.shape()[..axis].iter().product();
    let columns: usize = x.shape()[axis..].iter().product();
    let flat = x.reshape(&[rows, columns])?;
    one(f(&flat, 1)?.reshape(x.shape())?)
}

/// A vector of channels, as it broadcasts against `[n, c, s..]`.
fn channels(v: &Tensor, rank: usize) -> crate::Result<Tensor> {
    let mut shape = vec![1; rank.max(2)];
    shape[1] = v.numel();
    v.reshape(&shape[..rank.max(2)])
}

pub(super) fn batch_normalization(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let (scale, bias) = (c.tensor(1)?, c.tensor(2)?);
    let (mean, var) = (c.tensor(3)?, c.tensor(4)?);
    let eps = c.float_or("epsilon", 1e-5)?;
    if x.rank() < 2 {
        return wrong(format!("expected [n, c, s..], found {:?}", x.shape()));
    }
    for (v, name) in [
        (&scale, "scale"),
        (&bias, "B"),
        (&mean, "mean"),
        (&var, "var"),
    ] {
        if v.numel() != x.shape()[1] {
            return wrong(format!(
                "expected {name} of {} channels, found {:?}",
                x.shape()[1],
                v.shape()
            ));
        }
    }
    let wide = |t: &Tensor| t.cast(t.dtype().promote(DType::F32));
    let (scale, bias) = (wide(&scale)?, wide(&bias)?);
    let rank = x.rank();
    let apply = |mean: &Tensor, var: &Tensor| -> crate::Result<Tensor> {
        // One factor and one summand per channel: with constant statistics they are constants.
        let factor = scale.mul(&wide(var)?.add(eps)?.sqrt()?.reciprocal()?)?;
        let summand = bias.sub(&wide(mean)?.mul(&factor)?)?;
        let y = wide(&x)?.mul(&channels(&factor, rank)?)?;
        y.add(&channels(&summand, rank)?)?.cast(x.dtype())
    };
    if c.int_or("training_mode", 0)? == 0 {
        return one(apply(&mean, &var)?);
    }
    let momentum = c.float_or("momentum", 0.9)?;
    let along: Vec<isize> = (0..rank as isize).filter(|&a| a != 1).collect();
    let (now_var, now_mean) = wide(&x)?.var_mean(&along, 0.0, false)?;
    let mix = |old: &Tensor, new: &Tensor| -> crate::Result<Value> {
        let kept = wide(old)?.mul(momentum)?;
        Ok(kept
            .add(&new.mul(1.0 - momentum)?)?
            .cast(old.dtype())?
            .into())
    };
    Ok(vec![
        apply(&now_mean, &now_var)?.into(),
        mix(&mean, &now_mean)?,
        mix(&var, &now_var)?,
    ])
}

/// `(x - mean) / sqrt(var + eps)` over axes, in at least `f32`; with the mean and the inverse
/// deviation.
fn standardized(x: &Tensor, along: &[isize], eps: f64) -> crate::Result<[Tensor; 3]> {
    let mean = x.mean(along, true)?;
    let centered = x.sub(&mean)?;
    let var = centered.square()?.mean(along, true)?;
    let inverse = var.add(eps)?.sqrt()?.reciprocal()?;
    Ok([centered.mul(&inverse)?, mean, inverse])
}

fn layer_normalization(c: &mut Call) -> Result<Vec<Value>> {
    let (x, scale, bias) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    let first = attr_axis(c, "axis", -1, x.rank())?;
    let along: Vec<isize> = (first..x.rank()).map(|a| a as isize).collect();
    // The type that the statistics are computed and given in; float unless it says otherwise.
    let stash = c.attr_dtype("stash_type")?.unwrap_or(DType::F32);
    let wide = x.cast(x.dtype().promote(stash))?;
    let [y, mean, inverse] = standardized(&wide, &along, c.float_or("epsilon", 1e-5)?)?;
    let mut y = y.cast(x.dtype())?.mul(&scale)?;
    if let Some(bias) = bias {
        y = y.add(&bias)?;
    }
    Ok(vec![
        y.into(),
        mean.cast(stash)?.into(),
        inverse.cast(stash)?.into(),
    ])
}

fn rms_normalization(c: &mut Call) -> Result<Vec<Value>> {
    let (x, scale) = (c.tensor(0)?, c.tensor(1)?);
    let first = attr_axis(c, "axis", -1, x.rank())?;
    let along: Vec<isize> = (first..x.rank()).map(|a| a as isize).collect();
    let stash = c.attr_dtype("stash_type")?.unwrap_or(DType::F32);
    let wide = x.cast(x.dtype().promote(stash))?;
    let mean = wide.square()?.mean(&along, true)?;
    let factor = mean
        .add(c.float_or("epsilon", 1e-5)?)?
        .sqrt()?
        .reciprocal()?;
    one(wide.mul(&factor)?.cast(scale.dtype())?.mul(&scale)?)
}

pub(super) fn instance_normalization(c: &mut Call) -> Result<Vec<Value>> {
    let (x, scale, bias) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let along: Vec<isize> = (2..x.rank() as isize).collect();
    if along.is_empty() {
        return wrong(format!("expected [n, c, s..], found {:?}", x.shape()));
    }
    let wide = x.cast(x.dtype().promote(DType::F32))?;
    let [y, ..] = standardized(&wide, &along, c.float_or("epsilon", 1e-5)?)?;
    let y = y.mul(&channels(&scale, x.rank())?)?;
    one(y.add(&channels(&bias, x.rank())?)?.cast(x.dtype())?)
}

/// Before version 21 scale and bias are per group, then per channel.
fn group_normalization(c: &mut Call) -> Result<Vec<Value>> {
    let (x, scale, bias) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let groups = c.attr_int("num_groups")?;
    let groups = usize::try_from(c.needed("num_groups", groups)?).unwrap_or(0);
    if x.rank() < 3 || groups == 0 || !x.shape()[1].is_multiple_of(groups) {
        return wrong(format!(
            "expected [n, c, s..] with {groups} groups dividing c, found {:?}",
            x.shape()
        ));
    }
    let stash = c.attr_dtype("stash_type")?.unwrap_or(DType::F32);
    let (n, ch) = (x.shape()[0], x.shape()[1]);
    let space: usize = x.shape()[2..].iter().product();
    let split = x.cast(x.dtype().promote(stash))?;
    let split = split.reshape(&[n, groups, ch / groups, space])?;
    let [y, ..] = standardized(&split, &[2, 3], c.float_or("epsilon", 1e-5)?)?;
    let y = y.cast(x.dtype())?;
    if c.opset() < 21 {
        let per = |v: &Tensor| v.reshape(&[1, groups, 1, 1]);
        let y = y.mul(&per(&scale)?)?.add(&per(&bias)?)?;
        return one(y.reshape(x.shape())?);
    }
    let y = y.reshape(x.shape())?.mul(&channels(&scale, x.rank())?)?;
    one(y.add(&channels(&bias, x.rank())?)?)
}

pub(super) fn lrn(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let size = c.attr_int("size")?;
    let Ok(size) = usize::try_from(c.needed("size", size)?) else {
        return wrong("expected attribute size of at least 0");
    };
    let (alpha, beta) = (c.float_or("alpha", 1e-4)?, c.float_or("beta", 0.75)?);
    one(x.local_response_norm(size, alpha, beta, c.float_or("bias", 1.0)?)?)
}

fn lp_normalization(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let along = attr_axis(c, "axis", -1, x.rank())? as isize;
    let norm = x.norm(super::nn::exponent(c)?, &[along], true)?;
    // Zeros stay what they are.
    one(norm.eq(0.0)?.where_(&x, &x.div(&norm)?)?)
}

fn mean_variance(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let along = c.attr_ints("axes")?.unwrap_or(vec![0, 2, 3]);
    let along = axes(&along, x.rank())?;
    let centered = x.sub(&x.mean(&along, true)?)?;
    let deviation = centered.square()?.mean(&along, true)?.sqrt()?;
    one(centered.div(&deviation.add(1e-9)?)?)
}
