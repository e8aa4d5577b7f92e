//! Comparisons of sums: decided by bounds, or brought to one form, `positive terms < negative terms
//! + constant`, divided by what the coefficients have in common.

use super::bounds::Bounds;
use super::divmod::by_const;
use super::lin::Lin;
use crate::ir::{Binary, Graph, Id};

/// `a - b` if neither side nor the difference wraps.
fn difference(g: &Graph, b: &mut Bounds, x: Id, y: Id) -> Option<(Lin, (i64, i64))> {
    let (x, y) = (Lin::of(g, x), Lin::of(g, y));
    b.lin(g, &x)?;
    b.lin(g, &y)?;
    let d = x.plus(&y, -1);
    let bounds = b.lin(g, &d)?;
    Some((d, bounds))
}

/// `lin op 0`, with the terms spread over both sides so that every coefficient is positive and the
/// constant is on the right (on the left if there is nothing else).
fn spread(g: &mut Graph, b: &mut Bounds, op: Binary, lin: &Lin) -> Option<Id> {
    let (mut left, mut right) = (Lin::default(), Lin::default());
    for &(t, k) in lin.terms() {
        if k > 0 {
            left = left.plus(&Lin::term(t, k), 1);
        } else {
            right = right.plus(&Lin::term(t, k.checked_neg()?), 1);
        }
    }
    if left.is_number() {
        left.constant = lin.constant;
    } else {
        right.constant = lin.constant.checked_neg()?;
    }
    b.lin(g, &left)?;
    b.lin(g, &right)?;
    let (left, right) = (left.to_graph(g), right.to_graph(g));
    Some(g.binary(op, left, right))
}

/// A simpler node for `x < y` over `I64`, `None` if there is none.
pub fn less(g: &mut Graph, b: &mut Bounds, x: Id, y: Id) -> Option<Id> {
    let (mut d, (lo, hi)) = difference(g, b, x, y)?;
    if hi < 0 {
        return Some(g.boolean(true));
    }
    if lo >= 0 {
        return Some(g.boolean(false));
    }
    // g*s + r < k with 0 <= r <= top: s < k/g rounded up, unless r decides at the edge.
    let mut candidates: Vec<i64> = d.terms().iter().filter_map(|t| t.1.checked_abs()).collect();
    candidates.push(d.gcd());
    candidates.sort_unstable_by_key(|&c| std::cmp::Reverse(c));
    candidates.dedup();
    for c in candidates {
        if c < 2 {
            continue;
        }
        let (s, r) = d.without_constant().split(c);
        let (Some((rlo, rhi)), Some(_), Some(k)) =
            (b.lin(g, &r), b.lin(g, &s), d.constant.checked_neg())
        else {
            continue;
        };
        if rlo < 0 || rhi >= c {
            continue;
        }
        let (q, m) = (k.div_euclid(c), k.rem_euclid(c));
        // s < q, or s == q and r < m.
        let limit = if rhi < m {
            q + 1
        } else if rlo >= m {
            q
        } else {
            continue;
        };
        let Some(limit) = limit.checked_neg() else {
            continue;
        };
        d = s.offset(limit);
        break;
    }
    // floor(y / c) < k: y < k*c. k < floor(y / c): (k+1)*c <= y.
    if let [(t, k @ (1 | -1))] = *d.terms()
        && let Some((y, c)) = by_const(g, t, Binary::FloorDiv)
    {
        let y = Lin::of(g, y);
        let opened = if k == 1 {
            d.constant
                .checked_mul(c)
                .filter(|kc| b.lin(g, &Lin::number(*kc)).is_some())
                .map(|kc| y.offset(kc))
        } else {
            let edge = d.constant.checked_add(1).and_then(|k| k.checked_mul(c));
            edge.and_then(|e| e.checked_sub(1))
                .filter(|e| b.lin(g, &Lin::number(*e)).is_some())
                .map(|e| y.scale(-1).offset(e))
        };
        if b.lin(g, &y).is_some()
            && let Some(opened) = opened
            && b.lin(g, &opened).is_some()
        {
            d = opened;
        }
    }
    b.lin(g, &d)?;
    spread(g, b, Binary::Lt, &d)
}

/// A simpler node for `x == y` (or `!=`) over `I64`, `None` if there is none.
pub fn equal(g: &mut Graph, b: &mut Bounds, op: Binary, x: Id, y: Id) -> Option<Id> {
    let (mut d, (lo, hi)) = difference(g, b, x, y)?;
    let never = |g: &mut Graph| Some(g.boolean(op == Binary::Ne));
    if hi < 0 || lo > 0 {
        return never(g);
    }
    if d.is_number() {
        return Some(g.boolean(op == Binary::Eq));
    }
    let c = d.gcd();
    if c > 1 {
        if d.constant % c != 0 {
            return never(g);
        }
        d = d.split(c).0;
    }
    // One sign for both orders of the operands.
    if d.terms().first().is_some_and(|t| t.1 < 0) {
        d = d.scale(-1);
    }
    b.lin(g, &d)?;
    spread(g, b, op, &d)
}
