//! Loops: subgraphs that run several times.
//!
//! A condition or a number of iterations that is known while the graph is built leaves no trace in
//! it: a loop is traced once, or unrolled where its iterations differ in more than numbers. What hangs on an input is read: the graph is then for the values of the input, or the model
//! runs uncaptured.

use super::shape::{joined, moved};
use super::traced::{Traced, alone};
use crate::graph::Tensor;
use crate::loops::Order;
use crate::onnx::call::{Call, Table, axis};
use crate::onnx::elem::Elem;
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::graph::Graph;
use crate::onnx::types::{Dim, Type};
use crate::onnx::value::{Array, Strings, Value};

pub(super) const OPS: Table = &[("Loop", repeat), ("Scan", scan)];

/// How many outputs of a body are not among the first `n`.
fn others(body: &Graph, n: usize) -> Result<usize> {
    match body.outputs.len().checked_sub(n) {
        Some(others) => Ok(others),
        None => wrong(format!(
            "expected a body with at least {n} outputs, found {}",
            body.outputs.len()
        )),
    }
}

fn repeat(c: &mut Call) -> Result<Vec<Value>> {
    let body = c.graph("body")?;
    let trips = if c.has(0) { Some(c.int(0)?) } else { None };
    // Without a condition, that of the body is ignored.
    let conditional = c.has(1);
    let mut cond: Value = match conditional {
        true => c.value(1)?.clone(),
        false => c.eval.known_bool(true, alone(&body, 1))?.into(),
    };
    let carried = (2..c.count()).map(|i| c.value(i).cloned());
    let mut carried: Vec<Value> = carried.collect::<Result<_>>()?;
    let n = carried.len();
    let scans = others(&body, 1 + n)?;
    if let Some(trips) = trips.and_then(|t| usize::try_from(t).ok())
        && (!conditional || c.is_true(&cond))
    {
        let body = Traced {
            body: &body,
            steps: trips,
            numbered: true,
            conditional,
            scans,
        };
        if let Some(made) = body.run(c, &carried, &[], Order::Forward)? {
            return Ok(made);
        }
    }
    let mut scans: Vec<Vec<Value>> = vec![Vec::new(); scans];
    let mut i = 0;
    while trips.is_none_or(|trips| i < trips) && (!conditional || c.truth(&cond)?) {
        let number = c.eval.known_ints(&[i], alone(&body, 0))?;
        let mut inputs = vec![number.into(), cond.clone()];
        inputs.append(&mut carried);
        let mut outputs = c.eval.iteration(&body, i, &inputs)?.into_iter();
        if let Some(next) = outputs.next()
            && conditional
        {
            cond = next;
        }
        carried = outputs.by_ref().take(n).collect();
        for (list, value) in scans.iter_mut().zip(outputs) {
            list.push(value);
        }
        i += 1;
    }
    for (k, list) in scans.iter().enumerate() {
        carried.push(match list.is_empty() {
            false => joined(c, list, 0, true)?,
            true => nothing(c, body.outputs.get(1 + n + k).map(|port| &port.ty), 0)?,
        });
    }
    Ok(carried)
}

/// No elements, of the type that a body declares for each; sizes that it does not declare are 0.
fn nothing(c: &Call, each: Option<&Type>, at: usize) -> Result<Value> {
    let around = |dims: &Option<Vec<Dim>>| {
        let dims = dims.iter().flatten().map(|dim| match dim {
            Dim::Fixed(n) => *n,
            _ => 0,
        });
        let mut shape: Vec<usize> = dims.collect();
        shape.insert(at.min(shape.len()), 0);
        shape
    };
    match each {
        Some(Type::Tensor(elem, dims)) => Ok(empty(c, *elem, &around(dims))?.into()),
        Some(Type::Strings(dims)) => Ok(Strings {
            shape: around(dims),
            items: [].into(),
        }
        .into()),
        _ => unsupported("a loop without iterations whose body declares no output type"),
    }
}

fn empty(c: &Call, elem: Elem, shape: &[usize]) -> Result<Array> {
    let tensor = Tensor::zeros(c.engine(), shape, elem.held())?;
    Ok(Array { tensor, elem })
}

/// The shape of a tensor or of strings.
fn shape_of(value: &Value) -> Result<&[usize]> {
    match value {
        Value::Tensor(a) => Ok(a.tensor.shape()),
        Value::Strings(s) => Ok(&s.shape),
        other => wrong(format!("expected a tensor, found {}", other.kind())),
    }
}

/// The element `i` of an axis. Where it is comes from memory, so that all iterations share a kernel.
fn element(c: &mut Call, value: &Value, at: usize, i: usize) -> Result<Value> {
    let (at, i) = (at as isize, i as i64);
    match value {
        Value::Tensor(Array { tensor, elem }) => {
            let index = Tensor::from_slice(tensor.engine(), &[i], &[])?;
            let (tensor, elem) = (tensor.index_select(at, &index)?, *elem);
            Ok(Array { tensor, elem }.into())
        }
        strings => moved(c, strings, |x| Ok(x.index(at, i as isize)?)),
    }
}

/// What a Scan does: directions and axes of inputs, then of outputs.
struct Scan {
    inputs: Vec<(bool, usize)>,
    outputs: Vec<(bool, i64)>,
    body: std::sync::Arc<Graph>,
}

fn scan(c: &mut Call) -> Result<Vec<Value>> {
    let body = c.graph("body")?;
    let old = c.opset() < 9;
    let first = usize::from(old);
    let count = c.attr_int("num_scan_inputs")?;
    let count = c.needed("num_scan_inputs", count)?;
    let values = (first..c.count()).map(|i| c.value(i).cloned());
    let values: Vec<Value> = values.collect::<Result<_>>()?;
    let n = usize::try_from(count)
        .ok()
        .filter(|&m| m > 0)
        .and_then(|m| values.len().checked_sub(m));
    let Some(n) = n else {
        return wrong(format!(
            "expected 1 to {} scan inputs, found {count}",
            values.len()
        ));
    };
    let (states, inputs) = values.split_at(n);
    let outputs = others(&body, n)?;
    let list = |name: &str, len: usize| -> Result<Vec<i64>> {
        match c.attr_ints(name)? {
            None => Ok(vec![0; len]),
            Some(list) if list.len() == len => Ok(list),
            Some(list) => wrong(format!(
                "expected {len} numbers as attribute {name}, found {list:?}"
            )),
        }
    };
    let turned = |list: Vec<i64>| list.into_iter().map(|d| d != 0);
    if old {
        let turned = turned(list("directions", inputs.len())?).map(|turned| (turned, 0));
        let scan = Scan {
            inputs: turned.collect(),
            outputs: vec![(false, 0); outputs],
            body,
        };
        return batched(c, &scan, states, inputs);
    }
    let axes = list("scan_input_axes", inputs.len())?;
    let axes = axes
        .iter()
        .zip(inputs)
        .map(|(&a, x)| axis(a, shape_of(x)?.len()));
    let axes: Vec<usize> = axes.collect::<Result<_>>()?;
    let ways = turned(list("scan_input_directions", inputs.len())?);
    let out_ways = turned(list("scan_output_directions", outputs)?);
    let scan = Scan {
        inputs: ways.zip(axes).collect(),
        outputs: out_ways.zip(list("scan_output_axes", outputs)?).collect(),
        body,
    };
    let mut len = None;
    for (x, &(_, at)) in inputs.iter().zip(&scan.inputs) {
        let size = shape_of(x)?[at];
        if *len.get_or_insert(size) != size {
            return wrong(format!(
                "expected scan inputs of one length, found {len:?} and {size}"
            ));
        }
    }
    scanned(c, &scan, states, inputs, len.unwrap_or(0), &mut 0)
}

impl Scan {
    /// The same as [`scanned`], with the body traced once; `None` if that cannot be.
    fn traced(
        &self,
        c: &mut Call,
        states: &[Value],
        inputs: &[Value],
        len: usize,
    ) -> Result<Option<Vec<Value>>> {
        let body = Traced {
            body: &self.body,
            steps: len,
            numbered: false,
            conditional: false,
            scans: self.outputs.len(),
        };
        // Rows stay where they are if all are read from the last one to the first.
        let back = self.inputs.iter().all(|&(turned, _)| turned);
        let order = if back {
            Order::Backward
        } else {
            Order::Forward
        };
        let mut rows = Vec::new();
        for (x, &(turned, at)) in inputs.iter().zip(&self.inputs) {
            let Value::Tensor(array) = x else {
                return Ok(None);
            };
            let Array { tensor, elem } = c.here(array)?;
            let tensor = tensor.move_axis(at as isize, 0)?;
            let tensor = if turned != back {
                tensor.flip(&[0])?
            } else {
                tensor
            };
            rows.push(Array { tensor, elem });
        }
        let Some(mut made) = body.run(c, states, &rows, order)? else {
            return Ok(None);
        };
        for (value, &(turned, at)) in made[states.len()..].iter_mut().zip(&self.outputs) {
            if let Value::Tensor(Array { tensor, .. }) = value {
                if turned != back {
                    *tensor = tensor.flip(&[0])?;
                }
                let at = axis(at, tensor.rank())?;
                *tensor = tensor.move_axis(0, at as isize)?;
            }
        }
        Ok(Some(made))
    }
}

/// The states after `len` elements, and what was made for each of them. `done` counts iterations.
fn scanned(
    c: &mut Call,
    scan: &Scan,
    states: &[Value],
    inputs: &[Value],
    len: usize,
    done: &mut i64,
) -> Result<Vec<Value>> {
    let n = states.len();
    if let Some(made) = scan.traced(c, states, inputs, len)? {
        *done += len as i64;
        return Ok(made);
    }
    let mut states = states.to_vec();
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); scan.outputs.len()];
    for i in 0..len {
        for (x, &(turned, at)) in inputs.iter().zip(&scan.inputs) {
            let i = if turned { len - 1 - i } else { i };
            states.push(element(c, x, at, i)?);
        }
        let outputs = c.eval.iteration(&scan.body, *done, &states)?;
        *done += 1;
        let mut outputs = outputs.into_iter();
        states = outputs.by_ref().take(n).collect();
        for (list, value) in made.iter_mut().zip(outputs) {
            list.push(value);
        }
    }
    for (k, (list, &(turned, at))) in made.iter_mut().zip(&scan.outputs).enumerate() {
        if turned {
            list.reverse();
        }
        states.push(match list.first() {
            Some(first) => {
                let at = axis(at, shape_of(first)?.len() + 1)?;
                joined(c, list, at, true)?
            }
            None => {
                let ty = scan.body.outputs.get(n + k).map(|port| &port.ty);
                let rank = match ty {
                    Some(Type::Tensor(_, Some(dims)) | Type::Strings(Some(dims))) => dims.len(),
                    _ => 0,
                };
                nothing(c, ty, axis(at, rank + 1)?)?
            }
        });
    }
    Ok(states)
}

/// Version 8: a batch in front, sequences of different lengths, axis 1 is scanned.
fn batched(c: &mut Call, scan: &Scan, states: &[Value], inputs: &[Value]) -> Result<Vec<Value>> {
    let lens = c.opt_ints(0)?;
    let Some(&[batch, most]) = inputs
        .first()
        .map(shape_of)
        .transpose()?
        .and_then(|s| s.get(..2))
    else {
        return wrong("expected scan inputs [batch, time, ..]");
    };
    let fits = inputs
        .iter()
        .all(|x| shape_of(x).is_ok_and(|s| s.get(..2) == Some(&[batch, most])));
    let fits = fits
        && states
            .iter()
            .all(|x| shape_of(x).is_ok_and(|s| s.first() == Some(&batch)));
    if !fits || batch == 0 {
        return wrong(format!(
            "expected a batch of {batch} in all inputs, and {most} elements to scan"
        ));
    }
    let lens = lens.unwrap_or_else(|| vec![most as i64; batch]);
    if lens.len() != batch || lens.iter().any(|&n| n < 1 || n > most as i64) {
        return wrong(format!(
            "expected {batch} lengths in 1..={most}, found {lens:?}"
        ));
    }
    let mut all: Vec<Vec<Value>> = Vec::new();
    let mut done = 0;
    for (b, &len) in lens.iter().enumerate() {
        let of = |c: &mut Call, list: &[Value], len: Option<usize>| -> Result<Vec<Value>> {
            list.iter()
                .map(|x| {
                    moved(c, x, |x| {
                        let one = x.index(0, b as isize)?;
                        Ok(match len {
                            Some(len) => one.narrow(0, 0, len)?,
                            None => one,
                        })
                    })
                })
                .collect()
        };
        let len = len as usize;
        let (mine, scans) = (of(c, states, None)?, of(c, inputs, Some(len))?);
        let mut made = scanned(c, scan, &mine, &scans, len, &mut done)?;
        for value in made.iter_mut().skip(states.len()) {
            if let Value::Tensor(a) = value {
                let mut amounts = vec![(0, 0); a.tensor.rank()];
                amounts[0].1 = (most - len) as isize;
                let zero = crate::ops::movement::PadMode::Constant(0.into());
                a.tensor = a.tensor.pad(&amounts, zero)?;
            }
        }
        all.push(made);
    }
    let count = all.first().map_or(0, Vec::len);
    (0..count)
        .map(|k| {
            let each: Vec<Value> = all.iter().filter_map(|made| made.get(k).cloned()).collect();
            joined(c, &each, 0, true)
        })
        .collect()
}
