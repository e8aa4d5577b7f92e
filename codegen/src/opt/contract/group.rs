//! Contractions on GPUs: each group of work-items computes a block of results. It steps along the
//! sum; in each step all work-items together bring a slab of both operands into local memory, then
//! each takes what it needs from there into registers, for a register tile of its own or for the
//! matrix instructions of its wave.
//!
//! The operands may be anything, so transposes, windows of convolutions, casts and other
//! element-wise work on them happen on the way into local memory.

use hashbrown::HashMap;

use super::blocking::Blocking;
use super::fill::{Maker, Side, floor, is_copied, is_turned, side_vector, stored, tensor};
use super::stages::{affine, decode, inside, store_result};
use super::{Contraction, ScratchSpec, StageKernel, Staged, up};
use crate::dtype::DType;
use crate::ir::mma::{Digit, Fragment, Fragments, MmaDesc, Rows};
use crate::ir::{Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, ReduceOp, StoreMode};
use crate::rewrite::{simplify, substitute};

impl Maker<'_> {
    /// A summed element of a turn, counted from the first one of the step.
    fn summed(&self, g: &mut Graph, k: i64) -> Id {
        let k = g.index(k);
        affine(g, self.turn, self.t.turn(), k)
    }

    /// An element of an operand from local memory, in the type of the accumulator unless a matrix
    /// instruction takes it.
    fn fetch(&self, g: &mut Graph, side: &Side<'_>, fence: Id, at: Id, k: Id) -> Id {
        let dtype = g.dtype(side.value);
        let (index, len) = self.place(g, side, [at, k], self.step);
        let block = side.block;
        let ptr = g.add(Op::Local { block, len }, dtype, &[fence]);
        if let Some(rows) = side.rows {
            return g.add(Op::Operand(rows), dtype, &[ptr, index]);
        }
        let value = g.load(ptr, index);
        match self.t.mma {
            Some(_) => value,
            None => g.cast(value, self.t.acc),
        }
    }
}

impl Contraction {
    /// Summed elements of one part, a whole number of steps.
    fn part(&self, t: &Blocking) -> i64 {
        let (.., k) = self.sizes();
        let steps = up(up(k, i64::from(t.depth)), i64::from(t.parts));
        steps * i64::from(t.depth)
    }

    /// Whether the steps go over the end of the sum.
    pub(super) fn parts_overhang(&self, t: &Blocking) -> bool {
        let (.., k) = self.sizes();
        self.part(t).saturating_mul(i64::from(t.parts)) != k
    }

    /// The types of the operands in local memory.
    pub(super) fn stored_types(&self, g: &Graph) -> [DType; 2] {
        [self.a, self.b].map(|n| g.dtype(stored(g, n)))
    }
}

/// Makes the kernel (and the one that adds up the parts), or `None` where a size does not fit.
pub fn blocks(kernel: &Kernel, c: &Contraction, t: Blocking) -> Option<Staged> {
    let (batch, m, n, _) = c.sizes();
    if t.depth == 0 || t.parts == 0 || t.items() < 1 || t.vector == 0 {
        return None;
    }
    let operands = c.stored_types(&kernel.graph);
    if let Some(d) = t.mma
        && (!d.takes(operands) || d.acc != c.acc || !t.depth.is_multiple_of(u32::from(d.k)))
    {
        return None;
    }
    // A row has the whole depth of a step, or a whole part of it.
    if let Some(d) = t.mma.filter(MmaDesc::in_memory)
        && i64::from(t.depth) % Rows::width(d.operands[0]) != 0
    {
        return None;
    }
    let mut base = kernel.clone();
    let mut scratch = Vec::new();
    let first = u16::try_from(kernel.params.len()).ok()?;
    if t.parts > 1 {
        let elements = [batch, m, n]
            .iter()
            .try_fold(i64::from(t.parts), |p, &x| p.checked_mul(x))?;
        let len = usize::try_from(elements).ok()?;
        scratch.push(ScratchSpec {
            bytes: len.checked_mul(c.acc.size())?,
            align: 256,
        });
        base.params.push(ParamInfo {
            dtype: c.acc,
            len,
            written: true,
            constant: false,
        });
    }
    let mut stages = vec![multiply(&base, c, t, first)?];
    if t.parts > 1 {
        stages.push(add_parts(&base, c, t, first));
    }
    Some(Staged { stages, scratch })
}

fn multiply(base: &Kernel, c: &Contraction, t: Blocking, slot: u16) -> Option<StageKernel> {
    let mut kernel = base.clone();
    kernel.name = format!("{}_block", base.name);
    let g = &mut kernel.graph;
    let (batch, m, n, k) = c.sizes();
    let [rows, cols] = t.extent();
    let (row_blocks, col_blocks) = (up(m, rows), up(n, cols));
    let parts = i64::from(t.parts);
    let groups = [row_blocks, col_blocks, parts]
        .iter()
        .try_fold(batch, |p, &x| p.checked_mul(x))?;
    let [cb, rb, b, part] = place_of_group(g, groups, [col_blocks, row_blocks, batch]);
    let item = match t.items() {
        1 => g.index(0),
        items => g.range(1, items, RangeKind::Local),
    };
    let depth = i64::from(t.depth);
    let steps = c.part(&t) / depth;
    let step = match steps {
        1 => g.index(0),
        _ => g.range(2, steps, RangeKind::Reduce),
    };
    let offset = floor(g, Binary::Mul, part, c.part(&t));
    let mut places = HashMap::new();
    decode(g, &c.batch, b, &mut places);
    let mut make = Maker {
        c,
        t,
        item,
        step,
        turn: g.index(0),
        offset,
        places,
        end: k,
        axis: 2,
    };
    make.turn = make.range(g, depth / t.turn(), RangeKind::Reduce);
    let first_row = floor(g, Binary::Mul, rb, rows);
    let first_col = floor(g, Binary::Mul, cb, cols);
    let a = side(g, c, t, 0, (rows, first_row));
    let bb = side(g, c, t, 1, (cols, first_col));
    let copied = |side: &Side<'_>| {
        let turned = side.rows.is_some_and(|rows| rows.turned);
        match t.boxes {
            true => side.tensor.is_some(),
            false => is_copied(g, side.value, (side.along, side.vector), turned),
        }
    };
    if t.early() > 0 && !(copied(&a) && copied(&bb)) || t.boxes && t.early() == 0 {
        return None;
    }
    let fence = make.fence(g, [&a, &bb], steps);
    let (row, [col, edge], value) = tile(g, &mut make, fence, [&a, &bb])?;
    let loops: Vec<Id> = [step, make.turn]
        .into_iter()
        .filter(|&r| matches!(g.op(r), Op::Range { .. }))
        .collect();
    let sum = match &loops[..] {
        [] => value,
        loops => g.reduce(ReduceOp::Add, value, loops),
    };
    let row = g.binary(Binary::Add, first_row, row);
    let col = g.binary(Binary::Add, first_col, col);
    let edge = g.binary(Binary::Add, first_col, edge);
    let ends = [(row, m, m % rows != 0), (edge, n, n % cols != 0)];
    let gate = inside(g, ends);
    let store = if parts > 1 {
        let ptr = g.param(slot, t.acc);
        let at = affine(g, part, batch, b);
        let at = affine(g, at, m, row);
        let index = affine(g, at, n, col);
        g.store(StoreMode::Set, ptr, index, sum, gate)
    } else {
        let mut map = HashMap::from_iter([(c.reduce, sum)]);
        decode(g, &c.batch, b, &mut map);
        decode(g, &c.rows, row, &mut map);
        decode(g, &c.cols, col, &mut map);
        store_result(g, c, StoreMode::Set, &map, (sum, col), gate)
    };
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    Some(StageKernel {
        kernel,
        fixed: true,
    })
}

/// Block of columns and of rows, matrix, and part of the sum of a group. Columns are inside of rows: neighbouring
/// groups share rows.
fn place_of_group(g: &mut Graph, groups: i64, [cols, rows, batch]: [i64; 3]) -> [Id; 4] {
    let group = match groups {
        1 => g.index(0),
        _ => g.range(0, groups, RangeKind::Global),
    };
    let cb = floor(g, Binary::FloorMod, group, cols);
    let rest = floor(g, Binary::FloorDiv, group, cols);
    let rb = floor(g, Binary::FloorMod, rest, rows);
    let rest = floor(g, Binary::FloorDiv, rest, rows);
    let b = floor(g, Binary::FloorMod, rest, batch);
    let part = floor(g, Binary::FloorDiv, rest, batch);
    [cb, rb, b, part]
}

/// An operand of a block, of which this is the first row or column.
fn side<'c>(
    g: &mut Graph,
    c: &'c Contraction,
    t: Blocking,
    block: u16,
    (width, first): (i64, Id),
) -> Side<'c> {
    let (list, operand) = match block {
        0 => (&c.rows[..], c.a),
        _ => (&c.cols[..], c.b),
    };
    let depth = i64::from(t.depth);
    let mut value = stored(g, operand);
    if let Some(d) = t.mma {
        value = g.cast(value, d.operands[usize::from(block)]);
    }
    let (along, vector) = side_vector(g, c, list, value, [i64::from(t.vector), depth, width]);
    let rows = t.mma.filter(MmaDesc::in_memory).map(|d| {
        let dtype = g.dtype(value);
        let turned = is_turned(&d, along);
        let height = if turned { depth } else { width };
        let slab = (height * Rows::width(dtype)) as u32;
        Rows { turned, slab }
    });
    let boxed = rows.filter(|_| t.boxes);
    Side {
        tensor: boxed.and_then(|rows| tensor(g, c, list, value, rows.turned)),
        list,
        width,
        first,
        block,
        value,
        along,
        vector,
        rows,
    }
}

/// The tile of a work-item or wave: row and column of an element in the block, the column that tells whether it is
/// there, and the sum of a turn.
fn tile(
    g: &mut Graph,
    make: &mut Maker<'_>,
    fence: Id,
    sides: [&Side<'_>; 2],
) -> Option<(Id, [Id; 2], Id)> {
    let (c, t) = (make.c, make.t);
    let (_, _, n, _) = c.sizes();
    let wave = t.mma.map_or(1, |d| i64::from(d.wave()));
    let lane = floor(g, Binary::FloorMod, make.item, wave);
    let which = floor(g, Binary::FloorDiv, make.item, wave);
    let x = floor(g, Binary::FloorMod, which, i64::from(t.along_cols));
    let y = floor(g, Binary::FloorDiv, which, i64::from(t.along_cols));
    let ri = make.range(g, i64::from(t.rows), RangeKind::Upcast);
    let tile_row = affine(g, y, i64::from(t.rows), ri);
    match t.mma.and_then(|d| Some((d, d.fragments?))) {
        Some((d, f)) => {
            let ci = make.range(g, i64::from(t.cols), RangeKind::Upcast);
            let tile_col = affine(g, x, i64::from(t.cols), ci);
            let tile = [tile_row, tile_col];
            // A lane that has neighbours of a row stores them at once, where none of them is
            // beyond the end when the others are not.
            let run = i64::from(d.elements()[2]);
            let down = f.c.element == [Digit::new(run as u8, [1, 0]), Digit::NONE, Digit::NONE];
            let flip = d.transposes() && down && c.unit_columns(g) && n % run == 0;
            Some(matrices(g, make, (d, f), fence, sides, lane, (tile, flip)))
        }
        None => {
            let (col, sum) = numbers(g, make, fence, sides, (x, tile_row))?;
            Some((tile_row, [col; 2], sum))
        }
    }
}

/// The products of a work-item without matrix instructions, in vectors of columns, those of neighbouring work-items
/// side by side: column of an element in the block, and its sum.
fn numbers(
    g: &mut Graph,
    make: &mut Maker<'_>,
    fence: Id,
    [a, b]: [&Side<'_>; 2],
    (x, row): (Id, Id),
) -> Option<(Id, Id)> {
    let t = make.t;
    let lanes = [4, 2, 1]
        .into_iter()
        .find(|&l| t.cols.is_multiple_of(l))
        .unwrap_or(1);
    let lanes = i64::from(lanes);
    let vectors = i64::from(t.cols) / lanes;
    let ci = make.range(g, vectors, RangeKind::Upcast);
    let cl = make.range(g, lanes, RangeKind::Vec);
    let at = affine(g, ci, i64::from(t.along_cols), x);
    let col = affine(g, at, lanes, cl);
    let mut sum: Option<Id> = None;
    for k in 0..t.turn() {
        let k = make.summed(g, k);
        let left = make.fetch(g, a, fence, row, k);
        let right = make.fetch(g, b, fence, col, k);
        sum = Some(match sum {
            None => g.binary(Binary::Mul, left, right),
            Some(sum) if t.acc.is_float() => g.add(Op::Fma, t.acc, &[left, right, sum]),
            Some(sum) => {
                let product = g.binary(Binary::Mul, left, right);
                g.binary(Binary::Add, sum, product)
            }
        });
    }
    Some((col, sum?))
}

/// The products of a wave by matrix instructions: row and column of an element in the block, the
/// column that tells whether it is there, and its sum. Flipped, the instructions compute the transposed product.
fn matrices(
    g: &mut Graph,
    make: &mut Maker<'_>,
    (d, f): (MmaDesc, &Fragments),
    fence: Id,
    [a, b]: [&Side<'_>; 2],
    lane: Id,
    (tile, flip): ([Id; 2], bool),
) -> (Id, [Id; 2], Id) {
    let lanes = d.elements().map(i64::from);
    let [va, vb, vc] = lanes.map(|n| make.range(g, n, RangeKind::Vec));
    // One coordinate of an element of a lane.
    let at = |g: &mut Graph, fragment: &Fragment, axis: usize, base: Id, element: Id| {
        let lanes = digits(g, &fragment.lane, lane);
        let elements = digits(g, &fragment.element, element);
        let terms = lanes.into_iter().chain(elements);
        terms.fold(base, |sum, (x, digit)| {
            let term = floor(g, Binary::Mul, x, i64::from(digit.step[axis]));
            g.binary(Binary::Add, sum, term)
        })
    };
    let first_row = floor(g, Binary::Mul, tile[0], i64::from(d.m));
    let first_col = floor(g, Binary::Mul, tile[1], i64::from(d.n));
    let mut sum = g.bits(d.acc, 0);
    for k in (0..make.t.turn()).step_by(usize::from(d.k)) {
        let k = make.summed(g, k);
        let (in_a, in_b) = if flip { (vb, va) } else { (va, vb) };
        let row = at(g, &f.a, 0, first_row, in_a);
        let k_a = at(g, &f.a, 1, k, in_a);
        let left = make.fetch(g, a, fence, row, k_a);
        let col = at(g, &f.b, 0, first_col, in_b);
        let k_b = at(g, &f.b, 1, k, in_b);
        let right = make.fetch(g, b, fence, col, k_b);
        let [left, right] = if flip { [right, left] } else { [left, right] };
        sum = g.add(Op::Mma(d), d.acc, &[left, right, sum, va, vb, vc]);
    }
    let [row, col] = if flip { [1, 0] } else { [0, 1] };
    let zero = g.index(0);
    let edge = at(g, &f.c, col, first_col, if flip { zero } else { vc });
    let row = at(g, &f.c, row, first_row, vc);
    let col = at(g, &f.c, col, first_col, vc);
    (row, [col, edge], sum)
}

/// The digits of a number, without those that are not there.
fn digits(g: &mut Graph, digits: &[Digit], number: Id) -> Vec<(Id, Digit)> {
    let there: Vec<Digit> = digits.iter().copied().filter(|d| d.n > 1).collect();
    let mut left = number;
    let mut out = Vec::new();
    for (i, &digit) in there.iter().enumerate() {
        let n = i64::from(digit.n);
        // The highest one is what is left.
        let (value, rest) = match i + 1 == there.len() {
            true => (left, left),
            false => (
                floor(g, Binary::FloorMod, left, n),
                floor(g, Binary::FloorDiv, left, n),
            ),
        };
        out.push((value, digit));
        left = rest;
    }
    out
}

/// Adds up what the groups of each part have, and does the element-wise rest.
fn add_parts(base: &Kernel, c: &Contraction, t: Blocking, slot: u16) -> StageKernel {
    let mut kernel = base.clone();
    kernel.name = format!("{}_parts", base.name);
    let g = &mut kernel.graph;
    let axis = crate::opt::fresh(g, kernel.sink);
    let part = g.range(axis, i64::from(t.parts), RangeKind::Reduce);
    let mut index = part;
    for r in c.batch.iter().chain(&c.rows).chain(&c.cols) {
        index = affine(g, index, r.extent, r.id);
    }
    let ptr = g.param(slot, c.acc);
    let value = g.load(ptr, index);
    let sum = g.reduce(ReduceOp::Add, value, &[part]);
    let store = substitute(g, c.store, &HashMap::from_iter([(c.reduce, sum)]));
    let sink = g.sink(&[store]);
    kernel.sink = simplify(g, sink);
    StageKernel {
        kernel,
        fixed: false,
    }
}
