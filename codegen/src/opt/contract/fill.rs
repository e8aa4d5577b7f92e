//! How operands get into local memory: in whole vectors where they have neighbours, along the sum or along a side;
//! through the registers of the work-items, or beside them.

use drivers_spec::nv::tensor_map::DIMENSIONS;
use hashbrown::HashMap;

use super::blocking::Blocking;
use super::stages::{affine, below, decode, gated};
use super::{Contraction, size, up};
use crate::dtype::DType;
use crate::ir::mma::{MmaDesc, Rows};
use crate::ir::{Binary, Graph, Id, Op, RangeKind, RangeSets, StoreMode};
use crate::opt::RangeInfo;
use crate::rewrite::substitute;
use crate::symbolic::Lin;

/// The operand as it is kept in local memory: before the cast to the type of the accumulator,
/// where that is smaller.
pub(super) fn stored(g: &Graph, operand: Id) -> Id {
    match (g.op(operand), g.src(operand)) {
        (Op::Cast, &[a]) if g.dtype(a).size() < g.dtype(operand).size() => a,
        _ => operand,
    }
}

/// Which way neighbouring work-items go when they load an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Along {
    Sum,
    Side,
}

/// How an operand gets into local memory.
pub(super) struct Side<'a> {
    pub list: &'a [RangeInfo],
    /// Rows or columns of the block.
    pub width: i64,
    /// Which row or column is the first.
    pub first: Id,
    pub block: u16,
    pub value: Id,
    pub along: Along,
    pub vector: i64,
    /// How it lies in local memory where instructions read it there.
    pub rows: Option<Rows>,
    /// What it is where boxes of it are copied.
    pub tensor: Option<Tensor>,
}

/// The direction in which the loads of an operand have neighbours, and how many of them can be
/// loaded at a time: none of the vectors may go over the end of a range.
fn direction(g: &Graph, c: &Contraction, list: &[RangeInfo], value: Id, most: i64) -> (Along, i64) {
    let mut votes = [0usize; 2];
    let mut fits = [true; 2];
    let lasts = [c.summed.last(), list.last()];
    for n in crate::rewrite::toposort(g, value) {
        if g.op(n) != Op::Load {
            continue;
        }
        let index = g.src(n)[1];
        let mut sets = RangeSets::build(g, index);
        let lin = Lin::of(g, index);
        for (i, r) in lasts.iter().enumerate() {
            let Some(r) = r else { continue };
            match lin.stride(g, &mut sets, r.id) {
                Some(1) => votes[i] += 1,
                Some(0) => {}
                _ => fits[i] = false,
            }
            // A gate that changes from one to the next needs them one at a time.
            if let Some(&gate) = g.src(n).get(2) {
                fits[i] &= !RangeSets::build(g, gate).depends(g, gate, r.id);
            }
        }
    }
    let at = usize::from(votes[1] > votes[0]);
    let along = [Along::Sum, Along::Side][at];
    let extent = lasts[at].map_or(1, |r| r.extent);
    let mut vector = if fits[at] && votes[at] > 0 { most } else { 1 };
    while vector > 1 && extent % vector != 0 {
        vector /= 2;
    }
    (along, vector)
}

/// Whether the rows of an operand in local memory go along the side: as it is loaded, but other types than those of
/// 16 bits are read along the sum only.
pub(super) fn is_turned(d: &MmaDesc, along: Along) -> bool {
    d.in_memory() && along == Along::Side && d.operands[0].size() == 2
}

/// Whether copies of the hardware can bring an operand into local memory: it is as it is in memory, in pieces that
/// are pieces there, too. `turned`: local memory has rows along the side.
pub(super) fn is_copied(g: &Graph, value: Id, (along, vector): (Along, i64), turned: bool) -> bool {
    let plain = match (g.op(value), g.src(value)) {
        (Op::Load, &[ptr, _]) => matches!(g.op(ptr), Op::Param { .. }),
        (Op::Load, &[ptr, _, _, alt]) => {
            matches!(g.op(ptr), Op::Param { .. }) && g.op(alt) == Op::Const(0)
        }
        _ => false,
    };
    let together = (along == Along::Side) == turned;
    plain && together && vector == Rows::piece(g.dtype(value))
}

/// The direction of an operand, and its vectors in a block of so many summed elements and rows or
/// columns.
pub(super) fn side_vector(
    g: &Graph,
    c: &Contraction,
    list: &[RangeInfo],
    value: Id,
    [most, depth, width]: [i64; 3],
) -> (Along, i64) {
    let most = most.min((16 / g.dtype(value).size()).max(1) as i64);
    let (along, mut vector) = direction(g, c, list, value, most);
    let extent = match along {
        Along::Sum => depth,
        Along::Side => width,
    };
    while vector > 1 && extent % vector != 0 {
        vector /= 2;
    }
    (along, vector)
}

/// The most rows of a box.
const MOST_ROWS: i64 = 256;

/// An operand as hardware knows it that copies boxes.
pub(super) struct Tensor {
    /// The buffer.
    ptr: Id,
    /// Ranges with how many elements they step over; the first one has neighbours, the second is that of rows.
    dims: Vec<(RangeInfo, i64)>,
}

/// The operand as a tensor, if it is one: it is as it is in memory, from the beginning of a buffer on, and rows are
/// pieces of 16 bytes apart. `turned`: local memory has rows along the side.
pub(super) fn tensor(
    g: &Graph,
    c: &Contraction,
    list: &[RangeInfo],
    value: Id,
    turned: bool,
) -> Option<Tensor> {
    let (&[sum], &[side]) = (&c.summed[..], list) else {
        return None;
    };
    let (Op::Load, &[ptr, index]) = (g.op(value), g.src(value)) else {
        return None;
    };
    let Op::Param { .. } = g.op(ptr) else {
        return None;
    };
    let mut sets = RangeSets::build(g, index);
    let lin = Lin::of(g, index);
    let [first, second] = if turned { [side, sum] } else { [sum, side] };
    let mut dims = Vec::new();
    for range in [first, second].into_iter().chain(c.batch.iter().copied()) {
        match lin.stride(g, &mut sets, range.id)? {
            0 if dims.len() >= 2 => {}
            step => dims.push((range, step)),
        }
    }
    let bytes = g.dtype(value).size() as i64;
    let fits = |&(range, step): &(RangeInfo, i64)| {
        step > 0 && step * bytes % 16 == 0 && step * bytes < 1 << 40 && range.extent <= 1 << 31
    };
    let plain = lin.constant == 0
        && lin.terms().len() == dims.len()
        && dims[0].1 == 1
        && dims.len() <= DIMENSIONS
        && dims[1..].iter().all(fits);
    plain.then_some(Tensor { ptr, dims })
}

pub(super) struct Maker<'a> {
    pub c: &'a Contraction,
    pub t: Blocking,
    /// The work-item.
    pub item: Id,
    /// The step along the sum, and the first element of the part of this group.
    pub step: Id,
    pub offset: Id,
    /// The turn of the loop over what a step has brought into local memory.
    pub turn: Id,
    pub places: HashMap<Id, Id>,
    /// End of the sum.
    pub end: i64,
    pub axis: u32,
}

pub(super) fn floor(g: &mut Graph, op: Binary, a: Id, n: i64) -> Id {
    let n = g.index(n);
    g.binary(op, a, n)
}

impl Maker<'_> {
    pub fn range(&mut self, g: &mut Graph, extent: i64, kind: RangeKind) -> Id {
        if extent == 1 {
            return g.index(0);
        }
        self.axis += 1;
        g.range(self.axis, extent, kind)
    }

    /// Index of an element of an operand in local memory, in the slab of a step, and the elements of the
    /// whole block.
    pub fn place(&self, g: &mut Graph, side: &Side<'_>, [at, k]: [Id; 2], step: Id) -> (Id, u32) {
        let dtype = g.dtype(side.value);
        let slab = self.t.slab(side.width, dtype);
        let mut index = match (side.rows, self.t.mma) {
            (Some(rows), _) => in_rows(g, rows, dtype, [at, k]),
            (None, Some(_)) => affine(g, at, slab.stride, k),
            (None, None) => affine(g, k, slab.stride, at),
        };
        if slab.skew > 0 {
            let eights = floor(g, Binary::FloorDiv, at, 8);
            index = affine(g, eights, slab.skew, index);
        }
        let slabs = i64::from(self.t.slabs);
        if slabs > 1 {
            let which = floor(g, Binary::FloorMod, step, slabs);
            index = affine(g, which, slab.elements, index);
        }
        (index, (slab.elements * slabs) as u32)
    }

    /// Row or column, and summed element, of the first element of vector `i` of a work-item, and
    /// whether all work-items have such a vector.
    fn vector(&self, g: &mut Graph, side: &Side<'_>, i: i64) -> (Id, Id, Option<Id>) {
        let (v, depth, items) = (side.vector, i64::from(self.t.depth), self.t.items());
        let fast = match side.along {
            Along::Sum => depth / v,
            Along::Side => side.width / v,
        };
        let total = side.width * depth / v;
        let (x, y, gate) = if side.along == Along::Side
            && self.t.mma.is_some()
            && side.rows.is_none_or(|rows| !rows.turned)
            && total % items == 0
            && items % fast == 0
        {
            // The vectors of a work-item are neighbours along the sum, and so in local memory.
            let x = floor(g, Binary::FloorMod, self.item, fast);
            let y = floor(g, Binary::FloorDiv, self.item, fast);
            let i = g.index(i);
            (x, affine(g, y, total / items, i), None)
        } else {
            let offset = g.index(i * items);
            let e = g.binary(Binary::Add, offset, self.item);
            let gate = ((i + 1) * items > total).then(|| below(g, e, total));
            let x = floor(g, Binary::FloorMod, e, fast);
            (x, floor(g, Binary::FloorDiv, e, fast), gate)
        };
        let x = floor(g, Binary::Mul, x, v);
        match side.along {
            Along::Sum => (y, x, gate),
            Along::Side => (x, y, gate),
        }
    }

    /// The stores that bring an operand into local memory, into the slab of step `to`. What they load is that of
    /// step `from`, and nothing where there is no such step.
    fn fill(
        &mut self,
        g: &mut Graph,
        side: &Side<'_>,
        [from, to]: [Id; 2],
        (lane, there): (Id, Option<Id>),
    ) -> Vec<Id> {
        let (v, depth, items) = (side.vector, i64::from(self.t.depth), self.t.items());
        let dtype = g.dtype(side.value);
        let start = affine(g, from, depth, self.offset);
        let mut stores = Vec::new();
        for i in 0..up(side.width * depth / v, items) {
            let (at, k, gate) = self.vector(g, side, i);
            let mut inside: Vec<Id> = gate.into_iter().chain(there).collect();
            let all_k = g.binary(Binary::Add, start, k);
            let all_at = g.binary(Binary::Add, side.first, at);
            let mut map = self.places.clone();
            decode(g, &self.c.summed, all_k, &mut map);
            decode(g, side.list, all_at, &mut map);
            let (k, at) = match side.along {
                Along::Sum => {
                    step_last(g, &self.c.summed, lane, &mut map);
                    (g.binary(Binary::Add, k, lane), at)
                }
                Along::Side => {
                    step_last(g, side.list, lane, &mut map);
                    (k, g.binary(Binary::Add, at, lane))
                }
            };
            if self.c.parts_overhang(&self.t) {
                inside.push(below(g, all_k, self.end));
            }
            if size(side.list) % side.width != 0 {
                inside.push(below(g, all_at, size(side.list)));
            }
            let mut value = substitute(g, side.value, &map);
            let inside = inside
                .into_iter()
                .reduce(|a, b| g.binary(Binary::And, a, b));
            if let Some(inside) = inside {
                value = gated(g, value, inside, None);
                let zeroed = g.op(value) == Op::Load
                    && g.src(value)
                        .get(3)
                        .is_some_and(|&alt| g.op(alt) == Op::Const(0));
                if !zeroed {
                    let zero = g.bits(dtype, 0);
                    value = g.select(inside, value, zero);
                }
            }
            let (index, len) = self.place(g, side, [at, k], to);
            let block = side.block;
            let ptr = g.add(Op::Local { block, len }, dtype, &[]);
            stores.push(g.store(StoreMode::Set, ptr, index, value, gate));
        }
        stores
    }

    /// The boxes that bring an operand into local memory, into the slab of step `to`. They are those of step `from`;
    /// nothing is copied where the gate is false.
    fn boxes(
        &self,
        g: &mut Graph,
        (side, rows, tensor): (&Side<'_>, Rows, &Tensor),
        [from, to]: [Id; 2],
        gate: Id,
    ) -> Vec<Id> {
        let dtype = g.dtype(side.value);
        let depth = i64::from(self.t.depth);
        let start = affine(g, from, depth, self.offset);
        let (across, down) = match rows.turned {
            true => (side.width, depth),
            false => (depth, side.width),
        };
        let tall = down.min(MOST_ROWS);
        let mut boxes = Vec::new();
        for x in (0..across).step_by(Rows::width(dtype) as usize) {
            for y in (0..down).step_by(tall as usize) {
                let [x, y] = [x, y].map(|n| g.index(n));
                let [at, k] = if rows.turned { [x, y] } else { [y, x] };
                let (index, len) = self.place(g, side, [at, k], to);
                let block = side.block;
                let ptr = g.add(Op::Local { block, len }, dtype, &[]);
                let at = g.binary(Binary::Add, side.first, at);
                let k = g.binary(Binary::Add, start, k);
                let first = if rows.turned { [at, k] } else { [k, at] };
                let mut src = vec![ptr, index, tensor.ptr, gate];
                for (i, (range, step)) in tensor.dims.iter().enumerate() {
                    let place = self.places.get(&range.id).copied();
                    let place = first.get(i).copied().or(place);
                    src.push(place.unwrap_or(range.id));
                    src.extend([range.extent, *step].map(|n| g.index(n)));
                }
                let rows = tall as u16;
                boxes.push(g.add(Op::Box { rows }, dtype, &src));
            }
        }
        boxes
    }

    /// The fence behind which the operands of a step are in local memory. With two slabs those of
    /// the next step are on their way meanwhile, with more those of the steps after it.
    pub fn fence(&mut self, g: &mut Graph, sides: [&Side<'_>; 2], steps: i64) -> Id {
        let (step, early) = (self.step, self.t.early().min(steps - 1));
        let boxes = self.t.boxes && early > 0;
        let lanes = match boxes {
            true => [g.index(0); 2],
            false => sides.map(|side| self.range(g, side.vector, RangeKind::Vec)),
        };
        let both = |make: &mut Self, g: &mut Graph, steps: [Id; 2], there: Option<Id>| {
            if boxes {
                let gate = there.unwrap_or_else(|| g.bits(DType::Bool, 1));
                let tensors = sides
                    .iter()
                    .filter_map(|&side| Some((side, side.rows?, side.tensor.as_ref()?)));
                return tensors
                    .flat_map(|of| make.boxes(g, of, steps, gate))
                    .collect();
            }
            let mut stores = make.fill(g, sides[0], steps, (lanes[0], there));
            stores.extend(make.fill(g, sides[1], steps, (lanes[1], there)));
            stores
        };
        if steps == 1 || self.t.slabs == 1 {
            let stores = both(self, g, [step; 2], None);
            return g.add(Op::Fence { ahead: 0, early: 0 }, DType::Bool, &stores);
        }
        if early > 0 {
            let mut all = Vec::new();
            for first in 0..early {
                let first = g.index(first);
                all.extend(both(self, g, [first; 2], None));
            }
            let early_ = g.index(early);
            let next = g.binary(Binary::Add, step, early_);
            let there = below(g, next, steps);
            all.extend(both(self, g, [next; 2], Some(there)));
            let early = early as u8;
            return g.add(Op::Fence { ahead: 0, early }, DType::Bool, &all);
        }
        let zero = g.index(0);
        let mut all = both(self, g, [zero, step], None);
        let one = g.index(1);
        let next = g.binary(Binary::Add, step, one);
        // The last step loads what it has once more, and nobody stores it.
        let last = g.index(steps - 1);
        let from = g.binary(Binary::Min, next, last);
        let stores = both(self, g, [from, step], None);
        all.extend(stores.iter().map(|&s| g.src(s)[2]));
        let ahead = stores.len() as u16;
        g.add(Op::Fence { ahead, early: 0 }, DType::Bool, &all)
    }
}

/// Index of an element that lies in rows; row or column of the operand, and summed element.
fn in_rows(g: &mut Graph, rows: Rows, dtype: DType, [at, k]: [Id; 2]) -> Id {
    let (across, row) = if rows.turned { (at, k) } else { (k, at) };
    let (width, piece) = (Rows::width(dtype), Rows::piece(dtype));
    let further = floor(g, Binary::FloorDiv, across, width);
    let in_row = floor(g, Binary::FloorMod, across, width);
    let number = floor(g, Binary::FloorDiv, in_row, piece);
    let order = floor(g, Binary::FloorMod, row, Rows::orders());
    let place = g.binary(Binary::Xor, number, order);
    let in_piece = floor(g, Binary::FloorMod, across, piece);
    let first = affine(g, place, piece, in_piece);
    let in_column = affine(g, row, width, first);
    affine(g, further, i64::from(rows.slab), in_column)
}

/// Adds a lane to the value of the last range.
fn step_last(g: &mut Graph, list: &[RangeInfo], lane: Id, map: &mut HashMap<Id, Id>) {
    if let Some(value) = list.last().and_then(|r| map.get_mut(&r.id)) {
        *value = g.binary(Binary::Add, *value, lane);
    }
}
