//! Which nodes are in memory, and which share a kernel.
//!
//! A node is in memory if it must be (results, scatters, scans, forced values, what goes into a loop
//! and comes out of it), if a kernel that
//! needs it cannot compute it without doing work twice, or if two kernels would both compute it and
//! that is not cheap. The last is found by walking all kernels and looking at what they have in
//! common, until nothing changes.

use hashbrown::{HashMap, HashSet};
use std::collections::BTreeSet;

use codegen::ir::RangeKind;
use codegen::ir::arith::Cost;

use super::canon::Dag;
use super::marks::Marks;
use super::region::{Body, Limits, Region, Root, bytes_of, discover, domain_of};
use crate::graph::Op;

/// A group of nodes that becomes a kernel.
#[derive(Debug)]
pub struct Group {
    /// What it writes.
    pub roots: Vec<Root>,
    /// How.
    pub region: Region,
    /// Roots that are written over leaves, with those leaves.
    pub overwrites: Vec<(u32, Vec<u32>)>,
}

impl Group {
    fn new(roots: Vec<Root>, region: Region) -> Group {
        let overwrites = Vec::new();
        Group {
            roots,
            region,
            overwrites,
        }
    }

    /// A loop, and no kernel.
    fn is_loop(&self) -> bool {
        self.roots.iter().any(|r| matches!(r.body, Body::Loop(_)))
    }
}

/// What a loop reads.
fn loop_sources(dag: &Dag, n: u32) -> Vec<u32> {
    let mut sources = dag.node(n).src.to_vec();
    sources.retain(|&s| dag.node(s).numel() > 0);
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// Operations that two kernels may both do rather than go through memory.
const CHEAP: u32 = 5;

/// Rounds of looking for shared work. Each adds nodes to memory; a graph that needs more rounds is
/// still correct, it only computes something twice.
const ROUNDS: usize = 8;

/// Forms the groups. `wanted` are the nodes that must be in memory at the end. Groups of one scatter are in order:
/// base, then combination.
pub fn fuse(dag: &Dag, limits: &Limits, wanted: &[u32]) -> Vec<Group> {
    let mut forced = vec![false; dag.nodes.len()];
    for (n, node) in dag.nodes.iter().enumerate() {
        forced[n] = matches!(node.op, Op::Contiguous | Op::Scan(..) | Op::Scatter(..))
            && node.leaf.is_none();
    }
    let nodes = dag.nodes.iter().enumerate();
    for (n, _) in nodes.filter(|(_, node)| matches!(node.op, Op::Loop(..))) {
        forced[n] = true;
        for s in loop_sources(dag, n as u32) {
            forced[s as usize] |= dag.node(s).leaf.is_none();
        }
    }
    for &n in wanted {
        forced[n as usize] = true;
    }
    let mut groups = Vec::new();
    for _ in 0..ROUNDS {
        let mut realized = Marks::new(forced.clone());
        groups = walk_all(dag, limits, &mut realized, wanted);
        let shared = shared_work(dag, &realized, &groups);
        if shared.is_empty() {
            break;
        }
        for n in shared {
            forced[n as usize] = true;
        }
    }
    let mut groups = merge(dag, limits, groups);
    let kept: HashSet<u32> = wanted.iter().copied().collect();
    drop_private(dag, limits, &mut groups, &kept);
    groups
}

/// What kernels write.
fn roots_of(dag: &Dag, groups: &[Group]) -> Marks {
    let mut realized = vec![false; dag.nodes.len()];
    for root in groups.iter().flat_map(|g| &g.roots) {
        realized[root.node as usize] = true;
    }
    Marks::new(realized)
}

/// A result that only its own kernel uses need not be written.
fn drop_private(dag: &Dag, limits: &Limits, groups: &mut [Group], kept: &HashSet<u32>) {
    let loaded: HashSet<u32> = groups
        .iter()
        .flat_map(|g| g.region.loads.iter().copied())
        .collect();
    let mut realized = roots_of(dag, groups);
    let kernels = groups.iter_mut().filter(|g| !g.is_loop());
    for group in kernels.filter(|g| g.roots.len() > 1) {
        let needed = |r: &Root| kept.contains(&r.node) || loaded.contains(&r.node);
        let (roots, private): (Vec<Root>, Vec<Root>) = group.roots.iter().partition(|&r| needed(r));
        if roots.is_empty() || private.is_empty() {
            continue;
        }
        for root in &private {
            realized.set(root.node, false);
        }
        let found = discover(dag, limits, &mut realized, &roots);
        let same = realized.undo() == 0;
        for root in &private {
            realized.set(root.node, true);
        }
        if let (Ok(region), true) = (found, same) {
            *group = Group::new(roots, region);
        }
    }
}

fn walk_all(dag: &Dag, limits: &Limits, realized: &mut Marks, wanted: &[u32]) -> Vec<Group> {
    let leaf = |n: u32| dag.node(n).leaf.is_some();
    let mut groups: Vec<Group> = Vec::new();
    let mut open: BTreeSet<u32> = wanted.iter().copied().filter(|&n| !leaf(n)).collect();
    // One group for all results of a loop.
    let mut loops: HashMap<(usize, &[u32]), usize> = HashMap::new();
    while let Some(n) = open.pop_last() {
        if let Op::Loop(body, _) = &dag.node(n).op {
            let root = Root {
                node: n,
                body: Body::Loop(n),
            };
            let next = groups.len();
            let known = *loops
                .entry((body.identity(), &dag.node(n).src[..]))
                .or_insert(next);
            if known < next {
                groups[known].roots.push(root);
                continue;
            }
            let sources = loop_sources(dag, n);
            open.extend(sources.iter().copied().filter(|&n| !leaf(n)));
            groups.push(Group::new(vec![root], Region::reading(sources)));
            continue;
        }
        let bodies = match dag.node(n).op {
            // In reverse: the whole list is turned around in the end.
            Op::Scatter(..) => vec![Body::Scatter(n), Body::Value(dag.node(n).src[0])],
            _ => vec![Body::Value(n)],
        };
        for body in bodies {
            let roots = vec![Root { node: n, body }];
            // One root alone is always possible.
            if let Ok(region) = discover(dag, limits, realized, &roots) {
                open.extend(region.loads.iter().copied().filter(|&n| !leaf(n)));
                groups.push(Group::new(roots, region));
            }
        }
    }
    groups.reverse();
    groups
}

/// Nodes that more than one kernel computes and that are not cheap: the last ones before the
/// kernels part.
fn shared_work(dag: &Dag, realized: &[bool], groups: &[Group]) -> HashSet<u32> {
    let mut kernels: HashMap<u32, Vec<u32>> = HashMap::new();
    for (k, group) in groups.iter().enumerate() {
        let loads: HashSet<u32> = group.region.loads.iter().copied().collect();
        for (n, _) in &group.region.visited {
            if !loads.contains(n) && !dag.node(*n).constant {
                kernels.entry(*n).or_default().push(k as u32);
            }
        }
    }
    let mut out = HashSet::new();
    for (&n, at) in &kernels {
        if at.len() < 2 {
            continue;
        }
        let parts = dag.users[n as usize]
            .iter()
            .any(|user| kernels.get(user).is_some_and(|k| k != at))
            || realized[n as usize];
        let base = dag.base[n as usize];
        let base = bytes_of(dag, realized, base).unwrap_or(base);
        if parts && dag.node(base).leaf.is_none() && cost(dag, realized, base) > CHEAP {
            out.insert(base);
        }
    }
    // A kernel that is not its own computes it.
    let elsewhere = |n: u32| {
        let at = kernels.get(&n).into_iter().flatten();
        let mut others = at.map(|&k| &groups[k as usize].roots);
        others.any(|roots| roots.iter().all(|r| r.node != n))
    };
    out.retain(|&n| !realized[n as usize] || elsewhere(n));
    out
}

/// Work per element down to memory, as far as it matters.
fn cost(dag: &Dag, realized: &[bool], n: u32) -> u32 {
    let mut work = 0;
    let mut pending = vec![n];
    let mut first = true;
    while let Some(at) = pending.pop() {
        let node = dag.node(at);
        if node.leaf.is_some() || realized[at as usize] && !first {
            work += 1;
            continue;
        }
        first = false;
        work += match &node.op {
            Op::Const(_) => continue,
            Op::Iota => 1,
            _ if node.is_movement() => 0,
            Op::Unary(op) if op.row().cost >= Cost::Several => 6,
            Op::Binary(op) if op.row().cost >= Cost::Several => 6,
            Op::Reduce(..) => return u32::MAX,
            Op::Checked(_) => {
                pending.push(node.src[0]);
                continue;
            }
            _ => 1,
        };
        if work > CHEAP {
            return work;
        }
        pending.extend(node.src.iter());
    }
    work
}

/// Puts kernels over the same loops together: those that share an input, and those where one uses
/// the result of another only at the element that it is computing.
fn merge(dag: &Dag, limits: &Limits, groups: Vec<Group>) -> Vec<Group> {
    let mut writer: HashMap<u32, usize> = HashMap::new();
    for (k, group) in groups.iter().enumerate() {
        writer.extend(group.roots.iter().map(|root| (root.node, k)));
    }
    let mut needs: Vec<Vec<usize>> = groups
        .iter()
        .map(|g| g.region.loads.iter().filter_map(|n| writer.get(n).copied()))
        .map(Iterator::collect)
        .collect();
    for (k, pair) in groups.windows(2).enumerate() {
        // A scatter comes after its base.
        if pair[0].roots[0].node == pair[1].roots[0].node {
            needs[k + 1].push(k);
        }
    }
    let mut order = Merged {
        of: (0..groups.len()).collect(),
        top: (0..groups.len()).collect(),
        needs,
    };
    // Whatever is merged, the roots of all kernels stay the same.
    let mut realized = roots_of(dag, &groups);
    let mut slots: Vec<Option<Group>> = groups.into_iter().map(Some).collect();
    let mut by_domain: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
    for k in 0..slots.len() {
        let Some(group) = &slots[k] else { continue };
        if !mergeable(dag, group) {
            continue;
        }
        let domain = domain_of(dag, group.roots[0]).to_vec();
        let earlier = by_domain.entry(domain).or_default();
        let mut host = None;
        // The latest candidates first; a bound keeps long lists of equal kernels cheap.
        for &other in earlier.iter().rev().take(16) {
            let (Some(a), Some(b)) = (&slots[other], &slots[k]) else {
                continue;
            };
            if !related(dag, a, b) || !order.can_join(other, k) {
                continue;
            }
            let mut roots = a.roots.clone();
            roots.extend_from_slice(&b.roots);
            let buffers = |g: &Group| g.region.loads.len() + g.region.stores.len();
            let found = discover(dag, limits, &mut realized, &roots);
            let same = realized.undo() == 0;
            let Ok(region) = found else {
                continue;
            };
            let merged = Group::new(roots, region);
            let reads: usize = buffers(a) + buffers(b);
            if same
                && merged.region.contraction.is_none()
                && buffers(&merged) <= limits.buffers
                && buffers(&merged) < reads
                && nested(&merged)
            {
                host = Some((other, merged));
                break;
            }
        }
        match host {
            Some((other, merged)) => {
                slots[other] = Some(merged);
                slots[k] = None;
                order.join(other, k);
            }
            None => earlier.push(k),
        }
    }
    slots.into_iter().flatten().collect()
}

/// The loops of all reductions nest in one order.
fn nested(group: &Group) -> bool {
    let rows = &group.region.rows;
    rows.iter()
        .all(|a| rows.iter().all(|b| a & b == *a || a & b == *b))
}

fn mergeable(dag: &Dag, group: &Group) -> bool {
    let region = &group.region;
    group
        .roots
        .iter()
        .all(|r| r.body == Body::Value(r.node) && !dag.node(r.node).constant)
        && region.contraction.is_none()
        && region.ix.of_kind(RangeKind::Serial) == 0
}

/// They read something in common, or one reads what the other writes.
fn related(dag: &Dag, a: &Group, b: &Group) -> bool {
    let big = |n: u32| dag.node(n).numel() * 4 >= dag.node(a.roots[0].node).numel();
    let (la, lb) = (&a.region.loads, &b.region.loads);
    la.iter().any(|&n| lb.contains(&n) && big(n))
        || a.roots.iter().any(|r| lb.contains(&r.node))
        || b.roots.iter().any(|r| la.contains(&r.node))
}

/// Which kernels have become one, and what they wait for.
struct Merged {
    /// The kernel that each is a part of. A later one becomes a part of an earlier one.
    of: Vec<usize>,
    /// No kernel with a larger number is waited for, directly or not.
    top: Vec<usize>,
    needs: Vec<Vec<usize>>,
}

impl Merged {
    /// No third kernel lies between the two, the first of which is the earlier one.
    fn can_join(&self, a: usize, b: usize) -> bool {
        let mut pending: Vec<usize> = Vec::new();
        for from in [a, b] {
            let direct = self.needs[from].iter().map(|&k| self.of[k]);
            pending.extend(direct.filter(|&k| k != a && k != b));
        }
        let mut seen: HashSet<usize> = HashSet::new();
        while let Some(k) = pending.pop() {
            if k == a || k == b {
                return false;
            }
            // What waits for earlier kernels alone does not lead back.
            if self.top[k] >= a && seen.insert(k) {
                pending.extend(self.needs[k].iter().map(|&k| self.of[k]));
            }
        }
        true
    }

    /// Makes `from`, which is no host itself, a part of the earlier `into`.
    fn join(&mut self, into: usize, from: usize) {
        let moved = std::mem::take(&mut self.needs[from]);
        self.needs[into].extend(moved);
        self.of[from] = into;
        // Those between the two may wait for the earlier one, and so for all that the later one waits for.
        for top in &mut self.top[into..from] {
            *top = (*top).max(from);
        }
        let of = &self.of;
        self.needs[into].retain(|&k| of[k] != into);
    }
}
