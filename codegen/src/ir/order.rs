//! Walks in topological order.

use hashbrown::HashSet;

use super::{Graph, Id, Op};

/// Everything reachable from `root`, each node once, sources before users, in the order of a
/// depth-first walk (first source first).
pub fn toposort(g: &Graph, root: Id) -> Vec<Id> {
    toposort_until(g, root, |_| false)
}

/// [`toposort`] that does not go into the sources of nodes for which `opaque` holds.
pub fn toposort_until(g: &Graph, root: Id, opaque: impl Fn(Op) -> bool) -> Vec<Id> {
    let mut order = Vec::new();
    let mut done: HashSet<Id> = HashSet::new();
    let mut stack = vec![root];
    while let Some(&n) = stack.last() {
        if done.contains(&n) {
            stack.pop();
            continue;
        }
        let before = stack.len();
        if !opaque(g.op(n)) {
            stack.extend(g.src(n).iter().rev().filter(|s| !done.contains(*s)));
        }
        if stack.len() == before {
            stack.pop();
            done.insert(n);
            order.push(n);
        }
    }
    order
}
