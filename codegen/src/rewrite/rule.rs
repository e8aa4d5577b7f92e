//! Rules, and tables that find the rules of a node.

use hashbrown::HashMap;

use crate::ir::{Binary, Graph, Id, Op, RangeKind, RangeSets, ReduceOp, StoreMode, Unary};
use crate::symbolic::Bounds;

/// The context of a rule: analyses shared by all rules of one run.
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
        Op::Local { .. } | Op::Fence { .. } | Op::Operand(_) | Op::Box { .. } => 13,
        Op::Mma(_) | Op::Check => 13,
        Op::Dot => 14,
        Op::Unary(op) => 15 + op as usize,
        Op::Binary(op) => 15 + Unary::ALL.len() + op as usize,
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
        Op::Dot,
        Op::Cast,
        Op::Bitcast,
        Op::Load,
        Op::Reduce(ReduceOp::Add),
        Op::Scan(ReduceOp::Add),
        Op::Store(StoreMode::Set),
        Op::Sink,
    ];
    let unary = Unary::ALL.iter().copied().map(Op::Unary);
    let binary = Binary::ALL.iter().copied().map(Op::Binary);
    leaf.into_iter().chain(unary).chain(binary)
}

impl Rules {
    /// A table of the rules of several groups; earlier rules are tried first.
    pub fn new(groups: &[&[Rule]]) -> Self {
        let all: Vec<Rule> = groups.iter().flat_map(|g| g.iter().copied()).collect();
        let mut by_kind = vec![Vec::new(); 15 + Unary::ALL.len() + Binary::ALL.len()];
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

    /// What the first rule that applies makes of `id`, with its index.
    pub(super) fn first_match(&self, g: &mut Graph, cx: &mut Cx, id: Id) -> Option<(u16, Id)> {
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
