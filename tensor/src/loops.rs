//! Loops with a known number of steps, as one node of the graph.
//!
//! The body is traced once, over stand-ins. Compiling it, and the memory of its temporaries, cost the
//! same whatever the number of steps; only the list of commands grows.
//!
//! ```
//! # use tensor::loops::{Order, recur};
//! # use tensor::{Engine, Tensor};
//!
//! let engine = Engine::reference();
//! let x = Tensor::from_slice(&engine, &[1.0f32, 2.0, 3.0, 4.0], &[4, 1])?;
//! let start = Tensor::from_slice(&engine, &[0.0f32], &[1])?;
//! // h' = h / 2 + x, from the first row of x to the last.
//! let made = recur(4, Order::Forward, &[&start], &[&x], |h, x| {
//!     Ok::<_, tensor::Error>((vec![h[0].mul(0.5)?.add(&x[0])?], vec![]))
//! })?;
//! assert_eq!(made.last[0].to_vec::<f32>()?, [6.125]);
//! assert_eq!(made.states[0].to_vec::<f32>()?, [1.0, 2.5, 4.25, 6.125]);
//! # Ok::<(), tensor::Error>(())
//! ```

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use codegen::ir::Binary;

use crate::error::{Error, Result};
use crate::graph::{Loop, LoopOutput, Op, Shape, Tensor};
use crate::ops::{check_size, same_engine, shape_error};
use crate::walk::{batched, below, replaced};

/// Which row of the inputs comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// From the first row to the last.
    Forward,
    /// From the last row to the first; results stay in the rows of their inputs.
    Backward,
}

/// The result of a loop.
#[derive(Clone, Debug)]
pub struct Recurrence {
    /// Each state after the last step.
    pub last: Vec<Tensor>,
    /// Each state after every step, `[steps, ...]`. Costs nothing unless it is used.
    pub states: Vec<Tensor>,
    /// Other outputs of the body at every step, `[steps, ...]`.
    pub outputs: Vec<Tensor>,
}

/// Calls `body` for every row of the inputs, with the states returned for the previous row.
///
/// `states` are the values before the first step, of any shape. `inputs` have the steps as their
/// first axis, `[steps, ...]`; the body gets a row `[...]` of each. It returns the new states, in shapes and types
/// of the old ones, and any number of outputs. It may use tensors from outside: values that depend only on them are
/// computed once, before the loop. The body is called once, for tracing, and must not read or realize values that
/// depend on its arguments.
///
/// # Errors
/// Neither states nor inputs; inputs with another first axis; new states of another number, shape or
/// type; tensors of several engines; what the body returns.
pub fn recur<E: From<Error>>(
    steps: usize,
    order: Order,
    states: &[&Tensor],
    inputs: &[&Tensor],
    body: impl FnOnce(&[Tensor], &[Tensor]) -> std::result::Result<(Vec<Tensor>, Vec<Tensor>), E>,
) -> std::result::Result<Recurrence, E> {
    for input in inputs {
        if input.shape().first() != Some(&steps) {
            let what = format!(
                "expected inputs with {steps} rows, one per step, found {:?}",
                input.shape()
            );
            return Err(fault(what).into());
        }
    }
    let before: Vec<Tensor> = states.iter().map(|t| stand(t, t.shape())).collect();
    let rows: Vec<Tensor> = inputs.iter().map(|t| stand(t, &t.shape()[1..])).collect();
    let (next, outputs) = body(&before, &rows)?;
    let sources: Vec<&Tensor> = states.iter().chain(inputs).copied().collect();
    let own: Vec<Tensor> = before.into_iter().chain(rows).collect();
    let results: Vec<Tensor> = next.iter().chain(&outputs).cloned().collect();
    Ok(made(
        steps,
        order,
        &sources,
        states.len(),
        own,
        &next,
        results,
    )?)
}

/// What stands for a value like another in a body.
pub(crate) fn stand(t: &Tensor, shape: &[usize]) -> Tensor {
    Tensor::make(t.engine(), Op::Param, &[], shape, t.dtype())
}

fn fault(what: String) -> Error {
    Error::Shape { op: "recur", what }
}

/// The loop over what was traced.
fn made(
    steps: usize,
    order: Order,
    sources: &[&Tensor],
    states: usize,
    own: Vec<Tensor>,
    next: &[Tensor],
    results: Vec<Tensor>,
) -> Result<Recurrence> {
    let Some(&first) = sources.first() else {
        return shape_error("recur", "expected a state or an input, found none".into());
    };
    for t in sources.iter().copied().chain(&results) {
        same_engine("recur", first, t)?;
    }
    check_states(&own[..states], next)?;
    let shapes: Vec<Shape> = results
        .iter()
        .map(|t| [&[steps], t.shape()].concat())
        .collect();
    for (t, shape) in results.iter().zip(&shapes) {
        check_size("recur", shape, t.dtype())?;
    }
    let split = |mut rows: Vec<Tensor>, last: Vec<Tensor>| {
        let outputs = rows.split_off(states);
        Recurrence {
            last,
            states: rows,
            outputs,
        }
    };
    if steps == 0 {
        let empty = results.iter().zip(&shapes);
        let empty = empty.map(|(t, shape)| Tensor::zeros(first.engine(), shape, t.dtype()));
        let last = sources[..states].iter().map(|&t| t.clone()).collect();
        return Ok(split(empty.collect::<Result<_>>()?, last));
    }
    let (own, sources, results) = lifted(steps, states, own, sources, results)?;
    let outside = captured(&own, &results);
    let stands: Vec<Tensor> = outside.iter().map(|t| stand(t, t.shape())).collect();
    let results = closed(&own, outside.iter().zip(&stands), &results);
    let inputs = own.len() - states;
    // A result that is given twice is made once.
    let once = |t: &Tensor| results.iter().position(|r| r.id() == t.id()).unwrap_or(0);
    let once: Vec<usize> = results.iter().map(once).collect();
    let body = Arc::new(Loop {
        steps,
        backward: order == Order::Backward,
        states,
        inputs,
        params: own.into_iter().chain(stands).collect(),
        results,
    });
    let src: Vec<&Tensor> = sources.iter().chain(&outside).collect();
    let take = |taken, shape: &[usize], t: &Tensor| {
        let op = Op::Loop(body.clone(), taken);
        Tensor::make(first.engine(), op, &src, shape, t.dtype())
    };
    let each = body.results.iter().enumerate();
    let rows = each.clone().map(|(i, t)| {
        // A row of an input, in its row: there already.
        let given = body.params[states..states + inputs].iter();
        match given.zip(&src[states..]).find(|(p, _)| p.id() == t.id()) {
            Some((_, &rows)) => rows.clone(),
            None => take(LoopOutput::Rows(once[i]), &shapes[i], t),
        }
    });
    let last = each
        .take(states)
        .map(|(i, t)| take(LoopOutput::Last(i), t.shape(), t));
    Ok(split(rows.collect(), last.collect()))
}

/// Checks that the states after a step are like those before it.
fn check_states(old: &[Tensor], new: &[Tensor]) -> Result<()> {
    let same = |(a, b): (&Tensor, &Tensor)| a.shape() == b.shape() && a.dtype() == b.dtype();
    if new.len() == old.len() && old.iter().zip(new).all(same) {
        return Ok(());
    }
    let list = |t: &[Tensor]| -> Vec<String> {
        let each = t.iter().map(|t| format!("{:?} {}", t.shape(), t.dtype()));
        each.collect()
    };
    let what = format!(
        "expected new states {:?}, like the old ones, found {:?}",
        list(old),
        list(new)
    );
    Err(fault(what))
}

/// The results of a body over its own parameters and what stands for values from outside.
fn closed<'a>(
    own: &'a [Tensor],
    outside: impl Iterator<Item = (&'a Tensor, &'a Tensor)>,
    results: &[Tensor],
) -> Vec<Tensor> {
    let mut known: HashMap<u64, Tensor> = outside
        .chain(own.iter().zip(own))
        .map(|(t, stand)| (t.id(), stand.clone()))
        .collect();
    // Constants of the body are its own: one that was made outside may be computed there, and is a
    // value in memory from then on.
    for tensor in below(results, |t| known.contains_key(&t.id())) {
        let node = tensor.node();
        if known.contains_key(&tensor.id()) {
            continue;
        }
        let src: Vec<Tensor> = node
            .src()
            .iter()
            .filter_map(|s| known.get(&s.id()).cloned())
            .collect();
        let src: Vec<&Tensor> = src.iter().collect();
        let copy = tensor.remade(node.op.clone(), &src, &node.shape);
        known.insert(tensor.id(), copy);
    }
    replaced(results, known)
}

/// Takes out of a body what is sums and products of the rows of the inputs alone: it is made of all
/// rows at once, before the loop, and comes in as one more input. Inputs that the body does not look
/// at any more are left out.
fn lifted(
    steps: usize,
    states: usize,
    own: Vec<Tensor>,
    sources: &[&Tensor],
    results: Vec<Tensor>,
) -> Result<(Vec<Tensor>, Vec<Tensor>, Vec<Tensor>)> {
    // Nodes that depend on states; on rows only; those of the latter with a reduction in them.
    let ids = |t: &[Tensor]| t.iter().map(Tensor::id).collect::<HashSet<u64>>();
    let (mut bound, mut free) = (ids(&own[..states]), ids(&own[states..]));
    let mut heavy: HashSet<u64> = HashSet::new();
    let all = below(&results, |_| false);
    for tensor in &all {
        let (id, src) = (tensor.id(), tensor.node().src());
        if src.iter().any(|s| bound.contains(&s.id())) {
            bound.insert(id);
        } else if src.iter().any(|s| free.contains(&s.id())) {
            free.insert(id);
            let reduces = matches!(tensor.node().op, Op::Reduce(..));
            if reduces || src.iter().any(|s| heavy.contains(&s.id())) {
                heavy.insert(id);
            }
        }
    }
    let mut ends: Vec<Tensor> = results.clone();
    for tensor in all.iter().filter(|t| bound.contains(&t.id())) {
        ends.extend(tensor.node().src().iter().cloned());
    }
    let mut seen = HashSet::new();
    let mut lifts = Vec::new();
    while let Some(tensor) = ends.pop() {
        if !heavy.contains(&tensor.id()) || !seen.insert(tensor.id()) {
            continue;
        }
        // What is left above is cheaper to compute in each step than to read.
        match tensor.node().op {
            Op::Reduce(..) => lifts.push(tensor),
            _ => ends.extend(tensor.node().src().iter().cloned()),
        }
    }
    let rows = own.iter().zip(sources).skip(states);
    let rows = rows.map(|(t, &source)| (t.id(), source.clone())).collect();
    let made = batched(&lifts, steps, rows)?;
    let mut pairs: Vec<(Tensor, Tensor)> = own
        .iter()
        .cloned()
        .zip(sources.iter().map(|&s| s.clone()))
        .collect();
    let mut known: HashMap<u64, Tensor> = HashMap::new();
    for (lift, rows) in lifts.iter().zip(made.into_iter().flatten()) {
        let stand = stand(lift, lift.shape());
        known.insert(lift.id(), stand.clone());
        pairs.push((stand, rows));
    }
    let results = replaced(&results, known);
    let used = ids(&below(&results, |_| false));
    let mut at = 0;
    pairs.retain(|(t, _)| {
        at += 1;
        at <= states || used.contains(&t.id())
    });
    let (own, sources) = pairs.into_iter().unzip();
    Ok((own, sources, results))
}

/// What a body uses from outside: the last nodes that do not depend on its parameters. Constants are a
/// part of its code, and movements too: they cost nothing there, and a copy outside. So are integers that
/// are wider than what they are made of: steps would read more.
fn captured(own: &[Tensor], results: &[Tensor]) -> Vec<Tensor> {
    let mut varies: HashSet<u64> = own.iter().map(Tensor::id).collect();
    let mut fixed: HashSet<u64> = HashSet::new();
    let mut ends: Vec<Tensor> = Vec::new();
    let all = below(results, |_| false);
    for tensor in &all {
        let node = tensor.node();
        let computes = matches!(
            node.op,
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast | Op::Bitcast
        ) || node.op.is_movement();
        let src = node.src();
        if src.iter().any(|s| varies.contains(&s.id())) && tensor.storage().is_none() {
            varies.insert(tensor.id());
        } else if tensor.storage().is_none()
            && (matches!(node.op, Op::Const(_) | Op::Iota)
                || computes && src.iter().all(|s| fixed.contains(&s.id())))
        {
            fixed.insert(tensor.id());
        }
    }
    for tensor in all.iter().filter(|t| varies.contains(&t.id())) {
        ends.extend(tensor.node().src().iter().cloned());
    }
    ends.extend(results.iter().cloned());
    let mut made_of: HashMap<u64, usize> = HashMap::new();
    for tensor in &all {
        let src = tensor.node().src();
        let light = matches!(
            tensor.node().op,
            Op::Cast | Op::Binary(Binary::Add | Binary::Sub)
        ) && tensor.dtype().is_int();
        let through = tensor.storage().is_none() && (light || tensor.node().op.is_movement());
        let bytes = match through {
            true => src.iter().fold(0usize, |n, s| {
                n.saturating_add(made_of.get(&s.id()).copied().unwrap_or(0))
            }),
            false => tensor.numel() * tensor.dtype().size(),
        };
        made_of.insert(tensor.id(), bytes);
    }
    let widened =
        |t: &Tensor| made_of[&t.id()] < t.numel() * t.dtype().size() && t.dtype().is_int();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while let Some(tensor) = ends.pop() {
        let id = tensor.id();
        if varies.contains(&id) || fixed.contains(&id) || !seen.insert(id) {
            continue;
        }
        if tensor.storage().is_none() && (tensor.node().op.is_movement() || widened(&tensor)) {
            ends.extend(tensor.node().src().iter().cloned());
        } else {
            found.push(tensor);
        }
    }
    found.sort_unstable_by_key(Tensor::id);
    found
}
