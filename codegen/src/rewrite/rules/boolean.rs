//! Logic and selection.

use super::ask::{const_bits, is_zero, operands};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, Unary};
use crate::rewrite::rule::{Cx, Rule};

/// The rules of this file.
pub const RULES: &[Rule] = &[
    Rule {
        name: "not_comparison",
        on: |op| op == Op::Unary(Unary::Not),
        run: not_comparison,
    },
    Rule {
        name: "bool_constant_operand",
        on: |op| matches!(op, Op::Binary(Binary::Xor | Binary::Eq | Binary::Ne)),
        run: bool_constant_operand,
    },
    Rule {
        name: "contradiction",
        on: |op| matches!(op, Op::Binary(Binary::And | Binary::Or)),
        run: contradiction,
    },
    Rule {
        name: "where_trivial",
        on: |op| op == Op::Where,
        run: where_trivial,
    },
    Rule {
        name: "where_not",
        on: |op| op == Op::Where,
        run: where_not,
    },
    Rule {
        name: "where_same_condition",
        on: |op| op == Op::Where,
        run: where_same_condition,
    },
    Rule {
        name: "where_nested",
        on: |op| op == Op::Where,
        run: where_nested,
    },
    Rule {
        name: "multiply_by_bool",
        on: |op| op == Op::Binary(Binary::Mul),
        run: multiply_by_bool,
    },
];

/// `!(a == b) -> a != b` and back; `!(a < c) -> c-1 < a` for integers with a constant.
fn not_comparison(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[c] = g.src(id) else { return None };
    let (Op::Binary(op), &[a, b]) = (g.op(c), g.src(c)) else {
        return None;
    };
    match op {
        Binary::Eq => Some(g.binary(Binary::Ne, a, b)),
        Binary::Ne => Some(g.binary(Binary::Eq, a, b)),
        Binary::Lt if g.dtype(a) == DType::I64 => {
            if let Some(k) = const_bits(g, b) {
                let k = g.index((k as i64).checked_sub(1)?);
                Some(g.binary(Binary::Lt, k, a))
            } else {
                let k = g.index((const_bits(g, a)? as i64).checked_add(1)?);
                Some(g.binary(Binary::Lt, b, k))
            }
        }
        _ => None,
    }
}

/// `b ^ true`, `b == false`, `b != true` -> `!b`.
fn bool_constant_operand(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[x, c]) = (g.op(id), g.src(id)) else {
        return None;
    };
    if g.dtype(x) != DType::Bool {
        return None;
    }
    let flips = match const_bits(g, c)? {
        0 => op == Binary::Eq,
        _ => matches!(op, Binary::Xor | Binary::Ne),
    };
    flips.then(|| g.unary(Unary::Not, x))
}

/// `x & !x -> false`, `x | !x -> true`, `x & (x | y) -> x`, `x | (x & y) -> x`.
fn contradiction(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let dtype = g.dtype(a);
    let dual = if op == Binary::And {
        Binary::Or
    } else {
        Binary::And
    };
    for (x, y) in [(a, b), (b, a)] {
        if g.op(y) == Op::Unary(Unary::Not) && g.src(y) == [x] {
            let all = if op == Binary::Or { -1 } else { 0 };
            return Some(g.bits(dtype, crate::ir::scalar::from_int(dtype, all)));
        }
        if let Some((p, q)) = operands(g, y, dual)
            && (p == x || q == x)
        {
            return Some(x);
        }
    }
    None
}

/// Constant condition, equal arms, a boolean that is its own condition.
fn where_trivial(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[c, a, b] = g.src(id) else { return None };
    if a == b {
        return Some(a);
    }
    if let Some(bits) = const_bits(g, c) {
        return Some(if bits != 0 { a } else { b });
    }
    if g.dtype(id) == DType::Bool {
        return match (const_bits(g, a), const_bits(g, b)) {
            (Some(1), Some(0)) => Some(c),
            (Some(0), Some(1)) => Some(g.unary(Unary::Not, c)),
            (_, Some(0)) => Some(g.binary(Binary::And, c, a)),
            (Some(1), _) => Some(g.binary(Binary::Or, c, b)),
            _ => None,
        };
    }
    None
}

/// `!c ? a : b -> c ? b : a`.
fn where_not(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[c, a, b] = g.src(id) else { return None };
    match (g.op(c), g.src(c)) {
        (Op::Unary(Unary::Not), &[inner]) => Some(g.select(inner, b, a)),
        _ => None,
    }
}

/// `c ? (c ? a : x) : b -> c ? a : b`, and in the other arm.
fn where_same_condition(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[c, a, b] = g.src(id) else { return None };
    let inner =
        |x: Id, arm: usize| (g.op(x) == Op::Where && g.src(x)[0] == c).then(|| g.src(x)[arm]);
    let (new_a, new_b) = (inner(a, 1), inner(b, 2));
    if new_a.is_none() && new_b.is_none() {
        return None;
    }
    Some(g.select(c, new_a.unwrap_or(a), new_b.unwrap_or(b)))
}

/// `c ? (d ? a : b) : b -> (c & d) ? a : b`.
fn where_nested(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[c, inner, b] = g.src(id) else {
        return None;
    };
    let (Op::Where, &[d, a, other]) = (g.op(inner), g.src(inner)) else {
        return None;
    };
    if other != b {
        return None;
    }
    let both = g.binary(Binary::And, c, d);
    Some(g.select(both, a, b))
}

/// `x * int(c) -> c ? x : 0` for integers.
fn multiply_by_bool(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (a, b) = operands(g, id, Binary::Mul)?;
    let dtype = g.dtype(id);
    if !dtype.is_int() {
        return None;
    }
    for (cast, x) in [(b, a), (a, b)] {
        if g.op(cast) == Op::Cast && g.dtype(g.src(cast)[0]) == DType::Bool && !is_zero(g, x) {
            let c = g.src(cast)[0];
            let zero = g.bits(dtype, 0);
            return Some(g.select(c, x, zero));
        }
    }
    None
}
