//! Which loop ranges a node depends on.

use hashbrown::HashMap;

use super::{Graph, Id, Op, RangeKind};

/// Range sets of nodes, each computed once. A `Reduce` removes the ranges it binds; a `Scan` keeps
/// its own. Sets are sorted from the outermost range (smallest axis) inwards and shared.
#[derive(Clone, Debug, Default)]
pub struct RangeSets {
    of: HashMap<Id, u32>,
    sets: Vec<Box<[Id]>>,
    index: HashMap<Box<[Id]>, u32>,
}

/// The ranges `id` depends on, outermost first. For many questions use [`RangeSets`].
pub fn ranges_of(g: &Graph, id: Id) -> Vec<Id> {
    RangeSets::default().of(g, id).to_vec()
}

impl RangeSets {
    /// The sets of everything reachable from `root`.
    pub fn build(g: &Graph, root: Id) -> Self {
        let mut sets = RangeSets::default();
        sets.of(g, root);
        sets
    }

    /// The set of a node that is already known, otherwise empty.
    pub fn get(&self, id: Id) -> &[Id] {
        self.of.get(&id).map_or(&[], |&s| &self.sets[s as usize])
    }

    /// The set of a node, computed if new.
    pub fn of(&mut self, g: &Graph, id: Id) -> &[Id] {
        let mut stack = vec![id];
        while let Some(&n) = stack.last() {
            if self.of.contains_key(&n) {
                stack.pop();
                continue;
            }
            let before = stack.len();
            stack.extend(
                g.src(n)
                    .iter()
                    .copied()
                    .filter(|s| !self.of.contains_key(s)),
            );
            if stack.len() == before {
                let set = self.combine(g, n);
                self.of.insert(n, set);
                stack.pop();
            }
        }
        self.get(id)
    }

    /// `id` depends on `range`.
    pub fn depends(&mut self, g: &Graph, id: Id, range: Id) -> bool {
        self.of(g, id).contains(&range)
    }

    fn combine(&mut self, g: &Graph, n: Id) -> u32 {
        let src = g.src(n);
        if let Some((&first, rest)) = src.split_first() {
            // Nearly always all sources have the set of one of them.
            let set = self.of[&first];
            if !matches!(g.op(n), Op::Reduce(_) | Op::Fence { .. } | Op::Mma(_))
                && rest
                    .iter()
                    .all(|s| self.of[s] == set || self.get(*s).is_empty())
            {
                return set;
            }
        }
        let mut set: Vec<Id> = match g.op(n) {
            Op::Range { .. } => vec![n],
            Op::Reduce(_) => {
                let bound = &src[1..];
                let value = self.get(src[0]);
                value
                    .iter()
                    .copied()
                    .filter(|r| !bound.contains(r))
                    .collect()
            }
            // Work-items and lanes have all been there.
            Op::Fence { .. } => src
                .iter()
                .flat_map(|s| self.get(*s))
                .copied()
                .filter(|&r| !shared(g, r))
                .collect(),
            // The lanes of the operands end here.
            Op::Mma(_) => {
                let of = |i: usize, end: usize| {
                    let all = self.get(src[i]).iter().copied();
                    all.filter(move |r| *r != src[end])
                };
                let (a, b, c) = (of(0, 3), of(1, 4), self.get(src[2]).iter().copied());
                let lanes = matches!(g.op(src[5]), Op::Range { .. }).then_some(src[5]);
                a.chain(b).chain(c).chain(lanes).collect()
            }
            _ => src.iter().flat_map(|s| self.get(*s)).copied().collect(),
        };
        set.sort_unstable_by_key(|&r| (axis(g, r), r));
        set.dedup();
        if let Some(&found) = self.index.get(set.as_slice()) {
            return found;
        }
        let number = self.sets.len() as u32;
        let set = set.into_boxed_slice();
        self.sets.push(set.clone());
        self.index.insert(set, number);
        number
    }
}

/// Whether what is stored for all values of a range is there after a fence: work-items and lanes.
fn shared(g: &Graph, range: Id) -> bool {
    matches!(
        g.op(range),
        Op::Range {
            kind: RangeKind::Local | RangeKind::Vec,
            ..
        }
    )
}

/// The axis number of a range, `u32::MAX` for anything else.
pub fn axis(g: &Graph, range: Id) -> u32 {
    match g.op(range) {
        Op::Range { axis, .. } => axis,
        _ => u32::MAX,
    }
}
