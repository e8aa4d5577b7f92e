//! One kernel, as requests: which elements of which nodes are needed to compute the roots.
//!
//! The walk starts at the roots with one loop range per axis and goes to the sources. Nodes are
//! visited users first, so that every request for a node is known when it is decided whether the
//! node is computed here or read from memory.

mod walk;

use hashbrown::HashMap;
use std::collections::BTreeMap;

use codegen::target::TargetKind;
use smallvec::SmallVec;

use super::canon::Dag;
use super::domains::{Atom, Indices, Ix, RangeSet};
use super::marks::Marks;
use crate::graph::Op;
use walk::Walk;
pub(super) use walk::bytes_of;

/// Bounds of the decisions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Independent iterations that keep the device busy.
    pub parallel: u64,
    /// Elements below which a kernel may run on one core.
    pub small: u64,
    /// Requests in one kernel.
    pub requests: usize,
    /// Requests for elementary functions in one kernel. Each is so many instructions that a trip through memory is
    /// nothing beside a few of them, and compilers take more than twice the time for twice as many.
    pub functions: usize,
    /// Buffers of one kernel.
    pub buffers: usize,
}

impl Limits {
    /// Those of a machine with so many cores or compute units.
    pub fn of(kind: TargetKind, units: u64) -> Limits {
        match kind {
            TargetKind::Cpu => Limits {
                parallel: units.saturating_mul(4),
                ..Limits::default()
            },
            // A row has a group of work-items to itself, and a launch costs more than idle units.
            TargetKind::Gpu => Limits {
                parallel: units,
                small: 1 << 18,
                ..Limits::default()
            },
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            parallel: 8,
            small: 1 << 15,
            requests: 1500,
            functions: 16,
            buffers: 24,
        }
    }
}

/// What a kernel computes into the buffer of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// The value of this node.
    Value(u32),
    /// The combining half of this scatter; the base is in the buffer already.
    Scatter(u32),
    /// What this node takes from a loop.
    Loop(u32),
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
    functions: usize,
    parts: Vec<Vec<usize>>,
}

/// Shape of the loops of a root.
pub fn domain_of(dag: &Dag, root: Root) -> &[usize] {
    match root.body {
        Body::Value(n) | Body::Loop(n) => &dag.node(n).shape,
        Body::Scatter(n) => &dag.node(dag.node(n).src[1]).shape,
    }
}

/// Finds everything that a kernel for `roots` computes; marks in `realized` what it needs in
/// memory. The roots have one domain.
pub fn discover(
    dag: &Dag,
    limits: &Limits,
    realized: &mut Marks,
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
            functions: 0,
            parts,
        }
    }

    /// One that computes nothing by itself, and needs these nodes in memory.
    pub fn reading(loads: Vec<u32>) -> Region {
        Region {
            loads,
            ..Region::new(Vec::new())
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
            for &(atom, _) in self.ix.lin(ix).terms() {
                match self.ix.atom_of(atom) {
                    Atom::Range(_) | Atom::Place(..) => {}
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
        let number = node;
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
                let axes = index.iter().zip(lo).enumerate();
                axes.map(|(axis, (&ix, &lo))| {
                    if !dag.open.contains(&(number, axis)) {
                        return self.ix.offset(ix, lo as i64);
                    }
                    let most = from[axis] - node.shape[axis];
                    let begin = self.ix.place(number, axis, most as i64);
                    self.ix.add(ix, begin)
                })
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
            Op::Pad(lo, _) => self.inside(dag, number, &index, lo, &mut out.conds),
            Op::Gather(axis) => return self.gathered(dag, request, *axis),
            _ => {
                let sources = match node.op {
                    // The word is written, not read.
                    Op::Checked(_) => &node.src[..1],
                    _ => &node.src[..],
                };
                for &src in sources {
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

    /// Where in its source an element of a pad lies. `conds` gets what must hold for it to lie there.
    fn inside(
        &mut self,
        dag: &Dag,
        pad: u32,
        index: &[Ix],
        lo: &[usize],
        conds: &mut SmallVec<[u32; 2]>,
    ) -> SmallVec<[Ix; 4]> {
        let node = dag.node(pad);
        let mut moved = SmallVec::from_slice(index);
        for (axis, &size) in dag.node(node.src[0]).shape.iter().enumerate() {
            let at = if dag.open.contains(&(pad, axis)) {
                let most = node.shape[axis] - size;
                let begin = self.ix.place(pad, axis, most as i64);
                let before = self.ix.scale(begin, -1);
                self.ix.add(index[axis], before)
            } else {
                self.ix.offset(index[axis], -(lo[axis] as i64))
            };
            let size = size as i64;
            let (min, max) = self.ix.bounds(at);
            moved[axis] = at;
            if min < 0 || max >= size {
                let cond = self.cond(Cond::Bound(at, size));
                conds.push(cond);
                moved[axis] = self.ix.guard(at, size);
            }
        }
        moved
    }

    /// The requests behind one of a gather: the element that the index names, if it is one, and the index.
    fn gathered(&mut self, dag: &Dag, request: u32, axis: usize) -> Expansion {
        let Request { node, index, gate } = self.requests[request as usize].clone();
        let node = dag.node(node);
        let size = dag.node(node.src[0]).shape[axis] as i64;
        let mut out = Expansion::default();
        let at = self.intern(dag, node.src[1], index.clone(), gate);
        let deps = self.request_deps(at);
        let mut moved = index;
        moved[axis] = self.ix.loaded(at, size, deps);
        let cond = self.cond(Cond::Loaded(at, size));
        out.conds.push(cond);
        let mut conds = self.gates[gate as usize].clone();
        conds.push(cond);
        let gate = self.gate(conds);
        out.children
            .push(self.intern(dag, node.src[0], moved, gate));
        out.children.push(at);
        out
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
