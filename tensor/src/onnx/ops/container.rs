//! Sequences and optionals.

use std::sync::Arc;

use super::nn::attr_axis;
use super::shape::{joined, moved, parted};
use crate::onnx::call::{Call, Table, axis, one};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("ConcatFromSequence", concat),
    ("Optional", optional),
    ("OptionalGetElement", get),
    ("OptionalHasElement", has),
    ("SequenceAt", at),
    ("SequenceConstruct", construct),
    ("SequenceEmpty", |_| one(sequence(Vec::new()))),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", length),
    ("SequenceMap", map),
    ("SplitToSequence", split),
];

/// Values that a split may make.
const MOST_PARTS: usize = 1 << 20;

fn sequence(items: Vec<Value>) -> Value {
    Value::Sequence(Arc::new(items))
}

/// Whether two values may be in one sequence: numbers of one type, or strings. Sequences have no
/// sequences in them: a few that hold each other twice would be as many values as one likes.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => a.elem == b.elem,
        (Value::Strings(_), Value::Strings(_)) => true,
        _ => false,
    }
}

fn checked(items: Vec<Value>) -> Result<Vec<Value>> {
    let Some(first) = items.first() else {
        return Ok(items);
    };
    match items.iter().find(|item| !alike(first, item)) {
        None => Ok(items),
        Some(other) => wrong(format!(
            "expected tensors of one type in a sequence, found {} and {}",
            first.kind(),
            other.kind()
        )),
    }
}

fn construct(c: &mut Call) -> Result<Vec<Value>> {
    let items = (0..c.count()).map(|i| c.value(i).cloned());
    let items: Vec<Value> = items.collect::<Result<_>>()?;
    one(sequence(checked(items)?))
}

/// Input `i` as a position among `n`; negative ones count from the end.
fn position(c: &mut Call, i: usize, n: usize) -> Result<usize> {
    let given = c.int(i)?;
    let len = c.sequence(0)?.len() as i64;
    let found = if given < 0 {
        given.saturating_add(len)
    } else {
        given
    };
    match usize::try_from(found) {
        Ok(found) if found < n => Ok(found),
        _ => wrong(format!(
            "expected a position in a sequence of {len}, found {given}"
        )),
    }
}

fn at(c: &mut Call) -> Result<Vec<Value>> {
    let items = c.sequence(0)?.clone();
    let at = position(c, 1, items.len())?;
    one(items[at].clone())
}

fn insert(c: &mut Call) -> Result<Vec<Value>> {
    let mut items = c.sequence(0)?.to_vec();
    let item = c.value(1)?.clone();
    let at = match c.has(2) {
        true => position(c, 2, items.len() + 1)?,
        false => items.len(),
    };
    items.insert(at, item);
    one(sequence(checked(items)?))
}

fn erase(c: &mut Call) -> Result<Vec<Value>> {
    let mut items = c.sequence(0)?.to_vec();
    let at = match (c.has(1), items.len().checked_sub(1)) {
        (false, Some(last)) => last,
        _ => position(c, 1, items.len())?,
    };
    items.remove(at);
    one(sequence(items))
}

fn length(c: &mut Call) -> Result<Vec<Value>> {
    let len = c.sequence(0)?.len() as i64;
    one(c.eval.known_ints(&[len], &[])?)
}

/// Runs the body on the elements at each position; what is no sequence goes into each.
fn map(c: &mut Call) -> Result<Vec<Value>> {
    let body = c.graph("body")?;
    let len = c.sequence(0)?.len();
    let values = (0..c.count()).map(|i| c.value(i).cloned());
    let values: Vec<Value> = values.collect::<Result<_>>()?;
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
    for i in 0..len {
        let inputs = values.iter().map(|value| match value {
            Value::Sequence(items) => match items.get(i) {
                Some(item) if items.len() == len => Ok(item.clone()),
                _ => wrong(format!(
                    "expected sequences of {len} values, found {}",
                    items.len()
                )),
            },
            other => Ok(other.clone()),
        });
        let inputs: Vec<Value> = inputs.collect::<Result<_>>()?;
        let outputs = c.eval.iteration(&body, i as i64, &inputs)?;
        for (list, value) in made.iter_mut().zip(outputs) {
            list.push(value);
        }
    }
    made.into_iter()
        .map(|items| Ok(sequence(checked(items)?)))
        .collect()
}

fn rank(value: &Value) -> Result<usize> {
    match value {
        Value::Tensor(a) => Ok(a.tensor.rank()),
        Value::Strings(s) => Ok(s.shape.len()),
        other => wrong(format!("expected a tensor, found {}", other.kind())),
    }
}

/// Parts of one size, the last of which may be smaller, or of given sizes. Without either, parts of
/// size 1, whose axis may go.
fn split(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.value(0)?.clone();
    let at = attr_axis(c, "axis", 0, rank(&x)?)?;
    let size = match &x {
        Value::Tensor(a) => a.tensor.shape()[at],
        Value::Strings(s) => s.shape[at],
        _ => 0,
    };
    let bad = |n: &[i64]| wrong(format!("expected sizes of at least 0, found {n:?}"));
    let scalar = match c.has(1) {
        true => rank(c.value(1)?)? == 0,
        false => true,
    };
    let given = c.opt_ints(1)?;
    let each = match given.as_deref() {
        None => 1,
        Some(&[n]) if scalar => match usize::try_from(n) {
            Ok(n) if n > 0 => n,
            _ => return bad(&[n]),
        },
        Some(list) => {
            let parts: Option<Vec<usize>> = list.iter().map(|&n| usize::try_from(n).ok()).collect();
            return match parts {
                Some(parts) => one(sequence(parted(c, &x, &parts, at)?)),
                None => bad(list),
            };
        }
    };
    if size / each > MOST_PARTS {
        return wrong(format!(
            "expected at most {MOST_PARTS} parts, found {size} elements in parts of {each}"
        ));
    }
    let starts = (0..size).step_by(each);
    let parts: Vec<usize> = starts.map(|start| each.min(size - start)).collect();
    let mut items = parted(c, &x, &parts, at)?;
    if given.is_none() && c.int_or("keepdims", 1)? == 0 {
        for item in &mut items {
            *item = moved(c, item, |x| Ok(x.squeeze(&[at as isize])?))?;
        }
    }
    one(sequence(items))
}

fn concat(c: &mut Call) -> Result<Vec<Value>> {
    let items = c.sequence(0)?.clone();
    let Some(first) = items.first() else {
        return wrong("expected at least one tensor in the sequence, found none");
    };
    let new = c.int_or("new_axis", 0)? != 0;
    let at = c.attr_int("axis")?;
    let at = axis(c.needed("axis", at)?, rank(first)? + usize::from(new))?;
    one(joined(c, &items, at, new)?)
}

fn optional(c: &mut Call) -> Result<Vec<Value>> {
    one(Value::Optional(match c.has(0) {
        true => match c.value(0)? {
            Value::Optional(_) => return wrong("an optional must not contain an optional"),
            value => Some(Arc::new(value.clone())),
        },
        false => {
            let of = c.attr_type("type")?;
            c.needed("type", of)?;
            None
        }
    }))
}

fn has(c: &mut Call) -> Result<Vec<Value>> {
    let there = c.has(0) && !matches!(c.value(0)?, Value::Optional(None));
    one(c.eval.known_bool(there, &[])?)
}

fn get(c: &mut Call) -> Result<Vec<Value>> {
    one(match c.value(0)? {
        Value::Optional(Some(value)) => (**value).clone(),
        Value::Optional(None) => return wrong("expected an optional with a value, found none"),
        value => value.clone(),
    })
}
