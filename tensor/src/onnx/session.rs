//! A model on an engine: weights in memory, one captured graph per set of input shapes.

use std::collections::HashMap;
use std::sync::Arc;

use codegen::DType;

use super::bind::{self, Hints};
use super::elem::Elem;
use super::error::{Fault, OnnxError, Place};
use super::eval::{self, Eval};
use super::graph::{Program, Slot};
use super::ops;
use super::types::Type;
use super::value::{Array, Value};
use crate::exec::DeviceExecutor;
use crate::graph::{Engine, Shape, Tensor};
use crate::io::Quoted;
use crate::jit::Frozen;
use crate::ops::random::Rng;
use crate::schedule::Schedule;

/// Captured graphs that a session keeps; the one that was used least recently goes first.
const MOST_PREPARED: usize = 32;

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
/// it. Models whose shapes or control flow depend on values are run node by node.
pub struct Session {
    program: Arc<Program>,
    engine: Engine,
    host: Engine,
    /// Constants by slot, made when the first graph needs them.
    constants: Vec<(Slot, Value)>,
    prepared: HashMap<Signature, Prepared>,
    uses: u64,
    rng: Option<Rng>,
    hints: Hints,
    progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

/// Shapes and types of the inputs that are tensors, by slot.
type Signature = Vec<(Slot, Shape, Elem)>;

struct Prepared {
    way: Way,
    used: u64,
}

enum Way {
    /// Replayed; the outputs are made of its results.
    Captured(Box<Frozen>, Vec<Output>),
    /// Depends on values: evaluated again at every run.
    Plain,
}

/// How an output is made of the results of a captured graph.
enum Output {
    Result(usize, Elem),
    Known(Value),
    Sequence(Vec<Output>),
    Optional(Box<Output>),
}

impl Output {
    /// Takes the tensors on `engine` out of a value.
    fn of(value: &Value, engine: &Engine, results: &mut Vec<Tensor>) -> Output {
        match value {
            Value::Tensor(a) if a.tensor.engine() == engine => {
                results.push(a.tensor.clone());
                Output::Result(results.len() - 1, a.elem)
            }
            Value::Sequence(items) => {
                let items = items.iter().map(|v| Output::of(v, engine, results));
                Output::Sequence(items.collect())
            }
            Value::Optional(Some(value)) => {
                Output::Optional(Box::new(Output::of(value, engine, results)))
            }
            known => Output::Known(known.clone()),
        }
    }

    fn value(&self, results: &[Tensor]) -> Value {
        match self {
            Output::Result(i, elem) => Array {
                tensor: results[*i].clone(),
                elem: *elem,
            }
            .into(),
            Output::Known(value) => value.clone(),
            Output::Sequence(items) => {
                Value::Sequence(Arc::new(items.iter().map(|i| i.value(results)).collect()))
            }
            Output::Optional(value) => Value::Optional(Some(Arc::new(value.value(results)))),
        }
    }
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
            prepared: HashMap::new(),
            uses: 0,
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
        let prepared = self.prepared.values();
        prepared
            .filter(|p| matches!(p.way, Way::Captured(..)))
            .count()
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
        let signature: Option<Signature> = given
            .iter()
            .map(|(slot, value)| match value {
                Value::Tensor(a) => Some((*slot, a.tensor.shape().to_vec(), a.elem)),
                _ => None,
            })
            .collect();
        let can = DeviceExecutor::of(&self.engine).is_some();
        let Some(signature) = signature.filter(|_| can) else {
            return self.plain(program, given);
        };
        self.uses += 1;
        if !self.prepared.contains_key(&signature) {
            let way = self.capture(program, &signature)?;
            if self.prepared.len() >= MOST_PREPARED
                && let Some(oldest) = self.prepared.iter().min_by_key(|(_, p)| p.used)
            {
                let oldest = oldest.0.clone();
                self.prepared.remove(&oldest);
            }
            self.prepared
                .insert(signature.clone(), Prepared { way, used: 0 });
        }
        if let Some(progress) = &mut self.progress {
            progress(Progress::Running);
        }
        let uses = self.uses;
        if let Some(prepared) = self.prepared.get_mut(&signature) {
            prepared.used = uses;
            if let Way::Captured(frozen, outputs) = &mut prepared.way {
                let tensors: Vec<Tensor> = given
                    .iter()
                    .filter_map(|(_, value)| match value {
                        Value::Tensor(a) => Some(a.tensor.clone()),
                        _ => None,
                    })
                    .collect();
                let results = frozen.call(&tensors).map_err(|e| program.engine_error(e))?;
                let outputs = outputs.iter().map(|o| o.value(&results)).collect();
                return Ok(named(program, outputs));
            }
        }
        self.plain(program, given)
    }

    /// Builds the graph for inputs of some shapes, and compiles it.
    fn capture(&mut self, program: &Program, signature: &Signature) -> Result<Way, OnnxError> {
        let engine = self.engine.clone();
        let mut made: Vec<Output> = Vec::new();
        let mut fault = None;
        let frozen = Frozen::capture(&engine, &held(signature), |tensors| {
            let values = self.traced(program, signature, tensors).map_err(|e| {
                fault = Some(e);
                untraced()
            })?;
            let mut results = Vec::new();
            let outputs = values.iter().map(|v| Output::of(v, &engine, &mut results));
            made = outputs.collect();
            if let Some(progress) = &mut self.progress {
                progress(Progress::Compiling);
            }
            Ok(results)
        });
        match (frozen, fault) {
            (Ok(frozen), _) => Ok(Way::Captured(Box::new(frozen), made)),
            (Err(_), Some(Fault::Dynamic)) => Ok(Way::Plain),
            (Err(_), Some(fault)) => Err(self.error(fault)),
            (Err(e), None) => Err(self.program.engine_error(e)),
        }
    }

    /// What one run with inputs of these shapes does on the device, without running it. Inputs that
    /// the file has a value for keep it.
    ///
    /// # Errors
    /// As [`Session::run`]; a model whose shapes depend on values has no schedule.
    pub fn plan(&mut self, shapes: &[(&str, Shape)]) -> Result<Schedule, OnnxError> {
        let program = &*self.program.clone();
        let mut signature: Signature = Vec::new();
        for port in &program.graph.inputs {
            let given = shapes.iter().find(|(name, _)| *name == port.name);
            let (Some((_, shape)), Type::Tensor(elem, _)) = (given, &port.ty) else {
                return Err(OnnxError::Input {
                    file: program.file.clone(),
                    input: Quoted::new(&port.name),
                    what: format!("expected a tensor with a shape, found {}", port.ty),
                });
            };
            signature.push((port.slot, shape.clone(), *elem));
        }
        let mut fault = None;
        let engine = self.engine.clone();
        let schedule = Frozen::plan(&engine, &held(&signature), |tensors| {
            self.traced(program, &signature, tensors)
                .map(|values| {
                    let mut results = Vec::new();
                    values.iter().for_each(|v| {
                        Output::of(v, &engine, &mut results);
                    });
                    results
                })
                .map_err(|e| {
                    fault = Some(e);
                    untraced()
                })
        });
        match (schedule, fault) {
            (Ok(schedule), _) => Ok(schedule),
            (Err(_), Some(Fault::Dynamic)) => Err(OnnxError::Unsupported {
                file: program.file.clone(),
                missing: vec![super::error::Missing {
                    what:
                        "values that are only known when it runs; it is not captured, and has no \
                           schedule"
                            .into(),
                    place: Place::model(),
                    count: 1,
                }],
            }),
            (Err(_), Some(fault)) => Err(self.error(fault)),
            (Err(e), None) => Err(program.engine_error(e)),
        }
    }

    /// The outputs for placeholders.
    fn traced(
        &mut self,
        program: &Program,
        signature: &Signature,
        tensors: &[Tensor],
    ) -> super::error::Result<Vec<Value>> {
        let given = signature
            .iter()
            .zip(tensors)
            .map(|((slot, _, elem), tensor)| {
                let array = Array {
                    tensor: tensor.clone(),
                    elem: *elem,
                };
                (*slot, Value::from(array))
            });
        self.evaluate(program, given.collect(), true)
    }

    /// Evaluates node by node; values are read where shapes and control flow depend on them.
    fn plain(
        &mut self,
        program: &Program,
        given: Vec<(Slot, Value)>,
    ) -> Result<Outputs, OnnxError> {
        let values = match self.evaluate(program, given, false) {
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
        capturing: bool,
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
            Fault::Dynamic => OnnxError::Node {
                file: self.program.file.clone(),
                place: Place::model(),
                what: "a value is needed while the graph is captured; this is a fault of the \
                       importer"
                    .into(),
            },
        }
    }
}

/// Shapes and types as the device has them.
fn held(signature: &Signature) -> Vec<(Shape, DType)> {
    let held = signature
        .iter()
        .map(|(_, shape, elem)| (shape.clone(), elem.held()));
    held.collect()
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
