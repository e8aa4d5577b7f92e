//! Sorting long axes digit by digit, from the lowest: a stable pass per digit puts the elements in the
//! order of that digit.
//!
//! A pass has an axis in blocks. It counts each digit in each block, sums the counts up to know where
//! the elements of a block with a digit go, and adds how many of them come before an element in its block.
//! Each step is parallel over all blocks; none compares more than the elements of one block with each other.

use codegen::DType;
use codegen::ir::ReduceOp;

use crate::error::Result;
use crate::graph::{ScatterMode, Tensor};

/// Bits of a digit.
fn digit() -> u32 {
    std::env::var("DIGIT").map_or(4, |s| s.parse().unwrap())
}
/// Elements of a block.
fn block() -> usize {
    std::env::var("BLOCK").map_or(64, |s| s.parse().unwrap())
}

/// The positions that sort the last axis of `[rows, n]`, as `I32`; stable.
pub(super) fn argsort(x: &Tensor, descending: bool) -> Result<Tensor> {
    let (keys, bits) = keys(&x.detach()?, descending)?;
    let n = x.shape()[1];
    let index = x.positions(1)?.cast(DType::U64)?;
    let low = keys.shl(32)?.bitor(&index)?;
    if bits <= 32 {
        return order(&sorted(&low, bits)?, n)?.cast(DType::I32);
    }
    // The lower half first; the order that it gives is what the upper half starts from.
    let first = order(&sorted(&low, 32)?, n)?;
    let high = keys.shr(32)?.shl(32)?;
    let word = high.gather(1, &first.cast(DType::I32)?)?.bitor(&first)?;
    order(&sorted(&word, bits - 32)?, n)?.cast(DType::I32)
}

/// The index in each word.
fn order(words: &Tensor, n: usize) -> Result<Tensor> {
    words.narrow(1, 0, n)?.bitand(0xffff_ffffi64)
}

/// Unsigned numbers in the order of the elements, and how many bits they have.
fn keys(x: &Tensor, descending: bool) -> Result<(Tensor, u32)> {
    let dtype = x.dtype();
    let bits = match dtype {
        DType::Bool => 1,
        _ => dtype.bits(),
    };
    let unsigned = match bits {
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    };
    let key = if dtype == DType::Bool || dtype.is_unsigned() {
        x.cast(DType::U64)?
    } else {
        let key = x.bitcast(unsigned)?;
        let top = Tensor::ones(x.engine(), x.shape(), unsigned)?.shl(i64::from(bits) - 1)?;
        let negative = key.shr(i64::from(bits) - 1)?.ne(0)?;
        if dtype.is_float() {
            // Of negative floats the larger bits are the smaller number. Both zeros are equal, and all NaN.
            let key = negative.select(&key.not()?, &key.bitxor(&top)?)?;
            let zero = x.bitcast(unsigned)?.shl(1)?.eq(0)?;
            let key = zero.select(&top, &key)?;
            let most = x.isnan()?;
            most.select(&key.zeros_like()?.not()?, &key)?
                .cast(DType::U64)?
        } else {
            key.bitxor(&top)?.cast(DType::U64)?
        }
    };
    if !descending {
        return Ok((key, bits));
    }
    let key = key.not()?;
    Ok((
        key.shl(64 - i64::from(bits))?.shr(64 - i64::from(bits))?,
        bits,
    ))
}

/// Words `[rows, n]` in the order of their bits `32..32 + bits`, with words of ones after them: a whole number
/// of blocks.
fn sorted(words: &Tensor, bits: u32) -> Result<Tensor> {
    let &[rows, n] = words.shape() else {
        return Ok(words.clone());
    };
    let block = block();
    let digit = digit();
    let blocks = n.div_ceil(block);
    let mut words = words
        .pad_to(&[0, 0], &[rows, blocks * block], u64::MAX)?
        .contiguous()?;
    let mut at = 0;
    while at < bits {
        let width = digit.min(bits - at);
        words = pass(&words, 32 + at, width, blocks, block)?;
        at += width;
    }
    Ok(words)
}

/// One pass: the words in the order of some of their bits.
fn pass(words: &Tensor, from: u32, width: u32, blocks: usize, block: usize) -> Result<Tensor> {
    let engine = words.engine();
    let rows = words.shape()[0];
    let digits = 1usize << width;
    // The shift is data, so that all passes are the same kernels.
    let from = Tensor::from_slice(engine, &[u64::from(from)], &[1])?;
    let parts = words.reshape(&[rows, blocks, block])?;
    let digit = parts.shr(&from)?.bitand(digits as i64 - 1)?;
    let digit = digit.cast(DType::U8)?.contiguous()?;
    // How many elements of each block have each digit: [rows, digits, blocks].
    let number = Tensor::iota(engine, digits, DType::I32)?
        .cast(DType::U8)?
        .reshape(&[1, digits, 1, 1])?;
    let has = digit.unsqueeze(1)?.eq(&number)?;
    let narrow = if block < 256 { DType::U8 } else { DType::U16 };
    let counts = has
        .cast(narrow)?
        .reduce(ReduceOp::Add, &[3])?
        .cast(DType::I32)?;
    let start = before(&counts.reshape(&[rows, digits * blocks])?.contiguous()?)?.contiguous()?;
    // How many elements with the same digit come earlier in the block.
    let shape = [rows, blocks, block, block];
    let this = digit.unsqueeze(3)?.expand(&shape)?;
    let other = digit.unsqueeze(2)?.expand(&shape)?;
    let earlier = other.positions(3)?.lt(&other.positions(2)?)?;
    let same = this.eq(&other)?.bitand(&earlier)?;
    let rank = same
        .cast(narrow)?
        .reduce(ReduceOp::Add, &[3])?
        .reshape(&[rows, blocks, block])?;
    let rank = if std::env::var("FORCE").is_ok() {
        rank.contiguous()?
    } else {
        rank
    };
    let at = digit
        .cast(DType::I32)?
        .mul(blocks as i64)?
        .add(&digit.positions(1)?)?;
    let flat = [rows, blocks * block];
    let place = start
        .gather(1, &at.reshape(&flat)?)?
        .add(&rank.reshape(&flat)?.cast(DType::I32)?)?;
    words
        .zeros_like()?
        .scatter(1, &place, words, ScatterMode::Distinct)
}

/// The sum of what comes before each element of the rows.
fn before(counts: &Tensor) -> Result<Tensor> {
    let &[rows, n] = counts.shape() else {
        return Ok(counts.clone());
    };
    // In two steps, each of which runs over about as many elements: the parts, and their sums.
    let len = n.isqrt().max(1).next_power_of_two();
    let parts = n.div_ceil(len);
    let padded = counts.pad_to(&[0, 0], &[rows, parts * len], 0)?;
    let within = padded
        .reshape(&[rows, parts, len])?
        .scan(ReduceOp::Add, 2)?;
    let sums = within.narrow(2, len - 1, 1)?.reshape(&[rows, parts])?;
    let ends = sums.scan(ReduceOp::Add, 1)?;
    let starts = ends.sub(&sums)?.unsqueeze(2)?;
    within
        .add(&starts)?
        .reshape(&[rows, parts * len])?
        .narrow(1, 0, n)?
        .sub(counts)
}
