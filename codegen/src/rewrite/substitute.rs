//! Replacement of nodes by others.

use hashbrown::HashMap;

use crate::ir::{Graph, Id, Op, RangeSets, Src};

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
