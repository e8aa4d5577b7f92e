//! Guards: conjunctions of comparisons, and what they say about index arithmetic.

use smallvec::SmallVec;

use super::bounds::{Bounds, Fact};
use super::lin::Lin;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, Unary};

/// The most clauses of one guard that are looked at.
pub const CLAUSES: usize = 24;

/// The clauses of a conjunction, in order, without duplicates; `None` if there are too many.
pub fn clauses(g: &Graph, guard: Id) -> Option<SmallVec<[Id; 8]>> {
    let mut out: SmallVec<[Id; 8]> = SmallVec::new();
    let mut stack: SmallVec<[Id; 8]> = SmallVec::from_slice(&[guard]);
    while let Some(n) = stack.pop() {
        match (g.op(n), g.src(n)) {
            (Op::Binary(Binary::And), &[a, b]) => stack.extend([b, a]),
            _ if out.contains(&n) => {}
            _ => out.push(n),
        }
        if out.len() + stack.len() > CLAUSES {
            return None;
        }
    }
    Some(out)
}

/// The conjunction of clauses; `true` for none.
pub fn conjunction(g: &mut Graph, clauses: &[Id]) -> Id {
    let Some((&first, rest)) = clauses.split_first() else {
        return g.boolean(true);
    };
    rest.iter().fold(first, |a, &b| g.binary(Binary::And, a, b))
}

/// What follows from a clause being `value`: bounds of sums of `I64` terms. Nothing for clauses
/// that are no integer comparison, or that could wrap.
pub fn facts(g: &Graph, b: &mut Bounds, clause: Id, value: bool, out: &mut Vec<Fact>) {
    let (mut clause, mut value) = (clause, value);
    while let (Op::Unary(Unary::Not), &[inner]) = (g.op(clause), g.src(clause)) {
        (clause, value) = (inner, !value);
    }
    let (Op::Binary(op), &[x, y]) = (g.op(clause), g.src(clause)) else {
        return;
    };
    if !op.is_compare() || g.dtype(x) != DType::I64 {
        return;
    }
    let (x, y) = (Lin::of(g, x), Lin::of(g, y));
    if b.lin(g, &x).is_none() || b.lin(g, &y).is_none() {
        return;
    }
    let d = x.plus(&y, -1);
    let Some((mut lo, mut hi)) = b.lin(g, &d) else {
        return;
    };
    match (op, value) {
        (Binary::Lt, true) => hi = hi.min(-1),
        (Binary::Lt, false) => lo = lo.max(0),
        (Binary::Eq, true) | (Binary::Ne, false) => (lo, hi) = (lo.max(0), hi.min(0)),
        _ => return,
    }
    if lo > hi || d.is_number() {
        return;
    }
    let (Some(lo), Some(hi)) = (lo.checked_sub(d.constant), hi.checked_sub(d.constant)) else {
        return;
    };
    let terms = d.without_constant();
    // Each single term is bounded by what the others leave.
    if terms.terms().len() > 1 {
        for &(t, k) in terms.terms() {
            let Some((rlo, rhi)) = b.lin(g, &terms.without(t)) else {
                continue;
            };
            let (lo, hi) = (
                i128::from(lo) - i128::from(rhi),
                i128::from(hi) - i128::from(rlo),
            );
            push_scaled(Lin::term(t, 1), k, lo, hi, out);
        }
        out.push(Fact {
            terms,
            interval: (lo, hi),
        });
    } else if let [(t, k)] = *terms.terms() {
        push_scaled(Lin::term(t, 1), k, lo.into(), hi.into(), out);
    }
}

/// `lo <= k * terms <= hi` as a fact about `terms`.
fn push_scaled(terms: Lin, k: i64, lo: i128, hi: i128, out: &mut Vec<Fact>) {
    let k = i128::from(k);
    let (a, b) = if k > 0 { (lo, hi) } else { (-hi, -lo) };
    let k = k.abs();
    let lo = -((-a).div_euclid(k));
    let hi = b.div_euclid(k);
    let clamp = |x: i128| x.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    if lo <= hi {
        out.push(Fact {
            terms,
            interval: (clamp(lo), clamp(hi)),
        });
    }
}

/// Bounds under a guard; `None` if the guard says nothing about integers.
pub fn assume(g: &Graph, b: &mut Bounds, guard: Id) -> Option<Bounds> {
    assume_all(g, b, &clauses(g, guard)?)
}

/// Bounds where all clauses hold; `None` if they say nothing about integers.
pub fn assume_all(g: &Graph, b: &mut Bounds, clauses: &[Id]) -> Option<Bounds> {
    let mut all = b.facts().to_vec();
    let outer = all.len();
    for &c in clauses {
        facts(g, b, c, true, &mut all);
    }
    if all.len() == outer {
        return None;
    }
    let mut under = Bounds::under(all);
    // A second round: what one clause says about a term tightens what another says.
    let mut more = under.facts().to_vec();
    let first = more.len();
    for &c in clauses {
        facts(g, &mut under, c, true, &mut more);
    }
    if more.len() > first {
        under = Bounds::under(more);
    }
    Some(under)
}

/// Bounds where one clause does not hold.
pub fn assume_not(g: &Graph, b: &mut Bounds, clause: Id) -> Option<Bounds> {
    let mut all = b.facts().to_vec();
    let outer = all.len();
    facts(g, b, clause, false, &mut all);
    (all.len() > outer).then(|| Bounds::under(all))
}
