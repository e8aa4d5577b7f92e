//! Placement of loops. Each range gets one position in a tree of loops; a value lives in the block of the innermost
//! range that it depends on.

use hashbrown::{HashMap, HashSet};

use crate::ir::{Graph, Id, Op, RangeKind};
use crate::rewrite::{substitute, toposort};

/// A set of ranges, by their index in [`Ranges::ids`].
pub(super) type Set = u128;

/// The ranges of a kernel.
pub(super) struct Ranges {
    /// The range nodes, outermost first as far as their order is free.
    pub ids: Vec<Id>,
    index: HashMap<Id, usize>,
    /// Ranges that are loops, as opposed to lanes and work-items.
    pub loops: Set,
    /// Lane ranges.
    pub lanes: Set,
}

impl Ranges {
    /// Collects the ranges below `sink`; `None` if there are too many to handle.
    pub fn collect(g: &Graph, sink: Id) -> Option<Ranges> {
        let order = toposort(g, sink);
        let scanned: HashSet<Id> = order
            .iter()
            .filter(|&&n| matches!(g.op(n), Op::Scan(_)))
            .map(|&n| g.src(n)[1])
            .collect();
        let depth = depths(g, &order);
        let mut ids: Vec<Id> = order
            .into_iter()
            .filter(|&n| matches!(g.op(n), Op::Range { .. }))
            .collect();
        ids.sort_by_key(|&n| {
            let Op::Range { axis, kind, .. } = g.op(n) else {
                return (9, 0, 0);
            };
            let class = match kind {
                RangeKind::Global => 0,
                RangeKind::Local | RangeKind::GroupReduce => 1,
                RangeKind::Serial if scanned.contains(&n) => 3,
                RangeKind::Loop | RangeKind::Serial | RangeKind::Upcast => 2,
                RangeKind::Reduce | RangeKind::Unroll => 4,
                RangeKind::Vec => 5,
            };
            let level = depth.get(&n).copied().unwrap_or(0);
            (class, if class == 4 { level } else { 0 }, axis)
        });
        if ids.len() > Set::BITS as usize {
            return None;
        }
        let index = ids.iter().enumerate().map(|(i, &r)| (r, i)).collect();
        let mut ranges = Ranges {
            ids,
            index,
            loops: 0,
            lanes: 0,
        };
        for (i, &r) in ranges.ids.iter().enumerate() {
            match g.op(r) {
                Op::Range {
                    kind: RangeKind::Vec,
                    ..
                } => ranges.lanes |= 1 << i,
                Op::Range {
                    kind: RangeKind::Local | RangeKind::GroupReduce,
                    ..
                } => {}
                _ => ranges.loops |= 1 << i,
            }
        }
        Some(ranges)
    }

    /// The set of one range.
    pub fn bit(&self, range: Id) -> Set {
        self.index.get(&range).map_or(0, |&i| 1 << i)
    }

    /// The set of several ranges.
    pub fn bits(&self, ranges: &[Id]) -> Set {
        ranges.iter().fold(0, |s, &r| s | self.bit(r))
    }

    /// The members of a set.
    pub fn members(&self, set: Set) -> impl Iterator<Item = Id> + '_ {
        bits(set).map(|i| self.ids[i])
    }

    /// The free ranges of each node below `sink`: what its value depends on.
    pub fn free(&self, g: &Graph, sink: Id) -> HashMap<Id, Set> {
        let mut free: HashMap<Id, Set> = HashMap::new();
        for n in toposort(g, sink) {
            let all = g.src(n).iter().fold(0, |s, c| s | free[c]);
            let set = match g.op(n) {
                Op::Reduce(_) => free[&g.src(n)[0]] & !self.bits(&g.src(n)[1..]),
                op => self.passed(g, n, op, all, &free),
            };
            free.insert(n, set);
        }
        free
    }

    /// What a node that is no reduction depends on; `all` is what its sources do.
    fn passed(&self, g: &Graph, n: Id, op: Op, all: Set, free: &HashMap<Id, Set>) -> Set {
        let src = g.src(n);
        match op {
            Op::Range { .. } => self.bit(n),
            // All work-items and lanes have stored.
            Op::Fence { .. } => all & self.loops,
            Op::Mma(_) => {
                let of = |i: usize, end: usize| free[&src[i]] & !self.bit(src[end]);
                of(0, 3) | of(1, 4) | free[&src[2]] | self.bit(src[5])
            }
            _ => all,
        }
    }
}

/// How far in the loops of reductions are: one that is in the body of another one is further in,
/// and the loops of one reduction are at one level. Lanes are no loops.
fn depths(g: &Graph, order: &[Id]) -> HashMap<Id, u32> {
    let loops = |n: Id| {
        let all = g.src(n)[1..].iter().copied();
        all.filter(|&r| {
            !matches!(
                g.op(r),
                Op::Range {
                    kind: RangeKind::Vec,
                    ..
                }
            )
        })
    };
    let reduces: Vec<Id> = order
        .iter()
        .rev()
        .copied()
        .filter(|&n| matches!(g.op(n), Op::Reduce(_)))
        .collect();
    let mut depth: HashMap<Id, u32> = HashMap::new();
    // Reductions that share a loop pull each other in; no nest is deeper than their number.
    for _ in 0..=reduces.len() {
        let before = depth.clone();
        for &n in &reduces {
            let Some(level) = loops(n).map(|r| depth.get(&r).copied().unwrap_or(1)).max() else {
                continue;
            };
            depth.extend(loops(n).map(|r| (r, level)));
            for inner in reduces_below(g, g.src(n)[0]) {
                for r in loops(inner) {
                    let d = depth.entry(r).or_insert(0);
                    *d = (*d).max(level + 1);
                }
            }
        }
        if depth == before {
            break;
        }
    }
    depth
}

/// The reductions below a value.
fn reduces_below(g: &Graph, root: Id) -> Vec<Id> {
    toposort(g, root)
        .into_iter()
        .filter(|&n| matches!(g.op(n), Op::Reduce(_)))
        .collect()
}

/// Indices of the members of a set, ascending.
pub(super) fn bits(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let i = set.trailing_zeros() as usize;
            set &= set - 1;
            i
        })
    })
}

/// Index of the innermost member.
pub(super) fn deepest(set: Set) -> Option<usize> {
    set.checked_ilog2().map(|i| i as usize)
}

/// The ancestors of each loop: the loops that it has to be inside.
pub(super) fn ancestors(g: &Graph, sink: Id, ranges: &Ranges) -> (HashMap<Id, Set>, Vec<Set>) {
    let order = toposort(g, sink);
    let mut above: Vec<Set> = vec![0; ranges.ids.len()];
    loop {
        let mut free: HashMap<Id, Set> = HashMap::new();
        let before = above.clone();
        for &n in &order {
            let mut set = g.src(n).iter().fold(0, |s, c| s | free[c]);
            let mut nest = set;
            match g.op(n) {
                // Stores that share no range have nothing to do with each other.
                Op::Sink => nest = 0,
                Op::Reduce(_) => {
                    let bound = ranges.bits(&g.src(n)[1..]);
                    nest = set | bound;
                    set = (free[&g.src(n)[0]]
                        | bits(bound & ranges.loops).fold(0, |s, i| s | above[i]))
                        & !bound;
                }
                op => set = ranges.passed(g, n, op, set, &free),
            }
            free.insert(n, set);
            let mut outer: Set = 0;
            for i in bits(nest & ranges.loops) {
                above[i] |= outer;
                outer |= above[i] | (1 << i);
            }
        }
        // The ancestors of one loop form a chain.
        for x in 0..above.len() {
            let mut outer: Set = 0;
            for i in bits(above[x]) {
                above[i] |= outer;
                outer |= 1 << i;
            }
        }
        if above == before {
            return (free, above);
        }
    }
}

pub(super) fn fresh_axis(g: &Graph, sink: Id) -> u32 {
    toposort(g, sink)
        .into_iter()
        .filter_map(|n| match g.op(n) {
            Op::Range { axis, .. } => Some(axis + 1),
            _ => None,
        })
        .max()
        .unwrap_or(0)
}

fn renamed(g: &mut Graph, ranges: &[Id], next: &mut u32) -> HashMap<Id, Id> {
    let mut map = HashMap::new();
    for &r in ranges {
        if let Op::Range { extent, kind, .. } = g.op(r) {
            let new = g.range(*next, extent, kind);
            *next += 1;
            map.insert(r, new);
        }
    }
    map
}

/// Gives reductions loops of their own where they share a range but not the loops around it (the main part and the
/// tail of a split loop hold copies of the same reduction, or reduce over the loops inside the split one).
pub(super) fn separate(g: &mut Graph, mut sink: Id) -> Option<Id> {
    // Each round separates at least one range; there are at most as many rounds as reductions.
    loop {
        let ranges = Ranges::collect(g, sink)?;
        let free = ranges.free(g, sink);
        let mut groups: HashMap<Id, Vec<([Set; 2], Id)>> = HashMap::new();
        for n in toposort(g, sink) {
            if matches!(g.op(n), Op::Reduce(_)) {
                let around = free[&n] & ranges.loops;
                let bound = ranges.bits(&g.src(n)[1..]) & ranges.loops;
                for i in bits(bound) {
                    let own = bound & ((1 << i) - 1);
                    let uses = groups.entry(ranges.ids[i]).or_default();
                    uses.push(([around, own], n));
                }
            }
        }
        // The outermost range first: separating it changes what the inner ones depend on.
        let mut shared: Option<(u32, Vec<Id>, Vec<Id>)> = None;
        for &r in &ranges.ids {
            let Some(uses) = groups.get(&r) else { continue };
            let first = uses[0].0;
            let others: Vec<Id> = uses.iter().filter(|u| u.0 != first).map(|u| u.1).collect();
            if let Some(&one) = others.first() {
                let set = uses.iter().find(|u| u.1 == one).map_or([0; 2], |u| u.0);
                let same = uses.iter().filter(|u| u.0 == set).map(|u| u.1).collect();
                shared = Some((0, vec![r], same));
                break;
            }
        }
        let Some((_, which, reduces)) = shared else {
            return Some(sink);
        };
        let mut next = fresh_axis(g, sink);
        let map = renamed(g, &which, &mut next);
        let mut replace = HashMap::new();
        for n in reduces {
            let new = substitute(g, n, &map);
            replace.insert(n, new);
        }
        sink = substitute(g, sink, &replace);
    }
}

/// Gives a store loops of its own where the shared ones are inside loops that it does not depend on (it would run
/// several times).
pub(super) fn isolate(g: &mut Graph, mut sink: Id) -> Option<Id> {
    let count = g.src(sink).len();
    let mut first = 0;
    // Each round gives one store loops of its own, which makes it fit for good.
    while first < count {
        let ranges = Ranges::collect(g, sink)?;
        let (free, above) = ancestors(g, sink, &ranges);
        let own = |store: Id| free[&store] & ranges.loops;
        let unfit = (first..count).find(|&i| {
            let own = own(g.src(sink)[i]);
            bits(own).fold(0, |s, r| s | above[r]) & !own != 0
        });
        let Some(i) = unfit else { break };
        first = i + 1;
        let store = g.src(sink)[i];
        let mut next = fresh_axis(g, sink);
        let movable: Vec<Id> = ranges
            .members(own(store))
            .filter(|&r| {
                !matches!(
                    g.op(r),
                    Op::Range {
                        kind: RangeKind::Global,
                        ..
                    }
                )
            })
            .collect();
        let map = renamed(g, &movable, &mut next);
        let new = substitute(g, store, &map);
        let mut stores = g.src(sink).to_vec();
        stores[i] = new;
        sink = g.sink(&stores);
        sink = separate(g, sink)?;
    }
    Some(sink)
}

/// Merges the loops of independent reductions that have the same length and sit in the same place.
pub(super) fn fuse_siblings(g: &mut Graph, mut sink: Id) -> Option<Id> {
    loop {
        let ranges = Ranges::collect(g, sink)?;
        let free = ranges.free(g, sink);
        let order = toposort(g, sink);
        // One class per list of loop ranges.
        let mut classes: Vec<(Vec<Id>, Set)> = Vec::new();
        let mut contains: HashMap<Id, u128> = HashMap::new();
        let mut inside: Vec<u128> = Vec::new();
        for &n in &order {
            let mut set = g.src(n).iter().fold(0u128, |s, c| s | contains[c]);
            if matches!(g.op(n), Op::Reduce(_)) {
                let list: Vec<Id> = g.src(n)[1..]
                    .iter()
                    .copied()
                    .filter(|&r| ranges.bit(r) & ranges.loops != 0)
                    .collect();
                if !list.is_empty() {
                    let at = match classes.iter().position(|c| c.0 == list) {
                        Some(at) => at,
                        None if classes.len() == 128 => return Some(sink),
                        None => {
                            classes.push((list, free[&n] & ranges.loops));
                            inside.push(0);
                            classes.len() - 1
                        }
                    };
                    inside[at] |= set;
                    set |= 1 << at;
                }
            }
            contains.insert(n, set);
        }
        // Classes that have a loop in common (the main part and the tail of a split one) run together.
        let tied: Vec<u128> = classes
            .iter()
            .map(|(list, _)| {
                let common = |c: &(Vec<Id>, Set)| c.0.iter().any(|r| list.contains(r));
                let with = (0..classes.len()).filter(|&j| common(&classes[j]));
                with.fold(0, |s, j| s | 1 << j)
            })
            .collect();
        // Dependence through other classes counts, and on and of those that run together, so close the relation.
        for _ in 0..classes.len() {
            for i in 0..classes.len() {
                let mut all = inside[i];
                for j in 0..classes.len() {
                    if inside[i] >> j & 1 == 1 {
                        all |= inside[j] | tied[j];
                    }
                    if tied[i] >> j & 1 == 1 {
                        all |= inside[j];
                    }
                }
                inside[i] = all;
            }
        }
        let extents = |list: &[Id]| -> Vec<Op> {
            list.iter()
                .map(|&r| match g.op(r) {
                    Op::Range { extent, kind, .. } => Op::Range {
                        axis: 0,
                        extent,
                        kind,
                    },
                    op => op,
                })
                .collect()
        };
        let mut pair = None;
        'search: for i in 0..classes.len() {
            for j in i + 1..classes.len() {
                let apart = inside[i] >> j & 1 == 0 && inside[j] >> i & 1 == 0;
                let disjoint = classes[i].0.iter().all(|r| !classes[j].0.contains(r));
                if apart
                    && disjoint
                    && classes[i].1 == classes[j].1
                    && extents(&classes[i].0) == extents(&classes[j].0)
                {
                    pair = Some((i, j));
                    break 'search;
                }
            }
        }
        let Some((i, j)) = pair else {
            return Some(sink);
        };
        // The loop with the lower axis stays: what is inside of the other one has higher axes, and stays inside.
        let axis = |r: Id| match g.op(r) {
            Op::Range { axis, .. } => axis,
            _ => u32::MAX,
        };
        let pairs = classes[i].0.iter().zip(&classes[j].0);
        let map: HashMap<Id, Id> = pairs
            .map(|(&a, &b)| if axis(a) <= axis(b) { (b, a) } else { (a, b) })
            .collect();
        sink = substitute(g, sink, &map);
    }
}
