//! Questions that several rules ask of a node.

use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, scalar};

/// The bits of a constant.
pub fn const_bits(g: &Graph, id: Id) -> Option<u64> {
    match g.op(id) {
        Op::Const(bits) => Some(bits),
        _ => None,
    }
}

/// The constant `x` of an integer or boolean type.
pub fn is_int(g: &Graph, id: Id, x: i128) -> bool {
    let dtype = g.dtype(id);
    !dtype.is_float() && const_bits(g, id).is_some_and(|b| scalar::to_int(dtype, b) == x)
}

/// A constant that is +0, 0 or false.
pub fn is_zero(g: &Graph, id: Id) -> bool {
    const_bits(g, id) == Some(0)
}

/// A float constant with exactly this value (zeros by sign).
pub fn is_float(g: &Graph, id: Id, x: f64) -> bool {
    let dtype = g.dtype(id);
    dtype.is_float()
        && const_bits(g, id).is_some_and(|b| scalar::to_f64(dtype, b).to_bits() == x.to_bits())
}

/// The number one of any type.
pub fn is_one(g: &Graph, id: Id) -> bool {
    is_int(g, id, 1) || is_float(g, id, 1.0)
}

/// The operands of `a op b`.
pub fn operands(g: &Graph, id: Id, op: Binary) -> Option<(Id, Id)> {
    match (g.op(id), g.src(id)) {
        (Op::Binary(found), &[a, b]) if found == op => Some((a, b)),
        _ => None,
    }
}

/// The small integer `x` of any type.
pub fn number(g: &mut Graph, dtype: DType, x: i64) -> Id {
    g.bits(dtype, scalar::constant(dtype, x))
}
