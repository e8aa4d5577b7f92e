//! What programs are made of, by family.

use codegen::ir::ReduceOp;
use tensor::graph::ScatterMode;
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::ops::loss::{Classes, Reduction};
use tensor::ops::movement::{PadMode, Slice};
use tensor::{DType, Rng, Scalar, Tensor};

use super::{Maker, Result};

type Family = fn(&mut Maker) -> Result<()>;

/// Each with its name.
pub const FAMILIES: &[(&str, Family)] = &[
    ("products", products),
    ("convolutions", convolutions),
    ("transposed", transposed),
    ("reductions", reductions),
    ("rows", rows),
    ("order", order),
    ("indices", indices),
    ("movement", movement),
    ("elements", elements),
    ("pools", pools),
    ("networks", networks),
    ("losses", losses),
    ("numbers", numbers),
];

/// Large, so that rows of equal numbers do not come out as noise.
const EPSILON: f64 = 0.1;

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
/// Sizes around what tiles, waves and vectors have.
const SIZES: [usize; 16] = [1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 64, 65, 100];

fn sizes(m: &mut Maker, rank: usize, most: usize) -> Vec<usize> {
    loop {
        let shape: Vec<usize> = (0..rank).map(|_| m.random.pick(&SIZES)).collect();
        if shape.iter().product::<usize>() <= most {
            return shape;
        }
    }
}

/// A tensor of a shape, as a view of another or as the result of something that can be fused.
fn operand(m: &mut Maker, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let rank = shape.len();
    let axis = m.random.below(rank);
    match m.random.below(10) {
        0 => {
            m.say("transposed");
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(axis, rank - 1);
            let from: Vec<usize> = order.iter().map(|&i| shape[i]).collect();
            m.data(&from, dtype)?.permute(&order)
        }
        1 => {
            m.say("part of");
            let lo: Vec<usize> = (0..rank).map(|_| m.random.below(3)).collect();
            let from: Vec<usize> = (0..rank)
                .map(|i| shape[i] + lo[i] + m.random.below(3))
                .collect();
            m.data(&from, dtype)?.shrink(&lo, shape)
        }
        2 => {
            m.say("reversed");
            m.data(shape, dtype)?.reverse(&[axis])
        }
        3 if shape[axis] > 2 => {
            m.say("padded");
            let (mut from, mut lo) = (shape.to_vec(), vec![0; rank]);
            from[axis] -= 2;
            lo[axis] = m.random.below(3);
            m.data(&from, dtype)?.pad_to(&lo, shape, 0)
        }
        4 => {
            m.say("every second of");
            let mut from = shape.to_vec();
            from[axis] *= 2;
            let mut parts = vec![Slice::ALL; rank];
            parts[axis].step = m.random.pick(&[2, -2]);
            m.data(&from, dtype)?.slice(&parts)
        }
        5 => {
            m.say("spread");
            let mut from = shape.to_vec();
            from[axis] = 1;
            m.data(&from, dtype)?.expand(shape)
        }
        6 if dtype.is_float() => {
            let from = m
                .random
                .pick(&[DType::I8, DType::F32, DType::F16, DType::Bool]);
            m.say("cast from");
            m.data(shape, from)?.cast(dtype)
        }
        7 if dtype.is_float() => {
            m.say("relu of");
            m.data(shape, dtype)?.relu()
        }
        _ => m.data(shape, dtype),
    }
}

/// What comes behind a result.
fn epilogue(m: &mut Maker, x: &Tensor) -> Result<Tensor> {
    let (shape, dtype) = (x.shape().to_vec(), x.dtype());
    let last = shape.last().copied().unwrap_or(1);
    match m.random.below(9) {
        0 if !shape.is_empty() => {
            m.say("+ row");
            x.add(&m.data(&[last], dtype)?)
        }
        1 if dtype.is_float() => {
            m.say("relu");
            x.relu()
        }
        2 => {
            m.say("* 3 + rest");
            x.mul(3)?.add(&m.data(&shape, dtype)?)
        }
        3 => {
            let to = m.random.pick(&[DType::F32, DType::F16, DType::F64]);
            m.say(format_args!("to {to}"));
            x.cast(to)
        }
        4 if !shape.is_empty() => {
            let axis = m.random.below(shape.len()) as isize;
            m.say(format_args!("sum along {axis}"));
            x.sum(&[axis], false)
        }
        5 if dtype.is_float() && !shape.is_empty() => {
            m.say("softmax");
            x.softmax(-1)
        }
        6 if shape.len() > 1 => {
            m.say("transposed");
            x.transpose(-1, -2)?.contiguous()
        }
        _ => Ok(x.clone()),
    }
}

fn finish(m: &mut Maker, x: &Tensor) -> Result<()> {
    let y = epilogue(m, x)?;
    m.out(&y);
    if m.random.one_in(3) {
        m.backward()?;
    }
    Ok(())
}

fn products(m: &mut Maker) -> Result<()> {
    let dtype = m.random.pick(&[
        DType::F16,
        DType::F16,
        DType::BF16,
        DType::BF16,
        DType::F32,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::F8E4M3,
        DType::F8E5M2,
    ]);
    let [rows, cols, depth] = loop {
        let s = [(); 3].map(|()| m.random.pick(&SIZES));
        if s.iter().product::<usize>() <= 150_000 {
            break s;
        }
    };
    let batch: Vec<usize> = (0..m.random.below(3))
        .map(|_| 1 + m.random.below(3))
        .collect();
    let side = |m: &mut Maker, a: usize, b: usize| {
        let mut shape: Vec<usize> = match m.random.below(3) {
            0 => Vec::new(),
            _ => batch
                .iter()
                .map(|&n| if m.random.one_in(4) { 1 } else { n })
                .collect(),
        };
        shape.extend([a, b]);
        operand(m, &shape, dtype)
    };
    let a = side(m, rows, depth)?;
    m.say("@");
    let b = side(m, depth, cols)?;
    let y = match m.random.below(3) {
        0 => {
            m.say("in f32");
            a.matmul_in(&b, DType::F32)?
        }
        _ => a.matmul(&b)?,
    };
    finish(m, &y)
}

fn sliding(m: &mut Maker, n: usize) -> ConvParams {
    let s = ConvParams {
        stride: (0..n).map(|_| 1 + m.random.below(3)).collect(),
        padding: (0..n)
            .map(|_| (m.random.below(3), m.random.below(3)))
            .collect(),
        dilation: (0..n).map(|_| 1 + m.random.below(2)).collect(),
    };
    m.say(format_args!("{s:?}"));
    s
}

/// Batch, channels per group, groups, spatial sizes and kernel.
fn image(m: &mut Maker) -> (usize, usize, usize, Vec<usize>, Vec<usize>) {
    let n = 1 + m.random.below(3);
    let groups = m.random.pick(&[1, 1, 1, 2, 3, 8]);
    let channels = m.random.pick(&[1, 2, 3, 8, 16, 17]);
    let most = [40, 12, 3][n - 1];
    let spatial = (0..n).map(|_| 4 + m.random.below(most)).collect();
    let most = if n == 3 { 2 } else { 4 };
    let kernel = (0..n).map(|_| 1 + m.random.below(most)).collect();
    (1 + m.random.below(3), channels, groups, spatial, kernel)
}

fn convolutions(m: &mut Maker) -> Result<()> {
    let dtype = m
        .random
        .pick(&[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32]);
    let (batch, channels, groups, spatial, kernel) = image(m);
    let outs = groups * m.random.pick(&[1, 2, 5, 16]);
    let x = operand(
        m,
        &[&[batch, channels * groups], &spatial[..]].concat(),
        dtype,
    )?;
    let w = operand(m, &[&[outs, channels], &kernel[..]].concat(), dtype)?;
    let bias = match m.random.one_in(2) {
        true => Some(m.data(&[outs], dtype)?),
        false => None,
    };
    let how = sliding(m, spatial.len());
    m.say(format_args!("conv, {groups} groups"));
    let y = x.conv(&w, bias.as_ref(), &how, groups)?;
    finish(m, &y)
}

fn transposed(m: &mut Maker) -> Result<()> {
    let dtype = m.random.pick(&FLOATS);
    let (batch, channels, groups, spatial, kernel) = image(m);
    let outs = m.random.pick(&[1, 2, 5]);
    let x = operand(
        m,
        &[&[batch, channels * groups], &spatial[..]].concat(),
        dtype,
    )?;
    let w = m.data(&[&[channels * groups, outs], &kernel[..]].concat(), dtype)?;
    let how = sliding(m, spatial.len());
    m.say(format_args!("conv_transpose, {groups} groups"));
    let y = x.conv_transpose(&w, None, &how, &[], groups)?;
    finish(m, &y)
}

fn any_type(m: &mut Maker) -> DType {
    m.random.pick(&DType::ALL)
}

fn reductions(m: &mut Maker) -> Result<()> {
    let dtype = any_type(m);
    let shape = match m.random.below(8) {
        0 => vec![m.random.pick(&[4099, 65537, 30011])],
        1 => vec![3, m.random.pick(&[1021, 5003, 8192])],
        2 => vec![m.random.pick(&[1021, 5003]), 3],
        3 => vec![2, 0, 3],
        _ => {
            let rank = m.random.below(4);
            sizes(m, rank, 20_000)
        }
    };
    let x = operand_or_scalar(m, &shape, dtype)?;
    let rank = shape.len();
    let axes: Vec<isize> = (0..rank as isize).filter(|_| m.random.one_in(2)).collect();
    let keep = m.random.one_in(2);
    let which = m.random.below(12);
    m.say(format_args!("reduction {which} along {axes:?} keep {keep}"));
    let y = match which {
        0 | 1 => x.sum(&axes, keep)?,
        2 => x.max(&axes, keep)?,
        3 => x.min(&axes, keep)?,
        4 => x.cast(DType::Bool)?.any(&axes, keep)?,
        5 => x.cast(DType::Bool)?.all(&axes, keep)?,
        6 => x.to_float()?.mean(&axes, keep)?,
        7 => x.to_float()?.var(&axes, 0.0, keep)?,
        8 => x.count_nonzero(&axes, keep)?,
        9 => x.to_float()?.norm(2.0, &axes, keep)?,
        10 => x.to_float()?.logsumexp(&axes, keep)?,
        _ => x.sum_in(DType::F64, &axes, keep)?,
    };
    m.out(&y);
    // The gradients of ties and of empty rows are left to the operator suite.
    if m.random.one_in(4) && matches!(which, 0 | 1 | 6) {
        m.backward()?;
    }
    Ok(())
}

fn operand_or_scalar(m: &mut Maker, shape: &[usize], dtype: DType) -> Result<Tensor> {
    match shape.is_empty() || shape.contains(&0) {
        true => m.data(shape, dtype),
        false => operand(m, shape, dtype),
    }
}

fn rows(m: &mut Maker) -> Result<()> {
    let dtype = m.random.pick(&FLOATS);
    let rank = 1 + m.random.below(3);
    let shape = match m.random.one_in(5) {
        true => vec![2, m.random.pick(&[1021, 3001])],
        false => sizes(m, rank, 8000),
    };
    let axis = m.random.below(shape.len()) as isize;
    let x = operand(m, &shape, dtype)?;
    let which = m.random.below(10);
    m.say(format_args!("row {which} along {axis}"));
    let last = [shape[shape.len() - 1]];
    let y = match which {
        0 => x.softmax(axis)?,
        1 => x.log_softmax(axis)?,
        2 => x.cumsum(axis)?,
        3 => x.cummax(axis)?,
        4 => x.logcumsumexp(axis)?,
        5 => {
            let (w, b) = (m.data(&last, dtype)?, m.data(&last, dtype)?);
            x.layer_norm(1, Some(&w), Some(&b), EPSILON)?
        }
        6 => x.rms_norm(Some(&m.data(&last, dtype)?), EPSILON)?,
        7 => x.gelu()?,
        8 => x.standardize(&[axis], EPSILON)?,
        _ => x.silu()?.cumsum(axis)?.tanh()?,
    };
    finish(m, &y)
}

fn order(m: &mut Maker) -> Result<()> {
    let dtype = any_type(m);
    let rank = 1 + m.random.below(3);
    let shape = match m.random.one_in(6) {
        true => vec![m.random.pick(&[257, 401])],
        false => sizes(m, rank, 3000),
    };
    let at = m.random.below(shape.len());
    let axis = at as isize;
    let x = operand(m, &shape, dtype)?;
    let flag = m.random.one_in(2);
    let which = m.random.below(5);
    m.say(format_args!("order {which} along {axis} {flag}"));
    let (a, b) = match which {
        0 => x.sort(axis, flag)?,
        1 => x.topk(1 + m.random.below(shape[at]), axis, flag)?,
        2 => (x.argmax(axis, flag)?, x.argmin(axis, flag)?),
        3 => (x.ranks(axis, flag)?, x.argsort(axis, flag)?),
        _ => (x.cummin(axis)?, x.flip(&[axis])?.cummax(axis)?),
    };
    m.out(&a);
    m.out(&b);
    Ok(())
}

fn indices(m: &mut Maker) -> Result<()> {
    let dtype = any_type(m);
    let rank = 1 + m.random.below(3);
    let shape = sizes(m, rank, 4000);
    let at = m.random.below(rank);
    let axis = at as isize;
    let x = operand(m, &shape, dtype)?;
    let mut inner: Vec<usize> = shape.iter().map(|&n| 1 + m.random.below(n)).collect();
    inner[at] = m.random.pick(&[1, 3, 17, 40]);
    let which = m.random.below(7);
    m.say(format_args!("indices {which} along {axis}"));
    let y = match which {
        0 => x.gather(axis, &m.positions(&inner, shape[at])?)?,
        1 | 2 => {
            let (index, source) = (m.positions(&inner, shape[at])?, m.data(&inner, dtype)?);
            let op = match dtype {
                DType::Bool => ReduceOp::Or,
                _ => m
                    .random
                    .pick(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min]),
            };
            x.scatter(axis, &index, &source, ScatterMode::Combine(op))?
        }
        3 => {
            let (index, source) = (m.positions(&inner, shape[at])?, m.data(&inner, dtype)?);
            x.scatter(axis, &index, &source, ScatterMode::Set)?
        }
        4 => x.index_select(axis, &m.positions(&[2, 3], shape[at])?)?,
        5 => m.positions(&inner, 9)?.one_hot(9, dtype)?,
        _ => x.take(&m.positions(&[5, 2], x.numel())?)?,
    };
    m.out(&y);
    if m.random.one_in(3) && matches!(which, 0 | 4) {
        m.backward()?;
    }
    Ok(())
}

fn movement(m: &mut Maker) -> Result<()> {
    let dtype = any_type(m);
    let rank = 1 + m.random.below(3);
    let shape = sizes(m, rank, 4000);
    let mut x = operand(m, &shape, dtype)?;
    for _ in 0..1 + m.random.below(4) {
        let rank = x.rank();
        let at = m.random.below(rank);
        let (axis, len) = (at as isize, x.shape()[at]);
        let which = m.random.below(10);
        m.say(format_args!("movement {which} along {axis}"));
        let next = match which {
            0 => {
                let mode = m.random.pick(&[0, 1, 2, 3]);
                let mode = [
                    PadMode::Constant(Scalar::Int(1)),
                    PadMode::Reflect,
                    PadMode::Replicate,
                    PadMode::Circular,
                ][mode];
                let amounts: Vec<(isize, isize)> = (0..rank)
                    .map(|_| {
                        (
                            m.random.below(3) as isize - 1,
                            m.random.below(3) as isize - 1,
                        )
                    })
                    .collect();
                x.pad(&amounts, mode)
            }
            1 => Tensor::cat(&[&x, &x.flip(&[axis])?, &x], axis),
            2 => x.roll(m.random.below(9) as isize - 4, axis),
            3 => {
                let mut parts = vec![Slice::ALL; rank];
                parts[at].step = m.random.pick(&[-3, -1, 2, 3]);
                x.slice(&parts)
            }
            4 if len > 2 => x.unfold(axis, 2, 1 + m.random.below(2)),
            5 => x.repeat_interleave(2, axis),
            6 => Tensor::stack(&[&x, &x], axis),
            7 if rank > 1 => x.tril(m.random.below(5) as i64 - 2),
            8 => x.flatten(0, -1),
            _ => x.narrow(axis, len / 3, len - len / 3),
        }?;
        if next.numel() == 0 || next.numel() > 20_000 || next.rank() > 5 {
            break;
        }
        x = next;
    }
    finish(m, &x)
}

fn elements(m: &mut Maker) -> Result<()> {
    let rank = m.random.below(4);
    let shape = sizes(m, rank, 3000);
    let dtype = any_type(m);
    let mut x = operand_or_scalar(m, &shape, dtype)?;
    for _ in 0..2 + m.random.below(8) {
        let dtype = x.dtype();
        let which = m.random.below(12);
        m.say(format_args!("element {which}"));
        x = match which {
            0 => x.add(&m.data(&shape, dtype)?)?,
            1 => x.mul(&m.data(&shape, dtype)?)?,
            2 => x.maximum(&m.data(&shape, dtype)?)?,
            3 => {
                let c = m.data(&shape, DType::Bool)?;
                c.where_(&x, &m.data(&shape, dtype)?)?
            }
            // A float that was rounded does not go to a type in which the difference is large.
            4 | 5 => {
                let to = any_type(m);
                match dtype.is_float() && (!to.is_float() || to.size() < dtype.size()) {
                    true => x,
                    false => x.cast(to)?,
                }
            }
            6 if dtype.is_float() => x.tanh()?,
            7 if dtype.is_float() => x.mul(0.1)?.exp()?.sin()?,
            8 if dtype.is_int() => x.fmod(&m.data(&shape, dtype)?)?,
            9 if dtype.is_int() => x.floor_div(&m.data(&shape, dtype)?)?,
            10 if dtype.is_int() => x.bitxor(&m.data(&shape, dtype)?)?.not()?,
            _ if dtype == DType::Bool => x.not()?,
            _ => x.sub(&m.data(&shape, dtype)?)?,
        };
    }
    finish(m, &x)
}

fn pools(m: &mut Maker) -> Result<()> {
    let dtype = m.random.pick(&FLOATS);
    let (batch, channels, _, spatial, kernel) = image(m);
    let x = operand(m, &[&[batch, channels], &spatial[..]].concat(), dtype)?;
    let mut how = sliding(m, spatial.len());
    how.padding = kernel.iter().map(|&k| ((k - 1) / 2, (k - 1) / 2)).collect();
    let (ceil, which) = (m.random.one_in(2), m.random.below(4));
    m.say(format_args!("pool {which} {kernel:?} {ceil}"));
    let y = match which {
        0 => x.max_pool(&kernel, &how, ceil)?,
        1 => {
            let (y, at) = x.max_pool_indices(&kernel, &how, ceil)?;
            m.out(&at);
            y
        }
        2 => {
            how.dilation.clear();
            x.avg_pool(&kernel, &how, ceil, m.random.one_in(2))?
        }
        _ => x.lp_pool(2.0, &kernel, &how, ceil)?,
    };
    finish(m, &y)
}

fn networks(m: &mut Maker) -> Result<()> {
    let dtype = m.random.pick(&FLOATS);
    let (batch, heads) = (1 + m.random.below(2), 1 + m.random.below(3));
    let [queries, keys, width] = [(); 3].map(|()| 1 + m.random.below(33));
    let y = match m.random.below(3) {
        0 => {
            m.say("attention");
            let q = operand(m, &[batch, heads, queries, width], dtype)?;
            let k = operand(m, &[batch, heads, keys, width], dtype)?;
            let v = operand(m, &[batch, heads, keys, width], dtype)?;
            let options = Attention {
                causal: queries <= keys && m.random.one_in(2),
                ..Attention::default()
            };
            q.attention(&k, &v, &options)?
        }
        1 => {
            m.say("block");
            let x = operand(m, &[batch, queries, width], dtype)?;
            let w1 = m.data(&[keys, width], dtype)?;
            let hidden = x
                .layer_norm(1, None, None, EPSILON)?
                .linear(&w1, None)?
                .gelu()?;
            let w2 = m.data(&[width, keys], dtype)?;
            hidden.linear(&w2, None)?.add(&x)?
        }
        _ => {
            m.say("conv, batch norm, relu, conv");
            let c = m.random.pick(&[3, 8, 16]);
            let x = operand(m, &[batch, 3, 9, 10], dtype)?;
            let w = m.data(&[c, 3, 3, 3], dtype)?;
            let y = x.conv(&w, None, &ConvParams::default().padded(1, 2), 1)?;
            let mean = y.mean(&[0, 2, 3], false)?;
            let var = y.var(&[0, 2, 3], 0.0, false)?;
            let y = y.batch_norm(&mean, &var, None, None, EPSILON)?.relu()?;
            let w = m.data(&[c, 1, 3, 3], dtype)?;
            y.conv(&w, None, &ConvParams::strided(2, 2), c)?
                .sum(&[-1, -2], false)?
        }
    };
    m.out(&y);
    m.backward()
}

fn losses(m: &mut Maker) -> Result<()> {
    let dtype = m.random.pick(&FLOATS);
    let (n, c) = (m.random.pick(&SIZES), 1 + m.random.below(40));
    let x = operand(m, &[n, c], dtype)?;
    let reduction = m
        .random
        .pick(&[Reduction::Mean, Reduction::Sum, Reduction::None]);
    let which = m.random.below(4);
    m.say(format_args!("loss {which} {reduction:?}"));
    let y = match which {
        0 => {
            let target = m.positions(&[n], c)?;
            let options = Classes {
                smoothing: m.random.pick(&[0.0, 0.1]),
                reduction,
                ..Classes::default()
            };
            x.cross_entropy(&target, &options)?
        }
        1 => x.mse_loss(&m.data(&[n, c], dtype)?, reduction)?,
        2 => x.binary_cross_entropy_logits(&m.data(&[n, c], dtype)?.sigmoid()?, None, reduction)?,
        _ => x.huber_loss(&m.data(&[n, c], dtype)?, 1.0, reduction)?,
    };
    m.out(&y);
    m.backward()
}

fn numbers(m: &mut Maker) -> Result<()> {
    let mut rng = Rng::new(m.engine, m.random.next());
    let rank = m.random.below(4);
    let shape = sizes(m, rank, 5000);
    let dtype = m.random.pick(&FLOATS);
    let which = m.random.below(7);
    m.say(format_args!("numbers {which} {dtype}{shape:?}"));
    let y = match which {
        0 => rng.bits(&shape)?,
        1 => rng.rand(&shape, dtype)?,
        2 => rng.randn(&shape, dtype)?,
        3 => rng.randint(&shape, -70, 1000, DType::I64)?,
        4 => rng.randperm(shape.iter().product::<usize>().min(600))?,
        5 => rng.dropout(&m.data(&shape, dtype)?, 0.3)?,
        _ => rng
            .randn(&shape, DType::F32)?
            .add(&rng.rand(&shape, DType::F32)?)?,
    };
    m.out(&y);
    Ok(())
}
