//! Weights of a few bits: blocks of them share a scale.

use codegen::DType;

use super::convert::decode;
use super::quant::{biased, scale};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one};
use crate::onnx::elem::Elem;
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, Value};

pub(super) const OPS: Table = &[
    ("GatherBlockQuantized", gather_block_quantized),
    ("MatMulBnb4", matmul_bnb4),
    ("MatMulNBits", matmul_n_bits),
];

/// A size in an attribute that must be there.
fn size(c: &Call, name: &str) -> Result<usize> {
    match usize::try_from(c.needed(name, c.attr_int(name)?)?) {
        Ok(n @ 1..) => Ok(n),
        _ => wrong(format!("expected attribute {name} of at least 1")),
    }
}

/// Bits of an element, as an attribute says.
fn bits(c: &Call) -> Result<usize> {
    match c.int_or("bits", 4)? {
        bits @ (2 | 4 | 8) => Ok(bits as usize),
        bits => unsupported(format!("{} with bits = {bits}", c.node.op)),
    }
}

/// The elements of bytes, the lowest bits first, as `f32`: the last axis grows.
pub(super) fn unpacked(bytes: &Tensor, bits: usize) -> Result<Tensor> {
    let each = 8 / bits;
    let mut shape = bytes.shape().to_vec();
    let Some(last) = shape.last_mut().filter(|_| bytes.dtype() == DType::U8) else {
        return wrong(format!(
            "expected packed elements as UINT8 of rank 1 or more, found {} {:?}",
            bytes.dtype(),
            bytes.shape()
        ));
    };
    *last *= each;
    let parts: Vec<Tensor> = (0..each)
        .map(|i| bytes.shr((bits * i) as i64)?.bitand((1i64 << bits) - 1))
        .collect::<crate::Result<_>>()?;
    let all = Tensor::stack(&parts.iter().collect::<Vec<_>>(), -1)?;
    Ok(all.reshape(&shape)?.cast(DType::F32)?)
}

/// A weight of 2, 4 or 8 bits, in blocks along the inner axis, each with a scale.
fn matmul_n_bits(c: &mut Call) -> Result<Vec<Value>> {
    let (x, packed, scales) = (c.tensor(0)?, c.tensor(1)?, scale(c, 2)?);
    let (k, n, block) = (size(c, "K")?, size(c, "N")?, size(c, "block_size")?);
    let bits = bits(c)?;
    if c.int_or("weight_prepacked", 0)? != 0 {
        return unsupported("MatMulNBits with weight_prepacked (a GPU-specific layout)");
    }
    if c.has(4) {
        return unsupported("MatMulNBits with g_idx");
    }
    let (blocks, each) = (k.div_ceil(block), 8 / bits);
    let bytes = n
        .checked_mul(blocks)
        .and_then(|m| m.checked_mul(block / each));
    if !block.is_multiple_of(each) || Some(packed.numel()) != bytes {
        return wrong(format!(
            "expected a weight UINT8 [{n}, {blocks}, {}], found {} {:?}",
            block / each,
            packed.dtype(),
            packed.shape()
        ));
    }
    let codes = unpacked(&packed.reshape(&[n, blocks, block / each])?, bits)?;
    let zero = match c.optional(3)? {
        None => None,
        Some(zero) if zero.dtype() == DType::U8 => {
            let row = blocks.div_ceil(each);
            let zero = unpacked(&zero.reshape(&[n, row])?, bits)?;
            Some(zero.narrow(1, 0, blocks)?)
        }
        Some(zero) => Some(zero.cast(DType::F32)?.reshape(&[n, blocks])?),
    };
    let zero = match zero {
        Some(zero) => zero,
        None => Tensor::full(
            c.engine(),
            &[n, blocks],
            f64::from(1 << (bits - 1)),
            DType::F32,
        )?,
    };
    let factors = scales.cast(DType::F32)?.reshape(&[n, blocks])?;
    let weight = codes
        .sub(&zero.unsqueeze(2)?)?
        .mul(&factors.unsqueeze(2)?)?;
    let weight = weight.reshape(&[n, blocks * block])?.narrow(1, 0, k)?;
    let out = x.matmul_in(&weight.t()?, DType::F32)?.cast(x.dtype())?;
    biased(c, out, 5)
}

/// What the codes of 4-bit floats stand for, and of the quantiles of normal numbers.
const BNB4: [[f32; 16]; 2] = [
    [
        0.0,
        5.208_333_4e-3,
        0.666_666_7,
        1.0,
        0.333_333_34,
        0.5,
        0.166_666_67,
        0.25,
        0.0,
        -5.208_333_4e-3,
        -0.666_666_7,
        -1.0,
        -0.333_333_34,
        -0.5,
        -0.166_666_67,
        -0.25,
    ],
    [
        -1.0,
        -0.696_192_8,
        -0.525_073_05,
        -0.394_917_5,
        -0.284_441_38,
        -0.184_773_43,
        -0.091_050_036,
        0.0,
        0.079_580_3,
        0.160_930_2,
        0.246_112_3,
        0.337_915_24,
        0.440_709_83,
        0.562_617,
        0.722_956_84,
        1.0,
    ],
];

fn matmul_bnb4(c: &mut Call) -> Result<Vec<Value>> {
    let (x, packed, most) = (c.tensor(0)?, c.tensor(1)?, scale(c, 2)?);
    let (k, n, block) = (size(c, "K")?, size(c, "N")?, size(c, "block_size")?);
    let kind = c.needed("quant_type", c.attr_int("quant_type")?)?;
    let Some(table) = usize::try_from(kind).ok().and_then(|i| BNB4.get(i)) else {
        return wrong(format!("expected quant_type of 0 or 1, found {kind}"));
    };
    let total = n.saturating_mul(k);
    if packed.numel() != total.div_ceil(2) || most.numel() != total.div_ceil(block) {
        return wrong(format!(
            "expected {} bytes and {} scales, found {:?} and {:?}",
            total.div_ceil(2),
            total.div_ceil(block),
            packed.shape(),
            most.shape()
        ));
    }
    // Of a byte, the upper half comes first.
    let bytes = packed.reshape(&[packed.numel()])?;
    let halves = [&bytes.shr(4)?, &bytes.bitand(15)?];
    let codes = Tensor::stack(&halves, 1)?.reshape(&[2 * bytes.numel()])?;
    let codes = codes.narrow(0, 0, total)?.cast(DType::I32)?;
    let table = Tensor::from_slice(c.engine(), table, &[16])?;
    let most = most.reshape(&[most.numel()])?.cast(DType::F32)?;
    let most = most.repeat_interleave(block, 0)?.narrow(0, 0, total)?;
    let weight = table.rows(0, &codes)?.mul(&most)?.reshape(&[n, k])?;
    let weight = match c.int_or("transB", 1)? {
        0 => weight,
        _ => weight.t()?,
    };
    one(x.matmul_in(&weight, DType::F32)?.cast(x.dtype())?)
}

/// Rows of a quantised table, as real numbers; positions outside of it give zeros.
fn gather_block_quantized(c: &mut Call) -> Result<Vec<Value>> {
    let (data, at, scales) = (c.array(0)?, c.tensor(1)?, scale(c, 2)?);
    let zero = match c.has(3) {
        true => Some(c.array(3)?),
        false => None,
    };
    let rank = data.tensor.rank();
    let (along, by) = (
        axis(c.int_or("gather_axis", 0)?, rank)?,
        axis(c.int_or("quantize_axis", 1)?, rank)?,
    );
    let block = match usize::try_from(c.int_or("block_size", 128)?) {
        Ok(0) => data.tensor.shape()[by],
        Ok(n) => n,
        Err(_) => return wrong("expected attribute block_size of at least 0"),
    };
    let bits = bits(c)?;
    let bytes = data.elem == Elem::Plain(DType::U8);
    if bytes && bits < 8 && along == rank - 1 {
        return wrong("expected packed elements along another axis than gather_axis");
    }
    let length = data.tensor.shape()[along] as i64;
    let at = at.cast(DType::I64)?;
    let at = at.lt(0)?.where_(&at.add(length)?, &at)?;
    let inside = at.ge(0)?.logical_and(&at.lt(length)?)?;
    let rows = at.clip(0, (length - 1).max(0))?;
    let picked = |t: &Tensor| -> crate::Result<Tensor> {
        match t.shape()[along] {
            // One scale for all.
            1 if length != 1 => t.rows(along, &rows.zeros_like()?),
            _ => t.rows(along, &rows),
        }
    };
    let numbers = |array: &Array| -> Result<Tensor> {
        let picked = picked(&array.tensor)?;
        match bytes && bits < 8 {
            true => unpacked(&picked, bits),
            false => Ok(decode(&Array {
                tensor: picked,
                elem: array.elem,
            })?
            .cast(DType::F32)?),
        }
    };
    if along == by {
        return unsupported(format!("{} along the axis of the blocks", c.node.op));
    }
    // Where the axis of the blocks is now.
    let by = if by > along { by + at.rank() - 1 } else { by };
    let codes = numbers(&data)?;
    let whole = codes.shape()[by];
    let spread = |t: &Tensor| -> crate::Result<Tensor> {
        let wide = t.repeat_interleave(block, by as isize)?;
        wide.narrow(by as isize, 0, whole)
    };
    let real = match &zero {
        Some(zero) => {
            // A row of packed zero points may end in the middle of a byte.
            let zero = numbers(zero)?;
            codes.sub(&spread(&zero.narrow(
                by as isize,
                0,
                whole.div_ceil(block),
            )?)?)?
        }
        None if bytes => codes.sub(f64::from(1 << (bits - 1)))?,
        None => codes,
    };
    let real = real.mul(&spread(&picked(&scales)?.cast(DType::F32)?)?)?;
    let mut shape = vec![1; real.rank()];
    shape[along..along + at.rank()].copy_from_slice(at.shape());
    let real = inside.reshape(&shape)?.where_(&real, &real.zeros_like()?)?;
    one(real.cast(scales.dtype())?)
}
