//! One node being evaluated: what its lowering sees.

use std::sync::Arc;

use codegen::DType;

use super::data::Literal;
use super::elem::Elem;
use super::error::{Fault, Result, unsupported, wrong};
use super::eval::Eval;
use super::graph::{Attr, Graph, Node};
use super::types::Type;
use super::value::{Array, Strings, Value};
use crate::graph::{Engine, Tensor};
use crate::io::Quoted;
use crate::ops::random::Rng;

/// The meaning of an operator.
pub(super) type Lowering = fn(&mut Call<'_, '_>) -> Result<Vec<Value>>;

/// Names of one domain, with meanings.
pub(super) type Table = &'static [(&'static str, Lowering)];

/// A node with the values of its inputs. A lowering asks for what it needs and gives the values of
/// the outputs; tensors that it makes belong to [`Call::engine`].
///
/// Nothing here is specific to one operator. Inputs and attributes of a wrong kind are errors that
/// name the position, what was expected and what was there.
pub(super) struct Call<'a, 'm> {
    pub(super) eval: &'a mut Eval<'m>,
    pub(super) node: &'a Node,
    pub(super) inputs: &'a [Option<Value>],
    pub(super) engine: Engine,
}

impl Call<'_, '_> {
    /// Where new tensors live.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The version of the operator set.
    pub(super) fn opset(&self) -> i64 {
        self.node.opset
    }

    /// Number of inputs, those left out in the middle included.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that the node names.
    pub(super) fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Whether somebody wants output `i`.
    pub(super) fn wants(&self, i: usize) -> bool {
        self.node.outputs.get(i).is_some_and(Option::is_some)
    }

    /// Whether input `i` is there.
    pub(super) fn has(&self, i: usize) -> bool {
        self.inputs.get(i).is_some_and(Option::is_some)
    }

    /// Input `i`, whatever it is.
    pub(super) fn value(&self, i: usize) -> Result<&Value> {
        match self.inputs.get(i) {
            Some(Some(value)) => Ok(value),
            _ => wrong(format!("expected an input {i}, found none")),
        }
    }

    /// Input `i` as numbers of any type, on the engine of the call.
    pub(super) fn array(&mut self, i: usize) -> Result<Array> {
        let Value::Tensor(array) = self.value(i)? else {
            let found = self.value(i)?.kind();
            return wrong(format!("expected a tensor as input {i}, found {found}"));
        };
        let array = array.clone();
        self.here(&array)
    }

    /// The array on the engine of the call.
    pub(super) fn here(&mut self, array: &Array) -> Result<Array> {
        Ok(Array {
            tensor: self.eval.moved(&array.tensor, &self.engine)?,
            elem: array.elem,
        })
    }

    /// Input `i` as a tensor, on the engine of the call.
    pub(super) fn tensor(&mut self, i: usize) -> Result<Tensor> {
        let array = self.array(i)?;
        match array.elem {
            Elem::Plain(_) => Ok(array.tensor),
            elem => unsupported(format!("{} on {elem}", self.node.op)),
        }
    }

    /// Input `i` as a tensor, if it is there.
    pub(super) fn optional(&mut self, i: usize) -> Result<Option<Tensor>> {
        match self.has(i) {
            true => self.tensor(i).map(Some),
            false => Ok(None),
        }
    }

    /// All inputs from `first` on as tensors; all must be there.
    pub(super) fn tensors(&mut self, first: usize) -> Result<Vec<Tensor>> {
        (first..self.count()).map(|i| self.tensor(i)).collect()
    }

    /// Input `i` as strings.
    pub(super) fn strings(&self, i: usize) -> Result<&Strings> {
        match self.value(i)? {
            Value::Strings(strings) => Ok(strings),
            other => wrong(format!(
                "expected strings as input {i}, found {}",
                other.kind()
            )),
        }
    }

    /// Input `i` as a sequence.
    pub(super) fn sequence(&self, i: usize) -> Result<&Arc<Vec<Value>>> {
        match self.value(i)? {
            Value::Sequence(items) => Ok(items),
            other => wrong(format!(
                "expected a sequence as input {i}, found {}",
                other.kind()
            )),
        }
    }

    /// The numbers of input `i`, row-major: waits for the device if they are there.
    pub(super) fn ints(&mut self, i: usize) -> Result<Vec<i64>> {
        let tensor = self.plain(i)?;
        self.read_ints(&tensor)
    }

    /// The numbers of input `i`, if it is there.
    pub(super) fn opt_ints(&mut self, i: usize) -> Result<Option<Vec<i64>>> {
        match self.has(i) {
            true => self.ints(i).map(Some),
            false => Ok(None),
        }
    }

    /// The one number of input `i`.
    pub(super) fn int(&mut self, i: usize) -> Result<i64> {
        match self.ints(i)?[..] {
            [one] => Ok(one),
            ref all => wrong(format!(
                "expected one number as input {i}, found {}",
                all.len()
            )),
        }
    }

    /// The numbers of input `i` as floats.
    pub(super) fn floats(&mut self, i: usize) -> Result<Vec<f64>> {
        let tensor = self.plain(i)?;
        self.eval.read_floats(&tensor)
    }

    /// The numbers of an integer tensor: waits for the device if they are there.
    pub(super) fn read_ints(&mut self, tensor: &Tensor) -> Result<Vec<i64>> {
        self.eval.read_ints(tensor)
    }

    /// The numbers of any tensor as floats: waits for the device if they are there.
    pub(super) fn read_floats(&mut self, tensor: &Tensor) -> Result<Vec<f64>> {
        self.eval.read_floats(tensor)
    }

    /// Whether reading a tensor costs nothing: it was computed while the graph is built.
    pub(super) fn is_known(&self, tensor: &Tensor) -> bool {
        self.eval.is_known(tensor)
    }

    /// Input `i` where it is.
    fn plain(&self, i: usize) -> Result<Tensor> {
        match self.value(i)? {
            Value::Tensor(Array {
                tensor,
                elem: Elem::Plain(_),
            }) => Ok(tensor.clone()),
            other => wrong(format!(
                "expected numbers as input {i}, found {}",
                other.kind()
            )),
        }
    }

    /// An attribute.
    pub(super) fn attr(&self, name: &str) -> Option<&Attr> {
        self.node.attrs.get(name)
    }

    fn mismatch<T>(&self, name: &str, wanted: &str, found: &Attr) -> Result<T> {
        wrong(format!(
            "expected {wanted} as attribute {name}, found {}",
            found.kind()
        ))
    }

    /// An integer attribute.
    pub(super) fn attr_int(&self, name: &str) -> Result<Option<i64>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Int(i)) => Ok(Some(*i)),
            Some(other) => self.mismatch(name, "an integer", other),
        }
    }

    /// An integer attribute, or what the format says if it is not there.
    pub(super) fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.attr_int(name)?.unwrap_or(default))
    }

    /// A number attribute.
    pub(super) fn attr_float(&self, name: &str) -> Result<Option<f64>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Float(x)) => Ok(Some(f64::from(*x))),
            Some(other) => self.mismatch(name, "a float", other),
        }
    }

    /// A number attribute, or what the format says if it is not there.
    pub(super) fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.attr_float(name)?.unwrap_or(default))
    }

    /// A list of integers.
    pub(super) fn attr_ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Ints(list)) => Ok(Some(list.clone())),
            Some(other) => self.mismatch(name, "integers", other),
        }
    }

    /// A list of floats.
    pub(super) fn attr_floats(&self, name: &str) -> Result<Option<Vec<f64>>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Floats(list)) => Ok(Some(list.iter().map(|&x| x.into()).collect())),
            Some(other) => self.mismatch(name, "floats", other),
        }
    }

    /// A string attribute.
    pub(super) fn attr_str(&self, name: &str) -> Result<Option<&str>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Str(text)) => Ok(Some(text)),
            Some(other) => self.mismatch(name, "a string", other),
        }
    }

    /// A string attribute, or what the format says if it is not there.
    pub(super) fn str_or<'s>(&'s self, name: &str, default: &'s str) -> Result<&'s str> {
        Ok(self.attr_str(name)?.unwrap_or(default))
    }

    /// A list of strings.
    pub(super) fn attr_strs(&self, name: &str) -> Result<Option<&[String]>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Strs(list)) => Ok(Some(list)),
            Some(other) => self.mismatch(name, "strings", other),
        }
    }

    /// A tensor attribute.
    pub(super) fn attr_tensor(&self, name: &str) -> Result<Option<Arc<Literal>>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Tensor(literal)) => Ok(Some(literal.clone())),
            Some(other) => self.mismatch(name, "a tensor", other),
        }
    }

    /// A type attribute.
    pub(super) fn attr_type(&self, name: &str) -> Result<Option<&Type>> {
        match self.attr(name) {
            None => Ok(None),
            Some(Attr::Type(ty)) => Ok(Some(ty)),
            Some(other) => self.mismatch(name, "a type", other),
        }
    }

    /// A graph attribute, which must be there.
    pub(super) fn graph(&self, name: &str) -> Result<Arc<Graph>> {
        match self.attr(name) {
            Some(Attr::Graph(graph)) => Ok(graph.clone()),
            Some(other) => self.mismatch(name, "a graph", other),
            None => wrong(format!("expected a graph as attribute {name}, found none")),
        }
    }

    /// An attribute that the format demands.
    pub(super) fn needed<T>(&self, name: &str, found: Option<T>) -> Result<T> {
        match found {
            Some(value) => Ok(value),
            None => wrong(format!("expected the attribute {name}, found none")),
        }
    }

    /// The element type that an integer attribute names.
    pub(super) fn attr_elem(&self, name: &str) -> Result<Option<Elem>> {
        match self.attr_int(name)? {
            None => Ok(None),
            Some(number) => elem(number).map(Some),
        }
    }

    /// The type of kernels that an integer attribute names.
    pub(super) fn attr_dtype(&self, name: &str) -> Result<Option<DType>> {
        match self.attr_elem(name)? {
            None => Ok(None),
            Some(Elem::Plain(dtype)) => Ok(Some(dtype)),
            Some(elem) => unsupported(format!("{} to {elem}", self.node.op)),
        }
    }

    /// One of the words that an attribute may be.
    pub(super) fn bad_word<T>(&self, name: &str, wanted: &[&str], found: &str) -> Result<T> {
        wrong(format!(
            "expected attribute {name} to be one of {}, found {}",
            wanted.join(", "),
            Quoted::new(found)
        ))
    }

    /// The value of a constant, on the engine of the call.
    pub(super) fn constant(&self, literal: &Literal) -> Value {
        Value::of(literal, &self.engine)
    }

    /// Random numbers: of a seed if the node has one; otherwise new ones at every run, so that the
    /// graph cannot be captured.
    pub(super) fn rng(&mut self) -> Result<Rng> {
        let seed = match self.attr("seed") {
            None => return self.eval.fresh_rng(&self.engine),
            Some(Attr::Int(seed)) => *seed as u64,
            Some(Attr::Float(seed)) => f64::from(*seed).to_bits(),
            Some(other) => return self.mismatch("seed", "a number", other),
        };
        Ok(Rng::new(&self.engine, seed))
    }

    /// Whether a value, a truth alone, is true: waits for the device if it is there.
    pub(super) fn truth(&mut self, value: &Value) -> Result<bool> {
        let Value::Tensor(Array { tensor, .. }) = value else {
            return wrong(format!("expected a condition, found {}", value.kind()));
        };
        match self.read_ints(tensor)?[..] {
            [truth] => Ok(truth != 0),
            ref all => wrong(format!("expected one condition, found {}", all.len())),
        }
    }

    /// What another operator makes of other inputs, with the attributes of this node and those given.
    pub(super) fn through(
        &mut self,
        lowering: Lowering,
        opset: i64,
        attrs: &[(&str, Attr)],
        inputs: &[Option<Value>],
    ) -> Result<Vec<Value>> {
        let mut node = self.node.clone();
        node.opset = opset;
        let attrs = attrs
            .iter()
            .map(|(name, attr)| (name.to_string(), attr.clone()));
        node.attrs.extend(attrs);
        lowering(&mut Call {
            eval: &mut *self.eval,
            node: &node,
            inputs,
            engine: self.engine.clone(),
        })
    }

    /// Whether a value is a tensor that was computed while the graph is built.
    pub(super) fn knows(&self, value: &Value) -> bool {
        matches!(value, Value::Tensor(a) if self.is_known(&a.tensor))
    }

    /// Whether a condition is known to hold.
    pub(super) fn is_true(&mut self, value: &Value) -> bool {
        self.knows(value) && self.truth(value).unwrap_or(false)
    }

    /// Runs a subgraph on the values of its inputs; gives the values of its outputs.
    pub(super) fn run(&mut self, graph: &Graph, inputs: &[Value]) -> Result<Vec<Value>> {
        self.eval.subgraph(graph, inputs)
    }
}

/// The element type of a number in an attribute.
pub(super) fn elem(number: i64) -> Result<Elem> {
    match Elem::from_number(number) {
        Some(elem) => Ok(elem),
        None if number == 0 => wrong("expected an element type, found UNDEFINED"),
        None => Err(Fault::Unsupported(super::elem::type_name(number))),
    }
}

/// The axis that a possibly negative number names.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    let found = if axis < 0 { axis + rank } else { axis };
    match (0..rank).contains(&found) {
        true => Ok(found as usize),
        false => wrong(format!("expected an axis in -{rank}..{rank}, found {axis}")),
    }
}

/// The axes that possibly negative numbers name, as the tensor library takes them.
pub(super) fn axes(list: &[i64], rank: usize) -> Result<Vec<isize>> {
    list.iter().map(|&a| Ok(axis(a, rank)? as isize)).collect()
}

/// Sizes, none of them negative.
pub(super) fn sizes(list: &[i64]) -> Result<Vec<usize>> {
    let sizes: Option<Vec<usize>> = list.iter().map(|&n| usize::try_from(n).ok()).collect();
    match sizes {
        Some(sizes) => Ok(sizes),
        None => wrong(format!("expected sizes of at least 0, found {list:?}")),
    }
}

/// The outputs of a node that has one.
pub(super) fn one(value: impl Into<Value>) -> Result<Vec<Value>> {
    Ok(vec![value.into()])
}
