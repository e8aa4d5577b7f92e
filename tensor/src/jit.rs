//! Captured functions: traced once, replayed as prepared queues.
//!
//! The first call with inputs of certain shapes runs plainly. The second traces the function over
//! placeholders, and turns everything that its outputs and its state updates need into one graph of
//! commands, with the addresses of inputs and outputs left open. From then on a call patches the
//! addresses and launches.
//!
//! The contract: a captured function computes its outputs and the new values of its *declared*
//! state from its inputs and state, and does nothing else. Reading or realizing a tensor inside of
//! it is an error, because a replay would not do it again. Values that the function takes from
//! elsewhere in Rust (a learning rate as `f64`) stay what they were at capture; make them inputs or
//! state. State is updated in place. Outputs are in fresh memory at every call: nothing that the
//! caller holds is ever overwritten.

use std::collections::HashMap;

use codegen::DType;
use hcq::graph::{Graph, GraphBuilder};
use hcq::{Buffer, Command, Slot, Val};

use crate::error::{Error, Result};
use crate::exec::engine::{DeviceExecutor, temporaries};
use crate::exec::submit;
use crate::graph::{Engine, Shape, Storage, Tensor};
use crate::param::Parameter;
use crate::schedule::{BufferId, Place, Wanted};

/// Shapes and types of inputs.
type Signature = Vec<(Shape, DType)>;

/// A function of tensors that is captured at its second call.
pub struct Jit<F> {
    engine: Engine,
    state: Vec<Parameter>,
    function: F,
    inputs: Option<usize>,
    captures: HashMap<Signature, Option<Capture>>,
}

/// What one signature was turned into.
struct Capture {
    graph: Graph,
    outputs: Vec<Output>,
    /// Address and memory of each state tensor; a change of address means a new capture.
    state: Vec<(Tensor, Buffer)>,
    /// What the commands name besides inputs and outputs.
    _keep: Vec<Buffer>,
    /// The timeline after the last replay.
    last: u64,
}

struct Output {
    shape: Shape,
    dtype: DType,
}

impl Output {
    fn bytes(&self) -> u64 {
        self.shape.iter().product::<usize>() as u64 * self.dtype.size() as u64
    }
}

impl<F: FnMut(&[Tensor]) -> Result<Vec<Tensor>>> Jit<F> {
    /// A function over an engine, with the state that it updates by [`Parameter::set`]. State that
    /// it only reads need not be declared.
    pub fn new(engine: &Engine, state: &[Parameter], function: F) -> Jit<F> {
        Jit {
            engine: engine.clone(),
            state: state.to_vec(),
            function,
            inputs: None,
            captures: HashMap::new(),
        }
    }

    /// Number of graphs that were captured so far.
    pub fn captures(&self) -> usize {
        self.captures.values().flatten().count()
    }

    /// Calls the function. The outputs are realized, the state is updated.
    ///
    /// # Errors
    /// An input of another engine, or another number of inputs than before; what the function
    /// returns; [`Error::Capture`] if it realizes something; the device's.
    pub fn call(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let expected = *self.inputs.get_or_insert(inputs.len());
        if expected != inputs.len() {
            return Err(capture(format!(
                "{} inputs given, the first call had {expected}",
                inputs.len()
            )));
        }
        for (i, input) in inputs.iter().enumerate() {
            if input.engine() != &self.engine {
                return Err(capture(format!(
                    "input {i} is on {}, the function is on {}; move it with `to`",
                    input.engine().name(),
                    self.engine.name()
                )));
            }
        }
        let signature: Signature = inputs
            .iter()
            .map(|t| (t.shape().to_vec(), t.dtype()))
            .collect();
        let refs: Vec<&Tensor> = inputs.iter().collect();
        self.engine.realize(&refs)?;
        // Initial values, and those set between calls, are no part of the function.
        let waits = |p: &Parameter| {
            let (stored, new) = p.pending();
            new.is_some() || stored.storage().is_none()
        };
        if self.state.iter().any(waits) {
            crate::param::commit(&self.state)?;
        }
        let engine = self.engine.clone();
        let Some(executor) = DeviceExecutor::of(&engine) else {
            // Without queues there is nothing to capture.
            return self.plain(inputs);
        };
        if !self.captures.contains_key(&signature) {
            let outputs = self.plain(inputs)?;
            self.captures.insert(signature, None);
            return Ok(outputs);
        }
        let stale = match self.captures.get(&signature) {
            Some(Some(known)) => known.state.iter().any(|(tensor, buffer)| {
                !matches!(tensor.storage(), Some(Storage::Device(b)) if b.va() == buffer.va())
            }),
            _ => true,
        };
        if stale {
            let fresh = self.capture(executor, &signature)?;
            self.captures.insert(signature.clone(), Some(fresh));
        }
        match self.captures.get_mut(&signature) {
            Some(Some(capture)) => capture.replay(executor, &self.engine, inputs),
            _ => Err(capture("the capture is gone".into())),
        }
    }

    /// The function, its outputs and its updates, as they are.
    fn plain(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let outputs = (self.function)(inputs)?;
        let updates = self.updates();
        match DeviceExecutor::of(&self.engine) {
            Some(executor) => {
                executor.realize_with(&outputs, &updates)?;
            }
            None => {
                let refs: Vec<&Tensor> = outputs.iter().collect();
                self.engine.realize(&refs)?;
                self.engine.assign(&updates)?;
            }
        }
        for parameter in &self.state {
            parameter.clear_pending();
        }
        Ok(outputs)
    }

    /// New values of the declared state, with the tensors that take them.
    fn updates(&self) -> Vec<(Tensor, Tensor)> {
        let pending = self.state.iter().map(Parameter::pending);
        pending
            .filter_map(|(stored, new)| new.map(|new| (stored, new)))
            .collect()
    }

    fn capture(&mut self, executor: &DeviceExecutor, signature: &Signature) -> Result<Capture> {
        let mut placeholders = Vec::with_capacity(signature.len());
        for (shape, dtype) in signature {
            let bytes = shape.iter().product::<usize>() as u64 * dtype.size() as u64;
            let storage = Storage::Device(executor.alloc(bytes)?);
            placeholders.push(Tensor::stored(&self.engine, storage, shape, *dtype));
        }
        let guard = executor.capturing();
        let traced = (self.function)(&placeholders);
        drop(guard);
        let updates = self.updates();
        for parameter in &self.state {
            parameter.clear_pending();
        }
        let traced = traced?;
        let outputs: Vec<Output> = traced
            .iter()
            .map(|t| Output {
                shape: t.shape().to_vec(),
                dtype: t.dtype(),
            })
            .collect();
        let full = traced.iter().filter(|t| t.numel() > 0).map(|t| Wanted {
            value: t.clone(),
            into: None,
        });
        let changed = updates.iter().filter(|(t, _)| t.numel() > 0);
        let changed = changed.map(|(target, value)| Wanted {
            value: value.clone(),
            into: Some(target.clone()),
        });
        let wanted: Vec<Wanted> = full.chain(changed).collect();
        for want in &wanted {
            foreign(&want.value, &self.engine)?;
        }
        self.encode(executor, &placeholders, &wanted, outputs)
    }

    fn encode(
        &self,
        executor: &DeviceExecutor,
        placeholders: &[Tensor],
        wanted: &[Wanted],
        outputs: Vec<Output>,
    ) -> Result<Capture> {
        let _turn = executor.turn();
        let prepared = executor.prepare(wanted)?;
        let schedule = &prepared.schedule;
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(executor.device(), executor.stream());
        let inputs: Vec<Slot> = placeholders
            .iter()
            .map(|_| builder.slot())
            .collect::<hcq::Result<_>>()?;
        let full = outputs.iter().filter(|o| o.bytes() > 0);
        let results: Vec<Slot> = full.map(|_| builder.slot()).collect::<hcq::Result<_>>()?;

        let arena = executor.alloc(schedule.plan.bytes)?;
        let scratch = executor.alloc(submit::scratch_bytes(&prepared.compiled))?;
        let places = temporaries(schedule, arena.va().0);
        let mut keep = vec![arena, scratch.clone()];
        let mut address: Vec<Val> = places.into_iter().map(Val::Const).collect();
        for (i, info) in schedule.buffers.iter().enumerate() {
            match &info.place {
                Place::Leaf(tensor) => {
                    let input = placeholders.iter().position(|p| p.id() == tensor.id());
                    match (input, &prepared.leaves[i]) {
                        (Some(input), _) => address[i] = Val::Slot(inputs[input], 0),
                        (None, Some(buffer)) => {
                            address[i] = Val::Const(buffer.va().0);
                            keep.push(buffer.clone());
                        }
                        (None, None) => {}
                    }
                }
                Place::Result(result) => address[i] = Val::Slot(results[*result], 0),
                Place::Temporary => {}
            }
        }
        let at = |b: BufferId| address[b.0 as usize];
        for item in submit::items(schedule, &prepared.compiled, &at, scratch.va().0)? {
            builder.add(lane, &item.name, item.node, item.reads, item.writes);
        }
        let graph = builder.profiled(executor.options().profile).build()?;
        let mut state = Vec::new();
        for target in wanted.iter().filter_map(|w| w.into.as_ref()) {
            state.push((target.clone(), executor.resident(target)?));
        }
        Ok(Capture {
            graph,
            outputs,
            state,
            _keep: keep,
            last: 0,
        })
    }
}

impl Capture {
    fn replay(
        &mut self,
        executor: &DeviceExecutor,
        engine: &Engine,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let _turn = executor.turn();
        let mut values = Vec::with_capacity(inputs.len() + self.outputs.len());
        let mut keep = Vec::with_capacity(inputs.len() + self.outputs.len());
        for input in inputs {
            let mut buffer = executor.resident(input)?;
            if self.state.iter().any(|(_, state)| overlap(state, &buffer)) {
                // The update would change the input while it is read.
                buffer = duplicate(executor, &buffer)?;
            }
            values.push(buffer.va().0);
            keep.push(buffer);
        }
        let mut results = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            let buffer = executor.alloc(output.bytes())?;
            if output.bytes() > 0 {
                values.push(buffer.va().0);
                keep.push(buffer.clone());
            }
            let storage = Storage::Device(buffer);
            results.push(Tensor::stored(engine, storage, &output.shape, output.dtype));
        }
        let before = executor.stream().last();
        let after = if before.value == self.last {
            vec![]
        } else {
            vec![before]
        };
        let points = self
            .graph
            .replay(&values, &after, executor.deadline())?
            .to_vec();
        for point in points {
            self.last = point.value;
            executor.keep(point, keep.clone())?;
        }
        if executor.options().profile {
            self.graph.wait(executor.deadline())?;
            executor.record(&self.graph.samples()?)?;
        }
        Ok(results)
    }
}

fn capture(what: String) -> Error {
    Error::Capture { what }
}

fn overlap(a: &Buffer, b: &Buffer) -> bool {
    let (x, y) = (a.va().0, b.va().0);
    x < y.saturating_add(b.bytes()) && y < x.saturating_add(a.bytes())
}

fn duplicate(executor: &DeviceExecutor, from: &Buffer) -> Result<Buffer> {
    let to = executor.alloc(from.bytes())?;
    let barrier = Command::Barrier {
        scope: hcq::Scope::Queue,
    };
    let copy = Command::Copy {
        dst: to.va().0.into(),
        src: from.va().0.into(),
        bytes: from.bytes(),
    };
    let point = executor.stream().submit(&[], &[barrier, copy])?;
    executor.keep(point, vec![from.clone(), to.clone()])?;
    Ok(to)
}

/// A copy from another engine cannot be in a graph of this one.
fn foreign(root: &Tensor, engine: &Engine) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    let mut pending = vec![root.clone()];
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor.id()) {
            continue;
        }
        if tensor.engine() != engine {
            return Err(capture(format!(
                "{tensor:?} is on {}; copy it before the call, and pass it as an input",
                tensor.engine().name()
            )));
        }
        if tensor.storage().is_some() {
            continue;
        }
        pending.extend(tensor.node().src.iter().cloned());
    }
    Ok(())
}
