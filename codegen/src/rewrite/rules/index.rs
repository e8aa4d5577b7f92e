//! Index arithmetic: sums in normal form, divisions and comparisons of sums.

use super::ask::operands;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, Unary};
use crate::rewrite::rule::{Cx, Rule};
use crate::symbolic::division::Part;
use crate::symbolic::{Lin, compare, divmod};

/// The rules of this file.
pub const RULES: &[Rule] = &[
    Rule {
        name: "unit_range",
        on: |op| matches!(op, Op::Range { .. } | Op::Var { .. }),
        run: unit_range,
    },
    Rule {
        name: "normal_sum",
        on: |op| {
            matches!(
                op,
                Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Shl)
                    | Op::Unary(Unary::Neg)
            )
        },
        run: normal_sum,
    },
    Rule {
        name: "recombine",
        on: |op| op == Op::Binary(Binary::Add),
        run: recombine,
    },
    Rule {
        name: "floor_div",
        on: |op| op == Op::Binary(Binary::FloorDiv),
        run: floor_div,
    },
    Rule {
        name: "floor_mod",
        on: |op| op == Op::Binary(Binary::FloorMod),
        run: floor_mod,
    },
    Rule {
        name: "shift_as_division",
        on: |op| matches!(op, Op::Binary(Binary::Shr)),
        run: shift_as_division,
    },
    Rule {
        name: "mask_as_remainder",
        on: |op| op == Op::Binary(Binary::And),
        run: mask_as_remainder,
    },
    Rule {
        name: "trunc_as_floor",
        on: |op| matches!(op, Op::Binary(Binary::TruncDiv | Binary::TruncMod)),
        run: trunc_as_floor,
    },
    Rule {
        name: "less",
        on: |op| op == Op::Binary(Binary::Lt),
        run: less,
    },
    Rule {
        name: "equal",
        on: |op| matches!(op, Op::Binary(Binary::Eq | Binary::Ne)),
        run: equal,
    },
    Rule {
        name: "bounded_comparison",
        on: |op| matches!(op, Op::Binary(op) if op.is_compare()),
        run: bounded_comparison,
    },
];

/// A range with one iteration, a variable with one value -> the constant.
fn unit_range(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    match g.op(id) {
        Op::Range { extent: 1, .. } => Some(g.index(0)),
        Op::Var { min, max, .. } if min == max => Some(g.index(min)),
        _ => None,
    }
}

/// Sums go to the normal form of [`Lin`].
fn normal_sum(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    if g.dtype(id) != DType::I64 {
        return None;
    }
    let lin = Lin::of(g, id);
    Some(lin.to_graph(g))
}

/// `x % c + c * (x / c) -> x`.
fn recombine(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    if g.dtype(id) != DType::I64 {
        return None;
    }
    let lin = Lin::of(g, id);
    let lin = divmod::recombine(g, &mut cx.bounds, &lin)?;
    Some(lin.to_graph(g))
}

/// Division by a constant, see [`divmod::divided`].
fn floor_div(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (x, c) = divmod::by_const(g, id, Binary::FloorDiv)?;
    divmod::divided(g, &mut cx.bounds, x, c, Part::Quotient)
}

/// Remainder by a constant, see [`divmod::divided`].
fn floor_mod(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (x, c) = divmod::by_const(g, id, Binary::FloorMod)?;
    divmod::divided(g, &mut cx.bounds, x, c, Part::Remainder)
}

/// `x >> k -> floor(x / 2^k)` for indices.
fn shift_as_division(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (x, k) = operands(g, id, Binary::Shr)?;
    let k = crate::symbolic::lin::index_const(g, k)?;
    if !(0..62).contains(&k) {
        return None;
    }
    let c = g.index(1 << k);
    Some(g.binary(Binary::FloorDiv, x, c))
}

/// `x & (2^k - 1) -> x mod 2^k` for indices that are not loaded data.
fn mask_as_remainder(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (x, mask) = operands(g, id, Binary::And)?;
    let mask = crate::symbolic::lin::index_const(g, mask)?;
    let c = mask.checked_add(1)?;
    if mask <= 0 || c & mask != 0 {
        return None;
    }
    cx.bounds.of(g, x)?;
    let c = g.index(c);
    Some(g.binary(Binary::FloorMod, x, c))
}

/// Truncated division of what is not negative is floored division.
fn trunc_as_floor(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    if g.dtype(a).is_float() {
        return None;
    }
    let unsigned = g.dtype(a).is_unsigned();
    if !unsigned && (cx.bounds.of(g, a)?.0 < 0 || cx.bounds.of(g, b)?.0 < 0) {
        return None;
    }
    let op = if op == Binary::TruncDiv {
        Binary::FloorDiv
    } else {
        Binary::FloorMod
    };
    Some(g.binary(op, a, b))
}

/// `a < b` over indices, see [`compare::less`].
fn less(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (a, b) = operands(g, id, Binary::Lt)?;
    if g.dtype(a) != DType::I64 {
        return None;
    }
    compare::less(g, &mut cx.bounds, a, b)
}

/// `a == b` and `a != b` over indices, see [`compare::equal`].
fn equal(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    if g.dtype(a) != DType::I64 {
        return None;
    }
    compare::equal(g, &mut cx.bounds, op, a, b)
}

/// A comparison of any integers that their bounds decide.
fn bounded_comparison(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let (x, y) = (cx.bounds.of(g, a)?, cx.bounds.of(g, b)?);
    let apart = x.1 < y.0 || y.1 < x.0;
    match op {
        Binary::Lt if x.1 < y.0 => Some(g.boolean(true)),
        Binary::Lt if x.0 >= y.1 => Some(g.boolean(false)),
        Binary::Eq if apart => Some(g.boolean(false)),
        Binary::Ne if apart => Some(g.boolean(true)),
        _ => None,
    }
}
