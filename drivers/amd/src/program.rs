//! Kernels on the device: code in VRAM, with its name known to whoever explains a fault.

use std::sync::Arc;

use hcq::kernels::Kernel;
use hcq::memory::RemoteMemory;
use hcq::{Error, GpuVa, KernelImage, MemoryKind, Program, Result};

use crate::chip::Chip;
use crate::object::CodeObject;
use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::Pool;
use drivers_gpu::memory::vram::Vram;

/// Puts a compiled kernel into device memory. Returns it with the bytes of scratch that it needs for
/// each lane.
///
/// # Errors
/// [`Error::Program`], [`Error::OutOfMemory`], the loss of the device.
pub(crate) fn load(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    chip: &'static Chip,
    image: &KernelImage,
) -> Result<(Program, u32)> {
    let refused = |why: String| Error::Program {
        device: core.id.clone(),
        program: image.name.clone(),
        why,
    };
    if image.arch != chip.name {
        return Err(refused(format!(
            "compiled for {}, this device runs {}; compile it for this device",
            image.arch, chip.name
        )));
    }
    let object = CodeObject::parse(&image.bytes, chip).map_err(|e| refused(e.to_string()))?;
    let kernel = object
        .kernel(&image.entry)
        .map_err(|e| refused(e.to_string()))?;
    kernel
        .check_layout(&image.args)
        .map_err(|e| refused(e.to_string()))?;
    let what = format!("the code of kernel {}", image.name);
    let code = pool.aligned(MemoryKind::Device, object.bytes(), object.align(), &what)?;
    let base = code.va().0;
    let bytes = object.at(base).map_err(|e| refused(e.to_string()))?;
    let launch = kernel
        .launch(chip, GpuVa(base), image.local_bytes)
        .map_err(|e| refused(e.to_string()))?;
    let code = Arc::new(code);
    Vram::new(core.clone(), code.clone()).write(0, &bytes)?;
    let known = Kernel {
        name: image.name.as_str().into(),
        argument_bytes: image.args.bytes,
    };
    let registration = core.kernels.register(base..base + object.bytes(), known);
    let program = Program {
        name: image.name.clone(),
        entry: GpuVa(base + kernel.descriptor),
        args: image.args.clone(),
        local_bytes: launch.group_bytes,
        launch_words: launch.words(),
        owner: Box::new((registration, code)),
    };
    Ok((program, kernel.scratch_bytes()))
}
