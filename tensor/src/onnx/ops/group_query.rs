//! Attention of language models over a cache of keys and values, and the rotation of its inputs.

use codegen::DType;

use super::attention::{Rotary, heads, merged, split};
use super::heads::scale;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("GemmaRotaryEmbedding", gemma_rotary_embedding),
    ("GroupQueryAttention", group_query_attention),
    ("RotaryEmbedding", rotary_embedding),
];

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

/// Angles and what is turned a quarter are given.
fn gemma_rotary_embedding(c: &mut Call) -> Result<Vec<Value>> {
    let angles = c.tensor(0)?.unsqueeze(1)?;
    let mut turned = |i: usize| -> Result<Value> {
        let (x, quarter) = (c.tensor(i)?, c.tensor(i + 1)?);
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let y = x.mul(&cos.cast(x.dtype())?)?;
        Ok(y.add(&quarter.mul(&sin.cast(x.dtype())?)?)?.into())
    };
    Ok(vec![turned(1)?, turned(3)?])
}

/// Forms that are not there, by the attribute or input that asks for them.
fn refused(c: &Call) -> Result<()> {
    let op = &c.node.op;
    for name in ["k_quant_type", "v_quant_type"] {
        let kind = c.str_or(name, "NONE")?;
        if kind != "NONE" {
            return unsupported(format!("{op} with attribute {name} = {kind}"));
        }
    }
    if c.int_or("sliding_window_cache", 0)? != 0 {
        return unsupported(format!("{op} with attribute sliding_window_cache = 1"));
    }
    Ok(())
}

/// The lengths of a step.
struct Lengths {
    batch: usize,
    queries: usize,
    /// Positions of the longest sequence, the new ones included.
    total: usize,
    /// Positions of each sequence before the new ones, `[batch, 1]`.
    past: Tensor,
}

impl Lengths {
    fn of(c: &mut Call, batch: usize, queries: usize) -> Result<Lengths> {
        let last = c.tensor(5)?.cast(DType::I64)?;
        if last.numel() != batch {
            return wrong(format!(
                "expected seqlens_k of {batch} sequences, found {:?}",
                last.shape()
            ));
        }
        let total = match usize::try_from(c.int(6)?) {
            Ok(total) if total >= queries => total,
            _ => {
                return wrong(format!(
                    "expected a total_sequence_length of at least {queries}"
                ));
            }
        };
        let last = last.reshape(&[batch, 1])?;
        let past = match total == queries {
            // The first step: shorter sequences are filled up behind their ends.
            true => last.zeros_like()?,
            false => last.add(1)?.sub(queries as i64)?,
        };
        Ok(Lengths {
            batch,
            queries,
            total,
            past,
        })
    }

    /// The place of each query in its sequence, `[batch, queries]`.
    fn places(&self) -> crate::Result<Tensor> {
        let steps = Tensor::iota(self.past.engine(), self.queries, DType::I64)?;
        self.past.add(&steps.reshape(&[1, self.queries])?)
    }

    /// The new positions behind those of the cache that are in use: as long as the cache, or as the
    /// longest sequence.
    fn cached(&self, past: Option<Tensor>, new: &Tensor) -> Result<Tensor> {
        let Some(past) = past else {
            return Ok(new.clone());
        };
        let &[batch, own, room, width] = past.shape() else {
            return wrong(format!(
                "expected a cache [batch, heads, length, width], found {:?}",
                past.shape()
            ));
        };
        if [batch, own, width] != [new.shape()[0], new.shape()[1], new.shape()[3]] {
            return wrong(format!(
                "expected a cache that fits {:?}, found {:?}",
                new.shape(),
                past.shape()
            ));
        }
        let len = room.max(self.total);
        let both = Tensor::cat(&[&past, new], 2)?;
        // From the cache up to its end in this sequence, then the new ones, then what was there.
        let at = Tensor::iota(past.engine(), len, DType::I64)?.reshape(&[1, len])?;
        let offset = at.sub(&self.past)?;
        let inside = offset
            .lt(self.queries as i64)?
            .logical_and(&offset.ge(0)?)?;
        let kept = at.clip(0, room.saturating_sub(1) as i64)?;
        let index = inside.where_(&offset.add(room as i64)?, &kept)?;
        let shape = [batch, own, len, width];
        let index = index.reshape(&[batch, 1, len, 1])?.expand(&shape)?;
        Ok(both.pick(2, &index)?)
    }
}

fn group_query_attention(c: &mut Call) -> Result<Vec<Value>> {
    refused(c)?;
    let (own, shared) = (heads(c, "num_heads")?, heads(c, "kv_num_heads")?);
    if !own.is_multiple_of(shared) {
        return wrong(format!(
            "expected num_heads {own} to be a multiple of kv_num_heads {shared}"
        ));
    }
    let q = c.tensor(0)?;
    let (q, k, v) = match (c.optional(1)?, c.optional(2)?) {
        (Some(k), Some(v)) => (q, k, v),
        _ => {
            let whole = q.shape().last().copied().unwrap_or(0);
            let width = whole / (own + 2 * shared);
            let widths = [own * width, shared * width, shared * width];
            match <[Tensor; 3]>::try_from(q.split(&widths, -1)?) {
                Ok([q, k, v]) => (q, k, v),
                Err(_) => return wrong("expected queries, keys and values in one tensor"),
            }
        }
    };
    let (mut q, mut k, v) = (split(&q, own)?, split(&k, shared)?, split(&v, shared)?);
    let &[batch, _, queries, width] = q.shape() else {
        return wrong(format!("expected a rank of 3, found {:?}", q.shape()));
    };
    if k.shape() != [batch, shared, queries, width] || v.shape() != k.shape() {
        return wrong(format!(
            "expected keys and values [{batch}, {queries}, {}], found {:?} and {:?}",
            shared * width,
            k.shape(),
            v.shape()
        ));
    }
    if let (Some(of_q), Some(of_k)) = (c.optional(14)?, c.optional(15)?) {
        let eps = c.float_or("qk_norm_epsilon", 1e-6)?;
        (q, k) = (q.rms_norm(Some(&of_q), eps)?, k.rms_norm(Some(&of_k), eps)?);
    }
    let lengths = Lengths::of(c, batch, queries)?;
    if c.int_or("do_rotary", 0)? != 0 {
        let places = match c.optional(9)? {
            Some(places) if places.numel() == batch * queries => {
                places.cast(DType::I64)?.reshape(&[batch, queries])?
            }
            // In the first step one number stands for all, which begin at 0.
            _ => lengths.places()?,
        };
        let places = places.maximum(0)?;
        let (cos, sin) = (c.tensor(7)?, c.tensor(8)?);
        let options = Rotary {
            heads: None,
            turned: 2 * cos.shape().last().copied().unwrap_or(0),
            interleaved: c.int_or("rotary_interleaved", 0)? != 0,
        };
        let (cos, sin) = (cos.index_select(0, &places)?, sin.index_select(0, &places)?);
        (q, k) = (
            options.apply(&q, &cos, &sin)?,
            options.apply(&k, &cos, &sin)?,
        );
    }
    let (past_k, past_v) = (c.optional(3)?, c.optional(4)?);
    let (k, v) = (lengths.cached(past_k, &k)?, lengths.cached(past_v, &v)?);
    let (y, shown) = attend(c, &q, &k, &v, &lengths)?;
    Ok(vec![y.into(), k.into(), v.into(), shown.into()])
}

/// Each query sees its own place and those before it, or the last few of them. Gives the result and
/// the scores, or the weights, as an attribute says.
fn attend(
    c: &mut Call,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    lengths: &Lengths,
) -> Result<(Tensor, Tensor)> {
    let &[batch, own, queries, width] = q.shape() else {
        return wrong(format!("expected a rank of 4, found {:?}", q.shape()));
    };
    let (shared, total) = (k.shape()[1], lengths.total.min(k.shape()[2]));
    let wide = q.dtype().promote(DType::F32);
    // Neighbouring heads share their keys and values.
    let grouped = |x: &Tensor| -> crate::Result<Tensor> {
        x.narrow(2, 0, total)?.repeat_interleave(own / shared, 1)
    };
    let scores = q.matmul_in(&grouped(k)?.t()?, wide)?;
    let mut scores = scores.mul(scale(c, width)?)?;
    let cap = c.float_or("softcap", 0.0)?;
    if cap > 0.0 {
        scores = scores.div(cap)?.tanh()?.mul(cap)?;
    }
    let places = lengths.places()?.reshape(&[lengths.batch, 1, queries, 1])?;
    let at = Tensor::iota(q.engine(), total, DType::I64)?.reshape(&[1, 1, 1, total])?;
    let last = match c.int_or("causal", 1)? {
        0 => lengths
            .past
            .add(queries as i64 - 1)?
            .reshape(&[batch, 1, 1, 1])?,
        _ => places.clone(),
    };
    let mut hidden = at.gt(&last)?;
    let window = c.int_or("local_window_size", -1)?;
    if window > 0 {
        hidden = hidden.logical_or(&at.add(window)?.le(&places)?)?;
    }
    if let Some(bias) = c.optional(10)? {
        scores = scores.add(&bias.cast(wide)?)?;
    }
    let scores = scores.masked_fill(&hidden, f64::NEG_INFINITY)?;
    let sink = match c.optional(11)? {
        Some(sink) => Some(sink.cast(wide)?.reshape(&[1, own, 1, 1])?),
        None if c.int_or("smooth_softmax", -1)? > 0 => {
            Some(Tensor::zeros(q.engine(), &[1, 1, 1, 1], wide)?)
        }
        None => None,
    };
    let weights = match sink {
        None => scores.softmax(-1)?,
        // One more score, which has no value.
        Some(sink) => {
            let sink = sink.expand(&[batch, own, queries, 1])?;
            let all = Tensor::cat(&[&scores, &sink], -1)?.softmax(-1)?;
            all.narrow(-1, 0, total)?
        }
    };
    let y = weights.matmul_in(&grouped(v)?, wide)?.cast(q.dtype())?;
    let shown = match c.int_or("qk_output", 0)? {
        1 => scores,
        _ => weights,
    };
    Ok((merged(&y)?, shown.cast(q.dtype())?))
}
