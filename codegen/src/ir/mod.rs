//! The intermediate representation: operations, the arena that holds them, the kernel.

pub mod arith;
mod bind;
pub mod graph;
pub mod mma;
pub mod op;
pub mod order;
pub mod print;
pub mod ranges;
pub mod scalar;
mod special;
pub mod verify;

pub use arith::{Binary, ReduceOp, Unary};
pub use graph::{Graph, Id, Node, Src};
pub use op::{Op, RangeKind, StoreMode};
pub use order::toposort;
pub use ranges::{RangeSets, ranges_of};

use hashbrown::{HashMap, HashSet};

use crate::dtype::DType;

/// A kernel as the scheduler hands it over: what to compute, not how.
///
/// `sink` is an [`Op::Sink`] over stores. Only `Loop`, `Serial` and `Reduce` ranges occur; each
/// range has an axis number of its own (two reductions never share a range). A value that depends on fewer ranges than the store that
/// uses it is computed once per combination of its own ranges: its loops are outside of the others,
/// and the scheduler numbers axes so that outer loops come first. Example, softmax over rows of
/// `x[r, k]`:
///
/// ```text
/// m   = Reduce(Max, x[r, k1], k1)
/// s   = Reduce(Add, exp2((x[r, k2] - m) * log2e), k2)
/// Store(out, r*K + k3, exp2((x[r, k3] - m) * log2e) / s)
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    /// A short name for traces and symbols: letters, digits and `_`.
    pub name: String,
    /// The arena that holds every node.
    pub graph: Graph,
    /// The root.
    pub sink: Id,
    /// The buffer arguments, by slot.
    pub params: Vec<ParamInfo>,
    /// Number of arguments that are no buffers.
    pub vars: u16,
}

impl Kernel {
    /// Whether its stores have to run in the order of its sink, so that its work must not be spread over
    /// groups: the order of two stores to one buffer can matter.
    pub fn ordered(&self) -> bool {
        let mut stored: HashMap<Id, usize> = HashMap::new();
        let mut combines = HashSet::new();
        for &s in self.graph.src(self.sink) {
            let ptr = self.graph.src(s)[0];
            *stored.entry(ptr).or_default() += 1;
            if matches!(self.graph.op(s), Op::Store(mode) if mode != StoreMode::Set) {
                combines.insert(ptr);
            }
        }
        combines.iter().any(|p| stored[p] > 1)
    }
}

/// A buffer argument of a [`Kernel`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ParamInfo {
    /// Element type.
    pub dtype: DType,
    /// Number of elements that the kernel may touch.
    pub len: usize,
    /// The kernel stores to it.
    pub written: bool,
    /// Its elements are the same at every run: what is packed of them alone is packed ahead of the
    /// first one, if [`crate::opt::contract::kept`] says so.
    pub constant: bool,
}
