//! State that outlives a graph: weights, running statistics, counters, optimizer moments.
//!
//! # The rule
//!
//! A tensor is an immutable value. A [`Parameter`] is a cell whose value changes over time. [`Parameter::get`]
//! returns the current value, and tensors computed from it keep that value: a handle of a weight, a loss that is
//! read after the step, a tensor that is still lazy when the parameter changes.
//!
//! The new value overwrites the old one in memory if no tensor and no reader holds the old one. Otherwise the old
//! value keeps its memory, and the parameter gets new memory. So unshared state is updated in place.
//!
//! This costs memory: a lazy tensor holds the parameters that it needs, a realized one those that its gradient
//! needs. [`Tensor::detach`] of a realized tensor, and tensors made in [`no_grad`](crate::no_grad()), hold neither.
//! [`crate::nn::Optimizer::minimize`] frees the graph of its loss, as PyTorch's `backward` does.

pub(crate) mod cell;
mod donate;

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Weak;

use crate::error::{Error, Result};
use crate::graph::{Engine, Tensor};
use crate::jit::tracing::{self, Seen};
pub(crate) use cell::Moved;
pub use cell::Parameter;
use cell::{Cell, Pending, Waiting};

thread_local! {
    /// Parameters that this thread has set and not committed, the oldest first.
    static SET: RefCell<BTreeMap<u64, Weak<Cell>>> = const { RefCell::new(BTreeMap::new()) };
}

/// With more, those that are gone are forgotten whenever their number has doubled.
const MOST_SET: usize = 4096;

/// Parameters that this thread has set and nobody has committed.
pub(crate) fn set_by_this_thread() -> Vec<Parameter> {
    let set = SET.with(RefCell::take);
    let alive = set.values().filter_map(Weak::upgrade).map(Parameter::of);
    let wait = |parameter: &Parameter| parameter.is_set();
    let waiting: Vec<Parameter> = alive.filter(wait).collect();
    let again = waiting.iter().map(|p| (p.born(), p.weak()));
    SET.with(|set| set.borrow_mut().extend(again));
    waiting
}

impl Parameter {
    /// A trainable parameter.
    pub fn new(tensor: Tensor) -> Parameter {
        let parameter = Parameter::with(tensor, true);
        tracing::made(&parameter);
        parameter
    }

    /// State that optimizers do not change: running statistics, counters, moments.
    pub fn buffer(tensor: Tensor) -> Parameter {
        let parameter = Parameter::with(tensor, false);
        tracing::made(&parameter);
        parameter
    }

    /// The current value. It does not change when the parameter is set.
    pub fn get(&self) -> Tensor {
        let value = match tracing::read(self) {
            Seen::Given(value) => value,
            Seen::Own => self.current(),
        };
        value.owned_by(self.born())
    }

    /// Sets a new value, with the shape, type and engine of the old one.
    ///
    /// # Errors
    /// Another shape, type or engine; [`Error::Capture`] in a function whose parameters are constants
    /// ([`crate::Frozen`]).
    pub fn set(&self, value: Tensor) -> Result<()> {
        {
            let old = &self.like();
            if value.engine() != old.engine() {
                return Err(Error::Engines {
                    op: "parameter",
                    a: old.engine().name(),
                    b: value.engine().name(),
                });
            }
            if value.shape() != old.shape() || value.dtype() != old.dtype() {
                return Err(Error::Shape {
                    op: "parameter",
                    what: format!(
                        "expected {:?} {}, found {:?} {}",
                        old.shape(),
                        old.dtype(),
                        value.shape(),
                        value.dtype()
                    ),
                });
            }
        }
        if !tracing::written(self, &value)? {
            self.wait_for(value);
            SET.with(|set| {
                let mut set = set.borrow_mut();
                set.insert(self.born(), self.weak());
                if set.len().is_power_of_two() && set.len() > MOST_SET {
                    set.retain(|_, cell| cell.strong_count() > 0);
                }
            });
        }
        Ok(())
    }
}

/// Computes the pending values of parameters together, on their engines, including initial values that were never
/// computed. Duplicate cells count once.
///
/// It takes one parameter, or any list: `commit(&w)`, `commit([&w, &b])`, `commit(adam.state())`.
///
/// In a function that is being captured it does nothing: values are set at the end of the function anyway.
///
/// # Errors
/// From compiling, or from the device; then the values of this engine stay pending.
pub fn commit<P: Borrow<Parameter>>(parameters: impl IntoIterator<Item = P>) -> Result<()> {
    let parameters = parameters.into_iter().map(|p| p.borrow().clone());
    commit_with(&[], &parameters.collect::<Vec<_>>(), &[])
}

/// [`commit`] of all parameters that this thread has set and nobody has committed: those that an optimizer's step has set,
/// and running statistics of [`crate::nn::BatchNorm`].
///
/// # Errors
/// As [`commit`].
pub fn commit_set() -> Result<()> {
    commit(set_by_this_thread())
}

/// A list of one, for [`commit`].
impl<'a> IntoIterator for &'a Parameter {
    type Item = &'a Parameter;
    type IntoIter = std::iter::Once<&'a Parameter>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

/// [`commit`], and the values of tensors, together. The graphs of those in `cut` are given up.
pub(crate) fn commit_with(
    roots: &[Tensor],
    parameters: &[Parameter],
    cut: &[Tensor],
) -> Result<()> {
    if tracing::is_capturing() {
        return Ok(());
    }
    let mut engines: Vec<Engine> = Vec::new();
    let of_parameters = parameters.iter().map(|p| p.like().engine().clone());
    for engine in of_parameters.chain(roots.iter().map(|t| t.engine().clone())) {
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    for engine in engines {
        // Before values are locked: a fork may have inherited that.
        engine.realize(&[])?;
        let mut here: Vec<&Parameter> = Vec::new();
        let mut seen = hashbrown::HashSet::new();
        for parameter in parameters {
            if parameter.like().engine() == &engine && seen.insert(parameter.address()) {
                here.push(parameter);
            }
        }
        let waiting: Vec<Waiting> = here.iter().filter_map(|p| p.waiting()).collect();
        let on = |t: &&Tensor| t.engine() == &engine;
        let missing = |t: &&Tensor| on(t) && t.storage().is_none();
        let roots: Vec<Tensor> = roots.iter().filter(missing).cloned().collect();
        let cut: Vec<Tensor> = cut.iter().filter(on).cloned().collect();
        if !roots.is_empty() || !waiting.is_empty() {
            engine.0.update(&roots, &Pending(waiting), &cut)?;
        }
        for tensor in &cut {
            tensor.node().cut();
        }
    }
    Ok(())
}
