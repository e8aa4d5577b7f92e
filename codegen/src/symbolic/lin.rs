//! The normal form of index arithmetic: a sum of terms times constants, plus a constant.
//!
//! Addition and multiplication by a constant are exact modulo 2^64, like the `I64` they describe,
//! so going to the normal form and back never changes a value. Whoever divides must first prove by
//! [`Bounds`](super::Bounds) that nothing wraps.

use smallvec::SmallVec;

use crate::DType;
use crate::ir::{Binary, Graph, Id, Op, Unary};

/// Nodes looked at for one normal form. A longer sum is one opaque term: this keeps the work on a
/// chain of n additions linear in n.
const LIMIT: usize = 256;

/// `sum(coefficient * term) + constant` over `I64` nodes. Terms are sorted by id and differ;
/// no coefficient is 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lin {
    terms: SmallVec<[(Id, i64); 4]>,
    /// The part without a term.
    pub constant: i64,
}

/// The integer value of an `I64` constant.
pub fn index_const(g: &Graph, id: Id) -> Option<i64> {
    match g.op(id) {
        Op::Const(bits) if g.dtype(id) == DType::I64 => Some(bits as i64),
        _ => None,
    }
}

impl Lin {
    /// The number `c`.
    pub fn number(c: i64) -> Self {
        Lin {
            terms: SmallVec::new(),
            constant: c,
        }
    }

    /// `coefficient * id`, without looking inside.
    pub fn term(id: Id, coefficient: i64) -> Self {
        let mut lin = Lin::default();
        if coefficient != 0 {
            lin.terms.push((id, coefficient));
        }
        lin
    }

    /// The normal form of an `I64` node.
    pub fn of(g: &Graph, id: Id) -> Self {
        let mut lin = Lin::default();
        let mut stack: SmallVec<[(Id, i64); 8]> = SmallVec::new();
        stack.push((id, 1));
        let mut seen = 0;
        while let Some((n, k)) = stack.pop() {
            seen += 1;
            if seen > LIMIT {
                return Lin::term(id, 1);
            }
            let node = g.node(n);
            match (node.op, node.src.as_slice()) {
                _ if node.dtype != DType::I64 => lin.terms.push((n, k)),
                (Op::Const(bits), _) => {
                    lin.constant = lin.constant.wrapping_add(k.wrapping_mul(bits as i64));
                }
                (Op::Binary(Binary::Add), &[a, b]) => stack.extend([(b, k), (a, k)]),
                (Op::Binary(Binary::Sub), &[a, b]) => {
                    stack.extend([(b, k.wrapping_neg()), (a, k)]);
                }
                (Op::Unary(Unary::Neg), &[a]) => stack.push((a, k.wrapping_neg())),
                (Op::Binary(Binary::Mul), &[a, b]) => {
                    if let Some(c) = index_const(g, b) {
                        stack.push((a, k.wrapping_mul(c)));
                    } else if let Some(c) = index_const(g, a) {
                        stack.push((b, k.wrapping_mul(c)));
                    } else {
                        lin.terms.push((n, k));
                    }
                }
                (Op::Binary(Binary::Shl), &[a, b]) => match index_const(g, b) {
                    Some(c @ 0..64) => stack.push((a, k.wrapping_shl(c as u32))),
                    _ => lin.terms.push((n, k)),
                },
                _ => lin.terms.push((n, k)),
            }
        }
        lin.normalise();
        lin
    }

    fn normalise(&mut self) {
        self.terms.sort_unstable_by_key(|t| t.0);
        let mut out: SmallVec<[(Id, i64); 4]> = SmallVec::with_capacity(self.terms.len());
        for &(id, k) in &self.terms {
            match out.last_mut() {
                Some(last) if last.0 == id => last.1 = last.1.wrapping_add(k),
                _ => out.push((id, k)),
            }
        }
        out.retain(|t| t.1 != 0);
        self.terms = out;
    }

    /// The terms with their coefficients, sorted by id.
    pub fn terms(&self) -> &[(Id, i64)] {
        &self.terms
    }

    /// True if there is no term.
    pub fn is_number(&self) -> bool {
        self.terms.is_empty()
    }

    /// The coefficient of a term, 0 if it does not occur. A range can also hide inside another
    /// term (`r / 4`); see [`Lin::stride`].
    pub fn coeff(&self, term: Id) -> i64 {
        match self.terms.binary_search_by_key(&term, |t| t.0) {
            Ok(i) => self.terms[i].1,
            Err(_) => 0,
        }
    }

    /// The coefficient of `range` if the sum is linear in it: no other term depends on it.
    pub fn stride(&self, g: &Graph, sets: &mut super::RangeSets, range: Id) -> Option<i64> {
        let hidden = self
            .terms
            .iter()
            .any(|&(t, _)| t != range && sets.depends(g, t, range));
        (!hidden).then(|| self.coeff(range))
    }

    /// The sum without one term.
    pub fn without(&self, term: Id) -> Self {
        let mut lin = self.clone();
        lin.terms.retain(|t| t.0 != term);
        lin
    }

    /// The terms alone.
    pub fn without_constant(&self) -> Self {
        Lin {
            terms: self.terms.clone(),
            constant: 0,
        }
    }

    /// `self + k * other`.
    pub fn plus(&self, other: &Lin, k: i64) -> Self {
        let mut lin = self.clone();
        for &(t, c) in &other.terms {
            lin.terms.push((t, c.wrapping_mul(k)));
        }
        lin.constant = lin.constant.wrapping_add(other.constant.wrapping_mul(k));
        lin.normalise();
        lin
    }

    /// `k * self`.
    pub fn scale(&self, k: i64) -> Self {
        Lin::default().plus(self, k)
    }

    /// `k * self` if no coefficient leaves `i64`.
    pub fn checked_scale(&self, k: i64) -> Option<Self> {
        let mut lin = Lin::number(self.constant.checked_mul(k)?);
        for &(t, c) in &self.terms {
            lin.terms.push((t, c.checked_mul(k)?));
        }
        lin.normalise();
        Some(lin)
    }

    /// `self + c`.
    pub fn offset(&self, c: i64) -> Self {
        let mut lin = self.clone();
        lin.constant = lin.constant.wrapping_add(c);
        lin
    }

    /// Greatest common divisor of the coefficients (not of the constant); 0 for a number.
    pub fn gcd(&self) -> i64 {
        self.terms.iter().fold(0, |g, t| gcd(g, t.1))
    }

    /// `(whole, rest)` with `self = whole * c + rest`: the terms whose coefficient `c` divides go to
    /// `whole`, and as much of the constant as leaves `0 <= rest.constant < c`. `c` is positive.
    pub fn split(&self, c: i64) -> (Lin, Lin) {
        let (mut whole, mut rest) = (Lin::default(), Lin::default());
        for &(t, k) in &self.terms {
            if k % c == 0 {
                whole.terms.push((t, k / c));
            } else {
                rest.terms.push((t, k));
            }
        }
        whole.constant = self.constant.div_euclid(c);
        rest.constant = self.constant.rem_euclid(c);
        (whole, rest)
    }

    /// The canonical node: `t0*c0 + t1*c1 + ... + constant`, terms by id, no subtraction.
    pub fn to_graph(&self, g: &mut Graph) -> Id {
        let mut sum = None;
        for &(t, k) in &self.terms {
            let product = if k == 1 {
                t
            } else {
                let k = g.index(k);
                g.binary(Binary::Mul, t, k)
            };
            sum = Some(match sum {
                None => product,
                Some(s) => g.binary(Binary::Add, s, product),
            });
        }
        match sum {
            None => g.index(self.constant),
            Some(s) if self.constant == 0 => s,
            Some(s) => {
                let c = g.index(self.constant);
                g.binary(Binary::Add, s, c)
            }
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
