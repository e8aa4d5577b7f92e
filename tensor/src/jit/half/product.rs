//! Products: sums over elementwise products of two values, as matrix products and convolutions are.

use codegen::DType;
use codegen::ir::{Binary, ReduceOp};

use crate::graph::{Op, Tensor};

/// The value below what only moves elements; whether some are repeated or in windows.
pub(super) fn base(tensor: &Tensor) -> (Tensor, bool) {
    let (mut at, mut shared) = (tensor.clone(), false);
    while at.storage().is_none() && at.node().op.is_movement() {
        shared |= matches!(at.node().op, Op::Expand | Op::Windows { .. });
        let Some(below) = at.node().src().first().cloned() else {
            break;
        };
        at = below;
    }
    (at, shared)
}

/// What a product reads; none if the value is no product of `f32`.
pub(super) fn factors(tensor: &Tensor) -> Option<[Tensor; 2]> {
    if tensor.storage().is_some() || !matches!(tensor.node().op, Op::Reduce(ReduceOp::Add, _)) {
        return None;
    }
    let product = tensor.node().src().first().cloned()?;
    if product.storage().is_some() || !matches!(product.node().op, Op::Binary(Binary::Mul)) {
        return None;
    }
    let [a, b] = &*product.node().src() else {
        return None;
    };
    let ((a, spread_a), (b, spread_b)) = (base(a), base(b));
    let wide = a.dtype() == DType::F32 && b.dtype() == DType::F32;
    // A sum of squares, or one with one number, is no product of matrices.
    (wide && a.id() != b.id() && (spread_a || spread_b)).then_some([a, b])
}
