//! [`AmdDevice`]: a GPU, over an interface that is open.

use std::fmt;
use std::sync::Arc;

use hcq::transport::{Clock, MonotonicClock};
use hcq::{
    Abilities, AllocSpec, Buffer, ClockInfo, Deadline, Device, DeviceInfo, Error, KernelImage,
    MemoryStats, Program, Queue, QueueKind, Result, Signal,
};

use crate::chip::Language;
use crate::engine::Engine;
use crate::interface::AmdInterface;
use crate::options::Options;
use crate::queue::AmdQueue;
use drivers_gpu::core::Core;
use drivers_gpu::memory::buffer;
use drivers_gpu::memory::pool::Pool;
use drivers_gpu::memory::signal::new_signal;

/// A GPU.
///
/// Dropping the last handle (this one, those of its queues and what was bound to them) finishes what
/// was submitted and destroys the queues. Work that stands at a wait which nothing submitted here can
/// end is given up. Buffers, programs and signals keep their memory.
pub struct AmdDevice {
    info: DeviceInfo,
    core: Arc<Core>,
    pool: Arc<Pool>,
    engine: Arc<Engine>,
}

impl AmdDevice {
    /// The GPU behind an interface.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Os`] for what is refused; [`Error::NoDevice`] for options that
    /// the GPU cannot have.
    pub fn open(interface: &Arc<dyn AmdInterface>, options: &Options) -> Result<Arc<AmdDevice>> {
        let core = Arc::new(Core::new(interface.clone()));
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
        let engine = Engine::open(&core, interface, &pool, compute, options, copies)?;
        let units = &gpu.units;
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
        tracing::debug!(device = %info.id, name = info.name, units = info.units, "opened");
        Ok(Arc::new(AmdDevice {
            info,
            core,
            pool,
            engine,
        }))
    }
}

impl Device for AmdDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, spec: AllocSpec) -> Result<Buffer> {
        self.core.lost.check()?;
        buffer::alloc(&self.core, &self.pool, spec)
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn load(&self, image: &KernelImage) -> Result<Arc<Program>> {
        self.core.lost.check()?;
        let (program, lane_bytes) =
            crate::program::load(&self.core, &self.pool, self.engine.chip, image)?;
        self.engine.need_scratch(lane_bytes, &program.name)?;
        Ok(Arc::new(program))
    }

    fn queue(&self, kind: QueueKind, index: u32) -> Result<Arc<dyn Queue>> {
        self.core.lost.check()?;
        match self.engine.channel(kind, index) {
            Some(channel) => Ok(Arc::new(AmdQueue::new(
                self.engine.clone(),
                channel.clone(),
            ))),
            None => Err(Error::Command {
                device: self.info.id.clone(),
                queue: format!("{kind} {index}"),
                command: "open".into(),
                why: format!(
                    "the device was opened with {:?}, numbered from 0",
                    self.info.queues
                ),
            }),
        }
    }

    fn signal(&self, name: &str) -> Result<Signal> {
        self.core.lost.check()?;
        new_signal(&self.core, &self.pool, name, None)
    }

    fn clock(&self) -> Result<ClockInfo> {
        self.core.lost.check()?;
        // An interface may read other clocks of the host than we use: ours is read around it.
        let before = MonotonicClock.now_ns();
        let device_ticks = self.core.interface.ticks()?;
        let after = MonotonicClock.now_ns();
        Ok(ClockInfo {
            hz: self.core.facts().clock_hz,
            host_ns: before + (after - before) / 2,
            device_ticks,
        })
    }

    fn status(&self) -> Result<()> {
        self.core.look()
    }

    fn lose(&self, cause: Error) -> Error {
        self.core.lose(cause)
    }

    fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.engine.synchronize(deadline)
    }
}

impl fmt::Debug for AmdDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AmdDevice({}, {})", self.info.id, self.info.name)
    }
}
