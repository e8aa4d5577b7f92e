//! The order of the kernels, and what is written in place.
//!
//! Values are versions: a graph says nothing of memory. A result that replaces the content of a
//! tensor goes straight into its memory if every other reader of the old content can run before,
//! and the kernel itself reads only what it is just about to overwrite; otherwise it goes to a
//! temporary, and a copy at the end.

use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use codegen::DType;
use codegen::ir::{Id, Kernel, Node, ParamInfo};

use super::canon::Dag;
use super::fuse::{Group, fuse};
use super::kernelize::kernelize;
use super::memory::Arena;
use super::region::{Body, Limits};
use super::{
    BufferId, BufferInfo, BufferKind, Instance, LoopNode, Offsets, OutputRequest, Schedule, Step,
    Value, Work,
};
use crate::graph::{Loop, LoopOutput, Op, Storage, Tensor};

/// See [`Schedule::new`] and [`Schedule::again`].
pub fn schedule(wanted: &[OutputRequest], limits: &Limits, offsets: Option<&Offsets>) -> Schedule {
    let targets = wanted.iter().filter_map(|w| w.into.clone());
    let values = wanted.iter().map(|w| w.value.clone());
    let tensors: Vec<Tensor> = values.chain(targets).collect();
    let mut dag = Dag::new(&tensors);
    if let Some(offsets) = offsets {
        offsets.mark(&mut dag);
    }
    let mut roots: Vec<u32> = dag.roots[..wanted.len()].to_vec();
    for root in &mut roots {
        // Another shape of the same elements.
        while matches!(dag.node(*root).op, Op::Reshape) {
            *root = dag.node(*root).src[0];
        }
    }
    let groups = fuse(&dag, limits, &roots);
    let mut planner = Planner::new(&dag, groups);
    planner.place(wanted, &roots);
    planner.finish(limits)
}

/// An order of the stores of a kernel in which a store that replaces what others read comes after
/// them. `overwrites` are roots with the nodes whose memory they take.
fn store_order(group: &Group, overwrites: &[(u32, Vec<u32>)]) -> Option<Vec<usize>> {
    let region = &group.region;
    let reads: Vec<HashSet<u32>> = region
        .stores
        .iter()
        .map(|store| {
            let mut seen = HashSet::new();
            let mut loads = HashSet::new();
            let mut pending = vec![store.value];
            while let Some(request) = pending.pop() {
                if !seen.insert(request) {
                    continue;
                }
                let expansion = &region.expansions[&request];
                if expansion.load {
                    loads.insert(region.requests[request as usize].node);
                }
                pending.extend(&expansion.children);
                pending.extend(region.index_requests(request));
            }
            loads
        })
        .collect();
    let mut left: Vec<usize> = (0..region.stores.len()).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let free = left.iter().position(|&i| {
            let root = region.stores[i].root.node;
            let taken = overwrites.iter().filter(|(r, _)| *r == root);
            taken
                .flat_map(|(_, nodes)| nodes)
                .all(|n| left.iter().all(|&j| j == i || !reads[j].contains(n)))
        })?;
        order.push(left.remove(free));
    }
    Some(order)
}

/// Where the elements of a leaf are, for finding two tensors over one memory.
#[derive(PartialEq, Eq, Hash)]
enum Memory {
    Device(u64, u64),
    Host(usize),
    None(u64),
}

fn memory_of(tensor: &Tensor) -> Memory {
    match tensor.storage() {
        Some(Storage::Device(buffer)) => Memory::Device(buffer.va().0, buffer.bytes()),
        Some(Storage::Host(bytes)) => Memory::Host(Arc::as_ptr(&bytes).addr()),
        Some(Storage::Source(source)) => Memory::Host(Arc::as_ptr(&source).addr()),
        None => Memory::None(tensor.id()),
    }
}

struct Planner<'a> {
    dag: &'a Dag,
    groups: Vec<Group>,
    buffers: Vec<BufferInfo>,
    /// The buffer of each node in memory.
    of_node: HashMap<u32, BufferId>,
    /// Copies at the end: from, to.
    copies: Vec<(BufferId, BufferId)>,
    /// Copies that must see the old content: from, to.
    saves: Vec<(BufferId, BufferId)>,
    /// Groups that each group waits for.
    waits: Vec<HashSet<usize>>,
    /// Groups that write each node, in order.
    writers: HashMap<u32, Vec<usize>>,
    /// Groups that turned out to do nothing.
    idle: HashSet<usize>,
    results: Vec<BufferId>,
}

impl<'a> Planner<'a> {
    fn new(dag: &'a Dag, groups: Vec<Group>) -> Planner<'a> {
        let mut writers: HashMap<u32, Vec<usize>> = HashMap::new();
        for (g, group) in groups.iter().enumerate() {
            for root in &group.roots {
                writers.entry(root.node).or_default().push(g);
            }
        }
        let mut waits: Vec<HashSet<usize>> = vec![HashSet::new(); groups.len()];
        for (g, group) in groups.iter().enumerate() {
            for load in &group.region.loads {
                if let Some(&last) = writers.get(load).and_then(|w| w.last()) {
                    waits[g].insert(last);
                }
            }
        }
        for pair in writers.values().filter(|w| w.len() == 2) {
            waits[pair[1]].insert(pair[0]);
        }
        let mut planner = Planner {
            dag,
            groups,
            buffers: Vec::new(),
            of_node: HashMap::new(),
            copies: Vec::new(),
            saves: Vec::new(),
            waits,
            writers,
            idle: HashSet::new(),
            results: Vec::new(),
        };
        planner.leaves();
        planner
    }

    fn leaves(&mut self) {
        let mut seen: HashMap<(Memory, DType, usize), BufferId> = HashMap::new();
        for (n, node) in self.dag.nodes.iter().enumerate() {
            let Some(tensor) = &node.leaf else { continue };
            let key = (memory_of(tensor), node.dtype, node.numel());
            let next = BufferId(self.buffers.len() as u32);
            let id = *seen.entry(key).or_insert(next);
            if id == next {
                self.add(BufferKind::Leaf(tensor.clone()), n as u32);
            }
            self.of_node.insert(n as u32, id);
        }
    }

    fn add(&mut self, kind: BufferKind, like: u32) -> BufferId {
        let node = self.dag.node(like);
        self.buffers.push(BufferInfo {
            kind,
            dtype: node.dtype,
            len: node.numel(),
        });
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// Gives every node in memory a buffer.
    fn place(&mut self, wanted: &[OutputRequest], roots: &[u32]) {
        let targets: Vec<Option<BufferId>> = self.targets(wanted);
        let replaced: HashSet<BufferId> = targets.iter().flatten().copied().collect();
        let mut taken: HashSet<BufferId> = HashSet::new();
        for (i, &root) in roots.iter().enumerate() {
            let known = self.of_node.get(&root).copied();
            let result = match (targets[i], known) {
                (Some(target), None) if !taken.contains(&target) && self.in_place(root, target) => {
                    self.of_node.insert(root, target);
                    target
                }
                (Some(target), None) => {
                    let temporary = self.add(BufferKind::Temporary, root);
                    self.of_node.insert(root, temporary);
                    self.copies.push((temporary, target));
                    target
                }
                (Some(target), Some(from)) if from == target => target,
                (Some(target), Some(from)) => {
                    self.copy_out(root, from, target, &replaced);
                    target
                }
                (None, None) => {
                    let fresh = self.add(BufferKind::Result(i), root);
                    self.of_node.insert(root, fresh);
                    fresh
                }
                (None, Some(from)) => {
                    let fresh = self.add(BufferKind::Result(i), root);
                    self.copy_out(root, from, fresh, &replaced);
                    fresh
                }
            };
            if targets[i].is_some() {
                taken.insert(result);
            }
            self.results.push(result);
        }
        let written: Vec<u32> = self
            .groups
            .iter()
            .flat_map(|g| &g.roots)
            .map(|r| r.node)
            .collect();
        for node in written {
            if !self.of_node.contains_key(&node) {
                let id = self.add(BufferKind::Temporary, node);
                self.of_node.insert(node, id);
            }
        }
    }

    fn targets(&self, wanted: &[OutputRequest]) -> Vec<Option<BufferId>> {
        let mut next = wanted.len();
        wanted
            .iter()
            .map(|w| {
                w.into.as_ref()?;
                let node = self.dag.roots[next];
                next += 1;
                self.of_node.get(&node).copied()
            })
            .collect()
    }

    /// A copy of a buffer that another result has, or that was there before.
    fn copy_out(&mut self, like: u32, from: BufferId, to: BufferId, replaced: &HashSet<BufferId>) {
        let leaf = self.dag.node(like).leaf.is_some();
        if leaf && replaced.contains(&from) {
            // Its content changes in this schedule: save the old one first.
            if matches!(self.buffers[to.0 as usize].kind, BufferKind::Result(_)) {
                self.saves.push((from, to));
            } else {
                let temporary = self.add(BufferKind::Temporary, like);
                self.saves.push((from, temporary));
                self.copies.push((temporary, to));
            }
        } else {
            self.copies.push((from, to));
        }
    }

    /// Makes the kernel of `root` write straight into `target` if that is right.
    fn in_place(&mut self, root: u32, target: BufferId) -> bool {
        let Some(writers) = self.writers.get(&root).cloned() else {
            return false;
        };
        let nodes: Vec<u32> = self
            .of_node
            .iter()
            .filter(|(_, b)| **b == target)
            .map(|(n, _)| *n)
            .collect();
        for &w in &writers {
            let group = &mut self.groups[w];
            let Some(store) = group
                .region
                .stores
                .iter()
                .find(|s| s.root.node == root)
                .copied()
            else {
                return false;
            };
            for &n in &nodes {
                let scatter = matches!(store.root.body, Body::Scatter(_));
                let reads = group.region.loads.contains(&n);
                if reads && (scatter || !group.region.reads_only_at(self.dag, n, store.at)) {
                    return false;
                }
            }
        }
        let mut stores: Vec<(u32, Vec<u32>)> = self.groups[writers[0]].overwrites.clone();
        stores.push((root, nodes.clone()));
        let Some(order) = store_order(&self.groups[writers[0]], &stores) else {
            return false;
        };
        let first = writers[0];
        let readers: Vec<usize> = (0..self.groups.len())
            .filter(|g| !writers.contains(g))
            .filter(|&g| {
                nodes
                    .iter()
                    .any(|n| self.groups[g].region.loads.contains(n))
            })
            .collect();
        if readers.iter().any(|&r| self.depends(r, &writers)) {
            return false;
        }
        self.waits[first].extend(readers);
        self.groups[first].overwrites = stores;
        let region = &mut self.groups[first].region;
        region.stores = order.iter().map(|&i| region.stores[i]).collect();
        // A scatter into the tensor itself: its base is in place.
        if writers.len() == 2 {
            let region = &self.groups[first].region;
            let bare = region.visited.len() == 1 && region.loads.len() == 1;
            if bare && nodes.contains(&region.loads[0]) {
                self.idle.insert(first);
            }
        }
        true
    }

    /// Whether group `g` waits, directly or not, for one of `others`.
    fn depends(&self, g: usize, others: &[usize]) -> bool {
        let mut seen = HashSet::new();
        let mut pending = vec![g];
        while let Some(g) = pending.pop() {
            if others.contains(&g) {
                return true;
            }
            if seen.insert(g) {
                pending.extend(&self.waits[g]);
            }
        }
        false
    }

    fn finish(self, limits: &Limits) -> Schedule {
        let mut schedule = Schedule {
            buffers: self.buffers.clone(),
            results: self.results.clone(),
            ..Schedule::default()
        };
        for &(from, to) in &self.saves {
            copy(&mut schedule, from, to);
        }
        let mut known: HashMap<(Structure, Vec<Value>), usize> = HashMap::new();
        let mut number = |schedule: &mut Schedule, instance: Instance| {
            let next = schedule.kernels.len();
            let key = (Structure::of(&instance.kernel), instance.values.clone());
            let number = *known.entry(key).or_insert(next);
            if number == next {
                schedule.kernels.push(instance);
            }
            number
        };
        for g in self.sorted() {
            let group = &self.groups[g];
            if let Op::Loop(traced, _) = &self.dag.node(group.roots[0].node).op {
                let mut repeat = self.repeat(traced, group, limits);
                let kernels = std::mem::take(&mut repeat.body.kernels).into_iter();
                let numbers: Vec<usize> = kernels.map(|k| number(&mut schedule, k)).collect();
                renumber(&mut repeat.body, &numbers, schedule.sites);
                schedule.sites += repeat.body.sites;
                let mut writes: Vec<BufferId> =
                    group.roots.iter().map(|r| self.of_node[&r.node]).collect();
                if repeat.workspace_bytes > 0 {
                    let workspace = BufferId(schedule.buffers.len() as u32);
                    schedule.buffers.push(BufferInfo {
                        kind: BufferKind::Temporary,
                        dtype: DType::U8,
                        len: repeat.workspace_bytes as usize,
                    });
                    repeat.workspace = Some(workspace);
                    writes.push(workspace);
                }
                push(
                    &mut schedule,
                    Work::Loop(Box::new(repeat)),
                    self.reads(group),
                    writes,
                );
                continue;
            }
            let (instance, args) = kernelize(self.dag, group, &|n| self.of_node[&n]);
            // A word that tells of an index is none: nobody waits for it.
            let roots: Vec<BufferId> = group.roots.iter().map(|r| self.of_node[&r.node]).collect();
            let written = |&(i, b): &(usize, &BufferId)| {
                instance.kernel.params[i].written && roots.contains(b)
            };
            let writes: Vec<BufferId> = args
                .iter()
                .enumerate()
                .filter(written)
                .map(|(_, &b)| b)
                .collect();
            let kernel = number(&mut schedule, instance);
            let work = Work::Kernel { kernel, args };
            push(&mut schedule, work, self.reads(group), writes);
        }
        for &(from, to) in &self.copies {
            copy(&mut schedule, from, to);
        }
        let places = schedule.buffers.iter().enumerate();
        schedule.temporaries = places
            .filter(|(_, b)| matches!(b.kind, BufferKind::Temporary))
            .map(|(i, _)| BufferId(i as u32))
            .collect();
        schedule.arena = Arena::new(&schedule.lifetimes());
        schedule
    }

    /// The loop whose results are the roots of a group.
    fn repeat(&self, traced: &Arc<Loop>, group: &Group, limits: &Limits) -> LoopNode {
        let roots = group.roots.iter().map(|r| r.node);
        let goes: Vec<(LoopOutput, BufferId)> = roots
            .clone()
            .filter_map(|n| match &self.dag.node(n).op {
                Op::Loop(_, taken) => Some((*taken, self.of_node[&n])),
                _ => None,
            })
            .collect();
        let kinds: Vec<LoopOutput> = goes.iter().map(|g| g.0).collect();
        let wanted = LoopNode::wanted(traced, &kinds)
            .into_iter()
            .map(|i| OutputRequest {
                value: traced.results[i].clone(),
                into: None,
            });
        // Places in a body are those of its one trace.
        let body = schedule(&wanted.collect::<Vec<_>>(), limits, None);
        let sources = roots.take(1).flat_map(|n| &self.dag.node(n).src);
        let sources: Vec<Option<BufferId>> =
            sources.map(|s| self.of_node.get(s).copied()).collect();
        LoopNode::new(traced, body, &sources, &goes)
    }

    fn reads(&self, group: &Group) -> Vec<BufferId> {
        let loads = group.region.loads.iter();
        let mut reads: Vec<BufferId> = loads.map(|n| self.of_node[n]).collect();
        for root in &group.roots {
            if matches!(root.body, Body::Scatter(_)) {
                reads.push(self.of_node[&root.node]);
            }
        }
        reads.sort_unstable();
        reads.dedup();
        reads
    }

    /// Groups in an order in which each comes after those that it waits for, near the order of the
    /// graph.
    fn sorted(&self) -> Vec<usize> {
        let count = self.groups.len();
        let mut open: Vec<usize> = self.waits.iter().map(HashSet::len).collect();
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (g, waits) in self.waits.iter().enumerate() {
            for &w in waits {
                users[w].push(g);
            }
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..count).filter(|&g| open[g] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse(g)) = ready.pop() {
            if !self.idle.contains(&g) {
                order.push(g);
            }
            for &user in &users[g] {
                open[user] -= 1;
                if open[user] == 0 {
                    ready.push(Reverse(user));
                }
            }
        }
        debug_assert_eq!(
            order.len() + self.idle.len(),
            count,
            "cyclic dependency between kernels"
        );
        order
    }
}

fn push(schedule: &mut Schedule, work: Work, reads: Vec<BufferId>, writes: Vec<BufferId>) {
    schedule.steps.push(Step {
        work,
        reads,
        writes,
        site: schedule.sites,
    });
    schedule.sites += 1;
}

fn copy(schedule: &mut Schedule, from: BufferId, to: BufferId) {
    push(schedule, Work::Copy { from, to }, vec![from], vec![to]);
}

/// Makes a body a part of a schedule: `kernels` are the numbers of its kernels there, and `first` is
/// the number of its first step.
fn renumber(body: &mut Schedule, kernels: &[usize], first: usize) {
    for step in &mut body.steps {
        step.site += first;
        match &mut step.work {
            Work::Kernel { kernel, .. } => *kernel = kernels[*kernel],
            Work::Copy { .. } => {}
            Work::Loop(inner) => renumber(&mut inner.body, kernels, first),
        }
    }
}

/// What makes two kernels equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Structure {
    nodes: Vec<Node>,
    params: Vec<ParamInfo>,
    sink: Id,
}

impl Structure {
    /// Approximate size in memory.
    pub fn bytes(&self) -> u64 {
        (self.nodes.len() * size_of::<Node>()) as u64
    }

    /// The structure of a kernel; the name does not count.
    pub fn of(kernel: &Kernel) -> Structure {
        let graph = &kernel.graph;
        Structure {
            nodes: (0..graph.len() as u32)
                .map(|i| graph.node(Id(i)).clone())
                .collect(),
            params: kernel.params.clone(),
            sink: kernel.sink,
        }
    }
}
