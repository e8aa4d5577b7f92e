//! Kernels on the device: code in VRAM, registered with its name for fault reports.

use std::fmt::Display;
use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{PlacedKernel, place, refused};
use drivers_gpu::memory::pool::Pool;
use hcq::{KernelImage, Program, Result};

use crate::chip::Chip;
use crate::object::{self, CodeObject};

/// Puts a compiled kernel into device memory. Returns it with the bytes of scratch that it needs for
/// each lane.
///
/// # Errors
/// [`hcq::Error::Program`], [`hcq::Error::OutOfMemory`], the loss of the device.
pub(crate) fn load(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    chip: &'static Chip,
    image: &KernelImage,
) -> Result<(Program, u32)> {
    let refused = |why: &dyn Display| refused(core, image, why);
    if image.arch != chip.name {
        return Err(refused(&format!(
            "compiled for {}, this device runs {}; compile it for this device",
            image.arch, chip.name
        )));
    }
    let object = CodeObject::parse(&image.bytes, chip).map_err(|e| refused(&e))?;
    let kernel = object.kernel(&image.entry).map_err(|e| refused(&e))?;
    kernel.check_layout(&image.args).map_err(|e| refused(&e))?;
    let room = (object.bytes(), object.align());
    let program = place((core, pool), image, room, |base| -> object::Result<_> {
        let launch = kernel.launch(chip, base, image.local_bytes)?;
        Ok(PlacedKernel {
            code: object.at(base.0)?,
            entry: kernel.descriptor,
            local_bytes: launch.group_bytes,
            launch_words: launch.words(),
        })
    })?;
    Ok((program, kernel.scratch_bytes()))
}
