//! Long sums are added up in blocks. A sum of many floats in one accumulator loses digits: late terms
//! are small beside what is there, and each addition rounds to the digits of the whole. So a loop that
//! takes many steps becomes two, the inner one short: it sums a block from zero, and the outer one adds
//! up the blocks with what each addition rounds away (see `linear::emit::carry`). The error is that of
//! one block, however many there are.
//!
//! This is done where loops are written, for every way that a sum is spread over lanes, copies,
//! work-items and groups, and for every renderer.

use hashbrown::HashMap;

use super::expand::extent_of;
use super::nest::fresh_axis;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, RangeKind, ReduceOp, Src};
use crate::rewrite::{simplify_loops, substitute, toposort};

/// How long a loop over one accumulator may be, and how long the blocks of a longer one are.
struct Lengths {
    longest: i64,
    block: i64,
}

/// Sums with few accumulators wait for memory; there the second level costs nothing.
const SUM: Lengths = Lengths {
    longest: 64,
    block: 32,
};

/// The accumulators of a tile fill the registers, so that those of the second level are in memory. They
/// are read and written once in a block.
const TILE: Lengths = Lengths {
    longest: 256,
    block: 256,
};

/// So many accumulators leave room in the registers for a second level.
const FEW: usize = 8;

/// Splits the loops of long sums below `sink`.
pub(super) fn split(g: &mut Graph, sink: Id) -> Id {
    let order = toposort(g, sink);
    // The accumulators of each list of loops: they advance together, and stay together.
    let mut groups: Vec<(Vec<Id>, Vec<Id>)> = Vec::new();
    for &n in &order {
        if !matches!(g.op(n), Op::Reduce(_)) {
            continue;
        }
        let list = loops(g, n);
        match groups.iter_mut().find(|(of, _)| *of == list) {
            Some((_, members)) => members.push(n),
            None => groups.push((list, vec![n])),
        }
    }
    let mut next = fresh_axis(g, sink);
    let mut plans: HashMap<Vec<Id>, Plan> = HashMap::new();
    for (list, members) in groups {
        let lengths = if members.len() > FEW { TILE } else { SUM };
        let long = members.iter().any(|&n| rounds(g, n)) && plain(g, &members);
        if let Some(plan) = long
            .then(|| Plan::of(g, &list, &lengths, &mut next))
            .flatten()
        {
            plans.insert(list, plan);
        }
    }
    if plans.is_empty() {
        return sink;
    }
    let mut done: HashMap<Id, Id> = HashMap::new();
    for n in order {
        let node = g.node(n).clone();
        let src: Src = node.src.iter().map(|s| done[s]).collect();
        let made = match (node.op, plans.get(&loops(g, n))) {
            (Op::Reduce(op), Some(plan)) => plan.apply(g, op, &src),
            (op, _) => g.add(op, node.dtype, &src),
        };
        done.insert(n, made);
    }
    // A block of what is the same at each of its steps is one still: what is added up knows it by that.
    simplify_loops(g, done[&sink])
}

/// A sum of which each step rounds.
fn rounds(g: &Graph, n: Id) -> bool {
    g.op(n) == Op::Reduce(ReduceOp::Add) && matches!(g.dtype(n), DType::F32 | DType::F64)
}

/// Nothing below them counts the steps of a loop: what is copied to local memory ahead of its use does.
fn plain(g: &Graph, members: &[Id]) -> bool {
    let counts = |n: &Id| {
        matches!(
            g.op(*n),
            Op::Fence { .. } | Op::Local { .. } | Op::Operand(_) | Op::Mma(_)
        )
    };
    let mut values = members.iter().map(|&n| g.src(n)[0]);
    values.all(|value| !toposort(g, value).iter().any(counts))
}

/// The loops of a reduction, the outermost first.
fn loops(g: &Graph, n: Id) -> Vec<Id> {
    let mut list: Vec<(u32, Id)> = Vec::new();
    if matches!(g.op(n), Op::Reduce(_)) {
        for &r in &g.src(n)[1..] {
            if let Op::Range {
                axis,
                kind: RangeKind::Reduce,
                ..
            } = g.op(r)
            {
                list.push((axis, r));
            }
        }
    }
    list.sort_unstable();
    list.into_iter().map(|(_, r)| r).collect()
}

/// How the loops of one list become two levels.
struct Plan {
    /// The loops of the list, and those around the blocks.
    all: Vec<Id>,
    outer: Vec<Id>,
    /// The loops of a block, and what stands for those of the list in it.
    inner: Vec<Id>,
    main: HashMap<Id, Id>,
    /// The loop over blocks, if one was divided, and what its blocks leave.
    divided: Option<Id>,
    rest: Option<(Vec<Id>, HashMap<Id, Id>)>,
}

impl Plan {
    /// `None` where the loops are short.
    fn of(g: &mut Graph, list: &[Id], lengths: &Lengths, next: &mut u32) -> Option<Plan> {
        let steps = list
            .iter()
            .fold(1i64, |n, &r| n.saturating_mul(extent_of(g, r)));
        if steps <= lengths.longest {
            return None;
        }
        let mut fresh = |g: &mut Graph, extent: i64| {
            *next += 1;
            g.range(*next - 1, extent, RangeKind::Reduce)
        };
        // Whole loops from the innermost one outwards, as many as fit in a block.
        let (mut whole, mut size) = (list.len(), 1i64);
        while whole > 0 && size.saturating_mul(extent_of(g, list[whole - 1])) <= lengths.block {
            whole -= 1;
            size *= extent_of(g, list[whole]);
        }
        let part = lengths.block / size;
        let mut plan = Plan {
            all: list.to_vec(),
            outer: list[..whole].to_vec(),
            inner: Vec::new(),
            main: HashMap::new(),
            divided: None,
            rest: None,
        };
        let mut rest = HashMap::new();
        let cut = (part >= 2).then(|| plan.outer.pop()).flatten();
        let mut left = None;
        if let Some(r) = cut {
            // A part that divides leaves nothing to do apart.
            let extent = extent_of(g, r);
            let whole = (part / 2 + 1..=part).rev().find(|n| extent % n == 0);
            let part = whole.unwrap_or(part);
            let (over, within) = (fresh(g, extent / part), fresh(g, part));
            let n = g.index(part);
            let first = g.binary(Binary::Mul, over, n);
            let at = g.binary(Binary::Add, first, within);
            plan.main.insert(r, at);
            plan.inner.push(within);
            plan.divided = Some(over);
            if extent % part > 0 {
                let after = fresh(g, extent % part);
                let start = g.index(extent - extent % part);
                rest.insert(r, g.binary(Binary::Add, start, after));
                left = Some(vec![after]);
            }
        }
        for &r in &list[whole..] {
            let n = extent_of(g, r);
            let new = fresh(g, n);
            plan.main.insert(r, new);
            plan.inner.push(new);
            if let Some(left) = &mut left {
                let new = fresh(g, n);
                rest.insert(r, new);
                left.push(new);
            }
        }
        plan.rest = left.map(|left| (left, rest));
        Some(plan)
    }

    /// A reduction with this list of loops, in two levels.
    fn apply(&self, g: &mut Graph, op: ReduceOp, src: &[Id]) -> Id {
        let value = substitute(g, src[0], &self.main);
        let mut total = g.reduce(op, value, &self.inner);
        let mut around = self.outer.clone();
        match (&self.rest, self.divided) {
            (Some((left, map)), Some(over)) => {
                let blocks = g.reduce(op, total, &[over]);
                let value = substitute(g, src[0], map);
                let rest = g.reduce(op, value, left);
                total = g.binary(op.binary(), blocks, rest);
            }
            (_, over) => around.extend(over),
        }
        // Lanes and work-items are combined at the end, once.
        around.extend(src[1..].iter().filter(|r| !self.all.contains(r)));
        if around.is_empty() {
            return total;
        }
        g.reduce(op, total, &around)
    }
}
