//! Out-of-range indices: an immediate error if the host knows them, else an error of the next wait for results.

use codegen::DType;
use codegen::interp::scalar;

use super::shape_error;
use crate::error::Result;
use crate::graph::{Bounds, Op, Storage, Tensor};

/// Longer lists of indices are not looked at.
const MOST: usize = 1 << 16;

impl Bounds {
    /// What [`Tensor::gather`] takes.
    pub fn of(op: &'static str, len: usize) -> Bounds {
        Bounds {
            op,
            len,
            negative: true,
            ignore: None,
        }
    }

    /// An index that is refused where one of its values is known to be out of range, and looked at by
    /// the device where none is known.
    pub fn checked(&self, index: &Tensor) -> Result<Tensor> {
        if let Some(values) = known(index, false) {
            self.check_values(values.into_iter())?;
            return Ok(index.clone());
        }
        if !index.dtype().is_int() || self.holds(index.dtype()) {
            return Ok(index.clone());
        }
        if self.len == 0 && self.ignore.is_none() {
            return shape_error(
                self.op,
                "index out of range: the axis has no elements".into(),
            );
        }
        let engine = index.engine();
        let word = engine.0.fault_word(self)?;
        let word = word.map(|word| Tensor::stored(engine, word, &[1], DType::I64));
        let src: Vec<&Tensor> = std::iter::once(index).chain(&word).collect();
        let (op, shape) = (Op::Checked(*self), index.shape());
        Ok(Tensor::make(engine, op, &src, shape, index.dtype()))
    }

    /// Whether every value of an integer type is in range.
    fn holds(&self, dtype: DType) -> bool {
        let bits = dtype.bits();
        match dtype.is_unsigned() {
            true => bits < 63 && 1u64 << bits <= self.len as u64,
            false => self.negative && 1u64 << (bits - 1) <= self.len as u64,
        }
    }

    /// Refuses values out of range.
    pub fn check_values(&self, mut values: impl Iterator<Item = i64>) -> Result<()> {
        let Some(wrong) = values.find(|&index| !self.has(index)) else {
            return Ok(());
        };
        let (low, len) = (self.low(), self.len);
        shape_error(
            self.op,
            format!("index {wrong} is out of range for {len} elements; use {low}..{len}"),
        )
    }
}

/// The values that occur in an integer tensor, if they are in host memory or constants of the graph,
/// and few. Element by element in row-major order if `ordered`.
pub(crate) fn known(index: &Tensor, ordered: bool) -> Option<Vec<i64>> {
    if !index.dtype().is_int() {
        return None;
    }
    if index.numel() == 0 {
        return Some(Vec::new());
    }
    let mut at = index.clone();
    let mut storage = at.storage();
    // What it is cast to, from the last to the first.
    let mut casts = Vec::new();
    while storage.is_none() {
        let node = at.node();
        match &node.op {
            Op::Const(_) | Op::Iota => break,
            Op::Reshape | Op::Contiguous | Op::Detach => {}
            Op::Permute(_) | Op::Expand | Op::Flip(_) if !ordered => {}
            Op::Cast if node.src().first().is_some_and(|s| s.dtype().is_int()) => {
                casts.push(node.dtype);
            }
            _ => return None,
        }
        let source = node.src().first().cloned()?;
        at = source;
        storage = at.storage();
    }
    let (count, dtype) = (at.numel(), at.dtype());
    let mut values: Vec<i64> = match (&storage, &at.node().op) {
        (None, Op::Const(bits)) => vec![number(dtype, *bits)],
        (None, Op::Iota) if !ordered && casts.is_empty() => vec![0, count as i64 - 1],
        (Some(Storage::Host(bytes)), _) if count <= MOST => match dtype {
            DType::I64 => (bytes.as_chunks().0.iter())
                .map(|&word| i64::from_le_bytes(word))
                .collect(),
            DType::I32 => (bytes.as_chunks().0.iter())
                .map(|&word| i64::from(i32::from_le_bytes(word)))
                .collect(),
            _ => (bytes.chunks_exact(dtype.size()))
                .map(|word| number(dtype, scalar::read(dtype, word)))
                .collect(),
        },
        _ => return None,
    };
    for &to in casts.iter().rev() {
        for value in &mut values {
            *value = number(to, scalar::from_int(to, i128::from(*value)));
        }
    }
    Some(values)
}

/// An integer; what is too large for the result is out of range as it is.
fn number(dtype: DType, bits: u64) -> i64 {
    i64::try_from(scalar::to_int(dtype, bits)).unwrap_or(i64::MAX)
}
