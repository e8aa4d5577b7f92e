//! Index arithmetic of a graph as sums of its nodes.
//!
//! Addition and multiplication by a constant are exact modulo 2^64, like the `I64` they describe,
//! so going to the normal form and back never changes a value. Whoever divides must first prove by
//! [`Bounds`](super::Bounds) that nothing wraps.

use smallvec::SmallVec;

use super::sum::Sum;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, RangeSets, Unary};

/// Nodes looked at for one normal form. A longer sum is one opaque term: this keeps the work on a
/// chain of n additions linear in n.
const LIMIT: usize = 256;

/// A sum of `I64` nodes.
pub type Lin = Sum<Id>;

/// The integer value of an `I64` constant.
pub fn index_const(g: &Graph, id: Id) -> Option<i64> {
    match g.op(id) {
        Op::Const(bits) if g.dtype(id) == DType::I64 => Some(bits as i64),
        _ => None,
    }
}

impl Lin {
    /// The normal form of an `I64` node.
    pub fn of(g: &Graph, id: Id) -> Self {
        let mut terms: SmallVec<[(Id, i64); 4]> = SmallVec::new();
        let mut constant = 0i64;
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
                _ if node.dtype != DType::I64 => terms.push((n, k)),
                (Op::Const(bits), _) => {
                    constant = constant.wrapping_add(k.wrapping_mul(bits as i64));
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
                        terms.push((n, k));
                    }
                }
                (Op::Binary(Binary::Shl), &[a, b]) => match index_const(g, b) {
                    Some(c @ 0..64) => stack.push((a, k.wrapping_shl(c as u32))),
                    _ => terms.push((n, k)),
                },
                _ => terms.push((n, k)),
            }
        }
        Lin::collect(terms, constant)
    }

    /// The coefficient of `range` if the sum is linear in it: no other term depends on it (`r / 4`
    /// would).
    pub fn stride(&self, g: &Graph, sets: &mut RangeSets, range: Id) -> Option<i64> {
        let hidden = self
            .terms()
            .iter()
            .any(|&(t, _)| t != range && sets.depends(g, t, range));
        (!hidden).then(|| self.coeff(range))
    }

    /// The canonical node: `t0*c0 + t1*c1 + ... + constant`, terms by id, no subtraction.
    pub fn to_graph(&self, g: &mut Graph) -> Id {
        let mut sum = None;
        for &(t, k) in self.terms() {
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
