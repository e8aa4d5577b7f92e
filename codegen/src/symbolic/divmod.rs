//! Division and remainder of sums by a positive constant: what flattening an index and taking it
//! apart by other dimensions leaves to simplify.
//!
//! Every function first proves that its sums do not wrap; without that proof it does nothing.

use smallvec::SmallVec;

use super::bounds::Bounds;
use super::lin::{Lin, gcd, index_const};
use crate::ir::{Binary, Graph, Id, Op};

/// The operands of `a op c` with a constant `c > 0`.
pub fn by_const(g: &Graph, id: Id, op: Binary) -> Option<(Id, i64)> {
    match (g.op(id), g.src(id)) {
        (Op::Binary(found), &[a, b]) if found == op => {
            let c = index_const(g, b)?;
            (c > 0).then_some((a, c))
        }
        _ => None,
    }
}

/// The quotient that all values of an interval have in common.
fn common(b: (i64, i64), c: i64) -> Option<i64> {
    let q = b.0.div_euclid(c);
    (q == b.1.div_euclid(c)).then_some(q)
}

/// Divisors of `c` that could split a sum, the largest first.
fn splitters(lin: &Lin, c: i64) -> SmallVec<[i64; 4]> {
    let mut all: SmallVec<[i64; 4]> = lin
        .terms()
        .iter()
        .map(|t| gcd(t.1, c))
        .filter(|&d| d > 1)
        .collect();
    all.sort_unstable_by_key(|&d| std::cmp::Reverse(d));
    all.dedup();
    all
}

/// `lin = d*s + r` with `0 <= r < d` proven; gives `(s, r)`.
fn split(g: &Graph, b: &mut Bounds, lin: &Lin, d: i64) -> Option<(Lin, Lin)> {
    let (s, r) = lin.split(d);
    let k = common(b.lin(g, &r)?, d)?;
    let (s, r) = (s.offset(k), r.offset(k.checked_mul(d)?.checked_neg()?));
    b.lin(g, &s)?;
    Some((s, r))
}

/// A simpler node for `floor(x / c)`, `c > 0`; `None` if there is none.
pub fn floor_div(g: &mut Graph, b: &mut Bounds, x: Id, c: i64) -> Option<Id> {
    if c == 1 {
        return Some(x);
    }
    let lin = Lin::of(g, x);
    if let Some(k) = common(b.lin(g, &lin)?, c) {
        return Some(g.index(k));
    }
    let (whole, rest) = lin.split(c);
    let (_, bounds) = (b.lin(g, &whole)?, b.lin(g, &rest)?);
    if let Some(k) = common(bounds, c) {
        return Some(whole.offset(k).to_graph(g));
    }
    for d in splitters(&rest, c) {
        if let Some((s, _)) = split(g, b, &rest, d) {
            let s = s.to_graph(g);
            let divisor = g.index(c / d);
            let q = g.binary(Binary::FloorDiv, s, divisor);
            return Some(whole.plus(&Lin::term(q, 1), 1).to_graph(g));
        }
    }
    // floor((floor(y / d) + k) / c) = floor((y + k*d) / (c*d))
    if let [(t, 1)] = *rest.terms()
        && let Some((y, d)) = by_const(g, t, Binary::FloorDiv)
        && let (Some(cd), Some(k)) = (c.checked_mul(d), rest.constant.checked_mul(d))
    {
        let inner = Lin::of(g, y);
        if b.lin(g, &inner).is_some() && b.lin(g, &Lin::number(k)).is_some() {
            let inner = inner.offset(k);
            if b.lin(g, &inner).is_some() {
                let (inner, divisor) = (inner.to_graph(g), g.index(cd));
                let q = g.binary(Binary::FloorDiv, inner, divisor);
                return Some(whole.plus(&Lin::term(q, 1), 1).to_graph(g));
            }
        }
    }
    let zero = whole.is_number() && whole.constant == 0;
    if zero {
        return None;
    }
    let (rest, divisor) = (rest.to_graph(g), g.index(c));
    let q = g.binary(Binary::FloorDiv, rest, divisor);
    Some(whole.plus(&Lin::term(q, 1), 1).to_graph(g))
}

/// A simpler node for `x - floor(x / c) * c`, `c > 0`; `None` if there is none.
pub fn floor_mod(g: &mut Graph, b: &mut Bounds, x: Id, c: i64) -> Option<Id> {
    if c == 1 {
        return Some(g.index(0));
    }
    let mut lin = Lin::of(g, x);
    if let Some(k) = common(b.lin(g, &lin)?, c) {
        return Some(lin.offset(k.checked_mul(c)?.checked_neg()?).to_graph(g));
    }
    let mut changed = false;
    let residue = residue(&lin, c);
    if residue != lin
        && let Some(bounds) = b.lin(g, &residue)
    {
        if let Some(k) = common(bounds, c) {
            return Some(residue.offset(k.checked_mul(c)?.checked_neg()?).to_graph(g));
        }
        lin = residue;
        changed = true;
    }
    // (k * (y % a) + ...) % c = (k * y + ...) % c when c divides k*a
    for &(t, k) in lin.clone().terms() {
        let Some((y, a)) = by_const(g, t, Binary::FloorMod) else {
            continue;
        };
        if k.checked_mul(a).is_none_or(|ka| ka % c != 0) {
            continue;
        }
        let y = Lin::of(g, y);
        if b.lin(g, &y).is_none() {
            continue;
        }
        let Some(y) = y.checked_scale(k) else {
            continue;
        };
        let opened = lin.without(t).plus(&y, 1);
        if b.lin(g, &opened).is_some() {
            lin = opened;
            changed = true;
        }
    }
    for d in splitters(&lin, c) {
        if let Some((s, r)) = split(g, b, &lin, d) {
            if c == d {
                return Some(r.to_graph(g));
            }
            let s = s.to_graph(g);
            let divisor = g.index(c / d);
            let m = g.binary(Binary::FloorMod, s, divisor);
            return Some(r.plus(&Lin::term(m, 1), d).to_graph(g));
        }
    }
    if !changed {
        return None;
    }
    let (x, divisor) = (lin.to_graph(g), g.index(c));
    Some(g.binary(Binary::FloorMod, x, divisor))
}

/// The sum with its coefficients and constant reduced modulo `c`.
fn residue(lin: &Lin, c: i64) -> Lin {
    let mut out = Lin::number(lin.constant.rem_euclid(c));
    for &(t, k) in lin.terms() {
        out = out.plus(&Lin::term(t, k % c), 1);
    }
    out
}

/// `k*(x % c) + k*c*(x / c) = k*x` inside a sum, also when the quotient was written with another
/// representative of `x` modulo `c`, or when `x` is itself a quotient whose two divisions became one.
pub fn recombine(g: &mut Graph, b: &mut Bounds, lin: &Lin) -> Option<Lin> {
    for &(m, k) in lin.terms() {
        let Some((y, c)) = by_const(g, m, Binary::FloorMod) else {
            continue;
        };
        let Some(kc) = k.checked_mul(c) else { continue };
        for &(q, kq) in lin.terms() {
            if kq != kc {
                continue;
            }
            let Some((x, d)) = by_const(g, q, Binary::FloorDiv) else {
                continue;
            };
            let rest = || lin.without(m).without(q);
            if d == c && (x == y || congruent(g, b, x, y, c)) {
                return Some(rest().plus(&Lin::of(g, x), k));
            }
            if let Some((inner, a)) = by_const(g, y, Binary::FloorDiv)
                && inner == x
                && a.checked_mul(c) == Some(d)
            {
                return Some(rest().plus(&Lin::term(y, k), 1));
            }
        }
    }
    None
}

/// `x` and `y` differ by a multiple of `c`, and neither wraps.
fn congruent(g: &Graph, b: &mut Bounds, x: Id, y: Id, c: i64) -> bool {
    let (x, y) = (Lin::of(g, x), Lin::of(g, y));
    let difference = x.plus(&y, -1);
    difference.constant % c == 0
        && difference.terms().iter().all(|t| t.1 % c == 0)
        && b.lin(g, &x).is_some()
        && b.lin(g, &y).is_some()
}
