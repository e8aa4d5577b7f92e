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

mod capture;
mod freeze;
mod frozen;

use std::collections::HashMap;

use codegen::DType;

use crate::error::{Error, Result};
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Engine, Shape, Storage, Tensor};
use crate::param::Parameter;
use crate::schedule::Wanted;
use capture::{Capture, Output, foreign};
pub(crate) use freeze::constant;
pub use frozen::Frozen;

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
        let placeholders = placeholders(&self.engine, executor, signature)?;
        let guard = executor.capturing();
        let traced = (self.function)(&placeholders);
        drop(guard);
        let updates = self.updates();
        for parameter in &self.state {
            parameter.clear_pending();
        }
        let traced = traced?;
        let outputs: Vec<Output> = traced.iter().map(Output::of).collect();
        let full = full(&traced);
        let changed = updates.iter().filter(|(t, _)| t.numel() > 0);
        let changed = changed.map(|(target, value)| Wanted {
            value: value.clone(),
            into: Some(target.clone()),
        });
        let wanted: Vec<Wanted> = full.into_iter().chain(changed).collect();
        for want in &wanted {
            foreign(&want.value, &self.engine)?;
        }
        Capture::encode(executor, &placeholders, &wanted, outputs, false)
    }
}

fn capture(what: String) -> Error {
    Error::Capture { what }
}

/// Inputs to trace a function with.
fn placeholders(
    engine: &Engine,
    executor: &DeviceExecutor,
    signature: &[(Shape, DType)],
) -> Result<Vec<Tensor>> {
    let one = |(shape, dtype): &(Shape, DType)| {
        let bytes = shape.iter().product::<usize>() as u64 * dtype.size() as u64;
        let storage = Storage::Device(executor.alloc(bytes)?);
        Ok(Tensor::stored(engine, storage, shape, *dtype))
    };
    signature.iter().map(one).collect()
}

/// The outputs that have elements, each in new memory.
fn full(outputs: &[Tensor]) -> Vec<Wanted> {
    let full = outputs.iter().filter(|t| t.numel() > 0);
    full.map(|t| Wanted {
        value: t.clone(),
        into: None,
    })
    .collect()
}
