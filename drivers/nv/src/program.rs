//! Kernels on the device: code in its memory, with its name known to whoever explains a fault.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::Pool;
use drivers_gpu::memory::vram::Vram;
use hcq::kernels::Kernel;
use hcq::memory::RemoteMemory;
use hcq::{Error, GpuVa, KernelImage, MemoryKind, Program, Result};

use crate::encode::Setup;
use crate::object::{self, Object, Target};

/// Puts a compiled kernel into device memory. Returns it with the bytes of local memory that it needs for
/// each thread.
///
/// # Errors
/// [`Error::Program`], [`Error::OutOfMemory`], the loss of the device.
pub(crate) fn load(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    setup: &Setup,
    image: &KernelImage,
) -> Result<(Program, u32)> {
    let refused = |why: String| Error::Program {
        device: core.id.clone(),
        program: image.name.clone(),
        why,
    };
    let target = Target {
        arch: setup.arch,
        limits: setup.limits,
        windows: setup.windows,
    };
    let object = Object::parse(&image.bytes, target).map_err(|e| refused(e.to_string()))?;
    let kernel = object
        .kernel(&image.entry)
        .map_err(|e| refused(e.to_string()))?;
    kernel
        .check_layout(&image.args)
        .map_err(|e| refused(e.to_string()))?;
    let thread_bytes = kernel.local_bytes().map_err(|e| refused(e.to_string()))?;
    let what = format!("the code of kernel {}", image.name);
    let bytes = object.bytes() + FETCHED;
    let code = pool.aligned(MemoryKind::Device, bytes, object::ALIGN, &what)?;
    let base = code.va().0;
    let launch = kernel
        .launch(base, image.local_bytes)
        .map_err(|e| refused(e.to_string()))?;
    let code = Arc::new(code);
    Vram::new(core.clone(), code.clone()).write(0, &object.at(base))?;
    let known = Kernel {
        name: image.name.as_str().into(),
        argument_bytes: image.args.bytes,
    };
    let registration = core.kernels.register(base..base + object.bytes(), known);
    let program = Program {
        name: image.name.clone(),
        entry: GpuVa(base + kernel.entry()),
        args: image.args.clone(),
        local_bytes: image.local_bytes,
        launch_words: launch,
        owner: Box::new((registration, code)),
    };
    Ok((program, thread_bytes))
}

/// Bytes behind code that are fetched ahead: they have to be mapped.
const FETCHED: u64 = 4096;
