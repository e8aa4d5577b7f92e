//! [`Held`]: the scratch memory of a device's kernels, which grows with what is loaded.
//!
//! Packets of PM4 name the memory, so that what was outgrown lives on with those that have it: they
//! take it into [`hcq::Packets::keep`]. It is freed behind the last submission that used it. An AQL
//! queue is told of new memory while it is at rest, and needs the old one no more.

use std::sync::{Arc, Mutex, PoisonError};

use hcq::{Error, MemoryKind, Result};

use crate::encode::{Encoder, Scratch};
use crate::interface::Gpu;
use crate::submit::Channel;
use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::{Piece, Pool};

/// Scratch memory; none before the first kernel that uses some.
#[derive(Default)]
pub(super) struct Held(Mutex<(Scratch, Option<Arc<Piece>>)>);

impl Held {
    /// Makes kernels of a queue have `lane_bytes` for each lane at least. `program` is who wants them.
    ///
    /// # Errors
    /// [`Error::Program`] if no lane can have as much; [`Error::OutOfMemory`]; what
    /// [`Channel::set_queue_scratch`] returns. All stays as it was then.
    pub(super) fn grow(
        &self,
        core: &Core,
        gpu: &Gpu,
        pool: &Arc<Pool>,
        channel: &Channel,
        lane_bytes: u32,
        program: &str,
    ) -> Result<()> {
        // Changed in one step, after everything that can fail.
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has = held.0.lane_bytes;
        if lane_bytes <= has {
            return Ok(());
        }
        let units = gpu.units;
        let plan = |bytes| Scratch::plan(gpu.chip, &units, bytes);
        let least = plan(lane_bytes).ok_or_else(|| Error::Program {
            device: core.id.clone(),
            program: program.into(),
            why: format!(
                "it needs {lane_bytes} bytes of scratch for a lane, which {} cannot have; use fewer \
                 registers and local arrays",
                gpu.chip.name
            ),
        })?;
        let take = |wanted: Scratch| {
            let piece = pool.piece(MemoryKind::Device, wanted.bytes, "scratch memory")?;
            Ok((wanted.at(piece.va()), Arc::new(piece)))
        };
        // Twice as much if it can be had: few kernels make it grow.
        let more = plan(has.saturating_mul(2)).filter(|more| more.lane_bytes > least.lane_bytes);
        let made = match more.map(take) {
            None | Some(Err(Error::OutOfMemory { .. })) => take(least),
            Some(made) => made,
        };
        let (scratch, piece) = made?;
        if matches!(channel.encoder(), Encoder::Aql(_)) {
            channel.set_queue_scratch(&scratch, &held.0)?;
        }
        channel.encoder().set_scratch(scratch, Some(piece.clone()));
        let (_, old) = std::mem::replace(&mut *held, (scratch, Some(piece)));
        if let Some(old) = old {
            channel.retire(old);
        }
        Ok(())
    }
}
