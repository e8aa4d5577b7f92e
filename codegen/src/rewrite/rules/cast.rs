//! Conversions.

use super::ask::{const_bits, operands};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, scalar};
use crate::rewrite::rule::{Cx, Rule};
use crate::symbolic::bounds::fits;

/// The rules of this file.
pub const RULES: &[Rule] = &[
    Rule {
        name: "cast_to_same",
        on: |op| matches!(op, Op::Cast | Op::Bitcast),
        run: cast_to_same,
    },
    Rule {
        name: "cast_of_cast",
        on: |op| op == Op::Cast,
        run: cast_of_cast,
    },
    Rule {
        name: "bitcast_of_bitcast",
        on: |op| op == Op::Bitcast,
        run: bitcast_of_bitcast,
    },
    Rule {
        name: "cast_of_constant_arms",
        on: |op| op == Op::Cast,
        run: cast_of_constant_arms,
    },
    Rule {
        name: "bool_compared_to_zero",
        on: |op| matches!(op, Op::Binary(Binary::Eq | Binary::Ne)),
        run: bool_compared_to_zero,
    },
    Rule {
        name: "cast_to_bool",
        on: |op| op == Op::Cast,
        run: cast_to_bool,
    },
    Rule {
        name: "compare_as_index",
        on: |op| matches!(op, Op::Binary(op) if op.is_compare()),
        run: compare_as_index,
    },
    Rule {
        name: "narrow_later",
        on: |op| {
            matches!(
                op,
                Op::Binary(
                    Binary::Add | Binary::Sub | Binary::Mul | Binary::FloorDiv | Binary::FloorMod
                )
            )
        },
        run: narrow_later,
    },
];

/// A conversion to the type the value has.
fn cast_to_same(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[x] = g.src(id) else { return None };
    (g.dtype(x) == g.dtype(id)).then_some(x)
}

/// Every value of `from` is a value of `to`.
fn holds(to: DType, from: DType) -> bool {
    let precision = |d: DType| match d {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F8E4M3 => 4,
        _ => 3,
    };
    match (from.is_float(), to.is_float()) {
        (false, false) => {
            let (f, t) = (scalar::int_limits(from), scalar::int_limits(to));
            to != DType::Bool && t.0 <= f.0 && f.1 <= t.1
        }
        (false, true) => {
            // Integers reach narrow floats through f32, so only types that f32 also holds count.
            let bits = if from == DType::Bool { 1 } else { from.bits() };
            bits <= precision(to) && (bits <= 8 || to.size() >= 2)
        }
        (true, true) => matches!(
            (from, to),
            (_, DType::F64)
                | (
                    DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16,
                    DType::F32
                )
                | (DType::F8E4M3 | DType::F8E5M2, DType::F16 | DType::BF16)
        ),
        (true, false) => false,
    }
}

/// `T(U(x)) -> T(x)` where `U` holds `x` exactly, or both only keep low bits. Integer to integer
/// wraps but float to integer saturates, so a float in between goes only if `T` holds `x` too.
fn cast_of_cast(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let &[inner] = g.src(id) else { return None };
    let (Op::Cast, &[x]) = (g.op(inner), g.src(inner)) else {
        return None;
    };
    let (from, middle, to) = (g.dtype(x), g.dtype(inner), g.dtype(id));
    let mut within = |dtype: DType| cx.bounds.of(g, x).is_some_and(|b| fits(dtype, b));
    let exact = holds(middle, from) || middle.is_int() && within(middle);
    let low_bits = middle.is_int() && to.is_int() && !from.is_float() && to.bits() <= middle.bits();
    let same = if from.is_float() || !middle.is_float() || to == DType::Bool {
        true
    } else if to.is_int() {
        holds(to, from) || within(to)
    } else {
        // An integer that goes to a narrow float through f32 must not skip a rounding.
        holds(to, from)
    };
    (exact && same || low_bits).then(|| g.cast(x, to))
}

/// `Bitcast(Bitcast(x)) -> Bitcast(x)`.
fn bitcast_of_bitcast(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[inner] = g.src(id) else { return None };
    let (Op::Bitcast, &[x]) = (g.op(inner), g.src(inner)) else {
        return None;
    };
    // Memory may hold any byte for a true boolean, but a value is 0 or 1: all bits are kept.
    Some(g.add(Op::Bitcast, g.dtype(id), &[x]))
}

/// `T(c ? k1 : k2) -> c ? T(k1) : T(k2)`, and `T(bool)` stays what it is.
fn cast_of_constant_arms(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[inner] = g.src(id) else { return None };
    let (Op::Where, &[c, a, b]) = (g.op(inner), g.src(inner)) else {
        return None;
    };
    let (from, to) = (g.dtype(inner), g.dtype(id));
    let a = scalar::cast(from, to, const_bits(g, a)?);
    let b = scalar::cast(from, to, const_bits(g, b)?);
    let (a, b) = (g.bits(to, a), g.bits(to, b));
    Some(g.select(c, a, b))
}

/// `T(b) != 0 -> b` and `T(b) == 1 -> b` for a boolean `b`, and the negations.
fn bool_compared_to_zero(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[x, c]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let (Op::Cast, &[b]) = (g.op(x), g.src(x)) else {
        return None;
    };
    let bits = const_bits(g, c)?;
    if g.dtype(b) != DType::Bool {
        return None;
    }
    let dtype = g.dtype(x);
    let when = |value: u64| {
        let x = scalar::cast(DType::Bool, dtype, value);
        scalar::binary(op, dtype, x, bits)
    };
    match (when(0)?, when(1)?) {
        (0, 1) => Some(b),
        (1, 0) => Some(g.unary(crate::ir::Unary::Not, b)),
        (0, _) => Some(g.boolean(false)),
        _ => Some(g.boolean(true)),
    }
}

/// `bool(x) -> x != 0`: one form for truth.
fn cast_to_bool(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[x] = g.src(id) else { return None };
    if g.dtype(id) != DType::Bool || g.dtype(x) == DType::Bool {
        return None;
    }
    let zero = g.bits(g.dtype(x), 0);
    Some(g.binary(Binary::Ne, x, zero))
}

/// An integer operand as an index: what it was cast from, a constant, or (if asked for) a cast.
fn as_index(g: &mut Graph, cx: &mut Cx, x: Id, force: bool) -> Option<Id> {
    let dtype = g.dtype(x);
    if let Some(bits) = const_bits(g, x) {
        return Some(g.index(i64::try_from(scalar::to_int(dtype, bits)).ok()?));
    }
    if let (Op::Cast, &[from]) = (g.op(x), g.src(x))
        && g.dtype(from) == DType::I64
        && cx.bounds.of(g, from).is_some_and(|b| fits(dtype, b))
    {
        return Some(from);
    }
    force.then(|| g.cast(x, DType::I64))
}

/// An integer type whose values all fit an index, other than `I64`.
fn narrow_int(dtype: DType) -> bool {
    dtype.is_int() && !matches!(dtype, DType::I64 | DType::U64)
}

/// `i32(r) == x -> r == i64(x)` for an index `r` that fits: comparisons of indices stay indices.
fn compare_as_index(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    if !narrow_int(g.dtype(a)) {
        return None;
    }
    let is_const = |x| const_bits(g, x).is_some();
    let (ca, cb) = (is_const(a), is_const(b));
    let (x, y) = match (as_index(g, cx, a, false), as_index(g, cx, b, false)) {
        (Some(x), Some(y)) => (x, y),
        (Some(x), None) if !ca => (x, as_index(g, cx, b, true)?),
        (None, Some(y)) if !cb => (as_index(g, cx, a, true)?, y),
        _ => return None,
    };
    Some(g.binary(op, x, y))
}

/// `i32(a) + i32(b) -> i32(a + b)` for indices where nothing wraps, so that arithmetic on loop
/// indices meets the index rules.
fn narrow_later(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Binary(op), &[a, b]) = (g.op(id), g.src(id)) else {
        return None;
    };
    let dtype = g.dtype(id);
    if !narrow_int(dtype) || operands(g, id, op).is_none() {
        return None;
    }
    let (x, y) = (as_index(g, cx, a, false)?, as_index(g, cx, b, false)?);
    let wide = g.binary(op, x, y);
    let bounds = cx.bounds.of(g, wide)?;
    fits(dtype, bounds).then(|| g.cast(wide, dtype))
}
