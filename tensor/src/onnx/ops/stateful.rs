//! Layers that keep a state between runs: linear attention, the causal convolution before it, and
//! attention whose scores a subgraph changes.

use codegen::DType;

use super::attention::{heads, merged, split};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;
use crate::ops::conv::ConvParams;

pub(super) const OPS: Table = &[
    ("CausalConvWithState", causal_conv),
    ("LinearAttention", linear_attention),
];

/// The same, of which only the forms are there that the format has taken up.
pub(super) const MICROSOFT: Table = &[
    ("CausalConvWithState", |c| {
        let more = [
            ("channels_last", 0),
            ("dilation", 1),
            ("ndim", 1),
            ("state_window", 0),
        ];
        taken_up(c, &more)?;
        causal_conv(c)
    }),
    ("LinearAttention", |c| {
        taken_up(c, &[("state_window", 0)])?;
        linear_attention(c)
    }),
];

pub(super) const PREVIEW: Table = &[("FlexAttention", flex_attention)];

/// Refuses attributes with other values than these.
fn taken_up(c: &Call, attrs: &[(&str, i64)]) -> Result<()> {
    for &(name, usual) in attrs {
        let found = c.int_or(name, usual)?;
        if found != usual {
            return unsupported(format!("{} with attribute {name} = {found}", c.node.op));
        }
    }
    Ok(())
}

/// Each channel on its own, over what was kept and what is new.
fn causal_conv(c: &mut Call) -> Result<Vec<Value>> {
    let (x, weight, bias) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    let (&[batch, channels, length], &[outer, 1, kernel]) = (x.shape(), weight.shape()) else {
        return wrong(format!(
            "expected an input [n, c, length] and a weight [c, 1, k], found {:?} and {:?}",
            x.shape(),
            weight.shape()
        ));
    };
    if outer != channels || kernel == 0 {
        return wrong(format!(
            "expected a weight [{channels}, 1, k] with k of at least 1, found {:?}",
            weight.shape()
        ));
    }
    let kept = [batch, channels, kernel - 1];
    let past = match c.optional(3)? {
        Some(past) if past.shape() == kept => past,
        Some(past) => {
            return wrong(format!(
                "expected a state {kept:?}, found {:?}",
                past.shape()
            ));
        }
        None => Tensor::zeros(c.engine(), &kept, x.dtype())?,
    };
    let all = Tensor::cat(&[&past, &x], 2)?;
    let wide = x.dtype().promote(DType::F32);
    let bias = bias.map(|bias| bias.cast(wide)).transpose()?;
    let y = all.cast(wide)?.conv(
        &weight.cast(wide)?,
        bias.as_ref(),
        &ConvParams::strided(1, 1),
        channels,
    )?;
    let y = match c.str_or("activation", "none")? {
        "none" | "" => y,
        "silu" | "swish" => y.mul(&y.sigmoid()?)?,
        other => return c.bad_word("activation", &["none", "silu", "swish"], other),
    };
    let state = all.narrow(2, length, kernel - 1)?;
    Ok(vec![y.cast(x.dtype())?.into(), state.into()])
}

/// What the state becomes before a key and a value join it.
#[derive(Clone, Copy)]
struct Rule {
    /// It fades, by a factor for each head or for each element of a key.
    gated: bool,
    /// What it already knows of the key is taken from the value.
    delta: bool,
}

/// A state `[batch, heads, key width, value width]` that takes a key and a value at each step.
fn linear_attention(c: &mut Call) -> Result<Vec<Value>> {
    let (own, shared) = (heads(c, "q_num_heads")?, heads(c, "kv_num_heads")?);
    let rule = match c.str_or("update_rule", "gated_delta")? {
        "linear" => Rule {
            gated: false,
            delta: false,
        },
        "gated" => Rule {
            gated: true,
            delta: false,
        },
        "delta" => Rule {
            gated: false,
            delta: true,
        },
        "gated_delta" => Rule {
            gated: true,
            delta: true,
        },
        other => {
            let known = ["linear", "gated", "delta", "gated_delta"];
            return c.bad_word("update_rule", &known, other);
        }
    };
    let (x, out) = (c.tensor(0)?, c.tensor(0)?.dtype());
    let wide = out.promote(DType::F32);
    let q = split(&x.cast(wide)?, own)?;
    let k = split(&c.tensor(1)?.cast(wide)?, shared)?;
    let v = split(&c.tensor(2)?.cast(wide)?, shared)?;
    let (&[batch, _, steps, width], &[_, _, _, depth]) = (q.shape(), v.shape()) else {
        return wrong(format!("expected a rank of 3, found {:?}", x.shape()));
    };
    if k.shape() != [batch, shared, steps, width]
        || v.shape() != [batch, shared, steps, depth]
        || !own.is_multiple_of(shared)
    {
        return wrong(format!(
            "expected keys and values of {shared} heads that fit queries {:?}, found {:?} and {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        ));
    }
    let scale = match c.float_or("scale", 0.0)? {
        0.0 => 1.0 / (width.max(1) as f64).sqrt(),
        scale => scale,
    };
    let mut state = match c.optional(3)? {
        Some(past) => past,
        None => Tensor::zeros(c.engine(), &[batch, shared, width, depth], out)?,
    };
    let stored = state.dtype();
    state = state.cast(wide)?;
    // [batch, heads, steps, width or 1], as factors of rows of the state.
    let fade = match (rule.gated, c.optional(4)?) {
        (true, Some(fade)) => Some(split(&fade.cast(wide)?, shared)?.exp()?),
        (true, None) => return wrong("expected an input decay for this update_rule, found none"),
        (false, _) => None,
    };
    let rate = match (rule.delta, c.optional(5)?) {
        (true, Some(rate)) => {
            let rate = rate.cast(wide)?.expand(&[batch, steps, shared])?;
            Some(rate.transpose(1, 2)?.unsqueeze(3)?)
        }
        (true, None) => return wrong("expected an input beta for this update_rule, found none"),
        (false, _) => None,
    };
    let mut outputs = Vec::with_capacity(steps);
    for i in 0..steps {
        c.eval.may_iterate(i as i64)?;
        let at = |t: &Tensor| t.narrow(2, i, 1);
        if let Some(fade) = &fade {
            state = state.mul(&at(fade)?.transpose(2, 3)?)?;
        }
        let (key, mut value) = (at(&k)?, at(&v)?);
        if let Some(rate) = &rate {
            value = value.sub(&key.matmul(&state)?)?.mul(&at(rate)?)?;
        }
        state = state.add(&key.transpose(2, 3)?.matmul(&value)?)?;
        let seen = state.repeat_interleave(own / shared, 1)?;
        outputs.push(at(&q)?.matmul(&seen)?.mul(scale)?);
        if i % 16 == 15 {
            let now = outputs.iter().rev().take(16).chain([&state]);
            let now: Vec<Value> = now.cloned().map(Value::from).collect();
            c.eval.settle(&now)?;
        }
    }
    let y = match outputs.is_empty() {
        false => Tensor::cat(&outputs.iter().collect::<Vec<_>>(), 2)?,
        true => Tensor::zeros(c.engine(), &[batch, own, 0, depth], wide)?,
    };
    Ok(vec![
        merged(&y)?.cast(out)?.into(),
        state.cast(stored)?.into(),
    ])
}

/// Subgraphs may change the scores, and the weights.
fn flex_attention(c: &mut Call) -> Result<Vec<Value>> {
    let (q, k, v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (&[batch, own, _, width], &[_, shared, keys, _]) = (q.shape(), k.shape()) else {
        return wrong(format!(
            "expected queries and keys of rank 4, found {:?} and {:?}",
            q.shape(),
            k.shape()
        ));
    };
    if k.shape() != [batch, shared, keys, width]
        || v.rank() != 4
        || v.shape()[..3] != [batch, shared, keys]
        || shared == 0
        || !own.is_multiple_of(shared)
    {
        return wrong(format!(
            "expected keys and values that fit queries {:?}, found {:?} and {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        ));
    }
    let wide = q.dtype().promote(DType::F32);
    let precision = c.attr_dtype("softmax_precision")?.unwrap_or(wide);
    let scale = c
        .attr_float("scale")?
        .unwrap_or(1.0 / (width.max(1) as f64).sqrt());
    let group = |t: &Tensor| t.repeat_interleave(own / shared, 1);
    let scores = q
        .matmul_in(&group(&k)?.t()?, wide)?
        .mul(scale)?
        .cast(precision)?;
    let scores = changed(c, "score_mod", scores)?;
    let weights = scores
        .cast(precision.promote(DType::F32))?
        .softmax(-1)?
        .cast(precision)?;
    let weights = changed(c, "prob_mod", weights)?;
    let y = weights.cast(wide)?.matmul_in(&group(&v)?, wide)?;
    one(y.cast(q.dtype())?)
}

/// What the subgraph of an attribute makes of a tensor, if it is there.
fn changed(c: &mut Call, name: &str, x: Tensor) -> Result<Tensor> {
    if c.attr(name).is_none() {
        return Ok(x);
    }
    let graph = c.graph(name)?;
    let shape = x.shape().to_vec();
    match c.run(&graph, &[x.into()])?.into_iter().next() {
        Some(Value::Tensor(array)) if array.tensor.shape() == shape => Ok(c.here(&array)?.tensor),
        _ => wrong(format!("expected {name} to return one tensor {shape:?}")),
    }
}
