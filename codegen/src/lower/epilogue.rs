//! What follows a sum is written once. A tile of sums is kept in registers, one vector for each copy of
//! the loop body, and what is done to a sum afterwards (an activation, a residual, stores to elements at
//! a distance) would be there once for each of them: thousands of instructions, which the compiler takes
//! most of its time for. Where it is much, the tile goes to memory on the stack, and a loop over its
//! rows does the rest.

use hashbrown::{HashMap, HashSet};

use super::expand::{extent_of, for_each_combination, ranges_below};
use super::nest::fresh_axis;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, RangeKind, RangeSets, StoreMode};
use crate::rewrite::{substitute, toposort};
use crate::symbolic::Lin;

/// Instructions after the sums, over all copies, from which on a loop does them: what they take to
/// compile outweighs what it takes to go through memory.
const MUCH: i64 = 128;

/// Instructions of a function that is made of others.
const FUNCTION: i64 = 16;

/// Bytes on the stack at most: two of the largest tiles. Those who run kernels have small stacks.
const MOST: i64 = 4096;

/// A loop over fewer rows is not worth its branches.
const ROWS: i64 = 4;

/// Turns the rows of each store of `sink` into a loop where that is worth it.
pub(super) fn roll(g: &mut Graph, sink: Id) -> Id {
    let stores = g.src(sink).to_vec();
    let mut new = Vec::with_capacity(stores.len());
    let (mut next, mut block) = (fresh_axis(g, sink), 0);
    for store in stores {
        let rolled = rolled(g, store, next, &mut block);
        next += u32::from(rolled.is_some());
        new.push(rolled.unwrap_or(store));
    }
    g.sink(&new)
}

/// A store whose rows are a loop with a number of its own; `None` to leave it as it is.
fn rolled(g: &mut Graph, store: Id, axis: u32, block: &mut u16) -> Option<Id> {
    if g.op(store) != Op::Store(StoreMode::Set) {
        return None;
    }
    let upcasts = ranges_below(g, store, RangeKind::Upcast);
    let rows = *upcasts.iter().max_by_key(|&&r| extent_of(g, r))?;
    let mut sets = RangeSets::build(g, store);
    let sums = sums(g, &mut sets, store, &upcasts)?;
    let below: HashSet<Id> = sums.iter().copied().collect();
    let copies: i64 = upcasts.iter().map(|&r| extent_of(g, r)).product();
    let much = copies.saturating_mul(cost(g, &mut sets, store, &below)) >= MUCH;
    if !much || extent_of(g, rows) < ROWS {
        return None;
    }
    let lanes = ranges_below(g, store, RangeKind::Vec);
    let row = g.range(axis, extent_of(g, rows), RangeKind::Loop);
    let (mut fills, mut bytes) = (Vec::new(), 0);
    let mut places = Vec::new();
    for sum in sums {
        let of = sets.of(g, sum).to_vec();
        let has = |r: &&Id| of.contains(r);
        let (copied, lane): (Vec<Id>, Vec<Id>) = (
            upcasts.iter().filter(has).copied().collect(),
            lanes.iter().filter(has).copied().collect(),
        );
        let all = copied.iter().chain(&lane);
        let len = all.clone().map(|&r| extent_of(g, r)).product::<i64>();
        // Lanes last: the place of a vector is that of its first lane.
        let mut place = g.index(0);
        for &r in all {
            let n = g.index(extent_of(g, r));
            place = g.binary(Binary::Mul, place, n);
            place = g.binary(Binary::Add, place, r);
        }
        let (op, dtype) = (
            Op::Local {
                block: *block,
                len: u32::try_from(len).ok()?,
            },
            g.dtype(sum),
        );
        bytes += len.saturating_mul(dtype.size() as i64);
        if bytes > MOST {
            return None;
        }
        *block += 1;
        let empty = g.add(op, dtype, &[]);
        for_each_combination(g, &copied, |g, map| {
            let (at, value) = (substitute(g, place, map), substitute(g, sum, map));
            fills.push(g.store(StoreMode::Set, empty, at, value, None));
        });
        places.push((sum, op, place));
    }
    let fence = g.add(Op::Fence { ahead: 0, early: 0 }, DType::Bool, &fills);
    let mut map = HashMap::from_iter([(rows, row)]);
    for (sum, op, place) in places {
        let full = g.add(op, g.dtype(sum), &[fence]);
        let at = substitute(g, place, &HashMap::from_iter([(rows, row)]));
        let value = g.load(full, at);
        map.insert(sum, value);
    }
    Some(substitute(g, store, &map))
}

/// The outermost reductions below a store that are computed for each copy. `None` if there are none, or
/// if something is not to be computed twice.
fn sums(g: &Graph, sets: &mut RangeSets, store: Id, upcasts: &[Id]) -> Option<Vec<Id>> {
    let order = toposort(g, store);
    let plain = |&n: &Id| !matches!(g.op(n), Op::Scan(_) | Op::Fence { .. } | Op::Mma(_));
    if !order.iter().all(plain) {
        return None;
    }
    let mut found = Vec::new();
    let (mut pending, mut seen) = (vec![store], HashSet::new());
    while let Some(n) = pending.pop() {
        if !seen.insert(n) {
            continue;
        }
        let copied = upcasts.iter().any(|&r| sets.depends(g, n, r));
        match g.op(n) {
            Op::Reduce(_) if copied => found.push(n),
            _ => pending.extend_from_slice(g.src(n)),
        }
    }
    found.sort();
    (!found.is_empty()).then_some(found)
}

/// About how many instructions a store and what it stores take beside the sums, for one copy.
fn cost(g: &Graph, sets: &mut RangeSets, store: Id, sums: &HashSet<Id>) -> i64 {
    let lanes: Vec<Id> = ranges_below(g, store, RangeKind::Vec);
    let (mut cost, mut pending, mut seen) = (0, vec![store], HashSet::new());
    while let Some(n) = pending.pop() {
        if !seen.insert(n) || sums.contains(&n) {
            continue;
        }
        pending.extend_from_slice(g.src(n));
        cost += match g.op(n) {
            // One access for all lanes, or one and its part in a vector for each of them.
            Op::Load | Op::Store(_) => {
                let lin = Lin::of(g, g.src(n)[1]);
                let apart = |&&r: &&Id| !matches!(lin.stride(g, sets, r), Some(0 | 1));
                let apart = lanes.iter().filter(apart).map(|&r| 2 * extent_of(g, r));
                apart.product::<i64>().max(1)
            }
            Op::Unary(op) if op.is_function() => FUNCTION,
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Fma | Op::Cast => 1,
            _ => 0,
        };
    }
    cost
}
