//! Captured functions with constant weights, such as a model.

use codegen::DType;

use super::capture::{Capture, Given, Output, Sources};
use super::tracing::{self, Kind as Tracing, Trace};
use super::{Signature, capture, freeze, full, placeholders, resolve};
use crate::error::Result;
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Engine, Shape, Tensor};
use crate::schedule::{OutputRequest, Schedule};
use crate::walk::replaced;

/// A pure function over constant weights, captured at once.
///
/// Every realized tensor that the function uses, except its inputs, is constant: everything that depends only on
/// constants is computed at capture, and weights are packed for the kernels. Intermediate data of this is not kept
/// in device memory. Later changes of a weight have no effect. Memory that others have, too ([`Tensor::is_shared`]), is no
/// constant: each call reads it.
pub struct Frozen {
    engine: Engine,
    signature: Signature,
    kind: Kind,
}

enum Kind {
    Commands(Box<Capture>),
    /// An engine without queues computes the graph at each call.
    Graph {
        inputs: Vec<Tensor>,
        outputs: Vec<Tensor>,
    },
}

impl Frozen {
    /// Traces the function over inputs of these shapes and types.
    ///
    /// # Errors
    /// What the function returns; [`crate::Error::Capture`] if it reads or realizes something;
    /// those of compiling and of the device.
    pub fn capture(
        engine: &Engine,
        signature: &[(Shape, DType)],
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Frozen> {
        let kind = match DeviceExecutor::of(engine) {
            Some(executor) => {
                let (inputs, traced) = traced(engine, signature, function)?;
                let constants = || freeze::constants(executor, &inputs, &traced);
                executor.ledger().packed(constants)?;
                let outputs = traced.iter().map(Output::of).collect();
                let own = |t: &Tensor| inputs.iter().any(|i| i.id() == t.id());
                let wanted = full(&traced).into_iter().map(|mut wanted| {
                    // An input that is returned as it is would have no buffer of its own.
                    if own(&wanted.value) {
                        wanted.value = wanted.value.contiguous()?;
                    }
                    Ok(wanted)
                });
                let wanted = wanted.collect::<Result<Vec<OutputRequest>>>()?;
                drop(traced);
                let given = Given {
                    inputs,
                    parameters: Vec::new(),
                    draws: Vec::new(),
                };
                let constant = Sources::Constant;
                let made = Capture::encode(executor, given, &wanted, outputs, constant)?;
                Kind::Commands(Box::new(made))
            }
            None => {
                let inputs = placeholders(engine, signature);
                let (_, outputs) = frozen(engine, &inputs, function)?;
                Kind::Graph { inputs, outputs }
            }
        };
        Ok(Frozen {
            engine: engine.clone(),
            signature: signature.to_vec(),
            kind,
        })
    }

    /// The schedule of a call, without compiling it: everything that depends on the inputs; the rest is computed as
    /// [`Frozen::capture`] does. Reads no input.
    ///
    /// # Errors
    /// As [`Frozen::capture`]; an engine without queues has no schedule.
    pub fn plan(
        engine: &Engine,
        signature: &[(Shape, DType)],
        function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Schedule> {
        let Some(executor) = DeviceExecutor::of(engine) else {
            return Err(capture(format!(
                "{} has no queues and schedules nothing",
                engine.name()
            )));
        };
        let (inputs, traced) = traced(engine, signature, function)?;
        freeze::constants(executor, &inputs, &traced)?;
        Ok(Schedule::new(&full(&traced), executor.limits()))
    }

    /// The outputs for these inputs, realized, in fresh memory.
    ///
    /// # Errors
    /// Inputs of another number, shape, type or engine than captured; the device's. [`crate::Error::Capture`]
    /// inside a function that is being captured.
    pub fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        if tracing::is_capturing() {
            return Err(capture(
                "a function with constant weights (a model, a Frozen) was called inside a function that \
                 is being captured: replays would skip it. Call it before, and pass its outputs as inputs"
                    .into(),
            ));
        }
        let fits = inputs.len() == self.signature.len()
            && inputs
                .iter()
                .zip(&self.signature)
                .all(|(t, (shape, dtype))| t.shape() == shape && t.dtype() == *dtype);
        if !fits || inputs.iter().any(|t| t.engine() != &self.engine) {
            return Err(capture(format!(
                "called with {inputs:?}, but captured for {:?} on {}; capture it again for these",
                self.signature,
                self.engine.name()
            )));
        }
        let refs: Vec<&Tensor> = inputs.iter().collect();
        self.engine.realize(&refs)?;
        match &self.kind {
            Kind::Commands(capture) => match DeviceExecutor::of(&self.engine) {
                Some(executor) => capture.call(executor, &self.engine, inputs),
                None => Err(super::capture(
                    "the engine differs from that of the capture".into(),
                )),
            },
            Kind::Graph {
                inputs: old,
                outputs,
            } => {
                let new = old
                    .iter()
                    .zip(inputs)
                    .map(|(old, new)| (old.id(), new.clone()));
                let outputs = replaced(outputs, new.collect());
                let refs: Vec<&Tensor> = outputs.iter().collect();
                self.engine.realize(&refs)?;
                Ok(outputs)
            }
        }
    }
}

/// Inputs, and what the function makes of them.
pub(super) fn traced(
    engine: &Engine,
    signature: &[(Shape, DType)],
    function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let inputs = placeholders(engine, signature);
    let (first, made) = frozen(engine, &inputs, function)?;
    // What is older is constant like the rest, of which `freeze` knows better what to compute now.
    resolve::older_copies(engine, &made, first)?;
    Ok((inputs, made))
}

/// What the function makes of the inputs while parameters are constants, and the number of the first tensor that it
/// made.
fn frozen(
    engine: &Engine,
    inputs: &[Tensor],
    function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(u64, Vec<Tensor>)> {
    if tracing::is_capturing() {
        return Err(capture(
            "a function with constant weights (a model, a Frozen) was captured inside another one; \
             capture it before"
                .into(),
        ));
    }
    let trace = Trace::begin(engine, Tracing::Freezing);
    let first = trace.first();
    let made = function(inputs);
    let made = trace.end().unless_kept(made)?;
    Ok((first, made))
}
