//! Shapes and views: reshape, slice, concatenate, fill.

use codegen::DType;

use super::nn::attr_axis;
use crate::element::Scalar;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one, sizes};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{Array, HOST_ELEMENTS, MOST_STRINGS, Strings, Value, check_bytes};
use crate::ops::broadcast_shapes;
use crate::ops::movement::{PadMode, Slice};

pub(super) const OPS: Table = &[
    ("Concat", concat),
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("Dropout", super::random::dropout),
    ("Expand", expand),
    ("EyeLike", eye_like),
    ("Flatten", flatten),
    ("Identity", |c| one(c.value(0)?.clone())),
    ("Pad", pad),
    ("Range", range),
    ("Reshape", reshape),
    ("ReverseSequence", reverse_sequence),
    ("Shape", shape),
    ("Size", size),
    ("Slice", slice),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
];

/// Applies a movement to input 0: numbers of any type, as what they stand for does not matter, or
/// strings.
pub(super) fn movement(c: &mut Call, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
    let x = c.value(0)?.clone();
    one(moved(c, &x, f)?)
}

/// Applies a movement to a tensor or to strings.
pub(super) fn moved(
    c: &mut Call,
    x: &Value,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Value> {
    match x {
        Value::Tensor(array) => {
            let x = c.here(array)?;
            let (tensor, elem) = (f(&x.tensor)?, x.elem);
            Ok(Array { tensor, elem }.into())
        }
        Value::Strings(strings) => strings_moved(c, &[strings], |at| f(&at[0])).map(Value::Strings),
        other => wrong(format!("expected a tensor, found {}", other.kind())),
    }
}

/// Applies a movement to strings: `f` moves their positions, which are numbered through all parts
/// and known. What else goes into it must be known too, see [`Eval::known`](super::super::eval::Eval::known).
pub(super) fn strings_moved(
    c: &mut Call,
    parts: &[&Strings],
    f: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<Strings> {
    let mut positions = Vec::with_capacity(parts.len());
    let mut items: Vec<&String> = Vec::new();
    for part in parts {
        let first = items.len();
        items.extend(part.items.iter());
        let numbers: Vec<i64> = (first as i64..items.len() as i64).collect();
        positions.push(c.eval.known_ints(&numbers, &part.shape)?);
    }
    let to = f(&positions)?;
    if to
        .shape()
        .iter()
        .fold(1, |n: usize, &d| n.saturating_mul(d))
        > MOST_STRINGS
    {
        return wrong(format!(
            "expected at most {MOST_STRINGS} strings, found {:?}",
            to.shape()
        ));
    }
    let picked = c.read_ints(&to)?.into_iter().map(|at| {
        let item = usize::try_from(at).ok().and_then(|at| items.get(at));
        item.copied()
    });
    let Some(picked) = picked.collect::<Option<Vec<&String>>>() else {
        return wrong("string index out of range");
    };
    check_bytes(picked.iter().map(|s| s.len()))?;
    Ok(Strings {
        shape: to.shape().to_vec(),
        items: picked.into_iter().cloned().collect(),
    })
}

/// Tensors of one type, or strings, one after the other along an axis, or along a new one.
pub(super) fn joined(c: &mut Call, parts: &[Value], along: usize, new: bool) -> Result<Value> {
    if let Some(Value::Strings(_)) = parts.first() {
        let strings = parts.iter().map(|part| match part {
            Value::Strings(strings) => Ok(strings),
            other => wrong(format!("expected strings, found {}", other.kind())),
        });
        let strings: Vec<&Strings> = strings.collect::<Result<_>>()?;
        let joined = strings_moved(c, &strings, |parts| join(parts, along, new));
        return joined.map(Value::Strings);
    }
    // What is known stays known, also among the results of a loop.
    let mut tensors = Vec::new();
    parts.iter().for_each(|part| part.tensors(&mut tensors));
    let size = tensors
        .iter()
        .fold(0usize, |n, t| n.saturating_add(t.numel()));
    let known = tensors.iter().all(|t| c.is_known(t)) && size <= HOST_ELEMENTS;
    let mut arrays = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Value::Tensor(array) if known => arrays.push(array.clone()),
            Value::Tensor(array) => arrays.push(c.here(array)?),
            other => return wrong(format!("expected a tensor, found {}", other.kind())),
        }
    }
    let Some(elem) = arrays.first().map(|first| first.elem) else {
        return wrong("expected at least one tensor, found none");
    };
    if let Some(other) = arrays.iter().find(|a| a.elem != elem) {
        return wrong(format!(
            "expected tensors of one type, found {elem} and {}",
            other.elem
        ));
    }
    let parts: Vec<Tensor> = arrays.into_iter().map(|a| a.tensor).collect();
    let tensor = join(&parts, along, new)?;
    let joined = Array { tensor, elem }.into();
    if known {
        c.eval.finish(std::slice::from_ref(&joined))?;
    }
    Ok(joined)
}

/// Parts of one kernel; more are joined in groups, as each part costs every element.
const MOST_JOINED: usize = 16;

/// Tensors one after the other along an axis, or along a new one.
pub(super) fn join(parts: &[Tensor], along: usize, new: bool) -> Result<Tensor> {
    let at = along as isize;
    let mut parts = match new {
        true => parts
            .iter()
            .map(|p| p.unsqueeze(at))
            .collect::<crate::Result<Vec<_>>>()?,
        false => parts.to_vec(),
    };
    while parts.len() > MOST_JOINED {
        let groups = parts
            .chunks(MOST_JOINED)
            .map(|group| Tensor::cat(&group.iter().collect::<Vec<_>>(), at)?.contiguous());
        parts = groups.collect::<crate::Result<_>>()?;
    }
    Ok(Tensor::cat(&parts.iter().collect::<Vec<_>>(), at)?)
}

/// The shape of a tensor or of strings, input 0.
fn shape_of(c: &Call) -> Result<Vec<usize>> {
    match c.value(0)? {
        Value::Tensor(a) => Ok(a.tensor.shape().to_vec()),
        Value::Strings(s) => Ok(s.shape.clone()),
        other => wrong(format!("expected a tensor, found {}", other.kind())),
    }
}

/// Numbers that are known while the graph is built.
fn known(c: &Call, list: &[i64], shape: &[usize]) -> Result<Vec<Value>> {
    one(c.eval.known_ints(list, shape)?)
}

fn shape(c: &mut Call) -> Result<Vec<Value>> {
    let shape = shape_of(c)?;
    let rank = shape.len() as i64;
    let bound = |i: i64| (if i < 0 { i + rank } else { i }).clamp(0, rank) as usize;
    let start = bound(c.int_or("start", 0)?);
    let end = bound(c.int_or("end", rank)?);
    let dims: Vec<i64> = shape[start..end.max(start)]
        .iter()
        .map(|&d| d as i64)
        .collect();
    known(c, &dims, &[dims.len()])
}

fn size(c: &mut Call) -> Result<Vec<Value>> {
    let count: usize = shape_of(c)?.iter().product();
    known(c, &[count as i64], &[])
}

fn reshape(c: &mut Call) -> Result<Vec<Value>> {
    let wanted = match c.attr_ints("shape")? {
        Some(wanted) if c.opset() < 5 => wanted,
        _ => c.ints(1)?,
    };
    let from = shape_of(c)?;
    let zero = c.int_or("allowzero", 0)? != 0;
    let to = reshaped(&from, &wanted, zero)?;
    if let Value::Strings(s) = c.value(0)? {
        return one(Strings {
            shape: to,
            items: s.items.clone(),
        });
    }
    movement(c, |x| Ok(x.reshape(&to)?))
}

/// The sizes that a list with at most one -1 stands for; 0 keeps a size unless `zero` says that it
/// means 0.
pub(super) fn reshaped(from: &[usize], wanted: &[i64], zero: bool) -> Result<Vec<usize>> {
    let bad = || wrong(format!("cannot reshape {from:?} to {wanted:?}"));
    let mut to = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, &n) in wanted.iter().enumerate() {
        to.push(match n {
            0 if !zero => match from.get(i) {
                Some(&n) => n,
                None => return bad(),
            },
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            n => match usize::try_from(n) {
                Ok(n) => n,
                Err(_) => return bad(),
            },
        });
    }
    let count: usize = from.iter().product();
    let known = to.iter().try_fold(1usize, |p, &n| p.checked_mul(n));
    match (open, known) {
        (Some(i), Some(known)) if known > 0 && count.is_multiple_of(known) => to[i] = count / known,
        (Some(i), Some(0)) if count == 0 => to[i] = 0,
        (None, Some(known)) if known == count => {}
        _ => return bad(),
    }
    Ok(to)
}

fn flatten(c: &mut Call) -> Result<Vec<Value>> {
    let from = shape_of(c)?;
    let at = match c.int_or("axis", 1)? {
        n if n == from.len() as i64 => from.len(),
        n => axis(n, from.len())?,
    };
    let to = [from[..at].iter().product(), from[at..].iter().product()];
    movement(c, |x| Ok(x.reshape(&to)?))
}

fn transpose(c: &mut Call) -> Result<Vec<Value>> {
    let rank = shape_of(c)?.len();
    let order: Vec<usize> = match c.attr_ints("perm")? {
        Some(order) => sizes(&order)?,
        None => (0..rank).rev().collect(),
    };
    movement(c, |x| Ok(x.permute(&order)?))
}

/// The axes of Squeeze and Unsqueeze: an attribute before version 13.
fn given_axes(c: &mut Call) -> Result<Option<Vec<i64>>> {
    match c.attr_ints("axes")? {
        Some(list) => Ok(Some(list)),
        None => c.opt_ints(1),
    }
}

fn squeeze(c: &mut Call) -> Result<Vec<Value>> {
    let from = shape_of(c)?;
    let gone: Vec<usize> = match given_axes(c)? {
        Some(list) => list
            .iter()
            .map(|&a| axis(a, from.len()))
            .collect::<Result<_>>()?,
        None => (0..from.len()).filter(|&a| from[a] == 1).collect(),
    };
    if let Some(&bad) = gone.iter().find(|&&a| from[a] != 1) {
        return wrong(format!(
            "expected axis {bad} of size 1 to squeeze, found {from:?}"
        ));
    }
    let kept = (0..from.len()).filter(|a| !gone.contains(a));
    let to: Vec<usize> = kept.map(|a| from[a]).collect();
    movement(c, |x| Ok(x.reshape(&to)?))
}

fn unsqueeze(c: &mut Call) -> Result<Vec<Value>> {
    let from = shape_of(c)?;
    let list = given_axes(c)?;
    let list = c.needed("axes", list)?;
    let rank = from.len() + list.len();
    let mut new = list
        .iter()
        .map(|&a| axis(a, rank))
        .collect::<Result<Vec<_>>>()?;
    new.sort_unstable();
    if new.windows(2).any(|p| p[0] == p[1]) {
        return wrong(format!("expected distinct axes, found {list:?}"));
    }
    let mut to = from;
    new.iter().for_each(|&a| to.insert(a, 1));
    movement(c, |x| Ok(x.reshape(&to)?))
}

fn expand(c: &mut Call) -> Result<Vec<Value>> {
    let wanted = sizes(&c.ints(1)?)?;
    let from = shape_of(c)?;
    let to = broadcast_shapes("Expand", &[&from, &wanted])?;
    movement(c, |x| Ok(x.expand(&to)?))
}

fn tile(c: &mut Call) -> Result<Vec<Value>> {
    let times = sizes(&c.ints(1)?)?;
    if c.opset() < 6 {
        // One axis, and how often.
        let x = c.tensor(0)?;
        let (times, at) = (c.int(1)?, axis(c.int(2)?, x.rank())?);
        let mut all = vec![1; x.rank()];
        all[at] = sizes(&[times])?[0];
        return one(x.repeat(&all)?);
    }
    let rank = shape_of(c)?.len();
    if times.len() != rank {
        return wrong(format!("expected {rank} repeats, found {times:?}"));
    }
    movement(c, |x| Ok(x.repeat(&times)?))
}

fn concat(c: &mut Call) -> Result<Vec<Value>> {
    let parts = (0..c.count()).map(|i| c.value(i).cloned());
    let parts: Vec<Value> = parts.collect::<Result<_>>()?;
    let at = match c.opset() < 4 {
        true => c.int_or("axis", 1)?,
        false => {
            let axis = c.attr_int("axis")?;
            c.needed("axis", axis)?
        }
    };
    let at = axis(at, shape_of(c)?.len())?;
    one(joined(c, &parts, at, false)?)
}

fn split(c: &mut Call) -> Result<Vec<Value>> {
    let from = shape_of(c)?;
    let at = attr_axis(c, "axis", 0, from.len())?;
    let size = from[at];
    let given = match c.attr_ints("split")? {
        Some(list) => Some(list),
        None => c.opt_ints(1)?,
    };
    let parts: Vec<usize> = match given {
        Some(list) => sizes(&list)?,
        None => {
            let count = match c.attr_int("num_outputs")? {
                Some(n) => usize::try_from(n).unwrap_or(0),
                None => c.outputs(),
            };
            if count == 0 || count > c.outputs() {
                return wrong(format!("expected {} parts, found {count}", c.outputs()));
            }
            // The last part is smaller if the size does not divide.
            let each = size.div_ceil(count);
            (0..count)
                .map(|i| size.saturating_sub(i * each).min(each))
                .collect()
        }
    };
    let x = c.value(0)?.clone();
    parted(c, &x, &parts, at)
}

/// A tensor or strings cut into parts along an axis.
pub(super) fn parted(c: &mut Call, x: &Value, parts: &[usize], at: usize) -> Result<Vec<Value>> {
    let size = match x {
        Value::Tensor(a) => a.tensor.shape().get(at).copied(),
        Value::Strings(s) => s.shape.get(at).copied(),
        _ => None,
    };
    if size != parts.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)) {
        return wrong(format!(
            "expected parts that add up to axis {at} of {}, found {parts:?}",
            x.kind()
        ));
    }
    let mut start = 0;
    let mut all = Vec::with_capacity(parts.len());
    for &n in parts {
        all.push(moved(c, x, |x| Ok(x.narrow(at as isize, start, n)?))?);
        start += n;
    }
    Ok(all)
}

/// Start, end and step of Slice; numbers out of range are clamped as the format says.
fn slice(c: &mut Call) -> Result<Vec<Value>> {
    let from = shape_of(c)?;
    let (starts, ends, along, steps) = match c.opset() < 10 {
        true => {
            let (starts, ends) = (c.attr_ints("starts")?, c.attr_ints("ends")?);
            let starts = c.needed("starts", starts)?;
            (starts, c.needed("ends", ends)?, c.attr_ints("axes")?, None)
        }
        false => (c.ints(1)?, c.ints(2)?, c.opt_ints(3)?, c.opt_ints(4)?),
    };
    let n = starts.len();
    let along = along.unwrap_or_else(|| (0..n as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; n]);
    if ends.len() != n || along.len() != n || steps.len() != n {
        return wrong(format!(
            "expected equal numbers of starts, ends, axes and steps, found {n}, {}, {} and {}",
            ends.len(),
            along.len(),
            steps.len()
        ));
    }
    let mut parts = vec![Slice::ALL; from.len()];
    for i in 0..n {
        let at = axis(along[i], from.len())?;
        if steps[i] == 0 {
            return wrong("expected steps other than 0");
        }
        // Going back, a start before the first element is the first one, other than in numpy.
        let mut start = starts[i];
        if steps[i] < 0 && start.saturating_add(from[at] as i64) < 0 {
            start = 0;
        }
        parts[at] = Slice {
            start: Some(start as isize),
            stop: Some(ends[i] as isize),
            step: steps[i] as isize,
        };
    }
    movement(c, |x| Ok(x.slice(&parts)?))
}

fn constant(c: &mut Call) -> Result<Vec<Value>> {
    if let Some(literal) = c.attr_tensor("value")? {
        return one(c.eval.constant(&literal));
    }
    if let Some(literal) = c.attr_tensor("sparse_value")? {
        return one(c.eval.constant(&literal));
    }
    if let Some(x) = c.attr_float("value_float")? {
        return one(Tensor::full(c.engine(), &[], x, DType::F32)?);
    }
    if let Some(list) = c.attr_floats("value_floats")? {
        let list: Vec<f32> = list.iter().map(|&x| x as f32).collect();
        return one(Tensor::from_slice(c.engine(), &list, &[list.len()])?);
    }
    if let Some(n) = c.attr_int("value_int")? {
        return known(c, &[n], &[]);
    }
    if let Some(list) = c.attr_ints("value_ints")? {
        return known(c, &list, &[list.len()]);
    }
    if let Some(text) = c.attr_str("value_string")? {
        return one(Strings {
            shape: vec![],
            items: [text.to_string()].into(),
        });
    }
    if let Some(list) = c.attr_strs("value_strings")? {
        return one(Strings {
            shape: vec![list.len()],
            items: list.into(),
        });
    }
    wrong("expected an attribute with a value, found none")
}

fn constant_of_shape(c: &mut Call) -> Result<Vec<Value>> {
    let to = sizes(&c.ints(0)?)?;
    let Some(literal) = c.attr_tensor("value")? else {
        return one(Tensor::zeros(c.engine(), &to, DType::F32)?);
    };
    let Value::Tensor(x) = c.constant(&literal) else {
        return unsupported("ConstantOfShape of STRING");
    };
    if x.tensor.numel() != 1 {
        return wrong(format!(
            "expected a value of one element, found {:?}",
            x.tensor.shape()
        ));
    }
    crate::ops::check_size("ConstantOfShape", &to, x.tensor.dtype())?;
    one(Array {
        tensor: x.tensor.reshape(&vec![1; to.len()])?.expand(&to)?,
        elem: x.elem,
    })
}

pub(super) fn range(c: &mut Call) -> Result<Vec<Value>> {
    let dtype = c.tensor(0)?.dtype();
    if dtype.is_float() {
        let of = |c: &mut Call, i: usize| -> Result<f64> {
            match c.floats(i)?[..] {
                [x] => Ok(x),
                _ => wrong(format!("expected one number as input {i}")),
            }
        };
        let (start, stop, step) = (of(c, 0)?, of(c, 1)?, of(c, 2)?);
        let scalar = Scalar::Float;
        let out = Tensor::arange(c.engine(), scalar(start), scalar(stop), scalar(step), dtype)?;
        return one(out);
    }
    let (start, stop, step) = (c.int(0)?, c.int(1)?, c.int(2)?);
    let scalar = Scalar::Int;
    let out = Tensor::arange(c.engine(), scalar(start), scalar(stop), scalar(step), dtype)?;
    one(out)
}

fn eye_like(c: &mut Call) -> Result<Vec<Value>> {
    let (x, k) = (c.array(0)?, c.int_or("k", 0)?);
    let dtype = match c.attr_dtype("dtype")? {
        Some(dtype) => dtype,
        None => x.tensor.dtype(),
    };
    let &[rows, columns] = x.tensor.shape() else {
        return wrong(format!("expected a matrix, found {:?}", x.tensor.shape()));
    };
    let row = Tensor::iota(c.engine(), rows, DType::I64)?.reshape(&[rows, 1])?;
    let column = Tensor::iota(c.engine(), columns, DType::I64)?.reshape(&[1, columns])?;
    one(column.sub(&row)?.eq(k)?.cast(dtype)?)
}

/// Before version 11 the amounts and the value are attributes.
pub(super) fn pad(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let mut value = Scalar::Float(0.0);
    let (amounts, mut along) = if c.opset() < 11 {
        let name = if c.opset() < 2 { "paddings" } else { "pads" };
        let amounts = c.attr_ints(name)?;
        value = Scalar::Float(c.float_or("value", 0.0)?);
        (c.needed(name, amounts)?, None)
    } else {
        (c.ints(1)?, c.opt_ints(3)?)
    };
    if !x.dtype().is_float() {
        value = Scalar::Int(0);
    }
    if c.opset() >= 11 && c.has(2) {
        value = match x.dtype() {
            d if d.is_float() => Scalar::Float(c.floats(2)?.first().copied().unwrap_or(0.0)),
            DType::Bool => Scalar::Bool(c.int(2)? != 0),
            _ => Scalar::Int(c.int(2)?),
        };
    }
    let along = along.get_or_insert_with(|| (0..x.rank() as i64).collect());
    if amounts.len() != 2 * along.len() {
        return wrong(format!(
            "expected {} amounts, found {amounts:?}",
            2 * along.len()
        ));
    }
    let mut all = vec![(0, 0); x.rank()];
    for (i, &a) in along.iter().enumerate() {
        let at = axis(a, x.rank())?;
        all[at] = (amounts[i] as isize, amounts[along.len() + i] as isize);
    }
    let mode = match c.str_or("mode", "constant")? {
        "constant" => PadMode::Constant(value),
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Replicate,
        "wrap" => PadMode::Circular,
        other => return c.bad_word("mode", &["constant", "reflect", "edge", "wrap"], other),
    };
    one(x.pad(&all, mode)?)
}

pub(super) fn trilu(c: &mut Call) -> Result<Vec<Value>> {
    let k = match c.has(1) {
        true => c.int(1)?,
        false => 0,
    };
    let x = c.tensor(0)?;
    one(match c.int_or("upper", 1)? != 0 {
        true => x.triu(k)?,
        false => x.tril(k)?,
    })
}

/// The first elements of each sequence, as many as its length says, in reverse.
fn reverse_sequence(c: &mut Call) -> Result<Vec<Value>> {
    let rank = shape_of(c)?.len();
    let lens = match c.value(0)? {
        Value::Strings(_) => {
            let lens = c.tensor(1)?;
            c.eval.known(&lens)?
        }
        _ => c.tensor(1)?,
    };
    let time = attr_axis(c, "time_axis", 0, rank)?;
    let batch = attr_axis(c, "batch_axis", 1, rank)?;
    let mut shape = vec![1; rank];
    shape[batch] = lens.numel();
    let lens = lens.cast(DType::I64)?.reshape(&shape)?;
    movement(c, |x| {
        let lens = lens.expand(x.shape())?;
        let at = x.positions(time as isize)?.cast(DType::I64)?;
        let turned = lens.sub(&at)?.sub(1)?;
        let from = at.lt(&lens)?.where_(&turned, &at)?;
        Ok(x.gather(time as isize, &from)?)
    })
}
