//! [`open`]: a GPU, over an interface that is open.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::device::Gpu;
use drivers_gpu::engine::{Engine, RELAY_RING};
use drivers_gpu::memory::pool::Pool;
use hcq::{Abilities, DeviceInfo, Error, QueueKind, Result};

use crate::chip::Language;
use crate::hardware::AmdHardware;
use crate::hardware::parts::{self, QueueSpec};
use crate::hardware::scratch::Scratches;
use crate::interface::AmdInterface;
use crate::options::Options;

/// An AMD GPU.
pub type AmdDevice = Gpu<AmdHardware>;

/// The GPU behind an interface.
///
/// # Errors
/// [`Error::OutOfMemory`]; [`Error::Os`] for what is refused; [`Error::NoDevice`] for options that
/// the GPU cannot have.
pub fn over(interface: &Arc<dyn AmdInterface>, options: &Options) -> Result<Arc<AmdDevice>> {
    let core = Arc::new(Core::new(interface.clone(), options.keeper.clone()));
    let gpu = interface.gpu();
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
    let compute = QueueSpec {
        kind: QueueKind::Compute,
        index: 0,
        language: compute,
    };
    let copy = |index| QueueSpec {
        kind: QueueKind::Copy,
        index,
        language: Language::Sdma,
    };
    let channels = std::iter::once(compute)
        .chain((0..copies).map(copy))
        .map(|spec| parts::open(&core, interface, &pool, &spec, options))
        .collect::<Result<Vec<_>>>()?;
    let own = {
        let (core, pool, interface) = (core.clone(), pool.clone(), interface.clone());
        let options = Options {
            copy_ring: match interface.has_relay() {
                true => RELAY_RING,
                false => 0,
            },
            ..options.clone()
        };
        move || parts::open(&core, &interface, &pool, &copy(copies), &options)
    };
    let units = &gpu.units;
    let engine = Engine::new(
        &core,
        &pool,
        channels,
        Box::new(own),
        Scratches::new(*units),
        options.drain_timeout,
    );
    let info = DeviceInfo {
        id: core.id.clone(),
        interface: interface.name(),
        arch: gpu.chip.name.into(),
        name: format!("AMD {} at {}", gpu.chip.name, gpu.facts.place),
        units: units.simds / units.simds_per_cu.max(1),
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
