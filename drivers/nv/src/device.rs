//! [`over`]: a GPU, over an interface that is open.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::device::Gpu;
use drivers_gpu::engine::Engine;
use drivers_gpu::memory::pool::Pool;
use hcq::{Abilities, DeviceInfo, QueueKind, Result};

use crate::hardware::NvHardware;
use crate::hardware::local::Locals;
use crate::hardware::parts::{self, QueueSpec};
use crate::interface::NvInterface;
use crate::options::Options;

/// An NVIDIA GPU.
pub type NvDevice = Gpu<NvHardware>;

/// The GPU behind an interface.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`]; [`hcq::Error::Os`] for what is refused.
pub fn over(interface: &Arc<dyn NvInterface>, options: &Options) -> Result<Arc<NvDevice>> {
    let core = Arc::new(Core::new(interface.clone(), options.keeper.clone()));
    let gpu = interface.gpu();
    let pool = Pool::new(&core);
    // Engines are shared by channels: where there are few, the driver's own copies go the same way.
    let engines = gpu.copy_engines.max(1);
    let copies = options.copy_queues.clamp(1, engines);
    let compute = QueueSpec {
        kind: QueueKind::Compute,
        index: 0,
        engine: 0,
    };
    let copy = move |index: u32| QueueSpec {
        kind: QueueKind::Copy,
        index,
        engine: index % engines,
    };
    let channels = std::iter::once(compute)
        .chain((0..copies).map(copy))
        .map(|spec| parts::open(&core, interface, &pool, &spec, options))
        .collect::<Result<Vec<_>>>()?;
    let own = {
        let (core, pool, interface) = (core.clone(), pool.clone(), interface.clone());
        let options = Options {
            entries: 0,
            ..options.clone()
        };
        move || parts::open(&core, &interface, &pool, &copy(copies), &options)
    };
    let units = &gpu.units;
    let locals = Locals::new(*units);
    let drain = options.drain_timeout;
    let engine = Engine::new(&core, &pool, channels, Box::new(own), locals, drain);
    let info = DeviceInfo {
        id: core.id.clone(),
        interface: interface.name(),
        arch: gpu.chip.target.into(),
        name: format!("{} at {}", gpu.product, gpu.facts.place),
        units: units.sms,
        memory: gpu.facts.vram,
        queues: vec![(QueueKind::Compute, 1), (QueueKind::Copy, copies)],
        costs: gpu.facts.costs,
        can: Abilities {
            poll: true,
            write: true,
            subnormals: true,
        },
    };
    Ok(Gpu::new(info, engine))
}
