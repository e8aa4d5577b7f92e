//! Division and remainder of sums by a positive constant: what flattening an index and taking it
//! apart by other dimensions leaves to simplify.
//!
//! Every rule first proves that its sums do not wrap; without that proof it does nothing.

use smallvec::SmallVec;

use super::bounds::Interval;
use super::sum::{Sum, gcd};

/// One of the two results of a division that rounds down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `floor(x / c)`.
    Quotient,
    /// `x - floor(x / c) * c`.
    Remainder,
}

/// What the terms of sums are, to who divides them.
pub trait Terms {
    /// A term.
    type Term: Copy + Ord;

    /// Smallest and largest value of a sum; `None` if it could wrap.
    fn interval(&mut self, sum: &Sum<Self::Term>) -> Option<Interval>;

    /// The divisor, more than 0, of a term that is such a part of a division.
    fn divisor(&self, term: Self::Term, part: Part) -> Option<i64>;

    /// What is divided in a term that has a divisor.
    fn dividend(&self, term: Self::Term) -> Sum<Self::Term>;

    /// A part of a division, made.
    fn divided(&mut self, sum: &Sum<Self::Term>, by: i64, part: Part) -> Sum<Self::Term>;
}

/// The quotient that all values of an interval have in common.
fn common(b: Interval, c: i64) -> Option<i64> {
    let q = b.0.div_euclid(c);
    (q == b.1.div_euclid(c)).then_some(q)
}

/// Divisors of `c` that could split a sum, the largest first.
fn splitters<T: Copy + Ord>(sum: &Sum<T>, c: i64) -> SmallVec<[i64; 4]> {
    let mut all: SmallVec<[i64; 4]> = sum
        .terms()
        .iter()
        .map(|t| gcd(t.1, c))
        .filter(|&d| d > 1)
        .collect();
    all.sort_unstable_by_key(|&d| std::cmp::Reverse(d));
    all.dedup();
    all
}

/// `sum = d*s + r` with `0 <= r < d` proven; gives `[s, r]`.
fn split<A: Terms>(a: &mut A, sum: &Sum<A::Term>, d: i64) -> Option<[Sum<A::Term>; 2]> {
    let (s, r) = sum.split(d);
    let k = common(a.interval(&r)?, d)?;
    let (s, r) = (s.offset(k), r.offset(k.checked_mul(d)?.checked_neg()?));
    a.interval(&s)?;
    Some([s, r])
}

/// A simpler form of a part of `x / c`, `c > 1`; `None` if there is none.
pub fn simpler<A: Terms>(a: &mut A, x: &Sum<A::Term>, c: i64, part: Part) -> Option<Sum<A::Term>> {
    match part {
        Part::Quotient => quotient(a, x, c),
        Part::Remainder => remainder(a, x, c),
    }
}

fn quotient<A: Terms>(a: &mut A, x: &Sum<A::Term>, c: i64) -> Option<Sum<A::Term>> {
    if let Some(k) = common(a.interval(x)?, c) {
        return Some(Sum::number(k));
    }
    let (whole, rest) = x.split(c);
    let (_, bounds) = (a.interval(&whole)?, a.interval(&rest)?);
    if let Some(k) = common(bounds, c) {
        return Some(whole.offset(k));
    }
    for d in splitters(&rest, c) {
        if let Some([s, _]) = split(a, &rest, d) {
            let q = a.divided(&s, c / d, Part::Quotient);
            return Some(whole.plus(&q, 1));
        }
    }
    // floor((floor(y / d) + k) / c) = floor((y + k*d) / (c*d))
    if let [(t, 1)] = *rest.terms()
        && let Some(d) = a.divisor(t, Part::Quotient)
        && let (Some(cd), Some(k)) = (c.checked_mul(d), rest.constant.checked_mul(d))
    {
        let inner = a.dividend(t);
        if a.interval(&inner).is_some() && a.interval(&Sum::number(k)).is_some() {
            let inner = inner.offset(k);
            if a.interval(&inner).is_some() {
                let q = a.divided(&inner, cd, Part::Quotient);
                return Some(whole.plus(&q, 1));
            }
        }
    }
    if whole == Sum::number(0) {
        return None;
    }
    let q = a.divided(&rest, c, Part::Quotient);
    Some(whole.plus(&q, 1))
}

fn remainder<A: Terms>(a: &mut A, x: &Sum<A::Term>, c: i64) -> Option<Sum<A::Term>> {
    if let Some(k) = common(a.interval(x)?, c) {
        return Some(x.offset(k.checked_mul(c)?.checked_neg()?));
    }
    let mut sum = x.clone();
    let residue = sum.residue(c);
    if residue != sum
        && let Some(bounds) = a.interval(&residue)
    {
        if let Some(k) = common(bounds, c) {
            return Some(residue.offset(k.checked_mul(c)?.checked_neg()?));
        }
        sum = residue;
    }
    // (k * (y % m) + ...) % c = (k * y + ...) % c when c divides k*m
    for &(t, k) in sum.clone().terms() {
        let Some(m) = a.divisor(t, Part::Remainder) else {
            continue;
        };
        if k.checked_mul(m).is_none_or(|km| km % c != 0) {
            continue;
        }
        let y = a.dividend(t);
        if a.interval(&y).is_none() {
            continue;
        }
        let Some(y) = y.checked_scale(k) else {
            continue;
        };
        let opened = sum.without(t).plus(&y, 1);
        if a.interval(&opened).is_some() {
            sum = opened;
        }
    }
    for d in splitters(&sum, c) {
        if let Some([s, r]) = split(a, &sum, d) {
            if c == d {
                return Some(r);
            }
            let m = a.divided(&s, c / d, Part::Remainder);
            return Some(r.plus(&m, d));
        }
    }
    (sum != *x).then(|| a.divided(&sum, c, Part::Remainder))
}
