//! A model on an engine: weights in memory, captured graphs for input shapes and values.

use std::sync::Arc;

use codegen::DType;

use super::bind::{self, Hints};
use super::error::{Dynamic, Fault, OnnxError, Place, Why};
use super::eval::{self, Eval};
use super::graph::{Program, Slot};
use super::ops;
use super::plans::{
    Form, Found, Output, Plan, Plans, Prepared, Signature, Specialised, Way, is_guardable,
};
use super::value::{Array, Value};
use crate::exec::DeviceExecutor;
use crate::graph::{Engine, Shape, Tensor};
use crate::io::Quoted;
use crate::jit::Frozen;
use crate::ops::random::Rng;
use crate::schedule::Schedule;

/// What a session is doing, for a progress display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Building the tensor graph: nodes done, of all.
    Tracing(usize, usize),
    /// Scheduling and compiling what was traced.
    Compiling,
    /// On the device.
    Running,
}

/// A model on an engine.
///
/// The first run with inputs of certain shapes builds one graph of commands, with the weights
/// packed and everything that depends on weights only computed; later runs with these shapes replay
/// it. Where shapes or control flow depend on the values of small inputs, the graph is for these
/// values, and others get graphs of their own; [`Session::prepared`] says which inputs that are.
/// Models whose shapes or control flow depend on larger values are run node by node.
pub struct Session {
    program: Arc<Program>,
    engine: Engine,
    host: Engine,
    /// Constants by slot, made when the first graph needs them.
    constants: Vec<(Slot, Value)>,
    plans: Plans,
    rng: Option<Rng>,
    hints: Hints,
    progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

/// The outputs of a run, in the order of the model.
#[derive(Clone, Debug)]
pub struct Outputs(pub Vec<(String, Value)>);

impl Outputs {
    /// The output of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The output of a name as a tensor.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.get(name).and_then(Value::as_tensor)
    }
}

impl Session {
    pub(super) fn new(program: &Arc<Program>, engine: &Engine) -> Session {
        Session {
            program: program.clone(),
            engine: engine.clone(),
            host: Engine::reference_within(eval::HOST_BYTES),
            constants: Vec::new(),
            plans: Plans::default(),
            rng: None,
            hints: Hints::default(),
            progress: None,
        }
    }

    /// Where it runs.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Calls `f` as work goes on.
    pub fn on_progress(&mut self, f: impl FnMut(Progress) + Send + 'static) {
        self.progress = Some(Box::new(f));
    }

    /// Number of graphs that are captured.
    pub fn captures(&self) -> usize {
        let ways = self.plans.iter().map(|plan| &plan.way);
        ways.filter(|way| matches!(way, Way::Captured(..))).count()
    }

    /// What was prepared so far: for which values, and why not captured.
    pub fn prepared(&self) -> Vec<Prepared> {
        self.plans.iter().map(Plan::describe).collect()
    }

    /// Runs the model. Inputs that the file has a value for may be left out. The outputs are
    /// realized.
    ///
    /// # Errors
    /// An input of a wrong name, shape or type, or one that is missing; a node that does not fit
    /// what flows into it, or a form of it that is not there; the device's.
    pub fn run<N: AsRef<str>, V: Into<Value>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Outputs, OnnxError> {
        let program = &*self.program.clone();
        let given = bind::inputs(program, &self.engine, &mut self.hints, inputs)?;
        let can = DeviceExecutor::of(&self.engine).is_some();
        let Some((signature, inputs)) = signed(&given).filter(|_| can) else {
            return self.plain(program, given);
        };
        let found = self.plans.find(&signature, &inputs);
        let found = found.map_err(|e| program.engine_error(e))?;
        if found == Found::Nothing {
            let plan = self.capture(program, &signature, &inputs)?;
            self.plans.add(&signature, plan);
        }
        if let Some(progress) = &mut self.progress {
            progress(Progress::Running);
        }
        if found != Found::Unpaid
            && let Some(plan) = self.plans.front(&signature)
            && let Way::Captured(frozen, outputs) = &mut plan.way
        {
            let open = |i: usize| !plan.guards.iter().any(|guard| guard.tensor == i);
            let open = inputs.into_iter().enumerate().filter(|(i, _)| open(*i));
            let tensors: Vec<Tensor> = open.map(|(_, array)| array.tensor).collect();
            let results = frozen.call(&tensors).map_err(|e| program.engine_error(e))?;
            let outputs = outputs.iter().map(|o| o.value(&results)).collect();
            return Ok(named(program, outputs));
        }
        self.plain(program, given)
    }

    /// Builds the graph for inputs of some forms, and compiles it.
    fn capture(
        &mut self,
        program: &Program,
        signature: &Signature,
        inputs: &[Array],
    ) -> Result<Plan, OnnxError> {
        let engine = self.engine.clone();
        let (guards, made) = self.specialised(program, signature, inputs, |held, trace| {
            Frozen::capture(&engine, held, trace)
        })?;
        let way = match made {
            Ok((frozen, outputs)) => Way::Captured(Box::new(frozen), outputs),
            Err(why) => Way::Plain(why),
        };
        Ok(Plan::new(guards, way))
    }

    /// What one run with these inputs does on the device, without running it, and the inputs whose
    /// values it is for. Inputs that the file has a value for keep it unless they are given.
    ///
    /// # Errors
    /// As [`Session::run`]; strings, and an engine without queues, have no schedule.
    pub fn plan<N: AsRef<str>, V: Into<Value>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(Prepared, Option<Schedule>), OnnxError> {
        let program = &*self.program.clone();
        let given = bind::inputs(program, &self.engine, &mut self.hints, inputs)?;
        let Some((signature, inputs)) = signed(&given) else {
            let why = "an input has strings, which are no part of a graph".into();
            let prepared = Prepared {
                specialised: Vec::new(),
                plain: Some(why),
            };
            return Ok((prepared, None));
        };
        let engine = self.engine.clone();
        let (specialised, made) =
            self.specialised(program, &signature, &inputs, |held, trace| {
                Frozen::plan(&engine, held, trace)
            })?;
        let (plain, schedule) = match made {
            Ok((schedule, _)) => (None, Some(schedule)),
            Err(why) => (Some(why), None),
        };
        Ok((Prepared { specialised, plain }, schedule))
    }

    /// Makes something of a trace of the model, with as few inputs specialised as it takes: first
    /// with none, then with those that a node needed the values of. If that does not help, gives
    /// the reason.
    fn specialised<T>(
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
                if let Some(progress) = &mut self.progress {
                    progress(Progress::Compiling);
                }
                Ok(results)
            });
            let dynamic = match (made, fault) {
                (Ok(made), _) => return Ok((guards, Ok((made, outputs)))),
                (Err(_), Some(Fault::Dynamic(dynamic))) => dynamic,
                (Err(_), Some(fault)) => return Err(self.error(fault)),
                (Err(e), None) => return Err(program.engine_error(e)),
            };
            let place = dynamic.place.unwrap_or_else(Place::model);
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
    fn plain(
        &mut self,
        program: &Program,
        given: Vec<(Slot, Value)>,
    ) -> Result<Outputs, OnnxError> {
        let values = match self.evaluate(program, given, None) {
            Ok(values) => values,
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
        let progress = &mut self.progress;
        let report = |done: usize| {
            if let Some(progress) = progress {
                progress(Progress::Tracing(done.min(total), total));
            }
        };
        let (host, engine) = (&self.host, &self.engine);
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
                    place: Place::named("output", &port.name),
                    what: format!(
                        "has {} and needs {bytes} bytes, of which {} has {most}; give the model \
                         smaller inputs",
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
                place: Place::model(),
                what,
            },
            Fault::Dynamic(Dynamic { place, .. }) => OnnxError::Node {
                file: self.program.file.clone(),
                place: place.unwrap_or_else(Place::model),
                what: "a value is needed while the graph is captured; this is a fault of the \
                       importer"
                    .into(),
            },
        }
    }
}

/// A trace of a model, as [`Frozen`] takes it.
type Trace<'a> = dyn FnMut(&[Tensor]) -> crate::Result<Vec<Tensor>> + 'a;

/// What was made of a trace, with how the outputs are made of its results; or why there is none.
type Made<T> = Result<(T, Vec<Output>), String>;

/// The forms of inputs and the tensors in them; none if there are strings.
fn signed(given: &[(Slot, Value)]) -> Option<(Signature, Vec<Array>)> {
    let mut tensors = Vec::new();
    let forms = given
        .iter()
        .map(|(slot, value)| Some((*slot, Form::of(value, &mut tensors)?)));
    Some((forms.collect::<Option<_>>()?, tensors))
}

/// The name of the input that tensor `i` of all inputs is in.
fn input_name(program: &Program, signature: &Signature, i: usize) -> String {
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

fn named(program: &Program, values: Vec<Value>) -> Outputs {
    let names = program.graph.outputs.iter().map(|p| p.name.clone());
    Outputs(names.zip(values).collect())
}
