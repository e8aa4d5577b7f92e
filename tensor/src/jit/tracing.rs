//! What a thread is tracing: which parameters and random numbers a function uses.
//!
//! Traces belong to threads, so two threads may capture functions over one engine and the same
//! parameters at the same time, and neither sees what the other traces.

use hashbrown::HashMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Weak;

use codegen::DType;

use crate::error::{Error, Result};
use crate::graph::{Engine, Op, Tensor};
use crate::ops::random::generator::Rng;
use crate::param::cell::{Cell, Parameter};

/// What a thread does with the operations that it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// They are as they are; it is noted which parameters are set.
    Noting,
    /// They become a graph that is replayed: parameters and random numbers are given to each replay,
    /// and nothing runs.
    Capturing,
    /// They become a graph in which parameters are constants, and nothing runs.
    Freezing,
    /// They are as they are, inside another trace.
    Paused,
}

/// A trace of the thread that made it, until it is dropped.
pub(crate) struct Trace(Rc<Tracing>);

struct Tracing {
    engine: Engine,
    kind: Kind,
    /// What is older was made before the function was called.
    first: u64,
    uses: RefCell<Uses>,
}

/// What the traced function has used so far.
#[derive(Default)]
pub(crate) struct Uses {
    /// Parameters, in the order of their first use.
    pub(crate) parameters: Vec<Used>,
    by_address: HashMap<usize, usize>,
    /// Draws of random numbers, in order.
    pub(crate) draws: Vec<Draw>,
    made: Vec<Weak<Cell>>,
}

/// A parameter that is used.
pub(crate) struct Used {
    pub(crate) parameter: Parameter,
    /// What stands for the value before the call.
    pub(crate) given: Tensor,
    /// The value after the call, if the function sets one.
    pub(crate) new: Option<Tensor>,
}

/// Words of a generator that is older than the function.
pub(crate) struct Draw {
    pub(crate) rng: Rng,
    /// How many.
    pub(crate) words: usize,
    /// What stands for key and counter: `[3]` of `U32`.
    pub(crate) given: Tensor,
}

/// What a parameter is to whoever reads it.
pub(crate) enum Seen {
    /// A value of the trace.
    Given(Tensor),
    /// The value that it has.
    Own,
}

thread_local! {
    /// Traces of this thread, the innermost last.
    static TRACES: RefCell<Vec<Rc<Tracing>>> = const { RefCell::new(Vec::new()) };
    /// Captured functions that this thread is inside.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// This thread is inside a captured function, until it is dropped.
pub(crate) struct Inside(usize);

impl Inside {
    pub(crate) fn of(function: usize) -> Inside {
        INSIDE.with(|inside| inside.borrow_mut().push(function));
        Inside(function)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.borrow_mut().retain(|f| *f != self.0));
    }
}

/// Instead of a captured function: a model that is traced node by node.
pub(crate) const A_MODEL: usize = 1;

/// Whether this thread is inside that captured function.
pub(crate) fn is_inside(function: usize) -> bool {
    INSIDE.with(|inside| inside.borrow().contains(&function))
}

fn refused(what: String) -> Error {
    Error::Capture { what }
}

fn innermost() -> Option<Rc<Tracing>> {
    TRACES.with(|traces| traces.borrow().last().cloned())
}

impl Trace {
    /// From now on until it is dropped, this thread traces.
    pub(crate) fn begin(engine: &Engine, kind: Kind) -> Trace {
        let tracing = Rc::new(Tracing {
            engine: engine.clone(),
            kind,
            first: Tensor::next_id(),
            uses: RefCell::default(),
        });
        TRACES.with(|traces| traces.borrow_mut().push(tracing.clone()));
        Trace(tracing)
    }

    /// Tensors with smaller numbers are older than the trace.
    pub(crate) fn first(&self) -> u64 {
        self.0.first
    }

    /// Ends it; what was used.
    pub(crate) fn end(self) -> Uses {
        self.0.uses.take()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        TRACES.with(|traces| traces.borrow_mut().retain(|t| !Rc::ptr_eq(t, &self.0)));
        // Of a function that has panicked.
        self.0.uses.take().forget_kept();
    }
}

impl Uses {
    /// What the function returned. Refuses parameters that it has made and that somebody keeps: they would stand
    /// for values of the trace. They wait for nothing, whether it failed or not.
    ///
    /// # Errors
    /// Those of the function; [`Error::Capture`].
    pub(crate) fn unless_kept<T>(&self, returned: Result<T>) -> Result<T> {
        let kept = self.forget_kept();
        let returned = returned?;
        let Some(first) = kept.first() else {
            return Ok(returned);
        };
        let like = first.like();
        Err(refused(format!(
            "a parameter of {:?} {} was created in the captured call and kept: replays would not create \
             it. Create it before the call",
            like.shape(),
            like.dtype()
        )))
    }

    /// The parameters that were made and are kept; from now on they wait for nothing.
    fn forget_kept(&self) -> Vec<Parameter> {
        let made = self.made.iter().filter_map(Weak::upgrade);
        let kept: Vec<Parameter> = made.map(Parameter::of).collect();
        kept.iter().for_each(Parameter::forget_pending);
        kept
    }

    fn of(&mut self, parameter: &Parameter, engine: &Engine) -> &mut Used {
        let next = self.parameters.len();
        let at = *self.by_address.entry(parameter.address()).or_insert(next);
        if at == next {
            let like = parameter.like();
            self.parameters.push(Used {
                parameter: parameter.clone(),
                given: Tensor::make(engine, Op::Given, &[], like.shape(), like.dtype()),
                new: None,
            });
        }
        &mut self.parameters[at]
    }
}

/// The engine that this thread captures a function for, if it does.
pub(crate) fn capturing() -> Option<Engine> {
    let tracing = innermost().filter(|t| t.kind == Kind::Capturing)?;
    Some(tracing.engine.clone())
}

/// The engine of the captured function that this thread calls for the first time, if it does.
pub(crate) fn noting() -> Option<Engine> {
    let tracing = innermost().filter(|t| t.kind == Kind::Noting)?;
    Some(tracing.engine.clone())
}

/// Whether operations of this thread become a graph, and nothing runs.
pub(crate) fn is_capturing() -> bool {
    innermost().is_some_and(|t| matches!(t.kind, Kind::Capturing | Kind::Freezing))
}

/// What a parameter is to this thread now.
pub(crate) fn read(parameter: &Parameter) -> Seen {
    let Some(tracing) = innermost().filter(|t| t.kind == Kind::Capturing) else {
        return Seen::Own;
    };
    if parameter.born() >= tracing.first || parameter.like().engine() != &tracing.engine {
        return Seen::Own;
    }
    let mut uses = tracing.uses.borrow_mut();
    let used = uses.of(parameter, &tracing.engine);
    Seen::Given(used.new.as_ref().unwrap_or(&used.given).clone())
}

/// A parameter is set by this thread. `true`: its new value is a part of the trace, and the cell stays as
/// it is.
///
/// # Errors
/// A function that may not set it.
pub(crate) fn written(parameter: &Parameter, value: &Tensor) -> Result<bool> {
    let Some(tracing) = innermost().filter(|t| parameter.born() < t.first) else {
        return Ok(false);
    };
    let name = || {
        let like = parameter.like();
        format!("a parameter of {:?} {}", like.shape(), like.dtype())
    };
    match tracing.kind {
        Kind::Paused => Ok(false),
        Kind::Noting => {
            let mut uses = tracing.uses.borrow_mut();
            uses.of(parameter, &tracing.engine);
            Ok(false)
        }
        Kind::Freezing => Err(refused(format!(
            "{} was set in a function with constant parameters; capture it as a Jit",
            name()
        ))),
        Kind::Capturing if parameter.like().engine() != &tracing.engine => Err(refused(format!(
            "{} on {} was set in a function captured for {}: replays would not set it. Return the \
             value, and set it after the call",
            name(),
            parameter.like().engine().name(),
            tracing.engine.name()
        ))),
        Kind::Capturing => {
            let mut uses = tracing.uses.borrow_mut();
            uses.of(parameter, &tracing.engine).new = Some(value.clone());
            Ok(true)
        }
    }
}

/// What stands for key and counter of a draw, `[3]` of `U32`, if each replay has to make it anew.
///
/// # Errors
/// A function that may not draw.
pub(crate) fn drawn(rng: &Rng, words: usize) -> Result<Option<Tensor>> {
    let older = |t: &Rc<Tracing>| rng.born() < t.first && rng.engine() == &t.engine;
    let Some(tracing) = innermost().filter(older) else {
        return Ok(None);
    };
    match tracing.kind {
        Kind::Capturing => {}
        Kind::Freezing => {
            return Err(refused(
                "random numbers were drawn in a function with constant parameters: every call would get \
                 the same ones. Draw before the call and pass them as an input, or capture it as a Jit"
                    .into(),
            ));
        }
        Kind::Noting | Kind::Paused => return Ok(None),
    }
    let given = Tensor::make(&tracing.engine, Op::Given, &[], &[3], DType::U32);
    tracing.uses.borrow_mut().draws.push(Draw {
        rng: rng.clone(),
        words,
        given: given.clone(),
    });
    Ok(Some(given))
}

/// A parameter is made by this thread.
pub(crate) fn made(parameter: &Parameter) {
    let traces = |t: &Rc<Tracing>| matches!(t.kind, Kind::Capturing | Kind::Freezing);
    if let Some(tracing) = innermost().filter(traces) {
        tracing.uses.borrow_mut().made.push(parameter.weak());
    }
}

/// Whether a generator is older than the function that this thread captures.
pub(crate) fn is_outside(rng: &Rng) -> bool {
    innermost()
        .is_some_and(|t| matches!(t.kind, Kind::Capturing | Kind::Freezing) && rng.born() < t.first)
}

/// Refuses what a replay would not do again.
///
/// # Errors
/// [`Error::Capture`] while this thread captures a function.
pub(crate) fn refuse(engine: &dyn crate::Executor, op: &'static str) -> Result<(), Error> {
    let Some(tracing) = innermost() else {
        return Ok(());
    };
    let own = std::ptr::addr_eq(std::sync::Arc::as_ptr(&tracing.engine.0), engine);
    let refuses = match tracing.kind {
        Kind::Noting | Kind::Paused => false,
        Kind::Capturing => true,
        Kind::Freezing => own,
    };
    if !refuses {
        return Ok(());
    }
    Err(refused(format!(
        "{op} inside a captured function: replays would skip it. Return the value as an output and read \
         it after the call, or keep it in a Parameter that the function sets"
    )))
}

/// Calls `f` as if nothing were being traced: for what a replay does not have to do again.
pub(crate) fn outside<T>(engine: &Engine, f: impl FnOnce() -> T) -> T {
    let _paused = Trace::begin(engine, Kind::Paused);
    f()
}
