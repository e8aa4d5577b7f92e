//! The arena: hash-consed nodes, so that equal expressions are one node and equality is an integer
//! comparison. One arena per kernel; it is dropped whole.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::arith::{Binary, ReduceOp, Unary};
use super::op::{Op, RangeKind, StoreMode};
use crate::dtype::DType;

/// A node of one [`Graph`]. Sources always have smaller ids than the nodes that use them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Id(pub u32);

/// Sources of a node.
pub type Src = SmallVec<[Id; 4]>;

/// One operation with its sources and result type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// Element type of its result (of the pointee for pointers, of the value for stores).
    pub dtype: DType,
    /// Operands.
    pub src: Src,
}

/// A hash-consed arena of [`Node`]s.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Graph {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of nodes ever made.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True before the first node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node behind an id of this arena.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The operation of a node.
    pub fn op(&self, id: Id) -> Op {
        self.node(id).op
    }

    /// The element type of a node.
    pub fn dtype(&self, id: Id) -> DType {
        self.node(id).dtype
    }

    /// The operands of a node.
    pub fn src(&self, id: Id) -> &[Id] {
        &self.node(id).src
    }

    /// Adds a node, or finds the equal one that is there.
    pub fn add(&mut self, op: Op, dtype: DType, src: &[Id]) -> Id {
        debug_assert!(
            src.iter().all(|s| (s.0 as usize) < self.nodes.len()),
            "foreign id in {op:?}"
        );
        let node = Node {
            op,
            dtype,
            src: SmallVec::from_slice(src),
        };
        let hash = self.hasher.hash_one(&node);
        if let Some(&found) = self.table.find(hash, |&i| self.nodes[i as usize] == node) {
            return Id(found);
        }
        let id = self.nodes.len() as u32;
        self.nodes.push(node);
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.table
            .insert_unique(hash, id, |&i| hasher.hash_one(&nodes[i as usize]));
        Id(id)
    }

    /// A constant given by the bits of its type, see [`Op::Const`].
    pub fn bits(&mut self, dtype: DType, bits: u64) -> Id {
        self.add(Op::Const(bits), dtype, &[])
    }

    /// An index constant.
    pub fn index(&mut self, value: i64) -> Id {
        self.bits(DType::I64, value as u64)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, value: bool) -> Id {
        self.bits(DType::Bool, value as u64)
    }

    /// A buffer argument.
    pub fn param(&mut self, slot: u16, dtype: DType) -> Id {
        self.add(Op::Param { slot }, dtype, &[])
    }

    /// An integer argument.
    pub fn var(&mut self, slot: u16, min: i64, max: i64) -> Id {
        self.add(Op::Var { slot, min, max }, DType::I64, &[])
    }

    /// An argument that is a value of any type; see [`Op::Var`].
    pub fn argument(&mut self, slot: u16, dtype: DType) -> Id {
        let (min, max) = (i64::MIN, i64::MAX);
        self.add(Op::Var { slot, min, max }, dtype, &[])
    }

    /// A loop index.
    pub fn range(&mut self, axis: u32, extent: i64, kind: RangeKind) -> Id {
        self.add(Op::Range { axis, extent, kind }, DType::I64, &[])
    }

    /// One-operand arithmetic.
    pub fn unary(&mut self, op: Unary, a: Id) -> Id {
        let dtype = self.dtype(a);
        self.add(Op::Unary(op), dtype, &[a])
    }

    /// Two-operand arithmetic.
    pub fn binary(&mut self, op: Binary, a: Id, b: Id) -> Id {
        debug_assert_eq!(self.dtype(a), self.dtype(b), "{op:?} of mixed types");
        let dtype = if op.is_compare() {
            DType::Bool
        } else {
            self.dtype(a)
        };
        self.add(Op::Binary(op), dtype, &[a, b])
    }

    /// `cond ? a : b`.
    pub fn select(&mut self, cond: Id, a: Id, b: Id) -> Id {
        let dtype = self.dtype(a);
        self.add(Op::Where, dtype, &[cond, a, b])
    }

    /// Conversion by value; nothing if the type is the same.
    pub fn cast(&mut self, a: Id, dtype: DType) -> Id {
        if self.dtype(a) == dtype {
            a
        } else {
            self.add(Op::Cast, dtype, &[a])
        }
    }

    /// An ungated load.
    pub fn load(&mut self, ptr: Id, index: Id) -> Id {
        let dtype = self.dtype(ptr);
        self.add(Op::Load, dtype, &[ptr, index])
    }

    /// A load that gives `alt` and does not touch memory where `gate` is false.
    pub fn load_gated(&mut self, ptr: Id, index: Id, gate: Id, alt: Id) -> Id {
        let dtype = self.dtype(ptr);
        self.add(Op::Load, dtype, &[ptr, index, gate, alt])
    }

    /// A value that is looked at: see [`Op::Check`].
    pub fn check(&mut self, ptr: Id, value: Id, number: Id, outside: Id) -> Id {
        let dtype = self.dtype(value);
        self.add(Op::Check, dtype, &[ptr, value, number, outside])
    }

    /// A reduction over ranges.
    pub fn reduce(&mut self, op: ReduceOp, value: Id, ranges: &[Id]) -> Id {
        let dtype = self.dtype(value);
        let mut src: Src = SmallVec::with_capacity(ranges.len() + 1);
        src.push(value);
        src.extend_from_slice(ranges);
        self.add(Op::Reduce(op), dtype, &src)
    }

    /// A store, gated if `gate` is given.
    pub fn store(
        &mut self,
        mode: StoreMode,
        ptr: Id,
        index: Id,
        value: Id,
        gate: Option<Id>,
    ) -> Id {
        let dtype = self.dtype(value);
        match gate {
            Some(gate) => self.add(Op::Store(mode), dtype, &[ptr, index, value, gate]),
            None => self.add(Op::Store(mode), dtype, &[ptr, index, value]),
        }
    }

    /// The root of a kernel.
    pub fn sink(&mut self, stores: &[Id]) -> Id {
        self.add(Op::Sink, DType::Bool, stores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_nodes_are_one() {
        let mut g = Graph::new();
        let r = g.range(0, 8, RangeKind::Loop);
        let one = g.index(1);
        let a = g.binary(Binary::Add, r, one);
        let b = g.binary(Binary::Add, r, one);
        assert_eq!(a, b);
        assert_eq!(g.len(), 3);
    }
}
