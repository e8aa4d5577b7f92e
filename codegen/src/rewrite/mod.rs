//! Rewriting: rules that keep the meaning of a graph, and the drivers that apply them.

pub mod driver;
mod repetitions;
pub mod rule;
pub mod rules;
pub mod substitute;

pub use crate::ir::toposort;
pub use rule::{Cx, Rule, Rules};
pub use substitute::substitute;

use crate::ir::{Graph, Id};

/// Applies every rule to everything reachable from `root` until none applies; gives the new root.
///
/// The result is canonical: constants on the right, sums in normal form, index arithmetic free of
/// divisions that bounds decide, guards without clauses that are always true.
pub fn simplify(g: &mut Graph, root: Id) -> Id {
    let mut cx = Cx::default();
    driver::fixpoint(g, &mut cx, &rules::ALL, root, |_| false)
}

/// As [`simplify`], but each reduction keeps its loops.
pub(crate) fn simplify_loops(g: &mut Graph, root: Id) -> Id {
    let mut cx = Cx::default();
    driver::fixpoint(g, &mut cx, &rules::LOOPS, root, |_| false)
}
