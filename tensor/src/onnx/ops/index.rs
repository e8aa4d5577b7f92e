//! Picking elements by number, and putting them back.
//!
//! Numbers that are known while the graph is built are checked against the axis; numbers on the
//! device are not read, there one out of range reads 0 and writes nothing, and is an error of the next
//! wait for results.

use codegen::DType;
use codegen::ir::ReduceOp;

use super::nn::attr_axis;
use crate::graph::{ScatterMode, Tensor};
use crate::onnx::call::{Call, Table, axis, one, sizes};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, Strings, Value};
use crate::ops::check_size;
use crate::ops::movement::Slice;

pub(super) const OPS: Table = &[
    ("Det", |c| one(c.tensor(0)?.det()?)),
    ("Einsum", einsum),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("OneHot", one_hot),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
];

/// The integers of input `i`, if reading them costs nothing.
pub(super) fn known_ints(c: &mut Call, i: usize) -> Result<Option<Vec<i64>>> {
    match c.value(i)?.as_tensor().cloned() {
        Some(tensor) if c.is_known(&tensor) => c.read_ints(&tensor).map(Some),
        _ => Ok(None),
    }
}

/// Known indexes must name elements of an axis; `i` is their input.
fn check_range(c: &mut Call, i: usize, size: usize) -> Result<()> {
    if let Some(list) = known_ints(c, i)? {
        positions(&list, size)?;
    }
    Ok(())
}

/// Positions in an axis of some size, of which negative numbers count from the end.
fn positions(list: &[i64], size: usize) -> Result<Vec<usize>> {
    let end = size as i64;
    list.iter()
        .map(|&i| match if i < 0 { i.saturating_add(end) } else { i } {
            at if (0..end).contains(&at) => Ok(at as usize),
            _ => wrong(format!("expected indexes in -{end}..{end}, found {i}")),
        })
        .collect()
}

/// Elements of an axis at known positions: a view where they are evenly spaced, else a gather.
pub(super) fn pick(x: &Tensor, along: usize, list: &[usize]) -> Result<Tensor> {
    let at = along as isize;
    let Some(&first) = list.first() else {
        return Ok(x.narrow(at, 0, 0)?);
    };
    let step = match list.get(1) {
        Some(&second) => second as isize - first as isize,
        None => 1,
    };
    let even = list
        .windows(2)
        .all(|p| p[1] as isize - p[0] as isize == step);
    if even && step == 0 {
        let mut shape = x.shape().to_vec();
        shape[along] = list.len();
        check_size("gather", &shape, x.dtype())?;
        return Ok(x.narrow(at, first, 1)?.expand(&shape)?);
    }
    if even {
        let mut parts = vec![Slice::ALL; x.rank()];
        let stop = first as isize + step * list.len() as isize;
        parts[along] = Slice {
            start: Some(first as isize),
            stop: (stop >= 0).then_some(stop),
            step,
        };
        return Ok(x.slice(&parts)?);
    }
    // Each element some times over: what enlarging by a whole factor asks for.
    let times = list.iter().take_while(|&&i| i == first).count();
    if times > 1 && list.len().is_multiple_of(times) {
        let mut runs = list.chunks_exact(times);
        if runs.all(|run| run.iter().all(|i| i == &run[0])) {
            let once: Vec<usize> = list.iter().copied().step_by(times).collect();
            return Ok(pick(x, along, &once)?.repeat_interleave(times, at)?);
        }
    }
    let list: Vec<i64> = list.iter().map(|&i| i as i64).collect();
    let index = Tensor::from_slice(x.engine(), &list, &[list.len()])?;
    Ok(x.index_select(at, &index)?)
}

/// The index takes the place of an axis. Shapes and token positions come with a constant index,
/// which is a view; rows of a table by an index on the device are a gather.
fn gather(c: &mut Call) -> Result<Vec<Value>> {
    if let Value::Strings(strings) = c.value(0)? {
        let strings = strings.clone();
        return gather_strings(c, &strings);
    }
    let x = c.array(0)?;
    let along = attr_axis(c, "axis", 0, x.tensor.rank())?;
    let Some(list) = known_ints(c, 1)? else {
        let index = c.tensor(1)?;
        return one(Array {
            tensor: x.tensor.index_select(along as isize, &index)?,
            elem: x.elem,
        });
    };
    let list = positions(&list, x.tensor.shape()[along])?;
    let index = c.tensor(1)?;
    let from = x.tensor.shape();
    let shape = [&from[..along], index.shape(), &from[along + 1..]].concat();
    check_size("Gather", &shape, x.tensor.dtype())?;
    one(Array {
        tensor: pick(&x.tensor, along, &list)?.reshape(&shape)?,
        elem: x.elem,
    })
}

fn gather_strings(c: &mut Call, x: &Strings) -> Result<Vec<Value>> {
    let along = attr_axis(c, "axis", 0, x.shape.len())?;
    let list = positions(&c.ints(1)?, x.shape[along])?;
    let index = c.tensor(1)?;
    let shape = [&x.shape[..along], index.shape(), &x.shape[along + 1..]].concat();
    check_size("Gather", &shape, DType::I64)?;
    let inner: usize = x.shape[along + 1..].iter().product();
    let block = x.shape[along] * inner;
    let outer: usize = x.shape[..along].iter().product();
    let rows = (0..outer).flat_map(|o| list.iter().map(move |i| o * block + i * inner));
    let items = rows.flat_map(|at| x.items[at..at + inner].iter().cloned());
    let items: Vec<String> = items.collect();
    one(Strings {
        shape,
        items: items.into(),
    })
}

fn gather_elements(c: &mut Call) -> Result<Vec<Value>> {
    let (x, index) = (c.array(0)?, c.tensor(1)?);
    let along = attr_axis(c, "axis", 0, x.tensor.rank())?;
    check_range(c, 1, x.tensor.shape()[along])?;
    one(Array {
        tensor: x.tensor.gather(along as isize, &index)?,
        elem: x.elem,
    })
}

/// Known coordinates, the last axis of input 1, must lie in the axes that they name.
fn check_coordinates(c: &mut Call, named: &[usize]) -> Result<()> {
    let depth = c.tensor(1)?.shape().last().copied().unwrap_or(0);
    if depth == 0 || depth > named.len() {
        return wrong(format!(
            "expected 1..={} coordinates in the last axis of the indices, found {depth}",
            named.len()
        ));
    }
    let list = known_ints(c, 1)?.unwrap_or_default();
    for tuple in list.chunks_exact(depth) {
        for (&i, &size) in tuple.iter().zip(named) {
            positions(&[i], size)?;
        }
    }
    Ok(())
}

pub(super) fn gather_nd(c: &mut Call) -> Result<Vec<Value>> {
    let (x, index) = (c.array(0)?, c.tensor(1)?);
    let batch = usize::try_from(c.int_or("batch_dims", 0)?).unwrap_or(usize::MAX);
    if batch >= x.tensor.rank().min(index.rank()) {
        return wrong(format!(
            "expected batch_dims below the rank of {:?} and of {:?}, found {batch}",
            x.tensor.shape(),
            index.shape()
        ));
    }
    check_coordinates(c, &x.tensor.shape()[batch..])?;
    one(Array {
        tensor: x.tensor.gather_nd(&index, batch)?,
        elem: x.elem,
    })
}

/// How what is written joins what is there.
fn reduction(c: &Call) -> Result<ScatterMode> {
    Ok(match c.str_or("reduction", "none")? {
        "none" => ScatterMode::Set,
        "add" => ScatterMode::Combine(ReduceOp::Add),
        "mul" => ScatterMode::Combine(ReduceOp::Mul),
        "max" => ScatterMode::Combine(ReduceOp::Max),
        "min" => ScatterMode::Combine(ReduceOp::Min),
        other => return c.bad_word("reduction", &["none", "add", "mul", "max", "min"], other),
    })
}

/// The base and the updates of a scatter, which are of one type; codes are only moved.
fn scattered(c: &mut Call, mode: ScatterMode) -> Result<(Array, Tensor)> {
    let (x, updates) = (c.array(0)?, c.array(2)?);
    if x.elem != updates.elem {
        return wrong(format!(
            "expected updates of type {}, found {}",
            x.elem, updates.elem
        ));
    }
    if mode != ScatterMode::Set && x.elem != x.tensor.dtype().into() {
        return unsupported(format!("{} with a reduction of {}", c.node.op, x.elem));
    }
    Ok((x, updates.tensor))
}

fn scatter_elements(c: &mut Call) -> Result<Vec<Value>> {
    let mode = reduction(c)?;
    let (x, updates) = scattered(c, mode)?;
    let index = c.tensor(1)?;
    let along = attr_axis(c, "axis", 0, x.tensor.rank())?;
    check_range(c, 1, x.tensor.shape()[along])?;
    one(Array {
        tensor: x.tensor.scatter(along as isize, &index, &updates, mode)?,
        elem: x.elem,
    })
}

fn scatter_nd(c: &mut Call) -> Result<Vec<Value>> {
    let mode = reduction(c)?;
    let (x, updates) = scattered(c, mode)?;
    let index = c.tensor(1)?;
    check_coordinates(c, x.tensor.shape())?;
    one(Array {
        tensor: x.tensor.scatter_nd(&index, &updates, mode)?,
        elem: x.elem,
    })
}

/// Writes a part into a cache along an axis, for each element of the batch at a place of its own.
fn tensor_scatter(c: &mut Call) -> Result<Vec<Value>> {
    let (cache, update) = (c.tensor(0)?, c.tensor(1)?);
    let along = attr_axis(c, "axis", -2, cache.rank())?;
    let (room, len) = (cache.shape()[along], update.shape().get(along).copied());
    let mut wanted = cache.shape().to_vec();
    wanted[along] = len.unwrap_or(0);
    if along == 0 || update.shape() != wanted || wanted[along] > room {
        return wrong(format!(
            "expected an update that fits {:?} but on axis {along}, which is not 0, found {:?}",
            cache.shape(),
            update.shape()
        ));
    }
    let (batch, len) = (wanted[0], wanted[along]);
    let mut places = Tensor::iota(c.engine(), len, DType::I64)?.reshape(&[1, len])?;
    if let Some(first) = c.optional(2)? {
        places = first.cast(DType::I64)?.reshape(&[batch, 1])?.add(&places)?;
    }
    match c.str_or("mode", "linear")? {
        "linear" => {}
        "circular" => places = places.modulo(room as i64)?,
        other => return c.bad_word("mode", &["linear", "circular"], other),
    }
    let mut line = vec![1; wanted.len()];
    (line[0], line[along]) = (places.shape()[0], len);
    let index = places.reshape(&line)?.expand(&wanted)?;
    one(cache.scatter(along as isize, &index, &update, ScatterMode::Set)?)
}

fn one_hot(c: &mut Call) -> Result<Vec<Value>> {
    let (index, values) = (c.tensor(0)?, c.tensor(2)?);
    let depth = match c.tensor(1)?.dtype().is_float() {
        true => c.floats(1)?.iter().map(|&d| d as i64).collect(),
        false => c.ints(1)?,
    };
    let depth = match sizes(&depth)?[..] {
        [depth] => depth,
        _ => return wrong(format!("expected a depth of one element, found {depth:?}")),
    };
    if values.shape() != [2] {
        return wrong(format!(
            "expected values of shape [2], found {:?}",
            values.shape()
        ));
    }
    let at = axis(c.int_or("axis", -1)?, index.rank() + 1)?;
    let mut shape = index.shape().to_vec();
    shape.insert(at, depth);
    check_size("OneHot", &shape, DType::I64)?;
    let mut index = index.cast(DType::I64)?;
    if c.opset() >= 11 {
        index = index.lt(0)?.where_(&index.add(depth as i64)?, &index)?;
    }
    let mut line = vec![1; shape.len()];
    line[at] = depth;
    let class = Tensor::iota(index.engine(), depth, DType::I64)?.reshape(&line)?;
    let hot = index.unsqueeze(at as isize)?.eq(&class)?;
    one(hot.where_(&values.index(0, 1)?, &values.index(0, 0)?)?)
}

fn einsum(c: &mut Call) -> Result<Vec<Value>> {
    let equation = c.attr_str("equation")?.map(str::to_string);
    let equation = c.needed("equation", equation)?;
    let operands = c.tensors(0)?;
    let operands: Vec<&Tensor> = operands.iter().collect();
    one(Tensor::einsum(&equation, &operands)?)
}
