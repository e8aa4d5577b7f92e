//! Reductions that need no loop.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::ask::{const_bits, is_zero, number};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, ReduceOp, Src, Unary, scalar, toposort};
use crate::rewrite::rule::{Cx, Rule};
use crate::symbolic::{Lin, valid};

/// What goes with its ranges.
pub const EMPTY: &[Rule] = &[Rule {
    name: "reduce_no_range",
    on: |op| matches!(op, Op::Reduce(_) | Op::Scan(_)),
    run: reduce_no_range,
}];

/// The others of this file.
pub const RULES: &[Rule] = &[
    Rule {
        name: "reduce_constant",
        on: |op| matches!(op, Op::Reduce(_)),
        run: reduce_constant,
    },
    Rule {
        name: "reduce_one_hot",
        on: |op| matches!(op, Op::Reduce(_)),
        run: reduce_one_hot,
    },
    Rule {
        name: "reduce_count",
        on: |op| matches!(op, Op::Reduce(_)),
        run: reduce_count,
    },
];

/// Fewer repetitions are added up, in the type that there is.
const FEW: i64 = 16;

fn extent(g: &Graph, range: Id) -> Option<i64> {
    match g.op(range) {
        Op::Range { extent, .. } => Some(extent),
        _ => None,
    }
}

/// Ranges that became constants (one iteration) go, and with the last the reduction.
fn reduce_no_range(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let op = g.op(id);
    let (&value, ranges) = g.src(id).split_first()?;
    let left: Src = ranges
        .iter()
        .copied()
        .filter(|&r| const_bits(g, r).is_none())
        .collect();
    if left.len() == ranges.len() && !left.is_empty() {
        return None;
    }
    match op {
        Op::Reduce(op) if !left.is_empty() => Some(g.reduce(op, value, &left)),
        // The sum starts at +0, which takes -0 to +0.
        Op::Reduce(ReduceOp::Add) | Op::Scan(ReduceOp::Add) if g.dtype(value).is_float() => {
            let zero = g.bits(g.dtype(value), 0);
            Some(g.binary(Binary::Add, value, zero))
        }
        _ => Some(value),
    }
}

/// The largest integer up to which a float type counts without rounding.
fn exact_count(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 9_007_199_254_740_992.0,
        DType::F32 => 16_777_216.0,
        DType::F16 => 2048.0,
        DType::BF16 => 256.0,
        DType::F8E4M3 => 16.0,
        _ => 8.0,
    }
}

/// `x + x + ... ` (n times) as one value, if that is what the sum rounded once is.
fn times(g: &mut Graph, x: Id, n: i64) -> Option<Id> {
    let dtype = g.dtype(x);
    // Sums of `f64` round at each step, unless they are of small whole numbers.
    let exact = n == 2 || const_bits(g, x).is_some_and(|b| counts(dtype, b, n));
    if dtype == DType::F64 && !exact || !dtype.is_float() && !dtype.is_int() {
        return None;
    }
    // A product rounds once; a factor that the type has not exactly is one of `f64`.
    let wide = match dtype.is_float() && n as f64 > exact_count(dtype) {
        true => DType::F64,
        false => dtype,
    };
    let (x, n) = (g.cast(x, wide), number(g, wide, n));
    let product = g.binary(Binary::Mul, x, n);
    Some(g.cast(product, dtype))
}

/// `n` times the sum of x over ranges, rounded once. Few times save nothing.
fn times_sum(g: &mut Graph, x: Id, n: i64, over: &[Id]) -> Option<Id> {
    let dtype = g.dtype(x);
    if n < FEW || dtype == DType::F64 {
        return None;
    }
    let wide = g.cast(x, DType::F64);
    let sum = g.reduce(ReduceOp::Add, wide, over);
    let n = number(g, DType::F64, n);
    let product = g.binary(Binary::Mul, sum, n);
    Some(g.cast(product, dtype))
}

/// `n` times the constant is reached without rounding.
fn counts(dtype: DType, bits: u64, n: i64) -> bool {
    let x = scalar::to_f64(dtype, bits);
    // A sum that starts at +0 never gives -0.
    x.fract() == 0.0
        && (x != 0.0 || x.is_sign_positive())
        && x.abs() * n as f64 <= exact_count(dtype)
}

/// A reduction over ranges that the value does not depend on.
fn reduce_constant(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let Op::Reduce(op) = g.op(id) else {
        return None;
    };
    let src: Src = g.src(id).into();
    let (&value, ranges) = src.split_first()?;
    let free: SmallVec<[Id; 4]> = ranges
        .iter()
        .copied()
        .filter(|&r| extent(g, r).is_some() && !cx.ranges.depends(g, value, r))
        .collect();
    if free.is_empty() {
        return None;
    }
    let mut n = 1i64;
    for &r in &free {
        n = n.checked_mul(extent(g, r)?)?;
    }
    let left: Src = ranges
        .iter()
        .copied()
        .filter(|r| !free.contains(r))
        .collect();
    let value = match op {
        ReduceOp::Add if g.dtype(value).is_float() => {
            let whole = const_bits(g, value).is_some_and(|b| counts(g.dtype(value), b, n));
            if !left.is_empty() && !whole {
                return times_sum(g, value, n, &left);
            }
            let product = times(g, value, n)?;
            // Adding to the initial +0 turns -0 to +0; one addition does the same.
            let zero = g.bits(g.dtype(value), 0);
            g.binary(Binary::Add, product, zero)
        }
        ReduceOp::Add => times(g, value, n)?,
        ReduceOp::Mul => {
            let bits = const_bits(g, value)?;
            let dtype = g.dtype(value);
            if bits == scalar::constant(dtype, 1) || !dtype.is_float() && bits == 0 {
                value
            } else {
                return None;
            }
        }
        ReduceOp::Max | ReduceOp::Min | ReduceOp::And | ReduceOp::Or => value,
    };
    if left.is_empty() {
        Some(value)
    } else {
        Some(g.reduce(op, value, &left))
    }
}

/// A value that is zero where a condition does not hold: `(condition, value)`.
fn guarded(g: &mut Graph, value: Id) -> Option<(Id, Id)> {
    match (g.op(value), g.src(value)) {
        (Op::Where, &[c, v, z]) if is_zero(g, z) => Some((c, v)),
        (Op::Where, &[c, z, v]) if is_zero(g, z) => Some((g.unary(Unary::Not, c), v)),
        (Op::Load, &[_, _, gate, z]) if is_zero(g, z) => Some((gate, value)),
        (Op::Cast, &[c]) if g.dtype(c) == DType::Bool => {
            let one = number(g, g.dtype(value), 1);
            Some((c, one))
        }
        _ => None,
    }
}

/// `sum over r of (r == e ? v : 0) -> 0 <= e < n ? v[r := e] : 0`: a gather written as a one-hot sum.
fn reduce_one_hot(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    if g.op(id) != Op::Reduce(ReduceOp::Add) {
        return None;
    }
    let src: Src = g.src(id).into();
    let (&value, ranges) = src.split_first()?;
    let (condition, inner) = guarded(g, value)?;
    let clauses = valid::clauses(g, condition)?;
    for &r in ranges {
        let Some(n) = extent(g, r) else { continue };
        for (i, &clause) in clauses.iter().enumerate() {
            let (Op::Binary(Binary::Eq), &[x, y]) = (g.op(clause), g.src(clause)) else {
                continue;
            };
            if g.dtype(x) != DType::I64 {
                continue;
            }
            let lin = Lin::of(g, x).plus(&Lin::of(g, y), -1);
            // Exact modulo 2^64, whatever the other terms are.
            let (Some(k @ (1 | -1)), true) = (
                lin.stride(g, &mut cx.ranges, r),
                lin.coeff(r).unsigned_abs() == 1,
            ) else {
                continue;
            };
            let e = lin.without(r).scale(-k).to_graph(g);
            let (below, top) = (g.index(-1), g.index(n));
            let low = g.binary(Binary::Lt, below, e);
            let high = g.binary(Binary::Lt, e, top);
            let guard = g.binary(Binary::And, low, high);
            let mut all = guard;
            for (j, &c) in clauses.iter().enumerate() {
                if j != i {
                    let c = replace_gated(g, cx, c, r, e, guard);
                    all = g.binary(Binary::And, all, c);
                }
            }
            let v = replace_gated(g, cx, inner, r, e, guard);
            let dtype = g.dtype(value);
            let zero = g.bits(dtype, 0);
            let picked = g.select(all, v, zero);
            let left: Src = ranges.iter().copied().filter(|&x| x != r).collect();
            return Some(if !left.is_empty() {
                g.reduce(ReduceOp::Add, picked, &left)
            } else if dtype.is_float() {
                // The sum had other terms, all +0: -0 becomes +0.
                g.binary(Binary::Add, picked, zero)
            } else {
                picked
            });
        }
    }
    None
}

/// `id` with the range replaced by an expression; loads that depended on the range get a guard,
/// because the expression can be outside of the range.
fn replace_gated(g: &mut Graph, cx: &mut Cx, id: Id, range: Id, by: Id, guard: Id) -> Id {
    if !cx.ranges.depends(g, id, range) {
        return id;
    }
    let mut new: HashMap<Id, Id> = HashMap::new();
    for n in toposort(g, id) {
        if n == range {
            new.insert(n, by);
            continue;
        }
        let node = g.node(n).clone();
        let mut src: Src = node.src.iter().map(|s| new[s]).collect();
        if node.op == Op::Load && cx.ranges.depends(g, n, range) {
            match *src.as_slice() {
                [ptr, index] => {
                    let zero = g.bits(node.dtype, 0);
                    src = Src::from_slice(&[ptr, index, guard, zero]);
                }
                [ptr, index, gate, alt] => {
                    let gate = g.binary(Binary::And, guard, gate);
                    src = Src::from_slice(&[ptr, index, gate, alt]);
                }
                _ => {}
            }
        }
        if node.op == Op::Check && cx.ranges.depends(g, n, range) {
            src[3] = g.binary(Binary::And, guard, src[3]);
        }
        let made = g.add(node.op, node.dtype, &src);
        new.insert(n, made);
    }
    new[&id]
}

/// `sum over r of (lo <= r < hi ? v : 0) -> v * max(min(hi, n) - max(lo, 0), 0)`: an `arange` written
/// as a triangular sum.
fn reduce_count(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    if g.op(id) != Op::Reduce(ReduceOp::Add) {
        return None;
    }
    let src: Src = g.src(id).into();
    let (&value, ranges) = src.split_first()?;
    let (condition, v) = guarded(g, value)?;
    let clauses = valid::clauses(g, condition)?;
    let dtype = g.dtype(value);
    let mut all = 1i64;
    for &r in ranges {
        all = all.checked_mul(extent(g, r)?)?;
    }
    for &r in ranges {
        let Some(n) = extent(g, r) else { continue };
        if cx.ranges.depends(g, v, r) {
            continue;
        }
        let exact = dtype.is_int()
            || dtype.is_float() && const_bits(g, v).is_some_and(|bits| counts(dtype, bits, all));
        if !exact {
            continue;
        }
        let Some((lo, hi, others)) = interval(g, cx, &clauses, r, n) else {
            continue;
        };
        let length = g.binary(Binary::Sub, hi, lo);
        let zero = g.index(0);
        let length = g.binary(Binary::Max, length, zero);
        let mut total = match const_bits(g, v) {
            // A whole number: counted as an integer, so that nothing counted gives +0.
            Some(bits) if dtype.is_float() => {
                let each = g.index(scalar::to_f64(dtype, bits) as i64);
                let sum = g.binary(Binary::Mul, length, each);
                g.cast(sum, dtype)
            }
            _ => {
                let count = g.cast(length, dtype);
                g.binary(Binary::Mul, v, count)
            }
        };
        if !others.is_empty() {
            let guard = valid::conjunction(g, &others);
            let zero = g.bits(dtype, 0);
            total = g.select(guard, total, zero);
        }
        let left: Src = ranges.iter().copied().filter(|&x| x != r).collect();
        return Some(if left.is_empty() {
            total
        } else {
            g.reduce(ReduceOp::Add, total, &left)
        });
    }
    None
}

/// The iterations `lo <= r < hi` that clauses admit, and the clauses that do not depend on `r`;
/// `None` if some clause is no bound of `r`.
fn interval(
    g: &mut Graph,
    cx: &mut Cx,
    clauses: &[Id],
    r: Id,
    n: i64,
) -> Option<(Id, Id, SmallVec<[Id; 4]>)> {
    let (mut lo, mut hi) = (g.index(0), g.index(n));
    let mut others = SmallVec::new();
    for &clause in clauses {
        if !cx.ranges.depends(g, clause, r) {
            others.push(clause);
            continue;
        }
        let (clause, holds) = match (g.op(clause), g.src(clause)) {
            (Op::Unary(Unary::Not), &[inner]) => (inner, false),
            _ => (clause, true),
        };
        let (Op::Binary(Binary::Lt), &[x, y]) = (g.op(clause), g.src(clause)) else {
            return None;
        };
        if g.dtype(x) != DType::I64 {
            return None;
        }
        let (x, y) = (Lin::of(g, x), Lin::of(g, y));
        cx.bounds.lin(g, &x)?;
        cx.bounds.lin(g, &y)?;
        // d < 0; for the negation -d - 1 < 0.
        let mut d = x.plus(&y, -1);
        if !holds {
            d = d.scale(-1).offset(-1);
        }
        cx.bounds.lin(g, &d)?;
        let k = d.stride(g, &mut cx.ranges, r)?;
        let rest = d.without(r);
        let rest = if k > 0 { rest.scale(-1) } else { rest };
        // k > 0: r < rest/k rounded up. k < 0: r > rest/|k| rounded down.
        let size = k.checked_abs().filter(|&k| k > 0)?;
        let rest = if k > 0 { rest.offset(size - 1) } else { rest };
        cx.bounds.lin(g, &rest)?;
        let (rest, size) = (rest.to_graph(g), g.index(size));
        let edge = g.binary(Binary::FloorDiv, rest, size);
        if k > 0 {
            hi = g.binary(Binary::Min, hi, edge);
        } else {
            let one = g.index(1);
            let next = g.binary(Binary::Add, edge, one);
            lo = g.binary(Binary::Max, lo, next);
        }
    }
    Some((lo, hi, others))
}
