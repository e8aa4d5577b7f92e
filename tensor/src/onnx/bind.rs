//! What a caller gives to a model: checked against what the model declares, and moved to the engine.
//!
//! Fixed sizes must match. Names of sizes are hints: exporters give one name (`?`, `None`) to unrelated sizes.
//! Different sizes of one name give one warning, and the nodes decide whether they fit.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::OnnxError;
use super::graph::{Port, Program, Slot};
use super::types::{Dim, Type};
use super::value::{Array, Value};
use crate::graph::Engine;
use crate::io::Quoted;

/// Names of sizes that were found to stand for several, which was said.
pub(super) type Hints = HashSet<String>;

/// Sizes by their names, with the inputs that they were first seen in.
type Sizes<'p> = Vec<(&'p str, usize, &'p str)>;

/// The value of each input, by slot.
///
/// # Errors
/// An input of a wrong name, shape or type, one that is given twice, or one that is missing.
pub(super) fn inputs<N: AsRef<str>, V: Into<Value>>(
    program: &Program,
    engine: &Engine,
    hints: &mut Hints,
    given: impl IntoIterator<Item = (N, V)>,
) -> Result<Vec<(Slot, Value)>, OnnxError> {
    let fault = |name: &str, what: String| OnnxError::Input {
        file: program.file.clone(),
        input: Quoted::new(name),
        what,
    };
    let graph = &program.graph;
    let ports = || graph.inputs.iter().chain(&graph.defaults);
    let mut bound: Vec<(Slot, Value)> = Vec::new();
    let mut sizes = Sizes::new();
    for (name, value) in given {
        let name = name.as_ref();
        let Some(port) = ports().find(|p| p.name == name) else {
            let known: Vec<String> = ports().map(|p| Quoted::new(&p.name).to_string()).collect();
            let known = match known.is_empty() {
                true => "none".into(),
                false => known.join(", "),
            };
            return Err(fault(
                name,
                format!("the model has no such input; inputs: {known}"),
            ));
        };
        if bound.iter().any(|(slot, _)| *slot == port.slot) {
            return Err(fault(name, "was passed twice".into()));
        }
        let value = value.into();
        let mut differ = |name: &str, text: String| {
            if !hints.contains(name) {
                hints.insert(name.into());
                tracing::warn!(
                    "{}: input {}: {text}",
                    program.file,
                    Quoted::new(&port.name)
                );
            }
        };
        check(&port.ty, &value, &mut sizes, &port.name, &mut differ)
            .map_err(|what| fault(name, what))?;
        let value = placed(value, engine).map_err(|e| program.engine_error(e))?;
        bound.push((port.slot, value));
    }
    for Port { name, slot, ty } in &graph.inputs {
        if bound.iter().any(|(s, _)| s == slot) {
            continue;
        }
        // An optional input that is not given is an empty one.
        match ty {
            Type::Optional(_) => bound.push((*slot, Value::Optional(None))),
            _ => return Err(fault(name, format!("expected {ty}, found no input"))),
        }
    }
    // One order for one set of inputs.
    bound.sort_by_key(|(slot, _)| *slot);
    Ok(bound)
}

fn placed(value: Value, engine: &Engine) -> crate::Result<Value> {
    Ok(match value {
        Value::Tensor(Array { tensor, elem }) => Array {
            tensor: tensor.to(engine)?,
            elem,
        }
        .into(),
        Value::Sequence(items) => {
            let items = items.iter().map(|v| placed(v.clone(), engine));
            Value::Sequence(Arc::new(items.collect::<crate::Result<_>>()?))
        }
        Value::Optional(Some(value)) => {
            Value::Optional(Some(Arc::new(placed((*value).clone(), engine)?)))
        }
        other => other,
    })
}

/// Checks a value against a declared type. `differ` is told a name of several sizes, in words.
fn check<'p>(
    ty: &'p Type,
    value: &Value,
    sizes: &mut Sizes<'p>,
    input: &'p str,
    differ: &mut impl FnMut(&str, String),
) -> Result<(), String> {
    let mismatch = || Err(format!("expected {ty}, found {}", value.kind()));
    let (dims, shape) = match (ty, value) {
        (Type::Other(_), _) => return Ok(()),
        (Type::Tensor(elem, dims), Value::Tensor(a)) if *elem == a.elem => (dims, a.tensor.shape()),
        (Type::Strings(dims), Value::Strings(s)) => (dims, &s.shape[..]),
        (Type::Sequence(of), Value::Sequence(items)) => {
            // Each item is alone: nothing says that the items are alike.
            return items
                .iter()
                .try_for_each(|item| check(of, item, &mut Sizes::new(), input, differ));
        }
        (Type::Optional(_), Value::Optional(None)) => return Ok(()),
        (Type::Optional(of), Value::Optional(Some(value))) => {
            return check(of, value, sizes, input, differ);
        }
        (Type::Optional(of), value) => return check(of, value, sizes, input, differ),
        _ => return mismatch(),
    };
    let Some(dims) = dims else { return Ok(()) };
    if dims.len() != shape.len() {
        return mismatch();
    }
    for (dim, &size) in dims.iter().zip(shape) {
        match dim {
            Dim::Fixed(n) if *n != size => return mismatch(),
            Dim::Named(name) => match sizes.iter().find(|(seen, ..)| seen == name) {
                None => sizes.push((name, size, input)),
                Some(&(_, first, of)) if first != size => differ(
                    name,
                    format!(
                        "size {size} for {}, but {first} in input {}; ignoring the name",
                        Quoted::new(name),
                        Quoted::new(of)
                    ),
                ),
                Some(_) => {}
            },
            _ => {}
        }
    }
    Ok(())
}
