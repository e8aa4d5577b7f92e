//! Attention as ONNX Runtime writes it: of one input and one weight for queries, keys and values, of
//! three inputs, of quantised numbers.

use codegen::DType;

use super::attention::{Scores, heads, merged, split};
use super::quant;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, sizes};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("Attention", attention),
    ("DecoderMaskedMultiHeadAttention", one_query),
    ("MultiHeadAttention", multi_head_attention),
    ("QAttention", quantized_attention),
];

/// The factor of the scores: the attribute, or what the width says.
pub(super) fn scale(c: &Call, width: usize) -> Result<f64> {
    Ok(match c.float_or("scale", 0.0)? {
        0.0 => 1.0 / (width.max(1) as f64).sqrt(),
        scale => scale,
    })
}

/// What hides keys, as a summand of the scores `[batch, heads, queries, keys]`: how many there are
/// (and where they begin), or 0 for each that is hidden.
fn hiding(c: &Call, mask: &Tensor, [batch, queries, keys]: [usize; 3]) -> Result<Tensor> {
    let at = |end: &Tensor| -> crate::Result<(Tensor, Tensor)> {
        let at = Tensor::iota(mask.engine(), keys, DType::I64)?;
        Ok((at, end.cast(DType::I64)?.reshape(&[batch, 1, 1, 1])?))
    };
    let seen = match *mask.shape() {
        [n] if n == batch => {
            let (at, ends) = at(mask)?;
            at.lt(&ends)?
        }
        // Ends, then starts.
        [n] if n == 2 * batch => {
            let (at, ends) = at(&mask.narrow(0, 0, batch)?)?;
            let starts = mask.narrow(0, batch, batch)?.cast(DType::I64)?;
            let begun = at.ge(&starts.reshape(&[batch, 1, 1, 1])?)?;
            at.lt(&ends)?.logical_and(&begun)?
        }
        // Lengths of keys, then where queries and keys begin, of which the lengths say enough.
        [n] if n == 3 * batch + 2 => {
            let (at, ends) = at(&mask.narrow(0, 0, batch)?)?;
            at.lt(&ends)?
        }
        [n, k] if n == batch && k == keys => mask.ne(0)?.reshape(&[n, 1, 1, k])?,
        [n, q, k] if n == batch && q == queries && k == keys => mask.ne(0)?.unsqueeze(1)?,
        // As large as the longest sequence: its rows are those of all keys.
        [n, 1, q, k] if n == batch && q >= keys && k >= keys => {
            let rows = mask.narrow(2, keys - queries.min(keys), queries)?;
            rows.narrow(3, 0, keys)?.ne(0)?
        }
        _ => {
            return unsupported(format!(
                "{} with a mask {:?} for {queries} queries and {keys} keys",
                c.node.op,
                mask.shape()
            ));
        }
    };
    let low = c.float_or("mask_filter_value", -10000.0)?;
    let zero = Tensor::zeros(mask.engine(), seen.shape(), DType::F32)?;
    Ok(zero.masked_fill(&seen.not()?, low)?)
}

/// Attention of `[batch, heads, length, width]`, with the inputs of masks: the result,
/// `[batch, length, heads * width]`, and the weights. The first `past` keys come before the queries.
pub(super) fn attend(
    c: &mut Call,
    [q, k, v]: [&Tensor; 3],
    past: usize,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
) -> Result<(Tensor, Tensor)> {
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
    let mask = mask.map(|mask| hiding(c, &mask, [batch, queries, keys]));
    let mask = match (mask.transpose()?, bias) {
        (Some(mask), Some(bias)) => Some(mask.add(&bias.cast(DType::F32)?)?),
        (mask, bias) => mask.or(bias),
    };
    let wide = q.dtype().promote(DType::F32);
    let options = Scores {
        mask,
        causal: (c.int_or("unidirectional", 0)? != 0).then_some(past as i64),
        softcap: 0.0,
        precision: wide,
    };
    let scores = q.matmul_in(&k.t()?, wide)?.mul(scale(c, width)?)?;
    let weights = options.weights(&scores)?.weights;
    let y = weights.matmul_in(v, wide)?.cast(q.dtype())?;
    Ok((merged(&y)?, weights))
}

/// Keys or values with those of the past before them. Where past and present share a buffer, `used`
/// of it are there; both what is to be seen and the buffer are given.
fn grown(past: &Tensor, new: &Tensor, used: Option<usize>) -> Result<(Tensor, Tensor)> {
    if past.rank() != 4 || new.rank() != 4 {
        return wrong(format!(
            "expected a past [batch, heads, length, width], found {:?}",
            past.shape()
        ));
    }
    let Some(used) = used else {
        let all = Tensor::cat(&[past, new], 2)?;
        return Ok((all.clone(), all));
    };
    let (room, len) = (past.shape()[2], new.shape()[2]);
    let Some(rest) = room.checked_sub(used.saturating_add(len)) else {
        return wrong(format!(
            "expected a buffer for {used} past and {len} new positions, found one for {room}"
        ));
    };
    let seen = Tensor::cat(&[&past.narrow(2, 0, used)?, new], 2)?;
    let buffer = Tensor::cat(&[&seen, &past.narrow(2, used + len, rest)?], 2)?;
    Ok((seen, buffer))
}

/// How much of a shared buffer is in use: input `i`.
fn used(c: &mut Call, i: usize) -> Result<Option<usize>> {
    if !c.has(i) {
        return Ok(None);
    }
    match usize::try_from(c.int(i)?) {
        Ok(n) => Ok(Some(n)),
        Err(_) => wrong(format!("expected a length of at least 0 as input {i}")),
    }
}

fn multi_head_attention(c: &mut Call) -> Result<Vec<Value>> {
    let n = heads(c, "num_heads")?;
    let q = c.tensor(0)?;
    if c.has(9) {
        return unsupported(format!("{} with input cache_indirection", c.node.op));
    }
    // One tensor may hold queries, keys and values, or keys and values.
    let (mut q, mut k, mut v) = match (q.rank(), c.optional(1)?, c.optional(2)?) {
        (5, None, None) => {
            let part = |i: isize| q.index(3, i)?.transpose(1, 2);
            (part(0)?, part(1)?, part(2)?)
        }
        (3, None, None) => {
            let parts = q.chunk(3, -1)?;
            let [q, k, v] = &parts[..] else {
                return wrong(format!(
                    "expected queries, keys and values in one tensor, found {:?}",
                    q.shape()
                ));
            };
            (q.clone(), k.clone(), v.clone())
        }
        (3, Some(k), None) if k.rank() == 5 => {
            let part = |i: isize| k.index(3, i)?.transpose(1, 2);
            (q.clone(), part(0)?, part(1)?)
        }
        (3, Some(k), Some(v)) => (q.clone(), k, v),
        _ => return unsupported(format!("{} of queries {:?}", c.node.op, q.shape())),
    };
    if let Some(bias) = c.optional(3)? {
        let other = c.optional(1)?.is_some_and(|k| k.rank() == 4);
        (q, k, v) = biased(&bias, [q, k, v], n, other)?;
    }
    (q, k, v) = (split(&q, n)?, split(&k, n)?, split(&v, n)?);
    let used = used(c, 8)?;
    let own = k.shape()[2];
    let (mut all_k, mut all_v) = (k.clone(), v.clone());
    if let Some(past) = c.optional(6)? {
        (k, all_k) = grown(&past, &k, used)?;
    }
    if let Some(past) = c.optional(7)? {
        (v, all_v) = grown(&past, &v, used)?;
    }
    let (mask, bias) = (c.optional(4)?, c.optional(5)?);
    let (y, weights) = attend(c, [&q, &k, &v], k.shape()[2] - own, mask, bias)?;
    let weights = weights.cast(y.dtype())?;
    Ok(vec![y.into(), all_k.into(), all_v.into(), weights.into()])
}

/// Adds the biases of queries, keys and values, which lie one after the other. Keys and values that
/// are those of another layer have theirs already.
fn biased(
    bias: &Tensor,
    [q, k, v]: [Tensor; 3],
    heads: usize,
    other: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let widths = [&q, &k, &v].map(|x| match *x.shape() {
        [_, own, _, width] => own * width,
        [_, _, width] => width,
        _ => 0,
    });
    let parts = bias.split(&widths, 0)?;
    let added = |x: &Tensor, part: &Tensor| -> Result<Tensor> {
        match *x.shape() {
            [_, own, _, width] => {
                let part = part.reshape(&[1, own, 1, width])?;
                Ok(x.add(&part)?)
            }
            _ => split(&x.add(part)?, heads),
        }
    };
    if other {
        return Ok((added(&q, &parts[0])?, k, v));
    }
    Ok((
        added(&q, &parts[0])?,
        added(&k, &parts[1])?,
        added(&v, &parts[2])?,
    ))
}

/// The same with the inputs in another order.
fn one_query(c: &mut Call) -> Result<Vec<Value>> {
    if c.has(9) {
        return unsupported(format!("{} with input cache_indirection", c.node.op));
    }
    if c.int_or("past_present_share_buffer", 0)? != 0 && c.has(5) && !c.has(7) {
        return wrong("expected past_sequence_length for a shared buffer, found none");
    }
    let order = [0, 1, 2, 10, 3, 4, 5, 6, 7];
    let inputs = order.map(|i| c.inputs.get(i).cloned().flatten());
    c.through(multi_head_attention, c.opset(), &[], &inputs)
}

/// Queries, keys and values are one product of the input.
fn attention(c: &mut Call) -> Result<Vec<Value>> {
    let mut product = c.tensor(0)?.matmul(&c.tensor(1)?)?;
    if let Some(bias) = c.optional(2)? {
        product = product.add(&bias)?;
    }
    from_product(c, &product, 3, 4, Some(5), Some(6))
}

/// Attention of the product, with the inputs that hold the mask, the past, the bias of the scores and
/// how much of a shared buffer is in use.
fn from_product(
    c: &mut Call,
    product: &Tensor,
    mask: usize,
    past: usize,
    bias: Option<usize>,
    length: Option<usize>,
) -> Result<Vec<Value>> {
    let n = heads(c, "num_heads")?;
    if c.int_or("do_rotary", 0)? != 0 {
        return unsupported(format!("{} with attribute do_rotary = 1", c.node.op));
    }
    let used = match length {
        Some(i) => used(c, i)?,
        None => None,
    };
    let [q, k, v] = parts(c, product)?;
    let (q, mut k, mut v) = (split(&q, n)?, split(&k, n)?, split(&v, n)?);
    let own = k.shape()[2];
    let (mut all_k, mut all_v) = (k.clone(), v.clone());
    if let Some(past) = c.optional(past)? {
        (k, all_k) = grown(&past.index(0, 0)?, &k, used)?;
        (v, all_v) = grown(&past.index(0, 1)?, &v, used)?;
    }
    let mask = c.optional(mask)?;
    let bias = match bias {
        Some(i) => c.optional(i)?,
        None => None,
    };
    let (y, _) = attend(c, [&q, &k, &v], k.shape()[2] - own, mask, bias)?;
    let mut out = vec![y.into()];
    if c.wants(1) {
        out.push(Tensor::stack(&[&all_k, &all_v], 0)?.into());
    }
    Ok(out)
}

/// Queries, keys and values of a product, by the widths that an attribute gives.
pub(super) fn parts(c: &Call, product: &Tensor) -> Result<[Tensor; 3]> {
    let whole = product.shape().last().copied().unwrap_or(0);
    let widths = match c.attr_ints("qkv_hidden_sizes")? {
        Some(list) if !list.is_empty() => sizes(&list)?,
        _ => vec![whole / 3; 3],
    };
    match <[Tensor; 3]>::try_from(product.split(&widths, -1)?) {
        Ok(parts) => Ok(parts),
        Err(_) => wrong(format!("expected three qkv_hidden_sizes, found {widths:?}")),
    }
}

fn quantized_attention(c: &mut Call) -> Result<Vec<Value>> {
    let sums = quant::scaled_product(c, [0, 3, 6], [1, 4, 7])?;
    let product = sums.add(&c.tensor(2)?)?;
    from_product(c, &product, 5, 8, None, None)
}
