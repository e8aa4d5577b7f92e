//! [`Locals`]: the local memory of a device's kernels, which grows with what is loaded.
//!
//! The channel knows where it is, not the launches: what was outgrown is freed behind the words that name
//! the new one, which wait for all grids before.

use std::sync::{Arc, Mutex, PoisonError};

use drivers_gpu::engine::load::Loader;
use drivers_gpu::memory::pool::Piece;
use hcq::{Error, MemoryKind, Packets, Result};

use super::NvHardware;
use crate::chip::Units;
use crate::encode::local::LocalMemory;

/// The local memory of a device; none before the first kernel that uses some.
pub struct Locals {
    units: Units,
    held: Mutex<(u32, Option<Arc<Piece>>)>,
}

impl Locals {
    /// That of a GPU with these units.
    pub(crate) fn new(units: Units) -> Locals {
        Locals {
            units,
            held: Mutex::default(),
        }
    }

    /// Makes kernels of a queue have `thread_bytes` for each thread at least. `program` is who wants them.
    ///
    /// # Errors
    /// [`Error::Program`] if no thread can have as much; [`Error::OutOfMemory`]; what a submission
    /// returns. All stays as it was then.
    pub(super) fn grow(
        &self,
        on: &Loader<'_, NvHardware>,
        thread_bytes: u32,
        program: &str,
    ) -> Result<()> {
        // Changed in one step, after everything that can fail.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let has = held.0;
        if thread_bytes <= has {
            return Ok(());
        }
        let plan = |bytes| LocalMemory::plan(&self.units, bytes);
        let least = plan(thread_bytes).ok_or_else(|| Error::Program {
            device: on.core.id.clone(),
            program: program.into(),
            why: format!(
                "it needs {thread_bytes} bytes of local memory for a thread, which this GPU cannot have; use \
                 fewer registers and local arrays"
            ),
        })?;
        let take = |wanted: LocalMemory| {
            let (bytes, align) = (wanted.bytes, LocalMemory::ALIGN);
            let piece = on
                .pool
                .aligned(MemoryKind::Device, bytes, align, "local memory")?;
            Ok((wanted.at(piece.va()), Arc::new(piece)))
        };
        // Twice as much if it can be had: few kernels make it grow.
        let more =
            plan(has.saturating_mul(2)).filter(|more| more.thread_bytes > least.thread_bytes);
        let made = match more.map(take) {
            None | Some(Err(Error::OutOfMemory { .. })) => take(least),
            Some(made) => made,
        };
        let (local, piece) = made?;
        let encoder = &on.channel.hardware().encoder;
        let mut packets = Packets::new();
        encoder.local_memory(&local, &mut packets);
        on.channel.submit(&mut packets, 0)?;
        encoder.set_local(&local);
        let (_, old) = std::mem::replace(&mut *held, (local.thread_bytes, Some(piece)));
        if let Some(old) = old {
            on.channel.retire(old);
        }
        Ok(())
    }
}
