//! The loop structure of a kernel: which loops can be distributed, and along which axes its accesses are
//! contiguous.

use super::super::heuristic::{stride, work};
use super::super::{RangeInfo, ranges};
use crate::ir::{Graph, Id, Kernel, Op, RangeKind, RangeSets, StoreMode};
use crate::rewrite::toposort;

/// How the loops of a kernel lie.
pub(super) struct Shape {
    /// Output ranges that groups and work-items can share out, the outermost first.
    pub outputs: Vec<RangeInfo>,
    /// Other output ranges: something is reduced outside of them.
    pub inner: Vec<RangeInfo>,
    /// The axis along which most accesses have neighbours.
    pub fast: Option<u32>,
    /// Another axis along which some loads have neighbours.
    pub other: Option<u32>,
    /// Elements of the widest type that a work-item may take at a time along the fast axis.
    pub vector: i64,
    pub reduction: Option<Reduction>,
}

/// The reductions of a kernel.
pub(super) struct Reduction {
    /// The range to share out of each reduction that is not inside another one.
    pub ranges: Vec<u32>,
    /// Iterations of the longest one.
    pub length: i64,
    /// Its loads have neighbours along this reduced axis.
    pub along: Option<u32>,
    /// An output axis that some of its loads do not depend on.
    pub shared: Option<u32>,
    /// Bytes per work-item that all reductions need in local memory.
    pub bytes: i64,
}

/// The store that does the most.
fn main_store(g: &Graph, sets: &mut RangeSets, sink: Id) -> Option<Id> {
    let mut main: Option<(f64, Id)> = None;
    for &s in g.src(sink) {
        let accesses = toposort(g, s).into_iter();
        let accesses = accesses.filter(|&n| matches!(g.op(n), Op::Load | Op::Store(_)));
        let total: f64 = accesses.map(|n| work(g, sets, n)).sum();
        if main.is_none_or(|m| total > m.0) {
            main = Some((total, s));
        }
    }
    main.map(|m| m.1)
}

pub(super) fn reduces_below(g: &Graph, root: Id) -> Vec<Id> {
    toposort(g, root)
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Reduce(_)))
        .collect()
}

/// The ranges that a reduction binds.
fn bound(g: &Graph, all: &[RangeInfo], reduce: Id) -> Vec<RangeInfo> {
    let ids = &g.src(reduce)[1..];
    all.iter()
        .copied()
        .filter(|r| ids.contains(&r.id))
        .collect()
}

/// Loads and stores below a node.
pub(super) fn accesses(g: &Graph, root: Id) -> Vec<Id> {
    toposort(g, root)
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Load | Op::Store(_)))
        .collect()
}

/// Bytes of the accesses that go to neighbours along a range, times how often they happen.
fn neighbours(g: &Graph, sets: &mut RangeSets, all: &[Id], r: Id) -> f64 {
    let mut bytes = 0.0;
    for &n in all {
        if stride(g, sets, g.src(n)[1], r) == Some(1) {
            bytes += g.dtype(n).size() as f64 * work(g, sets, n);
        }
    }
    bytes
}

impl Shape {
    pub fn of(kernel: &Kernel) -> Option<Shape> {
        let g = &kernel.graph;
        let mut sets = RangeSets::default();
        let main = main_store(g, &mut sets, kernel.sink)?;
        let reduces = reduces_below(g, kernel.sink);
        let own = sets.of(g, main).to_vec();
        let all = ranges(g, kernel.sink);
        let loops: Vec<RangeInfo> = all
            .iter()
            .copied()
            .filter(|r| r.kind == RangeKind::Loop && own.contains(&r.id))
            .collect();
        // A reduction that does not depend on the range would be done again in each group, and so
        // would a combining store, which counts.
        let combining: Vec<Id> = g
            .src(kernel.sink)
            .iter()
            .copied()
            .filter(|&s| matches!(g.op(s), Op::Store(mode) if mode != StoreMode::Set))
            .collect();
        let (outputs, inner): (Vec<RangeInfo>, Vec<RangeInfo>) = loops.into_iter().partition(|r| {
            let mut with = reduces.iter().chain(&combining);
            with.all(|&n| sets.depends(g, n, r.id))
        });
        let every = accesses(g, kernel.sink);
        let best = |sets: &mut RangeSets, list: &[RangeInfo], all: &[Id]| {
            let mut best: Option<(f64, u32)> = None;
            for r in list {
                let bytes = neighbours(g, sets, all, r.id);
                if bytes > 0.0 && best.is_none_or(|b| bytes >= b.0) {
                    best = Some((bytes, r.axis));
                }
            }
            best
        };
        // What is stored counts first: half a line that is written is read before.
        let stores: Vec<Id> = g.src(kernel.sink).to_vec();
        let fast = best(&mut sets, &outputs, &stores).or_else(|| best(&mut sets, &outputs, &every));
        let fast = fast.map(|f| f.1).or(outputs.last().map(|r| r.axis));
        let rest: Vec<RangeInfo> = outputs
            .iter()
            .copied()
            .filter(|r| Some(r.axis) != fast)
            .collect();
        let other = best(&mut sets, &rest, &every).map(|f| f.1);
        let vector = outputs
            .iter()
            .find(|r| Some(r.axis) == fast)
            .map_or(1, |r| vector_of(g, &mut sets, &every, *r));
        let reduction = (!reduces.is_empty()).then(|| {
            let mut longest = (0, reduces[0]);
            let mut bytes = 0;
            for &n in &reduces {
                let bound = bound(g, &all, n);
                let length = bound.iter().fold(1i64, |p, r| p.saturating_mul(r.extent));
                bytes += g.dtype(n).size().max(4) as i64;
                longest = longest.max((length, n));
            }
            let value = g.src(longest.1)[0];
            let loads = accesses(g, value);
            let along = best(&mut sets, &bound(g, &all, longest.1), &loads);
            let across = best(&mut sets, &outputs, &loads);
            let along = along.filter(|a| across.is_none_or(|b| a.0 >= b.0));
            let mut list = Vec::new();
            for &n in &reduces {
                let inside = |m: &Id| {
                    let below = *m != n && reduces_below(g, g.src(*m)[0]).contains(&n);
                    below && g.src(*m)[1..].iter().any(|&r| sets.depends(g, n, r))
                };
                if reduces.iter().any(inside) {
                    continue;
                }
                let own = bound(g, &all, n);
                let loads = accesses(g, g.src(n)[0]);
                let near = best(&mut sets, &own, &loads).map(|b| b.1);
                let long = own.iter().max_by_key(|r| r.extent).map(|r| r.axis);
                list.extend(near.or(long).filter(|axis| !list.contains(axis)));
            }
            let shared = outputs.iter().find(|r| {
                loads.iter().any(|&l| !sets.depends(g, l, r.id))
                    && loads.iter().any(|&l| sets.depends(g, l, r.id))
            });
            Reduction {
                length: longest.0,
                along: along.map(|a| a.1),
                shared: shared.map(|r| r.axis),
                bytes,
                ranges: list,
            }
        });
        Some(Shape {
            outputs,
            inner,
            fast,
            other,
            vector,
            reduction,
        })
    }

    pub fn count(&self) -> i64 {
        self.outputs
            .iter()
            .fold(1i64, |p, r| p.saturating_mul(r.extent))
    }
}

/// Elements along a range that every access takes as one vector (or as one element for all): as
/// many as the widest access has room for. The gates must be the same for all of them.
pub(super) fn vector_of(g: &Graph, sets: &mut RangeSets, all: &[Id], r: RangeInfo) -> i64 {
    let mut widest = 1;
    for &n in all {
        if !sets.depends(g, n, r.id) {
            continue;
        }
        widest = widest.max(g.dtype(n).size() as i64);
        let src = g.src(n);
        let gate = match g.op(n) {
            Op::Load => src.get(2),
            _ => src.get(3),
        };
        let plain = matches!(g.op(n), Op::Load | Op::Store(StoreMode::Set));
        let gated = gate.is_some_and(|&gate| sets.depends(g, gate, r.id));
        let by = stride(g, sets, src[1], r.id);
        let fits = match g.op(n) {
            Op::Load => matches!(by, Some(0 | 1)),
            _ => by == Some(1),
        };
        if gated || !plain || !fits {
            return 1;
        }
    }
    let mut n = (16 / widest).max(1);
    while n > 1 && r.extent % n != 0 {
        n /= 2;
    }
    n
}
