//! State that outlives a graph: weights, running statistics, counters, optimizer moments.
//!
//! # The rule
//!
//! A tensor is a value: it is what it was when it was made. A [`Parameter`] is a cell that holds one
//! value after the other. [`Parameter::get`] gives the value of now, and whatever is made of it stays
//! made of it: a kept handle of a weight, a loss that is read after the step, a tensor that is still
//! lazy when the parameter moves on.
//!
//! The new value is written over the old one in memory where nobody can tell the difference, which is
//! when no tensor and no reader holds the old one any more. Otherwise the old value keeps its memory,
//! and the parameter gets other memory. So state that nobody looks at is updated in place, as if
//! there were no rule.
//!
//! What is kept is memory: a lazy tensor holds the parameters that it needs, and a realized one those
//! that its gradient needs. Hold [`Tensor::detach`] of a realized tensor, or numbers, to hold neither.
//! [`crate::nn::Optimizer::minimize`] gives the graph of its loss up, as PyTorch's `backward` does.

mod donate;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use crate::error::{Error, Result};
use crate::graph::{Engine, Storage, Tensor};
use crate::jit::tracing::{self, Seen};
pub(crate) use donate::donations;

/// A shared cell with a tensor. Clones share the cell.
///
/// [`Parameter::set`] gives the cell a new value lazily, and [`commit`] computes the new values of many
/// cells at once. In a captured function ([`crate::Jit`]) both belong to the function: each call reads
/// the values of then, and leaves the new ones.
#[derive(Clone, Debug)]
pub struct Parameter(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    trainable: bool,
    /// The number of the next tensor when the cell was made.
    born: u64,
    /// How often its value was given away.
    gets: AtomicU64,
    content: RwLock<Content>,
}

#[derive(Clone, Debug)]
struct Content {
    stored: Tensor,
    pending: Option<Tensor>,
}

thread_local! {
    /// Parameters that this thread has set and not committed, the oldest first.
    static SET: RefCell<BTreeMap<u64, Weak<Cell>>> = const { RefCell::new(BTreeMap::new()) };
}

/// With more, those that are gone are forgotten whenever their number has doubled.
const MOST_SET: usize = 4096;

/// Parameters that this thread has set and nobody has committed.
pub(crate) fn set_by_this_thread() -> Vec<Parameter> {
    let set = SET.with(RefCell::take);
    let alive = set.values().filter_map(Weak::upgrade).map(Parameter);
    let wait = |parameter: &Parameter| parameter.read().pending.is_some();
    let waiting: Vec<Parameter> = alive.filter(wait).collect();
    let again = waiting.iter().map(|p| (p.0.born, Arc::downgrade(&p.0)));
    SET.with(|set| set.borrow_mut().extend(again));
    waiting
}

/// A new value of a parameter that waits to be computed.
///
/// Made and settled by [`commit`]; see [`crate::Executor::update`].
#[derive(Clone, Debug)]
pub struct Waiting {
    parameter: Parameter,
    /// The value that it has in memory.
    pub stored: Tensor,
    /// The value that waits. It is the stored one if that was never computed.
    pub value: Tensor,
    gets: u64,
}

impl Parameter {
    /// A trainable parameter.
    pub fn new(tensor: Tensor) -> Parameter {
        Parameter::with(tensor, true)
    }

    /// State that optimizers leave alone: running statistics, counters, moments.
    pub fn buffer(tensor: Tensor) -> Parameter {
        Parameter::with(tensor, false)
    }

    fn with(stored: Tensor, trainable: bool) -> Parameter {
        let content = RwLock::new(Content {
            stored,
            pending: None,
        });
        Parameter(Arc::new(Cell {
            trainable,
            born: Tensor::next_id(),
            gets: AtomicU64::new(0),
            content,
        }))
    }

    /// Whether optimizers may change it.
    pub fn is_trainable(&self) -> bool {
        self.0.trainable
    }

    fn read(&self) -> RwLockReadGuard<'_, Content> {
        let content = self.0.content.read();
        content.unwrap_or_else(|broken| broken.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        let content = self.0.content.write();
        content.unwrap_or_else(|broken| broken.into_inner())
    }

    /// The value of now. It stays what it is, whatever the parameter is set to.
    pub fn get(&self) -> Tensor {
        let value = match tracing::read(self) {
            Seen::Given(value) => value,
            Seen::Own => self.current(),
        };
        value.owned_by(self.0.born)
    }

    /// The value of now, whether a function is being captured or not.
    pub(crate) fn current(&self) -> Tensor {
        let content = self.read();
        self.0.gets.fetch_add(1, Ordering::Relaxed);
        let value = content.pending.as_ref().unwrap_or(&content.stored);
        value.clone()
    }

    /// A new value, which must have the shape, type and engine of the old one.
    ///
    /// # Errors
    /// Another shape, type or engine; [`Error::Capture`] in a function whose parameters are constants
    /// ([`crate::Frozen`]).
    pub fn set(&self, value: Tensor) -> Result<()> {
        {
            let content = self.read();
            let old = &content.stored;
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
                        "holds {:?} {}, was given {:?} {}",
                        old.shape(),
                        old.dtype(),
                        value.shape(),
                        value.dtype()
                    ),
                });
            }
        }
        if !tracing::written(self, &value)? {
            self.write().pending = Some(value);
            SET.with(|set| {
                let mut set = set.borrow_mut();
                set.insert(self.0.born, Arc::downgrade(&self.0));
                if set.len().is_power_of_two() && set.len() > MOST_SET {
                    set.retain(|_, cell| cell.strong_count() > 0);
                }
            });
        }
        Ok(())
    }

    /// Shape, type and engine are these of the value that it has, whatever it is set to.
    pub(crate) fn like(&self) -> Tensor {
        self.read().stored.clone()
    }

    /// The number of the next tensor when it was made.
    pub(crate) fn born(&self) -> u64 {
        self.0.born
    }

    /// Identity of the cell.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether both are one cell.
    pub fn is(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its value has still to be computed.
    pub(crate) fn waits(&self) -> bool {
        let content = self.read();
        content.pending.is_some() || content.stored.storage().is_none()
    }

    /// What has to be computed, if anything.
    fn waiting(&self) -> Option<Waiting> {
        // Alone: who has taken the value before is counted, and who takes it later is found by `gets`.
        let content = self.write();
        let stored = content.stored.clone();
        let value = match &content.pending {
            Some(pending) => pending.clone(),
            None if stored.storage().is_none() => stored.clone(),
            None => return None,
        };
        Some(Waiting {
            parameter: self.clone(),
            stored,
            value,
            gets: self.0.gets.load(Ordering::Relaxed),
        })
    }

    /// The memory of its value, to be written over. If somebody else holds the value, that stays where
    /// it is, and the parameter has the one that `copy` makes of it.
    ///
    /// Whoever calls it holds back readers until the write is submitted.
    ///
    /// # Errors
    /// Those of `copy`.
    pub(crate) fn over(
        &self,
        copy: impl FnOnce(&Tensor) -> Result<(Tensor, Arc<hcq::Buffer>)>,
    ) -> Result<(Arc<hcq::Buffer>, Option<Moved>)> {
        let mut content = self.write();
        if let Some(Storage::Device(buffer)) = content.stored.storage()
            // One of the tensor, and one here.
            && Arc::strong_count(&buffer) <= 2
            && Arc::strong_count(&content.stored.0) == 1
        {
            return Ok((buffer, None));
        }
        let (value, buffer) = copy(&content.stored)?;
        let moved = Moved {
            parameter: self.clone(),
            new: value.id(),
            old: std::mem::replace(&mut content.stored, value),
        };
        Ok((buffer, Some(moved)))
    }
}

/// A parameter that has other memory than before.
pub(crate) struct Moved {
    parameter: Parameter,
    new: u64,
    old: Tensor,
}

impl Moved {
    /// Nothing was written there: the parameter has the value that it had.
    pub(crate) fn back(self) {
        let mut content = self.parameter.write();
        if content.stored.id() == self.new {
            content.stored = self.old;
        }
    }
}

impl Waiting {
    /// The parameter has this value from now on, in memory. What it was set to in the meantime still
    /// waits; if another thread has computed a value in the meantime, the parameter has that.
    pub fn settle(&self, value: Tensor) {
        let mut content = self.parameter.write();
        self.settle_in(&mut content, value);
    }

    fn settle_in(&self, content: &mut Content, value: Tensor) {
        let newest = content.pending.as_ref().map(Tensor::id) == Some(self.value.id());
        // Else another thread has set it since, or computed what is newer.
        if newest || content.stored.id() == self.stored.id() {
            content.stored = value;
        }
        if newest {
            content.pending = None;
        }
    }

    /// Nothing was computed: if the parameter has this value, which is a tensor's by number, it waits
    /// again.
    pub(crate) fn unsettle(&self, value: u64) {
        let mut content = self.parameter.write();
        if content.stored.id() == value {
            content.stored = self.stored.clone();
            content.pending.get_or_insert_with(|| self.value.clone());
        }
    }
}

/// Like [`Waiting::settle`] for all of them, with values that will be in the memory of the old ones;
/// `false`, and nothing is changed, if somebody has taken the old or the waiting value of any since the
/// look: one may be made of another.
///
/// Whoever calls it holds back readers until the write is submitted.
pub(crate) fn settle_over(all: &[(&Waiting, Tensor)]) -> bool {
    let mut order: Vec<&(&Waiting, Tensor)> = all.iter().collect();
    order.sort_unstable_by_key(|(waiting, _)| waiting.parameter.address());
    let mut contents: Vec<_> = order.iter().map(|(w, _)| w.parameter.write()).collect();
    let same = order.iter().zip(&contents).all(|((waiting, _), content)| {
        content.stored.id() == waiting.stored.id()
            && content.pending.as_ref().map(Tensor::id) == Some(waiting.value.id())
            && waiting.parameter.0.gets.load(Ordering::Relaxed) == waiting.gets
    });
    if same {
        for ((waiting, value), content) in order.iter().zip(&mut contents) {
            waiting.settle_in(content, value.clone());
        }
    }
    same
}

/// Computes the waiting values of all parameters, together, on their engines; those that were never
/// computed are computed, too. Cells named twice count once.
///
/// In a function that is being captured it does nothing: there the values wait for the end of the
/// function anyway.
///
/// # Errors
/// From compiling, or from the device; then those of this engine wait as before.
pub fn commit(parameters: &[Parameter]) -> Result<()> {
    commit_with(&[], parameters, &[])
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
        let mut here: Vec<&Parameter> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for parameter in parameters {
            if parameter.read().stored.engine() == &engine && seen.insert(parameter.address()) {
                here.push(parameter);
            }
        }
        let waiting: Vec<Waiting> = here.iter().filter_map(|p| p.waiting()).collect();
        let on = |t: &&Tensor| t.engine() == &engine;
        let missing = |t: &&Tensor| on(t) && t.storage().is_none();
        let roots: Vec<Tensor> = roots.iter().filter(missing).cloned().collect();
        let cut: Vec<Tensor> = cut.iter().filter(on).cloned().collect();
        if !roots.is_empty() || !waiting.is_empty() {
            engine.0.update(&roots, &waiting, &cut)?;
        }
        for tensor in &cut {
            tensor.node().cut();
        }
    }
    Ok(())
}
