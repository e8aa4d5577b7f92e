//! Value ranges of integer nodes.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::lin::Lin;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, ReduceOp, Unary, scalar};

/// Smallest and largest value.
pub type Interval = (i64, i64);

/// Bounds of an integer or boolean node: `Some((lo, hi))` holds for every execution. `None`: a
/// float, or any `i64`/`u64`. For many questions use [`Bounds`].
pub fn bounds(g: &Graph, id: Id) -> Option<Interval> {
    Bounds::default().of(g, id)
}

/// Something that is assumed: the terms of a sum (without constant) lie in an interval.
#[derive(Clone, Debug)]
pub struct Fact {
    /// A sum whose constant is 0.
    pub terms: Lin,
    /// Its smallest and largest value.
    pub interval: Interval,
}

/// Bounds, each computed once, optionally under assumptions (of a guard that is known to be true).
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    memo: HashMap<Id, Option<Interval>>,
    facts: Vec<Fact>,
}

impl Bounds {
    /// Bounds that hold where all facts hold.
    pub fn under(facts: Vec<Fact>) -> Self {
        Bounds {
            memo: HashMap::new(),
            facts,
        }
    }

    /// The assumptions.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Adds an assumption; what was computed before stays true but is forgotten.
    pub fn assume(&mut self, fact: Fact) {
        self.facts.push(fact);
        self.memo.clear();
    }

    /// Bounds of a node.
    pub fn of(&mut self, g: &Graph, id: Id) -> Option<Interval> {
        if let Some(&known) = self.memo.get(&id) {
            return known;
        }
        let mut stack: SmallVec<[Id; 16]> = SmallVec::new();
        stack.push(id);
        while let Some(&n) = stack.last() {
            if self.memo.contains_key(&n) {
                stack.pop();
                continue;
            }
            let before = stack.len();
            for &s in self.inputs(g, n) {
                if !self.memo.contains_key(&s) {
                    stack.push(s);
                }
            }
            if stack.len() == before {
                stack.pop();
                let mut b = self.node(g, n);
                if !self.facts.is_empty() && g.dtype(n) == DType::I64 {
                    self.memo.insert(n, b);
                    let lin = Lin::of(g, n);
                    // A term of its own sum reads the entry just made; others are sources.
                    if lin.terms().iter().all(|(t, _)| self.memo.contains_key(t)) {
                        b = intersect(b, self.sum(&lin));
                    }
                }
                self.memo.insert(n, b);
            }
        }
        self.memo.get(&id).copied().flatten()
    }

    /// The sources that the bounds of a node are computed from.
    fn inputs<'g>(&self, g: &'g Graph, n: Id) -> &'g [Id] {
        let node = g.node(n);
        if node.dtype.is_float() {
            return &[];
        }
        match node.op {
            Op::Binary(op) if op.is_compare() => &[],
            Op::Unary(_) | Op::Binary(_) | Op::Cast => &node.src,
            Op::Where => &node.src[1..],
            Op::Reduce(ReduceOp::Max | ReduceOp::Min) => &node.src[..1],
            _ => &[],
        }
    }

    /// Bounds of a sum; exact in wide arithmetic, `None` if it could leave `i64`.
    pub fn lin(&mut self, g: &Graph, lin: &Lin) -> Option<Interval> {
        for &(t, _) in lin.terms() {
            self.of(g, t);
        }
        self.sum(lin)
    }

    /// [`Bounds::lin`] when the bounds of all terms are known.
    fn sum(&self, lin: &Lin) -> Option<Interval> {
        let mut best = narrow(self.plain_sum(lin));
        for fact in &self.facts {
            let Some(&(first, f)) = fact.terms.terms().first() else {
                continue;
            };
            // lin = k * fact.terms + rest
            let c = lin.coeff(first);
            if c == 0 || c % f != 0 {
                continue;
            }
            let k = c / f;
            let rest = lin.plus(&fact.terms, k.wrapping_neg());
            if rest.terms().len() + fact.terms.terms().len() > lin.terms().len() + 1 {
                continue;
            }
            // The rest may hold terms that only the fact has, known or not.
            if !rest.terms().iter().all(|(t, _)| self.memo.contains_key(t)) {
                continue;
            }
            let Some((rlo, rhi)) = self.plain_sum(&rest) else {
                continue;
            };
            let (flo, fhi) = (i128::from(fact.interval.0), i128::from(fact.interval.1));
            let (a, b) = (flo * i128::from(k), fhi * i128::from(k));
            // The sum must be exact for the split to be: the plain bounds prove it, or the parts.
            best = intersect(best, narrow(Some((rlo + a.min(b), rhi + a.max(b)))));
        }
        best
    }

    fn plain_sum(&self, lin: &Lin) -> Option<(i128, i128)> {
        // Sums of two such forms cannot wrap their coefficients, so callers may add and subtract
        // and ask again; products they check themselves.
        let huge = |x: i64| x.unsigned_abs() > 1 << 60;
        if huge(lin.constant) || lin.terms().iter().any(|t| huge(t.1)) {
            return None;
        }
        let (mut lo, mut hi) = (i128::from(lin.constant), i128::from(lin.constant));
        for &(t, k) in lin.terms() {
            let (a, b) = self.memo.get(&t).copied().flatten()?;
            let (a, b) = (i128::from(a) * i128::from(k), i128::from(b) * i128::from(k));
            lo += a.min(b);
            hi += a.max(b);
        }
        Some((lo, hi))
    }

    /// Bounds of a node whose inputs are known.
    fn node(&self, g: &Graph, n: Id) -> Option<Interval> {
        let node = g.node(n);
        if node.dtype.is_float() {
            return None;
        }
        let any = type_interval(node.dtype);
        let of = |i: usize| self.memo.get(&node.src[i]).copied().flatten();
        let exact = |b: Option<(i128, i128)>| within(node.dtype, b).or(any);
        match node.op {
            Op::Const(bits) => {
                let x = i64::try_from(scalar::to_int(node.dtype, bits)).ok()?;
                Some((x, x))
            }
            Op::Var { min, max, .. } if node.dtype == DType::I64 => Some((min, max)),
            Op::Range { extent, .. } => Some((0, (extent - 1).max(0))),
            Op::Unary(Unary::Neg) => exact(of(0).map(|(a, b)| (-i128::from(b), -i128::from(a)))),
            Op::Unary(Unary::Abs) => exact(of(0).map(|(a, b)| {
                let (a, b) = (i128::from(a), i128::from(b));
                let lo = if a <= 0 && b >= 0 {
                    0
                } else {
                    a.abs().min(b.abs())
                };
                (lo, a.abs().max(b.abs()))
            })),
            Op::Unary(Unary::Not) if node.dtype.is_signed() => of(0).map(|(a, b)| (!b, !a)),
            Op::Binary(op) if node.dtype != DType::Bool => self.binary(g, n, op),
            Op::Where => {
                let ((a, b), (c, d)) = (of(1)?, of(2)?);
                Some((a.min(c), b.max(d)))
            }
            Op::Cast => {
                let from = g.dtype(node.src[0]);
                if from.is_float() || node.dtype == DType::Bool {
                    return any;
                }
                exact(of(0).map(|(a, b)| (i128::from(a), i128::from(b))))
            }
            Op::Reduce(ReduceOp::Max | ReduceOp::Min) => of(0).or(any),
            _ => any,
        }
    }

    fn binary(&self, g: &Graph, n: Id, op: Binary) -> Option<Interval> {
        let node = g.node(n);
        let any = type_interval(node.dtype);
        let wide = |i: usize| -> Option<(i128, i128)> {
            let (a, b) = self.memo.get(&node.src[i]).copied().flatten()?;
            Some((i128::from(a), i128::from(b)))
        };
        let (x, y) = (wide(0), wide(1));
        let result = match (op, x, y) {
            (Binary::FloorMod, _, Some((c, d))) if c > 0 => match x {
                Some((a, b)) if a >= 0 && b < c => x,
                Some((a, b)) if c == d && a.div_euclid(c) == b.div_euclid(c) => {
                    Some((a.rem_euclid(c), b.rem_euclid(c)))
                }
                Some((a, b)) if a >= 0 => Some((0, b.min(d - 1))),
                _ => Some((0, d - 1)),
            },
            (Binary::TruncMod, _, Some((c, d))) if c > 0 => match x {
                Some((a, b)) if a >= 0 => Some((0, b.min(d - 1))),
                _ => Some((-(d - 1), d - 1)),
            },
            (Binary::And, _, Some((c, d))) if c >= 0 => match x {
                Some((a, b)) if a >= 0 => Some((0, b.min(d))),
                _ => Some((0, d)),
            },
            (Binary::And, Some((a, b)), _) if a >= 0 => Some((0, b)),
            (_, Some((a, b)), Some((c, d))) => match op {
                Binary::Add => Some((a + c, b + d)),
                Binary::Sub => Some((a - d, b - c)),
                Binary::Mul => {
                    let p = [a * c, a * d, b * c, b * d];
                    hull(&p)
                }
                Binary::Max => Some((a.max(c), b.max(d))),
                Binary::Min => Some((a.min(c), b.min(d))),
                Binary::FloorDiv if c > 0 => hull(&[
                    a.div_euclid(c),
                    a.div_euclid(d),
                    b.div_euclid(c),
                    b.div_euclid(d),
                ]),
                Binary::TruncDiv if c > 0 => hull(&[a / c, a / d, b / c, b / d]),
                Binary::Shr if c >= 0 && d < 63 => hull(&[a >> c, a >> d, b >> c, b >> d]),
                Binary::Shl if c >= 0 && d < 63 => hull(&[a << c, a << d, b << c, b << d]),
                Binary::Or | Binary::Xor if a >= 0 && c >= 0 => {
                    let top = (b | d) as u128;
                    let mask = (1i128 << (128 - top.leading_zeros())) - 1;
                    Some((if op == Binary::Or { a.max(c) } else { 0 }, mask))
                }
                _ => None,
            },
            _ => None,
        };
        within(node.dtype, result).or(any)
    }
}

fn hull(values: &[i128]) -> Option<(i128, i128)> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

/// All values of a type, if they fit an [`Interval`] usefully.
fn type_interval(dtype: DType) -> Option<Interval> {
    match dtype {
        DType::I64 | DType::U64 => None,
        _ if dtype.is_float() => None,
        _ => narrow(Some(scalar::int_limits(dtype))),
    }
}

/// True if the interval lies in the values of an integer type.
pub fn fits(dtype: DType, b: Interval) -> bool {
    let (lo, hi) = scalar::int_limits(dtype);
    lo <= i128::from(b.0) && i128::from(b.1) <= hi
}

fn within(dtype: DType, b: Option<(i128, i128)>) -> Option<Interval> {
    narrow(b).filter(|&b| fits(dtype, b))
}

fn narrow(b: Option<(i128, i128)>) -> Option<Interval> {
    let (lo, hi) = b?;
    Some((i64::try_from(lo).ok()?, i64::try_from(hi).ok()?))
}

/// Both hold. Facts that contradict each other (a guard that is never true) give the first.
fn intersect(a: Option<Interval>, b: Option<Interval>) -> Option<Interval> {
    let (Some(x), Some(y)) = (a, b) else {
        return a.or(b);
    };
    let both = (x.0.max(y.0), x.1.min(y.1));
    Some(if both.0 <= both.1 { both } else { x })
}
