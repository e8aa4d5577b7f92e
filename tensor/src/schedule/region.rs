//! One kernel, as requests: which elements of which nodes are needed to compute the roots.
//!
//! The walk starts at the roots with one loop range per axis and goes to the sources. Nodes are
//! visited users first, so that every request for a node is known when it is decided whether the
//! node is computed here or read from memory.

use std::collections::{BTreeMap, HashMap};

use codegen::ir::{Binary, RangeKind, ReduceOp, Unary};
use smallvec::{SmallVec, smallvec};

use super::canon::Dag;
use super::domains::{Atom, Indices, Ix, MAX_RANGES, RangeSet};
use crate::graph::Op;

/// Bounds of the decisions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Independent iterations that keep the device busy.
    pub parallel: u64,
    /// Elements below which a kernel may run on one core.
    pub small: u64,
    /// Requests in one kernel.
    pub requests: usize,
    /// Buffers of one kernel.
    pub buffers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            parallel: 8,
            small: 1 << 15,
            requests: 1500,
            buffers: 24,
        }
    }
}

/// Elements below which a value under windows is not worth a kernel of its own.
const SMALL_WINDOWS: usize = 256;

/// What a kernel computes into the buffer of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// The value of this node.
    Value(u32),
    /// The combining half of this scatter; the base is in the buffer already.
    Scatter(u32),
}

/// One result of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The node whose buffer is written.
    pub node: u32,
    /// With what.
    pub body: Body,
}

/// The element of a node at an index, where the conditions of a gate hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// The node.
    pub node: u32,
    /// One expression per axis.
    pub index: SmallVec<[Ix; 4]>,
    /// Number of the gate; 0 always holds.
    pub gate: u32,
}

/// A condition under which a request is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Cond {
    /// The expression is in `0..size`.
    Bound(Ix, i64),
    /// The value of the request is in `-size..size`.
    Loaded(u32, i64),
}

/// How a request is computed from others.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Requests for the sources, in order.
    pub children: SmallVec<[u32; 3]>,
    /// Reduction loops.
    pub ranges: SmallVec<[u32; 2]>,
    /// Conditions that a pad or gather adds.
    pub conds: SmallVec<[u32; 2]>,
    /// Read from memory.
    pub load: bool,
}

/// Why a walk stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Walk again with this part of this axis of the domain split by the factor.
    Split(usize, usize, usize),
    /// The roots cannot be in one kernel.
    Apart,
}

/// Where a root is written.
#[derive(Clone, Copy, Debug)]
pub struct StoreAt {
    /// The result.
    pub root: Root,
    /// Element of the buffer.
    pub at: Ix,
    /// The value.
    pub value: u32,
    /// Gate, for scatters.
    pub gate: u32,
}

/// The requests of one kernel.
#[derive(Debug)]
pub struct Region {
    /// Index expressions and loops.
    pub ix: Indices,
    /// Every request, by number.
    pub requests: Vec<Request>,
    /// Every condition, by number.
    pub conds: Vec<Cond>,
    /// Every gate, by number: conditions that all hold.
    pub gates: Vec<SmallVec<[u32; 2]>>,
    /// Nodes in the order of the walk, users first, each with its requests.
    pub visited: Vec<(u32, Vec<u32>)>,
    /// How requests are computed.
    pub expansions: HashMap<u32, Expansion>,
    /// What is written.
    pub stores: Vec<StoreAt>,
    /// Nodes read from memory, in the order of the walk.
    pub loads: Vec<u32>,
    /// The matrix product or convolution in it.
    pub contraction: Option<u32>,
    /// Loop sets of reductions that other loops go around again.
    pub rows: Vec<RangeSet>,
    request_table: HashMap<Request, u32>,
    cond_table: HashMap<Cond, u32>,
    gate_table: HashMap<SmallVec<[u32; 2]>, u32>,
    pending: BTreeMap<u32, Vec<u32>>,
    bases: HashMap<u32, u32>,
    reductions: u32,
    parts: Vec<Vec<usize>>,
}

/// Where `realized` gets its additions from: a node that must be in memory for this kernel.
struct Walk<'a> {
    dag: &'a Dag,
    limits: &'a Limits,
    realized: &'a mut [bool],
    roots: &'a [Root],
    region: Region,
}

/// Shape of the loops of a root.
pub fn domain_of(dag: &Dag, root: Root) -> &[usize] {
    match root.body {
        Body::Value(n) => &dag.node(n).shape,
        Body::Scatter(n) => &dag.node(dag.node(n).src[1]).shape,
    }
}

/// The axis of a root whose iterations run in order.
fn serial_axis(dag: &Dag, root: Root) -> Option<usize> {
    match root.body {
        Body::Value(n) => match dag.node(n).op {
            Op::Scan(_, axis) => Some(axis),
            _ => None,
        },
        Body::Scatter(n) => match dag.node(n).op {
            Op::Scatter(axis, _) => Some(axis),
            _ => None,
        },
    }
}

/// Finds everything that a kernel for `roots` computes; marks in `realized` what it needs in
/// memory. The roots have one domain.
pub fn discover(
    dag: &Dag,
    limits: &Limits,
    realized: &mut [bool],
    roots: &[Root],
) -> Result<Region, Stop> {
    let Some(&first) = roots.first() else {
        return Err(Stop::Apart);
    };
    let shape = domain_of(dag, first);
    let mut parts: Vec<Vec<usize>> = shape.iter().map(|&n| vec![n]).collect();
    for attempt in 0.. {
        let mut walk = Walk {
            dag,
            limits,
            realized,
            roots,
            region: Region::new(parts.clone()),
        };
        match walk.run(attempt < 6) {
            Ok(()) => return Ok(walk.region),
            Err(Stop::Split(axis, part, by)) => {
                let extent = parts[axis][part];
                parts[axis].splice(part..=part, [extent / by, by]);
            }
            Err(Stop::Apart) => break,
        }
    }
    Err(Stop::Apart)
}

impl Region {
    fn new(parts: Vec<Vec<usize>>) -> Region {
        let mut gate_table = HashMap::new();
        gate_table.insert(SmallVec::new(), 0);
        Region {
            ix: Indices::default(),
            requests: Vec::new(),
            conds: Vec::new(),
            gates: vec![SmallVec::new()],
            visited: Vec::new(),
            expansions: HashMap::new(),
            stores: Vec::new(),
            loads: Vec::new(),
            contraction: None,
            rows: Vec::new(),
            request_table: HashMap::new(),
            cond_table: HashMap::new(),
            gate_table,
            pending: BTreeMap::new(),
            bases: HashMap::new(),
            reductions: 0,
            parts,
        }
    }

    /// The requests for index tensors that the place and the gate of a request need.
    pub fn index_requests(&self, request: u32) -> SmallVec<[u32; 2]> {
        let request = &self.requests[request as usize];
        self.loaded_in(&request.index, request.gate)
    }

    /// The requests for index tensors in an index and a gate.
    pub fn loaded_in(&self, index: &[Ix], gate: u32) -> SmallVec<[u32; 2]> {
        let mut out = SmallVec::new();
        let mut pending: SmallVec<[Ix; 8]> = index.iter().copied().collect();
        for &cond in &self.gates[gate as usize] {
            match self.conds[cond as usize] {
                Cond::Bound(ix, _) => pending.push(ix),
                Cond::Loaded(request, _) => out.push(request),
            }
        }
        while let Some(ix) = pending.pop() {
            for &(atom, _) in &self.ix.lin(ix).terms {
                match self.ix.atom_of(atom) {
                    Atom::Range(_) => {}
                    Atom::Div(a, _) | Atom::Mod(a, _) | Atom::Guard(a, _) => pending.push(a),
                    Atom::Loaded(request, _) => out.push(request),
                }
            }
        }
        out
    }

    /// The ranges that a condition depends on.
    fn cond_deps(&self, cond: u32) -> RangeSet {
        match self.conds[cond as usize] {
            Cond::Bound(ix, _) => self.ix.deps(ix),
            Cond::Loaded(request, _) => self.request_deps(request),
        }
    }

    /// The ranges that a request depends on.
    pub fn request_deps(&self, request: u32) -> RangeSet {
        let request = &self.requests[request as usize];
        let own = request.index.iter().fold(0, |s, &ix| s | self.ix.deps(ix));
        own | self.gate_deps(request.gate)
    }

    fn gate_deps(&self, gate: u32) -> RangeSet {
        let conds = &self.gates[gate as usize];
        conds.iter().fold(0, |s, &c| s | self.cond_deps(c))
    }

    fn cond(&mut self, cond: Cond) -> u32 {
        let next = self.conds.len() as u32;
        let found = *self.cond_table.entry(cond).or_insert(next);
        if found == next {
            self.conds.push(cond);
        }
        found
    }

    fn gate(&mut self, mut conds: SmallVec<[u32; 2]>) -> u32 {
        conds.sort_unstable();
        conds.dedup();
        let next = self.gates.len() as u32;
        let found = *self.gate_table.entry(conds.clone()).or_insert(next);
        if found == next {
            self.gates.push(conds);
        }
        found
    }

    /// The conditions of a gate that matter for an index: those over its ranges, and those over
    /// the ranges of such conditions. The others hold somewhere, and the index is the same there;
    /// but one over no ranges holds always or never.
    fn relevant(&mut self, gate: u32, index: &[Ix]) -> u32 {
        if gate == 0 {
            return 0;
        }
        let mut deps = index.iter().fold(0, |s, &ix| s | self.ix.deps(ix));
        let all = self.gates[gate as usize].clone();
        let mut taken: SmallVec<[u32; 2]> = SmallVec::new();
        loop {
            let before = taken.len();
            for &c in &all {
                let of_cond = self.cond_deps(c);
                if !taken.contains(&c) && (of_cond & deps != 0 || of_cond == 0) {
                    taken.push(c);
                    deps |= of_cond;
                }
            }
            if taken.len() == before {
                break;
            }
        }
        self.gate(taken)
    }

    fn intern(&mut self, dag: &Dag, node: u32, index: SmallVec<[Ix; 4]>, gate: u32) -> u32 {
        let request = match dag.node(node) {
            n if matches!(n.op, Op::Const(_)) => Request {
                node,
                index: SmallVec::new(),
                gate: 0,
            },
            n if n.constant => Request {
                node,
                index,
                gate: 0,
            },
            _ => {
                let gate = self.relevant(gate, &index);
                Request { node, index, gate }
            }
        };
        let next = self.requests.len() as u32;
        let found = *self.request_table.entry(request.clone()).or_insert(next);
        if found == next {
            self.requests.push(request);
        }
        found
    }

    /// The requests behind one that only moves or combines elements.
    fn expand(&mut self, dag: &Dag, request: u32) -> Expansion {
        let Request { node, index, gate } = self.requests[request as usize].clone();
        let node = dag.node(node);
        let mut out = Expansion::default();
        let Some(&first) = node.src.first() else {
            return out;
        };
        let from = &dag.node(first).shape;
        let moved: SmallVec<[Ix; 4]> = match &node.op {
            Op::Reshape => self.ix.reshape(&index, &node.shape, from),
            Op::Permute(order) => {
                let mut moved = index.clone();
                for (i, &axis) in order.iter().enumerate() {
                    moved[axis] = index[i];
                }
                moved
            }
            Op::Expand => {
                let zero = self.ix.constant(0);
                let axes = from.iter().zip(&index);
                axes.map(|(&n, &ix)| if n == 1 { zero } else { ix })
                    .collect()
            }
            Op::Shrink(lo) => {
                let axes = index.iter().zip(lo);
                axes.map(|(&ix, &lo)| self.ix.offset(ix, lo as i64))
                    .collect()
            }
            Op::Flip(axes) => {
                let mut moved = index.clone();
                for &axis in axes {
                    let back = self.ix.scale(index[axis], -1);
                    moved[axis] = self.ix.offset(back, from[axis] as i64 - 1);
                }
                moved
            }
            Op::Windows {
                axis,
                stride,
                dilation,
                ..
            } => {
                let mut moved = index.clone();
                let within = moved.pop().map(|k| self.ix.scale(k, *dilation as i64));
                let start = self.ix.scale(index[*axis], *stride as i64);
                moved[*axis] = match within {
                    Some(within) => self.ix.add(start, within),
                    None => start,
                };
                moved
            }
            Op::Pad(lo, _) => {
                let mut moved = index.clone();
                for (axis, &size) in from.iter().enumerate() {
                    let size = size as i64;
                    let at = self.ix.offset(index[axis], -(lo[axis] as i64));
                    let (min, max) = self.ix.bounds(at);
                    moved[axis] = at;
                    if min < 0 || max >= size {
                        let cond = self.cond(Cond::Bound(at, size));
                        out.conds.push(cond);
                        moved[axis] = self.ix.guard(at, size);
                    }
                }
                moved
            }
            Op::Gather(axis) => {
                let size = from[*axis] as i64;
                let at = self.intern(dag, node.src[1], index.clone(), gate);
                let deps = self.request_deps(at);
                let mut moved = index.clone();
                moved[*axis] = self.ix.loaded(at, size, deps);
                let cond = self.cond(Cond::Loaded(at, size));
                out.conds.push(cond);
                let mut conds = self.gates[gate as usize].clone();
                conds.push(cond);
                let gate = self.gate(conds);
                out.children.push(self.intern(dag, first, moved, gate));
                out.children.push(at);
                return out;
            }
            _ => {
                for &src in &node.src {
                    let child = self.intern(dag, src, index.clone(), gate);
                    out.children.push(child);
                }
                return out;
            }
        };
        let mut conds = self.gates[gate as usize].clone();
        conds.extend_from_slice(&out.conds);
        let gate = self.gate(conds);
        out.children.push(self.intern(dag, first, moved, gate));
        out
    }
}

impl Walk<'_> {
    fn run(&mut self, may_split: bool) -> Result<(), Stop> {
        let domain = self.domain();
        for &root in self.roots {
            self.start(root, &domain);
        }
        while let Some((node, requests)) = self.region.pending.pop_last() {
            self.leave(node);
            let own = self
                .roots
                .iter()
                .position(|r| r.node == node && r.body == Body::Value(node));
            let here = match own {
                Some(i) => {
                    if requests.as_slice() != [self.region.stores[i].value] {
                        return Err(Stop::Apart);
                    }
                    if matches!(self.dag.node(node).op, Op::Reduce(..)) {
                        self.root_reduce(node, requests[0])?;
                    }
                    true
                }
                None => self.decide(node, &requests, may_split)?,
            };
            if here {
                self.inline(node, &requests);
            } else {
                self.realized[node as usize] |= self.dag.node(node).leaf.is_none();
                self.region.loads.push(node);
                for &request in &requests {
                    let load = Expansion {
                        load: true,
                        ..Expansion::default()
                    };
                    self.region.expansions.insert(request, load);
                }
            }
            self.region.visited.push((node, requests));
        }
        Ok(())
    }

    /// The loops of the kernel, and the index of each axis over them.
    fn domain(&mut self) -> SmallVec<[Ix; 4]> {
        let serial = self.roots.iter().find_map(|&r| serial_axis(self.dag, r));
        let parts = self.region.parts.clone();
        let mut index = SmallVec::new();
        for (axis, parts) in parts.iter().enumerate() {
            let kind = match serial {
                Some(s) if s == axis => RangeKind::Serial,
                _ => RangeKind::Loop,
            };
            let mut at = self.region.ix.constant(0);
            for &extent in parts {
                let range = self.region.ix.range(extent, kind);
                let outer = self.region.ix.scale(at, extent as i64);
                at = self.region.ix.add(outer, range);
            }
            index.push(at);
        }
        index
    }

    fn start(&mut self, root: Root, domain: &SmallVec<[Ix; 4]>) {
        let dag = self.dag;
        match root.body {
            Body::Value(n) => {
                let value = self.ask(n, domain.clone(), 0);
                let at = self.region.ix.flatten(domain, &dag.node(n).shape);
                self.region.stores.push(StoreAt {
                    root,
                    at,
                    value,
                    gate: 0,
                });
            }
            Body::Scatter(n) => {
                let node = dag.node(n);
                let axis = match node.op {
                    Op::Scatter(axis, _) => axis,
                    _ => 0,
                };
                let size = node.shape[axis] as i64;
                let place = self.ask(node.src[1], domain.clone(), 0);
                let value = self.ask(node.src[2], domain.clone(), 0);
                let deps = self.region.request_deps(place);
                let mut index = domain.clone();
                index[axis] = self.region.ix.loaded(place, size, deps);
                let at = self.region.ix.flatten(&index, &node.shape);
                let cond = self.region.cond(Cond::Loaded(place, size));
                let gate = self.region.gate(smallvec![cond]);
                self.region.stores.push(StoreAt {
                    root,
                    at,
                    value,
                    gate,
                });
            }
        }
    }

    fn ask(&mut self, node: u32, index: SmallVec<[Ix; 4]>, gate: u32) -> u32 {
        let request = self.region.intern(self.dag, node, index, gate);
        self.enter(request);
        request
    }

    fn enter(&mut self, request: u32) {
        let node = self.region.requests[request as usize].node;
        let dag = self.dag;
        let (bases, pending) = (&mut self.region.bases, &mut self.region.pending);
        let requests = pending.entry(node).or_insert_with(|| {
            if !dag.node(node).constant {
                *bases.entry(dag.base[node as usize]).or_insert(0) += 1;
            }
            Vec::new()
        });
        if !requests.contains(&request) {
            requests.push(request);
        }
    }

    fn leave(&mut self, node: u32) {
        if self.dag.node(node).constant {
            return;
        }
        let base = self.dag.base[node as usize];
        if let Some(count) = self.region.bases.get_mut(&base) {
            *count -= 1;
            if *count == 0 {
                self.region.bases.remove(&base);
            }
        }
    }

    fn inline(&mut self, node: u32, requests: &[u32]) {
        for &request in requests {
            let expansion = match self.region.expansions.remove(&request) {
                Some(known) => known,
                None => match &self.dag.node(node).op {
                    Op::Reduce(_, axes) => self.reduce(request, axes),
                    _ => self.region.expand(self.dag, request),
                },
            };
            for &child in &expansion.children {
                self.enter(child);
            }
            self.region.expansions.insert(request, expansion);
        }
    }

    /// The loops of a reduction, and the request for its operand.
    fn reduce(&mut self, request: u32, axes: &[usize]) -> Expansion {
        let Request { node, index, gate } = self.region.requests[request as usize].clone();
        let source = self.dag.node(node).src[0];
        let mut inner = index;
        let mut out = Expansion::default();
        for &axis in axes {
            let extent = self.dag.node(source).shape[axis];
            let range = self.region.ix.range(extent, RangeKind::Reduce);
            inner[axis] = range;
            if let Some(number) = self.region.ix.as_range(range) {
                out.ranges.push(number);
            }
        }
        out.children
            .push(self.region.intern(self.dag, source, inner, gate));
        self.region.reductions += 1;
        out
    }

    /// Computed here (true), or read from memory.
    fn decide(&mut self, n: u32, requests: &[u32], may_split: bool) -> Result<bool, Stop> {
        let node = self.dag.node(n);
        if node.constant {
            // Also where it is a result: its requests carry no gates.
            return Ok(true);
        }
        if self.realized[n as usize] || node.leaf.is_some() {
            return Ok(false);
        }
        if node.is_movement() && !matches!(node.op, Op::Pad(..)) {
            return Ok(true);
        }
        if self.repeated(n, requests) {
            return Ok(false);
        }
        if node.is_movement() {
            return Ok(true);
        }
        let fresh = node.src.iter().filter(|&&s| {
            !self.dag.node(s).constant
                && !self.region.bases.contains_key(&self.dag.base[s as usize])
        });
        let buffers = self.region.loads.len()
            + self.region.stores.len()
            + self.region.bases.len()
            + fresh.count();
        if buffers > self.limits.buffers
            || self.region.requests.len() > self.limits.requests
            || self.region.ix.ranges.len() + 16 > MAX_RANGES
        {
            return Ok(false);
        }
        match &node.op {
            Op::Reduce(_, axes) => self.decide_reduce(n, axes, requests, may_split),
            _ => Ok(true),
        }
    }

    /// Windows over a padded or computed value read each element several times: once in memory it
    /// is read at plain strides, without a condition per element and without computing it again.
    fn repeated(&self, n: u32, requests: &[u32]) -> bool {
        let &[request] = requests else {
            return false;
        };
        let node = self.dag.node(n);
        let windows = |s: &u32| matches!(self.dag.node(*s).op, Op::Windows { .. });
        let reads = self.region.ix.extent_of(self.region.request_deps(request));
        let computes = matches!(
            node.op,
            Op::Pad(..) | Op::Binary(_) | Op::Unary(_) | Op::Where | Op::Cast
        );
        computes
            && node.numel() > SMALL_WINDOWS
            && self.dag.users[n as usize].iter().any(windows)
            && reads.saturating_mul(2) >= 3 * node.numel() as u64
    }

    fn decide_reduce(
        &mut self,
        n: u32,
        axes: &[usize],
        requests: &[u32],
        may_split: bool,
    ) -> Result<bool, Stop> {
        let node = self.dag.node(n);
        let &[request] = requests else {
            return Ok(false);
        };
        if self.region.contraction.is_some() {
            return Ok(false);
        }
        let deps = self.region.request_deps(request);
        let loops = self.region.ix.of_kind(RangeKind::Loop);
        let serial = self.region.ix.of_kind(RangeKind::Serial);
        if deps & serial != 0 {
            return Ok(false);
        }
        // Products inside of another reduction would be a plain nest of loops.
        let work = self.dag.node(node.src[0]).numel() as u64;
        if deps & !loops != 0 && work > self.limits.small && self.is_product(n) {
            return Ok(false);
        }
        if self.region.ix.extent_of(deps) > node.numel() as u64 {
            return self.split_or_cut(request, may_split);
        }
        // Output loops that an operand needs apart (groups of channels) hide a contraction.
        let index = self.region.requests[request as usize].index.clone();
        let apart = !index.iter().all(|&ix| self.region.ix.is_affine(ix));
        if apart && may_split && self.is_product(n) && deps == loops {
            self.split_or_cut(request, may_split)?;
        }
        let expansion = self.reduce(request, axes);
        if self.is_contraction(n, &expansion) {
            let alone = self.region.reductions == 1 && deps == loops;
            if !alone {
                return Ok(false);
            }
            if apart {
                return self.split_or_cut(request, may_split);
            }
            self.begin_contraction(n);
        } else {
            let work = self.dag.node(node.src[0]).numel() as u64;
            let rows = self.region.ix.extent_of(deps & loops);
            if work > self.limits.small && rows < self.limits.parallel {
                return Ok(false);
            }
            if deps & !loops == 0 {
                // Loops nest, so the sets must; and large data wants its outer loops outside.
                let set = deps & loops;
                let nests = self
                    .region
                    .rows
                    .iter()
                    .all(|&r| r & set == r || r & set == set);
                let end = (RangeSet::BITS - set.leading_zeros()).min(127);
                let prefix = loops & ((1 << end) - 1);
                let outer = set == 0 || prefix == set;
                if !nests || work > self.limits.small && !outer {
                    return Ok(false);
                }
                if set != loops {
                    self.region.rows.push(set);
                }
            }
        }
        self.region.expansions.insert(request, expansion);
        Ok(true)
    }

    fn split_or_cut(&self, request: u32, may_split: bool) -> Result<bool, Stop> {
        let index = &self.region.requests[request as usize].index;
        let hint = index.iter().find_map(|&ix| self.region.ix.split_hint(ix));
        let Some((range, by)) = hint.filter(|_| may_split) else {
            return Ok(false);
        };
        // The loops of the domain come first, in order, without those of one iteration.
        let mut number = 0;
        for (axis, parts) in self.region.parts.iter().enumerate() {
            for (part, &extent) in parts.iter().enumerate() {
                if extent == 1 {
                    continue;
                }
                let kind = self.region.ix.ranges[number as usize].kind;
                if number == range && kind == RangeKind::Loop {
                    return Err(Stop::Split(axis, part, by as usize));
                }
                number += 1;
            }
        }
        Ok(false)
    }

    fn root_reduce(&mut self, n: u32, request: u32) -> Result<(), Stop> {
        let Op::Reduce(_, axes) = &self.dag.node(n).op else {
            return Ok(());
        };
        let expansion = self.reduce(request, axes);
        if self.is_contraction(n, &expansion) {
            if self.region.contraction.is_some() || self.region.reductions > 1 {
                return Err(Stop::Apart);
            }
            self.begin_contraction(n);
        }
        self.region.expansions.insert(request, expansion);
        Ok(())
    }

    /// A sum of products whose factors each have an output loop that the other has not.
    fn is_contraction(&mut self, n: u32, expansion: &Expansion) -> bool {
        if !matches!(self.dag.node(n).op, Op::Reduce(ReduceOp::Add, _)) {
            return false;
        }
        let mut product = expansion.children[0];
        loop {
            let at = self.region.requests[product as usize].node;
            let node = self.dag.node(at);
            if self.realized[at as usize] || node.leaf.is_some() {
                return false;
            }
            match node.op {
                Op::Cast | Op::Reshape | Op::Permute(_) => {
                    product = self.region.expand(self.dag, product).children[0];
                }
                Op::Binary(Binary::Mul) => break,
                _ => return false,
            }
        }
        let factors = self.region.expand(self.dag, product).children;
        let [a, b] = [factors[0], factors[1]].map(|f| self.operand_ranges(f));
        let bound = expansion
            .ranges
            .iter()
            .fold(0, |s: RangeSet, &r| s | 1 << r);
        a & bound != 0 && b & bound != 0 && a & !b & !bound != 0 && b & !a & !bound != 0
    }

    /// A sum of products, whatever loops the factors have.
    fn is_product(&self, n: u32) -> bool {
        if !matches!(self.dag.node(n).op, Op::Reduce(ReduceOp::Add, _)) {
            return false;
        }
        let mut at = self.dag.node(n).src[0];
        loop {
            let node = self.dag.node(at);
            if self.realized[at as usize] || node.leaf.is_some() {
                return false;
            }
            match node.op {
                Op::Cast | Op::Reshape | Op::Permute(_) => at = node.src[0],
                Op::Binary(Binary::Mul) => return true,
                _ => return false,
            }
        }
    }

    /// The ranges that an operand really depends on, looking through what only moves elements.
    fn operand_ranges(&mut self, request: u32) -> RangeSet {
        let mut deps = 0;
        let mut pending = vec![request];
        for _ in 0..100 {
            let Some(request) = pending.pop() else {
                return deps;
            };
            let n = self.region.requests[request as usize].node;
            let node = self.dag.node(n);
            if node.constant && matches!(node.op, Op::Const(_)) {
                continue;
            }
            let opaque = self.realized[n as usize]
                || node.leaf.is_some()
                || matches!(node.op, Op::Reduce(..) | Op::Iota);
            if opaque {
                let index = &self.region.requests[request as usize].index;
                deps |= index.iter().fold(0, |s, &ix| s | self.region.ix.deps(ix));
            } else {
                pending.extend(self.region.expand(self.dag, request).children);
            }
        }
        pending
            .iter()
            .fold(deps, |s, &r| s | self.region.request_deps(r))
    }

    /// Puts into memory what would be computed again and again for the operands.
    fn begin_contraction(&mut self, n: u32) {
        self.region.contraction = Some(n);
        let mut product = self.dag.node(n).src[0];
        while !matches!(self.dag.node(product).op, Op::Binary(_)) {
            product = self.dag.node(product).src[0];
        }
        for &factor in &self.dag.node(product).src {
            let factor = self.dag.base[factor as usize];
            if self.expensive(factor) {
                self.realized[factor as usize] = true;
            }
        }
    }

    /// More than a few cheap operations on memory.
    fn expensive(&self, n: u32) -> bool {
        let mut pending = vec![n];
        let mut work = 0;
        while let Some(n) = pending.pop() {
            let node = self.dag.node(n);
            if self.realized[n as usize] || node.leaf.is_some() {
                continue;
            }
            work += match &node.op {
                Op::Const(_) | Op::Iota => continue,
                _ if node.is_movement() => 0,
                Op::Unary(Unary::Neg | Unary::Not | Unary::Abs) => 1,
                Op::Cast | Op::Bitcast | Op::Where => 1,
                Op::Binary(b) => match b {
                    Binary::FDiv | Binary::FloorDiv | Binary::FloorMod => return true,
                    Binary::TruncDiv | Binary::TruncMod | Binary::Pow => return true,
                    _ => 1,
                },
                _ => return true,
            };
            if work > 6 {
                return true;
            }
            pending.extend(node.src.iter());
        }
        false
    }
}

impl Region {
    /// True if every read of `node` is at the element that `store` writes.
    pub fn reads_only_at(&mut self, dag: &Dag, node: u32, at: Ix) -> bool {
        let Region {
            ix,
            visited,
            requests,
            ..
        } = self;
        let of_node = visited.iter().filter(|(n, _)| *n == node);
        of_node.flat_map(|(_, requests)| requests).all(|&r| {
            let index = requests[r as usize].index.clone();
            ix.flatten(&index, &dag.node(node).shape) == at
        })
    }
}
