//! The fixpoint driver and the tables it reads.

use hashbrown::HashMap;

use crate::ir::{Binary, Graph, Id, Op, RangeKind, ReduceOp, Src, StoreMode, Unary};
use crate::symbolic::{Bounds, RangeSets};

/// What a rule gets besides the graph: analyses that are shared by all rules of one run.
#[derive(Debug, Default)]
pub struct Cx {
    /// Bounds of integer nodes, possibly under the assumptions of a guard.
    pub bounds: Bounds,
    /// Dependence on ranges.
    pub ranges: RangeSets,
    /// How often each rule fired, by name.
    pub hits: HashMap<&'static str, u64>,
}

impl Cx {
    /// A context in which the facts of `bounds` are assumed.
    pub fn under(bounds: Bounds) -> Self {
        Cx {
            bounds,
            ..Cx::default()
        }
    }
}

/// The function of a rule: the node that replaces `id`, or `None` if the rule does not apply.
pub type RuleFn = fn(&mut Graph, &mut Cx, Id) -> Option<Id>;

/// A named rewrite of one kind of node.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, in traces and counters.
    pub name: &'static str,
    /// The operations it can apply to; asked once per kind, so payloads other than the arithmetic
    /// operation do not count.
    pub on: fn(Op) -> bool,
    /// The rewrite.
    pub run: RuleFn,
}

/// Rules by operation.
#[derive(Debug)]
pub struct Rules {
    all: Vec<Rule>,
    by_kind: Vec<Vec<u16>>,
}

const UNARY: [Unary; 12] = [
    Unary::Neg,
    Unary::Not,
    Unary::Abs,
    Unary::Recip,
    Unary::Sqrt,
    Unary::Exp2,
    Unary::Log2,
    Unary::Sin,
    Unary::Trunc,
    Unary::Floor,
    Unary::Ceil,
    Unary::RoundEven,
];

const BINARY: [Binary; 19] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::FDiv,
    Binary::Max,
    Binary::Min,
    Binary::FloorDiv,
    Binary::FloorMod,
    Binary::TruncDiv,
    Binary::TruncMod,
    Binary::And,
    Binary::Or,
    Binary::Xor,
    Binary::Shl,
    Binary::Shr,
    Binary::Lt,
    Binary::Eq,
    Binary::Ne,
    Binary::Pow,
];

/// Position of an operation in the rule table; payloads other than the arithmetic op do not count.
const fn kind(op: Op) -> usize {
    match op {
        Op::Const(_) => 0,
        Op::Param { .. } => 1,
        Op::Var { .. } => 2,
        Op::Range { .. } => 3,
        Op::Where => 4,
        Op::Fma => 5,
        Op::Cast => 6,
        Op::Bitcast => 7,
        Op::Load => 8,
        Op::Reduce(_) => 9,
        Op::Scan(_) => 10,
        Op::Store(_) => 11,
        Op::Sink => 12,
        // No rule is about these.
        Op::Local { .. } | Op::Fence { .. } | Op::Mma(_) => 13,
        Op::Unary(op) => 14 + op as usize,
        Op::Binary(op) => 14 + UNARY.len() + op as usize,
    }
}

/// One operation of every kind.
fn representatives() -> impl Iterator<Item = Op> {
    let leaf = [
        Op::Const(0),
        Op::Param { slot: 0 },
        Op::Var {
            slot: 0,
            min: 0,
            max: 0,
        },
        Op::Range {
            axis: 0,
            extent: 1,
            kind: RangeKind::Loop,
        },
        Op::Where,
        Op::Fma,
        Op::Cast,
        Op::Bitcast,
        Op::Load,
        Op::Reduce(ReduceOp::Add),
        Op::Scan(ReduceOp::Add),
        Op::Store(StoreMode::Set),
        Op::Sink,
    ];
    let (unary, binary) = (UNARY.map(Op::Unary), BINARY.map(Op::Binary));
    leaf.into_iter().chain(unary).chain(binary)
}

impl Rules {
    /// A table of the rules of several groups; earlier rules are tried first.
    pub fn new(groups: &[&[Rule]]) -> Self {
        let all: Vec<Rule> = groups.iter().flat_map(|g| g.iter().copied()).collect();
        let mut by_kind = vec![Vec::new(); 14 + UNARY.len() + BINARY.len()];
        for op in representatives() {
            for (i, rule) in all.iter().enumerate() {
                if (rule.on)(op) {
                    by_kind[kind(op)].push(i as u16);
                }
            }
        }
        Rules { all, by_kind }
    }

    /// Every rule, in order.
    pub fn all(&self) -> &[Rule] {
        &self.all
    }

    fn first_match(&self, g: &mut Graph, cx: &mut Cx, id: Id) -> Option<(u16, Id)> {
        for &r in &self.by_kind[kind(g.op(id))] {
            let rule = &self.all[r as usize];
            if let Some(new) = (rule.run)(g, cx, id)
                && new != id
            {
                debug_assert_eq!(
                    g.dtype(new),
                    g.dtype(id),
                    "rule {} changes types",
                    rule.name
                );
                *cx.hits.entry(rule.name).or_default() += 1;
                return Some((r, new));
            }
        }
        None
    }
}

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
                let name = |r: Option<u16>| r.map_or("-", |r| rules.all[r as usize].name);
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
            super::rules::reduce::keep_repetitions(g, cx, id, &mut src);
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
