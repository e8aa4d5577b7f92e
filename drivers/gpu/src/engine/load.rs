//! [`Load`]: kernels, as a vendor puts them into device memory; and [`place`], which does it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use hcq::kernels::Kernel;
use hcq::memory::RemoteMemory;
use hcq::{Error, GpuVa, KernelImage, MemoryKind, Program, Result};

use crate::core::Core;
use crate::memory::pool::Pool;
use crate::memory::vram::Vram;
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

/// A kernel whose code has an address.
pub struct PlacedKernel<'a> {
    /// The contents of that memory.
    pub code: Cow<'a, [u8]>,
    /// Where it is entered, in bytes from there.
    pub entry: u64,
    /// Bytes of memory that a group shares.
    pub local_bytes: u32,
    /// What launches need to know of it.
    pub launch_words: Box<[u32]>,
}

/// Loads the code of a kernel into device memory: `bytes`, aligned to `align`. `at` relocates it for an address. From
/// now on, faults in the code name the kernel.
///
/// # Errors
/// [`Error::Program`], [`Error::OutOfMemory`], the loss of the device.
pub fn place<'a, E: Display>(
    (core, pool): (&Arc<Core>, &Arc<Pool>),
    image: &KernelImage,
    (bytes, align): (u64, u64),
    at: impl FnOnce(GpuVa) -> Result<PlacedKernel<'a>, E>,
) -> Result<Program> {
    let what = format!("the code of kernel {}", image.name);
    let piece = Arc::new(pool.aligned(MemoryKind::Device, bytes, align, &what)?);
    let base = piece.va();
    let placed = at(base).map_err(|why| refused(core, image, &why))?;
    Vram::new(core.clone(), piece.clone()).write(0, &placed.code)?;
    let known = Kernel {
        name: image.name.as_str().into(),
        argument_bytes: image.args.bytes,
    };
    let registration = core.kernels.register(base.0..base.0 + bytes, known);
    Ok(Program {
        name: image.name.clone(),
        entry: GpuVa(base.0 + placed.entry),
        args: image.args.clone(),
        local_bytes: placed.local_bytes,
        launch_words: placed.launch_words,
        owner: Box::new(Code::new(core, (registration, piece))),
    })
}

/// Keeps the code of a program, and its name. A lost device may still run it: it is freed once the device is stopped.
pub struct Code<T: Any + Send> {
    core: Arc<Core>,
    parts: Option<T>,
}

impl<T: Any + Send> Code<T> {
    /// Of a device.
    pub fn new(core: &Arc<Core>, parts: T) -> Code<T> {
        Code {
            core: core.clone(),
            parts: Some(parts),
        }
    }
}

impl<T: Any + Send> Drop for Code<T> {
    fn drop(&mut self) {
        self.core.lost.let_go(self.parts.take());
    }
}

/// The error of a kernel that cannot be loaded.
pub fn refused(core: &Core, image: &KernelImage, why: &dyn Display) -> Error {
    Error::Program {
        device: core.id.clone(),
        program: image.name.clone(),
        why: why.to_string(),
    }
}
