//! Operators of the domain `com.microsoft` that stand for several others.

use codegen::DType;

use super::attention::{Rotary, Scores, heads};
use super::nn;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one, sizes};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

/// Operators of ONNX Runtime, which its optimizer writes.
pub(super) const MICROSOFT: Table = &[
    ("Attention", packed_attention),
    ("BiasGelu", bias_gelu),
    ("EmbedLayerNormalization", embed_layer_norm),
    ("FastGelu", fast_gelu),
    ("FusedConv", fused_conv),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", fused_matmul),
    ("Gelu", |c| one(c.tensor(0)?.gelu()?)),
    ("MultiHeadAttention", multi_head_attention),
    ("QuickGelu", quick_gelu),
    ("RotaryEmbedding", rotary_embedding),
    ("SkipLayerNormalization", skip_layer_norm),
    ("SkipSimplifiedLayerNormalization", skip_simplified),
];

/// What exporters put into the default domain though the format has no such operator.
pub(super) const OPS: Table = &[("SimplifiedLayerNormalization", simplified_layer_norm)];

fn bias_gelu(c: &mut Call) -> Result<Vec<Value>> {
    one(c.tensor(0)?.add(&c.tensor(1)?)?.gelu()?)
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
fn fused_conv(c: &mut Call) -> Result<Vec<Value>> {
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
    let alpha = c.float_or("activation_alpha", f64::NAN)?;
    let beta = c.float_or("activation_beta", f64::NAN)?;
    activated(c, &y, (alpha, beta))
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
        other => return unsupported(format!("{} with activation {other}", c.node.op)),
    })
}

fn fused_matmul(c: &mut Call) -> Result<Vec<Value>> {
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
    one(match alpha {
        1.0 => y,
        alpha => y.mul(alpha)?.cast(y.dtype())?,
    })
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
    let &[batch, length] = ids.shape() else {
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
    let [y, ..] = normalized(&sum, true, c.float_or("epsilon", 1e-12)?)?;
    let counts = match c.optional(7)? {
        Some(mask) => mask.cast(DType::I32)?.sum_in(DType::I32, &[1], false)?,
        None => Tensor::zeros(c.engine(), &[batch], DType::I32)?,
    };
    let y = scaled(&y, &gamma, Some(&beta), sum.dtype())?;
    Ok(vec![y.into(), counts.into(), sum.into()])
}

fn rotary_embedding(c: &mut Call) -> Result<Vec<Value>> {
    let (x, positions) = (c.tensor(0)?, c.tensor(1)?);
    let (cos, sin) = (c.tensor(2)?, c.tensor(3)?);
    if c.int_or("is_packed_batching", 0)? != 0 {
        return unsupported("RotaryEmbedding with attribute is_packed_batching = 1");
    }
    if c.float_or("scale", 1.0)? != 1.0 {
        return unsupported("RotaryEmbedding with attribute scale other than 1");
    }
    let mut options = Rotary::of(c)?;
    let half = cos.shape().last().copied().unwrap_or(0);
    if options.turned == 0 && cos.rank() == 2 && x.rank() == 3 && options.heads.is_none() {
        // The width is that of the angles.
        let hidden = x.shape()[2];
        options.heads = hidden
            .checked_div(half.saturating_mul(2))
            .filter(|&h| h > 0);
    }
    let length = match x.rank() {
        4 => x.shape()[2],
        _ => x.shape().get(1).copied().unwrap_or(0),
    };
    // One number is where all rows begin.
    let positions = match positions.numel() {
        1 => {
            let steps = Tensor::iota(x.engine(), length, DType::I64)?;
            let first = positions.cast(DType::I64)?.reshape(&[1])?;
            first.add(&steps)?.reshape(&[1, length])?
        }
        _ => positions,
    };
    let at = |table: &Tensor| table.index_select(0, &positions);
    one(options.apply(&x, &at(&cos)?, &at(&sin)?)?)
}

/// `[batch, length, heads * width]` as `[batch, heads, length, width]`.
fn split(x: &Tensor, heads: usize) -> Result<Tensor> {
    match *x.shape() {
        [batch, length, hidden] if hidden.is_multiple_of(heads) => {
            let x = x.reshape(&[batch, length, heads, hidden / heads])?;
            Ok(x.transpose(1, 2)?)
        }
        [_, _, _, _] => Ok(x.clone()),
        _ => wrong(format!(
            "expected [batch, length, width of {heads} heads], found {:?}",
            x.shape()
        )),
    }
}

/// What hides keys, as a summand of the scores `[batch, heads, queries, keys]`: how many there are,
/// or 0 for each that is hidden.
fn hiding(c: &Call, mask: &Tensor, batch: usize, keys: usize) -> Result<Tensor> {
    let seen = match *mask.shape() {
        [n] if n == batch => {
            let at = Tensor::iota(mask.engine(), keys, DType::I64)?;
            let ends = mask.cast(DType::I64)?.reshape(&[batch, 1, 1, 1])?;
            at.lt(&ends)?
        }
        [n, k] if n == batch && k == keys => mask.ne(0)?.reshape(&[n, 1, 1, k])?,
        [n, _, k] if n == batch && k == keys => mask.ne(0)?.unsqueeze(1)?,
        _ => return unsupported(format!("{} with a mask {:?}", c.node.op, mask.shape())),
    };
    let low = c.float_or("mask_filter_value", -10000.0)?;
    let zero = Tensor::zeros(mask.engine(), seen.shape(), DType::F32)?;
    Ok(zero.masked_fill(&seen.not()?, low)?)
}

/// Attention of `[batch, heads, length, width]`, with the inputs of masks: the result is
/// `[batch, length, heads * width]`.
fn attend(
    c: &mut Call,
    [q, k, v]: [&Tensor; 3],
    mask: Option<Tensor>,
    bias: Option<Tensor>,
) -> Result<Tensor> {
    let (&[batch, own, queries, width], &[_, _, keys, _]) = (q.shape(), k.shape()) else {
        return wrong(format!(
            "expected queries and keys of rank 4, found {:?} and {:?}",
            q.shape(),
            k.shape()
        ));
    };
    if k.shape() != [batch, own, keys, width] || v.rank() != 4 || v.shape()[..3] != k.shape()[..3] {
        return wrong(format!(
            "expected queries, keys and values of the same heads, found {:?}, {:?} and {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        ));
    }
    let scale = c.float_or("scale", 0.0)?;
    let scale = if scale == 0.0 {
        1.0 / (width.max(1) as f64).sqrt()
    } else {
        scale
    };
    let mask = mask.map(|mask| hiding(c, &mask, batch, keys)).transpose()?;
    let mask = match (mask, bias) {
        (Some(mask), Some(bias)) => Some(mask.add(&bias)?),
        (mask, bias) => mask.or(bias),
    };
    let wide = q.dtype().promote(DType::F32);
    let options = Scores {
        mask,
        causal: (c.int_or("unidirectional", 0)? != 0).then_some(keys as i64 - queries as i64),
        softcap: 0.0,
        precision: wide,
    };
    let scores = q.matmul_in(&k.t()?, wide)?.mul(scale)?;
    let weights = options.weights(&scores)?.weights;
    let y = weights.matmul_in(v, wide)?.cast(q.dtype())?;
    let out = own * v.shape()[3];
    Ok(y.transpose(1, 2)?.reshape(&[batch, queries, out])?)
}

fn multi_head_attention(c: &mut Call) -> Result<Vec<Value>> {
    let n = heads(c, "num_heads")?;
    let q = c.tensor(0)?;
    if c.has(8) || c.has(9) || c.wants(3) {
        return unsupported("MultiHeadAttention with a shared buffer or its scores");
    }
    // One tensor may hold queries, keys and values, or keys and values.
    let (q, mut k, mut v) = match (q.rank(), c.optional(1)?, c.optional(2)?) {
        (5, None, None) => {
            let part = |i: isize| q.index(3, i)?.transpose(1, 2);
            (part(0)?, part(1)?, part(2)?)
        }
        (3, Some(k), None) if k.rank() == 5 => {
            let part = |i: isize| k.index(3, i)?.transpose(1, 2);
            (q.clone(), part(0)?, part(1)?)
        }
        (3, Some(k), Some(v)) => (q.clone(), k, v),
        _ => return unsupported(format!("MultiHeadAttention of queries {:?}", q.shape())),
    };
    let (mut q, bias) = (q, c.optional(3)?);
    if let Some(bias) = bias {
        if q.rank() != 3 || k.rank() != 3 || v.rank() != 3 {
            return unsupported("MultiHeadAttention with a bias of packed inputs");
        }
        let widths = [q.shape()[2], k.shape()[2], v.shape()[2]];
        let parts = bias.split(&widths, 0)?;
        (q, k, v) = (q.add(&parts[0])?, k.add(&parts[1])?, v.add(&parts[2])?);
    }
    let (q, mut k, mut v) = (split(&q, n)?, split(&k, n)?, split(&v, n)?);
    if let Some(past) = c.optional(6)? {
        k = Tensor::cat(&[&past, &k], 2)?;
    }
    if let Some(past) = c.optional(7)? {
        v = Tensor::cat(&[&past, &v], 2)?;
    }
    let (mask, bias) = (c.optional(4)?, c.optional(5)?);
    let y = attend(c, [&q, &k, &v], mask, bias)?;
    Ok(vec![y.into(), k.into(), v.into()])
}

/// Queries, keys and values are one product of the input.
fn packed_attention(c: &mut Call) -> Result<Vec<Value>> {
    let n = heads(c, "num_heads")?;
    let (x, w) = (c.tensor(0)?, c.tensor(1)?);
    if c.int_or("do_rotary", 0)? != 0 || c.int_or("past_present_share_buffer", 0)? != 0 || c.has(6)
    {
        return unsupported("Attention with rotation or a shared buffer");
    }
    let mut product = x.matmul(&w)?;
    if let Some(bias) = c.optional(2)? {
        product = product.add(&bias)?;
    }
    let whole = product.shape().last().copied().unwrap_or(0);
    let widths = match c.attr_ints("qkv_hidden_sizes")? {
        Some(list) => sizes(&list)?,
        None => vec![whole / 3; 3],
    };
    if widths.len() != 3 {
        return wrong(format!("expected three qkv_hidden_sizes, found {widths:?}"));
    }
    let parts = product.split(&widths, -1)?;
    let [q, k, v] = &parts[..] else {
        return wrong("expected queries, keys and values");
    };
    let (q, mut k, mut v) = (split(q, n)?, split(k, n)?, split(v, n)?);
    if let Some(past) = c.optional(4)? {
        k = Tensor::cat(&[&past.index(0, 0)?, &k], 2)?;
        v = Tensor::cat(&[&past.index(0, 1)?, &v], 2)?;
    }
    let (mask, bias) = (c.optional(3)?, c.optional(5)?);
    let mut out = vec![attend(c, [&q, &k, &v], mask, bias)?.into()];
    if c.wants(1) {
        out.push(Tensor::stack(&[&k, &v], 0)?.into());
    }
    Ok(out)
}
