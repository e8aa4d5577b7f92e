//! Attention and the rotation of its inputs.

use codegen::DType;

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("Attention", attention),
    ("RotaryEmbedding", rotary_embedding),
];

/// A number of heads that an attribute gives.
pub(super) fn heads(c: &Call, name: &str) -> Result<usize> {
    let n = c.attr_int(name)?;
    match usize::try_from(c.needed(name, n)?) {
        Ok(n) if n > 0 => Ok(n),
        _ => wrong(format!("expected attribute {name} of at least 1")),
    }
}

/// `[batch, length, heads * width]` under the shape `[batch, heads, length, width]`.
///
/// Version 23 of the operator says, in the function that defines it, that this is a reshape: the
/// elements stay in their order.
fn unpacked(x: &Tensor, heads: usize) -> Result<Tensor> {
    let &[batch, length, hidden] = x.shape() else {
        return wrong(format!(
            "expected [batch, length, heads * width], found {:?}",
            x.shape()
        ));
    };
    if !hidden.is_multiple_of(heads) {
        return wrong(format!(
            "expected {hidden} to be a multiple of {heads} heads"
        ));
    }
    Ok(x.reshape(&[batch, heads, length, hidden / heads])?)
}

/// `[batch, length, heads * width]` as `[batch, heads, length, width]`.
pub(super) fn split(x: &Tensor, heads: usize) -> Result<Tensor> {
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

/// `[batch, heads, length, width]` as `[batch, length, heads * width]`.
pub(super) fn merged(x: &Tensor) -> Result<Tensor> {
    let &[batch, heads, length, width] = x.shape() else {
        return wrong(format!("expected a rank of 4, found {:?}", x.shape()));
    };
    let x = x.transpose(1, 2)?;
    Ok(x.reshape(&[batch, length, heads * width])?)
}

/// What follows the scores: the mask, the cap, the weights.
pub(super) struct Scores {
    /// Added to the scores, or `Bool`: what is false is not seen.
    pub mask: Option<Tensor>,
    /// Query i sees key j only if `j <= i + shift`.
    pub causal: Option<i64>,
    /// Scores become `cap * tanh(score / cap)`.
    pub softcap: f64,
    /// The type of the weights' computation.
    pub precision: DType,
}

/// The scores at every stage, and the weights.
pub(super) struct Stages {
    pub masked: Tensor,
    pub capped: Tensor,
    pub weights: Tensor,
}

impl Scores {
    /// The weights of `[.., queries, keys]` scores. A query that sees no key has weights of NaN.
    pub(super) fn weights(&self, scores: &Tensor) -> crate::Result<Stages> {
        let low = f64::NEG_INFINITY;
        let mut masked = scores.clone();
        if let Some(shift) = self.causal {
            let last = scores.positions(-2)?.cast(DType::I64)?.add(shift)?;
            let hidden = scores.positions(-1)?.cast(DType::I64)?.gt(&last)?;
            masked = masked.masked_fill(&hidden, low)?;
        }
        if let Some(mask) = &self.mask {
            masked = match mask.dtype() {
                DType::Bool => masked.masked_fill(&mask.not()?, low)?,
                _ => masked.add(&mask.cast(masked.dtype())?)?,
            };
        }
        let capped = match self.softcap > 0.0 {
            true => masked.div(self.softcap)?.tanh()?.mul(self.softcap)?,
            false => masked.clone(),
        };
        let weights = capped.cast(self.precision)?.softmax(-1)?;
        Ok(Stages {
            masked,
            capped,
            weights,
        })
    }
}

impl Scores {
    /// The weights before version 24: a query that sees no key has weights of 0.
    fn seeing(&self, scores: &Tensor) -> crate::Result<Stages> {
        let mut stages = self.weights(scores)?;
        if self.mask.is_some() || self.causal.is_some() {
            let blind = stages.masked.max(&[-1], true)?.eq(f64::NEG_INFINITY)?;
            stages.weights = stages.weights.masked_fill(&blind, 0.0)?;
        }
        Ok(stages)
    }

    /// The weights from version 24 on: the cap comes before the masks, and a query that sees no key has
    /// weights of 0.
    fn guarded(&self, scores: &Tensor, hidden: Option<&Tensor>) -> crate::Result<Stages> {
        let low = f64::NEG_INFINITY;
        let capped = match self.softcap > 0.0 {
            true => scores.div(self.softcap)?.tanh()?.mul(self.softcap)?,
            false => scores.clone(),
        };
        // What is added, without the scores.
        let mut bias: Option<Tensor> = None;
        if let Some(mask) = &self.mask {
            let zero = Tensor::zeros(mask.engine(), mask.shape(), capped.dtype())?;
            bias = Some(match mask.dtype() {
                DType::Bool => zero.masked_fill(&mask.not()?, low)?,
                _ => mask.cast(capped.dtype())?,
            });
        }
        if let Some(hidden) = hidden {
            let zero = Tensor::zeros(hidden.engine(), hidden.shape(), capped.dtype())?;
            let more = zero.masked_fill(hidden, low)?;
            bias = Some(match bias {
                Some(bias) => bias.add(&more)?,
                None => more,
            });
        }
        let Some(bias) = bias else {
            let weights = capped.cast(self.precision)?.softmax(-1)?;
            return Ok(Stages {
                masked: capped.clone(),
                capped,
                weights,
            });
        };
        let masked = capped.add(&bias)?;
        let weights = masked.cast(self.precision)?.softmax(-1)?;
        let blind = bias.max(&[-1], true)?.eq(low)?;
        Ok(Stages {
            weights: weights.masked_fill(&blind, 0.0)?,
            masked,
            capped,
        })
    }
}

/// What positions alone hide, `[batch or 1, 1, queries, keys]`: keys behind the end of a sequence, and
/// those that are too far from the query's place.
fn hidden(
    c: &mut Call,
    [batch, queries, keys]: [usize; 3],
    past: usize,
    causal: bool,
) -> Result<Option<Tensor>> {
    let side = |name: &str| -> Result<Option<i64>> {
        match c.int_or(name, -1)? {
            -1 => Ok(None),
            n @ 0.. => Ok(Some(n)),
            n => wrong(format!(
                "expected attribute {name} of at least -1, found {n}"
            )),
        }
    };
    let (left, right) = (side("left_window_size")?, side("right_window_size")?);
    let lengths = match c.optional(6)? {
        Some(lengths) if lengths.shape() == [batch] => {
            Some(lengths.cast(DType::I64)?.reshape(&[batch, 1, 1, 1])?)
        }
        Some(lengths) => {
            return wrong(format!(
                "expected nonpad_kv_seqlen [{batch}], found {:?}",
                lengths.shape()
            ));
        }
        None => None,
    };
    let line = |n: usize, shape: &[usize]| Tensor::iota(c.engine(), n, DType::I64)?.reshape(shape);
    let key = line(keys, &[1, 1, 1, keys])?;
    let place = line(queries, &[1, 1, queries, 1])?;
    let place = match &lengths {
        Some(lengths) => place.add(lengths)?.sub(queries as i64)?,
        None => place.add(past as i64)?,
    };
    let mut all: Option<Tensor> = None;
    let mut hide = |more: Tensor| -> crate::Result<()> {
        all = Some(match all.take() {
            Some(hidden) => hidden.logical_or(&more)?,
            None => more,
        });
        Ok(())
    };
    if causal {
        hide(key.gt(&place)?)?;
    }
    if let Some(left) = left {
        hide(key.add(left)?.lt(&place)?)?;
    }
    if let Some(right) = right {
        hide(key.gt(&place.add(right)?)?)?;
    }
    if let Some(lengths) = lengths {
        hide(key.ge(&lengths)?)?;
    }
    Ok(all)
}

/// The type that the weights are computed in.
fn precision(c: &Call, q: &Tensor) -> Result<DType> {
    match c.attr_dtype("softmax_precision")? {
        Some(dtype) if dtype.is_float() => Ok(dtype),
        None => Ok(q.dtype()),
        Some(other) => wrong(format!(
            "expected a float as softmax_precision, found {other}"
        )),
    }
}

/// The scores that are an output; the first version counted them in another order.
fn shown(c: &Call, scores: Tensor, stages: Stages) -> Result<Tensor> {
    let first = c.opset() < 24;
    match c.int_or("qk_matmul_output_mode", 0)? {
        0 => Ok(scores),
        1 if first => Ok(stages.masked),
        1 => Ok(stages.capped),
        2 if first => Ok(stages.capped),
        2 => Ok(stages.masked),
        3 => Ok(stages.weights),
        other => wrong(format!(
            "expected qk_matmul_output_mode of 0 to 3, found {other}"
        )),
    }
}

fn attention(c: &mut Call) -> Result<Vec<Value>> {
    let (mut q, mut k, mut v) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (packed, first) = (q.rank() == 3, c.opset() < 24);
    if packed {
        let (own, shared) = (heads(c, "q_num_heads")?, heads(c, "kv_num_heads")?);
        let parts = if first { unpacked } else { split };
        (q, k, v) = (parts(&q, own)?, parts(&k, shared)?, parts(&v, shared)?);
    }
    let mut before = 0;
    if let Some(past) = c.optional(4)? {
        before = past.shape().get(2).copied().unwrap_or(0);
        k = Tensor::cat(&[&past, &k], 2)?;
    }
    if let Some(past) = c.optional(5)? {
        v = Tensor::cat(&[&past, &v], 2)?;
    }
    let (&[batch, own, queries, width], &[_, shared, keys, _]) = (q.shape(), k.shape()) else {
        return wrong(format!(
            "expected queries, keys and values of rank 3 or 4, found {:?}, {:?} and {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        ));
    };
    let fits = k.shape() == [batch, shared, keys, width]
        && v.rank() == 4
        && v.shape()[..3] == [batch, shared, keys]
        && shared > 0
        && own.is_multiple_of(shared)
        && width > 0;
    if !fits {
        return wrong(format!(
            "expected queries [b, h, q, w], keys [b, g, k, w] and values [b, g, k, o] with g \
             dividing h, found {:?}, {:?} and {:?}",
            q.shape(),
            k.shape(),
            v.shape()
        ));
    }
    let scale = c
        .attr_float("scale")?
        .unwrap_or(1.0 / (width as f64).sqrt());
    let precision = precision(c, &q)?;
    let mut options = Scores {
        mask: match c.optional(3)? {
            Some(mask) => Some(padded_mask(&mask, keys)?),
            None => None,
        },
        causal: (c.int_or("is_causal", 0)? != 0).then_some(before as i64),
        softcap: c.float_or("softcap", 0.0)?,
        precision: precision.promote(DType::F32),
    };
    // Query heads i, i + shared.. share the key head i, as the function says that defines the first
    // version; in the others it is neighbours.
    let group = |t: &Tensor| match first {
        true => t.repeat(&[1, own / shared, 1, 1]),
        false => t.repeat_interleave(own / shared, 1),
    };
    let wide = q.dtype().promote(DType::F32);
    let scores = q.matmul_in(&group(&k)?.t()?, wide)?.mul(scale)?;
    let stages = match first {
        true => options.seeing(&scores)?,
        false => {
            let causal = options.causal.take().is_some();
            let hidden = hidden(c, [batch, queries, keys], before, causal)?;
            options.guarded(&scores, hidden.as_ref())?
        }
    };
    let mut y = stages
        .weights
        .cast(wide)?
        .matmul_in(&group(&v)?, wide)?
        .cast(q.dtype())?;
    if packed {
        let out = v.shape()[3];
        y = y.transpose(1, 2)?.reshape(&[batch, queries, own * out])?;
    }
    let shown = shown(c, scores, stages)?;
    Ok(vec![
        y.into(),
        k.into(),
        v.into(),
        shown.cast(q.dtype())?.into(),
    ])
}

/// A mask that ends before the last key hides those that it does not name.
fn padded_mask(mask: &Tensor, keys: usize) -> Result<Tensor> {
    use crate::element::Scalar;
    use crate::ops::movement::PadMode;
    let size = mask.shape().last().copied().unwrap_or(1);
    if size == 1 || size >= keys {
        return Ok(mask.clone());
    }
    let mut amounts = vec![(0, 0); mask.rank()];
    if let Some(last) = amounts.last_mut() {
        last.1 = (keys - size) as isize;
    }
    let fill = match mask.dtype() {
        DType::Bool => Scalar::Bool(false),
        _ => Scalar::Float(f64::NEG_INFINITY),
    };
    Ok(mask.pad(&amounts, PadMode::Constant(fill))?)
}

/// Options of a rotation, which two domains share.
pub(super) struct Rotary {
    /// The input is `[batch, length, heads * width]` with so many heads.
    pub heads: Option<usize>,
    /// Elements of the width that are turned; 0 is all of them.
    pub turned: usize,
    /// Pairs are neighbours.
    pub interleaved: bool,
}

impl Rotary {
    /// `x` turned by angles `[batch, length, half]`, or what broadcasts to it.
    pub(super) fn apply(&self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let split = match (x.shape(), self.heads) {
            (&[batch, length, hidden], Some(heads)) if hidden.is_multiple_of(heads) => x
                .reshape(&[batch, length, heads, hidden / heads])?
                .transpose(1, 2)?,
            ([_, _, _, _], _) => x.clone(),
            _ => {
                return wrong(format!(
                    "expected [batch, heads, length, width], or [batch, length, heads * width] \
                     with the attribute num_heads, found {:?}",
                    x.shape()
                ));
            }
        };
        let width = split.shape()[3];
        let turned = if self.turned == 0 { width } else { self.turned };
        if turned > width || !turned.is_multiple_of(2) || turned == 0 {
            return wrong(format!(
                "expected an even number of at most {width} elements to rotate, found {turned}"
            ));
        }
        let angles = |t: &Tensor| -> Result<Tensor> {
            let half = t.shape().last().copied().unwrap_or(0);
            if half < turned / 2 {
                return wrong(format!(
                    "expected angles for {} pairs, found {:?}",
                    turned / 2,
                    t.shape()
                ));
            }
            Ok(t.narrow(-1, 0, turned / 2)?.unsqueeze(-3)?)
        };
        let (cos, sin) = (angles(cos)?, angles(sin)?);
        let head = split.narrow(3, 0, turned)?;
        let mut y = head.rotary(&cos, &sin, self.interleaved)?.cast(x.dtype())?;
        if turned < width {
            y = Tensor::cat(&[&y, &split.narrow(3, turned, width - turned)?], 3)?;
        }
        if y.shape() != split.shape() {
            return wrong(format!(
                "expected angles for each position of {:?}, found {:?}",
                x.shape(),
                cos.shape()
            ));
        }
        Ok(match x.rank() {
            3 => y.transpose(1, 2)?.reshape(x.shape())?,
            _ => y,
        })
    }

    /// The attributes of both operators.
    pub(super) fn of(c: &Call) -> Result<Rotary> {
        let number = |name: &str| match usize::try_from(c.int_or(name, 0)?) {
            Ok(n) => Ok(n),
            Err(_) => wrong(format!("expected attribute {name} of at least 0")),
        };
        let heads = number("num_heads")?;
        Ok(Rotary {
            heads: (heads > 0).then_some(heads),
            turned: number("rotary_embedding_dim")?,
            interleaved: c.int_or("interleaved", 0)? != 0,
        })
    }
}

fn rotary_embedding(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let (mut cos, mut sin) = (c.tensor(1)?, c.tensor(2)?);
    if let Some(positions) = c.optional(3)? {
        if cos.rank() != 2 || sin.rank() != 2 {
            return wrong(format!(
                "expected angles [positions, pairs], found {:?}",
                cos.shape()
            ));
        }
        (cos, sin) = (
            cos.index_select(0, &positions)?,
            sin.index_select(0, &positions)?,
        );
    }
    if cos.rank() != 3 || sin.shape() != cos.shape() {
        return unsupported(format!(
            "RotaryEmbedding with angles {:?} and {:?}",
            cos.shape(),
            sin.shape()
        ));
    }
    one(Rotary::of(c)?.apply(&x, &cos, &sin)?)
}
