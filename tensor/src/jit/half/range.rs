//! What `f16` does not hold: numbers beyond 65504, and too many below its normal numbers.

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
        Some(largest) => Ok((LEAST..INFINITY).contains(&largest)),
    }
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
            Op::Unary(op) => {
                use Unary::{Cosh, Exp, Exp2, Expm1, Sinh, Tan};
                return matches!(op, Exp | Exp2 | Expm1 | Sinh | Cosh | Tan);
            }
            Op::Binary(Binary::Pow) => return true,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Engine;
    use codegen::DType;

    fn held(values: &[f32]) -> bool {
        let e = Engine::reference();
        let wide = Tensor::from_slice(&e, values, &[values.len()]).unwrap();
        holds(&wide, &wide.cast(DType::F16).unwrap()).unwrap()
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
        ];
        assert_eq!(all(&wide), [true; 9]);
        let usual = [
            x.softmax(1),
            x.mean(&[1], true),
            x.matmul(&of(DType::F32)),
            x.sigmoid(),
            x.relu(),
            x.layer_norm(1, None, None, 1e-5),
            of(DType::U8).cast(DType::F32),
            Ok(x.clone()),
        ];
        assert_eq!(all(&usual), [false; 8]);
    }
}
