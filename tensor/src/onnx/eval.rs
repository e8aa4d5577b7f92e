//! Walks a graph once with values: tensors on the device stay lazy, so the walk builds one tensor
//! graph out of the model's.
//!
//! Values that are known while the graph is built (shapes, axes, small constants and what is computed
//! from them) live on the reference engine and are computed at once, on the host. That is the
//! constant folding of the importer, and it is what turns a shape computation into plain numbers. A
//! node whose inputs are all known runs there; any other runs on the device, and known inputs move
//! to it as constants.

use std::collections::{HashMap, HashSet};

use super::error::{Fault, OnnxError, Result, Why, wrong};
use super::graph::{Graph, Node};
use super::plans::is_guardable;
use super::subnormal;
use super::value::{HOST_ELEMENTS, Value, is_small};
use crate::graph::{Engine, Op, Tensor};
use crate::jit;
use crate::ops::random::Rng;
use crate::walk::below;

/// Elements of a value of a model, stored or not. No device counts through more in a day, and sizes
/// that are sums and products of such sizes do not overflow.
const MOST_ELEMENTS: usize = 1 << 40;

/// Bytes that are read to the host at once: positions, sizes, what is to be written out.
const MOST_READ: u64 = 1 << 30;

/// Bytes that the host may use while it computes known values; what needs more is the device's work.
pub(super) const HOST_BYTES: u64 = 64 << 20;

/// Iterations that one Loop or Scan may unroll to in a captured graph, and run in a plain one.
pub(super) const MOST_ITERATIONS: i64 = 1 << 20;

/// Iterations of one loop, and nodes of all subgraphs, that a captured graph is unrolled to. A model
/// with more is evaluated at every run: compiling it would take longer than it gains.
const MOST_UNROLLED: (i64, usize) = (1_000, 100_000);

/// Subgraphs within each other: each takes a part of the stack.
const MOST_NESTED: usize = 64;

/// Host tensors of an uncaptured loop whose copies are kept.
const MOST_COPIES: usize = 1 << 10;

/// Gives the values of the outputs of a node, from those of its inputs, on an engine.
pub(super) type Lower = fn(&mut Eval<'_>, &Node, &[Option<Value>], Engine) -> Result<Vec<Value>>;

/// Inputs whose values are unknown: numbers by the identities of their tensors.
pub(super) type Open = HashMap<u64, usize>;

/// One walk.
pub(super) struct Eval<'m> {
    /// What operators mean.
    lower: Lower,
    file: &'m str,
    host: Engine,
    engine: Engine,
    /// The value of each slot.
    values: Vec<Option<Value>>,
    /// Host tensors that were moved to the device.
    copies: HashMap<u64, (Tensor, Tensor)>,
    /// The result is to be captured: what is made of these inputs is unknown.
    capturing: Option<Open>,
    /// Where fresh random numbers come from.
    rng: &'m mut Option<Rng>,
    /// Subgraphs around the node, and how many of them are loops.
    nested: usize,
    looping: usize,
    /// Nodes of subgraphs that were evaluated.
    unrolled: usize,
    /// Loops around the node that are traced once: values of their bodies cannot be computed now.
    tracing: usize,
}

impl<'m> Eval<'m> {
    /// A walk over a model with `slots` values, some of them known already.
    pub(super) fn new(
        lower: Lower,
        file: &'m str,
        host: &Engine,
        engine: &Engine,
        values: Vec<Option<Value>>,
        capturing: Option<Open>,
        rng: &'m mut Option<Rng>,
    ) -> Eval<'m> {
        Eval {
            lower,
            file,
            host: host.clone(),
            engine: engine.clone(),
            values,
            copies: HashMap::new(),
            capturing,
            rng,
            nested: 0,
            looping: 0,
            unrolled: 0,
            tracing: 0,
        }
    }

    /// Evaluates the main graph, whose inputs are set; gives its outputs. `progress` hears how many
    /// of its nodes are done.
    pub(super) fn main(
        &mut self,
        graph: &Graph,
        mut progress: impl FnMut(usize),
    ) -> Result<Vec<Value>> {
        for (i, node) in graph.nodes.iter().enumerate() {
            self.node(node)?;
            progress(i + 1);
        }
        self.outputs(graph)
    }

    /// Evaluates the nodes of a subgraph whose inputs are set; gives its outputs.
    fn inner(&mut self, graph: &Graph) -> Result<Vec<Value>> {
        for node in &graph.nodes {
            self.node(node)?;
            self.unrolled += 1;
            if self.capturing.is_some() && self.unrolled > MOST_UNROLLED.1 {
                let nodes = MOST_UNROLLED.1;
                return Err(Why::Always(format!("it unrolls to more than {nodes} nodes")).into());
            }
        }
        self.outputs(graph)
    }

    fn outputs(&self, graph: &Graph) -> Result<Vec<Value>> {
        graph
            .outputs
            .iter()
            .map(|port| match self.values.get(port.slot as usize) {
                Some(Some(value)) => Ok(value.clone()),
                _ => wrong(format!(
                    "output {} has no value: its node omitted it",
                    crate::io::Quoted::new(&port.name)
                )),
            })
            .collect()
    }

    /// Evaluates a subgraph of a node.
    pub(super) fn subgraph(&mut self, graph: &Graph, inputs: &[Value]) -> Result<Vec<Value>> {
        if graph.inputs.len() != inputs.len() {
            return wrong(format!(
                "expected a subgraph with {} inputs, found {}",
                inputs.len(),
                graph.inputs.len()
            ));
        }
        for (port, value) in graph.inputs.iter().zip(inputs) {
            self.set(port.slot, value.clone());
        }
        if self.nested >= MOST_NESTED {
            return wrong(format!(
                "is nested more than {MOST_NESTED} subgraphs deep, the supported maximum"
            ));
        }
        self.nested += 1;
        let outputs = self.inner(graph);
        self.nested -= 1;
        outputs
    }

    /// Evaluates the body of a loop for the iteration `i`. A captured graph gets all iterations; an
    /// uncaptured one computes the results of each before the next one begins, so that neither the
    /// graph nor the kernels grow with their number.
    pub(super) fn iteration(
        &mut self,
        body: &Graph,
        i: i64,
        inputs: &[Value],
    ) -> Result<Vec<Value>> {
        self.may_iterate(i)?;
        if i == 0 {
            self.settle_outside(body)?;
        }
        self.looping += 1;
        let outputs = self.subgraph(body, inputs);
        self.looping -= 1;
        let outputs = outputs?;
        self.settle(&outputs)?;
        Ok(outputs)
    }

    /// Evaluates the body of a loop for all iterations at once: what its inputs are is not known.
    pub(super) fn traced(&mut self, body: &Graph, inputs: &[Value]) -> Result<Vec<Value>> {
        self.settle_outside(body)?;
        self.tracing += 1;
        self.looping += 1;
        let outputs = self.subgraph(body, inputs);
        self.looping -= 1;
        self.tracing -= 1;
        outputs
    }

    /// Whether values of the device are unknown: they are captured, or another one at each iteration.
    fn blind(&self) -> bool {
        self.capturing.is_some() || self.tracing > 0
    }

    /// Whether there may be an iteration `i`.
    pub(super) fn may_iterate(&self, i: i64) -> Result<()> {
        if i >= MOST_ITERATIONS {
            return wrong(format!(
                "expected at most {MOST_ITERATIONS} iterations, found more; does the loop end?"
            ));
        }
        match self.capturing.is_some() && i >= MOST_UNROLLED.0 {
            true => Err(Why::Always(format!("it has more than {i} iterations")).into()),
            false => Ok(()),
        }
    }

    /// Computes values unless the graph is captured.
    pub(super) fn settle(&mut self, values: &[Value]) -> Result<()> {
        if self.blind() {
            return Ok(());
        }
        if self.copies.len() > MOST_COPIES {
            self.copies.clear();
        }
        let mut tensors = Vec::new();
        values.iter().for_each(|v| v.tensors(&mut tensors));
        tensors.retain(|t| t.engine() == &self.engine && t.storage().is_none() && !is_uniform(t));
        Ok(self.engine.realize(&tensors)?)
    }

    /// Computes what a body uses from outside of it, which every iteration would compute again.
    fn settle_outside(&mut self, body: &Graph) -> Result<()> {
        let mut used = Vec::new();
        let mut graphs = vec![body];
        while let Some(graph) = graphs.pop() {
            used.extend(graph.outputs.iter().map(|port| port.slot));
            for node in &graph.nodes {
                used.extend(node.inputs.iter().flatten());
                graphs.extend(node.graphs().map(|g| &**g));
            }
        }
        let values = used.iter().map(|&s| self.values.get(s as usize).cloned());
        let values: Vec<Value> = values.flatten().flatten().collect();
        self.settle(&values)
    }

    pub(super) fn set(&mut self, slot: u32, value: Value) {
        if let Some(place) = self.values.get_mut(slot as usize) {
            *place = Some(value);
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let inputs: Vec<Option<Value>> = node
            .inputs
            .iter()
            .map(|slot| slot.and_then(|s| self.values.get(s as usize).cloned().flatten()))
            .collect();
        let outputs = self
            .lowered(node, &inputs)
            .map_err(|fault| self.at(node, fault))?;
        for (slot, value) in node.outputs.iter().zip(outputs) {
            if let Some(slot) = slot {
                self.set(*slot, value);
            }
        }
        Ok(())
    }

    fn lowered(&mut self, node: &Node, inputs: &[Option<Value>]) -> Result<Vec<Value>> {
        let mut tensors = Vec::new();
        inputs
            .iter()
            .flatten()
            .for_each(|v| v.tensors(&mut tensors));
        let known = tensors.iter().all(|t| t.engine() == &self.host);
        // What a subgraph reads from outside need not be known.
        let known = known && node.graphs().next().is_none();
        if known {
            let host = self.host.clone();
            let outputs = self.call(node, inputs, host)?;
            if self.fits(&outputs) {
                match self.finish(&outputs) {
                    Err(Fault::Engine(crate::Error::Memory { .. })) => {}
                    done => return done.map(|()| outputs),
                }
            }
        }
        let engine = self.engine.clone();
        self.call(node, inputs, engine)
    }

    fn call(
        &mut self,
        node: &Node,
        inputs: &[Option<Value>],
        engine: Engine,
    ) -> Result<Vec<Value>> {
        let outputs = (self.lower)(self, node, inputs, engine)?;
        if outputs.len()
            < node
                .outputs
                .iter()
                .rposition(Option::is_some)
                .map_or(0, |n| n + 1)
        {
            return wrong(format!(
                "expected at most {} outputs, found {}",
                outputs.len(),
                node.outputs.len()
            ));
        }
        let mut tensors = Vec::new();
        outputs.iter().for_each(|v| v.tensors(&mut tensors));
        if let Some(t) = tensors.iter().find(|t| t.numel() > MOST_ELEMENTS) {
            return wrong(format!(
                "returns shape {:?} with {} elements, more than the maximum of {MOST_ELEMENTS}; check \
                 its size inputs",
                t.shape(),
                t.numel()
            ));
        }
        Ok(outputs)
    }

    /// Whether values may be computed on the host.
    fn fits(&self, values: &[Value]) -> bool {
        let mut tensors = Vec::new();
        values.iter().for_each(|v| v.tensors(&mut tensors));
        tensors
            .iter()
            .all(|t| t.engine() != &self.host || t.numel() <= HOST_ELEMENTS)
    }

    /// Computes values on the host and drops the graphs behind them.
    pub(super) fn finish(&self, values: &[Value]) -> Result<()> {
        let mut tensors = Vec::new();
        values.iter().for_each(|v| v.tensors(&mut tensors));
        tensors.retain(|t| t.engine() == &self.host && !is_uniform(t));
        Ok(self.host.realize(&tensors)?)
    }

    /// A fault with the node that it is about.
    fn at(&self, node: &Node, fault: Fault) -> Fault {
        let error = |what: String| OnnxError::Node {
            file: self.file.into(),
            place: node.place.clone(),
            what,
        };
        match fault {
            Fault::Dynamic(mut dynamic) => {
                dynamic.place.get_or_insert_with(|| node.place.clone());
                Fault::Dynamic(dynamic)
            }
            Fault::Inner(_) => fault,
            // A device that fails, fails whatever the node is.
            Fault::Engine(e @ crate::Error::Device(_)) => Fault::Engine(e),
            Fault::Wrong(what) => Fault::Inner(error(what)),
            Fault::Engine(e) => Fault::Inner(error(e.to_string())),
            Fault::Unsupported(what) => Fault::Inner(OnnxError::Unsupported {
                file: self.file.into(),
                missing: vec![super::error::Missing {
                    what,
                    place: node.place.clone(),
                    count: 1,
                }],
            }),
        }
    }

    /// The same values on another engine.
    pub(super) fn moved(&mut self, tensor: &Tensor, to: &Engine) -> Result<Tensor> {
        if tensor.engine() == to {
            return Ok(tensor.clone());
        }
        if to == &self.host {
            // Only nodes with known inputs run on the host.
            return Ok(tensor.to(to)?);
        }
        if let Some((_, copy)) = self.copies.get(&tensor.id()) {
            return Ok(copy.clone());
        }
        let shape = tensor.shape();
        // A number that changes with the iterations is data: as a constant, each iteration would
        // need a kernel of its own.
        let varies = self.looping > 0 && !is_uniform(tensor);
        let value = if varies { None } else { one_value(tensor)? };
        let copy = match value {
            Some(bits) => Tensor::full_bits(to, shape, bits, tensor.dtype())?,
            None => Tensor::from_bytes(to, tensor.to_bytes()?, shape, tensor.dtype())?,
        };
        // The key is the address of the host tensor, which must not be used again.
        self.copies
            .insert(tensor.id(), (tensor.clone(), copy.clone()));
        Ok(copy)
    }

    /// Integers that are known while the graph is built.
    pub(super) fn known_ints(&self, list: &[i64], shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_slice(&self.host, list, shape)?)
    }

    /// A truth that is known while the graph is built.
    pub(super) fn known_bool(&self, truth: bool, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::full(
            &self.host,
            shape,
            truth,
            codegen::DType::Bool,
        )?)
    }

    /// A tensor on the host: waits for the device if it is there.
    pub(super) fn known(&mut self, tensor: &Tensor) -> Result<Tensor> {
        Ok(self.read(tensor)?.to(&self.host)?)
    }

    /// A constant of a node: known if it is small.
    pub(super) fn constant(&self, literal: &super::data::Literal) -> Value {
        constant(literal, &self.host, &self.engine)
    }

    /// Whether a tensor was computed while the graph is built.
    pub(super) fn is_known(&self, tensor: &Tensor) -> bool {
        tensor.engine() == &self.host
    }

    /// The inputs of unknown value that a tensor is made of; `None` if iterations have it anew.
    fn made_of(&self, tensor: &Tensor) -> Option<Vec<(usize, Tensor)>> {
        let all = below(std::slice::from_ref(tensor), |_| false);
        if all.iter().any(|t| matches!(t.node().op, Op::Param)) {
            return None;
        }
        let open = |t: Tensor| Some((*self.capturing.as_ref()?.get(&t.id())?, t));
        Some(all.into_iter().filter_map(open).collect())
    }

    /// Whether a number is another one at nearly every run or iteration. What is made of a few
    /// integers or truths alone is not: a graph for their value will be used again.
    pub(super) fn hangs_on_data(&self, tensor: &Tensor) -> bool {
        let choice = |t: &Tensor| !t.dtype().is_float() && is_guardable(t);
        !self.is_known(tensor)
            && self.blind()
            && match self.made_of(tensor) {
                Some(inputs) => inputs.iter().any(|(_, t)| !choice(t)),
                None => true,
            }
    }

    /// Identities of the tensors of all values so far.
    pub(super) fn identities(&self) -> HashSet<u64> {
        let mut tensors = Vec::new();
        let values = self.values.iter().flatten();
        values.for_each(|v| v.tensors(&mut tensors));
        tensors.into_iter().map(Tensor::id).collect()
    }

    /// A tensor whose elements may be read: they are known, or may be waited for.
    fn read(&mut self, tensor: &Tensor) -> Result<Tensor> {
        let bytes = tensor.numel() as u64 * tensor.dtype().size() as u64;
        if bytes > MOST_READ {
            return wrong(format!(
                "expected at most {MOST_READ} bytes of values that control it, found {bytes} in shape {:?}",
                tensor.shape()
            ));
        }
        if tensor.engine() == &self.host || !self.blind() {
            return Ok(tensor.clone());
        }
        let Some(inputs) = self.made_of(tensor) else {
            return Err(Why::Always("it needs a loop-carried value".into()).into());
        };
        if self.capturing.is_none() {
            return Ok(tensor.clone());
        }
        let mut inputs: Vec<usize> = inputs.into_iter().map(|(i, _)| i).collect();
        inputs.sort_unstable();
        if !inputs.is_empty() {
            let kind = Value::from(tensor.clone()).kind();
            return Err(Why::Value(kind, inputs).into());
        }
        // It is made of weights alone, and computed now.
        let bytes = jit::constant(tensor)?;
        Ok(Tensor::from_bytes(
            &self.host,
            bytes,
            tensor.shape(),
            tensor.dtype(),
        )?)
    }

    pub(super) fn read_ints(&mut self, tensor: &Tensor) -> Result<Vec<i64>> {
        let dtype = tensor.dtype();
        if dtype.is_float() {
            return wrong(format!("expected integers, found {dtype}"));
        }
        let bytes = self.read(tensor)?.to_bytes()?;
        let elements = bytes.chunks_exact(dtype.size());
        let numbers = elements.map(|e| {
            let bits = codegen::interp::scalar::read(dtype, e);
            match dtype {
                codegen::DType::Bool => i64::from(bits != 0),
                _ => codegen::interp::scalar::to_int(dtype, bits) as i64,
            }
        });
        Ok(numbers.collect())
    }

    pub(super) fn read_floats(&mut self, tensor: &Tensor) -> Result<Vec<f64>> {
        Ok(self.read(tensor)?.to_f64_vec()?)
    }

    /// Random numbers that differ from run to run.
    pub(super) fn fresh_rng(&mut self, engine: &Engine) -> Result<Rng> {
        if self.blind() {
            return Err(Why::Always("it draws random numbers without a seed".into()).into());
        }
        let seed = || {
            let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            time.map_or(0, |t| t.as_nanos() as u64)
        };
        let state = self.rng.get_or_insert_with(|| Rng::new(&self.host, seed()));
        let mut rng = state.fork()?;
        if engine != &self.host {
            // A fork of the host's numbers seeds those of the device.
            let bits = rng.bits(&[2])?.to_vec::<u32>()?;
            let seed = bits.iter().fold(0u64, |s, &b| s << 32 | u64::from(b));
            rng = Rng::new(engine, seed);
        }
        Ok(rng)
    }
}

/// A literal that fills a shape: nothing is gained by writing it out.
fn is_uniform(tensor: &Tensor) -> bool {
    let mut at = tensor.clone();
    while matches!(at.node().op, Op::Reshape | Op::Expand)
        && let Some(source) = at.node().src().first().cloned()
    {
        at = source;
    }
    matches!(at.node().op, Op::Const(_))
}

/// The bits of the element that all elements are, if that can be seen.
fn one_value(tensor: &Tensor) -> Result<Option<u64>> {
    let mut at = tensor.clone();
    while matches!(at.node().op, Op::Reshape | Op::Expand)
        && let Some(source) = at.node().src().first().cloned()
    {
        at = source;
    }
    if let Op::Const(bits) = at.node().op {
        return Ok(Some(bits));
    }
    if tensor.numel() != 1 {
        return Ok(None);
    }
    let bytes = tensor.to_bytes()?;
    Ok(Some(codegen::interp::scalar::read(tensor.dtype(), &bytes)))
}

/// The value of a constant: on the host if it is small, so that it is folded, else on the device.
pub(super) fn constant(literal: &super::data::Literal, host: &Engine, engine: &Engine) -> Value {
    let small = match literal {
        super::data::Literal::Strings { .. } => true,
        super::data::Literal::Array { elem, .. } => is_small(elem.held(), literal.numel()),
    };
    let flush = subnormal::are_zeros(engine);
    Value::constant(literal, if small { host } else { engine }, flush)
}
