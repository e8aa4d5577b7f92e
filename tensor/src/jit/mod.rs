//! Captured functions: traced once, replayed as prepared queues.
//!
//! The first call with inputs of certain shapes runs normally. The second traces the function into one graph of
//! commands, with open addresses of inputs, state and outputs. Later calls patch the addresses and launch it.
//!
//! # What a captured function is
//!
//! It computes outputs, and new values of [`Parameter`]s, from its inputs, parameters and random numbers.
//! What it uses is found by tracing:
//!
//! - A parameter that it reads has in each call the value of then, also one that was set or loaded in
//!   the meantime. A parameter that it sets has the new value after the call.
//! - A generator ([`crate::Rng`]) gives each call the numbers that it would give to a plain one.
//! - A tensor from outside is a value like any other: it stays what it is. Memory that others have, too
//!   ([`crate::blob`]), is read by each call.
//! - A captured function that is called inside another becomes a part of it.
//!
//! All other effects happen at the first two calls only. Those that can be detected are refused: reading or
//! realizing a tensor, and setting a parameter of another engine. Numbers computed in Rust (a learning rate as
//! `f64`, a counter) cannot be detected and keep their value at capture; make them an input or a parameter.
//!
//! Outputs are in fresh memory at every call and have no graph: take gradients inside the function. State is
//! updated in place if the old value is not shared, see [`crate::param`].
//!
//! # Threads
//!
//! Functions may be called from many threads at once. A replay never waits for the compiler; only calls that need
//! the same new capture wait for each other. A replay reads and sets its parameters atomically. A normal call,
//! including the first one of a captured function, does not: values that another thread sets in between are lost.

mod capture;
pub mod export;
mod freeze;
mod frozen;
mod half;
mod resolve;
pub(crate) mod tracing;

use hashbrown::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use codegen::DType;

use crate::error::{Error, Result};
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Engine, Op, Shape, Tensor};
use crate::no_grad;
use crate::param::{Parameter, commit, commit_with};
use crate::schedule::OutputRequest;
use capture::{Capture, Given, Output, Sources};
pub(crate) use freeze::constant;
pub use frozen::Frozen;
use hcq::sync::lock;
use tracing::{Kind, Trace};

/// Shapes and types of inputs.
type Signature = Vec<(Shape, DType)>;

/// What a capture is for: inputs, and whether it is one for calls in a [`no_grad`](crate::no_grad()).
type Case = (Signature, bool);

/// Captures that a function keeps; the one that was used least recently goes first.
const MOST_CAPTURES: usize = 64;

/// A function of tensors that is captured at its second call with inputs of certain shapes. Unsupported operations
/// are reported by that call, not by the first one.
///
/// Many threads may call it at once: each call has its own outputs, and replays read and set parameters atomically.
pub struct Jit<F> {
    engine: Engine,
    function: Mutex<F>,
    inputs: OnceLock<usize>,
    captures: Mutex<Captures>,
}

#[derive(Default)]
struct Captures {
    known: HashMap<Case, Known>,
    calls: u64,
}

struct Known {
    /// None: it was called once.
    capture: Option<Arc<Capture>>,
    used: u64,
}

/// What to do for inputs of some shapes.
enum Next {
    Plain,
    Capture,
    Replay(Arc<Capture>),
}

impl<F: FnMut(&[Tensor]) -> Result<Vec<Tensor>>> Jit<F> {
    /// A function over an engine.
    pub fn new(engine: &Engine, function: F) -> Jit<F> {
        Jit {
            engine: engine.clone(),
            function: Mutex::new(function),
            inputs: OnceLock::new(),
            captures: Mutex::default(),
        }
    }

    /// Number of captured graphs.
    pub fn captures(&self) -> usize {
        let captures = self.known();
        let known = captures.known.values();
        known.filter(|known| known.capture.is_some()).count()
    }

    /// Calls the function. The outputs are realized, the parameters that it sets have their new values.
    ///
    /// The first call with inputs of these shapes runs the function normally: if it fails halfway, parameters set
    /// so far stay set, as without a `Jit`. Later calls set all or nothing.
    ///
    /// # Errors
    /// An input of another engine, or another number of inputs than before; what the function
    /// returns; [`Error::Capture`] for what cannot be captured; the device's.
    pub fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        if let Some(&expected) = self.inputs.get()
            && expected != inputs.len()
        {
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
        // In the first call of another captured function it is a part of that, too: it has the same gradients.
        if tracing::is_capturing() || tracing::noting().as_ref() == Some(&self.engine) {
            return self.inlined(inputs);
        }
        let signature: Signature = inputs
            .iter()
            .map(|t| (t.shape().to_vec(), t.dtype()))
            .collect();
        let case = (signature, no_grad::is_on());
        let refs: Vec<&Tensor> = inputs.iter().collect();
        self.engine.realize(&refs)?;
        let engine = self.engine.clone();
        let Some(executor) = DeviceExecutor::of(&engine) else {
            // Without queues there is nothing to capture.
            let mut function = self.function()?;
            let outputs = self.plain(&mut function, inputs)?;
            self.inputs.get_or_init(|| inputs.len());
            return Ok(outputs);
        };
        if let Next::Replay(capture) = self.next(&case) {
            return capture.call(executor, &engine, inputs);
        }
        // Another thread may have captured it while this one waited.
        let mut function = self.function()?;
        match self.next(&case) {
            Next::Plain => {
                let outputs = self.plain(&mut function, inputs)?;
                self.learn(case, None);
                Ok(outputs)
            }
            Next::Capture => {
                let fresh = Arc::new(self.capture(&mut function, executor, &case.0)?);
                self.learn(case, Some(fresh.clone()));
                drop(function);
                fresh.call(executor, &engine, inputs)
            }
            Next::Replay(capture) => {
                drop(function);
                capture.call(executor, &engine, inputs)
            }
        }
    }

    /// The function; waits for a call of another thread that runs or traces it.
    fn function(&self) -> Result<MutexGuard<'_, F>> {
        if tracing::is_inside(self.address()) {
            return Err(capture(
                "a captured function calls itself; call the original function".into(),
            ));
        }
        if tracing::is_inside(tracing::A_MODEL) {
            return Err(capture(
                "a captured function was called from the progress report of a session that traces its \
                 model; call it when the report is Running"
                    .into(),
            ));
        }
        Ok(lock(&self.function))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.function).addr()
    }

    fn known(&self) -> MutexGuard<'_, Captures> {
        lock(&self.captures)
    }

    fn next(&self, case: &Case) -> Next {
        let mut captures = self.known();
        captures.calls += 1;
        let now = captures.calls;
        match captures.known.get_mut(case) {
            None => Next::Plain,
            Some(known) => {
                known.used = now;
                match &known.capture {
                    None => Next::Capture,
                    Some(capture) => Next::Replay(capture.clone()),
                }
            }
        }
    }

    fn learn(&self, case: Case, capture: Option<Arc<Capture>>) {
        self.inputs.get_or_init(|| case.0.len());
        let mut captures = self.known();
        let used = captures.calls;
        let known = Known { capture, used };
        let mut gone: Vec<Known> = captures.known.insert(case, known).into_iter().collect();
        if captures.known.len() > MOST_CAPTURES
            && let Some(oldest) = captures.known.values().map(|k| k.used).min()
        {
            let old = captures.known.extract_if(|_, known| known.used == oldest);
            gone.extend(old.map(|(_, known)| known));
        }
        // A graph that goes waits for its last run, for which others must not wait.
        drop(captures);
        drop(gone);
    }

    /// The function as a part of the one that is being captured.
    fn inlined(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let around = tracing::capturing().or_else(tracing::noting);
        if around.as_ref() != Some(&self.engine) {
            return Err(capture(format!(
                "a captured function on {} was called inside another one, which is on another engine or \
                 has constant parameters: replays would skip it. Call it before, and pass its outputs \
                 as inputs",
                self.engine.name()
            )));
        }
        let mut function = self.function()?;
        let _inside = tracing::Inside::of(self.address());
        function(inputs)
    }

    /// The function, its outputs and the parameters that it sets, as they are.
    fn plain(&self, function: &mut F, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let trace = Trace::begin(&self.engine, Kind::Noting);
        // To the end: observers may call it while its lock is held.
        let _inside = tracing::Inside::of(self.address());
        let outputs = function(inputs);
        let used = trace.end().parameters.into_iter();
        let set: Vec<Parameter> = used.map(|used| used.parameter).collect();
        let own = |t: &Tensor| inputs.iter().any(|input| input.id() == t.id());
        // As a replay gives them: in memory of their own.
        let outputs = outputs?
            .into_iter()
            .map(|t| match t.is_shared() && !own(&t) {
                true => t.copied(),
                false => t,
            });
        let outputs: Vec<Tensor> = outputs.collect();
        for parameter in &set {
            let value = parameter.current();
            if value.is_shared() {
                parameter.set(value.copied())?;
            }
        }
        commit_with(&outputs, &set, &[])?;
        // Without a graph, too, which would hold the state from before. An input that is returned is the caller's.
        let outputs = outputs.into_iter();
        Ok(outputs
            .map(|t| if own(&t) { t } else { t.as_output() })
            .collect())
    }

    fn capture(
        &self,
        function: &mut F,
        executor: &DeviceExecutor,
        signature: &Signature,
    ) -> Result<Capture> {
        let inputs = placeholders(&self.engine, signature);
        let trace = Trace::begin(&self.engine, Kind::Capturing);
        let _inside = tracing::Inside::of(self.address());
        let traced = function(&inputs);
        let first = trace.first();
        let uses = trace.end();
        let traced = uses.unless_kept(traced)?;
        let outputs: Vec<Output> = traced.iter().map(Output::of).collect();
        let new = uses.parameters.iter().filter_map(|used| used.new.as_ref());
        let roots: Vec<Tensor> = traced.iter().chain(new).cloned().collect();
        resolve::resolve(&self.engine, &roots, first)?;
        let mut wanted = full(&traced);
        for used in &uses.parameters {
            if let Some(new) = used.new.as_ref().filter(|new| new.numel() > 0) {
                wanted.push(OutputRequest {
                    value: new.clone(),
                    into: Some(used.given.clone()),
                });
            }
        }
        drop((traced, roots));
        let given = Given {
            inputs,
            parameters: uses.parameters,
            draws: uses.draws,
        };
        Capture::encode(executor, given, &wanted, outputs, Sources::Vary)
    }
}

fn capture(what: String) -> Error {
    Error::Capture { what }
}

/// Inputs to trace a function with.
fn placeholders(engine: &Engine, signature: &[(Shape, DType)]) -> Vec<Tensor> {
    let given = signature.iter();
    given
        .map(|(shape, dtype)| Tensor::make(engine, Op::Given, &[], shape, *dtype))
        .collect()
}

/// The outputs that have elements, each in new memory.
fn full(outputs: &[Tensor]) -> Vec<OutputRequest> {
    let full = outputs.iter().filter(|t| t.numel() > 0);
    full.map(|t| OutputRequest {
        value: t.clone(),
        into: None,
    })
    .collect()
}

/// Computes what parameters wait for, if any do.
fn settle<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> Result<()> {
    let waiting: Vec<Parameter> = parameters.filter(|p| p.waits()).cloned().collect();
    match waiting.is_empty() {
        true => Ok(()),
        false => commit(&waiting),
    }
}
