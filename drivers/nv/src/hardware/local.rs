//! [`Locals`]: the local memory of a device's kernels; it grows with the loaded kernels.
//!
//! Its address is state of the channel, not of launches: outgrown memory is freed after the words that set
//! the new address, which wait for all earlier grids.

use drivers_gpu::engine::grown::{Grown, Plan};
use drivers_gpu::engine::load::Loader;
use hcq::{CommandBuffer, Error, GpuVa, Result};

use super::NvHardware;
use crate::chip::Units;
use crate::encode::local::LocalMemory;

impl Plan for LocalMemory {
    const NAME: &'static str = "local memory";
    const ALIGN: u64 = LocalMemory::ALIGN;

    fn each(&self) -> u32 {
        self.thread_bytes
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn at(self, va: GpuVa) -> LocalMemory {
        LocalMemory::at(self, va)
    }
}

/// The local memory of a device.
pub struct Locals {
    units: Units,
    grown: Grown<LocalMemory>,
}

impl Locals {
    /// That of a GPU with these units.
    pub(crate) fn new(units: Units) -> Locals {
        let grown = Grown::default();
        Locals { units, grown }
    }

    /// Grows the local memory of a queue to at least `thread_bytes` per thread. `program` is the kernel that needs it.
    ///
    /// # Errors
    /// As [`Grown::grow`], and what a submission returns.
    pub(super) fn grow(
        &self,
        on: &Loader<'_, NvHardware>,
        thread_bytes: u32,
        program: &str,
    ) -> Result<()> {
        let plan = |bytes| LocalMemory::plan(&self.units, bytes);
        let refused = || Error::Program {
            device: on.core.id.clone(),
            program: program.into(),
            why: format!(
                "needs {thread_bytes} bytes of local memory per thread, more than this GPU supports; use \
                 fewer registers and local arrays"
            ),
        };
        self.grown
            .grow(on, thread_bytes, plan, refused, |new, _, _| {
                let encoder = &on.channel.hardware().encoder;
                let mut packets = CommandBuffer::new();
                encoder.local_memory(new, &mut packets);
                on.channel.submit_own(&mut packets)?;
                encoder.set_local(new);
                Ok(())
            })
    }
}
