//! Running schedules.

pub mod compile;
pub mod compiled;
pub mod engine;
mod faults;
pub mod interpret;
mod known;
pub(crate) mod packed;
pub mod packing;
pub mod preparation;
pub mod profile;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod slice;
pub mod submit;
pub mod trace;

pub use engine::{DeviceExecutor, Options};
pub use interpret::Interpreter;
pub use preparation::Preparation;
pub use profile::{Observer, Run};

use hashbrown::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::graph::{Engine, Op, Storage, Tensor};

impl Engine {
    /// Waits for all work submitted to its device; without a device, returns at once.
    ///
    /// # Errors
    /// A timeout, or the loss of the device; [`Error::Index`] of what it has done.
    pub fn synchronize(&self) -> Result<()> {
        DeviceExecutor::of(self).map_or(Ok(()), DeviceExecutor::synchronize)
    }

    /// Returns the runs since the last call of a profiling engine; see [`trace::write`].
    pub fn take_runs(&self) -> Vec<Run> {
        DeviceExecutor::of(self).map_or_else(Vec::new, DeviceExecutor::take_runs)
    }
}

/// Brings values of other engines, which `roots` need: from device to device where there is a way, else into host
/// memory.
pub(crate) fn copies_from_elsewhere<'a>(roots: impl Iterator<Item = &'a Tensor>) -> Result<()> {
    let mut seen = HashSet::new();
    let mut pending: Vec<Tensor> = roots.cloned().collect();
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor.id()) || tensor.storage().is_some() {
            continue;
        }
        let node = tensor.node();
        match (&node.op, node.src().first()) {
            (Op::Copy, Some(source)) if source.engine() != tensor.engine() => {
                let here = DeviceExecutor::of(tensor.engine());
                let brought = here.map(|here| here.brought(source)).transpose()?;
                node.storage.fill(match brought.flatten() {
                    Some(buffer) => Storage::Device(Arc::new(buffer)),
                    None => Storage::Host(Arc::from(source.to_bytes()?)),
                });
            }
            (Op::Param, _) => {
                return Err(Error::Capture {
                    what:
                        "a value inside a loop body, which differs at each step, was realized or \
                           read; return it as an output of the body"
                            .into(),
                });
            }
            (Op::Given, _) => {
                return Err(Error::Capture {
                    what: format!(
                        "{tensor:?} is a value inside a captured function, but was used outside; return \
                         it as an output of the function"
                    ),
                });
            }
            _ => pending.extend(node.src().iter().cloned()),
        }
    }
    Ok(())
}
