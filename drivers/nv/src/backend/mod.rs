//! [`NvBackend`]: the interface to an NVIDIA GPU: [`Backend`] plus channels.
//!
//! | file | idea |
//! |---|---|
//! | here | the trait, the GPU |
//! | [`channel`] | a channel of the hardware: ring, USERD, doorbell, notifier |
//!
//! Channels are plain structs, as memory is, so that one backend may wrap another. Their resources
//! of the backend are freed with them.

pub mod channel;

use drivers_gpu::backend::{Backend, Facts};
use hcq::Result;

use crate::chip::{Chip, Units};
pub use channel::{ChannelHandle, ChannelKind, ChannelRequest, Classes, HardwareChannel};

/// An interface to one GPU, opened for this process.
pub trait NvBackend: Backend {
    /// The GPU.
    fn gpu(&self) -> &Gpu;

    /// A running channel with an empty ring. No engine is bound to its subchannels.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
    fn channel(&self, request: &ChannelRequest<'_>) -> Result<HardwareChannel>;
}

/// What an interface knows of its GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The vendor-neutral part.
    pub facts: Facts,
    /// As the vendor calls the product: `NVIDIA H100 80GB HBM3`.
    pub product: String,
    /// The chip.
    pub chip: Chip,
    /// Its units.
    pub units: Units,
    /// Copy engines that channels of their own may have.
    pub copy_engines: u32,
}

impl AsRef<Facts> for Gpu {
    fn as_ref(&self) -> &Facts {
        &self.facts
    }
}
