//! Reductions, running sums, largest elements.

use codegen::DType;
use codegen::ir::ReduceOp;

use super::nn::attr_axis;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axes, one};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("ArgMax", |c| arg(c, true)),
    ("ArgMin", |c| arg(c, false)),
    ("CumProd", cumprod),
    ("CumSum", cumsum),
    ("ReduceL1", |c| {
        reduce(c, |x, a| x.abs()?.sum(a, true)?.cast(x.dtype()))
    }),
    ("ReduceL2", |c| {
        reduce(c, |x, a| in_float(x, |x| x.square()?.sum(a, true)?.sqrt()))
    }),
    ("ReduceLogSum", |c| {
        reduce(c, |x, a| in_float(x, |x| x.sum(a, true)?.log()))
    }),
    ("ReduceLogSumExp", |c| {
        reduce(c, |x, a| in_float(x, |x| x.logsumexp(a, true)))
    }),
    ("ReduceMax", |c| reduce(c, |x, a| x.max(a, true))),
    ("ReduceMean", |c| reduce(c, mean)),
    ("ReduceMin", |c| reduce(c, |x, a| x.min(a, true))),
    ("ReduceProd", |c| {
        reduce(c, |x, a| x.prod(a, true)?.cast(x.dtype()))
    }),
    ("ReduceSum", |c| {
        reduce(c, |x, a| x.sum_in(x.dtype(), a, true))
    }),
    ("ReduceSumSquare", |c| {
        reduce(c, |x, a| x.mul(x)?.sum_in(x.dtype(), a, true))
    }),
    ("TopK", top_k),
];

/// Computes in floats and gives the type back.
fn in_float(x: &Tensor, f: impl Fn(&Tensor) -> crate::Result<Tensor>) -> crate::Result<Tensor> {
    f(&x.to_float()?)?.cast(x.dtype())
}

/// Integers divide towards zero.
fn mean(x: &Tensor, along: &[isize]) -> crate::Result<Tensor> {
    if x.dtype().is_float() {
        return x.mean(along, true);
    }
    let rank = x.rank() as isize;
    let sizes = along
        .iter()
        .map(|&a| x.shape()[a.rem_euclid(rank) as usize]);
    let count = sizes.product::<usize>().max(1) as i64;
    // The sum may be larger than what is stored.
    let wide = match x.dtype().is_unsigned() {
        true => DType::U64,
        false => DType::I64,
    };
    if x.dtype() == wide {
        return divided_mean(x, along, count);
    }
    let sum = x.sum_in(wide, along, true)?;
    sum.trunc_div(count)?.cast(x.dtype())
}

/// The mean of integers whose sum no type holds: what each is divided, and what all leave.
fn divided_mean(x: &Tensor, along: &[isize], count: i64) -> crate::Result<Tensor> {
    let dtype = x.dtype();
    let each = x.trunc_div(count)?;
    let left = x.sub(&each.mul(count)?)?.sum_in(dtype, along, true)?;
    let more = left.trunc_div(count)?;
    let mean = each.sum_in(dtype, along, true)?.add(&more)?;
    if dtype.is_unsigned() {
        return Ok(mean);
    }
    // What is left then has a sign of its own: a part of one towards zero.
    let left = left.sub(&more.mul(count)?)?;
    let down = mean.gt(0)?.bitand(&left.lt(0)?)?.cast(dtype)?;
    let up = mean.lt(0)?.bitand(&left.gt(0)?)?.cast(dtype)?;
    mean.sub(&down)?.add(&up)
}

/// The axes are an attribute at first and an input from some version on; `keepdims` applies to all.
fn reduce(
    c: &mut Call,
    f: impl Fn(&Tensor, &[isize]) -> crate::Result<Tensor>,
) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let list = match c.attr_ints("axes")? {
        Some(list) => list,
        None => c.opt_ints(1)?.unwrap_or_default(),
    };
    if list.is_empty() && c.int_or("noop_with_empty_axes", 0)? != 0 {
        // Nothing is reduced; what is done to each element still is.
        return one(match x.rank() {
            0 => f(&x.reshape(&[1])?, &[0])?.reshape(&[])?,
            _ => {
                let shape = [x.shape(), &[1]].concat();
                f(&x.reshape(&shape)?, &[x.rank() as isize])?.reshape(x.shape())?
            }
        });
    }
    let along = match list.is_empty() {
        true => (0..x.rank() as isize).collect(),
        false => axes(&list, x.rank())?,
    };
    let out = match along.is_empty() {
        true => f(&x.reshape(&[1])?, &[0])?.reshape(&[])?,
        false => f(&x, &along)?,
    };
    match c.int_or("keepdims", 1)? != 0 || along.is_empty() {
        true => one(out),
        false => one(out.squeeze(&along)?),
    }
}

fn arg(c: &mut Call, largest: bool) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let along = attr_axis(c, "axis", 0, x.rank())?;
    let keep = c.int_or("keepdims", 1)? != 0;
    let last = c.int_or("select_last_index", 0)? != 0;
    let from = match last {
        true => x.reverse(&[along])?,
        false => x.clone(),
    };
    let at = match largest {
        true => from.argmax(along as isize, keep)?,
        false => from.argmin(along as isize, keep)?,
    };
    let mut at = at.cast(DType::I64)?;
    if last {
        at = at.neg()?.add(x.shape()[along] as i64 - 1)?;
    }
    one(at)
}

fn cumprod(c: &mut Call) -> Result<Vec<Value>> {
    running(c, ReduceOp::Mul)
}

fn cumsum(c: &mut Call) -> Result<Vec<Value>> {
    running(c, ReduceOp::Add)
}

fn running(c: &mut Call, op: ReduceOp) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let at = crate::onnx::call::axis(c.int(1)?, x.rank())?;
    let reverse = c.int_or("reverse", 0)? != 0;
    let mut from = match reverse {
        true => x.reverse(&[at])?,
        false => x.clone(),
    };
    let len = x.shape()[at];
    if c.int_or("exclusive", 0)? != 0 && len > 0 {
        // One step later, with what changes nothing first: an element cannot be taken out of a result
        // again, neither an infinite one nor one that is far smaller than the rest.
        let mut first = x.shape().to_vec();
        first[at] = 1;
        let first = match op {
            ReduceOp::Mul => Tensor::ones(x.engine(), &first, x.dtype())?,
            _ => Tensor::zeros(x.engine(), &first, x.dtype())?,
        };
        let rest = from.narrow(at as isize, 0, len - 1)?;
        from = Tensor::cat(&[&first, &rest], at as isize)?;
    }
    let all = from.running(op, at, from.dtype())?;
    one(match reverse {
        true => all.reverse(&[at])?,
        false => all,
    })
}

fn top_k(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let k = match c.opset() < 10 {
        true => {
            let k = c.attr_int("k")?;
            c.needed("k", k)?
        }
        false => c.int(1)?,
    };
    let along = attr_axis(c, "axis", -1, x.rank())?;
    let Some(k) = usize::try_from(k).ok().filter(|&k| k <= x.shape()[along]) else {
        return wrong(format!(
            "expected k within 0..={}, found {k}",
            x.shape()[along]
        ));
    };
    let largest = c.int_or("largest", 1)? != 0;
    // Ranks take the square of the comparisons: too many of a known row, which is not fused, and of
    // a row that is very long and wanted whole.
    let len = x.shape()[along];
    if len > 64 && c.is_known(&x) || len > 1 << 16 && k > len / 16 {
        let at = sorted_positions(c, &x, along, k, largest)?;
        return Ok(vec![x.pick(along, &at)?.into(), at.into()]);
    }
    let (values, at) = x.topk(k, along as isize, largest)?;
    Ok(vec![values.into(), at.cast(DType::I64)?.into()])
}

/// The positions of the `k` best elements along an axis, found on the host.
fn sorted_positions(
    c: &mut Call,
    x: &Tensor,
    along: usize,
    k: usize,
    largest: bool,
) -> Result<Tensor> {
    let rows = x.move_axis(along as isize, -1)?;
    let keys = super::select::keys(c, &rows)?;
    let len = x.shape()[along];
    let mut list = Vec::with_capacity(keys.len() / len.max(1) * k);
    for row in keys.chunks_exact(len.max(1)) {
        let mut order: Vec<usize> = (0..len).collect();
        match largest {
            true => order.sort_by_key(|&i| std::cmp::Reverse(row[i])),
            false => order.sort_by_key(|&i| row[i]),
        }
        list.extend(order[..k].iter().map(|&i| i as i64));
    }
    let mut shape = rows.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = k;
    }
    let at = Tensor::from_slice(x.engine(), &list, &shape)?;
    Ok(at.move_axis(-1, along as isize)?)
}
