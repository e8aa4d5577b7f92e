//! [`over`]: a GPU, over an interface that is open.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::device::{Gpu, Opening};
use drivers_gpu::memory::pool::Pool;
use hcq::{Abilities, Result};

use crate::backend::{QcomBackend, arch};
use crate::hardware::private::Privates;
use crate::hardware::{QcomHardware, parts};
use crate::options::Options;

/// A Qualcomm GPU.
pub type QcomDevice = Gpu<QcomHardware>;

/// The GPU of a backend: one compute queue. Contexts of a GPU share its command processor, so a queue that waits for
/// another one would hold that, too; and copies are kernels anyway.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`]; [`hcq::Error::Os`] for refused calls.
pub fn over(backend: &Arc<dyn QcomBackend>, options: &Options) -> Result<Arc<QcomDevice>> {
    let core = Arc::new(Core::new(backend.clone(), options.coredumps.clone()));
    let gpu = backend.gpu();
    let pool = Pool::new(&core);
    let opening = Opening {
        arch: arch(gpu.chip),
        name: format!(
            "Adreno {} (chip id {:#010x})",
            gpu.chip.name.trim_start_matches('A'),
            gpu.chip_id
        ),
        units: gpu.chip.cores,
        copies: 0,
        can: Abilities {
            poll: true,
            write: true,
            subnormals: false,
        },
        shared: Privates::default(),
        drain_timeout: options.drain_timeout,
    };
    let (on, options) = (
        (core.clone(), backend.clone(), pool.clone()),
        options.clone(),
    );
    Gpu::open(&core, &pool, opening, move |kind, index| {
        let (core, backend, pool) = &on;
        parts::open(core, backend, pool, (kind, index), &options)
    })
}
