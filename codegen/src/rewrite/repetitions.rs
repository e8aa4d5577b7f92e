//! Keeps the number of repetitions of combining stores in rewrites.

use super::rule::Cx;
use crate::ir::{Graph, Id, Op, RangeKind, ReduceOp, Src};

/// A store that combines runs once for every combination of the ranges it depends on. Where its new
/// sources depend on fewer (`r / 8` became 0), the value is combined with itself as often.
pub fn keep_repetitions(g: &mut Graph, cx: &mut Cx, old: Id, src: &mut Src) {
    let op = match g.op(old) {
        Op::Store(mode) => mode.combines(),
        _ => None,
    };
    let Some(op @ (ReduceOp::Add | ReduceOp::Mul)) = op else {
        return;
    };
    let mut lost: Src = cx.ranges.of(g, old).into();
    lost.retain(|r| {
        let dropped = !src.iter().any(|&s| cx.ranges.depends(g, s, *r));
        dropped && matches!(g.op(*r), Op::Range { extent, .. } if extent > 1)
    });
    if lost.is_empty() {
        return;
    }
    for r in &mut lost {
        if let Op::Range { axis, extent, .. } = g.op(*r) {
            *r = g.range(axis, extent, RangeKind::Reduce);
        }
    }
    if let Some(value) = src.get_mut(2) {
        *value = g.reduce(op, *value, &lost);
    }
}
