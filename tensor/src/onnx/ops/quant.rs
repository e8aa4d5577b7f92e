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
    ("MatMulIntegerToFloat", matmul_integer_to_float),
    ("MatMulNBits", matmul_n_bits),
    ("QGemm", qgemm),
    ("QLinearAdd", |c| between(c, |a, b| a.add(b))),
    ("QLinearAveragePool", qlinear_average_pool),
    ("QLinearConcat", qlinear_concat),
    ("QLinearGlobalAveragePool", qlinear_global_average_pool),
    ("QLinearLeakyRelu", |c| {
        let alpha = c.float_or("alpha", 0.01)?;
        over(c, |x| x.leaky_relu(alpha))
    }),
    ("QLinearMul", |c| between(c, |a, b| a.mul(b))),
    ("QLinearSigmoid", |c| over(c, Tensor::sigmoid)),
    ("QLinearSoftmax", qlinear_softmax),
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
fn quantized(x: &Tensor, zero: Option<&Tensor>, elem: Elem, saturate: bool) -> Result<Array> {
    let mut x = x.cast(DType::F32)?;
    let whole = matches!(elem, Elem::U4 | Elem::I4) || elem.held().is_int() && is_plain(elem);
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

fn is_quantized(elem: Elem) -> bool {
    use DType::{F8E4M3, F8E5M2, I8, I16, I32, U8, U16};
    match elem {
        Elem::Plain(dtype) => matches!(dtype, F8E4M3 | F8E5M2 | I8 | I16 | I32 | U8 | U16),
        _ => true,
    }
}

/// Input `i` as an array, if it is there.
fn optional(c: &mut Call, i: usize) -> Result<Option<Array>> {
    match c.has(i) {
        true => c.array(i).map(Some),
        false => Ok(None),
    }
}

/// A float tensor: scales are nothing else.
fn scale(c: &mut Call, i: usize) -> Result<Tensor> {
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
                "expected a zero point of the type {wanted} that output_dtype says, found {}",
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
fn centered(x: &Tensor, zero: Option<&Tensor>) -> Result<Tensor> {
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
fn numbers(
    c: &mut Call,
    i: usize,
    zero: usize,
    line: impl Fn(&Tensor, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    let x = c.array(i)?;
    if !is_quantized(x.elem) {
        return unsupported(format!("{} on {}", c.node.op, x.elem));
    }
    let zero = match optional(c, zero)? {
        Some(zero) if zero.elem != x.elem => {
            return wrong(format!(
                "expected the zero point of input {i} to be {}, as the input, found {}",
                x.elem, zero.elem
            ));
        }
        Some(zero) => Some(line(&decode(&zero)?, x.tensor.rank())?),
        None => None,
    };
    centered(&decode(&x)?, zero.as_ref())
}

/// One number for all elements.
fn single(x: &Tensor, _: usize) -> Result<Tensor> {
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
fn columns(x: &Tensor, _: usize) -> Result<Tensor> {
    match x.numel() {
        1 if x.rank() <= 1 => Ok(x.reshape(&[])?),
        _ => Ok(x.clone()),
    }
}

/// One number for each output channel of a weight, or one for all.
fn filters(x: &Tensor, rank: usize) -> Result<Tensor> {
    channels(x, rank, 0)
}

fn channels(x: &Tensor, rank: usize, at: usize) -> Result<Tensor> {
    if x.numel() == 1 || x.rank() != 1 {
        return single(x, rank);
    }
    let mut line = vec![1; rank.max(at + 1)];
    line[at] = x.numel();
    Ok(x.reshape(&line)?)
}

/// Sums of products: whole numbers in 32 bits.
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let float = a.dtype().is_float() || b.dtype().is_float();
    Ok(a.matmul_in(b, if float { DType::F32 } else { DType::I32 })?)
}

fn matmul_integer(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (numbers(c, 0, 2, rows)?, numbers(c, 1, 3, columns)?);
    one(product(&a, &b)?)
}

fn convolution(c: &Call, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let kernel = nn::weight_kernel(c, w)?;
    let windows = nn::windows(c, &nn::space(x)?, kernel)?;
    Ok(x.conv(w, bias, &windows.sliding, nn::groups(c)?)?)
}

fn conv_integer(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w) = (numbers(c, 0, 2, single)?, numbers(c, 1, 3, filters)?);
    one(convolution(c, &x, &w, None)?)
}

/// Numbers in units of `unit` (of 1 without one) as the output's type says: its scale is input
/// `scale`, its zero point the one after it, else the type is that of input `like`.
fn requantized(
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
fn both(a: &Tensor, b: &Tensor) -> Result<Tensor> {
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

fn qlinear_conv(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w) = (numbers(c, 0, 2, single)?, numbers(c, 3, 5, filters)?);
    let bias = c.optional(8)?;
    let sums = convolution(c, &x, &w, bias.as_ref())?.cast(DType::F32)?;
    let (of_x, of_w) = (
        single(&scale(c, 1)?, 0)?,
        channels(&scale(c, 4)?, x.rank(), 1)?,
    );
    requantized(c, &sums, Some(&both(&of_x, &of_w)?), 6, 0)
}

/// Quantises by the range of the values, with 0 in it; gives the scale, the zero point too.
fn dynamic(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    if x.dtype() != DType::F32 {
        return unsupported(format!("a dynamic range of {}", Elem::from(x.dtype())));
    }
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

fn dynamic_quantize(c: &mut Call) -> Result<Vec<Value>> {
    let (y, scale, zero) = dynamic(&c.tensor(0)?)?;
    Ok(vec![y.into(), scale.into(), zero.into()])
}

/// Adds the bias, input `i`, if it is there.
fn biased(c: &mut Call, out: Tensor, i: usize) -> Result<Vec<Value>> {
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

fn matmul_integer_to_float(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (numbers(c, 0, 4, rows)?, numbers(c, 1, 5, columns)?);
    let (of_a, of_b) = (scale(c, 2)?, scale(c, 3)?);
    let scales = both(&rows(&of_a, a.rank())?, &columns(&of_b, b.rank())?)?;
    let out = product(&a, &b)?.cast(DType::F32)?.mul(&scales)?;
    biased(c, out.cast(of_a.dtype())?, 6)
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

/// A weight of 2, 4 or 8 bits, in blocks along the inner axis, each with a scale.
fn matmul_n_bits(c: &mut Call) -> Result<Vec<Value>> {
    let (x, packed, scales) = (c.tensor(0)?, c.tensor(1)?, scale(c, 2)?);
    let size = |name: &str| -> Result<usize> {
        match usize::try_from(c.needed(name, c.attr_int(name)?)?) {
            Ok(n @ 1..) => Ok(n),
            _ => wrong(format!("expected attribute {name} of at least 1")),
        }
    };
    let (k, n, block) = (size("K")?, size("N")?, size("block_size")?);
    let bits = match c.int_or("bits", 4)? {
        bits @ (2 | 4 | 8) => bits as usize,
        bits => return unsupported(format!("MatMulNBits with bits = {bits}")),
    };
    if c.has(4) {
        return unsupported("MatMulNBits with g_idx");
    }
    let (blocks, each) = (k.div_ceil(block), 8 / bits);
    if packed.dtype() != DType::U8
        || !block.is_multiple_of(each)
        || Some(packed.numel())
            != n.checked_mul(blocks)
                .and_then(|m| m.checked_mul(block / each))
    {
        return wrong(format!(
            "expected a weight UINT8 [{n}, {blocks}, {}], found {} {:?}",
            block / each,
            packed.dtype(),
            packed.shape()
        ));
    }
    // Elements of a byte, the lowest bits first.
    let unpacked = |bytes: &Tensor| -> Result<Tensor> {
        let parts: Vec<Tensor> = (0..each)
            .map(|i| bytes.shr((bits * i) as i64)?.bitand((1i64 << bits) - 1))
            .collect::<crate::Result<_>>()?;
        Ok(Tensor::stack(&parts.iter().collect::<Vec<_>>(), -1)?.cast(DType::F32)?)
    };
    let codes = unpacked(&packed)?.reshape(&[n, blocks, block])?;
    let zero = match c.optional(3)? {
        None => codes.full_like(f64::from(1 << (bits - 1)))?,
        Some(zero) if zero.dtype() == DType::U8 => {
            let row = blocks.div_ceil(each) * each;
            let flat = unpacked(&zero.reshape(&[n, row / each])?)?;
            flat.reshape(&[n, row])?
                .narrow(1, 0, blocks)?
                .unsqueeze(2)?
        }
        Some(zero) => zero.cast(DType::F32)?.reshape(&[n, blocks, 1])?,
    };
    let factors = scales.cast(DType::F32)?.reshape(&[n, blocks, 1])?;
    let weight = codes.sub(&zero)?.mul(&factors)?;
    let weight = weight.reshape(&[n, blocks * block])?.narrow(1, 0, k)?;
    let out = x.matmul_in(&weight.t()?, DType::F32)?.cast(x.dtype())?;
    biased(c, out, 5)
}

/// Input `i` as real numbers, by the scale and the zero point after it.
fn real(c: &mut Call, i: usize) -> Result<Tensor> {
    let x = numbers(c, i, i + 2, single)?;
    let factor = single(&scale(c, i + 1)?, 0)?.cast(DType::F32)?;
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
