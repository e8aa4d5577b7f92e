//! Guards: clauses that are always true go, and what is guarded is simplified knowing the guard.
//!
//! Assumptions never cross a load: an index that is only right under a guard may be out of bounds
//! without it, and both arms of a `Where` are evaluated.

use std::sync::LazyLock;

use hashbrown::HashSet;
use smallvec::SmallVec;

use super::ask::const_bits;
use super::{algebra, boolean, cast, index};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, Src, Unary};
use crate::rewrite::driver::fixpoint;
use crate::rewrite::repetitions::keep_repetitions;
use crate::rewrite::rule::{Cx, Rule, Rules};
use crate::symbolic::{Bounds, valid};

/// The rules for index arithmetic, applied again under the assumptions of a guard.
static INDEX: LazyLock<Rules> =
    LazyLock::new(|| Rules::new(&[algebra::RULES, boolean::RULES, cast::RULES, index::RULES]));

/// The rules of this file.
pub const RULES: &[Rule] = &[
    Rule {
        name: "guard_clauses",
        on: |op| op == Op::Binary(Binary::And),
        run: guard_clauses,
    },
    Rule {
        name: "where_arms",
        on: |op| op == Op::Where,
        run: where_arms,
    },
    Rule {
        name: "where_load",
        on: |op| op == Op::Where,
        run: where_load,
    },
    Rule {
        name: "load_gate",
        on: |op| op == Op::Load,
        run: load_gate,
    },
    Rule {
        name: "store_gate",
        on: |op| matches!(op, Op::Store(_)),
        run: store_gate,
    },
    Rule {
        name: "drop_dead_stores",
        on: |op| op == Op::Sink,
        run: drop_dead_stores,
    },
];

/// The largest index expression that is simplified again under a guard.
const LIMIT: usize = 256;

/// Where assumptions of a guard end. A check says what it finds whatever is assumed of it afterwards.
fn boundary(op: Op) -> bool {
    matches!(op, Op::Load | Op::Check | Op::Reduce(_) | Op::Scan(_))
}

/// Number of nodes up to the boundary is at most `LIMIT`; `stop` may refuse a node.
fn small(g: &Graph, id: Id, refuse: fn(Op) -> bool) -> bool {
    let mut seen: HashSet<Id> = HashSet::new();
    let mut stack = vec![id];
    while let Some(n) = stack.pop() {
        if !seen.insert(n) {
            continue;
        }
        if refuse(g.op(n)) || seen.len() > LIMIT {
            return false;
        }
        if !boundary(g.op(n)) {
            stack.extend(g.src(n));
        }
    }
    true
}

/// `id` rewritten under assumptions.
fn simplify_under(g: &mut Graph, bounds: Bounds, id: Id) -> Id {
    if !small(g, id, |_| false) {
        return id;
    }
    fixpoint(g, &mut Cx::under(bounds), &INDEX, id, boundary)
}

/// Number of leaves of a conjunction, with repetitions.
fn leaves(g: &Graph, guard: Id) -> usize {
    let mut stack: SmallVec<[Id; 8]> = SmallVec::from_slice(&[guard]);
    let mut n = 0;
    while let Some(id) = stack.pop() {
        match (g.op(id), g.src(id)) {
            (Op::Binary(Binary::And), &[a, b]) if n <= valid::CLAUSES => stack.extend([a, b]),
            _ => n += 1,
        }
    }
    n
}

/// In a conjunction each clause is simplified under the others; repeated clauses go.
fn guard_clauses(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    if g.dtype(id) != DType::Bool {
        return None;
    }
    let mut clauses = valid::clauses(g, id)?;
    let mut changed = clauses.len() < leaves(g, id);
    let mut i = 0;
    while i < clauses.len() {
        let mut others = clauses.clone();
        let clause = others.remove(i);
        let negated = g.unary(Unary::Not, clause);
        if others.contains(&negated) || inverse(g, clause).is_some_and(|n| others.contains(&n)) {
            return Some(g.boolean(false));
        }
        if let Some(under) = valid::assume_all(g, &mut cx.bounds, &others) {
            let new = simplify_under(g, under, clause);
            match const_bits(g, new) {
                Some(0) => return Some(g.boolean(false)),
                Some(_) => {
                    clauses = others;
                    changed = true;
                    continue;
                }
                None => {
                    changed |= new != clause;
                    clauses[i] = new;
                }
            }
        }
        i += 1;
    }
    changed.then(|| valid::conjunction(g, &clauses))
}

/// `x` of `!x`.
fn inverse(g: &Graph, id: Id) -> Option<Id> {
    (g.op(id) == Op::Unary(Unary::Not)).then(|| g.src(id)[0])
}

/// Index arms of a selection are simplified knowing the condition.
fn where_arms(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let &[c, a, b] = g.src(id) else { return None };
    if g.dtype(id) != DType::I64 {
        return None;
    }
    let under = valid::assume(g, &mut cx.bounds, c);
    let new_a = under.map_or(a, |u| simplify_under(g, u, a));
    let under = valid::assume_not(g, &mut cx.bounds, c);
    let new_b = under.map_or(b, |u| simplify_under(g, u, b));
    (new_a != a || new_b != b).then(|| g.select(c, new_a, new_b))
}

/// `c ? load : k -> gated load` for a constant `k` and a condition on indices alone. A condition
/// on data stays a selection: it costs less than a masked access.
fn where_load(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let &[c, a, b] = g.src(id) else { return None };
    let (load, alt, negate) = match (g.op(a), g.op(b)) {
        (Op::Load, Op::Const(_)) => (a, b, false),
        (Op::Const(_), Op::Load) => (b, a, true),
        _ => return None,
    };
    if !small(g, c, boundary) {
        return None;
    }
    let c = if negate { g.unary(Unary::Not, c) } else { c };
    match *g.src(load) {
        [ptr, index] => Some(g.load_gated(ptr, index, c, alt)),
        [ptr, index, gate, old] if old == alt => {
            let both = g.binary(Binary::And, gate, c);
            Some(g.load_gated(ptr, index, both, alt))
        }
        _ => None,
    }
}

/// A gate that is constant goes; the index is simplified knowing the gate.
fn load_gate(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let &[ptr, index, gate, alt] = g.src(id) else {
        return None;
    };
    match const_bits(g, gate) {
        Some(0) => return Some(alt),
        Some(_) => return Some(g.load(ptr, index)),
        None => {}
    }
    let under = valid::assume(g, &mut cx.bounds, gate)?;
    let new = simplify_under(g, under, index);
    (new != index).then(|| g.load_gated(ptr, new, gate, alt))
}

/// As [`load_gate`], for the index of a store and for an index value.
fn store_gate(g: &mut Graph, cx: &mut Cx, id: Id) -> Option<Id> {
    let (Op::Store(mode), &[ptr, index, value, gate]) = (g.op(id), g.src(id)) else {
        return None;
    };
    match const_bits(g, gate) {
        Some(0) => return None,
        Some(_) => return Some(g.store(mode, ptr, index, value, None)),
        None => {}
    }
    let under = valid::assume(g, &mut cx.bounds, gate)?;
    let new = simplify_under(g, under, index);
    if new == index {
        return None;
    }
    let mut src = Src::from_slice(&[ptr, new, value, gate]);
    keep_repetitions(g, cx, id, &mut src);
    Some(g.add(Op::Store(mode), g.dtype(id), &src))
}

/// Stores whose gate is false do nothing.
fn drop_dead_stores(g: &mut Graph, _: &mut Cx, id: Id) -> Option<Id> {
    let dead = |s: &Id| {
        g.src(*s)
            .get(3)
            .is_some_and(|&gate| const_bits(g, gate) == Some(0))
    };
    let alive: Src = g.src(id).iter().copied().filter(|s| !dead(s)).collect();
    (alive.len() < g.src(id).len()).then(|| g.sink(&alive))
}
