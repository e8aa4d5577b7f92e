//! Kernels on the device: code in its memory, registered by name for fault messages.

use std::fmt::Display;
use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{PlacedKernel, place, refused};
use drivers_gpu::memory::pool::Pool;
use hcq::{KernelImage, Program, Result};

use crate::encode::Setup;
use crate::object::{self, Object, Target};

/// Puts a compiled kernel into device memory. Returns it with the bytes of local memory that it needs for
/// each thread.
///
/// # Errors
/// [`hcq::Error::Program`], [`hcq::Error::OutOfMemory`], the loss of the device.
pub(crate) fn load(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    setup: &Setup,
    image: &KernelImage,
) -> Result<(Program, u32)> {
    let refused = |why: &dyn Display| refused(core, image, why);
    let target = Target {
        arch: setup.arch,
        limits: setup.limits,
        windows: setup.windows,
    };
    let object = Object::parse(&image.bytes, target).map_err(|e| refused(&e))?;
    let kernel = object.kernel(&image.entry).map_err(|e| refused(&e))?;
    kernel.check_layout(&image.args).map_err(|e| refused(&e))?;
    let thread_bytes = kernel.local_bytes().map_err(|e| refused(&e))?;
    let room = (object.bytes() + FETCHED, object::ALIGN);
    let program = place((core, pool), image, room, |base| -> object::Result<_> {
        Ok(PlacedKernel {
            code: object.at(base.0),
            entry: kernel.entry(),
            local_bytes: image.local_bytes,
            launch_words: kernel.launch(base.0, image.local_bytes)?,
        })
    })?;
    Ok((program, thread_bytes))
}

/// Bytes after code that are prefetched: they have to be mapped.
const FETCHED: u64 = 4096;
