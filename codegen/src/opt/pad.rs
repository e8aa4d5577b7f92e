//! Rounding a range up: the added iterations load nothing, store nothing and are neutral in
//! reductions.

use hashbrown::HashMap;

use super::RangeInfo;
use crate::ir::{Binary, Graph, Id, Kernel, Op, RangeSets, Src};
use crate::rewrite::toposort;

/// Gives a range a larger extent.
pub(super) fn pad(kernel: &mut Kernel, r: RangeInfo, extent: i64) {
    if extent == r.extent {
        return;
    }
    let g = &mut kernel.graph;
    let wide = g.range(r.axis, extent, r.kind);
    let limit = g.index(r.extent);
    let inside = g.binary(Binary::Lt, wide, limit);
    kernel.sink = guard(g, kernel.sink, r.id, wide, inside);
}

/// Replaces range `old` by the range `wide` below `root`, with every access that depends on it
/// guarded by `inside`.
pub(super) fn guard(g: &mut Graph, root: Id, old: Id, wide: Id, inside: Id) -> Id {
    let mut sets = RangeSets::default();
    let mut new: HashMap<Id, Id> = HashMap::new();
    new.insert(old, wide);
    for n in toposort(g, root) {
        if n == old {
            continue;
        }
        let node = g.node(n).clone();
        let mut src: Src = node.src.iter().map(|s| new[s]).collect();
        let made = match node.op {
            Op::Load if sets.depends(g, node.src[1], old) => {
                let (gate, alt) = match src[..] {
                    [_, _, gate, alt] => (g.binary(Binary::And, gate, inside), alt),
                    _ => (inside, g.bits(node.dtype, 0)),
                };
                g.load_gated(src[0], src[1], gate, alt)
            }
            Op::Store(mode) if node.src.iter().any(|&s| sets.depends(g, s, old)) => {
                let gate = match src.get(3) {
                    Some(&gate) => g.binary(Binary::And, gate, inside),
                    None => inside,
                };
                g.store(mode, src[0], src[1], src[2], Some(gate))
            }
            Op::Check if node.src.iter().any(|&s| sets.depends(g, s, old)) => {
                src[3] = g.binary(Binary::And, src[3], inside);
                g.add(node.op, node.dtype, &src)
            }
            Op::Reduce(op) if node.src[1..].contains(&old) => {
                let neutral = g.bits(node.dtype, crate::ir::scalar::identity(op, node.dtype));
                src[0] = g.select(inside, src[0], neutral);
                g.add(node.op, node.dtype, &src)
            }
            op => g.add(op, node.dtype, &src),
        };
        new.insert(n, made);
    }
    new[&root]
}
