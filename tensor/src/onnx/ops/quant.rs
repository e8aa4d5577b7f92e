//! Quantisation: numbers that stand for others by a scale and a zero point.
//!
//! `real = (number - zero) * scale`. Products of such numbers are summed as 32-bit integers; floats
//! of 8 bits are multiplied and summed as `f32`.

use codegen::DType;

use super::convert::{decode, encode, limits};
use super::nn;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one};
use crate::onnx::elem::Elem;
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, Value};
use crate::ops::movement::PadMode;

pub(super) const OPS: Table = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize_linear),
    ("DynamicQuantizeLinear", dynamic_quantize),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", qlinear_conv),
    ("QLinearMatMul", qlinear_matmul),
    ("QuantizeLinear", quantize_linear),
];

pub(super) const MICROSOFT: Table = &[
    ("DequantizeLinear", dequantize_linear),
    ("DynamicQuantizeMatMul", dynamic_quantize_matmul),
    ("MatMulInteger16", matmul_integer),
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("QGemm", qgemm),
    ("QuantizeLinear", quantize_linear),
];

/// A scale or zero point as a factor of each element of a shape: one for all, one for each position
/// on an axis, or one for each block along it.
fn spread(c: &Call, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.numel() == 1 && x.rank() <= 1 {
        return Ok(x.reshape(&[])?);
    }
    let block = c.int_or("block_size", 0)?;
    let at = match shape.len() {
        1 => 0,
        rank => axis(c.int_or("axis", 1)?, rank)?,
    };
    let len = shape[at];
    if block == 0 && x.shape() == [len] {
        let mut line = vec![1; shape.len()];
        line[at] = len;
        return Ok(x.reshape(&line)?);
    }
    let mut blocks = shape.to_vec();
    if let Ok(block @ 1..) = usize::try_from(block) {
        blocks[at] = len.div_ceil(block);
        if x.shape() == blocks {
            // The last block may be longer than what is left of the axis.
            let each = x.unsqueeze(at as isize + 1)?;
            let mut wide = each.shape().to_vec();
            wide[at + 1] = block.min(len.max(1));
            let mut flat = blocks.clone();
            flat[at] = blocks[at] * wide[at + 1];
            let all = each.expand(&wide)?.reshape(&flat)?;
            return Ok(all.narrow(at as isize, 0, len)?);
        }
    } else if block == 0 {
        return wrong(format!(
            "expected scales and zero points of shape [] or [{len}] for axis {at} of {shape:?}, \
             found {:?}",
            x.shape()
        ));
    }
    wrong(format!(
        "expected scales and zero points of shape {blocks:?} for {shape:?} in blocks of {block}, \
         found {:?}",
        x.shape()
    ))
}

/// Real numbers already divided by their scale, to numbers with a zero point.
pub(super) fn quantized(
    x: &Tensor,
    zero: Option<&Tensor>,
    elem: Elem,
    saturate: bool,
) -> Result<Array> {
    let mut x = x.cast(DType::F32)?;
    let whole = matches!(elem, Elem::U4 | Elem::I4 | Elem::U2 | Elem::I2)
        || elem.held().is_int() && is_plain(elem);
    if whole {
        x = x.round()?;
    }
    if let Some(zero) = zero {
        x = x.add(&zero.cast(DType::F32)?)?;
    }
    if !whole {
        return encode(&x, elem, saturate);
    }
    let (low, high) = limits(elem);
    let tensor = x.clip(low, high)?.cast(elem.held())?;
    Ok(Array { tensor, elem })
}

fn is_plain(elem: Elem) -> bool {
    matches!(elem, Elem::Plain(_))
}

pub(super) fn is_quantized(elem: Elem) -> bool {
    use DType::{F8E4M3, F8E5M2, I8, I16, I32, U8, U16};
    match elem {
        Elem::Plain(dtype) => matches!(dtype, F8E4M3 | F8E5M2 | I8 | I16 | I32 | U8 | U16),
        _ => true,
    }
}

/// Input `i` as an array, if it is there.
pub(super) fn optional(c: &mut Call, i: usize) -> Result<Option<Array>> {
    match c.has(i) {
        true => c.array(i).map(Some),
        false => Ok(None),
    }
}

/// A float tensor: scales are nothing else.
pub(super) fn scale(c: &mut Call, i: usize) -> Result<Tensor> {
    let scale = c.tensor(i)?;
    match scale.dtype() {
        DType::F32 | DType::F16 | DType::BF16 | DType::F64 => Ok(scale),
        // Version 23 of the quantising operator has whole ones, too.
        DType::I32 => Ok(scale.cast(DType::F32)?),
        other => wrong(format!(
            "expected floats as input {i}, a scale, found {other}"
        )),
    }
}

fn quantize_linear(c: &mut Call) -> Result<Vec<Value>> {
    let (x, scale, zero) = (c.tensor(0)?, scale(c, 1)?, optional(c, 2)?);
    let listed = |number: Option<i64>| number.filter(|&n| n != 0).map(crate::onnx::call::elem);
    let wanted = listed(c.attr_int("output_dtype")?).transpose()?;
    let elem = match (wanted, &zero) {
        (Some(wanted), Some(zero)) if wanted != zero.elem => {
            return wrong(format!(
                "expected a zero point of type {wanted}, as in output_dtype, found {}",
                zero.elem
            ));
        }
        (_, Some(zero)) => zero.elem,
        (wanted, None) => wanted.unwrap_or(Elem::Plain(DType::U8)),
    };
    if !is_quantized(elem) {
        return unsupported(format!("{} to {elem}", c.node.op));
    }
    let precision = match listed(c.attr_int("precision")?).transpose()? {
        None => scale.dtype(),
        Some(Elem::Plain(dtype)) if dtype.is_float() => dtype,
        Some(other) => return wrong(format!("expected a float as precision, found {other}")),
    };
    let factors = spread(c, &scale, x.shape())?;
    let scaled = x.cast(precision)?.div(&factors.cast(precision)?)?;
    let zero = match zero {
        Some(zero) => Some(spread(c, &decode(&zero)?, x.shape())?),
        None => None,
    };
    one(quantized(
        &scaled,
        zero.as_ref(),
        elem,
        c.int_or("saturate", 1)? != 0,
    )?)
}

fn dequantize_linear(c: &mut Call) -> Result<Vec<Value>> {
    let (x, scale, zero) = (c.array(0)?, scale(c, 1)?, optional(c, 2)?);
    if !is_quantized(x.elem) {
        return unsupported(format!("{} on {}", c.node.op, x.elem));
    }
    let out = match c.int_or("output_dtype", 0)? {
        0 => scale.dtype(),
        number => match crate::onnx::call::elem(number)? {
            Elem::Plain(dtype) if dtype.is_float() => dtype,
            other => return unsupported(format!("{} to {other}", c.node.op)),
        },
    };
    let shape = x.tensor.shape().to_vec();
    let zero = match zero {
        Some(zero) if zero.elem != x.elem => {
            return wrong(format!(
                "expected a zero point of type {}, found {}",
                x.elem, zero.elem
            ));
        }
        Some(zero) => Some(spread(c, &decode(&zero)?, &shape)?),
        None => None,
    };
    let centered = centered(&decode(&x)?, zero.as_ref())?;
    let factors = spread(c, &scale, &shape)?.cast(DType::F32)?;
    one(centered.cast(DType::F32)?.mul(&factors)?.cast(out)?)
}

/// Numbers less their zero point, exactly: as `i32`, or floats as `f32`.
pub(super) fn centered(x: &Tensor, zero: Option<&Tensor>) -> Result<Tensor> {
    let dtype = if x.dtype().is_float() {
        DType::F32
    } else {
        DType::I32
    };
    let x = x.cast(dtype)?;
    match zero {
        Some(zero) => {
            let out = x.sub(&zero.cast(dtype)?)?;
            match out.shape() == x.shape() {
                true => Ok(out),
                false => wrong(format!(
                    "expected a zero point that fits {:?}, found {:?}",
                    x.shape(),
                    zero.shape()
                )),
            }
        }
        None => Ok(x),
    }
}

/// Quantised input `i` less its zero point, input `zero`, which `line` brings to the right axis.
pub(super) fn numbers(
    c: &mut Call,
    i: usize,
    zero: usize,
    line: impl Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    let (codes, zero) = codes(c, i, zero, line)?;
    centered(&codes, zero.as_ref())
}

/// The same apart.
fn codes(
    c: &mut Call,
    i: usize,
    zero: usize,
    line: impl Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<(Tensor, Option<Tensor>)> {
    let x = c.array(i)?;
    if !is_quantized(x.elem) {
        return unsupported(format!("{} on {}", c.node.op, x.elem));
    }
    let alike = uniform(c, zero)?;
    let zero = match optional(c, zero)? {
        Some(zero) if zero.elem != x.elem => {
            return wrong(format!(
                "expected a zero point of type {}, like input {i}, found {}",
                x.elem, zero.elem
            ));
        }
        Some(zero) => {
            let zero = line(&decode(&zero)?, x.tensor.rank())?;
            Some(match alike {
                Some(number) => zero.full_like(number as f64)?,
                None => zero,
            })
        }
        None => None,
    };
    Ok((decode(&x)?, zero))
}

/// The number that all zero points of an input are, if that is known: a part of the code, which is nothing for 0.
fn uniform(c: &mut Call, i: usize) -> Result<Option<i64>> {
    let known = match c.has(i).then(|| c.value(i)).transpose()? {
        Some(Value::Tensor(Array {
            tensor,
            elem: Elem::Plain(dtype),
        })) if dtype.is_int() && c.is_known(tensor) => tensor.clone(),
        _ => return Ok(None),
    };
    let numbers = c.read_ints(&known)?;
    let first = numbers.first().copied();
    Ok(first.filter(|first| numbers.iter().all(|n| n == first)))
}

/// One number for all elements.
pub(super) fn single(x: &Tensor, _: usize) -> Result<Tensor> {
    match x.numel() {
        1 => Ok(x.reshape(&[])?),
        _ => wrong(format!(
            "expected one scale and one zero point, found {:?}",
            x.shape()
        )),
    }
}

/// One number for each row of a matrix, or one for all.
fn rows(x: &Tensor, rank: usize) -> Result<Tensor> {
    match (x.numel(), x.rank()) {
        (1, 0 | 1) => Ok(x.reshape(&[])?),
        (_, 1) if rank > 1 => Ok(x.unsqueeze(1)?),
        _ => Ok(x.clone()),
    }
}

/// One number for each column of a matrix, or one for all.
pub(super) fn columns(x: &Tensor, _: usize) -> Result<Tensor> {
    match x.numel() {
        1 if x.rank() <= 1 => Ok(x.reshape(&[])?),
        _ => Ok(x.clone()),
    }
}

/// One number for each output channel of a weight, or one for all.
fn filters(x: &Tensor, rank: usize) -> Result<Tensor> {
    channels(x, rank, 0)
}

pub(super) fn channels(x: &Tensor, rank: usize, at: usize) -> Result<Tensor> {
    if x.numel() == 1 || x.rank() != 1 {
        return single(x, rank);
    }
    let mut line = vec![1; rank.max(at + 1)];
    line[at] = x.numel();
    Ok(x.reshape(&line)?)
}

/// Sums of products: whole numbers in 32 bits.
pub(super) fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let float = a.dtype().is_float() || b.dtype().is_float();
    Ok(a.matmul_in(b, if float { DType::F32 } else { DType::I32 })?)
}

fn matmul_integer(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (numbers(c, 0, 2, rows)?, numbers(c, 1, 3, columns)?);
    one(product(&a, &b)?)
}

/// The convolution of codes, less their zero point, with numbers.
fn convolution(
    c: &Call,
    (x, zero): (Tensor, Option<Tensor>),
    w: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let kernel = nn::weight_kernel(c, w)?;
    let mut windows = nn::windows(c, &nn::space(&x)?, kernel)?;
    // What is added around the image is 0, and its code the zero point: so all that windows see is bytes.
    let padding = std::mem::take(&mut windows.sliding.padding);
    let amounts: Vec<(isize, isize)> = [(0, 0); 2]
        .into_iter()
        .chain(padding)
        .map(|(before, after)| (before as isize, after as isize))
        .collect();
    let around = |x: &Tensor| x.pad(&amounts, PadMode::Constant(0.into()));
    let x = match &zero {
        _ if amounts.iter().all(|&both| both == (0, 0)) => x,
        None => around(&x)?,
        Some(zero) => {
            let inside = Tensor::full(x.engine(), x.shape(), true, DType::Bool)?;
            around(&inside)?.where_(&around(&x)?, zero)?
        }
    };
    let x = centered(&x, zero.as_ref())?;
    Ok(x.conv(w, bias, &windows.sliding, nn::groups(c)?)?)
}

fn conv_integer(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w) = (codes(c, 0, 2, single)?, numbers(c, 1, 3, filters)?);
    one(convolution(c, x, &w, None)?)
}

/// Numbers in units of `unit` (of 1 without one) as the output's type says: its scale is input
/// `scale`, its zero point the one after it, else the type is that of input `like`.
pub(super) fn requantized(
    c: &mut Call,
    real: &Tensor,
    unit: Option<&Tensor>,
    scale: usize,
    like: usize,
) -> Result<Vec<Value>> {
    let zero = optional(c, scale + 1)?;
    let elem = match &zero {
        Some(zero) => zero.elem,
        None => c.array(like)?.elem,
    };
    if !is_quantized(elem) {
        return unsupported(format!("{} to {elem}", c.node.op));
    }
    let zero = match zero {
        Some(zero) => Some(rows(&decode(&zero)?, real.rank())?),
        None => None,
    };
    let factor = rows(&self::scale(c, scale)?, real.rank())?;
    let factor = factor.cast(DType::F32)?;
    // One factor for both scales, as the format says: rounding depends on the order.
    let scaled = match unit {
        Some(unit) => real.mul(&unit.div(&factor)?)?,
        None => real.div(&factor)?,
    };
    let out = quantized(&scaled, zero.as_ref(), elem, true)?;
    match out.tensor.shape() == real.shape() {
        true => one(out),
        false => wrong(format!(
            "expected a scale and zero point that fit the output {:?}, found {:?}",
            real.shape(),
            factor.shape()
        )),
    }
}

/// The product of two scales, as `f32`.
pub(super) fn both(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(a.cast(DType::F32)?.mul(&b.cast(DType::F32)?)?)
}

fn qlinear_matmul(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (numbers(c, 0, 2, rows)?, numbers(c, 3, 5, columns)?);
    let sums = product(&a, &b)?.cast(DType::F32)?;
    let scales = both(
        &rows(&scale(c, 1)?, a.rank())?,
        &columns(&scale(c, 4)?, b.rank())?,
    )?;
    requantized(c, &sums, Some(&scales), 6, 0)
}

pub(super) fn qlinear_conv(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w) = (codes(c, 0, 2, single)?, numbers(c, 3, 5, filters)?);
    let (bias, rank) = (c.optional(8)?, x.0.rank());
    let sums = convolution(c, x, &w, bias.as_ref())?.cast(DType::F32)?;
    let (of_x, of_w) = (single(&scale(c, 1)?, 0)?, channels(&scale(c, 4)?, rank, 1)?);
    requantized(c, &sums, Some(&both(&of_x, &of_w)?), 6, 0)
}

/// Quantises by the range of the values, with 0 in it; gives the scale, the zero point too.
pub(super) fn ranged(x: &Tensor) -> crate::Result<(Tensor, Tensor, Tensor)> {
    let (low, high) = match x.numel() {
        0 => (
            Tensor::zeros(x.engine(), &[], DType::F32)?,
            Tensor::zeros(x.engine(), &[], DType::F32)?,
        ),
        _ => (
            x.min(&[], false)?.minimum(0.0)?,
            x.max(&[], false)?.maximum(0.0)?,
        ),
    };
    let scale = high.sub(&low)?.div(255.0)?;
    // Zeros only: any scale is right.
    let scale = scale.eq(0.0)?.where_(1.0, &scale)?;
    let zero = low.neg()?.div(&scale)?.round()?.clip(0.0, 255.0)?;
    let y = x.div(&scale)?.round()?.add(&zero)?.clip(0.0, 255.0)?;
    Ok((y.cast(DType::U8)?, scale, zero.cast(DType::U8)?))
}

/// The same of an input, which must be of the one type that it is for.
fn dynamic(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    match x.dtype() {
        DType::F32 => Ok(ranged(x)?),
        other => unsupported(format!("a dynamic range of {}", Elem::from(other))),
    }
}

fn dynamic_quantize(c: &mut Call) -> Result<Vec<Value>> {
    let (y, scale, zero) = dynamic(&c.tensor(0)?)?;
    Ok(vec![y.into(), scale.into(), zero.into()])
}

/// Adds the bias, input `i`, if it is there.
pub(super) fn biased(c: &mut Call, out: Tensor, i: usize) -> Result<Vec<Value>> {
    match c.optional(i)? {
        Some(bias) => one(out.add(&bias.cast(out.dtype())?)?),
        None => one(out),
    }
}

fn dynamic_quantize_matmul(c: &mut Call) -> Result<Vec<Value>> {
    let (a, of_a, zero) = dynamic(&c.tensor(0)?)?;
    let b = numbers(c, 1, 3, columns)?;
    let sums = product(&centered(&a, Some(&zero))?, &b)?.cast(DType::F32)?;
    let scales = both(&of_a, &columns(&scale(c, 2)?, b.rank())?)?;
    biased(c, sums.mul(&scales)?, 4)
}

/// The product of two quantised matrices as real numbers; of each the input, its scale and its zero
/// point.
pub(super) fn scaled_product(c: &mut Call, a: [usize; 3], b: [usize; 3]) -> Result<Tensor> {
    let (x, w) = (
        numbers(c, a[0], a[2], rows)?,
        numbers(c, b[0], b[2], columns)?,
    );
    let (of_x, of_w) = (scale(c, a[1])?, scale(c, b[1])?);
    let scales = both(&rows(&of_x, x.rank())?, &columns(&of_w, w.rank())?)?;
    let real = product(&x, &w)?.cast(DType::F32)?.mul(&scales)?;
    Ok(real.cast(of_x.dtype())?)
}

fn matmul_integer_to_float(c: &mut Call) -> Result<Vec<Value>> {
    let out = scaled_product(c, [0, 2, 4], [1, 3, 5])?;
    biased(c, out, 6)
}

fn qgemm(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (numbers(c, 0, 2, single)?, {
        let across = c.int_or("transB", 0)? != 0;
        numbers(c, 3, 5, move |x, rank| {
            if across {
                rows(x, rank)
            } else {
                columns(x, rank)
            }
        })?
    });
    let (a, b) = nn::oriented(c, a, b)?;
    let mut sums = product(&a, &b)?;
    let alpha = c.float_or("alpha", 1.0)?;
    if let Some(bias) = c.optional(6)? {
        sums = sums.add(&bias)?;
    }
    let scales = both(&single(&scale(c, 1)?, 0)?, &columns(&scale(c, 4)?, 2)?)?;
    let real = sums.cast(DType::F32)?.mul(&scales)?.mul(alpha)?;
    match c.has(7) {
        true => requantized(c, &real, None, 7, 0),
        false => one(real),
    }
}
