//! [`Privates`]: the private memory of a device's kernels; it grows with the loaded kernels.
//!
//! Launches contain its address, so they keep outgrown memory alive by [`hcq::CommandBuffer::keep`]. It is freed after the
//! last submission that used it.

use drivers_gpu::engine::grown::{Grown, Plan};
use drivers_gpu::engine::load::Loader;
use hcq::{Error, GpuVa, Result};

use super::QcomHardware;
use crate::encode::private::Private;

impl Plan for Private {
    const NAME: &'static str = "private memory";
    // The registers take multiples of 32; pages of the GPU are not shared with other memory then.
    const ALIGN: u64 = 4096;

    fn each(&self) -> u32 {
        self.fiber_bytes
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn at(self, va: GpuVa) -> Private {
        Private::at(self, va)
    }
}

/// The private memory of a device.
#[derive(Default)]
pub struct Privates(Grown<Private>);

impl Privates {
    /// Grows the private memory of a queue to at least `fiber_bytes` per fiber. `program` is the kernel that needs them.
    ///
    /// # Errors
    /// As [`Grown::grow`].
    pub(super) fn grow(
        &self,
        on: &Loader<'_, QcomHardware>,
        fiber_bytes: u32,
        program: &str,
    ) -> Result<()> {
        let encoder = &on.channel.hardware().encoder;
        let chip = encoder.setup().chip;
        let plan = |bytes| Private::plan(chip, bytes);
        let refused = || Error::Program {
            device: on.core.id.clone(),
            program: program.into(),
            why: format!(
                "needs {fiber_bytes} bytes of private memory per fiber, more than {} supports; use fewer registers and \
                 local arrays",
                chip.name
            ),
        };
        self.0
            .grow(on, fiber_bytes, plan, refused, |new, piece, _| {
                encoder.set_private(*new, Some(piece.clone()));
                Ok(())
            })
    }
}
