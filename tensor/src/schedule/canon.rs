//! The graph to run, flattened: sources first, equal nodes once, without no-ops.

use hashbrown::{HashMap, HashSet};

use codegen::DType;
use codegen::interp::scalar;
use codegen::ir::ReduceOp;
use smallvec::SmallVec;

use crate::graph::{Op, ScatterMode, Tensor};

/// A node of the flattened graph.
#[derive(Clone, Debug)]
pub struct DagNode {
    /// What it computes. A [`Op::Const`] may have any shape here.
    pub op: Op,
    /// Numbers of the sources, all smaller than its own.
    pub src: SmallVec<[u32; 3]>,
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// A tensor whose value is in memory, a parameter of the loop whose body this is, or a value that each
    /// replay is given.
    pub leaf: Option<Tensor>,
    /// Computed from constants and positions only: never stored in memory.
    pub constant: bool,
}

impl DagNode {
    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Only says where elements are.
    pub fn is_movement(&self) -> bool {
        self.op.is_movement()
    }
}

/// The flattened graph.
#[derive(Debug, Default)]
pub struct Dag {
    /// Sources before their users.
    pub nodes: Vec<DagNode>,
    /// The node of each requested tensor.
    pub roots: Vec<u32>,
    /// The users of each node.
    pub users: Vec<Vec<u32>>,
    /// The nearest node below movement operations, of each node.
    pub base: Vec<u32>,
    /// Parts of tensors and paddings, and axes, whose begin is an argument of the kernels.
    pub open: HashSet<(u32, usize)>,
    table: HashMap<Identity, u32>,
}

#[derive(PartialEq, Eq, Hash, Debug)]
enum Identity {
    Leaf(u64),
    Node(Op, SmallVec<[u32; 3]>, Vec<usize>, DType),
}

impl Dag {
    /// Flattens everything that `roots` need and that is not in memory yet.
    pub fn new(roots: &[Tensor]) -> Dag {
        let mut seen: HashSet<u64> = HashSet::new();
        let mut pending: Vec<Tensor> = roots.to_vec();
        let mut all: Vec<Tensor> = Vec::new();
        while let Some(tensor) = pending.pop() {
            if !seen.insert(tensor.id()) {
                continue;
            }
            // In this order: who is computed meanwhile may give its sources up behind it.
            let src = tensor.node().src();
            if tensor.storage().is_none() {
                pending.extend(src.iter().cloned());
            }
            all.push(tensor);
        }
        // Sources are older than their users.
        all.sort_unstable_by_key(|t| t.id());
        let mut dag = Dag::default();
        let mut number: HashMap<u64, u32> = HashMap::with_capacity(all.len());
        for tensor in &all {
            let n = dag.add(tensor, &number);
            number.insert(tensor.id(), n);
        }
        dag.roots = roots.iter().map(|t| number[&t.id()]).collect();
        dag.users = vec![Vec::new(); dag.nodes.len()];
        for (n, node) in dag.nodes.iter().enumerate() {
            for &s in &node.src {
                let users = &mut dag.users[s as usize];
                if users.last() != Some(&(n as u32)) {
                    users.push(n as u32);
                }
            }
        }
        dag
    }

    /// The node.
    pub fn node(&self, n: u32) -> &DagNode {
        &self.nodes[n as usize]
    }

    /// Where a part of a tensor begins along an axis, or a tensor in its padding; 0 for what is neither.
    pub fn begin(&self, n: u32, axis: usize) -> usize {
        match &self.node(n).op {
            Op::Shrink(lo) | Op::Pad(lo, _) => lo[axis],
            _ => 0,
        }
    }

    fn add(&mut self, tensor: &Tensor, number: &HashMap<u64, u32>) -> u32 {
        let node = tensor.node();
        let own = node.src();
        if tensor.storage().is_some() || matches!(node.op, Op::Param | Op::Given) {
            return self.intern(Identity::Leaf(tensor.id()), || DagNode {
                op: Op::Data,
                src: SmallVec::new(),
                shape: node.shape.clone(),
                dtype: node.dtype,
                leaf: Some(tensor.clone()),
                constant: false,
            });
        }
        let mut src: SmallVec<[u32; 3]> = own.iter().map(|s| number[&s.id()]).collect();
        let mut op = node.op.clone();
        let nothing_in: SmallVec<[bool; 3]> =
            src.iter().map(|&s| self.node(s).numel() == 0).collect();
        let empty = |i: usize| nothing_in.get(i).copied().unwrap_or(false);
        // What reads nothing is a constant.
        let fill = match &op {
            Op::Reduce(r, _) if empty(0) => Some(scalar::identity(*r, node.dtype)),
            Op::Pad(_, value) if empty(0) => Some(*value),
            Op::Gather(_) if empty(0) => Some(0),
            _ => None,
        };
        if let Some(bits) = fill {
            (op, src) = (Op::Const(bits), SmallVec::new());
        }
        // What does nothing is its source.
        if let Some(&first) = src.first() {
            let from = self.node(first);
            let same = from.shape == node.shape && from.dtype == node.dtype;
            let nothing = match &op {
                Op::Detach | Op::Sloped(_) => true,
                Op::Cast | Op::Bitcast | Op::Reshape | Op::Expand => same,
                Op::Pad(..) | Op::Shrink(_) => same,
                Op::Permute(order) => order.iter().enumerate().all(|(i, &o)| i == o),
                Op::Flip(axes) => axes.iter().all(|&a| from.shape[a] == 1),
                Op::Reduce(_, axes) => axes.iter().all(|&a| from.shape[a] == 1),
                Op::Scan(_, axis) => from.shape[*axis] == 1,
                Op::Contiguous => from.leaf.is_some() || matches!(from.op, Op::Contiguous),
                Op::Scatter(..) => empty(1) || empty(2),
                _ => false,
            };
            if nothing {
                return first;
            }
            if matches!(op, Op::Reshape) && matches!(from.op, Op::Reshape) {
                src[0] = from.src[0];
                let from = self.node(src[0]);
                if from.shape == node.shape {
                    return src[0];
                }
            }
            // On one engine a copy is a place of its own with the same value.
            if matches!(op, Op::Copy) {
                op = Op::Contiguous;
            }
        }
        if matches!(op, Op::Loop(..)) {
            // It reads its sources in memory, where a shape says nothing.
            for s in &mut src {
                while matches!(self.node(*s).op, Op::Reshape) {
                    *s = self.node(*s).src[0];
                }
            }
        }
        if let Op::Scatter(axis, ScatterMode::Combine(ReduceOp::Add | ReduceOp::Mul)) = op
            && !self.surely_varies(src[1], axis)
            && !self.surely_varies(src[2], axis)
        {
            // A store runs once per value of the loops that it depends on, and this one has to run
            // for every element: an index in memory depends on them.
            src[1] = self.forced(src[1]);
        }
        let constant = match &op {
            Op::Const(_) | Op::Iota => true,
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast | Op::Bitcast => {
                src.iter().all(|&s| self.node(s).constant)
            }
            Op::Reshape | Op::Permute(_) | Op::Expand | Op::Pad(..) => self.node(src[0]).constant,
            Op::Shrink(_) | Op::Flip(_) | Op::Windows { .. } => self.node(src[0]).constant,
            _ => false,
        };
        let key = Identity::Node(op.clone(), src.clone(), node.shape.clone(), node.dtype);
        self.intern(key, || DagNode {
            op,
            src,
            shape: node.shape.clone(),
            dtype: node.dtype,
            leaf: None,
            constant,
        })
    }

    /// The value in memory.
    fn forced(&mut self, n: u32) -> u32 {
        let (shape, dtype) = (self.node(n).shape.clone(), self.node(n).dtype);
        let src: SmallVec<[u32; 3]> = SmallVec::from_slice(&[n]);
        let key = Identity::Node(Op::Contiguous, src.clone(), shape.clone(), dtype);
        self.intern(key, || DagNode {
            op: Op::Contiguous,
            src,
            shape,
            dtype,
            leaf: None,
            constant: false,
        })
    }

    /// True if the elements along an axis are read from different places, whatever is simplified.
    fn surely_varies(&self, mut n: u32, mut axis: usize) -> bool {
        loop {
            let node = self.node(n);
            if node.shape[axis] == 1 {
                return false;
            }
            match &node.op {
                Op::Data | Op::Contiguous | Op::Scan(..) | Op::Scatter(..) | Op::Iota => {
                    return true;
                }
                Op::Loop(..) => return true,
                Op::Permute(order) => axis = order[axis],
                Op::Unary(_) | Op::Cast | Op::Shrink(_) | Op::Flip(_) | Op::Expand => {}
                Op::Checked(_) => {}
                _ => return false,
            }
            n = node.src[0];
        }
    }

    fn intern(&mut self, key: Identity, make: impl FnOnce() -> DagNode) -> u32 {
        let next = self.nodes.len() as u32;
        let found = *self.table.entry(key).or_insert(next);
        if found == next {
            let node = make();
            let below = node.is_movement().then(|| self.base[node.src[0] as usize]);
            self.base.push(below.unwrap_or(next));
            self.nodes.push(node);
        }
        found
    }
}
