//! Replication: `Upcast` ranges become copies of the stores that depend on them, `Unroll` ranges
//! become copies of the reduced value. Equal subexpressions of the copies are one node again
//! because the arena is hash-consed.

use hashbrown::HashMap;

use crate::ir::{Graph, Id, Op, RangeKind, Src};
use crate::rewrite::{simplify, substitute, toposort};

/// More independent accumulators than this do not hide more latency.
const MAX_ACCUMULATORS: i64 = 8;

/// Replaces every `Upcast` range under `sink` by constants.
pub(super) fn upcasts(g: &mut Graph, sink: Id) -> Id {
    let stores: Vec<Id> = g.src(sink).to_vec();
    let mut copies = Vec::new();
    for store in stores {
        let upcasts = ranges_below(g, store, RangeKind::Upcast);
        for_each_combination(g, &upcasts, |g, map| {
            copies.push(substitute(g, store, map));
        });
    }
    let sink = g.sink(&copies);
    simplify(g, sink)
}

pub(super) fn ranges_below(g: &Graph, root: Id, wanted: RangeKind) -> Vec<Id> {
    let mut found: Vec<Id> = toposort(g, root)
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Range { kind, .. } if kind == wanted))
        .collect();
    found.sort_by_key(|&n| axis_of(g, n));
    found
}

fn is_kind(g: &Graph, range: Id, wanted: RangeKind) -> bool {
    matches!(g.op(range), Op::Range { kind, .. } if kind == wanted)
}

fn axis_of(g: &Graph, range: Id) -> u32 {
    match g.op(range) {
        Op::Range { axis, .. } => axis,
        _ => u32::MAX,
    }
}

pub(super) fn extent_of(g: &Graph, range: Id) -> i64 {
    match g.op(range) {
        Op::Range { extent, .. } => extent,
        _ => 1,
    }
}

/// Calls `f` with each assignment of constants to the ranges, the last range fastest.
pub(super) fn for_each_combination(
    g: &mut Graph,
    ranges: &[Id],
    mut f: impl FnMut(&mut Graph, &HashMap<Id, Id>),
) {
    let extents: Vec<i64> = ranges.iter().map(|&r| extent_of(g, r)).collect();
    let total: i64 = extents.iter().product();
    for flat in 0..total {
        let mut rest = flat;
        let mut map = HashMap::new();
        for (&range, &extent) in ranges.iter().zip(&extents).rev() {
            let value = g.index(rest % extent);
            rest /= extent;
            map.insert(range, value);
        }
        f(g, &map);
    }
}

/// Replaces every `Unroll` range under `sink` by constants.
pub(super) fn unrolls(g: &mut Graph, sink: Id) -> Id {
    let mut done: HashMap<Id, Id> = HashMap::new();
    for n in toposort(g, sink) {
        let node = g.node(n).clone();
        let src: Src = node.src.iter().map(|s| done[s]).collect();
        let new = match node.op {
            Op::Reduce(op) => {
                let (unrolled, kept): (Vec<Id>, Vec<Id>) = src[1..]
                    .iter()
                    .partition(|&&r| is_kind(g, r, RangeKind::Unroll));
                // Where the accumulators are replicated anyhow, more of them only cost registers.
                let upcast: i64 = ranges_below(g, src[0], RangeKind::Upcast)
                    .iter()
                    .map(|&r| extent_of(g, r))
                    .product();
                let total: i64 = unrolled.iter().map(|&r| extent_of(g, r)).product();
                let chain = kept.is_empty() || upcast >= 4 || total > MAX_ACCUMULATORS;
                let mut parts = Vec::new();
                for_each_combination(g, &unrolled, |g, map| {
                    let value = substitute(g, src[0], map);
                    parts.push(value);
                });
                if chain {
                    let value = combine(g, op.binary(), parts);
                    with_ranges(g, op, value, &kept)
                } else {
                    // Lanes and work-items are combined once, after the accumulators: not once for
                    // each of them.
                    let (lanes, loops): (Vec<Id>, Vec<Id>) = kept.iter().partition(|&&r| {
                        is_kind(g, r, RangeKind::Vec) || is_kind(g, r, RangeKind::GroupReduce)
                    });
                    let parts = parts
                        .into_iter()
                        .map(|v| with_ranges(g, op, v, &loops))
                        .collect();
                    let value = combine(g, op.binary(), parts);
                    with_ranges(g, op, value, &lanes)
                }
            }
            op => g.add(op, node.dtype, &src),
        };
        done.insert(n, new);
    }
    done[&sink]
}

fn with_ranges(g: &mut Graph, op: crate::ir::ReduceOp, value: Id, ranges: &[Id]) -> Id {
    if ranges.is_empty() {
        value
    } else {
        g.reduce(op, value, ranges)
    }
}

/// Combines pairwise, so that the chain of dependent operations is short.
fn combine(g: &mut Graph, op: crate::ir::Binary, mut parts: Vec<Id>) -> Id {
    while parts.len() > 1 {
        parts = parts
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => g.binary(op, *a, *b),
                _ => pair[0],
            })
            .collect();
    }
    parts[0]
}
