//! Operators of ONNX Runtime's quantiser: on numbers that stand for others by a scale and a zero
//! point, which come after each of them.

use codegen::DType;

use super::fused;
use super::layout;
use super::nn;
use super::quant::{numbers, qlinear_conv, requantized, scale, single};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axes, axis, one};
use crate::onnx::error::{Result, wrong};
use crate::onnx::graph::Attr;
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("MulInteger", |c| {
        one(numbers(c, 0, 1, single)?.mul(&numbers(c, 2, 3, single)?)?)
    }),
    ("QEmbedLayerNormalization", embed_layer_norm),
    ("QLinearAdd", |c| between(c, |a, b| a.add(b))),
    ("QLinearAveragePool", qlinear_average_pool),
    ("QLinearConcat", qlinear_concat),
    ("QLinearConv", |c| match c.int_or("channels_last", 0)? {
        0 => qlinear_conv(c),
        _ => layout::last(c, &[0], qlinear_conv),
    }),
    ("QLinearGlobalAveragePool", qlinear_global_average_pool),
    ("QLinearLeakyRelu", |c| {
        let alpha = c.float_or("alpha", 0.01)?;
        over(c, |x| x.leaky_relu(alpha))
    }),
    ("QLinearMul", |c| between(c, |a, b| a.mul(b))),
    ("QLinearReduceMean", qlinear_reduce_mean),
    ("QLinearSigmoid", |c| over(c, Tensor::sigmoid)),
    ("QLinearSoftmax", qlinear_softmax),
    ("QLinearWhere", qlinear_where),
    ("ReduceSumInteger", reduce_sum_integer),
];

/// What another domain has of these on images whose channels are last.
pub(super) const CHANNELS_LAST: Table = &[("QLinearAveragePool", |c| {
    let (attrs, inputs) = ([("channels_last", Attr::Int(1))], c.inputs);
    c.through(qlinear_average_pool, c.opset(), &attrs, inputs)
})];

/// Input `i` as real numbers, by the scale and the zero point after it.
fn real(c: &mut Call, i: usize) -> Result<Tensor> {
    of_codes(c, i, i + 1, i + 2)
}

/// Input `i` as real numbers, by a scale and a zero point.
fn of_codes(c: &mut Call, i: usize, by: usize, zero: usize) -> Result<Tensor> {
    let x = numbers(c, i, zero, single)?;
    let factor = single(&scale(c, by)?, 0)?.cast(DType::F32)?;
    Ok(x.cast(DType::F32)?.mul(&factor)?)
}

/// A function of one tensor.
fn over(c: &mut Call, f: impl Fn(&Tensor) -> crate::Result<Tensor>) -> Result<Vec<Value>> {
    let out = f(&real(c, 0)?)?;
    requantized(c, &out, None, 3, 0)
}

/// A function of two tensors.
fn between(
    c: &mut Call,
    f: impl Fn(&Tensor, &Tensor) -> crate::Result<Tensor>,
) -> Result<Vec<Value>> {
    let out = f(&real(c, 0)?, &real(c, 3)?)?;
    requantized(c, &out, None, 6, 0)
}

/// A function of `[n, c, s..]` on an input that may be `[n, s.., c]`.
fn spatial(c: &mut Call, f: impl Fn(&Call, &Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
    let last = c.int_or("channels_last", 0)? != 0;
    let mut x = real(c, 0)?;
    nn::space(&x)?;
    if last {
        x = x.move_axis(-1, 1)?;
    }
    let mut out = f(c, &x)?;
    if last {
        out = out.move_axis(1, -1)?;
    }
    requantized(c, &out, None, 3, 0)
}

fn qlinear_global_average_pool(c: &mut Call) -> Result<Vec<Value>> {
    spatial(c, |_, x| Ok(x.global_avg_pool()?))
}

fn qlinear_average_pool(c: &mut Call) -> Result<Vec<Value>> {
    spatial(c, |c, x| {
        let w = nn::windows(c, &nn::space(x)?, nn::pool_kernel(c)?)?;
        let (ceil, padded) = (
            c.int_or("ceil_mode", 0)? != 0,
            c.int_or("count_include_pad", 0)? != 0,
        );
        Ok(x.avg_pool(&w.kernel, &w.sliding, ceil, padded)?)
    })
}

/// The scale and zero point of the output come first.
fn qlinear_concat(c: &mut Call) -> Result<Vec<Value>> {
    let parts = (2..c.count())
        .step_by(3)
        .map(|i| real(c, i))
        .collect::<Result<Vec<_>>>()?;
    let Some(first) = parts.first() else {
        return wrong("expected at least one tensor after the scale and zero point, found none");
    };
    let at = axis(c.needed("axis", c.attr_int("axis")?)?, first.rank())?;
    let out = Tensor::cat(&parts.iter().collect::<Vec<_>>(), at as isize)?;
    requantized(c, &out, None, 0, 2)
}

/// Before version 13 of the plain operator, which an attribute names, everything from the axis on
/// was one axis.
fn qlinear_softmax(c: &mut Call) -> Result<Vec<Value>> {
    let x = real(c, 0)?;
    let at = axis(c.int_or("axis", -1)?, x.rank())?;
    let out = match c.int_or("opset", 13)? < 13 {
        true => {
            let outer = x.shape()[..at].iter().product();
            let inner = x.shape()[at..].iter().product();
            x.reshape(&[outer, inner])?.softmax(1)?.reshape(x.shape())?
        }
        false => x.softmax(at as isize)?,
    };
    requantized(c, &out, None, 3, 0)
}

/// Axes and whether they stay, as the attributes say.
fn reduction(c: &Call, rank: usize) -> Result<(Vec<isize>, bool)> {
    let along = c.needed("axes", c.attr_ints("axes")?)?;
    Ok((axes(&along, rank)?, c.int_or("keepdims", 1)? != 0))
}

fn qlinear_reduce_mean(c: &mut Call) -> Result<Vec<Value>> {
    let x = real(c, 0)?;
    let (along, keep) = reduction(c, x.rank())?;
    requantized(c, &x.mean(&along, keep)?, None, 3, 0)
}

fn reduce_sum_integer(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let (along, keep) = reduction(c, x.rank())?;
    let wide = match x.dtype() {
        DType::U8 | DType::U16 | DType::U32 => DType::U32,
        _ => DType::I32,
    };
    one(x.cast(wide)?.sum_in(wide, &along, keep)?)
}

fn qlinear_where(c: &mut Call) -> Result<Vec<Value>> {
    let (condition, a, b) = (c.tensor(0)?, real(c, 1)?, real(c, 4)?);
    requantized(c, &condition.where_(&a, &b)?, None, 7, 1)
}

/// Rows of a quantised table become real numbers once they are picked.
fn embed_layer_norm(c: &mut Call) -> Result<Vec<Value>> {
    let ids = c.tensor(0)?;
    let &[_, length] = ids.shape() else {
        return wrong(format!(
            "expected ids [batch, length], found {:?}",
            ids.shape()
        ));
    };
    let rows = |c: &mut Call, table: usize, ids: Option<&Tensor>| -> Result<Tensor> {
        let codes = c.tensor(table)?;
        let codes = match ids {
            Some(ids) => codes.embedding(ids)?,
            None => codes.narrow(0, 0, length)?,
        };
        // Scales and zero points are in the order of the tables.
        let zero = single(&c.tensor(11 + table)?, 0)?.cast(DType::I32)?;
        let factor = single(&scale(c, 6 + table)?, 0)?.cast(DType::F32)?;
        let real = codes.cast(DType::I32)?.sub(&zero)?.cast(DType::F32)?;
        Ok(real.mul(&factor)?)
    };
    let mut sum = rows(c, 2, Some(&ids))?.add(&rows(c, 3, None)?)?;
    if let Some(segments) = c.optional(1)? {
        sum = sum.add(&rows(c, 4, Some(&segments))?)?;
    }
    let (gamma, beta) = (of_codes(c, 5, 11, 16)?, of_codes(c, 6, 12, 17)?);
    fused::embedded(c, &sum, &gamma, &beta)
}
