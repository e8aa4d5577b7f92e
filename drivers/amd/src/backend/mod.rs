//! [`AmdBackend`]: the interface to an AMD GPU: [`Backend`] plus queues.
//!
//! | file | idea |
//! |---|---|
//! | here | the trait, the GPU |
//! | [`queue`] | a queue of the hardware: ring, pointers, doorbell |
//!
//! Queues are plain structs, as memory is, so that one backend may wrap another. Their resources
//! of the backend are freed with them.

pub mod queue;

use drivers_gpu::backend::{Backend, Facts};
use hcq::Result;

use crate::chip::{Chip, Units};
pub use queue::{HardwareQueue, QueueHandle, QueueRequest};

/// An interface to one GPU, opened for this process.
pub trait AmdBackend: Backend {
    /// The GPU.
    fn gpu(&self) -> &Gpu;

    /// A queue with an empty ring.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
    fn queue(&self, request: &QueueRequest<'_>) -> Result<HardwareQueue>;
}

/// What an interface knows of its GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The vendor-neutral part.
    pub facts: Facts,
    /// The chip.
    pub chip: &'static Chip,
    /// Its units.
    pub units: Units,
    /// Queues that the copy engines have.
    pub copy_queues: u32,
}

impl AsRef<Facts> for Gpu {
    fn as_ref(&self) -> &Facts {
        &self.facts
    }
}
