//! A kernel and its numeric arguments.
//!
//! Numbers of the user's graph (a factor, a learning rate, the counter of a random generator) and places that change
//! from call to call are arguments of a kernel, so that kernels that differ in nothing else are one. Whether an
//! argument is passed or compiled in is decided when the kernel is compiled.

use codegen::ir::Kernel;

/// A non-buffer argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// Its bits, as a constant of its type has them.
    pub bits: u64,
    /// It says where elements are, and another place is expected at the next run.
    pub place: bool,
}

/// A kernel with its arguments but buffers.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The kernel, whose numbers are arguments.
    pub kernel: Kernel,
    /// The value of each of them.
    pub values: Vec<Value>,
}

impl Instance {
    /// The kernel with its numbers as constants.
    pub fn constant(&self) -> Kernel {
        let values: Vec<Option<u64>> = self.values.iter().map(|v| Some(v.bits)).collect();
        self.kernel.bound(&values)
    }

    /// The bits of each argument.
    pub fn bits(&self) -> Vec<u64> {
        self.values.iter().map(|v| v.bits).collect()
    }
}
