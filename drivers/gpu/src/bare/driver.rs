//! [`Driver`]: the operations of a card's driver after the start.

use std::sync::Arc;

use drivers_bundle::Evidence;

use super::function::Function;
use super::mmu::Mmu;
use super::queues::Queues;
use super::told::{Found, Told};
use crate::backend::Facts;

/// A card that its driver has started, and leaves in order when this is dropped.
pub trait Driver: Queues {
    /// What its addresses go through.
    type Mmu: Mmu;
    /// What a handle knows of its GPU.
    type Gpu: AsRef<Facts> + Send + Sync;

    /// The card.
    fn function(&self) -> &Function;

    /// What its addresses go through.
    fn mmu(&self) -> &Arc<Self::Mmu>;

    /// Faults since the last call, with the handles whose queues they are of, as far as the card tells; `told` has the earlier
    /// ones. Clears the fault registers for the next one.
    ///
    /// # Errors
    /// The card cannot be read, or has left the bus.
    fn faults(&self, told: &Told) -> Result<Vec<Found>, Self::Cause>;

    /// Cuts off a card that cannot be stopped from host memory.
    ///
    /// # Errors
    /// It may go on writing there.
    fn cut_off(&self) -> Result<(), Self::Cause>;

    /// Lets packets raise the first interrupt of the function. Returns whether they do: if not, waiting threads poll.
    ///
    /// # Errors
    /// What is in the way.
    fn interrupt(&self) -> Result<bool, Self::Cause>;

    /// The counter of its clock, now.
    ///
    /// # Errors
    /// What is in the way.
    fn ticks(&self) -> Result<u64, Self::Cause>;

    /// Where kernels are now: see [`crate::backend::Backend::places`].
    fn places(&self) -> Option<Vec<u64>>;

    /// What can be read of the card when something has gone wrong, but for page tables. Nothing is changed by looking.
    fn evidence(&self) -> Evidence;
}
