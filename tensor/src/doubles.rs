//! Whether there is `f64` where tensors are computed.
//!
//! Some devices have none (Adreno 6xx). What is computed in `f64` for its digits alone is computed in `f32` there; what
//! has the type `f64` is refused. A model that is compiled for other machines is traced on an engine that has it: there,
//! the targets decide.

use std::cell::Cell;

use codegen::DType;

use crate::graph::Engine;

thread_local! {
    /// How many [`without`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// The widest float that there is for tensors of an engine.
pub(crate) fn widest(engine: &Engine) -> DType {
    match DEPTH.with(Cell::get) == 0 && engine.0.has_doubles() {
        true => DType::F64,
        false => DType::F32,
    }
}

/// Calls a function whose tensors are for devices without `f64`.
pub(crate) fn without<T>(work: impl FnOnce() -> T) -> T {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _scope = Scope;
    work()
}
