//! Constants, identities and operand order; for floats only what keeps every bit of the value.

use super::ask::{const_bits, is_float, is_int, is_one, is_zero, number, operands};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, Unary, scalar};
use crate::rewrite::rule::{Cx, Rule};

/// The rules of this file.
pub const RULES: &[Rule] = &[
    Rule {
        name: "fold_constants",
        on: |op| {
            matches!(
                op,
                Op::Unary(_)
                    | Op::Binary(_)
                    | Op::Where
                    | Op::Fma
                    | Op::Dot
                    | Op::Cast
                    | Op::Bitcast
            )
        },
        run: fold_constants,
    },
    Rule {
        name: "order_operands",
        on: |op| matches!(op, Op::Binary(op) if op.is_commutative()),
        run: order_operands,
    },
    Rule {
        name: "identity_operand",
        on: |op| matches!(op, Op::Binary(_)),
        run: identity_operand,
    },
    Rule {
        name: "absorbing_operand",
        on: |op| matches!(op, Op::Binary(_)),
        run: absorbing_operand,
    },
    Rule {
        name: "same_operand",
        on: |op| matches!(op, Op::Binary(_)),
        run: same_operand,
    },
    Rule {
        name: "involution",
        on: |op| matches!(op, Op::Unary(_)),
        run: involution,
    },
    Rule {
        name: "join_constants",
        on: |op| matches!(op, Op::Binary(op) if op.is_commutative() && !op.is_compare()),
        run: join_constants,
    },
    Rule {
        name: "subtract_constant",
        on: |op| op == Op::Binary(Binary::Sub),
        run: subtract_constant,
    },
    Rule {
        name: "negate_by_factor",
        on: |op| op == Op::Binary(Binary::Mul),
        run: negate_by_factor,
    },
    Rule {
        name: "divide_by_power_of_two",
        on: |op| op == Op::Binary(Binary::FDiv),
        run: divide_by_power_of_two,
    },
    Rule {
        name: "small_power",
        on: |op| op == Op::Binary(Binary::Pow),
        run: small_power,
    },
    Rule {
        name: "bounded_extremum",
        on: |op| matches!(op, Op::Binary(Binary::Max | Binary::Min)),
        run: bounded_extremum,
    },
];

/// Arithmetic on constants, by the interpreter's own functions.
fn fold_constants(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let node = g.node(id);
    let mut bits = [0u64; 3];
    for (to, &s) in bits.iter_mut().zip(&node.src) {
        *to = const_bits(g, s)?;
    }
    let from = g.dtype(*node.src.first()?);
    let value = match node.op {
        Op::Unary(op) => scalar::unary(op, from, bits[0])?,
        Op::Binary(op) => scalar::binary(op, from, bits[0], bits[1])?,
        Op::Where if bits[0] != 0 => bits[1],
        Op::Where => bits[2],
        Op::Fma => scalar::fma(from, bits[0], bits[1], bits[2])?,
        Op::Dot => scalar::dot(bits[0], bits[1], bits[2]),
        Op::Cast => scalar::cast(from, node.dtype, bits[0]),
        Op::Bitcast => scalar::bitcast(from, node.dtype, bits[0]),
        _ => return None,
    };
    Some(g.bits(g.dtype(id), value))
}

/// `c op x -> x op c`; two others go by id, so that `a + b` and `b + a` are one node.
fn order_operands(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let (ca, cb) = (const_bits(g, a).is_some(), const_bits(g, b).is_some());
    // Sums and comparisons of indices have an order of their own.
    let index = g.dtype(a) == DType::I64 && (op == Binary::Add || op.is_compare());
    let swap = ca && !cb || ca == cb && !index && a > b;
    swap.then(|| g.binary(op, b, a))
}

/// `x + 0`, `x * 1`, `x & -1`, ... -> `x`. A float keeps its zeros' signs: `x + (-0)`, `x - 0`.
fn identity_operand(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[x, c]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let dtype = g.dtype(x);
    let same = match op {
        Binary::Add if dtype.is_float() => is_float(g, c, -0.0),
        Binary::Add | Binary::Sub | Binary::Or | Binary::Xor => is_zero(g, c),
        Binary::Shl | Binary::Shr => is_zero(g, c),
        Binary::Mul | Binary::FDiv | Binary::FloorDiv | Binary::TruncDiv => is_one(g, c),
        Binary::Pow => is_one(g, c),
        Binary::And => const_bits(g, c) == Some(scalar::from_int(dtype, -1)),
        Binary::Eq if dtype == DType::Bool => is_int(g, c, 1),
        Binary::Ne if dtype == DType::Bool => is_int(g, c, 0),
        Binary::Max | Binary::Min if !dtype.is_float() => {
            let (lo, hi) = scalar::int_limits(dtype);
            is_int(g, c, if op == Binary::Max { lo } else { hi })
        }
        _ => false,
    };
    same.then_some(x)
}

/// `x * 0`, `x & 0`, `x % 1`, `0 / x`, ... for integers -> the constant.
fn absorbing_operand(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[x, c]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let dtype = g.dtype(x);
    if dtype.is_float() {
        return None;
    }
    let (lo, hi) = scalar::int_limits(dtype);
    let value = match op {
        Binary::Mul | Binary::And if is_zero(g, c) => 0,
        Binary::FloorMod | Binary::TruncMod if is_one(g, c) || is_zero(g, c) => 0,
        Binary::FloorDiv | Binary::TruncDiv if is_zero(g, c) => 0,
        Binary::FloorDiv | Binary::TruncDiv | Binary::FloorMod | Binary::TruncMod
            if is_zero(g, x) =>
        {
            0
        }
        Binary::Shl | Binary::Shr if is_zero(g, x) => 0,
        Binary::Or if is_int(g, c, -1) || dtype == DType::Bool && is_one(g, c) => -1,
        Binary::Or if dtype.is_unsigned() && is_int(g, c, hi) => -1,
        Binary::Max if is_int(g, c, hi) => hi,
        Binary::Min if is_int(g, c, lo) => lo,
        // Nothing is below the smallest value, nothing above the largest.
        Binary::Lt if is_int(g, c, lo) || is_int(g, x, hi) => {
            return Some(g.boolean(false));
        }
        _ => return None,
    };
    Some(g.bits(dtype, scalar::from_int(dtype, value)))
}

/// `x op x`.
fn same_operand(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    if a != b {
        return None;
    }
    let dtype = g.dtype(a);
    match op {
        Binary::And | Binary::Or | Binary::Max | Binary::Min => Some(a),
        Binary::Lt => Some(g.boolean(false)),
        _ if dtype.is_float() => None,
        Binary::Sub | Binary::Xor => Some(g.bits(dtype, 0)),
        Binary::FloorMod | Binary::TruncMod => Some(g.bits(dtype, 0)),
        Binary::Eq => Some(g.boolean(true)),
        Binary::Ne => Some(g.boolean(false)),
        _ => None,
    }
}

/// `--x`, `!!x` -> `x`; `||x||`, `|-x|` -> `|x|`; rounding what is rounded.
fn involution(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Unary(outer), &[a]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let (Op::Unary(inner), &[x]) = (g.op(a), g.src(a)) else {
        return None;
    };
    let rounds = |op| {
        matches!(
            op,
            Unary::Trunc | Unary::Floor | Unary::Ceil | Unary::RoundEven
        )
    };
    match (outer, inner) {
        (Unary::Neg, Unary::Neg) | (Unary::Not, Unary::Not) => Some(x),
        (Unary::Abs, Unary::Abs) => Some(a),
        (Unary::Abs, Unary::Neg) if !g.dtype(id).is_unsigned() => Some(g.unary(Unary::Abs, x)),
        _ if rounds(outer) && rounds(inner) => Some(a),
        _ => None,
    }
}

/// `(x op c1) op c2 -> x op (c1 op c2)` for integers, and for `Max`/`Min` of floats.
fn join_constants(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, c2]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let dtype = g.dtype(a);
    let exact = !dtype.is_float() || matches!(op, Binary::Max | Binary::Min);
    let (x, c1) = operands(g, a, op)?;
    let joined = scalar::binary(op, dtype, const_bits(g, c1)?, const_bits(g, c2)?)?;
    if !exact {
        return None;
    }
    let c = g.bits(dtype, joined);
    Some(g.binary(op, x, c))
}

/// `x - c -> x + (-c)`, exact for integers and floats.
fn subtract_constant(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (x, c) = operands(g, id, Binary::Sub)?;
    let dtype = g.dtype(x);
    let minus = scalar::unary(Unary::Neg, dtype, const_bits(g, c)?)?;
    let minus = g.bits(dtype, minus);
    Some(g.binary(Binary::Add, x, minus))
}

/// `x * -1 -> -x`.
fn negate_by_factor(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (x, c) = operands(g, id, Binary::Mul)?;
    let dtype = g.dtype(x);
    // The normal form of index sums keeps the factor.
    let narrow = dtype != DType::I64 && dtype.is_signed() && is_int(g, c, -1);
    (narrow || is_float(g, c, -1.0)).then(|| g.unary(Unary::Neg, x))
}

/// `x / 2^k -> x * 2^-k` where the reciprocal is exact.
fn divide_by_power_of_two(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (x, c) = operands(g, id, Binary::FDiv)?;
    let dtype = g.dtype(x);
    let value = scalar::to_f64(dtype, const_bits(g, c)?);
    let power = value.is_normal() && value.to_bits() & ((1 << 52) - 1) == 0;
    let bits = scalar::from_f64(dtype, 1.0 / value);
    if !power || scalar::to_f64(dtype, bits) != 1.0 / value {
        return None;
    }
    let factor = g.bits(dtype, bits);
    Some(g.binary(Binary::Mul, x, factor))
}

/// `x^0 -> 1`, `x^2 -> x*x`, `x^-1 -> 1/x`: each is the correctly rounded power.
fn small_power(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (x, c) = operands(g, id, Binary::Pow)?;
    let dtype = g.dtype(x);
    if is_float(g, c, 0.0) || is_float(g, c, -0.0) {
        Some(number(g, dtype, 1))
    } else if is_float(g, c, 2.0) {
        Some(g.binary(Binary::Mul, x, x))
    } else if is_float(g, c, -1.0) {
        Some(g.unary(Unary::Recip, x))
    } else {
        None
    }
}

/// `max(x, y) -> x` where bounds say `x >= y` always, and so on.
fn bounded_extremum(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let (x, y) = (cx.bounds.of(g, a)?, cx.bounds.of(g, b)?);
    let a_wins = |max: bool| if max { x.0 >= y.1 } else { x.1 <= y.0 };
    let b_wins = |max: bool| if max { y.0 >= x.1 } else { y.1 <= x.0 };
    let max = op == Binary::Max;
    if a_wins(max) {
        Some(a)
    } else if b_wins(max) {
        Some(b)
    } else {
        None
    }
}
