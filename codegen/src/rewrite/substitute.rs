//! Walks: topological order, and replacement of nodes by others.

use hashbrown::{HashMap, HashSet};

use crate::ir::{Graph, Id, Op, Src};
use crate::symbolic::RangeSets;

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

/// `root` with every node that is a key of `map` replaced by its value. Replacements are not looked
/// into again.
///
/// A range that a `Reduce` binds may be replaced by an expression over several ranges
/// (`r -> r0*4 + r1`); the `Reduce` then binds all ranges of the expression.
pub fn substitute(g: &mut Graph, root: Id, map: &HashMap<Id, Id>) -> Id {
    let mut new: HashMap<Id, Id> = map.clone();
    let mut sets = RangeSets::default();
    let mut stack = vec![root];
    while let Some(&n) = stack.last() {
        if new.contains_key(&n) {
            stack.pop();
            continue;
        }
        let before = stack.len();
        stack.extend(g.src(n).iter().rev().filter(|s| !new.contains_key(*s)));
        if stack.len() > before {
            continue;
        }
        stack.pop();
        let node = g.node(n);
        if node.src.iter().all(|s| new[s] == *s) {
            new.insert(n, n);
            continue;
        }
        let (op, dtype, old) = (node.op, node.dtype, node.src.clone());
        let mut src: Src = Src::with_capacity(old.len());
        for (i, s) in old.iter().enumerate() {
            let s = new[s];
            if matches!(op, Op::Reduce(_)) && i > 0 && !matches!(g.op(s), Op::Range { .. }) {
                for &r in sets.of(g, s) {
                    if !src[1..].contains(&r) {
                        src.push(r);
                    }
                }
            } else {
                src.push(s);
            }
        }
        let made = g.add(op, dtype, &src);
        new.insert(n, made);
    }
    new[&root]
}
