//! A kernel on a device.

use std::fmt;
use std::sync::Arc;

use codegen::{Built, StageArg};
use hcq::Program;

/// One launch of a compiled kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The code on the device.
    pub program: Arc<Program>,
    /// What each argument is.
    pub args: Vec<StageArg>,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items per workgroup.
    pub block: [u32; 3],
}

/// A kernel on a device.
pub struct Compiled {
    /// Its launches, in order.
    pub launches: Vec<Launch>,
    /// The result of the compiler.
    pub built: Built,
    /// Offset of each scratch block.
    pub scratch: Vec<u64>,
    /// Size of all of them.
    pub scratch_bytes: u64,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("launches", &self.launches)
            .field("scratch_bytes", &self.scratch_bytes)
            .finish_non_exhaustive()
    }
}

impl Compiled {
    /// What it takes in memory: machine code, on the device as well, and texts.
    pub(super) fn bytes(&self) -> u64 {
        let objects = self.built.stages.iter().map(|s| 2 * s.object.len());
        let sources = self.built.report.source.iter().map(String::len);
        objects.chain(sources).sum::<usize>() as u64 + 1024
    }
}
