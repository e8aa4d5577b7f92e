//! Contractions: sums of products whose ranges split into rows, columns, batches and the summed
//! ones. Large ones are done as matrix products usually are: the operands are first written to
//! scratch memory in the order in which the innermost loop reads them, then a tile of results is
//! kept in registers while the loop runs over the summed ranges.
//!
//! The packing is made of ordinary kernels, so transposes, windows of convolutions, casts and
//! other element-wise work on the operands are part of it.

mod blocking;
mod bytes;
mod choose;
mod choose_group;
mod fill;
mod group;
mod stages;

use hashbrown::HashMap;

use super::{RangeInfo, ranges};
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Kernel, Op, RangeKind, RangeSets, ReduceOp, StoreMode};
use crate::rewrite::toposort;
use crate::symbolic::Lin;
pub use blocking::Blocking;
use bytes::Bytes;
pub use group::blocks;
pub use stages::stages;

/// Bytes that are multiplied and added up at once.
const WORD: i64 = 4;

/// The sizes of a packed contraction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows of the register tile.
    pub rows: u32,
    /// Columns of the register tile.
    pub cols: u32,
    /// Lanes of a vector of columns.
    pub lanes: u32,
    /// Summed elements per pass over the tiles.
    pub depth: u32,
    /// Tiles of rows per group.
    pub row_block: u32,
    /// Tiles of columns per group.
    pub col_block: u32,
    /// The element type of the accumulator.
    pub acc: DType,
    /// Four summed elements are a word of bytes; the depth counts words.
    pub bytes: bool,
    /// Rows and columns are exchanged.
    pub swap: bool,
    /// The operand of the rows is read where it is, one element for all lanes.
    pub direct_rows: bool,
    /// The operand of the columns is read where it is, a vector at a time.
    pub direct_cols: bool,
}

/// A block of memory that a kernel needs between its stages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScratchSpec {
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes, a power of two.
    pub align: usize,
}

/// One of the kernels that a contraction becomes.
#[derive(Clone, Debug)]
pub struct StageKernel {
    /// The kernel. Buffer slots after those of the original kernel are scratch blocks.
    pub kernel: Kernel,
    /// Its ranges have their kinds; the heuristics leave it alone.
    pub fixed: bool,
}

/// The parts of a packed contraction.
#[derive(Clone, Debug)]
pub struct Staged {
    /// Stages, in order.
    pub stages: Vec<StageKernel>,
    /// Scratch blocks, in slot order.
    pub scratch: Vec<ScratchSpec>,
}

/// Whether a packed operand of `packed` bytes, computed from constants of `read` bytes, is computed once and
/// kept. The windows of a constant image would be many times its size.
pub fn kept(packed: usize, read: usize) -> bool {
    packed <= read.saturating_mul(2).saturating_add(1 << 16)
}

/// A sum of products, seen as a matrix product.
#[derive(Clone, Debug)]
pub struct Contraction {
    store: Id,
    reduce: Id,
    a: Id,
    b: Id,
    batch: Vec<RangeInfo>,
    rows: Vec<RangeInfo>,
    cols: Vec<RangeInfo>,
    summed: Vec<RangeInfo>,
    /// The operands, if they are of 8 bits.
    bytes: Option<Bytes>,
    /// Type of the accumulator.
    pub acc: DType,
    /// Rows and columns are exchanged.
    pub swap: bool,
}

fn size(list: &[RangeInfo]) -> i64 {
    list.iter().fold(1i64, |p, r| p.saturating_mul(r.extent))
}

impl Contraction {
    /// Batches, rows, columns, summed elements.
    pub fn sizes(&self) -> (i64, i64, i64, i64) {
        (
            size(&self.batch),
            size(&self.rows),
            size(&self.cols),
            size(&self.summed),
        )
    }

    /// Finds the contraction of a kernel: one store of something made of one sum of products.
    pub fn find(kernel: &Kernel) -> Option<Contraction> {
        let g = &kernel.graph;
        let &[store] = g.src(kernel.sink) else {
            return None;
        };
        if g.op(store) != Op::Store(StoreMode::Set) {
            return None;
        }
        let nodes = toposort(g, store);
        if nodes.iter().any(|&n| matches!(g.op(n), Op::Scan(_))) {
            return None;
        }
        let mut reduces = nodes
            .iter()
            .copied()
            .filter(|&n| matches!(g.op(n), Op::Reduce(_)));
        let reduce = reduces.next()?;
        if reduces.next().is_some() || g.op(reduce) != Op::Reduce(ReduceOp::Add) {
            return None;
        }
        let acc = g.dtype(reduce);
        let value = g.src(reduce)[0];
        let exact = acc.is_int() && acc.size() >= 4;
        if !(exact || matches!(acc, DType::F32 | DType::F64))
            || g.op(value) != Op::Binary(Binary::Mul)
        {
            return None;
        }
        let &[a, b] = g.src(value) else { return None };
        let info: HashMap<Id, RangeInfo> =
            ranges(g, store).into_iter().map(|r| (r.id, r)).collect();
        let mut sets = RangeSets::default();
        let of = |sets: &mut RangeSets, n: Id| -> Vec<Id> { sets.of(g, n).to_vec() };
        let (in_a, in_b, out) = (of(&mut sets, a), of(&mut sets, b), of(&mut sets, store));
        let mut c = Contraction {
            store,
            reduce,
            a,
            b,
            batch: Vec::new(),
            rows: Vec::new(),
            cols: Vec::new(),
            summed: Vec::new(),
            bytes: None,
            acc,
            swap: false,
        };
        for id in &g.src(reduce)[1..] {
            let r = *info.get(id).filter(|r| r.kind == RangeKind::Reduce)?;
            c.summed.push(r);
        }
        for id in &out {
            let r = *info.get(id).filter(|r| r.kind == RangeKind::Loop)?;
            match (in_a.contains(id), in_b.contains(id)) {
                (true, true) => c.batch.push(r),
                (true, false) => c.rows.push(r),
                (false, true) => c.cols.push(r),
                (false, false) => return None,
            }
        }
        let known = |list: &[Id]| {
            list.iter()
                .all(|id| out.contains(id) || g.src(reduce)[1..].contains(id))
        };
        if !known(&in_a) || !known(&in_b) {
            return None;
        }
        for list in [&mut c.batch, &mut c.rows, &mut c.cols, &mut c.summed] {
            list.sort_by_key(|r| r.axis);
        }
        c.bytes = Bytes::of(kernel, &c);
        // One row or one column is a product of matrices for bytes only.
        let matrices = !c.rows.is_empty() && !c.cols.is_empty();
        (matrices || c.bytes.is_some()).then_some(c)
    }

    /// The same with rows and columns in their own places or in each other's.
    pub fn oriented(mut self, swap: bool) -> Contraction {
        if self.swap != swap {
            std::mem::swap(&mut self.rows, &mut self.cols);
            std::mem::swap(&mut self.a, &mut self.b);
            self.bytes = self.bytes.map(Bytes::swapped);
            self.swap = swap;
        }
        self
    }

    /// Whether columns that follow each other are neighbours in the result, over all column ranges.
    fn unit_columns(&self, g: &Graph) -> bool {
        let index = g.src(self.store)[1];
        unit(g, index, &self.cols)
    }
}

/// Whether an index is the number of the element of a list of ranges, plus what does not depend on
/// them.
fn unit(g: &Graph, index: Id, list: &[RangeInfo]) -> bool {
    let mut sets = RangeSets::build(g, index);
    let lin = Lin::of(g, index);
    let mut inner = 1;
    list.iter().rev().all(|r| {
        let expected = inner;
        inner *= r.extent;
        lin.stride(g, &mut sets, r.id) == Some(expected)
    })
}

fn up(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}
