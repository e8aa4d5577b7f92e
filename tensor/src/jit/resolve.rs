//! What a captured function uses from outside: values, which are computed once and for all.

use hashbrown::HashSet;

use super::{capture, tracing};
use crate::error::Result;
use crate::graph::{Engine, Op, Tensor};

/// Computes what is older than the trace (`first` is the number of the next tensor when it began) and still
/// lazy: a weight that was drawn or loaded before, a value from another engine. A replay would compute it
/// again. What only says where elements of memory are that others may change stays: replays read that memory.
///
/// # Errors
/// A copy from another engine that the function itself makes; those of compiling and of the device.
pub(super) fn resolve(engine: &Engine, roots: &[Tensor], first: u64) -> Result<()> {
    compute(engine, roots, first, |t| !cheap(t) && !is_look(t))
}

/// [`resolve`] for copies from other engines alone.
///
/// # Errors
/// As there.
pub(super) fn older_copies(engine: &Engine, roots: &[Tensor], first: u64) -> Result<()> {
    compute(engine, roots, first, |tensor| {
        foreign(tensor, engine).is_some()
    })
}

/// What a copy from another engine is made of.
fn foreign(tensor: &Tensor, engine: &Engine) -> Option<Tensor> {
    match &tensor.node().op {
        Op::Copy => tensor.node().src().first().cloned(),
        _ => None,
    }
    .filter(|source| source.engine() != engine)
}

fn compute(
    engine: &Engine,
    roots: &[Tensor],
    first: u64,
    wanted: impl Fn(&Tensor) -> bool,
) -> Result<()> {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut pending: Vec<Tensor> = roots.to_vec();
    let mut older: Vec<Tensor> = Vec::new();
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor.id()) {
            continue;
        }
        if tensor.engine() != engine {
            return Err(capture(format!(
                "{tensor:?} is on {}; copy it before the call, and pass it as an input",
                tensor.engine().name()
            )));
        }
        if tensor.storage().is_some() {
            continue;
        }
        if tensor.id() < first && wanted(&tensor) {
            older.push(tensor);
        } else if let Some(source) = foreign(&tensor, engine) {
            return Err(capture(format!(
                "{source:?} is on {} and copied inside the function; copy it before the call, and pass \
                 it as an input",
                source.engine().name()
            )));
        } else {
            pending.extend(tensor.node().src().iter().cloned());
        }
    }
    if older.is_empty() {
        return Ok(());
    }
    tracing::outside(engine, || engine.realize(&older.iter().collect::<Vec<_>>()))
}

/// Whether it is one number, however often: cheaper to have in a kernel than to load.
fn cheap(tensor: &Tensor) -> bool {
    let mut at = tensor.clone();
    loop {
        let below = match &at.node().op {
            Op::Const(_) | Op::Iota | Op::Given => return true,
            Op::Reshape | Op::Expand | Op::Permute(_) | Op::Cast | Op::Detach => {
                at.node().src().first().cloned()
            }
            _ => return false,
        };
        match below {
            Some(source) if source.storage().is_none() => at = source,
            _ => return false,
        }
    }
}

/// Whether it is a view of memory that others have, too.
fn is_look(tensor: &Tensor) -> bool {
    let mut at = tensor.clone();
    while at.storage().is_none() && at.node().op.is_movement() {
        let Some(below) = at.node().src().first().cloned() else {
            return false;
        };
        at = below;
    }
    at.is_shared()
}
