//! Gradients through loops: a loop the other way round.
//!
//! A step of it gets the states before the step of the loop, which are stored, computes the step again
//! as far as its derivative needs it, and carries the gradients of the states. What all steps share,
//! such as a weight, gets the sum over all steps: after the loop, out of the rows that the terms are
//! made of, which for a product is again one product.

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use codegen::ir::{Binary, ReduceOp};

use super::backward;
use crate::error::Result;
use crate::graph::{Loop, LoopOutput, Op, Tensor};
use crate::loops::{Order, recur};
use crate::walk::{batched, behind_an_axis, below, replaced};

/// The gradients of what a loop is made of, given those of its results.
pub(super) fn looped(
    y: &Tensor,
    given: &[(LoopOutput, Tensor)],
    needs: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Op::Loop(body, _) = &y.node().op else {
        return Ok(vec![None; needs.len()]);
    };
    let src = y.node().src();
    let (states, ends) = (body.states, body.states + body.inputs);
    let of = |what: LoopOutput| given.iter().find(|g| g.0 == what).map(|g| &g.1);
    // The derivative of one step, over stand-ins for the gradients of its results.
    let counts = |i: &usize| {
        let used = *i < states || of(LoopOutput::Rows(*i)).is_some();
        used && body.results[*i].dtype().is_float()
    };
    let results: Vec<usize> = (0..body.results.len()).filter(counts).collect();
    let stand = |t: &Tensor| Tensor::make(t.engine(), Op::Param, &[], t.shape(), t.dtype());
    let seeds: Vec<(Tensor, Tensor)> = results
        .iter()
        .map(|&i| (body.results[i].clone(), stand(&body.results[i])))
        .collect();
    let with: Vec<usize> = (0..src.len())
        .filter(|&i| body.params[i].dtype().is_float() && (i < states || needs[i]))
        .collect();
    let variables: Vec<&Tensor> = with.iter().map(|&i| &body.params[i]).collect();
    let slopes = slopes(&seeds, &variables)?;
    let ids = body.params.iter().map(Tensor::id);
    let shared = ids.clone().zip(src.iter().cloned()).skip(ends);
    let slopes = replaced(&slopes, shared.collect());
    let mut terms: Vec<Tensor> = Vec::new();
    for (_, slope) in with.iter().zip(&slopes).filter(|(i, _)| **i >= ends) {
        cut(slope, &mut terms);
    }
    // Rows of states before each step, of inputs, and of gradients.
    let mut rows: Vec<Tensor> = (0..states)
        .map(|i| before(y, body, i))
        .collect::<Result<_>>()?;
    rows.extend_from_slice(&src[states..ends]);
    let mut stored: HashMap<u64, Tensor> = ids.clone().zip(rows.iter().cloned()).collect();
    let own: HashSet<u64> = ids
        .clone()
        .take(ends)
        .chain(seeds.iter().map(|(_, stand)| stand.id()))
        .collect();
    let outside: HashSet<u64> = src.iter().map(Tensor::id).collect();
    let varies = |t: &Tensor| {
        let below = below(std::slice::from_ref(t), |t| outside.contains(&t.id()));
        below.iter().any(|t| own.contains(&t.id()))
    };
    let mut seen: HashSet<u64> = stored.keys().copied().collect();
    terms.retain(|t| seen.insert(t.id()) && varies(t));
    rows.extend(
        results
            .iter()
            .filter_map(|&i| of(LoopOutput::Rows(i)).cloned()),
    );
    let carried = with.iter().filter(|i| **i < states);
    let first: Vec<Tensor> = carried
        .map(|&i| or_zero(of(LoopOutput::Last(i)).cloned(), &src[i]))
        .collect::<Result<_>>()?;
    let order = match body.backward {
        true => Order::Forward,
        false => Order::Backward,
    };
    let (first, rows): (Vec<_>, Vec<_>) = (first.iter().collect(), rows.iter().collect());
    let made = recur(body.steps, order, &first, &rows, |state, row| {
        let mut known: HashMap<u64, Tensor> =
            ids.clone().zip(row[..ends].iter().cloned()).collect();
        let (mut state, mut row) = (state.iter(), row[ends..].iter());
        for (&i, (_, stand)) in results.iter().zip(&seeds) {
            let state = if i < states { state.next() } else { None };
            let row = of(LoopOutput::Rows(i)).and_then(|_| row.next());
            known.insert(stand.id(), seed(state, row, stand)?);
        }
        let own = with.iter().zip(&slopes).filter(|(i, _)| **i < ends);
        let wanted: Vec<Tensor> = own.map(|(_, slope)| slope).chain(&terms).cloned().collect();
        let mut next = replaced(&wanted, known);
        let outputs = next.split_off(first.len());
        Ok::<_, crate::Error>((next, outputs))
    })?;
    let mut parts = vec![None; src.len()];
    let mut outputs = made.outputs.into_iter();
    let mut last = made.last.into_iter();
    for &i in with.iter().filter(|i| **i < ends) {
        parts[i] = if i < states {
            last.next()
        } else {
            outputs.next()
        };
    }
    stored.extend(terms.iter().map(Tensor::id).zip(outputs));
    for (&i, slope) in with.iter().zip(&slopes).filter(|(i, _)| **i >= ends) {
        let sum = total(slope, body.steps, &stored)?;
        parts[i] = Some(sum.reshape(slope.shape())?);
    }
    Ok(parts)
}

/// The gradients of one step by the variables.
fn slopes(seeds: &[(Tensor, Tensor)], variables: &[&Tensor]) -> Result<Vec<Tensor>> {
    let slopes = backward(seeds, variables)?.into_iter().zip(variables);
    slopes.map(|(slope, x)| or_zero(slope, x)).collect()
}

fn or_zero(gradient: Option<Tensor>, x: &Tensor) -> Result<Tensor> {
    gradient.map_or_else(|| x.zeros_like(), Ok)
}

/// The gradient of a result in a step: what the state after it carries, and that of its row.
fn seed(state: Option<&Tensor>, row: Option<&Tensor>, stand: &Tensor) -> Result<Tensor> {
    match (state, row) {
        (Some(state), Some(row)) => state.add(row),
        (Some(one), None) | (None, Some(one)) => Ok(one.clone()),
        (None, None) => stand.zeros_like(),
    }
}

/// A state of a loop before each step, `[steps, ...]`.
fn before(y: &Tensor, body: &Arc<Loop>, state: usize) -> Result<Tensor> {
    let src = y.node().src();
    let first = src[state].unsqueeze(0)?;
    if body.steps == 1 {
        return Ok(first);
    }
    let result = &body.results[state];
    let same = body.results.iter().position(|r| r.id() == result.id());
    let shape = [&[body.steps], result.shape()].concat();
    let op = Op::Loop(body.clone(), LoopOutput::Rows(same.unwrap_or(state)));
    let sources: Vec<&Tensor> = src.iter().collect();
    let after = Tensor::make(y.engine(), op, &sources, &shape, result.dtype());
    match body.backward {
        true => Tensor::cat(&[&after.narrow(0, 1, body.steps - 1)?, &first], 0),
        false => Tensor::cat(&[&first, &after.narrow(0, 0, body.steps - 1)?], 0),
    }
}

/// How a sum over all steps comes out of the terms of each.
enum Sum<'a> {
    /// The sum over the source, moved in the same way.
    Moved(Tensor),
    /// Of the sums over two sources.
    Both(Tensor, Tensor),
    /// Of the elements of a node, over some axes as well.
    Over(Tensor, &'a [usize]),
}

impl Sum<'_> {
    fn of(t: &Tensor) -> Sum<'_> {
        let src = t.node().src();
        match &t.node().op {
            Op::Pad(_, bits) if *bits != 0 => Sum::Over(t.clone(), &[]),
            op if op.is_movement() => Sum::Moved(src[0].clone()),
            Op::Binary(Binary::Add) => Sum::Both(src[0].clone(), src[1].clone()),
            Op::Reduce(ReduceOp::Add, axes) if factors(&src[0]).is_some() => {
                Sum::Over(src[0].clone(), axes)
            }
            _ => Sum::Over(t.clone(), &[]),
        }
    }
}

/// Below what only moves elements.
fn base(t: &Tensor) -> Tensor {
    let mut t = t.clone();
    while t.node().op.is_movement()
        && let Some(source) = t.node().src().first().cloned()
    {
        t = source;
    }
    t
}

/// The two factors of a product that are smaller than it.
fn factors(t: &Tensor) -> Option<[Tensor; 2]> {
    let product = base(t);
    if !matches!(product.node().op, Op::Binary(Binary::Mul)) {
        return None;
    }
    let src = product.node().src();
    let [a, b] = [0, 1].map(|i| base(&src[i]));
    (a.numel() + b.numel() < t.numel()).then_some([a, b])
}

/// The nodes whose rows the sum over all steps is made of.
fn cut(t: &Tensor, found: &mut Vec<Tensor>) {
    match Sum::of(t) {
        Sum::Moved(from) => cut(&from, found),
        Sum::Both(a, b) => {
            cut(&a, found);
            cut(&b, found);
        }
        Sum::Over(t, _) => match factors(&t) {
            Some(factors) => found.extend(factors),
            None => found.push(t.clone()),
        },
    }
}

/// The sum of a node over all steps, `[1, ..]`, from the rows of the nodes below.
fn total(t: &Tensor, steps: usize, rows: &HashMap<u64, Tensor>) -> Result<Tensor> {
    match Sum::of(t) {
        Sum::Moved(from) => {
            let from = total(&from, steps, rows)?;
            let shape = [&[1], t.shape()].concat();
            let op = behind_an_axis(&t.node().op).unwrap_or(Op::Reshape);
            Ok(Tensor::make(t.engine(), op, &[&from], &shape, t.dtype()))
        }
        Sum::Both(a, b) => total(&a, steps, rows)?.add(&total(&b, steps, rows)?),
        Sum::Over(from, axes) => {
            let all = batched(std::slice::from_ref(&from), steps, rows.clone())?;
            let Some(all) = all.and_then(|mut all| all.pop()) else {
                return t.zeros_like();
            };
            let axes: Vec<usize> = [0].into_iter().chain(axes.iter().map(|a| a + 1)).collect();
            let wide = all.cast(all.dtype().accumulator())?;
            wide.reduce(ReduceOp::Add, &axes)?.cast(t.dtype())
        }
    }
}
