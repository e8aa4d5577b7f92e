//! Contractions: sums of products whose ranges split into rows, columns, batches and the summed
//! ones. Large ones are done as matrix products usually are: the operands are first written to
//! scratch memory in the order in which the innermost loop reads them, then a tile of results is
//! kept in registers while the loop runs over the summed ranges.
//!
//! The packing is made of ordinary kernels, so transposes, windows of convolutions, casts and
//! other element-wise work on the operands are part of it.

use hashbrown::HashMap;

use super::{RangeInfo, ranges};
use crate::DType;
use crate::ir::{Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, ReduceOp, StoreMode};
use crate::rewrite::{simplify, substitute, toposort};
use crate::symbolic::{Lin, RangeSets};
use crate::target::{MmaDesc, MmaScope, Target};

/// Multiplications below which packing costs more than it gains.
const MIN_WORK: i64 = 50_000;

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
    /// Rows and columns change places, so that columns are contiguous in the result.
    pub swap: bool,
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

/// What a packed contraction is made of.
#[derive(Clone, Debug)]
pub struct Staged {
    /// To be run one after the other.
    pub stages: Vec<StageKernel>,
    /// Scratch blocks, in slot order.
    pub scratch: Vec<ScratchSpec>,
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
    /// Type of the accumulator.
    pub acc: DType,
    /// Which side is contiguous in the result is the other one.
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
        if !matches!(acc, DType::F32 | DType::F64) || g.op(value) != Op::Binary(Binary::Mul) {
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
        if !known(&in_a) || !known(&in_b) || c.rows.is_empty() || c.cols.is_empty() {
            return None;
        }
        for list in [&mut c.batch, &mut c.rows, &mut c.cols, &mut c.summed] {
            list.sort_by_key(|r| r.axis);
        }
        // Lanes run along the columns: they should be the contiguous side of the result.
        let index = Lin::of(g, g.src(store)[1]);
        let mut unit = |list: &[RangeInfo]| {
            list.last()
                .is_some_and(|r| index.stride(g, &mut sets, r.id) == Some(1))
        };
        c.swap = unit(&c.rows) && !unit(&c.cols);
        if c.swap {
            std::mem::swap(&mut c.rows, &mut c.cols);
            std::mem::swap(&mut c.a, &mut c.b);
        }
        Some(c)
    }

    /// The tile that is expected to be the fastest, or `None` if a plain loop nest is.
    pub fn choose(&self, target: &Target) -> Option<Tile> {
        let (batch, m, n, k) = self.sizes();
        let work = m.checked_mul(n)?.checked_mul(k)?.checked_mul(batch)?;
        if work < MIN_WORK || m < 4 || n < 8 || k < 4 {
            return None;
        }
        let desc = target
            .mma
            .iter()
            .find(|d: &&MmaDesc| d.acc == self.acc && d.scope == MmaScope::Thread)?;
        let lanes = target.lanes(self.acc) as i64;
        let budget = target.vector_regs as i64 - 1;
        let mut best: Option<(f64, i64, i64)> = None;
        for vectors in 1..=4i64 {
            let most = (budget - vectors) / vectors;
            for rows in 1..=most.min(i64::from(desc.m) * 2).min(m) {
                let cols = vectors * lanes;
                // Useful part of the padded tiles, times how little of it waits for loads.
                let padded = (m as u64).next_multiple_of(rows as u64) as f64
                    * (n as u64).next_multiple_of(cols as u64) as f64;
                let useful = (m * n) as f64 / padded;
                let loads = (rows + vectors) as f64 / (rows * vectors) as f64;
                // Four cycles of latency on two units need eight independent sums.
                let latency = ((rows * vectors) as f64 / 8.0).min(1.0);
                let score = useful * latency / (1.0 + 0.25 * loads);
                if best.is_none_or(|b| score > b.0 + 1e-9) {
                    best = Some((score, rows, cols));
                }
            }
        }
        let (_, rows, cols) = best?;
        let bytes = self.acc.size() as i64;
        // A sliver of columns stays in the second level; above that the sum is done in passes.
        let most = (target.l2_bytes as i64 / 4 / (cols * bytes)).clamp(64, 1024);
        let passes = (k + most - 1) / most;
        let depth = (k + passes - 1) / passes;
        let row_tiles = (m + rows - 1) / rows;
        let col_tiles = (n + cols - 1) / cols;
        // A block of rows stays in the second level while the columns go by.
        let fit = (target.l2_bytes as i64 / 2 / (rows * depth * bytes)).clamp(1, row_tiles);
        let wanted = if target.cores > 1 {
            target.cores as i64 * 4
        } else {
            1
        };
        let mut row_block = balanced(row_tiles, fit);
        let mut groups = batch * ((row_tiles + row_block - 1) / row_block);
        let mut col_block = balanced(col_tiles, (col_tiles * groups / wanted).max(1));
        groups *= (col_tiles + col_block - 1) / col_block;
        if groups < wanted {
            col_block = 1;
            row_block = balanced(row_tiles, (row_tiles * col_tiles * batch / wanted).max(1));
        }
        Some(Tile {
            rows: u32::try_from(rows).ok()?,
            cols: u32::try_from(cols).ok()?,
            lanes: u32::try_from(lanes).ok()?,
            depth: u32::try_from(depth).ok()?,
            row_block: u32::try_from(row_block).ok()?,
            col_block: u32::try_from(col_block).ok()?,
            acc: self.acc,
            swap: self.swap,
        })
    }
}

/// The block size of at most `most` that leaves the least empty places in the last block.
fn balanced(tiles: i64, most: i64) -> i64 {
    let most = most.clamp(1, tiles.max(1));
    (((most + 1) / 2)..=most)
        .min_by_key(|&b| ((tiles + b - 1) / b * b - tiles, -b))
        .unwrap_or(most)
}

/// Writes index `flat` as values of the ranges, the last one fastest.
fn decode(g: &mut Graph, list: &[RangeInfo], flat: Id, map: &mut HashMap<Id, Id>) {
    let mut below = 1i64;
    for (i, r) in list.iter().enumerate().rev() {
        let mut value = flat;
        if below > 1 {
            let n = g.index(below);
            value = g.binary(Binary::FloorDiv, value, n);
        }
        if i > 0 {
            let n = g.index(r.extent);
            value = g.binary(Binary::FloorMod, value, n);
        }
        map.insert(r.id, value);
        below = below.saturating_mul(r.extent);
    }
}

fn affine(g: &mut Graph, a: Id, scale: i64, b: Id) -> Id {
    let n = g.index(scale);
    let scaled = g.binary(Binary::Mul, a, n);
    g.binary(Binary::Add, scaled, b)
}

fn below(g: &mut Graph, value: Id, limit: i64) -> Id {
    let n = g.index(limit);
    g.binary(Binary::Lt, value, n)
}

fn up(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// Sizes that follow from a tile.
struct Plan {
    t: Tile,
    row_blocks: i64,
    col_blocks: i64,
    passes: i64,
    /// Summed elements, with the padding of the last pass.
    depth: i64,
}

/// Makes the stages, or `None` where a size does not fit.
pub fn stages(kernel: &Kernel, c: &Contraction, tile: Tile) -> Option<Staged> {
    let (batch, m, n, k) = c.sizes();
    let t = tile;
    if t.rows == 0 || t.cols == 0 || t.lanes == 0 || t.depth == 0 || !t.cols.is_multiple_of(t.lanes)
    {
        return None;
    }
    let (rows, cols) = (i64::from(t.rows), i64::from(t.cols));
    let (row_block, col_block) = (i64::from(t.row_block.max(1)), i64::from(t.col_block.max(1)));
    let passes = up(k, i64::from(t.depth));
    let plan = Plan {
        t,
        row_blocks: up(up(m, rows), row_block),
        col_blocks: up(up(n, cols), col_block),
        passes,
        depth: i64::from(t.depth),
    };
    let row_tiles = plan.row_blocks * row_block;
    let col_tiles = plan.col_blocks * col_block;
    let bytes = |tiles: i64, width: i64| -> Option<usize> {
        let elements = batch
            .checked_mul(tiles)?
            .checked_mul(width)?
            .checked_mul(passes.checked_mul(plan.depth)?)?;
        usize::try_from(elements).ok()?.checked_mul(t.acc.size())
    };
    let mut scratch = vec![
        ScratchSpec {
            bytes: bytes(row_tiles, rows)?,
            align: 64,
        },
        ScratchSpec {
            bytes: bytes(col_tiles, cols)?,
            align: 64,
        },
    ];
    // The sum in passes needs memory of the type of the accumulator: the result itself if it is
    // stored as it is, with the columns one after the other.
    let store = kernel.graph.src(c.store);
    let plain = store[2] == c.reduce && store.len() == 3 && unit_columns(kernel, c);
    let partial = passes > 1 && !plain;
    if partial {
        let elements = batch.checked_mul(m)?.checked_mul(n)?;
        let size = usize::try_from(elements).ok()?.checked_mul(t.acc.size())?;
        scratch.push(ScratchSpec {
            bytes: size,
            align: 64,
        });
    }
    let mut base = kernel.clone();
    for s in &scratch {
        base.params.push(ParamInfo {
            dtype: t.acc,
            len: s.bytes / t.acc.size(),
            written: true,
        });
    }
    let first = u16::try_from(kernel.params.len()).ok()?;
    let mut stages = vec![
        pack(&base, c, &plan, first, c.a, &c.rows, rows, row_tiles, "a"),
        pack(
            &base,
            c,
            &plan,
            first + 1,
            c.b,
            &c.cols,
            cols,
            col_tiles,
            "b",
        ),
    ];
    if passes > 1 {
        stages.push(clear(&base, c, partial.then_some(first + 2)));
    }
    stages.push(multiply(&base, c, &plan, first, partial));
    if partial {
        stages.push(finish(&base, c, first + 2));
    }
    Some(Staged { stages, scratch })
}

/// Whether columns that follow each other are neighbours in the result, over all column ranges.
fn unit_columns(kernel: &Kernel, c: &Contraction) -> bool {
    let g = &kernel.graph;
    let index = g.src(c.store)[1];
    let mut sets = RangeSets::build(g, index);
    let lin = Lin::of(g, index);
    let mut inner = 1;
    c.cols.iter().rev().all(|r| {
        let expected = inner;
        inner *= r.extent;
        lin.stride(g, &mut sets, r.id) == Some(expected)
    })
}

/// Writes one operand as `[batch][tile][pass][depth][width]`, zero outside of the operand.
#[allow(clippy::too_many_arguments, reason = "both operands go through it")]
fn pack(
    base: &Kernel,
    c: &Contraction,
    plan: &Plan,
    slot: u16,
    operand: Id,
    side: &[RangeInfo],
    width: i64,
    tiles: i64,
    name: &str,
) -> StageKernel {
    let mut kernel = base.clone();
    kernel.name = format!("{}_pack_{name}", base.name);
    let g = &mut kernel.graph;
    let batch = size(&c.batch);
    let summed = size(&c.summed);
    let total = plan.passes * plan.depth;
    let rb = g.range(0, batch, RangeKind::Loop);
    let rt = g.range(1, tiles, RangeKind::Loop);
    let rk = g.range(2, total, RangeKind::Loop);
    let ri = g.range(3, width, RangeKind::Loop);
    let at = affine(g, rt, width, ri);
    let mut map = HashMap::new();
    decode(g, &c.batch, rb, &mut map);
    decode(g, side, at, &mut map);
    decode(g, &c.summed, rk, &mut map);
    let mut gates = Vec::new();
    if tiles * width > size(side) {
        gates.push(below(g, at, size(side)));
    }
    if total > summed {
        gates.push(below(g, rk, summed));
    }
    let gate = gates.into_iter().reduce(|a, b| g.binary(Binary::And, a, b));
    let mut value = substitute(g, operand, &map);
    if let Some(gate) = gate {
        value = gated(g, value, gate, None);
        let zero = g.bits(plan.t.acc, 0);
        value = g.select(gate, value, zero);
    }
    let b = affine(g, rb, tiles, rt);
    let k = affine(g, b, total, rk);
    let index = affine(g, k, width, ri);
    let ptr = g.param(slot, plan.t.acc);
    let store = g.store(StoreMode::Set, ptr, index, value, None);
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    StageKernel {
        kernel,
        fixed: false,
    }
}

/// Every load below `root` happens only where `gate` holds; `keep` stays what it is.
fn gated(g: &mut Graph, root: Id, gate: Id, keep: Option<Id>) -> Id {
    let mut new: HashMap<Id, Id> = HashMap::new();
    for n in toposort(g, root) {
        if Some(n) == keep {
            new.insert(n, n);
            continue;
        }
        let node = g.node(n).clone();
        let src: Vec<Id> = node.src.iter().map(|s| new[s]).collect();
        let made = match (node.op, &src[..]) {
            (Op::Load, &[ptr, index]) => {
                let alt = g.bits(node.dtype, 0);
                g.load_gated(ptr, index, gate, alt)
            }
            (Op::Load, &[ptr, index, old, alt]) => {
                let both = g.binary(Binary::And, gate, old);
                g.load_gated(ptr, index, both, alt)
            }
            (op, src) => g.add(op, node.dtype, src),
        };
        new.insert(n, made);
    }
    new[&root]
}

/// Sets what the passes add to.
fn clear(base: &Kernel, c: &Contraction, partial: Option<u16>) -> StageKernel {
    let mut kernel = base.clone();
    kernel.name = format!("{}_clear", base.name);
    let g = &mut kernel.graph;
    let zero = g.bits(c.acc, 0);
    let store = match partial {
        Some(slot) => {
            let ptr = g.param(slot, c.acc);
            let (batch, m, n, _) = c.sizes();
            let r = g.range(0, batch * m * n, RangeKind::Loop);
            g.store(StoreMode::Set, ptr, r, zero, None)
        }
        None => {
            let (ptr, index) = (g.src(c.store)[0], g.src(c.store)[1]);
            g.store(StoreMode::Set, ptr, index, zero, None)
        }
    };
    kernel.sink = g.sink(&[store]);
    StageKernel {
        kernel,
        fixed: false,
    }
}

/// The tiles.
fn multiply(base: &Kernel, c: &Contraction, plan: &Plan, first: u16, partial: bool) -> StageKernel {
    let t = plan.t;
    let mut kernel = base.clone();
    kernel.name = format!("{}_tile", base.name);
    let g = &mut kernel.graph;
    let (batch, m, n, _) = c.sizes();
    let (rows, cols, lanes) = (i64::from(t.rows), i64::from(t.cols), i64::from(t.lanes));
    let (row_block, col_block) = (i64::from(t.row_block.max(1)), i64::from(t.col_block.max(1)));
    let groups = batch * plan.row_blocks * plan.col_blocks;
    // Columns inside of rows: neighbouring groups share the block of rows.
    let group = g.range(0, groups, RangeKind::Global);
    let n_cols = g.index(plan.col_blocks);
    let n_rows = g.index(plan.row_blocks);
    let cb = g.binary(Binary::FloorMod, group, n_cols);
    let rest = g.binary(Binary::FloorDiv, group, n_cols);
    let rb = g.binary(Binary::FloorMod, rest, n_rows);
    let b = g.binary(Binary::FloorDiv, rest, n_rows);
    let pass = g.range(1, plan.passes, RangeKind::Serial);
    let ct = g.range(2, col_block, RangeKind::Loop);
    let rt = g.range(3, row_block, RangeKind::Loop);
    let ri = g.range(4, rows, RangeKind::Upcast);
    let ci = g.range(5, cols / lanes, RangeKind::Upcast);
    let cl = g.range(6, lanes, RangeKind::Vec);
    let ki = g.range(7, plan.depth, RangeKind::Reduce);
    let col_tile = affine(g, cb, col_block, ct);
    let row_tile = affine(g, rb, row_block, rt);
    let col_in = affine(g, ci, lanes, cl);
    let row = affine(g, row_tile, rows, ri);
    let col = affine(g, col_tile, cols, col_in);
    let packed = |g: &mut Graph, slot: u16, tiles: i64, tile: Id, width: i64, inner: Id| {
        let x = affine(g, b, tiles, tile);
        let x = affine(g, x, plan.passes, pass);
        let x = affine(g, x, plan.depth, ki);
        let index = affine(g, x, width, inner);
        let ptr = g.param(slot, t.acc);
        g.load(ptr, index)
    };
    let row_tiles = plan.row_blocks * row_block;
    let col_tiles = plan.col_blocks * col_block;
    let a = packed(g, first, row_tiles, row_tile, rows, ri);
    let bb = packed(g, first + 1, col_tiles, col_tile, cols, col_in);
    let product = g.binary(Binary::Mul, a, bb);
    let sum = g.reduce(ReduceOp::Add, product, &[ki]);

    let mut gates = Vec::new();
    if row_tiles * rows > m {
        gates.push(below(g, row, m));
    }
    if col_tiles * cols > n {
        gates.push(below(g, col, n));
    }
    let gate = gates.into_iter().reduce(|x, y| g.binary(Binary::And, x, y));
    let mode = if plan.passes > 1 {
        StoreMode::Combine(ReduceOp::Add)
    } else {
        StoreMode::Set
    };
    let store = if partial {
        let ptr = g.param(first + 2, t.acc);
        let x = affine(g, b, m, row);
        let index = affine(g, x, n, col);
        g.store(mode, ptr, index, sum, gate)
    } else {
        let mut map = HashMap::from_iter([(c.reduce, sum)]);
        decode(g, &c.batch, b, &mut map);
        decode(g, &c.rows, row, &mut map);
        decode(g, &c.cols, col, &mut map);
        let src = g.src(c.store).to_vec();
        let index = if unit_columns(base, c) {
            // Taking the columns apart and putting them together again would hide that they are
            // neighbours.
            let zero = g.index(0);
            let mut first = map.clone();
            first.extend(c.cols.iter().map(|r| (r.id, zero)));
            let row = substitute(g, src[1], &first);
            g.binary(Binary::Add, row, col)
        } else {
            substitute(g, src[1], &map)
        };
        let mut value = substitute(g, src[2], &map);
        let mut all = gate;
        if let Some(&own) = src.get(3) {
            let own = substitute(g, own, &map);
            all = Some(match gate {
                Some(gate) => g.binary(Binary::And, own, gate),
                None => own,
            });
        }
        if let Some(gate) = gate {
            // The loads of the epilogue stay inside; those of the packed operands are all there.
            value = gated(g, value, gate, Some(sum));
        }
        g.store(mode, src[0], index, value, all)
    };
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    StageKernel {
        kernel,
        fixed: true,
    }
}

/// The element-wise rest after the passes.
fn finish(base: &Kernel, c: &Contraction, slot: u16) -> StageKernel {
    let mut kernel = base.clone();
    kernel.name = format!("{}_finish", base.name);
    let g = &mut kernel.graph;
    let mut index = g.index(0);
    for r in c.batch.iter().chain(&c.rows).chain(&c.cols) {
        index = affine(g, index, r.extent, r.id);
    }
    let ptr = g.param(slot, c.acc);
    let sum = g.load(ptr, index);
    let store = substitute(g, c.store, &HashMap::from_iter([(c.reduce, sum)]));
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    StageKernel {
        kernel,
        fixed: false,
    }
}
