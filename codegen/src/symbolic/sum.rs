//! Sums of terms times constants, plus a constant: the normal form of index arithmetic, whatever the
//! terms are.
//!
//! Sums and products are exact modulo 2^64, like the `I64` they describe. Whoever divides must first
//! prove that nothing wraps; see [`division`](super::division).

use smallvec::SmallVec;

/// `sum(coefficient * term) + constant`. Terms are sorted and differ; no coefficient is 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sum<T> {
    terms: SmallVec<[(T, i64); 4]>,
    /// The part without a term.
    pub constant: i64,
}

impl<T> Default for Sum<T> {
    fn default() -> Self {
        Sum {
            terms: SmallVec::new(),
            constant: 0,
        }
    }
}

impl<T: Copy + Ord> Sum<T> {
    /// The number `c`.
    pub fn number(c: i64) -> Self {
        Sum {
            terms: SmallVec::new(),
            constant: c,
        }
    }

    /// `coefficient * term`, without looking inside.
    pub fn term(term: T, coefficient: i64) -> Self {
        let mut sum = Sum::default();
        if coefficient != 0 {
            sum.terms.push((term, coefficient));
        }
        sum
    }

    /// The sum of terms in any order, each any number of times.
    pub fn collect(mut terms: SmallVec<[(T, i64); 4]>, constant: i64) -> Self {
        terms.sort_unstable_by_key(|t| t.0);
        terms.dedup_by(|next, last| {
            let same = next.0 == last.0;
            if same {
                last.1 = last.1.wrapping_add(next.1);
            }
            same
        });
        terms.retain(|t| t.1 != 0);
        Sum { terms, constant }
    }

    /// The terms with their coefficients, sorted.
    pub fn terms(&self) -> &[(T, i64)] {
        &self.terms
    }

    /// True if there is no term.
    pub fn is_number(&self) -> bool {
        self.terms.is_empty()
    }

    /// The coefficient of a term, 0 if it does not occur.
    pub fn coeff(&self, term: T) -> i64 {
        match self.terms.binary_search_by_key(&term, |t| t.0) {
            Ok(i) => self.terms[i].1,
            Err(_) => 0,
        }
    }

    /// The terms that are kept, and the constant.
    pub fn filter(&self, keep: impl Fn(T) -> bool) -> Self {
        let terms = self.terms.iter().copied().filter(|t| keep(t.0));
        Sum {
            terms: terms.collect(),
            constant: self.constant,
        }
    }

    /// The sum without one term.
    pub fn without(&self, term: T) -> Self {
        self.filter(|t| t != term)
    }

    /// The terms alone.
    pub fn without_constant(&self) -> Self {
        Sum {
            terms: self.terms.clone(),
            constant: 0,
        }
    }

    /// `self + k * other`.
    pub fn plus(&self, other: &Self, k: i64) -> Self {
        let mut terms = SmallVec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (&self.terms[..], &other.terms[..]);
        loop {
            let (t, c) = match (left, right) {
                ([a, rest @ ..], [b, ..]) if a.0 < b.0 => {
                    left = rest;
                    *a
                }
                ([a, after @ ..], [b, rest @ ..]) if a.0 == b.0 => {
                    (left, right) = (after, rest);
                    (a.0, a.1.wrapping_add(b.1.wrapping_mul(k)))
                }
                (_, [b, rest @ ..]) => {
                    right = rest;
                    (b.0, b.1.wrapping_mul(k))
                }
                ([a, rest @ ..], []) => {
                    left = rest;
                    *a
                }
                ([], []) => break,
            };
            if c != 0 {
                terms.push((t, c));
            }
        }
        Sum {
            terms,
            constant: (self.constant).wrapping_add(other.constant.wrapping_mul(k)),
        }
    }

    /// `k * self`.
    pub fn scale(&self, k: i64) -> Self {
        Sum::default().plus(self, k)
    }

    /// `k * self` if no coefficient leaves `i64`.
    pub fn checked_scale(&self, k: i64) -> Option<Self> {
        self.constant.checked_mul(k)?;
        self.terms
            .iter()
            .try_for_each(|t| t.1.checked_mul(k).map(drop))?;
        Some(self.scale(k))
    }

    /// `self + c`.
    pub fn offset(&self, c: i64) -> Self {
        let mut sum = self.clone();
        sum.constant = sum.constant.wrapping_add(c);
        sum
    }

    /// Greatest common divisor of the coefficients (not of the constant); 0 for a number.
    pub fn gcd(&self) -> i64 {
        self.terms.iter().fold(0, |g, t| gcd(g, t.1))
    }

    /// `(whole, rest)` with `self = whole * c + rest`: the terms whose coefficient `c` divides go to
    /// `whole`, and as much of the constant as leaves `0 <= rest.constant < c`. `c` is positive.
    pub fn split(&self, c: i64) -> (Self, Self) {
        let mut whole = Sum::number(self.constant.div_euclid(c));
        let mut rest = Sum::number(self.constant.rem_euclid(c));
        for &(t, k) in &self.terms {
            if k % c == 0 {
                whole.terms.push((t, k / c));
            } else {
                rest.terms.push((t, k));
            }
        }
        (whole, rest)
    }

    /// The sum with its coefficients and constant reduced modulo `c`, which is positive.
    pub fn residue(&self, c: i64) -> Self {
        let terms = self.terms.iter().map(|&(t, k)| (t, k % c));
        Sum {
            terms: terms.filter(|t| t.1 != 0).collect(),
            constant: self.constant.rem_euclid(c),
        }
    }
}

/// Greatest common divisor, not negative (`i64::MIN` counts as 1: it is no useful stride).
pub fn gcd(a: i64, b: i64) -> i64 {
    let (Some(mut a), Some(mut b)) = (a.checked_abs(), b.checked_abs()) else {
        return 1;
    };
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(terms: &[(u8, i64)], constant: i64) -> Sum<u8> {
        Sum::collect(terms.iter().copied().collect(), constant)
    }

    #[test]
    fn sums_have_one_form() {
        let (a, b) = (
            sum(&[(3, 2), (1, 5), (3, -2)], 1),
            sum(&[(1, -5), (2, 4)], 6),
        );
        assert_eq!(a, Sum::term(1, 5).offset(1));
        assert_eq!(a.plus(&b, 1), sum(&[(2, 4)], 7));
        assert_eq!(b.plus(&a, 2), sum(&[(1, 5), (2, 4)], 8));
        assert_eq!(a.plus(&a, -1), Sum::number(0));
        // Exact modulo 2^64.
        assert!(Sum::term(1u8, i64::MIN).scale(2).is_number());
        assert_eq!(Sum::term(1u8, i64::MIN).checked_scale(2), None);
    }

    #[test]
    fn what_was_split_is_the_sum_again() {
        let all = sum(&[(1, 12), (2, -8), (3, 5), (4, -7)], -3);
        for c in 1..20 {
            let (whole, rest) = all.split(c);
            assert_eq!(rest.plus(&whole, c), all);
            assert!((0..c).contains(&rest.constant));
            let residue = all.residue(c);
            assert!(all.plus(&residue, -1).split(c).1 == Sum::number(0), "{c}");
        }
    }
}
