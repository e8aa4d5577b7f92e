//! The cell of a parameter, with its pending value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use hcq::Sharing;

use super::donate::donations;
use crate::error::Result;
use crate::graph::{self, Storage, Tensor};

/// A shared cell with a tensor. Clones share the cell.
///
/// [`Parameter::set`] gives the cell a new value lazily, and [`commit`](super::commit) computes the new values of
/// many cells at once. In a captured function ([`crate::Jit`]) the function does both: each call reads the current
/// values, and sets the new ones.
#[derive(Clone, Debug)]
pub struct Parameter(Arc<Cell>);

/// What clones of a parameter share.
#[derive(Debug)]
pub(crate) struct Cell {
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
    /// How often it was set: the number of the pending value.
    sets: u64,
    /// The number of the stored value. A tensor may come again, and does not tell which of two values is the newer one.
    held: u64,
}

/// A new value of a parameter that waits to be computed.
#[derive(Debug)]
pub(crate) struct Waiting {
    parameter: Parameter,
    /// The value that it has in memory.
    pub(super) stored: Tensor,
    /// The value that waits. It is the stored one if that was never computed.
    pub(super) value: Tensor,
    /// Its number among the values that were set.
    number: u64,
    gets: u64,
}

impl Parameter {
    /// The parameter of a cell.
    pub(crate) fn of(cell: Arc<Cell>) -> Parameter {
        Parameter(cell)
    }

    /// Its cell, which may go.
    pub(crate) fn weak(&self) -> Weak<Cell> {
        Arc::downgrade(&self.0)
    }

    /// Gives it a value to wait for.
    pub(super) fn wait_for(&self, value: Tensor) {
        // What goes may wait for a device, for which others must not wait.
        let mut content = self.write();
        content.sets += 1;
        let old = content.pending.replace(value);
        drop(content);
        drop(old);
    }

    /// It waits for nothing.
    pub(crate) fn forget_pending(&self) {
        let mut content = self.write();
        content.held = content.sets;
        let old = content.pending.take();
        drop(content);
        drop(old);
    }

    /// Whether it was set and not computed since.
    pub(super) fn is_set(&self) -> bool {
        self.read().pending.is_some()
    }

    /// A cell with a value.
    pub(super) fn with(stored: Tensor, trainable: bool) -> Parameter {
        let content = RwLock::new(Content {
            stored,
            pending: None,
            sets: 0,
            held: 0,
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

    /// The value of now, whether a function is being captured or not.
    pub(crate) fn current(&self) -> Tensor {
        let content = self.read();
        self.0.gets.fetch_add(1, Ordering::Relaxed);
        let value = content.pending.as_ref().unwrap_or(&content.stored);
        value.clone()
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

    /// Whether both are the same cell.
    pub fn is(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether its value has still to be computed.
    pub(crate) fn waits(&self) -> bool {
        let content = self.read();
        content.pending.is_some() || content.stored.storage().is_none()
    }

    /// What has to be computed, if anything.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        // Alone: who has taken the value before is counted, and who takes it later is found by `gets`.
        let content = self.write();
        let stored = content.stored.clone();
        let (value, number) = match &content.pending {
            Some(pending) => (pending.clone(), content.sets),
            None if stored.storage().is_none() => (stored.clone(), content.held),
            None => return None,
        };
        Some(Waiting {
            parameter: self.clone(),
            stored,
            value,
            number,
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
            && buffer.sharing() == Sharing::Own
            // One of the tensor, and one here.
            && Arc::strong_count(&buffer) <= 2
            && Arc::strong_count(&content.stored.0) == 1
        {
            return Ok((buffer, None));
        }
        let (value, buffer) = copy(&content.stored)?;
        let moved = Moved {
            parameter: self.clone(),
            new: value.clone(),
            old: std::mem::replace(&mut content.stored, value),
        };
        Ok((buffer, Some(moved)))
    }
}

/// A parameter that has other memory than before.
pub(crate) struct Moved {
    parameter: Parameter,
    new: Tensor,
    old: Tensor,
}

impl Moved {
    /// Nothing was written there: the parameter has the value that it had, and so has who took the new one.
    pub(crate) fn back(self) {
        if let Some(old) = self.old.storage() {
            self.new.node().storage.replace(old);
        }
        let mut content = self.parameter.write();
        if content.stored.id() == self.new.id() {
            content.stored = self.old;
        }
    }
}

impl Waiting {
    /// The parameter has this value from now on, in memory. What it was set to in the meantime still
    /// waits; if another thread has computed a value in the meantime, the parameter has that.
    fn settle(&self, value: Tensor) {
        let mut content = self.parameter.write();
        let gone = self.settle_in(&mut content, value);
        drop(content);
        drop(gone);
    }

    /// Returns what goes: it may wait for a device, for which nobody who wants the parameter must wait.
    fn settle_in(&self, content: &mut Content, value: Tensor) -> [Option<Tensor>; 2] {
        let mut gone = [None, None];
        let newest = self.is_pending(content);
        // A first value that was never computed has its number already.
        let same = content.held == self.number && content.stored.id() == self.value.id();
        // Else another thread has computed what is as new, or newer.
        if newest || same || content.held < self.number {
            gone[0] = Some(std::mem::replace(&mut content.stored, value));
            content.held = self.number;
        }
        if newest {
            gone[1] = content.pending.take();
        }
        gone
    }

    /// Whether it is what the parameter waits for.
    fn is_pending(&self, content: &Content) -> bool {
        content.pending.is_some() && content.sets == self.number
    }
}

/// Like [`Waiting::settle`] for all of them, once `submit` has submitted the work that puts the values into the
/// memory of the old ones; `false`, and nothing is changed, if somebody has taken the old or the waiting value of
/// any since the look: one may be made of another.
///
/// # Errors
/// Those of `submit`; nothing is changed then. Nobody gets one of these values meanwhile.
fn settle_over(all: &[(&Waiting, Tensor)], submit: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
    let mut order: Vec<&(&Waiting, Tensor)> = all.iter().collect();
    order.sort_unstable_by_key(|(waiting, _)| waiting.parameter.address());
    // Dropped behind the locks.
    let mut gone = Vec::new();
    let mut contents: Vec<_> = order.iter().map(|(w, _)| w.parameter.write()).collect();
    let same = order.iter().zip(&contents).all(|((waiting, _), content)| {
        content.stored.id() == waiting.stored.id()
            && waiting.is_pending(content)
            && waiting.parameter.0.gets.load(Ordering::Relaxed) == waiting.gets
    });
    if same {
        submit()?;
        for ((waiting, value), content) in order.iter().zip(&mut contents) {
            gone.push(waiting.settle_in(content, value.clone()));
        }
    }
    Ok(same)
}

/// Values that are computed together.
#[derive(Default)]
pub(crate) struct Pending(pub(super) Vec<Waiting>);

impl graph::Waiting for Pending {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn stored(&self, i: usize) -> &Tensor {
        &self.0[i].stored
    }

    fn value(&self, i: usize) -> &Tensor {
        &self.0[i].value
    }

    fn donated(&self, roots: &[Tensor], cut: &[Tensor]) -> Vec<bool> {
        let pairs: Vec<(&Tensor, &Tensor)> = self.0.iter().map(|w| (&w.stored, &w.value)).collect();
        donations(&pairs, roots, cut)
    }

    fn settle(&self, i: usize, value: Tensor) {
        self.0[i].settle(value);
    }

    fn settle_over(
        &self,
        all: &[(usize, Tensor)],
        submit: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let all = all.iter().map(|(i, value)| (&self.0[*i], value.clone()));
        settle_over(&all.collect::<Vec<_>>(), submit)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test may panic.

    use super::*;
    use crate::graph::Engine;

    /// Another thread looks at what waits, and is slow: it settles what was set to something else, and computed, since.
    #[test]
    fn an_older_value_does_not_replace_the_one_before_it_that_was_set_again() {
        let engine = Engine::reference();
        let first = Tensor::from_slice(&engine, &[6_i32, 7], &[2]).unwrap();
        let second = Tensor::from_slice(&engine, &[3_i32, -8], &[2]).unwrap();
        let parameter = Parameter::buffer(first.clone());
        let commit = || {
            parameter
                .waiting()
                .iter()
                .for_each(|w| w.settle(w.value.clone()))
        };
        parameter.set(second.clone()).unwrap();
        let late = parameter.waiting().unwrap();
        parameter.set(first.clone()).unwrap();
        commit();
        late.settle(second.clone());
        assert_eq!(parameter.get().id(), first.id());
        // It is newer than what was there at the look, also where a newer one waits.
        parameter.set(second.clone()).unwrap();
        let early = parameter.waiting().unwrap();
        parameter.set(first.clone()).unwrap();
        early.settle(second.clone());
        assert_eq!(parameter.like().id(), second.id());
        assert_eq!(parameter.get().id(), first.id());
        // What was given up stays given up.
        let given_up = parameter.waiting().unwrap();
        parameter.forget_pending();
        given_up.settle(first.clone());
        assert_eq!(parameter.get().id(), second.id());
    }
}
