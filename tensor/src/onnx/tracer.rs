//! From a model to a graph of tensors, or to values: node by node.

use std::sync::Arc;

use codegen::DType;

use super::error::{Dynamic, Fault, Location, OnnxError, Why};
use super::eval::{self, Eval};
use super::graph::{Program, Slot};
use super::ops;
use super::outputs::Outputs;
use super::plans::{Output, Signature, Specialised, is_guardable};
use super::progress::{Progress, Reports};
use super::value::{Array, Value};
use crate::graph::{Engine, Shape, Tensor};
use crate::io::Quoted;
use crate::ops::random::Rng;

/// What it takes to go through the nodes of a model.
pub(super) struct Tracer {
    program: Arc<Program>,
    engine: Engine,
    host: Engine,
    /// Constants by slot, made when they are first needed.
    constants: Vec<(Slot, Value)>,
    rng: Option<Rng>,
    reports: Reports,
}

/// A trace of a model, as [`Frozen`] takes it.
pub(super) type Trace<'a> = dyn FnMut(&[Tensor]) -> crate::Result<Vec<Tensor>> + 'a;

/// What was made of a trace, with how the outputs are made of its results; or why there is none.
pub(super) type Made<T> = Result<(T, Vec<Output>), String>;

impl Tracer {
    pub(super) fn new(program: &Arc<Program>, engine: &Engine, reports: &Reports) -> Tracer {
        Tracer {
            program: program.clone(),
            engine: engine.clone(),
            host: Engine::reference_within(eval::HOST_BYTES),
            constants: Vec::new(),
            rng: None,
            reports: reports.clone(),
        }
    }

    /// Makes something of a trace of the model, with as few inputs specialised as it takes: first
    /// with none, then with those that a node needed the values of. If that does not help, gives
    /// the reason.
    pub(super) fn specialised<T>(
        &mut self,
        program: &Program,
        signature: &Signature,
        inputs: &[Array],
        mut make: impl FnMut(&[(Shape, DType)], &mut Trace<'_>) -> crate::Result<T>,
    ) -> Result<(Vec<Specialised>, Made<T>), OnnxError> {
        let engine = self.engine.clone();
        let mut guards: Vec<Specialised> = Vec::new();
        loop {
            let (mut outputs, mut fault) = (Vec::new(), None);
            let is_open = |i: &usize| !guards.iter().any(|guard| guard.tensor == *i);
            let open: Vec<usize> = (0..inputs.len()).filter(is_open).collect();
            let held = open.iter().map(|&i| &inputs[i].tensor);
            let held: Vec<(Shape, DType)> = held.map(|t| (t.shape().to_vec(), t.dtype())).collect();
            let made = make(&held, &mut |tensors| {
                let open = open.iter().copied().zip(tensors);
                let values = self.traced(program, signature, inputs, &guards, open);
                let values = values.map_err(|e| {
                    fault = Some(e);
                    untraced()
                })?;
                let mut results = Vec::new();
                let made = values.iter().map(|v| Output::of(v, &engine, &mut results));
                outputs = made.collect();
                self.reports.tell(&engine, Progress::Compiling);
                Ok(results)
            });
            let dynamic = match (made, fault) {
                (Ok(made), _) => return Ok((guards, Ok((made, outputs)))),
                (Err(_), Some(Fault::Dynamic(dynamic))) => dynamic,
                (Err(_), Some(fault)) => return Err(self.error(fault)),
                (Err(e), None) => return Err(program.engine_error(e)),
            };
            let place = dynamic.place.unwrap_or_else(Location::model);
            let (kind, needed) = match dynamic.why {
                Why::Value(kind, needed) => (kind, needed),
                Why::Always(what) => return Ok((guards, Err(format!("{place}: {what}")))),
            };
            let name = |i| input_name(program, signature, i);
            if let Some(&large) = needed.iter().find(|&&i| !is_guardable(&inputs[i].tensor)) {
                let large = format!(
                    "{place}: it needs the values of {kind}, which depend on input {}, {}",
                    Quoted::new(&name(large)),
                    Value::from(inputs[large].clone()).kind()
                );
                return Ok((guards, Err(large)));
            }
            for i in needed {
                let literal = Value::from(inputs[i].clone()).literal();
                let value = literal.map_err(|e| program.engine_error(e))?;
                guards.extend(value.map(|value| Specialised {
                    input: name(i),
                    value,
                    place: place.clone(),
                    tensor: i,
                }));
            }
        }
    }

    /// The outputs for placeholders, and for the values of the other inputs.
    fn traced<'t>(
        &mut self,
        program: &Program,
        signature: &Signature,
        inputs: &[Array],
        guards: &[Specialised],
        open: impl Iterator<Item = (usize, &'t Tensor)>,
    ) -> super::error::Result<Vec<Value>> {
        let mut values: Vec<Option<Value>> = vec![None; inputs.len()];
        let mut unknown = eval::Open::new();
        for (i, tensor) in open {
            unknown.insert(tensor.id(), i);
            let array = Array {
                tensor: tensor.clone(),
                elem: inputs[i].elem,
            };
            values[i] = Some(array.into());
        }
        for guard in guards {
            values[guard.tensor] = Some(Value::of(&guard.value, &self.host));
        }
        let mut values = values.into_iter().flatten();
        let given = signature
            .iter()
            .filter_map(|(slot, form)| Some((*slot, form.value(&mut values)?)));
        self.evaluate(program, given.collect(), Some(unknown))
    }

    /// Evaluates node by node; values are read where shapes and control flow depend on them.
    pub(super) fn plain(
        &mut self,
        program: &Program,
        given: Vec<(Slot, Value)>,
    ) -> Result<Outputs, OnnxError> {
        let values: Vec<Value> = match self.evaluate(program, given, None) {
            Ok(values) => values.into_iter().map(Value::unshared).collect(),
            Err(fault) => return Err(self.error(fault)),
        };
        let mut tensors = Vec::new();
        values.iter().for_each(|v| v.tensors(&mut tensors));
        for engine in [&self.engine, &self.host] {
            let here = tensors.iter().copied().filter(|t| t.engine() == engine);
            let here: Vec<&Tensor> = here.collect();
            let done = engine.realize(&here);
            done.map_err(|e| self.program.engine_error(e))?;
        }
        Ok(named(program, values))
    }

    fn evaluate(
        &mut self,
        program: &Program,
        given: Vec<(Slot, Value)>,
        capturing: Option<eval::Open>,
    ) -> super::error::Result<Vec<Value>> {
        if self.constants.len() != program.constants.len() {
            self.constants = program
                .constants
                .iter()
                .map(|c| (c.slot, eval::constant(&c.value, &self.host, &self.engine)))
                .collect();
        }
        let mut values: Vec<Option<Value>> = vec![None; program.slots];
        for (slot, value) in self.constants.iter().cloned().chain(given) {
            if let Some(place) = values.get_mut(slot as usize) {
                *place = Some(value);
            }
        }
        let total = program.graph.nodes.len();
        let (host, engine, reports) = (&self.host, &self.engine, &self.reports);
        let report = |done: usize| reports.tell(engine, Progress::Tracing(done.min(total), total));
        let rng = &mut self.rng;
        let mut eval = Eval::new(
            ops::lower,
            &program.file,
            host,
            engine,
            values,
            capturing,
            rng,
        );
        let values = eval.main(&program.graph, report)?;
        self.storable(program, &values)?;
        Ok(values)
    }

    /// Refuses outputs that the memory of the engine cannot hold, before anything is allocated.
    fn storable(&self, program: &Program, values: &[Value]) -> super::error::Result<()> {
        let most = self.engine.0.memory();
        for (port, value) in program.graph.outputs.iter().zip(values) {
            let mut tensors = Vec::new();
            value.tensors(&mut tensors);
            let sizes = tensors
                .iter()
                .map(|t| t.numel() as u128 * t.dtype().size() as u128);
            let bytes: u128 = sizes.sum();
            if bytes > u128::from(most) {
                return Err(Fault::Inner(OnnxError::Node {
                    file: self.program.file.clone(),
                    place: Location::named("output", &port.name),
                    what: format!(
                        "has {} and needs {bytes} bytes, but {} has {most}; pass smaller inputs",
                        value.kind(),
                        self.engine.name()
                    ),
                }));
            }
        }
        Ok(())
    }

    fn error(&self, fault: Fault) -> OnnxError {
        match fault {
            Fault::Inner(e) => e,
            Fault::Engine(e) => self.program.engine_error(e),
            Fault::Wrong(what) | Fault::Unsupported(what) => OnnxError::Node {
                file: self.program.file.clone(),
                place: Location::model(),
                what,
            },
            Fault::Dynamic(Dynamic { place, .. }) => OnnxError::Node {
                file: self.program.file.clone(),
                place: place.unwrap_or_else(Location::model),
                what:
                    "a value was read while the graph was captured; this is a bug in the importer"
                        .into(),
            },
        }
    }
}

/// The name of the input that tensor `i` of all inputs is in.
pub(super) fn input_name(program: &Program, signature: &Signature, i: usize) -> String {
    let mut first = 0;
    let slot = signature.iter().find_map(|(slot, form)| {
        first += form.tensors();
        (i < first).then_some(*slot)
    });
    let ports = program.graph.inputs.iter().chain(&program.graph.defaults);
    let port = ports.into_iter().find(|port| Some(port.slot) == slot);
    port.map_or_else(String::new, |port| port.name.clone())
}

/// Stands for the fault that the evaluator found, which is kept beside it.
fn untraced() -> crate::Error {
    crate::Error::Capture {
        what: "the model could not be traced".into(),
    }
}

pub(super) fn named(program: &Program, values: Vec<Value>) -> Outputs {
    let names = program.graph.outputs.iter().map(|p| p.name.clone());
    Outputs(names.zip(values).collect())
}
