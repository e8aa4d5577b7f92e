//! Long reductions with few results, in two launches: many groups reduce a part each, then the
//! parts are combined.

use hashbrown::HashMap;

use super::super::contract::{ScratchSpec, StageKernel, Staged};
use crate::dtype::DType;
use crate::ir::{
    Binary, Graph, Id, Kernel, Op, ParamInfo, RangeKind, RangeSets, ReduceOp, StoreMode,
};
use crate::opt::{RangeInfo, fresh, ranges};
use crate::rewrite::{simplify, substitute, toposort};
use crate::target::Target;

/// Elements that a part has at least.
const MIN_PART: i64 = 4096;
/// Parts at most; one group combines them.
const MAX_PARTS: i64 = 1024;

/// What is split.
struct Split {
    op: ReduceOp,
    reduce: Id,
    store: Id,
    dtype: DType,
    outputs: Vec<RangeInfo>,
    /// Number of outputs.
    count: i64,
    /// The range that is taken apart.
    range: RangeInfo,
    parts: i64,
}

/// The two kernels, or `None` where one is as good.
pub(crate) fn stages(kernel: &Kernel, target: &Target) -> Option<Staged> {
    let split = Split::of(kernel, target)?;
    let dtype = split.dtype;
    let mut base = kernel.clone();
    let slot = u16::try_from(kernel.params.len()).ok()?;
    let len = usize::try_from(split.count.checked_mul(split.parts)?).ok()?;
    base.params.push(ParamInfo {
        dtype,
        len,
        written: true,
        constant: false,
    });
    let scratch = vec![ScratchSpec {
        bytes: len.checked_mul(dtype.size())?,
        align: 256,
    }];
    let stages = [split.partial(&base, slot)?, split.last(&base, slot)];
    let stages = stages.map(|kernel| StageKernel {
        kernel,
        fixed: false,
    });
    Some(Staged {
        stages: stages.into(),
        scratch,
    })
}

impl Split {
    fn of(kernel: &Kernel, target: &Target) -> Option<Split> {
        let g = &kernel.graph;
        let &[store] = g.src(kernel.sink) else {
            return None;
        };
        let mut reduces = toposort(g, store)
            .into_iter()
            .filter(|&n| matches!(g.op(n), Op::Reduce(_)));
        let reduce = reduces.next()?;
        let (Op::Reduce(op), None) = (g.op(reduce), reduces.next()) else {
            return None;
        };
        if g.op(store) != Op::Store(StoreMode::Set) {
            return None;
        }
        let dtype = g.dtype(reduce);
        // A part of a sum would be rounded to its type.
        if dtype.accumulator() != dtype && matches!(op, ReduceOp::Add | ReduceOp::Mul) {
            return None;
        }
        let mut sets = RangeSets::default();
        let all = ranges(g, kernel.sink);
        let info = |id| all.iter().copied().find(|r: &RangeInfo| r.id == id);
        let outputs: Option<Vec<RangeInfo>> = sets.of(g, store).iter().map(|&r| info(r)).collect();
        let outputs = outputs?;
        if outputs.iter().any(|r| r.kind != RangeKind::Loop)
            || outputs.iter().any(|r| !sets.depends(g, reduce, r.id))
        {
            return None;
        }
        let bound: Option<Vec<RangeInfo>> = g.src(reduce)[1..].iter().map(|&r| info(r)).collect();
        let bound = bound?;
        let product =
            |list: &[RangeInfo]| list.iter().fold(1i64, |p, r| p.saturating_mul(r.extent));
        let (count, length) = (product(&outputs), product(&bound));
        // Each output is a group of its own, or a work-item of one.
        let groups = target.cores as i64 * 2;
        let wanted = (groups / count.max(1))
            .min(length / MIN_PART)
            .min(MAX_PARTS);
        let range = *bound.iter().max_by_key(|r| r.extent)?;
        let parts = (2..=wanted.min(range.extent))
            .rev()
            .find(|p| range.extent % p == 0)
            .filter(|p| p * 2 > wanted)
            .unwrap_or(wanted.min(range.extent));
        (parts >= 2).then_some(Split {
            op,
            reduce,
            store,
            dtype,
            outputs,
            count,
            range,
            parts,
        })
    }

    /// Where a part of an output is between the kernels.
    fn place(&self, g: &mut Graph, part: Id) -> Id {
        let mut index = part;
        for r in &self.outputs {
            let n = g.index(r.extent);
            let scaled = g.binary(Binary::Mul, index, n);
            index = g.binary(Binary::Add, scaled, r.id);
        }
        index
    }

    /// Each group reduces a part.
    fn partial(&self, base: &Kernel, slot: u16) -> Option<Kernel> {
        let (split, parts) = (self.range, self.parts);
        let mut partial = base.clone();
        partial.name = format!("{}_part", base.name);
        let piece = (split.extent + parts - 1) / parts;
        if piece * parts != split.extent {
            super::super::pad::pad(&mut partial, split, piece * parts);
        }
        let g = &mut partial.graph;
        let next = fresh(g, partial.sink);
        let part = g.range(next, parts, RangeKind::Loop);
        let within = g.range(split.axis, piece, split.kind);
        let n = g.index(piece);
        let first = g.binary(Binary::Mul, part, n);
        let at = g.binary(Binary::Add, first, within);
        let padded = ranges(g, partial.sink)
            .into_iter()
            .find(|r| r.axis == split.axis)?;
        let reduce_now = toposort(g, partial.sink)
            .into_iter()
            .find(|&n| matches!(g.op(n), Op::Reduce(_)))?;
        let sum = substitute(g, reduce_now, &HashMap::from_iter([(padded.id, at)]));
        // The part is bound outside of the reduction now.
        let bound: Vec<_> = g.src(sum)[1..]
            .iter()
            .copied()
            .filter(|&r| r != part)
            .collect();
        let value = g.src(sum)[0];
        let sum = g.reduce(self.op, value, &bound);
        let index = self.place(g, part);
        let ptr = g.param(slot, self.dtype);
        let store = g.store(StoreMode::Set, ptr, index, sum, None);
        let sink = g.sink(&[store]);
        partial.sink = simplify(g, sink);
        Some(partial)
    }

    /// Combines the parts.
    fn last(&self, base: &Kernel, slot: u16) -> Kernel {
        let mut last = base.clone();
        last.name = format!("{}_parts", base.name);
        let g = &mut last.graph;
        let next = fresh(g, last.sink);
        let part = g.range(next, self.parts, RangeKind::Reduce);
        let index = self.place(g, part);
        let ptr = g.param(slot, self.dtype);
        let value = g.load(ptr, index);
        let all = g.reduce(self.op, value, &[part]);
        let store = substitute(g, self.store, &HashMap::from_iter([(self.reduce, all)]));
        let sink = g.sink(&[store]);
        last.sink = simplify(g, sink);
        last
    }
}
