//! Layers of networks: products, convolutions, pooling.

use codegen::DType;

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one, sizes};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;
use crate::ops::conv::ConvParams;
use crate::ops::movement::PadMode;

pub(super) const OPS: Table = &[
    ("AveragePool", average_pool),
    ("Conv", |c| one(convolved(c)?)),
    ("ConvTranspose", conv_transpose),
    ("Gemm", |c| one(product(c)?)),
    ("GlobalAveragePool", |c| {
        one(c.tensor(0)?.global_avg_pool()?)
    }),
    ("GlobalLpPool", global_lp_pool),
    ("GlobalMaxPool", |c| one(c.tensor(0)?.global_max_pool()?)),
    ("LpPool", lp_pool),
    ("MatMul", |c| one(c.tensor(0)?.matmul(&c.tensor(1)?)?)),
    ("MaxPool", max_pool),
    ("MaxUnpool", max_unpool),
];

/// Windows over the spatial axes, as the attributes of convolutions and pools say.
pub(super) struct Windows {
    pub kernel: Vec<usize>,
    pub sliding: ConvParams,
}

/// Reads `strides`, `pads`, `dilations` and `auto_pad` for spatial sizes and a kernel.
pub(super) fn windows(c: &Call, space: &[usize], kernel: Vec<usize>) -> Result<Windows> {
    let n = space.len();
    if kernel.len() != n || kernel.contains(&0) {
        return wrong(format!(
            "expected a kernel of {n} sizes of at least 1, found {kernel:?}"
        ));
    }
    let list = |name: &str| -> Result<Vec<usize>> {
        let found = match c.attr_ints(name)? {
            Some(list) => sizes(&list)?,
            None => vec![1; n],
        };
        if found.len() != n || found.contains(&0) {
            return wrong(format!(
                "expected attribute {name} with {n} sizes of at least 1, found {found:?}"
            ));
        }
        Ok(found)
    };
    let (stride, dilation) = (list("strides")?, list("dilations")?);
    let spans: Vec<usize> = (0..n)
        .map(|i| dilation[i].saturating_mul(kernel[i] - 1).saturating_add(1))
        .collect();
    let same = |i: usize| {
        let out = space[i].div_ceil(stride[i]);
        (out.saturating_sub(1) * stride[i])
            .saturating_add(spans[i])
            .saturating_sub(space[i])
    };
    let padding = match c.str_or("auto_pad", "NOTSET")? {
        "NOTSET" | "" => {
            let pads = match c.attr_ints("pads")? {
                Some(pads) => sizes(&pads)?,
                None => vec![0; 2 * n],
            };
            if pads.len() != 2 * n {
                return wrong(format!(
                    "expected attribute pads with {} sizes, found {pads:?}",
                    2 * n
                ));
            }
            (0..n).map(|i| (pads[i], pads[n + i])).collect()
        }
        "VALID" => vec![(0, 0); n],
        "SAME_UPPER" => (0..n).map(|i| (same(i) / 2, same(i).div_ceil(2))).collect(),
        "SAME_LOWER" => (0..n).map(|i| (same(i).div_ceil(2), same(i) / 2)).collect(),
        other => {
            let known = ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"];
            return c.bad_word("auto_pad", &known, other);
        }
    };
    let sliding = ConvParams {
        stride,
        padding,
        dilation,
    };
    Ok(Windows { kernel, sliding })
}

/// The spatial sizes of `[n, c, s..]`.
pub(super) fn space(x: &Tensor) -> Result<Vec<usize>> {
    if x.rank() < 3 {
        return wrong(format!(
            "expected an input [n, c, s..] of rank 3 or more, found {:?}",
            x.shape()
        ));
    }
    Ok(x.shape()[2..].to_vec())
}

/// The kernel of a pooling.
pub(super) fn pool_kernel(c: &Call) -> Result<Vec<usize>> {
    let kernel = c.attr_ints("kernel_shape")?;
    sizes(&c.needed("kernel_shape", kernel)?)
}

/// The kernel of a convolution: the weight has it, and the attribute must agree.
pub(super) fn weight_kernel(c: &Call, weight: &Tensor) -> Result<Vec<usize>> {
    let kernel = weight.shape().get(2..).unwrap_or_default().to_vec();
    if let Some(said) = c.attr_ints("kernel_shape")?
        && sizes(&said)? != kernel
    {
        return wrong(format!(
            "expected kernel_shape {said:?} in the weight, found {:?}",
            weight.shape()
        ));
    }
    Ok(kernel)
}

/// The number of groups, at least 1.
pub(super) fn groups(c: &Call) -> Result<usize> {
    match usize::try_from(c.int_or("group", 1)?) {
        Ok(n) if n > 0 => Ok(n),
        _ => wrong("expected attribute group of at least 1"),
    }
}

/// The convolution of inputs 0 and 1, with the bias 2 if there is one.
pub(super) fn convolved(c: &mut Call) -> Result<Tensor> {
    let (x, w, bias) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    let kernel = weight_kernel(c, &w)?;
    let windows = windows(c, &space(&x)?, kernel)?;
    Ok(x.conv(&w, bias.as_ref(), &windows.sliding, groups(c)?)?)
}

pub(super) fn conv_transpose(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w, bias) = (c.tensor(0)?, c.tensor(1)?, c.optional(2)?);
    let space = space(&x)?;
    let n = space.len();
    let kernel = weight_kernel(c, &w)?;
    if kernel.len() != n {
        return wrong(format!(
            "expected a weight of rank {}, found {:?}",
            n + 2,
            w.shape()
        ));
    }
    let list = |name: &str, default: usize| -> Result<Vec<usize>> {
        match c.attr_ints(name)? {
            Some(list) if list.len() == n => sizes(&list),
            Some(list) => wrong(format!(
                "expected attribute {name} with {n} sizes, found {list:?}"
            )),
            None => Ok(vec![default; n]),
        }
    };
    let (stride, dilation) = (list("strides", 1)?, list("dilations", 1)?);
    let mut extra = list("output_padding", 0)?;
    // Size of the output without padding.
    let full: Vec<usize> = (0..n)
        .map(|i| {
            let span = dilation[i].saturating_mul(kernel[i].saturating_sub(1));
            let steps = space[i].saturating_sub(1).saturating_mul(stride[i]);
            steps.saturating_add(span).saturating_add(1)
        })
        .collect();
    if full.iter().chain(&extra).any(|&size| size > 1 << 40) {
        return wrong(format!(
            "expected an output of at most 2^40 elements per axis, found {full:?} and {extra:?} more"
        ));
    }
    let auto = c.str_or("auto_pad", "NOTSET")?;
    let wanted = match c.attr_ints("output_shape")? {
        // Some writers put the batch and the channels before it.
        Some(list) if list.len() == n + 2 => Some(sizes(&list[2..])?),
        Some(list) if list.len() == n => Some(sizes(&list)?),
        Some(list) => {
            return wrong(format!(
                "expected output_shape of {n} sizes, found {list:?}"
            ));
        }
        None if auto.starts_with("SAME") => {
            Some((0..n).map(|i| space[i].saturating_mul(stride[i])).collect())
        }
        None => None,
    };
    let padding: Vec<(isize, isize)> = match wanted {
        Some(wanted) => (0..n)
            .map(|i| {
                let total = (full[i] + extra[i]) as isize - wanted[i].min(1 << 40) as isize;
                let (less, more) = (total.div_euclid(2), total - total.div_euclid(2));
                if auto == "SAME_UPPER" {
                    (less, more)
                } else {
                    (more, less)
                }
            })
            .collect(),
        None => match c.attr_ints("pads")? {
            Some(pads) if pads.len() == 2 * n && auto != "VALID" => (0..n)
                .map(|i| (pads[i] as isize, pads[n + i] as isize))
                .collect(),
            Some(pads) if auto != "VALID" => {
                return wrong(format!(
                    "expected attribute pads with {} sizes, found {pads:?}",
                    2 * n
                ));
            }
            _ => vec![(0, 0); n],
        },
    };
    // Padding cuts the full output; where it is negative, the output grows by zeros.
    let mut cut = Vec::with_capacity(n);
    let mut before = vec![(0, 0); n + 2];
    for (i, &(low, high)) in padding.iter().enumerate() {
        before[2 + i].0 = (-low).max(0);
        extra[i] = extra[i].saturating_add((-high).max(0) as usize);
        cut.push((low.max(0) as usize, high.max(0) as usize));
    }
    let sliding = ConvParams {
        stride,
        padding: cut,
        dilation,
    };
    let groups = groups(c)?;
    if before.iter().all(|b| b.0 == 0) {
        return one(x.conv_transpose(&w, bias.as_ref(), &sliding, &extra, groups)?);
    }
    let y = x.conv_transpose(&w, None, &sliding, &extra, groups)?;
    let y = y.pad(&before, PadMode::Constant(0.into()))?;
    one(match bias {
        Some(bias) => y.add(&bias.reshape(&[&[bias.numel()][..], &vec![1; n]].concat())?)?,
        None => y,
    })
}

/// Two matrices, transposed as the attributes ask for.
pub(super) fn oriented(c: &Call, a: Tensor, b: Tensor) -> Result<(Tensor, Tensor)> {
    if a.rank() != 2 || b.rank() != 2 {
        return wrong(format!(
            "expected two matrices, found {:?} and {:?}",
            a.shape(),
            b.shape()
        ));
    }
    let turned = |x: Tensor, name: &str| -> Result<Tensor> {
        match c.int_or(name, 0)? {
            0 => Ok(x),
            _ => Ok(x.t()?),
        }
    };
    Ok((turned(a, "transA")?, turned(b, "transB")?))
}

/// `alpha a b + beta c`, with the transposes that the attributes ask for.
pub(super) fn product(c: &mut Call) -> Result<Tensor> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    let (a, b) = oriented(c, a, b)?;
    let (alpha, beta) = (c.float_or("alpha", 1.0)?, c.float_or("beta", 1.0)?);
    let mut out = a.matmul(&b)?;
    if alpha != 1.0 {
        out = out.mul(alpha)?.cast(a.dtype())?;
    }
    if let Some(bias) = c.optional(2)?
        && beta != 0.0
    {
        let bias = match beta {
            1.0 => bias,
            beta => bias.mul(beta)?.cast(a.dtype())?,
        };
        out = out.add(&bias)?;
    }
    Ok(out)
}

pub(super) fn average_pool(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let w = windows(c, &space(&x)?, pool_kernel(c)?)?;
    let ceil = c.int_or("ceil_mode", 0)? != 0;
    let padded = c.int_or("count_include_pad", 0)? != 0;
    one(x.avg_pool(&w.kernel, &w.sliding, ceil, padded)?)
}

pub(super) fn max_pool(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let space = space(&x)?;
    let w = windows(c, &space, pool_kernel(c)?)?;
    let ceil = c.int_or("ceil_mode", 0)? != 0;
    if !c.wants(1) {
        return one(x.max_pool(&w.kernel, &w.sliding, ceil)?);
    }
    let (values, at) = x.max_pool_indices(&w.kernel, &w.sliding, ceil)?;
    // Positions in a plane become positions in the whole tensor.
    let plane: usize = space.iter().product();
    let planes = x.shape()[0] * x.shape()[1];
    let mut shape = vec![1; x.rank()];
    shape[..2].copy_from_slice(&x.shape()[..2]);
    let first = Tensor::iota(x.engine(), planes, DType::I64)?.mul(plane as i64)?;
    let mut at = at.cast(DType::I64)?;
    if c.int_or("storage_order", 0)? == 1 {
        at = column_major(&at, &space)?;
    }
    Ok(vec![values.into(), at.add(&first.reshape(&shape)?)?.into()])
}

/// Row-major positions in a plane as column-major ones.
fn column_major(at: &Tensor, space: &[usize]) -> crate::Result<Tensor> {
    let mut rest = at.clone();
    let mut out = at.zeros_like()?;
    for (i, &size) in space.iter().enumerate().rev() {
        let below: usize = space[..i].iter().product();
        out = out.add(&rest.modulo(size as i64)?.mul(below as i64)?)?;
        rest = rest.floor_div(size as i64)?;
    }
    Ok(out)
}

fn max_unpool(c: &mut Call) -> Result<Vec<Value>> {
    let (x, at) = (c.tensor(0)?, c.tensor(1)?);
    let spatial = space(&x)?;
    let w = windows(c, &spatial, pool_kernel(c)?)?;
    // What a pooling with these attributes would have been given: the positions count in it.
    let natural: Vec<usize> = (0..spatial.len())
        .map(|i| {
            let (low, high) = w.sliding.padding[i];
            let steps = spatial[i].saturating_sub(1);
            let size = steps.saturating_mul(w.sliding.stride[i]);
            let size = size.saturating_add(w.kernel[i]);
            size.saturating_sub(low.saturating_add(high))
        })
        .collect();
    let shape = [&x.shape()[..2], &natural].concat();
    let total = crate::ops::check_size("MaxUnpool", &shape, x.dtype())?;
    if at.shape() != x.shape() {
        return wrong(format!(
            "expected indices {:?}, found {:?}",
            x.shape(),
            at.shape()
        ));
    }
    let flat = |t: &Tensor| t.reshape(&[1, 1, t.numel()]);
    let out = flat(&x)?
        .max_unpool(&flat(&at)?, &[total])?
        .reshape(&shape)?;
    let Some(wanted) = c.opt_ints(2)? else {
        return one(out);
    };
    // A larger output has the natural one in its corner.
    let wanted = sizes(&wanted)?;
    if wanted.len() != x.rank() || shape.iter().zip(&wanted).any(|(n, w)| n > w) {
        return wrong(format!(
            "expected an output shape of at least {shape:?}, found {wanted:?}"
        ));
    }
    crate::ops::check_size("MaxUnpool", &wanted, x.dtype())?;
    one(out.pad_to(&vec![0; wanted.len()], &wanted, 0)?)
}

/// The exponent of a norm, which was a float before version 2 of these operators.
pub(super) fn exponent(c: &Call) -> Result<f64> {
    use crate::onnx::graph::Attr;
    match c.attr("p") {
        Some(Attr::Float(p)) => Ok(f64::from(*p)),
        _ => Ok(c.int_or("p", 2)? as f64),
    }
}

pub(super) fn lp_pool(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let w = windows(c, &space(&x)?, pool_kernel(c)?)?;
    let ceil = c.int_or("ceil_mode", 0)? != 0;
    one(x.lp_pool(exponent(c)?, &w.kernel, &w.sliding, ceil)?)
}

pub(super) fn global_lp_pool(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let along: Vec<isize> = (2..x.rank() as isize).collect();
    if along.is_empty() {
        return wrong(format!("expected [n, c, s..], found {:?}", x.shape()));
    }
    one(x.norm(exponent(c)?, &along, true)?)
}

/// The axis of an attribute, for a rank.
pub(super) fn attr_axis(c: &Call, name: &str, default: i64, rank: usize) -> Result<usize> {
    axis(c.int_or(name, default)?, rank)
}
