//! A kernel on a device.

use std::fmt;
use std::sync::Arc;

use codegen::{Built, Stage, StageArg};
use hcq::Program;

use crate::error::Result;

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
    /// Of what the compiler made; `program` puts the code of a stage where it runs.
    pub(crate) fn of(
        built: Built,
        mut program: impl FnMut(&Stage) -> Result<Arc<Program>>,
    ) -> Result<Compiled> {
        let mut launches = Vec::with_capacity(built.stages.len());
        for stage in &built.stages {
            launches.push(Launch {
                program: program(stage)?,
                args: stage.args.clone(),
                grid: stage.grid,
                block: stage.block,
            });
        }
        let mut scratch = Vec::with_capacity(built.scratch.len());
        let mut scratch_bytes = 0u64;
        for spec in &built.scratch {
            scratch_bytes = scratch_bytes.next_multiple_of((spec.align as u64).max(64));
            scratch.push(scratch_bytes);
            scratch_bytes += spec.bytes as u64;
        }
        Ok(Compiled {
            launches,
            built,
            scratch,
            scratch_bytes,
        })
    }

    /// What it takes in memory: machine code, on the device as well, and texts.
    pub(super) fn bytes(&self) -> u64 {
        let objects = self.built.stages.iter().map(|s| 2 * s.object.len());
        let sources = self.built.report.source.iter().map(String::len);
        objects.chain(sources).sum::<usize>() as u64 + 1024
    }
}
