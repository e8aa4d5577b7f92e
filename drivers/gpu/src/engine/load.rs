//! [`Load`]: kernels, as a vendor puts them into device memory.

use std::sync::Arc;

use hcq::{KernelImage, Program, Result};

use crate::core::Core;
use crate::memory::pool::Pool;
use crate::submit::{Channel, Hardware};

/// Queues that run kernels.
pub trait Load: Hardware {
    /// What the queues of a device have in common; freed after all of them.
    type Shared: Send + Sync;

    /// Puts a compiled kernel into device memory, with all that it needs of the queues.
    ///
    /// # Errors
    /// [`hcq::Error::Program`], [`hcq::Error::OutOfMemory`], the loss of the device.
    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program>;
}

/// Where kernels are loaded.
pub struct Loader<'a, H: Load> {
    /// The device.
    pub core: &'a Arc<Core>,
    /// Its memory.
    pub pool: &'a Arc<Pool>,
    /// The queue that runs them.
    pub channel: &'a Channel<H>,
    /// What its queues have in common.
    pub shared: &'a H::Shared,
}
