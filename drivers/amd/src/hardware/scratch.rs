//! [`Scratches`]: the scratch memory of a device's kernels, which grows with what is loaded.
//!
//! Packets of PM4 name the memory, so that what was outgrown lives on with those that have it: they
//! take it into [`hcq::Packets::keep`]. It is freed behind the last submission that used it. An AQL
//! queue is told of new memory while it is at rest, and needs the old one no more.

use std::sync::{Arc, Mutex, PoisonError};

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::Loader;
use drivers_gpu::memory::pool::Piece;
use hcq::{Error, MemoryKind, Result};

use super::AmdHardware;
use crate::chip::Units;
use crate::encode::{Encoder, Scratch};

/// The scratch memory of a device; none before the first kernel that uses some.
pub struct Scratches {
    units: Units,
    held: Mutex<(Scratch, Option<Arc<Piece>>)>,
}

impl Scratches {
    /// That of a GPU with these units.
    pub(crate) fn new(units: Units) -> Scratches {
        Scratches {
            units,
            held: Mutex::default(),
        }
    }

    /// Makes kernels of a queue have `lane_bytes` for each lane at least. `program` is who wants them.
    ///
    /// # Errors
    /// [`Error::Program`] if no lane can have as much; [`Error::OutOfMemory`]; what
    /// [`AmdHardware::set_scratch`] returns. All stays as it was then.
    pub(super) fn grow(
        &self,
        on: &Loader<'_, AmdHardware>,
        lane_bytes: u32,
        program: &str,
    ) -> Result<()> {
        // Changed in one step, after everything that can fail.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let has = held.0.lane_bytes;
        if lane_bytes <= has {
            return Ok(());
        }
        let (core, channel) = (on.core, on.channel);
        let hardware = channel.hardware();
        let plan = |bytes| Scratch::plan(hardware.chip, &self.units, bytes);
        let least = plan(lane_bytes).ok_or_else(|| Error::Program {
            device: core.id.clone(),
            program: program.into(),
            why: format!(
                "it needs {lane_bytes} bytes of scratch for a lane, which {} cannot have; use fewer \
                 registers and local arrays",
                hardware.chip.name
            ),
        })?;
        let take = |wanted: Scratch| {
            let piece = on
                .pool
                .piece(MemoryKind::Device, wanted.bytes, "scratch memory")?;
            Ok((wanted.at(piece.va()), Arc::new(piece)))
        };
        // Twice as much if it can be had: few kernels make it grow.
        let more = plan(has.saturating_mul(2)).filter(|more| more.lane_bytes > least.lane_bytes);
        let made = match more.map(take) {
            None | Some(Err(Error::OutOfMemory { .. })) => take(least),
            Some(made) => made,
        };
        let (scratch, piece) = made?;
        if matches!(hardware.encoder, Encoder::Aql(_)) {
            // It has a copy of what it is told, which it reads when the queue is mapped.
            channel.at_rest(|hardware| hardware.set_scratch(core, &scratch, &held.0))?;
        }
        hardware.encoder.set_scratch(scratch, Some(piece.clone()));
        let (_, old) = std::mem::replace(&mut *held, (scratch, Some(piece)));
        if let Some(old) = old {
            channel.retire(old);
        }
        Ok(())
    }
}

impl AmdHardware {
    /// Tells the command processor of an AQL queue, which is at rest, where scratch is, and has the queue
    /// mapped anew.
    ///
    /// # Errors
    /// [`Error::Os`], and it goes on with what it had `before`; the loss of the device, where the queue has left the hardware and
    /// is not back.
    fn set_scratch(&self, core: &Core, scratch: &Scratch, before: &Scratch) -> Result<()> {
        let set = self.write_scratch(core, scratch).map_err(|e| match e {
            gone @ Error::Fault { .. } => core.lose(gone),
            other => other,
        });
        set.inspect_err(|error| {
            if matches!(error, Error::DeviceLost { .. }) {
                return;
            }
            // The kernel may map the queue again at any time, and it reads what is there then.
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
