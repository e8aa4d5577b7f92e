//! Bodies of loops that are traced once for all of their iterations.

use codegen::DType;

use super::shape::joined;
use crate::graph::Tensor;
use crate::loops::{Order, recur, stand};
use crate::onnx::call::Call;
use crate::onnx::elem::Elem;
use crate::onnx::error::{Fault, Result, Why, wrong};
use crate::onnx::graph::Graph;
use crate::onnx::types::Type;
use crate::onnx::value::{Array, Value};

/// Iterations up to which a loop is unrolled: what is next to each other may share a kernel.
const FEW: usize = 4;

/// Iterations whose commands are listed before the first one runs.
const MOST: usize = 1 << 14;

/// The shape of a number alone, as the body declares the input: some say that it is a list of one.
pub(super) fn alone(body: &Graph, input: usize) -> &'static [usize] {
    match body.inputs.get(input).map(|port| &port.ty) {
        Some(Type::Tensor(_, Some(dims))) if dims.len() == 1 => &[1],
        _ => &[],
    }
}

/// A body that is to be traced once for all of its iterations.
pub(super) struct Traced<'a> {
    pub(super) body: &'a Graph,
    pub(super) steps: usize,
    /// The first inputs are the number of the iteration and a condition, the first output is one.
    pub(super) numbered: bool,
    /// The condition counts.
    pub(super) conditional: bool,
    /// Outputs of each iteration.
    pub(super) scans: usize,
}

/// The iterations have to be evaluated one after the other.
fn differs() -> Fault {
    Why::Always("the loop body changes shape or structure between iterations".into()).into()
}

/// What is known of the iterations of a body while the graph is built.
struct Known {
    /// The values of each state, before the first iteration and after each, where they are known.
    states: Vec<Option<Vec<Value>>>,
    /// The values of each output, one per iteration.
    outputs: Vec<Option<Vec<Value>>>,
}

impl Traced<'_> {
    /// The states after all iterations, then what each has made, joined along a new first axis.
    /// `inputs` have the iterations as their first axis. `None` if the iterations differ in more than
    /// numbers, as far as can be seen: then they have to be evaluated one after the other.
    pub(super) fn run(
        &self,
        c: &mut Call,
        states: &[Value],
        inputs: &[Array],
        order: Order,
    ) -> Result<Option<Vec<Value>>> {
        let tensors = states.iter().all(|v| matches!(v, Value::Tensor(_)));
        if !(FEW + 1..=MOST).contains(&self.steps) || !tensors {
            return Ok(None);
        }
        // Whatever is wrong with the body is found again, and said, where its iterations are evaluated.
        let Ok(known) = self.known(c, states, inputs) else {
            return Ok(None);
        };
        if known
            .states
            .iter()
            .chain(&known.outputs)
            .all(Option::is_some)
        {
            return Ok(None);
        }
        Ok(self.looped(c, states, inputs, order, known).ok())
    }

    /// Runs the body once.
    fn once(
        &self,
        c: &mut Call,
        number: Value,
        states: &[Value],
        rows: &[Value],
    ) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        if self.numbered {
            values.push(number);
            values.push(c.eval.known_bool(true, alone(self.body, 1))?.into());
        }
        values.extend_from_slice(states);
        values.extend_from_slice(rows);
        let mut outputs = c.eval.traced(self.body, &values)?;
        if self.numbered && !outputs.is_empty() {
            let cond = outputs.remove(0);
            if self.conditional && !c.is_true(&cond) {
                return Err(differs());
            }
        }
        match outputs.len() == states.len() + self.scans {
            true => Ok(outputs),
            false => wrong("the loop body has the wrong number of outputs"),
        }
    }

    /// States and outputs that depend on nothing but what is known are evaluated on the host, so that
    /// they stay known behind the loop.
    fn known(&self, c: &mut Call, states: &[Value], inputs: &[Array]) -> Result<Known> {
        let stand = |c: &mut Call, array: &Array, shape: &[usize]| -> Result<Value> {
            let Array { tensor, elem } = c.here(array)?;
            let tensor = stand(&tensor, shape);
            Ok(Array { tensor, elem }.into())
        };
        let mut rows = Vec::new();
        for array in inputs {
            rows.push(stand(c, array, &array.tensor.shape()[1..])?);
        }
        let number = |c: &Call, i: usize| -> Result<Value> {
            Ok(c.eval.known_ints(&[i as i64], alone(self.body, 0))?.into())
        };
        let mut now = states.to_vec();
        let first = loop {
            let zero = number(c, 0)?;
            let outputs = self.once(c, zero, &now, &rows)?;
            let mut changed = false;
            for (value, next) in now.iter_mut().zip(&outputs) {
                if let Value::Tensor(array) = &*value
                    && c.knows(value)
                    && !c.knows(next)
                {
                    *value = stand(c, array, array.tensor.shape())?;
                    changed = true;
                }
            }
            if !changed {
                break outputs;
            }
        };
        let list = |values: &[Value]| -> Vec<Option<Vec<Value>>> {
            let known = values.iter().map(|v| c.knows(v).then(Vec::new));
            known.collect()
        };
        let mut known = Known {
            states: list(&now),
            outputs: list(&first[states.len()..]),
        };
        if known
            .states
            .iter()
            .chain(&known.outputs)
            .all(Option::is_none)
        {
            return Ok(known);
        }
        for i in 0..self.steps {
            c.eval.may_iterate(i as i64)?;
            let outputs = match i {
                0 => first.clone(),
                _ => {
                    let number = number(c, i)?;
                    self.once(c, number, &now, &rows)?
                }
            };
            let made = outputs[states.len()..].iter();
            for (list, value) in known.outputs.iter_mut().zip(made) {
                if let Some(list) = list {
                    list.push(value.clone());
                }
            }
            for ((list, now), next) in known.states.iter_mut().zip(&mut now).zip(outputs) {
                if let Some(list) = list {
                    list.push(std::mem::replace(now, next));
                }
            }
        }
        for (list, now) in known.states.iter_mut().zip(now) {
            if let Some(list) = list {
                list.push(now);
            }
        }
        Ok(known)
    }

    fn looped(
        &self,
        c: &mut Call,
        states: &[Value],
        inputs: &[Array],
        order: Order,
        known: Known,
    ) -> Result<Vec<Value>> {
        let (mut start, mut rows) = (Vec::new(), Vec::new());
        if self.numbered {
            let number = Tensor::iota(c.engine(), self.steps, DType::I64)?;
            let shape = [&[self.steps], alone(self.body, 0)].concat();
            let tensor = number.reshape(&shape)?;
            let elem = Elem::Plain(DType::I64);
            rows.push(Array { tensor, elem });
        }
        // Known states are rows that are there already.
        for (state, known) in states.iter().zip(&known.states) {
            let array = match known {
                Some(values) => joined(c, &values[..self.steps], 0, true)?,
                None => state.clone(),
            };
            let Value::Tensor(array) = array else {
                return Err(differs());
            };
            match known {
                Some(_) => rows.push(c.here(&array)?),
                None => start.push(c.here(&array)?),
            }
        }
        for array in inputs {
            rows.push(c.here(array)?);
        }
        let tensors = |list: &[Array]| list.iter().map(|a| a.tensor.clone()).collect::<Vec<_>>();
        let (first, all) = (tensors(&start), tensors(&rows));
        let (first, all): (Vec<&Tensor>, Vec<&Tensor>) =
            (first.iter().collect(), all.iter().collect());
        let mut elems: Vec<Elem> = Vec::new();
        let made = recur(self.steps, order, &first, &all, |state, row| {
            let like = |(tensor, array): (&Tensor, &Array)| -> Value {
                let (tensor, elem) = (tensor.clone(), array.elem);
                Array { tensor, elem }.into()
            };
            let mut state = state.iter().zip(&start).map(like);
            let mut row = row.iter().zip(&rows).map(like);
            let number = if self.numbered { row.next() } else { None };
            let number = number.unwrap_or(Value::Optional(None));
            let merged = known.states.iter().filter_map(|known| match known {
                Some(_) => row.next(),
                None => state.next(),
            });
            let merged: Vec<Value> = merged.collect();
            let rest: Vec<Value> = row.collect();
            let outputs = self.once(c, number, &merged, &rest)?;
            let (next, made) = outputs.split_at(states.len());
            let next = next
                .iter()
                .zip(&known.states)
                .filter(|(_, known)| known.is_none());
            let made = made
                .iter()
                .zip(&known.outputs)
                .filter(|(_, known)| known.is_none());
            let mut arrays = |values: Vec<&Value>| -> Result<Vec<Tensor>> {
                let mut list = Vec::new();
                for value in values {
                    let Value::Tensor(array) = value else {
                        return Err(differs());
                    };
                    elems.push(array.elem);
                    list.push(c.here(array)?.tensor);
                }
                Ok(list)
            };
            let next = arrays(next.map(|(v, _)| v).collect())?;
            let made = arrays(made.map(|(v, _)| v).collect())?;
            Ok::<_, Fault>((next, made))
        })?;
        let (before, after) = elems.split_at(start.len());
        if start.iter().zip(before).any(|(a, elem)| a.elem != *elem) {
            return Err(differs());
        }
        let array = |(tensor, &elem): (Tensor, &Elem)| Value::from(Array { tensor, elem });
        let mut last = made.last.into_iter().zip(before).map(array);
        let mut made = made.outputs.into_iter().zip(after).map(array);
        let mut results: Vec<Value> = Vec::new();
        for known in known.states {
            results.extend(match known {
                Some(mut values) => values.pop(),
                None => last.next(),
            });
        }
        for known in known.outputs {
            results.extend(match known {
                Some(values) => Some(joined(c, &values, 0, true)?),
                None => made.next(),
            });
        }
        Ok(results)
    }
}
