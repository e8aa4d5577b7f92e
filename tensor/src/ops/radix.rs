//! Sorting long axes digit by digit, from the lowest: a stable pass per digit puts the elements in the
//! order of that digit.
//!
//! A pass has an axis in blocks. It counts each digit in each block, sums the counts up to know where
//! the elements of a block with a digit go, and adds how many of them come before an element in its block.
//! Each step is parallel over all blocks; none compares more than the elements of one block with each other.

use codegen::DType;
use codegen::ir::ReduceOp;

use crate::error::Result;
use crate::graph::{Engine, ScatterMode, Tensor};

/// Bits of a digit.
const DIGIT: u32 = 4;
/// Elements of a block; their numbers are bytes.
const BLOCK: usize = 128;

/// The positions that sort the last axis of `[rows, n]`, as `I32`; stable.
pub(super) fn argsort(x: &Tensor, descending: bool) -> Result<Tensor> {
    let keys = keys(&x.detach()?, descending)?.cast(DType::U64)?;
    let bits = width(x.dtype());
    let n = x.shape()[1];
    let index = x.positions(1)?.cast(DType::U64)?;
    let low = keys.shl(32)?.bitor(&index)?;
    if bits <= 32 {
        return order(&sorted(&low, bits)?, n)?.cast(DType::I32);
    }
    // The lower half first; the order that it gives is what the upper half starts from.
    let first = order(&sorted(&low, 32)?, n)?;
    let high = keys.shr(32)?.shl(32)?;
    let word = high.pick(1, &first.cast(DType::I32)?)?.bitor(&first)?;
    order(&sorted(&word, bits - 32)?, n)?.cast(DType::I32)
}

/// The index in each word.
fn order(words: &Tensor, n: usize) -> Result<Tensor> {
    words.narrow(1, 0, n)?.bitand(0xffff_ffffi64)
}

/// How many bits of its key an element has.
fn width(dtype: DType) -> u32 {
    match dtype {
        DType::Bool => 1,
        _ => dtype.bits(),
    }
}

fn unsigned(bits: u32) -> DType {
    match bits {
        1 | 8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        _ => DType::U64,
    }
}

/// The bits of floats, as unsigned numbers.
pub(super) fn bits(x: &Tensor) -> Result<Tensor> {
    x.bitcast(unsigned(x.dtype().bits()))
}

/// Unsigned numbers in the order of the elements, as wide as these.
pub(super) fn keys(x: &Tensor, descending: bool) -> Result<Tensor> {
    let dtype = x.dtype();
    let bits = width(dtype);
    let unsigned = unsigned(bits);
    let key = if dtype == DType::Bool || dtype.is_unsigned() {
        x.cast(unsigned)?
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
        } else {
            key.bitxor(&top)?
        }
    };
    match (descending, bits) {
        (false, _) => Ok(key),
        (true, 1) => key.bitxor(1),
        (true, _) => key.not(),
    }
}

/// Words `[rows, n]` in the order of their bits `32..32 + bits`, with words of ones after them: a whole
/// number of blocks.
fn sorted(words: &Tensor, bits: u32) -> Result<Tensor> {
    let &[rows, n] = words.shape() else {
        return Ok(words.clone());
    };
    let blocks = n.div_ceil(BLOCK);
    let passes = Passes::new(words.engine(), rows, blocks)?;
    let mut words = words
        .pad_to(&[0, 0], &[rows, blocks * BLOCK], u64::MAX)?
        .contiguous()?;
    for at in (0..bits).step_by(DIGIT as usize) {
        words = passes.run(&words, 32 + at)?;
    }
    Ok(words)
}

/// What all passes have in common. All of it is data, and the bits that a pass looks at too: so the kernels
/// of all passes are the same, and compare bytes with bytes.
struct Passes {
    rows: usize,
    blocks: usize,
    /// The digits, `[1, digits, 1, 1]`.
    digits: Tensor,
    /// Whether element j of a block is before element i: two rows of positions.
    earlier: Tensor,
}

impl Passes {
    fn new(engine: &Engine, rows: usize, blocks: usize) -> Result<Passes> {
        let digits: Vec<u8> = (0..1 << DIGIT).collect();
        let places: Vec<u8> = (0..BLOCK as u8).collect();
        let places = Tensor::from_slice(engine, &places, &[BLOCK])?;
        Ok(Passes {
            rows,
            blocks,
            digits: Tensor::from_slice(engine, &digits, &[1, digits.len(), 1, 1])?,
            earlier: places.lt(&places.unsqueeze(1)?)?,
        })
    }

    /// The words in the order of the digit that starts at a bit.
    fn run(&self, words: &Tensor, from: u32) -> Result<Tensor> {
        let (rows, blocks, digits) = (self.rows, self.blocks, self.digits.numel());
        let flat = [rows, blocks * BLOCK];
        let from = Tensor::from_slice(words.engine(), &[u64::from(from)], &[1])?;
        let digit = words
            .reshape(&[rows, blocks, BLOCK])?
            .shr(&from)?
            .bitand(digits as i64 - 1)?
            .cast(DType::U8)?
            .contiguous()?;
        // How many elements of each block have each digit: [rows, digits, blocks], so that the sum of
        // what comes before is where they go.
        let counts = count(&digit.unsqueeze(1)?.eq(&self.digits)?)?
            .cast(DType::I32)?
            .reshape(&[rows, digits * blocks])?
            .contiguous()?;
        let start = before(&counts)?.contiguous()?;
        // How many elements of the block have the same digit and come earlier.
        let same = digit.unsqueeze(3)?.eq(&digit.unsqueeze(2)?)?;
        let rank = count(&same.bitand(&self.earlier)?)?.contiguous()?;
        let line = digit.cast(DType::I32)?.mul(blocks as i64)?;
        let line = line.add(&digit.positions(1)?)?.reshape(&flat)?;
        let rank = rank.reshape(&flat)?.cast(DType::I32)?;
        let place = start.pick(1, &line)?.add(&rank)?;
        words
            .zeros_like()?
            .put(1, &place, words, ScatterMode::Distinct)
    }
}

/// How many are true along the last axis, of at most 255.
fn count(truth: &Tensor) -> Result<Tensor> {
    let last = truth.rank() - 1;
    truth.cast(DType::U8)?.reduce(ReduceOp::Add, &[last])
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
