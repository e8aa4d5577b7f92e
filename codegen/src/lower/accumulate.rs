//! The types that sums and products accumulate in. One of a narrow float is kept in `f32`, and rounded once; then
//! its loop is one of `f32`, also for what keeps long sums right (see `blocked`).
//!
//! Long running sums cannot be summed in blocks, and rounding errors of products cannot be compensated. Both
//! accumulate in `f64`, whose conversions are off the critical path.

use hashbrown::HashMap;

use super::decomp::Caps;
use super::expand::extent_of;
use crate::dtype::DType;
use crate::ir::{Graph, Id, Op, ReduceOp, Src};
use crate::rewrite::toposort;

/// Running sums of more are kept in `f64`.
const SUMS: i64 = 64;

/// Products of more are kept in `f64`.
const FACTORS: i64 = 16;

/// The reductions below `sink` in these types; without `f64`, in `f32` at most.
pub(super) fn widen(g: &mut Graph, sink: Id, caps: &Caps) -> Id {
    let doubles = caps.has_cast(DType::F32, DType::F64);
    let order = toposort(g, sink);
    if !order.iter().any(|&n| wider(g, n, doubles).is_some()) {
        return sink;
    }
    let mut done: HashMap<Id, Id> = HashMap::new();
    for n in order {
        let node = g.node(n).clone();
        let mut src: Src = node.src.iter().map(|s| done[s]).collect();
        let made = match wider(g, n, doubles) {
            Some(wide) => {
                src[0] = g.cast(src[0], wide);
                let all = g.add(node.op, wide, &src);
                g.cast(all, node.dtype)
            }
            None => g.add(node.op, node.dtype, &src),
        };
        done.insert(n, made);
    }
    done[&sink]
}

/// The type that a node accumulates in, if it has another one itself.
fn wider(g: &Graph, n: Id, doubles: bool) -> Option<DType> {
    let (op, running) = match g.op(n) {
        Op::Reduce(op) => (op, false),
        Op::Scan(op) => (op, true),
        _ => return None,
    };
    let dtype = g.dtype(n);
    if !dtype.is_float() || !matches!(op, ReduceOp::Add | ReduceOp::Mul) {
        return None;
    }
    let extents = g.src(n)[1..].iter().map(|&r| extent_of(g, r));
    let steps = extents.fold(1, i64::saturating_mul);
    let long = match op {
        ReduceOp::Mul => steps > FACTORS,
        _ => running && steps > SUMS,
    };
    let wide = match long && doubles {
        true => DType::F64,
        false => dtype.accumulator(),
    };
    (wide != dtype).then_some(wide)
}
