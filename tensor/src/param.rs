//! State that outlives a graph: weights, running statistics, counters, optimizer moments.

use std::sync::{Arc, RwLock};

use crate::error::{Error, Result};
use crate::graph::{Engine, Op, Tensor};

/// A shared cell with a tensor. Clones share the cell.
///
/// The tensor that it was made with keeps its memory for good; [`Parameter::set`] gives the cell a
/// new value lazily, and [`commit`] computes the new values of many cells at once and writes each
/// into the memory of its cell, so that captured work sees them under the same addresses.
#[derive(Clone, Debug)]
pub struct Parameter(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    trainable: bool,
    content: RwLock<Content>,
}

#[derive(Clone, Debug)]
struct Content {
    stored: Tensor,
    pending: Option<Tensor>,
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
        Parameter(Arc::new(Cell { trainable, content }))
    }

    /// Whether optimizers may change it.
    pub fn is_trainable(&self) -> bool {
        self.0.trainable
    }

    fn content(&self) -> Content {
        self.0
            .content
            .read()
            .unwrap_or_else(|broken| broken.into_inner())
            .clone()
    }

    /// The current value: the same node until the next [`Parameter::set`] or [`commit`].
    pub fn get(&self) -> Tensor {
        let content = self.content();
        content.pending.unwrap_or(content.stored)
    }

    /// A new value, which must have the shape, type and engine of the old one.
    ///
    /// # Errors
    /// Another shape, type or engine.
    pub fn set(&self, value: Tensor) -> Result<()> {
        let old = self.content().stored;
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
        self.write(|content| content.pending = Some(value));
        Ok(())
    }

    fn write(&self, f: impl FnOnce(&mut Content)) {
        f(&mut self
            .0
            .content
            .write()
            .unwrap_or_else(|broken| broken.into_inner()));
    }

    /// The tensor with the memory, and the value that waits to be written into it.
    pub fn pending(&self) -> (Tensor, Option<Tensor>) {
        let content = self.content();
        (content.stored, content.pending)
    }

    /// Drops the waiting value, after it was written by other means than [`commit`].
    pub fn clear_pending(&self) {
        self.write(|content| content.pending = None);
    }

    /// Whether both are one cell.
    pub fn is(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Writes the waiting values of all parameters into their memory, together, on their engines; those
/// that were never computed are computed first. Cells named twice count once.
///
/// # Errors
/// From compiling, or from the device; then nothing is cleared.
pub fn commit(parameters: &[Parameter]) -> Result<()> {
    let mut engines: Vec<Engine> = Vec::new();
    for parameter in parameters {
        let engine = parameter.content().stored.engine().clone();
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    for engine in engines {
        let mut here: Vec<&Parameter> = Vec::new();
        for parameter in parameters {
            if parameter.content().stored.engine() == &engine
                && !here.iter().any(|p| p.is(parameter))
            {
                here.push(parameter);
            }
        }
        // A first value that is still a graph becomes data, and its graph is dropped.
        let fresh: Vec<Tensor> = here
            .iter()
            .map(|p| p.content().stored)
            .filter(|t| t.storage().is_none())
            .collect();
        engine.realize(&fresh.iter().collect::<Vec<_>>())?;
        let pairs: Vec<(Tensor, Tensor)> = here
            .iter()
            .filter_map(|p| {
                let content = p.content();
                content.pending.map(|value| (content.stored, value))
            })
            .collect();
        if !pairs.is_empty() {
            engine.assign(&pairs)?;
        }
        for parameter in here {
            parameter.write(|content| {
                content.pending = None;
                if let Some(data) = content.stored.as_data() {
                    content.stored = data;
                }
            });
        }
    }
    Ok(())
}

impl Tensor {
    /// A realized tensor as plain data on the same memory, without the graph behind it.
    fn as_data(&self) -> Option<Tensor> {
        if matches!(self.node().op, Op::Data) {
            return None;
        }
        let storage = self.storage()?;
        Some(Tensor::stored(
            self.engine(),
            storage,
            self.shape(),
            self.dtype(),
        ))
    }
}
