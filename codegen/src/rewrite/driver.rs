//! The fixpoint driver.

use hashbrown::HashMap;

use super::repetitions::keep_repetitions;
use super::rule::{Cx, Rules};
use crate::ir::{Graph, Id, Op, Src};

enum Step {
    /// Make the sources final, then the node.
    Visit(Id),
    /// The first is whatever the second becomes.
    Same(Id, Id),
}

/// Rewrites everything reachable from `root`, sources first, until no rule applies, and gives the
/// new root. Nodes for which `opaque` holds are left alone with all they use.
///
/// The number of rewrites is limited (fuel); a pair of rules that undo each other is a bug that
/// debug builds report by name and release builds end by keeping one of the two forms.
pub fn fixpoint(g: &mut Graph, cx: &mut Cx, rules: &Rules, root: Id, opaque: fn(Op) -> bool) -> Id {
    let mut done: HashMap<Id, Id> = HashMap::new();
    // Nodes that wait for what they became, with the rule that rewrote them (if it was a rule).
    let mut waiting: HashMap<Id, Option<u16>> = HashMap::new();
    let mut fuel = 100_000 + 64 * g.len() as u64;
    let mut stack = vec![Step::Visit(root)];
    while let Some(step) = stack.pop() {
        let id = match step {
            Step::Same(id, new) => {
                let end = done.get(&new).copied().unwrap_or(new);
                waiting.remove(&id);
                done.insert(id, end);
                continue;
            }
            Step::Visit(id) if done.contains_key(&id) => continue,
            Step::Visit(id) => id,
        };
        if let Some(&first) = waiting.get(&id) {
            // Two forms wait for each other.
            if cfg!(debug_assertions) {
                let name = |r: Option<u16>| r.map_or("-", |r| rules.all()[r as usize].name);
                let others: Vec<_> = waiting.values().map(|&r| name(r)).collect();
                tracing::error!(rule = name(first), ?others, "rewrite cycle");
                debug_assert!(
                    false,
                    "rewrite cycle: rule {} and one of {others:?} undo each other at\n{}",
                    name(first),
                    crate::ir::print::print(g, id)
                );
            }
            continue;
        }
        if opaque(g.op(id)) {
            done.insert(id, id);
            continue;
        }
        let before = stack.len();
        stack.push(Step::Visit(id));
        for i in (0..g.src(id).len()).rev() {
            let s = g.src(id)[i];
            if !done.contains_key(&s) {
                stack.push(Step::Visit(s));
            }
        }
        if stack.len() > before + 1 {
            // A source that waits for itself (a cycle, already reported) must not block us.
            if stack[before + 1..]
                .iter()
                .all(|s| matches!(s, Step::Visit(s) if waiting.contains_key(s)))
            {
                for s in stack.drain(before + 1..).collect::<Vec<_>>() {
                    if let Step::Visit(s) = s {
                        done.insert(s, s);
                    }
                }
            }
            continue;
        }
        stack.pop();
        let mut src: Src = g.src(id).iter().map(|s| done[s]).collect();
        if src.as_slice() != g.src(id) {
            let (op, dtype) = (g.op(id), g.dtype(id));
            keep_repetitions(g, cx, id, &mut src);
            let new = g.add(op, dtype, &src);
            waiting.insert(id, None);
            stack.extend([Step::Same(id, new), Step::Visit(new)]);
            continue;
        }
        if fuel == 0 {
            done.insert(id, id);
            continue;
        }
        match rules.first_match(g, cx, id) {
            Some((rule, new)) => {
                fuel -= 1;
                if fuel == 0 {
                    tracing::warn!(nodes = g.len(), "rewriting stopped: out of fuel");
                }
                waiting.insert(id, Some(rule));
                stack.extend([Step::Same(id, new), Step::Visit(new)]);
            }
            None => {
                done.insert(id, id);
            }
        }
    }
    done.get(&root).copied().unwrap_or(root)
}
