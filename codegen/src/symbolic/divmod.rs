//! [`division`] of the sums of a graph.

use super::bounds::{Bounds, Interval};
use super::division::{self, Part, Terms};
use super::lin::{Lin, index_const};
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

/// The terms of a graph, with what is known of their bounds.
struct Nodes<'a> {
    g: &'a mut Graph,
    b: &'a mut Bounds,
}

const fn operation(part: Part) -> Binary {
    match part {
        Part::Quotient => Binary::FloorDiv,
        Part::Remainder => Binary::FloorMod,
    }
}

impl Terms for Nodes<'_> {
    type Term = Id;

    fn interval(&mut self, sum: &Lin) -> Option<Interval> {
        self.b.lin(self.g, sum)
    }

    fn divisor(&self, term: Id, part: Part) -> Option<i64> {
        by_const(self.g, term, operation(part)).map(|(_, c)| c)
    }

    fn dividend(&self, term: Id) -> Lin {
        Lin::of(self.g, self.g.src(term)[0])
    }

    /// The node as it stands; it is simplified when its turn comes.
    fn divided(&mut self, sum: &Lin, by: i64, part: Part) -> Lin {
        let (x, by) = (sum.to_graph(self.g), self.g.index(by));
        Lin::term(self.g.binary(operation(part), x, by), 1)
    }
}

/// A simpler node for a part of `x / c`, `c > 0`; `None` if there is none.
pub fn divided(g: &mut Graph, b: &mut Bounds, x: Id, c: i64, part: Part) -> Option<Id> {
    match part {
        Part::Quotient if c == 1 => return Some(x),
        Part::Remainder if c == 1 => return Some(g.index(0)),
        _ => {}
    }
    let lin = Lin::of(g, x);
    let simpler = division::simpler(&mut Nodes { g, b }, &lin, c, part)?;
    Some(simpler.to_graph(g))
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
