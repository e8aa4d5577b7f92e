//! Walks over the lazy graph.

use hashbrown::{HashMap, HashSet};

use crate::error::Result;
use crate::graph::{Op, Slope, Tensor};

/// Everything below some tensors, sources first, without what is below where `stop` holds, and below
/// what is in memory.
pub(crate) fn below(roots: &[Tensor], stop: impl Fn(&Tensor) -> bool) -> Vec<Tensor> {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut pending: Vec<Tensor> = roots.to_vec();
    let mut all = Vec::new();
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor.id()) {
            continue;
        }
        if tensor.storage().is_none() && !stop(&tensor) {
            pending.extend(tensor.node().src().iter().cloned());
        }
        all.push(tensor);
    }
    // Sources are older than their users.
    all.sort_unstable_by_key(Tensor::id);
    all
}

/// The same functions of other tensors: `known` has those that take the place of nodes, by their
/// identity.
pub(crate) fn replaced(roots: &[Tensor], mut known: HashMap<u64, Tensor>) -> Vec<Tensor> {
    for tensor in below(roots, |t| known.contains_key(&t.id())) {
        if known.contains_key(&tensor.id()) {
            continue;
        }
        let node = tensor.node();
        let own = node.src();
        let src: Vec<&Tensor> = own.iter().filter_map(|s| known.get(&s.id())).collect();
        let same = src.len() != own.len() || src.iter().zip(&*own).all(|(a, b)| a.id() == b.id());
        let made = if same {
            tensor.clone()
        } else {
            tensor.remade(node.op.clone(), &src, &node.shape)
        };
        known.insert(tensor.id(), made);
    }
    let found = roots.iter().filter_map(|o| known.get(&o.id()).cloned());
    found.collect()
}

/// The same functions for `n` rows at once: `rows` has `[n, ..]` for some nodes, by their identity. A
/// root that depends on none of them is repeated. `None` if there is a node on the way that cannot do
/// several rows.
pub(crate) fn batched(
    roots: &[Tensor],
    n: usize,
    mut rows: HashMap<u64, Tensor>,
) -> Result<Option<Vec<Tensor>>> {
    let wide = |shape: &[usize]| [&[n], shape].concat();
    let spread = |t: &Tensor| t.unsqueeze(0)?.expand(&wide(t.shape()));
    for tensor in below(roots, |t| rows.contains_key(&t.id())) {
        let node = tensor.node();
        let own = node.src();
        let varies = own.iter().any(|s| rows.contains_key(&s.id()));
        if rows.contains_key(&tensor.id()) || !varies || tensor.storage().is_some() {
            continue;
        }
        let Some(op) = behind_an_axis(&node.op) else {
            return Ok(None);
        };
        let src = own.iter().map(|s| match rows.get(&s.id()) {
            Some(rows) => Ok(rows.clone()),
            None => spread(s),
        });
        let src: Vec<Tensor> = src.collect::<Result<_>>()?;
        let src: Vec<&Tensor> = src.iter().collect();
        let made = tensor.remade(op, &src, &wide(&node.shape));
        rows.insert(tensor.id(), made);
    }
    let found = roots.iter().map(|root| match rows.get(&root.id()) {
        Some(rows) => Ok(rows.clone()),
        None => spread(root),
    });
    found.collect::<Result<_>>().map(Some)
}

/// The operation with one more axis in front of all others.
pub(crate) fn behind_an_axis(op: &Op) -> Option<Op> {
    let later = |axes: &[usize]| axes.iter().map(|a| a + 1).collect::<Vec<_>>();
    let also = |lo: &[usize]| [&[0], lo].concat();
    Some(match op {
        Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast | Op::Bitcast => op.clone(),
        Op::Reshape | Op::Expand | Op::Contiguous | Op::Detach => op.clone(),
        Op::Sloped(slope) => Op::Sloped(match slope {
            Slope::Hypot => Slope::Hypot,
            Slope::Products(axis) => Slope::Products(axis + 1),
            Slope::Cofactors(axis) => Slope::Cofactors(axis + 1),
        }),
        Op::Reduce(op, axes) => Op::Reduce(*op, later(axes)),
        Op::Scan(op, axis) => Op::Scan(*op, axis + 1),
        Op::Permute(order) => Op::Permute(also(&later(order))),
        Op::Pad(lo, bits) => Op::Pad(also(lo), *bits),
        Op::Shrink(lo) => Op::Shrink(also(lo)),
        Op::Flip(axes) => Op::Flip(later(axes)),
        Op::Windows {
            axis,
            size,
            stride,
            dilation,
        } => Op::Windows {
            axis: axis + 1,
            size: *size,
            stride: *stride,
            dilation: *dilation,
        },
        Op::Gather(axis) => Op::Gather(axis + 1),
        Op::Checked(_) => op.clone(),
        Op::Scatter(axis, mode) => Op::Scatter(axis + 1, *mode),
        Op::Data | Op::Const(_) | Op::Iota | Op::Copy => return None,
        Op::Param | Op::Given | Op::Loop(..) => return None,
    })
}
