//! How values depend on a lane index: which loads are contiguous, which comparisons are masks.

use hashbrown::HashMap;

use super::nest::{Ranges, Set};
use super::program::Access;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, StoreMode, Unary};
use crate::rewrite::toposort;

/// What replaces the plain reading of some nodes once a range is a lane index.
#[derive(Default)]
pub(super) struct Lanes {
    /// For loads and stores: how the lanes are laid out, and the index to use.
    pub access: HashMap<Id, (Access, Id)>,
    /// Comparisons that are `lane < count` (true) or its negation (false).
    pub masks: HashMap<Id, (Id, bool)>,
}

/// Finds them. `free` are the free ranges of every node below `sink`.
pub(super) fn analyse(g: &mut Graph, sink: Id, ranges: &Ranges, free: &HashMap<Id, Set>) -> Lanes {
    let mut lanes = Lanes::default();
    if ranges.lanes == 0 {
        return lanes;
    }
    // coefficient of the lane and the rest, where the node is linear in it
    let mut lin: HashMap<Id, (i64, Id)> = HashMap::new();
    let order = toposort(g, sink);
    for &n in &order {
        if free[&n] & ranges.lanes == 0 {
            lin.insert(n, (0, n));
            continue;
        }
        let src = g.src(n).to_vec();
        let at = |i: usize| src.get(i).and_then(|s| lin.get(s)).copied();
        let constant = |id: Id| match g.op(id) {
            Op::Const(bits) => Some(bits as i64),
            _ => None,
        };
        match g.op(n) {
            Op::Range { .. } => {
                let zero = g.index(0);
                lin.insert(n, (1, zero));
            }
            Op::Binary(Binary::Add) if g.dtype(n) == DType::I64 => {
                if let (Some((ca, a)), Some((cb, b))) = (at(0), at(1)) {
                    let base = add(g, a, b);
                    lin.insert(n, (ca.wrapping_add(cb), base));
                }
            }
            Op::Binary(Binary::Sub) if g.dtype(n) == DType::I64 => {
                if let (Some((ca, a)), Some((cb, b))) = (at(0), at(1)) {
                    let base = g.binary(Binary::Sub, a, b);
                    lin.insert(n, (ca.wrapping_sub(cb), base));
                }
            }
            Op::Binary(Binary::Mul) if g.dtype(n) == DType::I64 => {
                let pair = match (constant(src[0]), constant(src[1])) {
                    (_, Some(c)) => at(0).map(|l| (l, c, src[1])),
                    (Some(c), _) => at(1).map(|l| (l, c, src[0])),
                    _ => None,
                };
                if let Some(((coeff, base), c, factor)) = pair {
                    let base = if constant_of(g, base) == Some(0) {
                        base
                    } else {
                        g.binary(Binary::Mul, base, factor)
                    };
                    lin.insert(n, (coeff.wrapping_mul(c), base));
                }
            }
            Op::Unary(Unary::Neg) if g.dtype(n) == DType::I64 => {
                if let Some((c, a)) = at(0) {
                    let base = g.unary(Unary::Neg, a);
                    lin.insert(n, (c.wrapping_neg(), base));
                }
            }
            Op::Binary(Binary::Lt) => match (at(0), at(1)) {
                (Some((1, a)), Some((0, b))) if g.dtype(src[0]) == DType::I64 => {
                    // a + lane < b
                    let count = g.binary(Binary::Sub, b, a);
                    lanes.masks.insert(n, (count, true));
                }
                (Some((0, a)), Some((1, b))) if g.dtype(src[0]) == DType::I64 => {
                    // a < b + lane is not lane < a - b + 1
                    let one = g.index(1);
                    let diff = g.binary(Binary::Sub, a, b);
                    let count = g.binary(Binary::Add, diff, one);
                    lanes.masks.insert(n, (count, false));
                }
                _ => {}
            },
            Op::Load | Op::Store(_) => {
                let gate_lanes = match g.op(n) {
                    Op::Load => src[2..].iter().any(|s| free[s] & ranges.lanes != 0),
                    _ => false,
                };
                let how = match at(1) {
                    Some((0, _)) if !gate_lanes => (Access::Contiguous, src[1]),
                    Some((1, base)) => (Access::Contiguous, base),
                    Some((by, base)) if by != 0 && plain(g, n) => (Access::Strided(by), base),
                    _ => (Access::Gather, src[1]),
                };
                lanes.access.insert(n, how);
            }
            _ => {}
        }
    }
    lanes
}

/// Without a gate, and what is stored replaces what was there.
fn plain(g: &Graph, n: Id) -> bool {
    match g.op(n) {
        Op::Load => g.src(n).len() == 2,
        Op::Store(mode) => g.src(n).len() == 3 && mode == StoreMode::Set,
        _ => false,
    }
}

fn constant_of(g: &Graph, id: Id) -> Option<i64> {
    match g.op(id) {
        Op::Const(bits) => Some(bits as i64),
        _ => None,
    }
}

fn add(g: &mut Graph, a: Id, b: Id) -> Id {
    if constant_of(g, a) == Some(0) {
        b
    } else if constant_of(g, b) == Some(0) {
        a
    } else {
        g.binary(Binary::Add, a, b)
    }
}
