//! [`QcomBackend`]: the interface to an Adreno GPU: [`Backend`] plus contexts.
//!
//! | file | idea |
//! |---|---|
//! | here | the trait, the GPU |
//! | [`context`] | a context of a kernel driver: submissions, and how far it is |
//! | [`driver`] | a GPU of a kernel driver as a backend |
//! | [`sleeper`] | threads that sleep until a submission ends |
//! | [`heap`] | memory objects by address |
//! | [`few`] | short lists without allocations |
//! | [`retry`] | calls with typed arguments, made again where the driver asks for that |
//! | [`unusable`] | why a GPU cannot be used |
//!
//! A context is a trait object: one call of the kernel driver is a submission, which costs far more.

pub mod context;
pub mod driver;
pub mod few;
pub mod heap;
pub mod retry;
pub mod sleeper;
pub mod unusable;

use std::sync::Arc;

use drivers_gpu::backend::{Backend, Event, Facts};
use drivers_spec::qcom::chip::Chip;
use hcq::Result;

pub use unusable::Unusable;

pub use context::{ContextHandle, Failure, IndirectBuffer, Progress};

/// An interface to one GPU, opened for this process.
pub trait QcomBackend: Backend {
    /// The GPU.
    fn gpu(&self) -> &Gpu;

    /// A context, whose end of submissions wakes those who sleep on `event`: of this backend, and of no other context.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
    fn context(&self, event: &Event, priority: u32) -> Result<Arc<dyn ContextHandle>>;
}

/// What an interface knows of its GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The vendor-neutral part.
    pub facts: Facts,
    /// The chip.
    pub chip: &'static Chip,
    /// Its id, with the patch level.
    pub chip_id: u32,
}

/// What compilers call a chip: `a630`.
pub fn arch(chip: &Chip) -> String {
    chip.name.to_ascii_lowercase()
}
