//! Operators of the domain `com.microsoft` that stand for several others.

use codegen::DType;

use super::nn;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

/// Operators of ONNX Runtime, which its optimizer writes.
pub(super) const MICROSOFT: Table = &[
    ("BiasAdd", |c| {
        one(Tensor::sum_of(&[
            &c.tensor(0)?,
            &c.tensor(1)?,
            &c.tensor(2)?,
        ])?)
    }),
    ("BiasDropout", bias_dropout),
    ("BiasGelu", bias_gelu),
    ("BiasSoftmax", bias_softmax),
    ("BiasSplitGelu", bias_split_gelu),
    ("EmbedLayerNormalization", embed_layer_norm),
    ("FastGelu", fast_gelu),
    ("FusedConv", fused_conv),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", |c| one(fused_matmul(c)?)),
    ("FusedMatMulActivation", |c| {
        let y = fused_matmul(c)?;
        activated_by_attributes(c, &y)
    }),
    ("Gelu", |c| one(c.tensor(0)?.gelu()?)),
    ("GemmFastGelu", gemm_fast_gelu),
    ("GroupNorm", |c| {
        let x = c.tensor(0)?;
        one(group_norm(c, &x)?)
    }),
    ("IsAllFinite", is_all_finite),
    ("QuickGelu", quick_gelu),
    ("ScaledSiLU", scaled_silu),
    ("SkipGroupNorm", skip_group_norm),
    ("SkipLayerNormalization", skip_layer_norm),
    ("SkipSimplifiedLayerNormalization", skip_simplified),
    ("TransposeMatMul", |c| one(fused_matmul(c)?)),
];

/// What exporters put into the default domain though the format has no such operator.
pub(super) const OPS: Table = &[("SimplifiedLayerNormalization", simplified_layer_norm)];

fn bias_gelu(c: &mut Call) -> Result<Vec<Value>> {
    one(c.tensor(0)?.add(&c.tensor(1)?)?.gelu()?)
}

/// The left half times the activated right one.
fn bias_split_gelu(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?.add(&c.tensor(1)?)?;
    match &x.chunk(2, -1)?[..] {
        [left, right] => one(left.mul(&right.gelu()?)?),
        _ => wrong(format!("expected an even last axis, found {:?}", x.shape())),
    }
}

/// Nothing is dropped in a model that is only run.
fn bias_dropout(c: &mut Call) -> Result<Vec<Value>> {
    if c.has(4) && c.int(4)? != 0 {
        return unsupported(format!("{} with training_mode", c.node.op));
    }
    let mut y = c.tensor(0)?.add(&c.tensor(1)?)?;
    if let Some(residual) = c.optional(2)? {
        y = y.add(&residual)?;
    }
    let kept = Tensor::ones(c.engine(), y.shape(), DType::Bool)?;
    Ok(vec![y.into(), kept.into()])
}

/// Everything from the axis on is one axis; the bias has as many axes as it has, filled up in the
/// middle or in front.
fn bias_softmax(c: &mut Call) -> Result<Vec<Value>> {
    let (x, mut bias) = (c.tensor(0)?, c.tensor(1)?);
    let at = axis(c.int_or("axis", 1)?, x.rank())?;
    if c.int_or("is_inner_broadcast", 0)? != 0 && bias.rank() < x.rank() {
        let missing = x.rank() - bias.rank();
        let (outer, inner) = bias
            .shape()
            .split_at(at.saturating_sub(missing).min(bias.rank()));
        bias = bias.reshape(&[outer, &vec![1; missing], inner].concat())?;
    }
    let y = x.add(&bias)?;
    let rows: usize = x.shape()[..at].iter().product();
    let columns: usize = x.shape()[at..].iter().product();
    one(y
        .reshape(&[rows, columns])?
        .softmax(1)?
        .reshape(x.shape())?)
}

fn is_all_finite(c: &mut Call) -> Result<Vec<Value>> {
    let (infinite, nan) = (
        c.int_or("isinf_only", 0)? != 0,
        c.int_or("isnan_only", 0)? != 0,
    );
    let mut all = Tensor::ones(c.engine(), &[], DType::Bool)?;
    for x in c.tensors(0)? {
        let fine = match (infinite, nan) {
            (true, false) => x.isinf()?.not()?,
            (false, true) => x.isnan()?.not()?,
            _ => x.isfinite()?,
        };
        all = all.logical_and(&fine.all(&[], false)?)?;
    }
    one(all)
}

/// Rounded to the type of the model after each step.
fn scaled_silu(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let z = match c.optional(1)? {
        Some(scale) => x
            .cast(DType::F32)?
            .mul(&scale.cast(DType::F32)?.reshape(&[])?)?,
        None => x.cast(DType::F32)?.mul(c.float_or("alpha", 1.0)?)?,
    };
    let z = z.cast(x.dtype())?;
    let s = z.cast(DType::F32)?.sigmoid()?.cast(x.dtype())?;
    one(z.mul(&s)?)
}

/// Groups of channels, which are last unless an attribute says otherwise, and an activation.
fn group_norm(c: &mut Call, x: &Tensor) -> Result<Tensor> {
    let (gamma, beta) = (c.tensor(1)?, c.tensor(2)?);
    let last = c.int_or("channels_last", 1)? != 0;
    let groups = match usize::try_from(c.needed("groups", c.attr_int("groups")?)?) {
        Ok(n) if n > 0 => n,
        _ => return wrong("expected attribute groups of at least 1"),
    };
    let image = if last { x.move_axis(-1, 1)? } else { x.clone() };
    let eps = c.float_or("epsilon", 1e-5)?;
    let y = image.cast(image.dtype().promote(DType::F32))?;
    let (gamma, beta) = (gamma.cast(y.dtype())?, beta.cast(y.dtype())?);
    let y = y.group_norm(groups, Some(&gamma), Some(&beta), eps)?;
    let y = match c.int_or("activation", 0)? {
        0 => y,
        1 => y.mul(&y.sigmoid()?)?,
        other => {
            return wrong(format!(
                "expected attribute activation of 0 or 1, found {other}"
            ));
        }
    };
    let y = y.cast(x.dtype())?;
    Ok(if last { y.move_axis(1, -1)? } else { y })
}

fn skip_group_norm(c: &mut Call) -> Result<Vec<Value>> {
    let (x, mut skip) = (c.tensor(0)?, c.tensor(3)?);
    let last = c.int_or("channels_last", 1)? != 0;
    let channels = |t: &Tensor| {
        let (n, count) = (t.numel() / t.shape()[t.rank() - 1], t.shape()[t.rank() - 1]);
        match last {
            true => t.reshape(&[n, 1, 1, count]),
            false => t.reshape(&[n, count, 1, 1]),
        }
    };
    if skip.rank() == 2 {
        skip = channels(&skip)?;
    }
    let mut sum = x.add(&skip)?;
    if let Some(bias) = c.optional(4)? {
        sum = sum.add(&channels(&bias)?)?;
    }
    let y = group_norm(c, &sum)?;
    Ok(vec![y.into(), sum.into()])
}

fn fast_gelu(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let x = match c.optional(1)? {
        Some(bias) => x.add(&bias)?,
        None => x,
    };
    one(x.gelu_tanh()?)
}

fn quick_gelu(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let alpha = c.float_or("alpha", 1.702)?;
    one(x.in_f32(|x| x.mul(&x.mul(alpha)?.sigmoid()?))?)
}

/// A convolution, a sum with input 3 if there is one, an activation.
pub(super) fn fused_conv(c: &mut Call) -> Result<Vec<Value>> {
    let mut y = nn::convolved(c)?;
    if let Some(other) = c.optional(3)? {
        y = y.add(&other)?;
    }
    let parameters = c.attr_floats("activation_params")?.unwrap_or_default();
    let of = |i: usize, default: f64| parameters.get(i).copied().unwrap_or(default);
    activated(c, &y, (of(0, f64::NAN), of(1, f64::NAN)))
}

/// A matrix product with a bias, and an activation.
fn fused_gemm(c: &mut Call) -> Result<Vec<Value>> {
    let y = nn::product(c)?;
    activated_by_attributes(c, &y)
}

/// The activation with its parameters in attributes of their own.
fn activated_by_attributes(c: &Call, y: &Tensor) -> Result<Vec<Value>> {
    let alpha = c.float_or("activation_alpha", f64::NAN)?;
    let beta = c.float_or("activation_beta", f64::NAN)?;
    activated(c, y, (alpha, beta))
}

/// The activation that the attribute names; parameters that are not there are NaN.
fn activated(c: &Call, y: &Tensor, (a, b): (f64, f64)) -> Result<Vec<Value>> {
    let or = |x: f64, default: f64| if x.is_nan() { default } else { x };
    one(match c.str_or("activation", "")? {
        "" => y.clone(),
        "Relu" => y.relu()?,
        "Sigmoid" => y.sigmoid()?,
        "Tanh" => y.tanh()?,
        "LeakyRelu" => y.leaky_relu(or(a, 0.01))?,
        "Clip" => y.clip(or(a, f64::NEG_INFINITY), or(b, f64::INFINITY))?,
        "HardSigmoid" => y.hardsigmoid(or(a, 0.2), or(b, 0.5))?,
        "Elu" => y.elu(or(a, 1.0))?,
        "Gelu" => y.gelu()?,
        "Identity" => y.clone(),
        "QuickGelu" => y.in_f32(|y| y.mul(&y.mul(or(a, 1.702))?.sigmoid()?))?,
        "Softmax" => y.softmax(axis(c.int_or("activation_axis", -1)?, y.rank())? as isize)?,
        "Softplus" => y.softplus(1.0)?,
        "Softsign" => y.softsign()?,
        "ThresholdedRelu" => y.thresholded_relu(or(a, 1.0))?,
        other => return unsupported(format!("{} with activation {other}", c.node.op)),
    })
}

fn fused_matmul(c: &mut Call) -> Result<Tensor> {
    let (mut a, mut b) = (c.tensor(0)?, c.tensor(1)?);
    // First the batch axes change places with the rows, then the last two with each other.
    for (x, batch, plain) in [
        (&mut a, "transBatchA", "transA"),
        (&mut b, "transBatchB", "transB"),
    ] {
        if c.int_or(batch, 0)? != 0 && x.rank() > 2 {
            *x = x.move_axis(0, -2)?;
        }
        if c.int_or(plain, 0)? != 0 && x.rank() > 1 {
            *x = x.t()?;
        }
    }
    let alpha = c.float_or("alpha", 1.0)?;
    let y = a.matmul(&b)?;
    Ok(match alpha {
        1.0 => y,
        alpha => y.mul(alpha)?.cast(y.dtype())?,
    })
}

fn gemm_fast_gelu(c: &mut Call) -> Result<Vec<Value>> {
    let y = c.tensor(0)?.matmul(&c.tensor(1)?)?;
    let y = match c.optional(2)? {
        Some(bias) => y.add(&bias)?,
        None => y,
    };
    one(y.gelu_tanh()?)
}

/// The last axis standardized, or only scaled to a mean square of 1 if `centre` is not asked for:
/// the result, the mean and the inverse deviation, in at least `f32`.
fn normalized(x: &Tensor, centre: bool, eps: f64) -> crate::Result<[Tensor; 3]> {
    let x = x.cast(x.dtype().promote(DType::F32))?;
    let mean = x.mean(&[-1], true)?;
    let x = if centre { x.sub(&mean)? } else { x };
    let inverse = x
        .square()?
        .mean(&[-1], true)?
        .add(eps)?
        .sqrt()?
        .reciprocal()?;
    Ok([x.mul(&inverse)?, mean, inverse])
}

/// `y * gamma + beta` in the type of the model.
fn scaled(
    y: &Tensor,
    gamma: &Tensor,
    beta: Option<&Tensor>,
    dtype: DType,
) -> crate::Result<Tensor> {
    let y = y.mul(&gamma.cast(y.dtype())?)?;
    let y = match beta {
        Some(beta) => y.add(&beta.cast(y.dtype())?)?,
        None => y,
    };
    y.cast(dtype)
}

/// Input 0 plus what is skipped, plus the bias at `bias` if it is there.
fn skipped(c: &mut Call, bias: usize) -> Result<Tensor> {
    let (x, skip) = (c.tensor(0)?, c.tensor(1)?);
    let sum = x.add(&skip)?;
    Ok(match c.optional(bias)? {
        Some(bias) => sum.add(&bias)?,
        None => sum,
    })
}

fn skip_layer_norm(c: &mut Call) -> Result<Vec<Value>> {
    let sum = skipped(c, 4)?;
    let (gamma, beta) = (c.tensor(2)?, c.optional(3)?);
    let [y, mean, inverse] = normalized(&sum, true, c.float_or("epsilon", 1e-12)?)?;
    let y = scaled(&y, &gamma, beta.as_ref(), sum.dtype())?;
    Ok(vec![y.into(), mean.into(), inverse.into(), sum.into()])
}

fn skip_simplified(c: &mut Call) -> Result<Vec<Value>> {
    let sum = skipped(c, 3)?;
    let gamma = c.tensor(2)?;
    let [y, mean, inverse] = normalized(&sum, false, c.float_or("epsilon", 1e-12)?)?;
    let y = scaled(&y, &gamma, None, sum.dtype())?;
    Ok(vec![y.into(), mean.into(), inverse.into(), sum.into()])
}

/// The older name of RMSNormalization.
fn simplified_layer_norm(c: &mut Call) -> Result<Vec<Value>> {
    let (x, gamma) = (c.tensor(0)?, c.tensor(1)?);
    let first = super::nn::attr_axis(c, "axis", -1, x.rank())?;
    let inner: usize = x.shape()[first..].iter().product();
    let flat = [&x.shape()[..first], &[inner]].concat();
    let [y, _, inverse] = normalized(&x.reshape(&flat)?, false, c.float_or("epsilon", 1e-5)?)?;
    let y = scaled(&y.reshape(x.shape())?, &gamma, None, gamma.dtype())?;
    let mut shape = vec![1; x.rank()];
    shape[..first].copy_from_slice(&x.shape()[..first]);
    Ok(vec![y.into(), inverse.reshape(&shape)?.into()])
}

fn embed_layer_norm(c: &mut Call) -> Result<Vec<Value>> {
    let ids = c.tensor(0)?;
    let &[_, length] = ids.shape() else {
        return wrong(format!(
            "expected ids [batch, length], found {:?}",
            ids.shape()
        ));
    };
    let mut sum = c.tensor(2)?.embedding(&ids)?;
    let places = c.tensor(3)?;
    sum = sum.add(&match c.optional(8)? {
        Some(at) => places.embedding(&at)?,
        None => places.narrow(0, 0, length)?,
    })?;
    if let (Some(segments), Some(table)) = (c.optional(1)?, c.optional(4)?) {
        sum = sum.add(&table.embedding(&segments)?)?;
    }
    let (gamma, beta) = (c.tensor(5)?, c.tensor(6)?);
    embedded(c, &sum, &gamma, &beta)
}

/// The normalised sum, the number of words in each row by the mask in input 7, and the sum.
pub(super) fn embedded(
    c: &mut Call,
    sum: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
) -> Result<Vec<Value>> {
    let [y, ..] = normalized(sum, true, c.float_or("epsilon", 1e-12)?)?;
    let counts = match c.optional(7)? {
        Some(mask) => mask.cast(DType::I32)?.sum_in(DType::I32, &[1], false)?,
        None => Tensor::zeros(c.engine(), &sum.shape()[..1], DType::I32)?,
    };
    let y = scaled(&y, gamma, Some(beta), sum.dtype())?;
    Ok(vec![y.into(), counts.into(), sum.clone().into()])
}
