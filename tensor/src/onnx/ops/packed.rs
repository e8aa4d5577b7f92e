//! Batches of sequences without what fills them up, as ONNX Runtime's packing mode has them: the
//! tokens of all sequences one after the other, and for each token where it was in the batch.

use codegen::DType;

use super::attention::{heads, split};
use super::heads::{attend, parts};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one, sizes};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("GatedRelativePositionBias", gated_position_bias),
    ("PackedAttention", packed_attention),
    ("PackedMultiHeadAttention", packed_multi_head_attention),
    ("RelativePositionBias", position_bias),
    ("RemovePadding", remove_padding),
    ("RestorePadding", |c| {
        let (x, places) = (c.tensor(0)?, Places::of(c, 1)?);
        one(places.restored(&x)?)
    }),
];

/// Where the tokens were: an input `[batch, length]` that lists the places of tokens, then the others.
struct Places(Tensor);

impl Places {
    fn of(c: &mut Call, i: usize) -> Result<Places> {
        let places = c.tensor(i)?;
        match places.rank() {
            2 => Ok(Places(places)),
            _ => wrong(format!(
                "expected positions [batch, length] as input {i}, found {:?}",
                places.shape()
            )),
        }
    }

    fn count(&self) -> usize {
        self.0.numel()
    }

    /// `[tokens, width]` as `[batch, length, width]`, with zeros where no token was.
    fn restored(&self, x: &Tensor) -> Result<Tensor> {
        let &[tokens, width] = x.shape() else {
            return wrong(format!("expected [tokens, width], found {:?}", x.shape()));
        };
        if tokens > self.count() {
            return wrong(format!(
                "expected at most {} tokens, found {tokens}",
                self.count()
            ));
        }
        // The rank of a place in the list is the row that it gets; those behind the tokens get none.
        let row = self.0.reshape(&[self.count()])?.argsort(0, false)?;
        let none = Tensor::zeros(x.engine(), &[1, width], x.dtype())?;
        let all = Tensor::cat(&[x, &none], 0)?;
        let y = all.rows(0, &row.minimum(tokens as i64)?)?;
        Ok(y.reshape(&[self.0.shape()[0], self.0.shape()[1], width])?)
    }

    /// `[batch, length, width]` as the first `tokens` of the list.
    fn removed(&self, x: &Tensor, tokens: usize) -> Result<Tensor> {
        let width = x.shape().last().copied().unwrap_or(0);
        let rows = self.0.reshape(&[self.count()])?.narrow(0, 0, tokens)?;
        let x = x.reshape(&[self.count(), width])?;
        Ok(x.index_select(0, &rows)?)
    }
}

/// How many tokens there are decides the shape of the result, so they are counted here.
fn remove_padding(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let &[batch, length, _] = x.shape() else {
        return wrong(format!(
            "expected [batch, length, width], found {:?}",
            x.shape()
        ));
    };
    let counts = sizes(&c.ints(1)?)?;
    if counts.len() != batch || counts.iter().any(|&n| n > length) {
        return wrong(format!(
            "expected {batch} counts of at most {length} tokens, found {counts:?}"
        ));
    }
    let (mut places, mut others, mut ends) = (vec![], vec![], vec![0i64]);
    for (row, &count) in counts.iter().enumerate() {
        let first = row * length;
        places.extend((first..first + count).map(|i| i as i64));
        others.extend((first + count..first + length).map(|i| i as i64));
        ends.push(places.len() as i64);
    }
    let tokens = places.len();
    places.append(&mut others);
    let longest = counts.iter().copied().max().unwrap_or(0) as i64;
    let list = |c: &Call, list: &[i64], shape: &[usize]| -> Result<Tensor> {
        Ok(c.eval.known_ints(list, shape)?.cast(DType::I32)?)
    };
    let shown = list(c, &places, &[batch, length])?;
    let here = Tensor::from_slice(c.engine(), &places, &[batch, length])?;
    let y = Places(here).removed(&x, tokens)?;
    Ok(vec![
        y.into(),
        shown.into(),
        list(c, &ends, &[batch + 1])?.into(),
        list(c, &[longest], &[1])?.into(),
    ])
}

/// Attention of padded queries, keys and values; the lengths are differences of what input `ends` has.
fn attended(
    c: &mut Call,
    places: &Places,
    [q, k, v]: [&Tensor; 3],
    ends: usize,
    bias: usize,
) -> Result<Tensor> {
    let (tokens, n) = (
        q.shape().first().copied().unwrap_or(0),
        heads(c, "num_heads")?,
    );
    let (q, k, v) = (
        places.restored(q)?,
        places.restored(k)?,
        places.restored(v)?,
    );
    let ends = c.tensor(ends)?;
    let batch = q.shape()[0];
    if ends.shape() != [batch + 1] {
        return wrong(format!(
            "expected cumulative lengths of {batch} sequences, found {:?}",
            ends.shape()
        ));
    }
    let lengths = ends.narrow(0, 1, batch)?.sub(&ends.narrow(0, 0, batch)?)?;
    let (q, k, v) = (split(&q, n)?, split(&k, n)?, split(&v, n)?);
    let bias = c.optional(bias)?;
    let (y, _) = attend(c, [&q, &k, &v], 0, Some(lengths), bias)?;
    places.removed(&y, tokens)
}

fn packed_attention(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w, bias) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let places = Places::of(c, 3)?;
    let [q, k, v] = parts(c, &x.matmul(&w)?.add(&bias)?)?;
    one(attended(c, &places, [&q, &k, &v], 4, 5)?)
}

fn packed_multi_head_attention(c: &mut Call) -> Result<Vec<Value>> {
    let q = c.tensor(0)?;
    let places = Places::of(c, 4)?;
    let flat = |t: Tensor| t.reshape(&[t.shape()[0], t.numel() / t.shape()[0].max(1)]);
    let (mut q, mut k, mut v) = match (c.optional(1)?, c.optional(2)?) {
        (Some(k), Some(v)) => (q, k, v),
        _ if q.rank() == 4 => (
            flat(q.index(2, 0)?)?,
            flat(q.index(2, 1)?)?,
            flat(q.index(2, 2)?)?,
        ),
        _ => {
            return wrong(format!(
                "expected keys and values, or one packed tensor [tokens, heads, 3, width], found {:?}",
                q.shape()
            ));
        }
    };
    if let Some(bias) = c.optional(3)? {
        let widths = [&q, &k, &v].map(|t| t.shape()[1]);
        let parts = bias.split(&widths, 0)?;
        (q, k, v) = (q.add(&parts[0])?, k.add(&parts[1])?, v.add(&parts[2])?);
    }
    one(attended(c, &places, [&q, &k, &v], 5, 6)?)
}

/// The bucket of a distance: small ones have their own, larger ones share them by their logarithm.
fn bucket(distance: i64, buckets: i64, most: i64, both: bool) -> i64 {
    let (mut first, mut buckets, mut n) = (0, buckets, distance);
    if both {
        buckets /= 2;
        if n < 0 {
            first = buckets;
        }
        n = n.abs();
    } else {
        n = n.max(0);
    }
    let exact = buckets / 2;
    if n < exact {
        return first + n;
    }
    let far = (n as f32 / exact as f32).ln() / (most as f32 / exact as f32).ln();
    let far = exact + (far * (buckets - exact) as f32) as i64;
    first + far.min(buckets - 1)
}

/// Distances of a bias at most: the host lists them. The longest models have less than a tenth as many.
const MOST_DISTANCES: usize = 1 << 24;

/// The bias of T5 by distance. The table is `[buckets, heads]` with its columns one after the other.
fn position_bias(c: &mut Call) -> Result<Vec<Value>> {
    let table = c.tensor(0)?;
    let lengths = sizes(&[c.int(1)?, c.int(2)?])?;
    let (&[buckets, heads], &[queries, keys]) = (table.shape(), &lengths[..]) else {
        return wrong(format!(
            "expected a table [buckets, heads], found {:?}",
            table.shape()
        ));
    };
    let most = c.needed("max_distance", c.attr_int("max_distance")?)?;
    let both = c.int_or("is_bidirectional", 0)? != 0;
    // Distances, not pairs, have buckets.
    let span = queries.saturating_add(keys).saturating_sub(1);
    if span > MOST_DISTANCES {
        return wrong(format!(
            "{queries} queries and {keys} keys have {span} distances: at most {MOST_DISTANCES} are supported"
        ));
    }
    crate::ops::check_size(
        "RelativePositionBias",
        &[heads, queries, keys],
        table.dtype(),
    )?;
    let list: Vec<i64> = (0..span as i64)
        .map(|i| bucket(queries as i64 - 1 - i, buckets as i64, most, both))
        .collect();
    let list = Tensor::from_slice(c.engine(), &list, &[span])?;
    let line = table.reshape(&[heads, buckets])?.index_select(1, &list)?;
    // Row i of the result begins i elements earlier.
    let row = Tensor::iota(c.engine(), queries, DType::I64)?.reshape(&[queries, 1])?;
    let column = Tensor::iota(c.engine(), keys, DType::I64)?.reshape(&[1, keys])?;
    let at = column.sub(&row)?.add(queries as i64 - 1)?;
    one(line.rows(1, &at)?.unsqueeze(0)?)
}

fn gated_position_bias(c: &mut Call) -> Result<Vec<Value>> {
    let n = heads(c, "num_heads")?;
    let mut q = c.tensor(0)?;
    if c.has(6) {
        q = Places::of(c, 6)?.restored(&q)?;
    }
    let q = split(&q.add(&c.tensor(1)?)?, n)?;
    let (bias, w, b, a) = (c.tensor(2)?, c.tensor(3)?, c.tensor(4)?, c.tensor(5)?);
    let gates = q.matmul(&w)?.add(&b)?;
    let &[batch, own, length, width] = gates.shape() else {
        return wrong(format!("expected a rank of 4, found {:?}", gates.shape()));
    };
    let gates = gates.reshape(&[batch, own, length, 2, width / 2])?;
    let gates = gates.sum(&[-1], false)?.sigmoid()?;
    let (update, reset) = (gates.narrow(3, 0, 1)?, gates.narrow(3, 1, 1)?);
    let gate = update.mul(&reset.mul(&a)?.sub(1.0)?)?.add(2.0)?;
    one(gate.mul(&bias)?)
}
