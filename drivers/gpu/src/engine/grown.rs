//! [`Grown`]: per-thread device memory of kernels (scratch, local memory). Shared by all queues, sized for the most
//! demanding kernel loaded.

use std::sync::{Arc, Mutex};

use hcq::sync::lock;
use hcq::{Error, GpuVa, MemoryKind, Result};

use super::load::{Load, Loader};
use crate::memory::pool::Piece;

/// Such memory, as a vendor plans it.
pub trait Plan: Sized {
    /// Its name.
    const NAME: &'static str;
    /// The alignment of its address, a power of two.
    const ALIGN: u64;

    /// Bytes for each thread.
    fn each(&self) -> u32;

    /// Bytes in all.
    fn bytes(&self) -> u64;

    /// The same, at an address.
    fn at(self, va: GpuVa) -> Self;
}

/// The memory of a device; none before the first kernel that uses some.
pub struct Grown<P>(Mutex<Option<(P, Arc<Piece>)>>);

impl<P> Default for Grown<P> {
    fn default() -> Self {
        Grown(Mutex::default())
    }
}

impl<P: Plan> Grown<P> {
    /// Grows it to at least `each` bytes per thread. `plan` computes the size; `None` if that is more than a thread can
    /// have: the error is `refused`. `tell` gives the new memory to the queues.
    ///
    /// The old memory is freed after all work submitted by then.
    ///
    /// # Errors
    /// [`Error::Program`], [`Error::OutOfMemory`], those of `tell`, without effect.
    pub fn grow<H: Load>(
        &self,
        on: &Loader<'_, H>,
        each: u32,
        plan: impl Fn(u32) -> Option<P>,
        refused: impl FnOnce() -> Error,
        tell: impl FnOnce(&P, &Arc<Piece>, Option<&P>) -> Result<()>,
    ) -> Result<()> {
        // Changed in one step, after everything that can fail.
        let mut held = lock(&self.0);
        let has = held.as_ref().map_or(0, |(plan, _)| plan.each());
        if each <= has {
            return Ok(());
        }
        let least = plan(each).ok_or_else(refused)?;
        let take = |wanted: P| {
            let (bytes, align) = (wanted.bytes(), P::ALIGN);
            let piece = on.pool.aligned(MemoryKind::Device, bytes, align, P::NAME)?;
            Ok((wanted.at(piece.va()), Arc::new(piece)))
        };
        // Twice as much if it can be had: few kernels make it grow.
        let more = plan(has.saturating_mul(2)).filter(|more| more.each() > least.each());
        let made = match more.map(take) {
            None | Some(Err(Error::OutOfMemory { .. })) => take(least),
            Some(made) => made,
        };
        let (new, piece) = made?;
        tell(&new, &piece, held.as_ref().map(|(old, _)| old))?;
        if let Some((_, old)) = held.replace((new, piece)) {
            on.channel.retire(old);
        }
        Ok(())
    }
}
