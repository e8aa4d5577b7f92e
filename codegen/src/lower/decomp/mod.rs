//! Decomposition: operations that a target lacks, in terms of those it has.
//!
//! The last pass over the graph before code is emitted: simplification afterwards would bring some
//! operations back. Everything is branch-free and made of ordinary nodes, so it vectorises as its
//! operands do.

mod builder;
mod caps;
mod divmod;
mod dtype;
mod error_function;
mod exponential;
mod inverse;
mod logarithm;
mod natural;
mod single;
mod trigonometric;

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, Src};
use crate::rewrite::toposort;
use builder::Builder;
pub use caps::{Caps, TypeSet};
pub(crate) use exponential::EXP2_F32;

/// Rewrites everything reachable from `root` into what `caps` allows; gives the new root.
///
/// Values are those of the laws, except: functions are correct to two units in the last place, `Exp` and
/// `Log` to one (see the tests for the bounds), and sums and products over 8- and 16-bit floats
/// are accumulated in `f32` and rounded once. Where 2^x is an instruction, `Exp` has its error and half a unit:
/// 1.5 on AMD and 2.5 on NVIDIA, by what their manuals say of the instruction.
pub fn decompose(g: &mut Graph, root: Id, caps: &Caps) -> Id {
    let mut new: HashMap<Id, Id> = HashMap::new();
    let order = toposort(g, root);
    let mut b = Builder::new(g, caps);
    for id in order {
        let node = b.g.node(id).clone();
        let src: Src = node.src.iter().map(|s| new[s]).collect();
        let made = match (node.op, src.as_slice()) {
            (Op::Unary(op), &[a]) => b.unary(op, a),
            (Op::Binary(op), &[x, y]) => b.binary(op, x, y),
            (Op::Fma, &[x, y, z]) if caps.mad.has(node.dtype) => {
                b.g.add(Op::Fma, node.dtype, &[x, y, z])
            }
            (Op::Fma, &[x, y, z]) => b.fma(x, y, z),
            (Op::Cast, &[a]) => b.cast(a, node.dtype),
            (Op::Reduce(op), [value, ranges @ ..]) if b.accumulates_in_f32(op, node.dtype) => {
                let value = b.cast(*value, DType::F32);
                let mut wide: Src = Src::from_slice(&[value]);
                wide.extend_from_slice(ranges);
                let sum = b.g.add(node.op, DType::F32, &wide);
                b.cast(sum, node.dtype)
            }
            (Op::Scan(op), &[value, range]) if b.accumulates_in_f32(op, node.dtype) => {
                let value = b.cast(value, DType::F32);
                let sum = b.g.add(node.op, DType::F32, &[value, range]);
                b.cast(sum, node.dtype)
            }
            _ => b.g.add(node.op, node.dtype, &src),
        };
        new.insert(id, made);
    }
    new[&root]
}

/// `a op b` as a graph of its own, where a target combines a type through `f32` only: for what
/// memory held before a combining store, which is no node of the kernel.
pub(super) struct Combination {
    /// Arithmetic only; the operands are the parameters 0 and 1, taken as values.
    pub graph: Graph,
    /// The node with the result.
    pub result: Id,
}

/// The decomposition of combining two values; `None` if the target has the operation.
pub(super) fn combination(op: Binary, dtype: DType, caps: &Caps) -> Option<Combination> {
    let mut graph = Graph::new();
    let (a, b) = (graph.param(0, dtype), graph.param(1, dtype));
    let mut builder = Builder::new(&mut graph, caps);
    if !builder.through_f32(op, dtype) {
        return None;
    }
    let whole = builder.binary(op, a, b);
    let result = decompose(&mut graph, whole, caps);
    Some(Combination { graph, result })
}
