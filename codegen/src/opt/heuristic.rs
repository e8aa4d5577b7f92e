//! The default optimisation steps: merge loops, vectorise the contiguous one, keep a small tile in registers, hide
//! the latency of reductions, spread the rest over groups.

use hashbrown::HashMap;

use super::{Opt, RangeInfo, apply, merge, ranges};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Kernel, Op, RangeKind, RangeSets, ReduceOp, StoreMode};
use crate::rewrite::toposort;
use crate::symbolic::Lin;
use crate::target::{Target, TargetKind};

/// Elements of work below which a kernel is one group: handing it to another core costs more.
const MIN_PARALLEL: f64 = 32768.0;
/// Elements of work that one group should have at least.
const MIN_GROUP: f64 = 8192.0;

/// Optimises a kernel for a CPU; gives the steps that were taken.
pub(crate) fn optimise(kernel: &mut Kernel, target: &Target) -> Vec<Opt> {
    let mut done = Vec::new();
    merge_all(kernel, &mut done);
    let mut take = |kernel: &mut Kernel, opt: Opt| {
        let ok = apply(kernel, &opt).is_ok();
        if ok {
            done.push(opt);
        }
        ok
    };
    for plan in vector_plans(kernel, target) {
        let VectorPlan {
            axis,
            lanes,
            reduction,
            heavy,
            masked,
            tile,
        } = plan;
        let extent = extent_of(kernel, axis);
        if !reduction && extent % i64::from(lanes.max(1)) > 1 {
            // A vector for the rest, instead of one element after the other: one that overlaps the
            // last, or one with lanes that do nothing, which a tile of sums takes in.
            let cover = Opt::Cover { axis, lanes };
            let beside = !masked || tile.is_empty();
            if beside && extent > i64::from(lanes) && take(kernel, cover) {
                for (axis, n) in tile.into_iter().filter(|t| t.0 != axis) {
                    take(kernel, Opt::Upcast { axis, n });
                }
                continue;
            }
            let padded = masked.then_some(Opt::PadTo {
                axis,
                multiple: lanes,
            });
            padded.map(|opt| take(kernel, opt));
        }
        if lanes > 1 && !take(kernel, Opt::Vec { axis, lanes }) {
            continue;
        }
        if reduction {
            let left = extent / i64::from(lanes.max(1));
            // A long body hides its latency by itself, and its copies would not fit the registers.
            let copies: &[u32] = if heavy { &[2] } else { &[8, 4, 2] };
            let n = copies
                .iter()
                .copied()
                .find(|&n| left >= i64::from(n) && left % i64::from(n) == 0);
            // A remainder would be a loop of its own; only worth it if the main loop is long.
            let n = n.or((left >= 32).then_some(if heavy { 2 } else { 4 }));
            if let Some(n) = n {
                take(kernel, Opt::Unroll { axis, n });
            }
        }
        for (axis, n) in tile {
            take(kernel, Opt::Upcast { axis, n });
        }
    }
    for opt in parallel(kernel, target) {
        take(kernel, opt);
    }
    done
}

fn extent_of(kernel: &Kernel, axis: u32) -> i64 {
    ranges(&kernel.graph, kernel.sink)
        .iter()
        .find(|r| r.axis == axis)
        .map_or(1, |r| r.extent)
}

/// Merges neighbours as long as some pair merges.
pub(super) fn merge_all(kernel: &mut Kernel, done: &mut Vec<Opt>) {
    loop {
        let all: Vec<RangeInfo> = ranges(&kernel.graph, kernel.sink)
            .into_iter()
            .filter(|r| matches!(r.kind, RangeKind::Loop | RangeKind::Reduce))
            .collect();
        let mut merged = false;
        'pairs: for (i, &a) in all.iter().enumerate() {
            for &b in all[i + 1..].iter().filter(|b| b.kind == a.kind) {
                if merge(kernel, a, b) {
                    done.push(Opt::Merge {
                        outer: a.axis,
                        inner: b.axis,
                    });
                    merged = true;
                    break 'pairs;
                }
                if merge(kernel, b, a) {
                    done.push(Opt::Merge {
                        outer: b.axis,
                        inner: a.axis,
                    });
                    merged = true;
                    break 'pairs;
                }
            }
        }
        if !merged {
            return;
        }
    }
}

/// How one loop nest is vectorised.
struct VectorPlan {
    axis: u32,
    lanes: u32,
    reduction: bool,
    /// The body computes functions that take many operations.
    heavy: bool,
    /// A rest may be done by a vector with a mask.
    masked: bool,
    tile: Vec<(u32, u32)>,
}

/// A load or store with what it costs per vector of one range.
fn access_cost(g: &Graph, sets: &mut RangeSets, n: Id, range: Id, lanes: f64) -> f64 {
    let index = g.src(n)[1];
    if !sets.depends(g, index, range) {
        // One scalar access serves all lanes, unless lanes gate it.
        let gated = g.src(n)[2..].iter().any(|&s| sets.depends(g, s, range));
        return if gated && matches!(g.op(n), Op::Load) {
            lanes
        } else {
            0.2
        };
    }
    match stride(g, sets, index, range) {
        Some(1) => 1.0,
        // Whole vectors, and a permutation for each of them.
        Some(by @ 2..=4) if matches!(g.op(n), Op::Load) && g.src(n).len() == 2 => {
            (1.5 * by as f64).min(lanes)
        }
        _ => lanes,
    }
}

/// The coefficient of a range in an index that is linear in it.
pub(super) fn stride(g: &Graph, sets: &mut RangeSets, index: Id, range: Id) -> Option<i64> {
    Lin::of(g, index).stride(g, sets, range)
}

struct Nest {
    /// The reductions of the kernel, inner ones first.
    reduces: Vec<Id>,
}

pub(super) fn work(g: &Graph, sets: &mut RangeSets, n: Id) -> f64 {
    sets.of(g, n)
        .to_vec()
        .iter()
        .map(|&r| match g.op(r) {
            Op::Range { extent, .. } => extent as f64,
            _ => 1.0,
        })
        .product()
}

/// Cost of all accesses below `root` that depend on `range` or feed what does, when `range` is
/// the lane index: accesses per vector, times how often they happen, divided by the lanes.
fn cost(g: &Graph, sets: &mut RangeSets, root: Id, range: Option<(Id, f64)>) -> f64 {
    let mut total = 0.0;
    for n in toposort(g, root) {
        if !matches!(g.op(n), Op::Load | Op::Store(_)) {
            continue;
        }
        let times = work(g, sets, n);
        total += match range {
            Some((r, lanes)) if sets.depends(g, n, r) => {
                times / lanes * access_cost(g, sets, n, r, lanes)
            }
            _ => times,
        };
    }
    total
}

fn scanned(g: &Graph, root: Id, range: Id) -> bool {
    toposort(g, root)
        .into_iter()
        .any(|n| matches!(g.op(n), Op::Scan(_)) && g.src(n)[1] == range)
}

/// The widest type that is computed with below a node decides how many lanes fit.
fn lanes_for(g: &Graph, root: Id, target: &Target) -> u32 {
    let mut widest = 1;
    for n in toposort(g, root) {
        let value = match g.op(n) {
            Op::Load | Op::Store(_) | Op::Cast | Op::Bitcast | Op::Unary(_) => true,
            // Indices are I64 but stay scalar.
            Op::Binary(_) | Op::Where | Op::Fma | Op::Dot => g.dtype(n) != DType::I64,
            _ => false,
        };
        if value {
            widest = widest.max(g.dtype(n).size());
        }
    }
    (target.vector_bytes / widest.max(2)).max(1) as u32
}

/// A range with the cost of so many lanes along it.
type Lanes = (f64, RangeInfo, u32);

fn vector_plans(kernel: &Kernel, target: &Target) -> Vec<VectorPlan> {
    let g = &kernel.graph;
    let mut sets = RangeSets::default();
    let all = ranges(g, kernel.sink);
    let info: HashMap<Id, RangeInfo> = all.iter().map(|r| (r.id, *r)).collect();
    let nest = Nest {
        reduces: toposort(g, kernel.sink)
            .into_iter()
            .filter(|&n| matches!(g.op(n), Op::Reduce(_)))
            .collect(),
    };
    let mut plans: Vec<VectorPlan> = Vec::new();
    let mut lanes_of: HashMap<Id, u32> = HashMap::new();
    let mut decided: Vec<Id> = Vec::new();
    for &s in g.src(kernel.sink) {
        let own: Vec<Id> = sets.of(g, s).to_vec();
        if own.iter().any(|r| lanes_of.contains_key(r)) {
            continue;
        }
        // The reductions that would get the lanes of an output range.
        let best = lanes_of_output(g, &mut sets, &info, s, &own, target);
        // Or the lanes run along the reductions, and the outputs are scalars.
        let inner: Vec<Id> = nest
            .reduces
            .iter()
            .copied()
            .filter(|&n| toposort(g, s).contains(&n))
            .collect();
        let mut along: Vec<(Id, RangeInfo, u32)> = Vec::new();
        for &n in &inner {
            let pick = lanes_of_reduction(g, &mut sets, &info, n, target);
            let scalar = cost(g, &mut sets, g.src(n)[0], None);
            if let Some((c, r, fit)) = pick
                && c < scalar * 0.8
            {
                along.push((n, r, fit));
            }
        }
        let output = best.filter(|&best| output_is_better(g, &mut sets, s, best, &along));
        if let Some((_, r, fit)) = output {
            along.retain(|(n, ..)| !sets.depends(g, *n, r.id));
            lanes_of.insert(r.id, fit);
            plans.push(output_plan(
                g,
                &mut sets,
                &info,
                (s, &inner),
                (r, fit),
                target,
            ));
        }
        for (n, r, fit) in along {
            if decided.contains(&r.id) {
                continue;
            }
            decided.push(r.id);
            lanes_of.insert(r.id, fit);
            // A second reduction inside of this one has its own loop in the body.
            let nested = toposort(g, g.src(n)[0])
                .iter()
                .any(|&m| matches!(g.op(m), Op::Reduce(_)) && sets.depends(g, m, r.id));
            if nested {
                continue;
            }
            plans.push(VectorPlan {
                axis: r.axis,
                lanes: fit,
                reduction: true,
                heavy: functions(g, &mut sets, g.src(n)[0], r.id),
                masked: false,
                tile: Vec::new(),
            });
        }
    }
    plans
}

/// The output range of a store along which lanes cost least.
fn lanes_of_output(
    g: &Graph,
    sets: &mut RangeSets,
    info: &HashMap<Id, RangeInfo>,
    store: Id,
    own: &[Id],
    target: &Target,
) -> Option<Lanes> {
    let lanes = lanes_for(g, store, target);
    let combine = matches!(g.op(store), Op::Store(mode) if mode != StoreMode::Set);
    let index = g.src(store)[1];
    let mut best: Option<Lanes> = None;
    let known = own.iter().filter_map(|r| info.get(r));
    for r in known.filter(|r| r.kind == RangeKind::Loop) {
        let mut fit = lanes;
        // A vector with a mask is still better than this many single elements.
        let least = match maskable(g, sets, store, r.id, target) {
            true => 5,
            false => i64::from(fit),
        };
        while i64::from(fit) > r.extent && fit > 1 && r.extent < least {
            fit /= 2;
        }
        while i64::from(fit / 2) >= r.extent && fit > 1 {
            fit /= 2;
        }
        let contiguous = stride(g, sets, index, r.id) == Some(1);
        if fit < 2 || scanned(g, store, r.id) || (combine && !contiguous) {
            continue;
        }
        if !sets.depends(g, index, r.id) {
            continue;
        }
        let c = cost(g, sets, store, Some((r.id, f64::from(fit))));
        if best.is_none_or(|b| c < b.0) {
            best = Some((c, *r, fit));
        }
    }
    best
}

/// The range of a reduction along which lanes cost least.
fn lanes_of_reduction(
    g: &Graph,
    sets: &mut RangeSets,
    info: &HashMap<Id, RangeInfo>,
    reduce: Id,
    target: &Target,
) -> Option<Lanes> {
    let value = g.src(reduce)[0];
    let lanes = lanes_for(g, value, target);
    let mut pick: Option<Lanes> = None;
    for r in g.src(reduce)[1..].iter().filter_map(|r| info.get(r)) {
        let mut fit = lanes;
        while i64::from(fit) > r.extent && fit > 1 {
            fit /= 2;
        }
        if fit < 2 || r.kind != RangeKind::Reduce {
            continue;
        }
        let c = cost(g, sets, value, Some((r.id, f64::from(fit))));
        if pick.is_none_or(|b| c < b.0) {
            pick = Some((c, *r, fit));
        }
    }
    pick
}

/// Whether lanes along an output range cost no more than lanes along the reductions that depend on it.
fn output_is_better(
    g: &Graph,
    sets: &mut RangeSets,
    store: Id,
    (c, r, _): Lanes,
    along: &[(Id, RangeInfo, u32)],
) -> bool {
    let touched: Vec<&(Id, RangeInfo, u32)> = along
        .iter()
        .filter(|(n, ..)| sets.depends(g, *n, r.id))
        .collect();
    if touched.is_empty() {
        return true;
    }
    let mut other = times_stores(g, sets, store);
    for (n, k, fit) in touched {
        other += cost(g, sets, g.src(*n)[0], Some((k.id, f64::from(*fit))));
    }
    other >= c
}

/// Lanes along an output range, and the tile of the other loops.
fn output_plan(
    g: &Graph,
    sets: &mut RangeSets,
    info: &HashMap<Id, RangeInfo>,
    (store, inner): (Id, &[Id]),
    (r, fit): (RangeInfo, u32),
    target: &Target,
) -> VectorPlan {
    let masked = maskable(g, sets, store, r.id, target);
    let vectors = match masked {
        true => (r.extent + i64::from(fit) - 1) / i64::from(fit),
        false => r.extent / i64::from(fit),
    };
    let mut tile = tile_for(g, sets, info, store, inner, r, vectors, target);
    let whole = r.extent == vectors * i64::from(fit);
    if inner.is_empty() && whole && (2..=4).contains(&vectors) && divided(g, sets, store, r.id) {
        tile.push((r.axis, vectors as u32));
    }
    VectorPlan {
        axis: r.axis,
        lanes: fit,
        reduction: false,
        heavy: false,
        masked,
        tile,
    }
}

/// Whether the lanes of a range find their places by division, as those of packed windows do. Next to
/// each other in the body their divisions leave the loops that they do not depend on.
fn divided(g: &Graph, sets: &mut RangeSets, store: Id, range: Id) -> bool {
    let divides = |n: &Id| matches!(g.op(*n), Op::Binary(Binary::FloorDiv | Binary::FloorMod));
    toposort(g, store)
        .iter()
        .any(|n| divides(n) && sets.depends(g, *n, range))
}

/// Whether functions that are made of many operations are computed for each element along a range.
fn functions(g: &Graph, sets: &mut RangeSets, value: Id, range: Id) -> bool {
    toposort(g, value)
        .into_iter()
        .any(|n| sets.depends(g, n, range) && matches!(g.op(n), Op::Unary(op) if op.is_function()))
}

/// Whether a mask over a range costs next to nothing: the target has masks, and every access goes
/// to neighbours along the range or to one place.
fn maskable(g: &Graph, sets: &mut RangeSets, store: Id, range: Id, target: &Target) -> bool {
    let masks = target.kind == TargetKind::Cpu && target.vector_bytes == 64;
    masks
        && toposort(g, store)
            .into_iter()
            .filter(|&n| matches!(g.op(n), Op::Load | Op::Store(_)))
            .all(|n| match g.op(n) {
                Op::Store(mode) if mode != StoreMode::Set => false,
                _ => matches!(stride(g, sets, g.src(n)[1], range), Some(0 | 1)),
            })
}

fn times_stores(g: &Graph, sets: &mut RangeSets, store: Id) -> f64 {
    work(g, sets, store)
}

/// Output ranges to replicate in registers: one whose copies share loads with each other.
#[allow(clippy::too_many_arguments, reason = "the facts of one nest")]
fn tile_for(
    g: &Graph,
    sets: &mut RangeSets,
    info: &HashMap<Id, RangeInfo>,
    store: Id,
    reduces: &[Id],
    lane: RangeInfo,
    vectors: i64,
    target: &Target,
) -> Vec<(u32, u32)> {
    let mut tile = Vec::new();
    let summed: Vec<Id> = reduces
        .iter()
        .copied()
        .filter(|&n| sets.depends(g, n, lane.id))
        .collect();
    let [sum] = summed[..] else { return tile };
    if !matches!(
        g.op(sum),
        Op::Reduce(ReduceOp::Add | ReduceOp::Max | ReduceOp::Min)
    ) {
        return tile;
    }
    // A long body hides its latency by itself, and what its copies would share is little beside it.
    let value = g.src(sum)[0];
    if functions(g, sets, value, lane.id) {
        return tile;
    }
    let mut budget = (target.vector_regs / 2) as i64;
    for n in [4, 2] {
        if vectors >= n && vectors % n == 0 && budget > n {
            tile.push((lane.axis, n as u32));
            budget /= n;
            break;
        }
    }
    let loads: Vec<Id> = toposort(g, g.src(sum)[0])
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Load))
        .collect();
    let mut best: Option<(usize, RangeInfo)> = None;
    for &r in sets.of(g, store).to_vec().iter() {
        let Some(r) = info
            .get(&r)
            .filter(|r| r.kind == RangeKind::Loop && r.id != lane.id)
        else {
            continue;
        };
        if !sets.depends(g, sum, r.id) {
            continue;
        }
        let shared = loads.iter().filter(|&&l| !sets.depends(g, l, r.id)).count();
        if shared > 0 && best.is_none_or(|b| shared > b.0) {
            best = Some((shared, *r));
        }
    }
    if let Some((_, r)) = best {
        for n in [8, 7, 6, 5, 4, 3, 2] {
            if n <= budget && r.extent % n == 0 {
                tile.push((r.axis, n as u32));
                break;
            }
        }
    }
    tile
}

/// Spreads the outermost output ranges over groups.
fn parallel(kernel: &Kernel, target: &Target) -> Vec<Opt> {
    let g = &kernel.graph;
    if target.kind != TargetKind::Cpu || target.cores < 2 || kernel.ordered() {
        return Vec::new();
    }
    let mut sets = RangeSets::default();
    // The store with the most work decides; others run in its groups where they share the range.
    let mut main: Option<(f64, Id)> = None;
    let mut total = 0.0;
    for &s in g.src(kernel.sink) {
        let mut w = 0.0;
        for n in toposort(g, s) {
            if matches!(g.op(n), Op::Load | Op::Store(_)) {
                w += work(g, &mut sets, n);
            }
        }
        total += w;
        if main.is_none_or(|m| w > m.0) {
            main = Some((w, s));
        }
    }
    let Some((_, store)) = main else {
        return Vec::new();
    };
    if total < MIN_PARALLEL || matches!(g.op(store), Op::Store(mode) if mode != StoreMode::Set) {
        return Vec::new();
    }
    let wanted = (target.cores as i64 * 8)
        .min((total / MIN_GROUP) as i64)
        .max(2);
    let own = sets.of(g, store).to_vec();
    let mut loops: Vec<RangeInfo> = ranges(g, kernel.sink)
        .into_iter()
        .filter(|r| r.kind == RangeKind::Loop && own.contains(&r.id))
        .collect();
    // A reduction that does not depend on the range would be done again in each group.
    let shared: Vec<Id> = toposort(g, store)
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Reduce(_)))
        .collect();
    loops.retain(|r| shared.iter().all(|&n| sets.depends(g, n, r.id)));
    let mut opts = Vec::new();
    let mut groups = 1;
    for r in loops {
        if groups >= wanted {
            break;
        }
        let need = (wanted + groups - 1) / groups;
        let chunk = if r.extent <= need * 4 {
            1
        } else {
            let most = r.extent / need;
            // A chunk that divides leaves no tail.
            (most / 2..=most)
                .rev()
                .find(|&c| c > 0 && r.extent % c == 0)
                .unwrap_or(most)
                .max(1)
        };
        let Ok(chunk32) = u32::try_from(chunk) else {
            continue;
        };
        opts.push(Opt::Thread {
            axis: r.axis,
            chunk: chunk32,
        });
        groups *= r.extent / chunk;
        if chunk > 1 {
            break;
        }
    }
    opts
}
