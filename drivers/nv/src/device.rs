//! [`over`]: a GPU, over an interface that is open.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::device::{Gpu, Opening};
use drivers_gpu::memory::pool::Pool;
use hcq::{Abilities, QueueKind, Result};

use crate::backend::NvBackend;
use crate::hardware::NvHardware;
use crate::hardware::local::Locals;
use crate::hardware::parts;
use crate::options::Options;

/// An NVIDIA GPU.
pub type NvDevice = Gpu<NvHardware>;

/// The GPU of a backend.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`]; [`hcq::Error::Os`] for refused calls.
pub fn over(backend: &Arc<dyn NvBackend>, options: &Options) -> Result<Arc<NvDevice>> {
    let core = Arc::new(Core::new(backend.clone(), options.coredumps.clone()));
    let gpu = backend.gpu();
    let pool = Pool::new(&core);
    // Engines are shared by channels: if there are few, the driver's own copies share one.
    let engines = gpu.copy_engines.max(1);
    let copies = options.copy_queues.clamp(1, engines);
    let opening = Opening {
        arch: gpu.chip.target.into(),
        name: format!("{} at {}", gpu.product, gpu.facts.place),
        units: gpu.units.sms,
        copies,
        can: Abilities {
            poll: true,
            write: true,
            subnormals: true,
        },
        shared: Locals::new(gpu.units),
        drain_timeout: options.drain_timeout,
    };
    let (on, options) = (
        (core.clone(), backend.clone(), pool.clone()),
        options.clone(),
    );
    Gpu::open(&core, &pool, opening, move |kind, index| {
        let mut options = options.clone();
        if (kind, index) == (QueueKind::Copy, copies) {
            options.entries = 0;
        }
        let (core, backend, pool) = &on;
        parts::open(
            core,
            backend,
            pool,
            (kind, index, index % engines),
            &options,
        )
    })
}
