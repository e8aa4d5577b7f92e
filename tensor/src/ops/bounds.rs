//! Indices that the host knows: those out of range are an error before anything runs.
//!
//! A device has no way to say that an index is out of range, so where only it knows the index, it
//! reads 0 and writes nothing.

use codegen::DType;
use codegen::interp::scalar;

use super::shape_error;
use crate::error::Result;
use crate::graph::{Op, Storage, Tensor};

/// Longer lists of indices are not looked at.
const MOST: usize = 1 << 16;

/// What an index may be.
pub(crate) struct Bounds {
    /// Who asks.
    pub op: &'static str,
    /// Elements of the axis.
    pub len: usize,
    /// Whether negative ones count from the end.
    pub negative: bool,
    /// A value that stands for no element.
    pub ignore: Option<i64>,
}

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

    fn has(&self, index: i64) -> bool {
        let (index, len) = (i128::from(index), self.len as i128);
        let low = if self.negative { -len } else { 0 };
        (low..len).contains(&index) || self.ignore.is_some_and(|i| i128::from(i) == index)
    }

    /// Refuses an index tensor that is known to have a value out of range.
    pub fn check(&self, index: &Tensor) -> Result<()> {
        match known(index, false) {
            Some(values) => self.check_values(values.into_iter()),
            None => Ok(()),
        }
    }

    /// Refuses values out of range.
    pub fn check_values(&self, mut values: impl Iterator<Item = i64>) -> Result<()> {
        let Some(wrong) = values.find(|&index| !self.has(index)) else {
            return Ok(());
        };
        let low = match self.negative {
            true => format!("-{}", self.len),
            false => "0".into(),
        };
        shape_error(
            self.op,
            format!(
                "index {wrong} is out of range for {} elements; use {low}..{}",
                self.len, self.len
            ),
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
