//! What `f16` does not hold: numbers beyond 65504, and too many below its normal numbers, also of one output alone.

use codegen::DType;
use codegen::ir::{Binary, ReduceOp, Unary};

use crate::error::Result;
use crate::graph::{Op, Tensor};

/// The bits of infinity in `f16`.
const INFINITY: u16 = 0x7c00;

/// The bits of 2^-8. Devices may take what is below 2^-14 for zero, which is then a 64th of the largest number at most.
const LEAST: u16 = 7 << 10;

/// Whether weights keep their sizes as `f16`: none is infinite there, and what is below its normal numbers is little beside
/// the largest.
///
/// # Errors
/// Those of reading.
pub(super) fn holds(wide: &Tensor, narrow: &Tensor) -> Result<bool> {
    let bytes = narrow.to_bytes()?;
    let sizes = bytes
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7fff);
    // In the order of the numbers; infinity and what is no number come last.
    match sizes.max() {
        None => Ok(true),
        Some(0) => {
            let bytes = wide.to_bytes()?;
            let mut words = bytes.chunks_exact(4);
            // Zeros, or numbers that became zeros.
            Ok(words.all(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) << 1 == 0))
        }
        Some(largest) if !(LEAST..INFINITY).contains(&largest) => Ok(false),
        Some(_) => outputs_hold(wide, &bytes),
    }
}

/// The bits of the least normal number of `f16`, 2^-14.
const NORMAL: u16 = 1 << 10;

/// How much of the size of an output's weights may be taken for zero.
const LOST: f64 = 1.0 / 64.0;

/// Whether the weights of each output keep their size, if what is below the normal numbers of `f16` is taken for zero. Outputs are
/// along the first axis, as those of convolutions, or, of what has fewer axes, along the last one: which of the two is
/// not looked at.
fn outputs_hold(wide: &Tensor, narrow: &[u8]) -> Result<bool> {
    let shape = wide.shape();
    let axes = match shape.len() {
        // All of a vector is of one output.
        0 | 1 => return Ok(true),
        2 | 3 => vec![0, shape.len() - 1],
        _ => vec![0],
    };
    let is_small = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]) & 0x7fff < NORMAL;
    if !narrow.chunks_exact(2).any(is_small) {
        return Ok(true);
    }
    let bytes = wide.to_bytes()?;
    for axis in axes {
        let inner: usize = shape[axis + 1..].iter().product();
        // The squares of all weights, and of those that are lost.
        let mut outputs = vec![(0.0f64, 0.0f64); shape[axis]];
        let values = bytes.chunks_exact(4).zip(narrow.chunks_exact(2));
        for (i, (b, narrow)) in values.enumerate() {
            let value = f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let (all, lost) = &mut outputs[i / inner % shape[axis]];
            *all += value * value;
            if is_small(narrow) {
                *lost += value * value;
            }
        }
        if outputs.iter().any(|(all, lost)| *lost > LOST * LOST * all) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a value is of an operation that makes numbers beyond `f16` of usual ones, or counts further than it has digits
/// for. What is made of it by other operations is taken for usual again: a softmax divides its powers.
pub(super) fn exceeds(value: &Tensor) -> bool {
    let mut at = value.clone();
    while at.storage().is_none() {
        let sources = at.node().src();
        let Some(source) = sources.first() else {
            return false;
        };
        let below = match &at.node().op {
            op if op.is_movement() => true,
            Op::Contiguous | Op::Detach | Op::Sloped(_) => true,
            Op::Unary(Unary::Neg | Unary::Abs) => true,
            // Pixels have digits enough.
            Op::Cast if source.dtype().is_int() => return source.dtype().size() > 1,
            Op::Cast => source.dtype().is_float(),
            Op::Unary(Unary::Recip) => return !is_apart(source),
            Op::Unary(op) => {
                use Unary::{Cosh, Exp, Exp2, Expm1, Sinh, Tan};
                return matches!(op, Exp | Exp2 | Expm1 | Sinh | Cosh | Tan);
            }
            Op::Binary(Binary::Pow) => return true,
            Op::Binary(Binary::FDiv) => return sources.get(1).is_some_and(|by| !is_apart(by)),
            Op::Binary(Binary::Mul) => return sources.iter().all(|s| s.id() == source.id()),
            // A sum of many that is divided by their number is a mean; one that is not has any size.
            Op::Reduce(ReduceOp::Add, _) => return super::product::factors(&at).is_none(),
            Op::Reduce(op, _) => return *op == ReduceOp::Mul,
            Op::Scan(op, _) => return matches!(op, ReduceOp::Add | ReduceOp::Mul),
            _ => false,
        };
        if !below {
            return false;
        }
        at = source.clone();
    }
    false
}

/// The value below what only moves elements: not what adds some, as padding does.
fn moved(tensor: &Tensor) -> Tensor {
    let mut at = tensor.clone();
    while at.storage().is_none()
        && at.node().op.is_movement()
        && !matches!(at.node().op, Op::Pad(..))
    {
        let Some(below) = at.node().src().first().cloned() else {
            break;
        };
        at = below;
    }
    at
}

/// Whether values are about what they were: those of a cast to or from integers may be zero.
fn keeps(at: &Tensor, below: &Tensor) -> bool {
    at.dtype().is_float() && below.dtype().is_float()
}

/// What usual numbers may be divided by: 1/1024.
const DIVISOR: f32 = 1.0 / 1024.0;

/// Whether a divisor is apart from zero, as far as its operation says: numbers and weights that are, sums of powers (of a softmax),
/// what has such a number added to what is never below zero (also under a root, as a variance has) or as a limit.
fn is_apart(divisor: &Tensor) -> bool {
    let at = moved(divisor);
    if at.storage().is_some() {
        return stored(&at, |value| value.abs() >= DIVISOR);
    }
    let sources = at.node().src();
    match (&at.node().op, &*sources) {
        (Op::Const(_), _) => number(&at).is_some_and(|value| value.abs() >= DIVISOR),
        (Op::Cast | Op::Contiguous | Op::Detach | Op::Sloped(_), [below, ..]) => {
            keeps(&at, below) && is_apart(below)
        }
        (Op::Unary(Unary::Neg | Unary::Abs), [below]) => is_apart(below),
        (Op::Unary(Unary::Sqrt), [below]) => is_above(below, DIVISOR * DIVISOR),
        (Op::Reduce(ReduceOp::Add, _), [below]) => is_power(below),
        (Op::Binary(Binary::Add | Binary::Max), _) => is_above(&at, DIVISOR),
        _ => false,
    }
}

/// Whether it is never below a number above zero, as far as its operation says.
fn is_above(value: &Tensor, least: f32) -> bool {
    let at = moved(value);
    if at.storage().is_some() {
        return stored(&at, |value| value >= least);
    }
    let is_number = |value: &Tensor| number(value).is_some_and(|value| value >= least);
    let sources = at.node().src();
    match (&at.node().op, &*sources) {
        (Op::Const(_), _) => is_number(&at),
        (Op::Cast | Op::Contiguous | Op::Detach | Op::Sloped(_), [below, ..]) => {
            keeps(&at, below) && is_above(below, least)
        }
        (Op::Binary(Binary::Add), [a, b]) => {
            is_number(a) && is_positive(b) || is_number(b) && is_positive(a)
        }
        (Op::Binary(Binary::Max), [a, b]) => is_number(a) || is_number(b),
        _ => false,
    }
}

/// Whether all values in memory are of a kind. What cannot be read is not.
fn stored(at: &Tensor, is_such: impl Fn(f32) -> bool) -> bool {
    at.dtype() == DType::F32
        && at.to_bytes().is_ok_and(|bytes| {
            let mut words = bytes.chunks_exact(4);
            words.all(|b| is_such(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
        })
}

/// Its value, of a number that the graph has.
fn number(value: &Tensor) -> Option<f32> {
    let at = moved(value);
    match at.node().op {
        Op::Const(bits) if at.dtype() == DType::F32 => Some(f32::from_bits(bits as u32)),
        _ => None,
    }
}

/// Whether it is a power of a fixed number.
fn is_power(value: &Tensor) -> bool {
    let at = moved(value);
    matches!(at.node().op, Op::Unary(Unary::Exp | Unary::Exp2))
}

/// Whether it is never below zero, as far as its operation says.
fn is_positive(value: &Tensor) -> bool {
    let at = moved(value);
    if at.storage().is_some() {
        return stored(&at, |value| value >= 0.0);
    }
    let sources = at.node().src();
    match (&at.node().op, &*sources) {
        (Op::Const(_), _) => number(&at).is_some_and(|value| value >= 0.0),
        (Op::Unary(Unary::Exp | Unary::Exp2 | Unary::Abs | Unary::Sqrt), _) => true,
        (Op::Unary(Unary::Recip), [below]) => is_positive(below),
        (Op::Binary(Binary::Mul), [a, b]) if a.id() == b.id() => true,
        (Op::Binary(Binary::Mul | Binary::FDiv | Binary::Add), [a, b]) => {
            is_positive(a) && is_positive(b)
        }
        (Op::Binary(Binary::Max), [a, b]) => is_positive(a) || is_positive(b),
        // Of a mean of squares.
        (Op::Reduce(ReduceOp::Add | ReduceOp::Max, _), [below]) => is_positive(below),
        (Op::Cast | Op::Contiguous | Op::Detach | Op::Sloped(_), [below, ..]) => is_positive(below),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Engine;
    use crate::ops::movement::PadMode;

    fn held(values: &[f32]) -> bool {
        held_as(values, &[values.len()])
    }

    fn held_as(values: &[f32], shape: &[usize]) -> bool {
        let e = Engine::reference();
        let wide = Tensor::from_slice(&e, values, shape).unwrap();
        holds(&wide, &wide.cast(DType::F16).unwrap()).unwrap()
    }

    #[test]
    fn each_output_keeps_its_size() {
        // The second output is nothing but numbers that are lost: rows, columns, the filters of a convolution.
        let small = [1.0, 2.0, 1e-5, 2e-5];
        assert!(held(&small) && held_as(&small, &[1, 1, 4, 1]));
        assert!(!held_as(&small, &[2, 2]) && !held_as(&small, &[2, 1, 1, 2]));
        assert!(!held_as(&[1.0, 1e-5, 2.0, 2e-5], &[2, 2]));
        assert!(!held_as(&[1.0, 1.0, 1e-9, 0.0], &[2, 1, 2, 1]));
        // Zeros, and a little beside much.
        assert!(held_as(&[1.0, 2.0, 0.0, 0.0], &[2, 1, 2, 1]));
        assert!(held_as(&[1.0, 1e-5, 1e-6, 0.5], &[2, 2]));
        assert!(held_as(&[1.0, 2.0, 1e-4, 2e-4], &[2, 2]));
    }

    #[test]
    fn weights_are_in_the_range_of_halves() {
        assert!(held(&[]) && held(&[0.0, -0.0]) && held(&[65504.0, 1e-9]));
        assert!(held(&[0.004, -1e-5]));
        assert!(!held(&[1.0, 65520.0]) && !held(&[f32::NAN]) && !held(&[f32::NEG_INFINITY]));
        assert!(!held(&[1e-9]) && !held(&[-1e-3, 1e-4]));
    }

    #[test]
    fn powers_sums_and_counts_are_not() {
        let e = Engine::reference();
        let of = |dtype| Tensor::make(&e, Op::Given, &[], &[4, 4], dtype);
        let x = of(DType::F32);
        let weights = |values: [f32; 4]| Tensor::from_slice(&e, &values, &[4]);
        let all = |of: &[crate::Result<Tensor>]| -> Vec<bool> {
            of.iter().map(|t| exceeds(t.as_ref().unwrap())).collect()
        };
        let wide = [
            x.exp(),
            x.exp().and_then(|y| y.t()),
            x.pow(1.5),
            x.square(),
            x.sum(&[1], true),
            x.square().and_then(|y| y.sum(&[1], true)),
            x.prod(&[1], true),
            x.cumsum(1),
            of(DType::I32).cast(DType::F32),
            x.reciprocal(),
            x.div(of(DType::F32)),
            x.square().and_then(|y| x.div(&y.add(1e-6)?)),
            // Roots of anything, limits below zero, counts, weights of which one is near zero.
            of(DType::F32).sqrt().and_then(|y| x.div(&y)),
            x.square().and_then(|y| x.div(&y.add(1e-9)?.sqrt()?)),
            of(DType::F32).maximum(-6.0).and_then(|y| x.div(&y)),
            of(DType::I32).cast(DType::F32).and_then(|y| x.div(&y)),
            weights([1.0, 1e-5, 2.0, 3.0]).and_then(|y| x.div(&y)),
            // Zeros of padding, and of a cast.
            weights([1.0, 2.0, 3.0, 4.0])
                .and_then(|y| y.pad(&[(-1, 1)], PadMode::Constant(0.0.into())))
                .and_then(|y| x.div(&y)),
            x.maximum(0.5)
                .and_then(|y| x.div(&y.cast(DType::I32)?.cast(DType::F32)?)),
        ];
        assert_eq!(all(&wide), [true; 19]);
        let usual = [
            x.softmax(1),
            x.mean(&[1], true),
            x.matmul(&of(DType::F32)),
            x.sigmoid(),
            x.relu(),
            x.layer_norm(1, None, None, 1e-5),
            of(DType::U8).cast(DType::F32),
            Ok(x.clone()),
            x.div(6.0),
            x.div(-6.0),
            of(DType::F32).maximum(6.0).and_then(|y| x.div(&y)),
            weights([1.0, -0.5, 2.0, 3.0]).and_then(|y| x.div(&y)),
            x.exp().and_then(|y| x.div(&y.add(1.0)?)),
            x.exp().and_then(|y| y.div(&y.sum(&[1], true)?)),
            x.square()
                .and_then(|y| x.div(&y.mean(&[1], true)?.add(1e-5)?.sqrt()?)),
        ];
        assert_eq!(all(&usual), [false; 15]);
    }
}
