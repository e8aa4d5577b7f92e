//! The kernels that a contraction becomes.

use hashbrown::HashMap;

use super::{Contraction, ScratchSpec, StageKernel, Staged, Tile, WORD, size, up};
use crate::ir::{Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, ReduceOp, StoreMode};
use crate::opt::RangeInfo;
use crate::rewrite::{simplify, substitute, toposort};

/// Writes index `flat` as values of the ranges, the last one fastest.
pub(super) fn decode(g: &mut Graph, list: &[RangeInfo], flat: Id, map: &mut HashMap<Id, Id>) {
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

pub(super) fn affine(g: &mut Graph, a: Id, scale: i64, b: Id) -> Id {
    let n = g.index(scale);
    let scaled = g.binary(Binary::Mul, a, n);
    g.binary(Binary::Add, scaled, b)
}

pub(super) fn below(g: &mut Graph, value: Id, limit: i64) -> Id {
    let n = g.index(limit);
    g.binary(Binary::Lt, value, n)
}

/// Sizes that follow from a tile.
struct PackPlan {
    t: Tile,
    row_blocks: i64,
    col_blocks: i64,
    passes: i64,
    /// Summed elements, with the padding of the last pass.
    depth: i64,
}

/// Where the scratch blocks are among the buffers.
struct Slots {
    a: u16,
    b: u16,
    /// The sums over the operands.
    sums: [Option<u16>; 2],
    /// The sums of products between the passes.
    partial: Option<u16>,
}

impl Slots {
    /// The result, given the sum of the products of what was packed.
    fn result(
        &self,
        g: &mut Graph,
        c: &Contraction,
        plan: &PackPlan,
        (sum, places): (Id, [Id; 3]),
        map: &HashMap<Id, Id>,
    ) -> Id {
        let Some(bytes) = c.bytes.filter(|_| plan.t.bytes) else {
            return sum;
        };
        let (_, m, n, k) = c.sizes();
        let [b, row, col] = places;
        let mut load = |slot: Option<u16>, len: i64, at: Id| {
            let index = affine(g, b, len, at);
            slot.map(|slot| {
                let ptr = g.param(slot, c.acc);
                g.load(ptr, index)
            })
        };
        let sums = [load(self.sums[0], m, row), load(self.sums[1], n, col)];
        bytes.corrected(g, (sum, sums), k, map)
    }
}

/// The blocks of memory between the stages, and where they are among the buffers; so many tiles of rows and of columns
/// are packed.
fn layout(
    kernel: &Kernel,
    c: &Contraction,
    plan: &PackPlan,
    tiles: [i64; 2],
) -> Option<(Vec<ScratchSpec>, Slots)> {
    let (batch, m, n, _) = c.sizes();
    let t = plan.t;
    let bytes = c.bytes.filter(|_| t.bytes);
    let room = |tiles: i64, width: i64| -> Option<usize> {
        let elements = batch
            .checked_mul(tiles)?
            .checked_mul(width)?
            .checked_mul(plan.passes.checked_mul(plan.depth)?)?;
        usize::try_from(elements).ok()?.checked_mul(t.acc.size())
    };
    // An operand that is read where it is has an empty block.
    let block = |direct: bool, bytes: Option<usize>| {
        Some(ScratchSpec {
            bytes: if direct { 0 } else { bytes? },
            align: 64,
        })
    };
    let words = |list: &[i64]| {
        let elements = list.iter().try_fold(1i64, |n, &x| n.checked_mul(x))?;
        usize::try_from(elements).ok()?.checked_mul(t.acc.size())
    };
    let mut scratch = vec![
        block(t.direct_rows, room(tiles[0], i64::from(t.rows)))?,
        block(t.direct_cols, room(tiles[1], i64::from(t.cols)))?,
    ];
    let first = u16::try_from(kernel.params.len()).ok()?;
    let mut slots = Slots {
        a: first,
        b: first + 1,
        sums: [None; 2],
        partial: None,
    };
    for (side, len) in [m, n].into_iter().enumerate() {
        if bytes.is_some_and(|bytes| bytes.summed(side)) {
            slots.sums[side] = Some(first + scratch.len() as u16);
            scratch.push(block(false, words(&[batch, len]))?);
        }
    }
    // The sum in passes needs memory of the type of the accumulator: the result itself if it is
    // stored as it is, with the columns one after the other.
    let store = kernel.graph.src(c.store);
    let plain = store[2] == c.reduce
        && store.len() == 3
        && slots.sums == [None; 2]
        && c.unit_columns(&kernel.graph);
    if plan.passes > 1 && !plain {
        slots.partial = Some(first + scratch.len() as u16);
        scratch.push(block(false, words(&[batch, m, n]))?);
    }
    Some((scratch, slots))
}

/// Makes the stages, or `None` where a size does not fit.
pub fn stages(kernel: &Kernel, c: &Contraction, tile: Tile) -> Option<Staged> {
    let (_, m, n, mut k) = c.sizes();
    let t = tile;
    let bytes = c.bytes.filter(|_| t.bytes);
    if t.bytes {
        if bytes.is_none() || t.direct_rows || t.direct_cols {
            return None;
        }
        k = up(k, WORD);
    }
    if t.rows == 0 || t.cols == 0 || t.lanes == 0 || t.depth == 0 || !t.cols.is_multiple_of(t.lanes)
    {
        return None;
    }
    let (rows, cols) = (i64::from(t.rows), i64::from(t.cols));
    let (row_block, col_block) = (i64::from(t.row_block.max(1)), i64::from(t.col_block.max(1)));
    let passes = up(k, i64::from(t.depth));
    let plan = PackPlan {
        t,
        row_blocks: up(up(m, rows), row_block),
        col_blocks: up(up(n, cols), col_block),
        passes,
        depth: i64::from(t.depth),
    };
    if (t.direct_rows || t.direct_cols) && passes > 1 {
        return None;
    }
    let tiles = [plan.row_blocks * row_block, plan.col_blocks * col_block];
    let (scratch, slots) = layout(kernel, c, &plan, tiles)?;
    let mut base = kernel.clone();
    for s in &scratch {
        base.params.push(ParamInfo {
            dtype: t.acc,
            len: s.bytes / t.acc.size(),
            written: true,
            constant: false,
        });
    }
    let mut stages = Vec::new();
    if !t.direct_rows {
        stages.push(pack(&base, c, &plan, slots.a, 0, tiles[0]));
    }
    if !t.direct_cols {
        stages.push(pack(&base, c, &plan, slots.b, 1, tiles[1]));
    }
    for (side, name) in ["a", "b"].into_iter().enumerate() {
        if let (Some(bytes), Some(slot)) = (bytes, slots.sums[side]) {
            stages.push(bytes.sums(&base, c, slot, (side, name)));
        }
    }
    if passes > 1 {
        stages.push(clear(&base, c, slots.partial));
    }
    stages.push(multiply(&base, c, &plan, &slots));
    if let Some(slot) = slots.partial {
        stages.push(finish(&base, c, &plan, &slots, slot));
    }
    Some(Staged { stages, scratch })
}

/// Writes one operand as `[batch][tile][pass][depth][width]`, zero outside of the operand; of bytes four summed
/// elements together.
fn pack(
    base: &Kernel,
    c: &Contraction,
    plan: &PackPlan,
    slot: u16,
    side: usize,
    tiles: i64,
) -> StageKernel {
    let (list, width, operand, name) = match side {
        0 => (&c.rows, plan.t.rows, c.a, "a"),
        _ => (&c.cols, plan.t.cols, c.b, "b"),
    };
    let width = i64::from(width);
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
    decode(g, list, at, &mut map);
    let inside = (tiles * width > size(list)).then(|| below(g, at, size(list)));
    // The element at a place of the sum, as it is packed.
    let mut element = |g: &mut Graph, value: Id, k: Id, most: i64| {
        decode(g, &c.summed, k, &mut map);
        let within = (most > summed).then(|| below(g, k, summed));
        let gates = [inside, within].into_iter().flatten();
        let gate = gates.reduce(|a, b| g.binary(Binary::And, a, b));
        let mut value = substitute(g, value, &map);
        if let Some(gate) = gate {
            value = gated(g, value, gate, None);
            let zero = g.bits(plan.t.acc, 0);
            value = g.select(gate, value, zero);
        }
        value
    };
    let value = match c.bytes.filter(|_| plan.t.bytes) {
        None => element(g, operand, rk, total),
        Some(bytes) => {
            let byte = bytes.byte(g, side);
            let mut word = g.bits(plan.t.acc, 0);
            for i in 0..WORD {
                let (i_, n) = (g.index(i), g.bits(plan.t.acc, 8 * i as u64));
                let k = affine(g, rk, WORD, i_);
                let value = element(g, byte, k, WORD * total);
                let value = g.binary(Binary::Shl, value, n);
                word = g.binary(Binary::Or, word, value);
            }
            word
        }
    };
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
pub(super) fn gated(g: &mut Graph, root: Id, gate: Id, keep: Option<Id>) -> Id {
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
            (Op::Check, &[ptr, value, number, outside]) => {
                let both = g.binary(Binary::And, gate, outside);
                g.check(ptr, value, number, both)
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
fn multiply(base: &Kernel, c: &Contraction, plan: &PackPlan, slots: &Slots) -> StageKernel {
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
    let col_tile = affine(g, cb, col_block, ct);
    let row_tile = affine(g, rb, row_block, rt);
    let col_in = affine(g, ci, lanes, cl);
    let row = affine(g, row_tile, rows, ri);
    let col = affine(g, col_tile, cols, col_in);
    // Where an operand is read as it is, every summed range is a loop, so that nothing is divided.
    let direct = t.direct_rows || t.direct_cols;
    let mut places: HashMap<Id, Id> = HashMap::new();
    let mut ki = g.index(0);
    let mut summed = Vec::new();
    if direct {
        for (i, r) in c.summed.iter().enumerate() {
            let k = g.range(7 + i as u32, r.extent, RangeKind::Reduce);
            places.insert(r.id, k);
            ki = affine(g, ki, r.extent, k);
            summed.push(k);
        }
    } else {
        ki = g.range(7, plan.depth, RangeKind::Reduce);
        summed.push(ki);
    }
    decode(g, &c.batch, b, &mut places);
    let row_tiles = plan.row_blocks * row_block;
    let col_tiles = plan.col_blocks * col_block;
    let packed = |g: &mut Graph, slot: u16, tiles: i64, tile: Id, width: i64, inner: Id| {
        let x = affine(g, b, tiles, tile);
        let x = affine(g, x, plan.passes, pass);
        let x = affine(g, x, plan.depth, ki);
        let index = affine(g, x, width, inner);
        let ptr = g.param(slot, t.acc);
        g.load(ptr, index)
    };
    let a = match t.direct_rows {
        true => row_load(g, c, &places, row, row_tiles * rows > m),
        false => packed(g, slots.a, row_tiles, row_tile, rows, ri),
    };
    let bb = match t.direct_cols {
        true => column_load(g, c, &places, col, col_tiles * cols > n),
        false => packed(g, slots.b, col_tiles, col_tile, cols, col_in),
    };
    let product = match c.bytes.filter(|_| t.bytes) {
        Some(bytes) => bytes.product(g, a, bb),
        None => g.binary(Binary::Mul, a, bb),
    };
    let sum = g.reduce(ReduceOp::Add, product, &summed);

    let ends = [
        (row, m, row_tiles * rows > m),
        (col, n, col_tiles * cols > n),
    ];
    let gate = inside(g, ends);
    let mode = if plan.passes > 1 {
        StoreMode::Combine(ReduceOp::Add)
    } else {
        StoreMode::Set
    };
    let store = if let Some(slot) = slots.partial {
        let ptr = g.param(slot, t.acc);
        let x = affine(g, b, m, row);
        let index = affine(g, x, n, col);
        g.store(mode, ptr, index, sum, gate)
    } else {
        let mut map = HashMap::new();
        decode(g, &c.batch, b, &mut map);
        decode(g, &c.rows, row, &mut map);
        decode(g, &c.cols, col, &mut map);
        let result = slots.result(g, c, plan, (sum, [b, row, col]), &map);
        map.insert(c.reduce, result);
        store_result(g, c, mode, &map, (sum, col), gate)
    };
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    StageKernel {
        kernel,
        fixed: true,
    }
}

/// An index that has the columns one after the other, at a column. Taking the columns apart and
/// putting them together again would hide that they are neighbours.
fn at_column(g: &mut Graph, c: &Contraction, index: Id, map: &HashMap<Id, Id>, col: Id) -> Id {
    if !super::unit(g, index, &c.cols) {
        return substitute(g, index, map);
    }
    let zero = g.index(0);
    let mut first = map.clone();
    first.extend(c.cols.iter().map(|r| (r.id, zero)));
    let start = substitute(g, index, &first);
    g.binary(Binary::Add, start, col)
}

/// The gate of what may be beyond an end: places, the ends, and whether they may be.
pub(super) fn inside(g: &mut Graph, ends: [(Id, i64, bool); 2]) -> Option<Id> {
    let all = ends.into_iter().filter(|end| end.2);
    let gates: Vec<Id> = all.map(|(at, end, _)| below(g, at, end)).collect();
    gates.into_iter().reduce(|x, y| g.binary(Binary::And, x, y))
}

/// The store of the kernel where the gate holds; `map` has the result and the places. The loads of the element-wise
/// rest happen there alone; those of the sum are all there.
pub(super) fn store_result(
    g: &mut Graph,
    c: &Contraction,
    mode: StoreMode,
    map: &HashMap<Id, Id>,
    (sum, col): (Id, Id),
    gate: Option<Id>,
) -> Id {
    let src = g.src(c.store).to_vec();
    let index = at_column(g, c, src[1], map, col);
    let mut value = substitute(g, src[2], map);
    let mut all = gate;
    if let Some(&own) = src.get(3) {
        let own = substitute(g, own, map);
        all = Some(match gate {
            Some(gate) => g.binary(Binary::And, own, gate),
            None => own,
        });
    }
    if let Some(gate) = gate {
        value = gated(g, value, gate, Some(sum));
    }
    g.store(mode, src[0], index, value, all)
}

/// An element of the row operand where it is in memory. Rows beyond the last one are computed, and not stored: from
/// the last one.
fn row_load(
    g: &mut Graph,
    c: &Contraction,
    places: &HashMap<Id, Id>,
    row: Id,
    partial: bool,
) -> Id {
    let mut at = row;
    if partial {
        let (_, m, ..) = c.sizes();
        let last = g.index(m - 1);
        at = g.binary(Binary::Min, row, last);
    }
    let mut map = places.clone();
    decode(g, &c.rows, at, &mut map);
    substitute(g, c.a, &map)
}

/// A vector of the column operand where it is in memory.
fn column_load(
    g: &mut Graph,
    c: &Contraction,
    places: &HashMap<Id, Id>,
    col: Id,
    partial: bool,
) -> Id {
    let &[ptr, index, ..] = g.src(c.b) else {
        return c.b;
    };
    let index = at_column(g, c, index, places, col);
    if !partial {
        return g.load(ptr, index);
    }
    let (_, _, n, _) = c.sizes();
    let inside = below(g, col, n);
    let zero = g.bits(c.acc, 0);
    g.load_gated(ptr, index, inside, zero)
}

/// The element-wise rest after the passes.
fn finish(
    base: &Kernel,
    c: &Contraction,
    plan: &PackPlan,
    slots: &Slots,
    partial: u16,
) -> StageKernel {
    let mut kernel = base.clone();
    kernel.name = format!("{}_finish", base.name);
    let g = &mut kernel.graph;
    let places = [&c.batch, &c.rows, &c.cols].map(|list| {
        let start = g.index(0);
        list.iter()
            .fold(start, |at, r| affine(g, at, r.extent, r.id))
    });
    let (_, m, n, _) = c.sizes();
    let row = affine(g, places[0], m, places[1]);
    let index = affine(g, row, n, places[2]);
    let ptr = g.param(partial, c.acc);
    let sum = g.load(ptr, index);
    let result = slots.result(g, c, plan, (sum, places), &HashMap::new());
    let store = substitute(g, c.store, &HashMap::from_iter([(c.reduce, result)]));
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    StageKernel {
        kernel,
        fixed: false,
    }
}
