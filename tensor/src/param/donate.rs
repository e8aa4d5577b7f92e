//! Finds parameters whose memory may be overwritten.

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use hcq::Sharing;

use crate::graph::{Storage, Tensor};

/// For each waiting value, which is behind the value in memory, whether it may be written over the value that the parameter has: nothing that
/// lives on can see either of them. `cut` are tensors that give their graphs up once they are computed, of
/// each of which the caller has one handle besides those in `roots` and `cut`: with more, another thread may
/// use the graph.
///
/// A node dies with the commit if all of its handles are those of nodes that die, or of the cells. The
/// counts are those of now: who takes a value out of a cell later is found by
/// [`crate::graph::Waiting::settle_over`].
pub(super) fn donations(
    waiting: &[(&Tensor, &Tensor)],
    roots: &[Tensor],
    cut: &[Tensor],
) -> Vec<bool> {
    let mut found: HashMap<u64, Found> = HashMap::new();
    // A handle in the cell, and one in `waiting`.
    for (stored, value) in waiting {
        // What is in memory already becomes the value of the parameter, and lives on.
        if value.storage().is_none() {
            known(&mut found, value).handles += 2;
        }
        known(&mut found, stored).handles += match stored.id() {
            // Never computed: the waiting value is the handle in the cell.
            id if id == value.id() => 1,
            _ => 2,
        };
    }
    for tensor in cut {
        let again = roots.iter().filter(|root| root.id() == tensor.id()).count();
        known(&mut found, tensor).handles += 2 + again;
    }
    let mut pending: Vec<u64> = found.keys().copied().collect();
    while let Some(id) = pending.pop() {
        let Some(src) = found.get(&id).map(|f| f.src.clone()) else {
            continue;
        };
        for source in src.iter() {
            if !found.contains_key(&source.id()) {
                pending.push(source.id());
            }
            known(&mut found, source);
        }
    }
    // Users are younger than their sources.
    let mut order: Vec<u64> = found.keys().copied().collect();
    order.sort_unstable_by(|a, b| b.cmp(a));
    let cut: HashSet<u64> = cut.iter().map(Tensor::id).collect();
    let mut dies: HashSet<u64> = HashSet::new();
    for id in order {
        let Some(node) = found.get(&id) else { continue };
        if node.handles < node.count {
            continue;
        }
        // Of a tensor that is cut the graph goes, not the tensor.
        if !cut.contains(&id) {
            dies.insert(id);
        }
        for source in node.src.clone().iter() {
            if let Some(source) = found.get_mut(&source.id()) {
                source.handles += 1;
            }
        }
    }
    let mut times: HashMap<u64, usize> = HashMap::new();
    for (stored, _) in waiting {
        *times.entry(stored.id()).or_default() += 1;
    }
    waiting
        .iter()
        .map(|(stored, value)| {
            let alone = match stored.storage() {
                // One of the tensor, and one here. Memory that others have, too, is held by them.
                Some(Storage::Device(buffer)) => {
                    buffer.sharing() == Sharing::Own && Arc::strong_count(&buffer) <= 2
                }
                _ => false,
            };
            let apart = stored.id() != value.id() && value.storage().is_none();
            let once = times.get(&stored.id()) == Some(&1);
            alone && apart && once && dies.contains(&stored.id()) && dies.contains(&value.id())
        })
        .collect()
}

struct Found {
    /// Handles that there are.
    count: usize,
    /// Those among them that go with the commit.
    handles: usize,
    src: Arc<[Tensor]>,
}

fn known<'a>(found: &'a mut HashMap<u64, Found>, tensor: &Tensor) -> &'a mut Found {
    found.entry(tensor.id()).or_insert_with(|| Found {
        count: Arc::strong_count(&tensor.0),
        handles: 0,
        src: tensor.node().src(),
    })
}
