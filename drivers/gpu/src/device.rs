//! [`Gpu`]: a device with running queues.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hcq::transport::{Clock, MonotonicClock};
use hcq::{
    Abilities, AllocSpec, Buffer, ClockInfo, Deadline, Device, DeviceInfo, Error, Import,
    KernelImage, MemoryStats, Program, Queue, QueueKind, Result, Signal,
};

use crate::core::Core;
use crate::engine::Engine;
use crate::engine::load::Load;
use crate::memory::buffer;
use crate::memory::pool::Pool;
use crate::memory::signal::new_signal;
use crate::queue::Handle;
use crate::submit::Channel;

/// A GPU.
///
/// Dropping the last handle (this one, those of its queues and what was bound to them) finishes what
/// was submitted and destroys the queues. Work behind a wait that no submission of this device can
/// end is dropped. Buffers, programs and signals keep their memory.
pub struct Gpu<H: Load> {
    info: DeviceInfo,
    core: Arc<Core>,
    pool: Arc<Pool>,
    engine: Arc<Engine<H>>,
}

/// A vendor's data of a GPU with an open backend.
pub struct Opening<S> {
    /// What compilers call its chip.
    pub arch: String,
    /// What users call it.
    pub name: String,
    /// Its processors.
    pub units: u32,
    /// Copy queues that are offered, beside the compute queue.
    pub copies: u32,
    /// What its queues and kernels can do.
    pub can: Abilities,
    /// What its queues have in common.
    pub shared: S,
    /// How long the end of the device waits for work that still runs while nothing moves.
    pub drain_timeout: Duration,
}

impl<H: Load> Gpu<H> {
    /// The device. `open` opens a queue by its kind and number: the offered ones, and the driver's own copy queue, whose
    /// number follows, when the host first needs it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        opening: Opening<H::Shared>,
        open: impl Fn(QueueKind, u32) -> Result<Channel<H>> + Send + Sync + 'static,
    ) -> Result<Arc<Gpu<H>>> {
        let copies = opening.copies;
        let offered = std::iter::once((QueueKind::Compute, 0))
            .chain((0..copies).map(|index| (QueueKind::Copy, index)));
        let mut channels = Vec::new();
        for (kind, index) in offered {
            match open(kind, index) {
                Ok(channel) => channels.push(channel),
                Err(error) => {
                    let is_stopped = channels.iter().all(Channel::stop);
                    drop(channels);
                    // A device that is lost keeps what its queues may use, and nobody else ends it.
                    if is_stopped {
                        core.lost.stop();
                    }
                    return Err(error);
                }
            }
        }
        let own = Box::new(move || open(QueueKind::Copy, copies));
        let (shared, drain) = (opening.shared, opening.drain_timeout);
        let info = DeviceInfo {
            id: core.id.clone(),
            interface: core.backend.name(),
            arch: opening.arch,
            name: opening.name,
            units: opening.units,
            memory: pool.stats().total,
            queues: vec![(QueueKind::Compute, 1), (QueueKind::Copy, copies)],
            costs: core.facts().costs,
            can: opening.can,
        };
        tracing::debug!(device = %info.id, name = info.name, units = info.units, "opened");
        Ok(Arc::new(Gpu {
            info,
            core: core.clone(),
            pool: pool.clone(),
            engine: Engine::new(core, pool, channels, own, shared, drain),
        }))
    }
}

impl<H: Load> Device for Gpu<H> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, spec: AllocSpec) -> Result<Buffer> {
        self.core.lost.check()?;
        buffer::alloc(&self.core, &self.pool, spec)
    }

    fn import(&self, memory: &Import) -> Result<Buffer> {
        self.core.lost.check()?;
        buffer::import(&self.core, memory)
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        let backend = &self.core.backend;
        let Some(owned) = buffer.owner().downcast_ref::<buffer::Owned>() else {
            return false;
        };
        let is_neighbour = Arc::ptr_eq(&owned.space, backend.space());
        owned.is_of(&self.core) || is_neighbour && backend.reaches(buffer.va().0)
    }

    fn load(&self, image: &KernelImage) -> Result<Arc<Program>> {
        self.core.lost.check()?;
        Ok(Arc::new(self.engine.load(image)?))
    }

    fn queue(&self, kind: QueueKind, index: u32) -> Result<Arc<dyn Queue>> {
        self.core.lost.check()?;
        match self.engine.channel(kind, index) {
            Some(channel) => Ok(Arc::new(Handle::new(self.engine.clone(), channel.clone()))),
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
        let first = self.engine.channel(QueueKind::Compute, 0);
        let event = first.filter(|_| H::WAKES_ALL).map(|c| c.event().clone());
        new_signal(&self.core, &self.pool, name, event)
    }

    fn clock(&self) -> Result<ClockInfo> {
        self.core.lost.check()?;
        // An interface may read other clocks of the host than we use: ours is read around it.
        let before = MonotonicClock.now_ns();
        let device_ticks = self.core.backend.ticks()?;
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
        self.core.give_up(cause)
    }

    fn bundle(&self, cause: &Error) -> Option<String> {
        self.core.keep_check(cause)
    }

    fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.engine.synchronize(deadline)
    }
}

impl<H: Load> fmt::Debug for Gpu<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.info.id, self.info.name)
    }
}
