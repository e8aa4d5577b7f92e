//! [`open`]: a GPU, over an interface that is open.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::device::{Gpu, Opening};
use drivers_gpu::engine::RELAY_RING;
use drivers_gpu::memory::pool::Pool;
use hcq::{Abilities, Error, QueueKind, Result};

use crate::backend::AmdBackend;
use crate::chip::Language;
use crate::hardware::AmdHardware;
use crate::hardware::parts;
use crate::hardware::scratch::Scratches;
use crate::options::Options;

/// An AMD GPU.
pub type AmdDevice = Gpu<AmdHardware>;

/// The GPU of a backend.
///
/// # Errors
/// [`Error::OutOfMemory`]; [`Error::Os`] for refused calls; [`Error::NoDevice`] for options that
/// the GPU does not support.
pub fn over(backend: &Arc<dyn AmdBackend>, options: &Options) -> Result<Arc<AmdDevice>> {
    let core = Arc::new(Core::new(backend.clone(), options.coredumps.clone()));
    let gpu = backend.gpu();
    let pool = Pool::new(&core);
    let compute = match options.compute {
        None => gpu.chip.compute,
        Some(Language::Sdma) => {
            return Err(Error::NoDevice {
                asked: core.id.to_string(),
                why: "compute queues take PM4 or AQL, not SDMA".into(),
            });
        }
        Some(language) => language,
    };
    // One is left for the driver's own copies.
    let most = gpu.copy_queues.saturating_sub(1).max(1);
    let copies = options.copy_queues.clamp(1, most);
    let units = gpu.units;
    let opening = Opening {
        arch: gpu.chip.name.into(),
        name: format!("AMD {} at {}", gpu.chip.name, gpu.facts.place),
        units: units.simds / units.simds_per_cu.max(1),
        copies,
        can: Abilities {
            poll: true,
            write: true,
            subnormals: true,
        },
        shared: Scratches::new(units),
        drain_timeout: options.drain_timeout,
    };
    let (on, options) = (
        (core.clone(), backend.clone(), pool.clone()),
        options.clone(),
    );
    Gpu::open(&core, &pool, opening, move |kind, index| {
        let (core, backend, pool) = &on;
        let language = match kind {
            QueueKind::Compute => compute,
            QueueKind::Copy => Language::Sdma,
        };
        let mut options = options.clone();
        if (kind, index) == (QueueKind::Copy, copies) {
            options.copy_ring = match backend.has_relay() {
                true => RELAY_RING,
                false => 0,
            };
        }
        parts::open(core, backend, pool, (kind, index, language), &options)
    })
}
