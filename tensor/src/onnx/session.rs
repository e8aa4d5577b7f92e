//! A model on an engine: weights in memory, captured graphs for input shapes and values.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::lock;

use super::bind::{self, Hints};
use super::error::OnnxError;
use super::graph::{Program, Slot};
pub use super::outputs::Outputs;
use super::plans::{Captured, Form, Found, Plan, Plans, Prepared, Signature, Way};
pub use super::progress::Progress;
use super::progress::Reports;
use super::tracer::{Tracer, named};
use super::value::{Array, Value};
use crate::exec::DeviceExecutor;
use crate::graph::{Engine, Tensor};
use crate::jit::Frozen;
use crate::jit::tracing::{self, Inside};
use crate::schedule::Schedule;

/// A model on an engine.
///
/// The first run with inputs of certain shapes builds one graph of commands, with the weights packed and everything
/// that depends on weights only computed; later runs with these shapes replay it. If shapes or control flow depend
/// on the values of small inputs, each set of values gets its own graph; [`Session::prepared`] lists these inputs.
/// Models that depend on larger values run node by node.
///
/// Many threads may run one session at once, each with its own inputs and outputs. A replay does not wait for
/// graphs that are being built.
pub struct Session {
    program: Arc<Program>,
    engine: Engine,
    plans: Mutex<Plans>,
    /// Whoever goes through the nodes has it.
    tracer: Mutex<Tracer>,
    hints: Mutex<Hints>,
    reports: Reports,
}

impl Session {
    pub(super) fn new(program: &Arc<Program>, engine: &Engine) -> Session {
        let reports = Reports::default();
        Session {
            program: program.clone(),
            engine: engine.clone(),
            plans: Mutex::default(),
            tracer: Mutex::new(Tracer::new(program, engine, &reports)),
            hints: Mutex::default(),
            reports,
        }
    }

    /// Where it runs.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    pub(super) fn hints(&self) -> MutexGuard<'_, Hints> {
        lock(&self.hints)
    }

    /// Calls `f` with progress reports, in the threads that run the session. On [`Progress::Running`], `f` may run
    /// this session and others; before that, runs that need tracing are refused, because threads could wait for
    /// each other. This is detected for its own thread only: `f` must not wait for another thread that runs this
    /// session, which may wait for the trace that called `f`.
    pub fn on_progress(&self, f: impl Fn(Progress) + Send + Sync + 'static) {
        self.reports.to(Arc::new(f));
    }

    /// Number of graphs that are captured.
    pub fn captures(&self) -> usize {
        let plans = lock(&self.plans);
        let ways = plans.iter().map(|plan| &plan.way);
        ways.filter(|way| matches!(way, Way::Captured(..))).count()
    }

    /// The graphs prepared so far: for which values, or why not captured.
    pub fn prepared(&self) -> Vec<Prepared> {
        lock(&self.plans).iter().map(Plan::describe).collect()
    }

    /// Runs the model. Inputs that the file has a value for may be left out. The outputs are
    /// realized.
    ///
    /// # Errors
    /// An input of a wrong name, shape or type, or one that is missing; a node that does not fit its inputs or is
    /// not supported; device errors.
    pub fn run<N: AsRef<str>, V: Into<Value>>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Outputs, OnnxError> {
        let program = &*self.program;
        // Before any lock: a fork may have inherited it.
        let usable = self.engine.realize(&[]);
        usable.map_err(|e| program.engine_error(e))?;
        let inputs = collected(inputs);
        let given = bind::inputs(program, &self.engine, &mut lock(&self.hints), inputs)?;
        let can = DeviceExecutor::of(&self.engine).is_some();
        let Some((signature, inputs)) = signed(&given).filter(|_| can) else {
            return self.tracer()?.plain(program, given);
        };
        let mut next = self.next(&signature, &inputs)?;
        if let Next::Make = next {
            let mut tracer = self.tracer()?;
            // Another thread may have made it in the meantime.
            next = self.next(&signature, &inputs)?;
            if let Next::Make = next {
                let plan = self.capture(&mut tracer, &signature, &inputs)?;
                next = Next::of(&plan, &inputs);
                let gone = lock(&self.plans).add(&signature, plan);
                drop(gone);
            }
        }
        self.reports.tell(&self.engine, Progress::Running);
        match next {
            Next::Replay(captured, tensors) => {
                let results = captured.frozen.call(&tensors);
                let results = results.map_err(|e| program.engine_error(e))?;
                let outputs = captured.outputs.iter().map(|o| o.value(&results));
                Ok(named(program, outputs.collect()))
            }
            Next::Plain | Next::Make => self.tracer()?.plain(program, given),
        }
    }

    /// The tracer; waits for other threads that have it.
    pub(super) fn tracer(&self) -> Result<Held<'_>, OnnxError> {
        if tracing::is_inside(tracing::A_MODEL) {
            return Err(self.program.engine_error(crate::Error::Capture {
                what: "a session was run from a progress report while a model is traced; run it after \
                       the call, or when the report is Running"
                    .into(),
            }));
        }
        let tracer = lock(&self.tracer);
        Ok(Held {
            tracer,
            _inside: Inside::of(tracing::A_MODEL),
        })
    }

    /// What to do for these inputs.
    fn next(&self, signature: &Signature, inputs: &[Array]) -> Result<Next, OnnxError> {
        let mut values = HashMap::new();
        loop {
            let found = lock(&self.plans).find(signature, &values);
            return Ok(match found {
                Found::Plan(plan) => Next::of(&plan, inputs),
                Found::Nothing => Next::Make,
                Found::Unpaid => Next::Plain,
                Found::Depends(input) => {
                    let bytes = inputs[input].tensor.to_bytes();
                    let bytes = bytes.map_err(|e| self.program.engine_error(e))?;
                    values.insert(input, bytes);
                    continue;
                }
            });
        }
    }

    /// Builds the graph for inputs of some forms, and compiles it.
    fn capture(
        &self,
        tracer: &mut Tracer,
        signature: &Signature,
        inputs: &[Array],
    ) -> Result<Plan, OnnxError> {
        let (program, engine) = (&*self.program, &self.engine);
        let (guards, made) = tracer.specialised(program, signature, inputs, |held, trace| {
            Frozen::capture(engine, held, trace)
        })?;
        let way = match made {
            Ok((frozen, outputs)) => Way::Captured(Arc::new(Captured { frozen, outputs })),
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
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(Prepared, Option<Schedule>), OnnxError> {
        let program = &*self.program;
        // As in a run.
        let usable = self.engine.realize(&[]);
        usable.map_err(|e| program.engine_error(e))?;
        let inputs = collected(inputs);
        let given = bind::inputs(program, &self.engine, &mut lock(&self.hints), inputs)?;
        let Some((signature, inputs)) = signed(&given) else {
            let why = "strings are not supported in captured graphs".into();
            let prepared = Prepared {
                specialised: Vec::new(),
                plain: Some(why),
            };
            return Ok((prepared, None));
        };
        let engine = self.engine.clone();
        let (specialised, made) =
            self.tracer()?
                .specialised(program, &signature, &inputs, |held, trace| {
                    Frozen::plan(&engine, held, trace)
                })?;
        let (plain, schedule) = match made {
            Ok((schedule, _)) => (None, Some(schedule)),
            Err(why) => (Some(why), None),
        };
        Ok((Prepared { specialised, plain }, schedule))
    }
}

/// The inputs, before anything is locked: the iterator and the conversions may run the session, too.
pub(super) fn collected<N: AsRef<str>, V: Into<Value>>(
    inputs: impl IntoIterator<Item = (N, V)>,
) -> Vec<(String, Value)> {
    let inputs = inputs.into_iter();
    inputs
        .map(|(name, value)| (name.as_ref().to_owned(), value.into()))
        .collect()
}

/// The tracer of a session, and the note that this thread has it.
pub(super) struct Held<'a> {
    tracer: MutexGuard<'a, Tracer>,
    _inside: Inside,
}

impl Deref for Held<'_> {
    type Target = Tracer;

    fn deref(&self) -> &Tracer {
        &self.tracer
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Tracer {
        &mut self.tracer
    }
}

/// What to do for certain inputs.
enum Next {
    /// Replay a graph, with these of the inputs.
    Replay(Arc<Captured>, Vec<Tensor>),
    /// Go through the nodes.
    Plain,
    /// Make a plan.
    Make,
}

impl Next {
    fn of(plan: &Plan, inputs: &[Array]) -> Next {
        let Way::Captured(captured) = &plan.way else {
            return Next::Plain;
        };
        let open = |i: usize| !plan.guards.iter().any(|guard| guard.tensor == i);
        let open = inputs.iter().enumerate().filter(|(i, _)| open(*i));
        let tensors = open.map(|(_, array)| array.tensor.clone());
        Next::Replay(captured.clone(), tensors.collect())
    }
}

/// The forms of inputs and the tensors in them; none if there are strings.
pub(super) fn signed(given: &[(Slot, Value)]) -> Option<(Signature, Vec<Array>)> {
    let mut tensors = Vec::new();
    let forms = given
        .iter()
        .map(|(slot, value)| Some((*slot, Form::of(value, &mut tensors)?)));
    Some((forms.collect::<Option<_>>()?, tensors))
}
