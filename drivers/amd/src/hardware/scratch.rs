//! [`Scratches`]: the scratch memory of a device's kernels; it grows with the loaded kernels.
//!
//! PM4 packets contain its address, so they keep outgrown memory alive by
//! [`hcq::CommandBuffer::keep`]. It is freed after the last submission that used it. An AQL
//! queue gets the new memory while it is idle, and then no longer needs the old one.

use drivers_gpu::core::Core;
use drivers_gpu::engine::grown::{Grown, Plan};
use drivers_gpu::engine::load::Loader;
use hcq::{Error, GpuVa, Result};

use super::AmdHardware;
use crate::chip::Units;
use crate::encode::{Encoder, Scratch};

impl Plan for Scratch {
    const NAME: &'static str = "scratch memory";
    const ALIGN: u64 = 256;

    fn each(&self) -> u32 {
        self.lane_bytes
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn at(self, va: GpuVa) -> Scratch {
        Scratch::at(self, va)
    }
}

/// The scratch memory of a device.
pub struct Scratches {
    units: Units,
    grown: Grown<Scratch>,
}

impl Scratches {
    /// That of a GPU with these units.
    pub(crate) fn new(units: Units) -> Scratches {
        let grown = Grown::default();
        Scratches { units, grown }
    }

    /// Grows the scratch of a queue to at least `lane_bytes` per lane. `program` is the kernel that needs them.
    ///
    /// # Errors
    /// As [`Grown::grow`].
    pub(super) fn grow(
        &self,
        on: &Loader<'_, AmdHardware>,
        lane_bytes: u32,
        program: &str,
    ) -> Result<()> {
        let (core, channel) = (on.core, on.channel);
        let hardware = channel.hardware();
        let plan = |bytes| Scratch::plan(hardware.chip, &self.units, bytes);
        let refused = || Error::Program {
            device: core.id.clone(),
            program: program.into(),
            why: format!(
                "needs {lane_bytes} bytes of scratch per lane, more than {} supports; use fewer \
                 registers and local arrays",
                hardware.chip.name
            ),
        };
        self.grown
            .grow(on, lane_bytes, plan, refused, |new, piece, old| {
                if matches!(hardware.encoder, Encoder::Aql(_)) {
                    let old = old.copied().unwrap_or_default();
                    // It reads its copy when the queue is mapped.
                    channel.quiesce(|hardware| hardware.set_scratch(core, new, &old))?;
                }
                hardware.encoder.set_scratch(*new, Some(piece.clone()));
                Ok(())
            })
    }
}

impl AmdHardware {
    /// Sets the scratch address of an idle AQL queue, and maps the queue
    /// again.
    ///
    /// # Errors
    /// [`Error::Os`], and the queue keeps the memory of `before`; the loss of the device, if the queue was unmapped and cannot
    /// be mapped again.
    fn set_scratch(&self, core: &Core, scratch: &Scratch, before: &Scratch) -> Result<()> {
        let set = self.write_scratch(core, scratch).map_err(|e| match e {
            gone @ Error::Fault { .. } => core.lose(gone),
            other => other,
        });
        set.inspect_err(|error| {
            if matches!(error, Error::DeviceLost { .. }) {
                return;
            }
            // The kernel driver may map the queue again at any time, and then reads the current contents.
            if let Err(error) = self.write_scratch(core, before) {
                core.lose(error);
            }
        })
    }

    fn write_scratch(&self, core: &Core, scratch: &Scratch) -> Result<()> {
        use drivers_spec::amd::aql::queue::{
            COMPUTE_TMPRING_SIZE, SCRATCH_BACKING_MEMORY_LOCATION, SCRATCH_RESOURCE_DESCRIPTOR,
            SCRATCH_WAVE64_LANE_BYTE_SIZE,
        };
        let base = scratch.base;
        let resource = scratch.resource(self.chip).unwrap_or_default();
        let fields: [(usize, &[u32]); 4] = [
            (COMPUTE_TMPRING_SIZE, &[scratch.tmpring]),
            (SCRATCH_RESOURCE_DESCRIPTOR, &resource),
            (SCRATCH_BACKING_MEMORY_LOCATION, &[base.lo(), base.hi()]),
            (SCRATCH_WAVE64_LANE_BYTE_SIZE, &[scratch.lane_bytes]),
        ];
        let queue = self.ring.own().queue();
        let broken = |e| core.broken("compute 0", e);
        for (at, words) in fields {
            let written = queue.control.write_words(at as u64, words);
            written.map_err(broken)?;
        }
        queue.control.flush().map_err(broken)?;
        queue.handle.remap()
    }
}
