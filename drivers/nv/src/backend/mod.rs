//! [`NvBackend`]: the interface to an NVIDIA GPU: [`Backend`] plus channels.
//!
//! | file | idea |
//! |---|---|
//! | here | the trait, the GPU |
//! | [`channel`] | a channel of the hardware: ring, USERD, doorbell, notifier |
//!
//! Channels are plain structs, as memory is, so that one interface may stand in front of another. What they
//! hold of the interface is freed with them.

pub mod channel;

use drivers_gpu::backend::{Backend, Facts};
use hcq::Result;

use crate::chip::{Chip, Units};
pub use channel::{ChannelHandle, ChannelKind, ChannelRequest, Classes, HardwareChannel};

/// An interface to one GPU, opened for this process.
pub trait NvBackend: Backend {
    /// The GPU.
    fn gpu(&self) -> &Gpu;

    /// A channel that runs, with a ring in which there is nothing. Nothing is bound to its subchannels.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
    fn channel(&self, request: &ChannelRequest<'_>) -> Result<HardwareChannel>;
}

/// What an interface knows of its GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// What is the same for all vendors.
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
