//! Places that change from call to call: the batch of a step, the row of a time.
//!
//! A part of a tensor, or a tensor in a padding, begins at a place that is compiled into the kernel that reads it. Where
//! the same graph comes again with another place, that place is an argument from then on. What is remembered of a graph decides only that: any
//! place may be an argument, or not.

use hashbrown::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use codegen::Recent;
use hcq::sync::lock;

use super::canon::{Dag, DagNode};
use crate::graph::Op;

/// Graphs that are remembered.
const GRAPHS: u64 = 4096;

/// The places of one graph.
#[derive(Debug)]
struct Seen {
    places: Vec<usize>,
    /// Which of them change.
    open: Vec<bool>,
}

/// The graphs that were run, by all of them but places and numbers.
#[derive(Debug)]
pub struct Offsets(Mutex<Recent<u64, Seen>>);

impl Default for Offsets {
    fn default() -> Self {
        Offsets(Mutex::new(Recent::new(GRAPHS)))
    }
}

impl Offsets {
    /// Marks the places of a graph that are arguments.
    pub(super) fn mark(&self, dag: &mut Dag) {
        let placed = |n: &DagNode| matches!(n.op, Op::Shrink(_) | Op::Pad(..));
        if !dag.nodes.iter().any(placed) {
            return;
        }
        let (shape, at) = fingerprint(dag);
        let places: Vec<usize> = at
            .iter()
            .map(|&(node, axis)| dag.begin(node, axis))
            .collect();
        let mut table = lock(&self.0);
        let open = match table.get(&shape) {
            Some(seen) if seen.places.len() == places.len() => {
                for (i, place) in places.iter().enumerate() {
                    seen.open[i] |= seen.places[i] != *place;
                }
                seen.open.clone()
            }
            _ => {
                let open = vec![false; places.len()];
                let seen = Seen {
                    places,
                    open: open.clone(),
                };
                table.insert(shape, seen, 1);
                open
            }
        };
        dag.open = at
            .into_iter()
            .zip(open)
            .filter_map(|(place, open)| open.then_some(place))
            .collect();
    }
}

/// What a graph is without its places and numbers, and the places, in an order that follows from that alone.
fn fingerprint(dag: &Dag) -> (u64, Vec<(u32, usize)>) {
    let mut hasher = DefaultHasher::new();
    let mut number: HashMap<u32, u32> = HashMap::new();
    let mut places = Vec::new();
    let mut pending: Vec<u32> = dag.roots.iter().rev().copied().collect();
    while let Some(n) = pending.pop() {
        let node = dag.node(n);
        (&node.shape, node.dtype, node.leaf.is_some()).hash(&mut hasher);
        if matches!(dag.node(dag.base[n as usize]).op, Op::Const(_)) {
            // Which numbers are equal may be so in this call only.
            continue;
        }
        let next = number.len() as u32;
        let known = *number.entry(n).or_insert(next);
        known.hash(&mut hasher);
        if known != next {
            continue;
        }
        std::mem::discriminant(&node.op).hash(&mut hasher);
        match &node.op {
            Op::Shrink(_) | Op::Pad(..) => {
                if let Op::Pad(_, value) = &node.op {
                    value.hash(&mut hasher);
                }
                let from = &dag.node(node.src[0]).shape;
                let moves = |&axis: &usize| from[axis] != node.shape[axis];
                places.extend((0..from.len()).filter(moves).map(|axis| (n, axis)));
            }
            op => op.hash(&mut hasher),
        }
        pending.extend(node.src.iter().rev());
    }
    (hasher.finish(), places)
}
