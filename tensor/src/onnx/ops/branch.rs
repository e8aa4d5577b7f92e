//! If: one of two subgraphs.
//!
//! A condition that is known while the graph is built takes its branch, and leaves no trace. One that
//! hangs on data would have to be read at every run; where both branches are little work and make
//! values of the same forms, both are computed and the condition selects, element by element: then
//! the model is captured all the same. Of what kernels compute, only an index out of range can be seen
//! from outside; a branch that is not taken has other ones. What else can fail, fails while it is traced.

use std::collections::{HashMap, HashSet};

use codegen::DType;

use crate::graph::{Op, Tensor};
use crate::onnx::call::{Call, Table};
use crate::onnx::error::Result;
use crate::onnx::value::{Array, Value};
use crate::walk::below;

pub(super) const OPS: Table = &[("If", branch)];

/// Operations on elements that are done in vain at most: less time than a run takes longer that
/// waits for the device and builds its graph anew.
const MOST_WORK: usize = 1 << 24;

/// What an operation costs however small its tensor is, in elements.
const KERNEL: usize = 1 << 10;

fn branch(c: &mut Call) -> Result<Vec<Value>> {
    let cond = c.value(0)?.clone();
    if let Value::Tensor(Array { tensor, .. }) = &cond
        && tensor.numel() == 1
        && c.eval.hangs_on_data(tensor)
        && let Some(made) = both(c, tensor)
    {
        return Ok(made);
    }
    let taken = match c.truth(&cond)? {
        true => c.graph("then_branch")?,
        false => c.graph("else_branch")?,
    };
    c.run(&taken, &[])
}

/// The values of both branches, selected; `None` where the condition has to be read. Whatever is
/// wrong with the branch that is taken is found again, and said, where it is evaluated alone.
fn both(c: &mut Call, cond: &Tensor) -> Option<Vec<Value>> {
    let outside = c.eval.identities();
    let mut sides = [Vec::new(), Vec::new()];
    let mut work = 0;
    for (side, name) in sides.iter_mut().zip(["then_branch", "else_branch"]) {
        let graph = c.graph(name).ok()?;
        for value in c.run(&graph, &[]).ok()? {
            let Value::Tensor(array) = value else {
                return None;
            };
            side.push(c.here(&array).ok()?);
        }
        let tensors: Vec<Tensor> = side.iter().map(|a| a.tensor.clone()).collect();
        work += elements(&tensors, &outside).filter(|&n| n <= MOST_WORK)?;
    }
    let [yes, no] = sides;
    if work > MOST_WORK || yes.len() != no.len() {
        return None;
    }
    let cond = cond.reshape(&[]).and_then(|cond| cond.cast(DType::Bool));
    let cond = cond.ok()?;
    let yes = indexed(&yes, &cond, &outside).ok()?;
    let no = indexed(&no, &cond.logical_not().ok()?, &outside).ok()?;
    let pairs = yes.into_iter().zip(no);
    pairs
        .map(|(yes, no)| {
            let elem = yes.elem;
            if elem != no.elem || yes.tensor.shape() != no.tensor.shape() {
                return None;
            }
            let tensor = cond.where_(&yes.tensor, &no.tensor).ok()?;
            Some(Array { tensor, elem }.into())
        })
        .collect()
}

/// The values of a branch if it is taken. If it is not, all its indices that are looked at are 0.
fn indexed(
    side: &[Array],
    taken: &Tensor,
    outside: &HashSet<u64>,
) -> crate::error::Result<Vec<Array>> {
    let tensors: Vec<Tensor> = side.iter().map(|a| a.tensor.clone()).collect();
    let mut new: HashMap<u64, Tensor> = HashMap::new();
    for t in below(&tensors, |t| outside.contains(&t.id())) {
        let node = t.node();
        let own = node.src();
        let varies = own.iter().any(|s| new.contains_key(&s.id()));
        let index = matches!(node.op, Op::Checked(_));
        if outside.contains(&t.id()) || t.storage().is_some() || !(varies || index) {
            continue;
        }
        let made = own.iter().map(|s| new.get(&s.id()).unwrap_or(s).clone());
        let mut src: Vec<Tensor> = made.collect();
        if let (true, Some(index)) = (index, src.first_mut()) {
            *index = taken.where_(&*index, 0)?;
        }
        let src: Vec<&Tensor> = src.iter().collect();
        let made = Tensor::make(&node.engine, node.op.clone(), &src, &node.shape, node.dtype);
        new.insert(t.id(), made);
    }
    let tensor = |a: &Array| new.get(&a.tensor.id()).unwrap_or(&a.tensor).clone();
    let arrays = side.iter().map(|a| Array {
        tensor: tensor(a),
        elem: a.elem,
    });
    Ok(arrays.collect())
}

/// Elements that are computed for some tensors from what was there before; `None` if that cannot be
/// told.
fn elements(tensors: &[Tensor], outside: &HashSet<u64>) -> Option<usize> {
    let all = below(tensors, |t| outside.contains(&t.id()));
    let made = all.iter().filter(|t| !outside.contains(&t.id()));
    made.map(|t| match t.node().op {
        Op::Loop(..) => None,
        _ if t.storage().is_some() => Some(0),
        Op::Data | Op::Const(_) | Op::Param | Op::Given | Op::Detach => Some(0),
        Op::Reshape | Op::Permute(_) | Op::Expand | Op::Shrink(_) => Some(0),
        Op::Flip(_) | Op::Windows { .. } | Op::Sloped(_) => Some(0),
        Op::Reduce(..) => Some(KERNEL + t.node().src().iter().map(Tensor::numel).sum::<usize>()),
        _ => Some(KERNEL + t.numel()),
    })
    .try_fold(0usize, |sum, n| Some(sum.saturating_add(n?)))
    .map(|sum| tensors.iter().fold(sum, |s, t| s.saturating_add(t.numel())))
}
