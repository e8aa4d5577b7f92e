//! [`AmdDevice`]: a GPU, opened through KFD.

use std::fmt;
use std::sync::Arc;

use drivers_spec::amd::kfd::{self, GetClockCountersArgs};
use hcq::transport::{Clock, Machine, MonotonicClock};
use hcq::{
    Abilities, AllocSpec, Buffer, ClockInfo, Costs, Deadline, Device, DeviceId, DeviceInfo, Error,
    KernelImage, MemoryStats, Program, Queue, QueueKind, Result, Signal,
};

use crate::chip::{Chip, Language};
use crate::core::Core;
use crate::core::error::os;
use crate::engine::Engine;
use crate::kfd::call::Call;
use crate::kfd::process::Process;
use crate::kfd::queue::Kind;
use crate::kfd::survey::{Found, Unusable, survey_for};
use crate::memory::buffer;
use crate::memory::pool::Pool;
use crate::memory::signal::new_signal;
use crate::options::{Options, Packets};
use crate::queue::AmdQueue;

/// The short name of the vendor.
const VENDOR: &str = "AMD";

/// A look is one at uncached memory of the host, and PCIe 4.0 moves some 25 GB/s over 16 lanes: both by
/// their order, neither measured. A ring of the usual size holds several batches.
const COSTS: Costs = Costs {
    look_ns: 200,
    kib_ns: 40,
    batch: 64,
    in_flight: 64,
};

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
    /// Opens GPU number `index` of a machine; see [`crate::open`].
    ///
    /// # Errors
    /// As [`crate::open`].
    pub fn open(
        machine: &Arc<dyn Machine>,
        index: u32,
        options: &Options,
    ) -> Result<Arc<AmdDevice>> {
        let id = DeviceId::new(VENDOR, index);
        let (found, chip) = find(&**machine, &id, index)?;
        let Some(node) = found.gpu else {
            return Err(none(&id, "its node is hidden".into()));
        };
        let process = Process::on(&**machine).map_err(|e| none(&id, e.to_string()))?;
        let gpu = process
            .gpu(&**machine, &node)
            .map_err(|e| none(&id, Unusable::from_error(e, &node.render()).to_string()))?;
        process.join(&gpu).map_err(|e| os(&id, e))?;
        let visible = options.host_visible && node.large_bar;
        let core = Core::new(id.clone(), machine, &process, &gpu, chip, visible)?;
        let core = Arc::new(core);
        let pool = Pool::new(&core, options.userptr);
        let compute = match (options.packets, chip.compute) {
            (Packets::Pm4, _) | (Packets::Auto, Language::Pm4) => Kind::Pm4,
            (Packets::Aql, _) | (Packets::Auto, Language::Aql) => Kind::Aql,
        };
        // One is left for the driver's own copies.
        let most = node.copy_queues().saturating_sub(1).max(1);
        let copies = options.copy_queues.clamp(1, most);
        let engine = Engine::open(&core, &pool, compute, options, copies)?;
        let info = DeviceInfo {
            id,
            interface: "KFD",
            arch: chip.name.into(),
            name: format!("AMD {} at {}", chip.name, node.pci()),
            units: node.compute_units(),
            memory: node.vram,
            queues: vec![(QueueKind::Compute, 1), (QueueKind::Copy, copies)],
            costs: COSTS,
            can: Abilities {
                poll: true,
                write: true,
                host_set: true,
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

    /// Loses the device as a hardware fault would: a tool for tests of what lies above.
    pub fn inject_fault(&self, reason: &str) {
        self.lose(Error::Fault {
            device: self.info.id.clone(),
            unit: "injected fault".into(),
            what: reason.into(),
        });
    }
}

/// The GPU of that number, and its chip.
fn find(machine: &dyn Machine, id: &DeviceId, index: u32) -> Result<(Found, &'static Chip)> {
    let survey = survey_for(machine, index);
    if let Err(why) = &survey.driver {
        return Err(none(id, why.to_string()));
    }
    let count = survey.gpus.iter().filter(|g| g.index.is_some()).count();
    let others: Vec<_> = survey
        .gpus
        .iter()
        .filter(|g| g.index.is_none())
        .filter_map(|g| g.unusable.as_ref().map(ToString::to_string))
        .collect();
    let found = survey.gpus.into_iter().find(|g| g.index == Some(index));
    let Some(found) = found else {
        let mut why = match count {
            0 => "KFD has no GPU that is supported".to_string(),
            1 => "KFD has one GPU that is supported, number 0".into(),
            n => format!(
                "KFD has {n} GPUs that are supported, numbers 0 to {}",
                n - 1
            ),
        };
        if !others.is_empty() {
            why += &format!("; beside them: {}", others.join("; "));
        }
        return Err(none(id, why));
    };
    match (&found.unusable, found.chip) {
        (None, Some(chip)) => Ok((found, chip)),
        (why, _) => {
            let why = why.as_ref().map(ToString::to_string);
            Err(none(id, why.unwrap_or_default()))
        }
    }
}

fn none(id: &DeviceId, why: String) -> Error {
    Error::NoDevice {
        asked: id.to_string(),
        why,
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
        let (program, lane_bytes) = crate::program::load(&self.core, &self.pool, image)?;
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
        let mut args = GetClockCountersArgs {
            gpu_id: self.core.gpu.id,
            ..GetClockCountersArgs::default()
        };
        // The kernel reads other clocks of the host than we use: ours is read around the call.
        let before = MonotonicClock.now_ns();
        self.core
            .process
            .kfd
            .call(kfd::GET_CLOCK_COUNTERS, &mut args)
            .map_err(|e| os(&self.info.id, e))?;
        let after = MonotonicClock.now_ns();
        Ok(ClockInfo {
            hz: u64::from(self.core.gpu.info.gpu_counter_freq) * 1000,
            host_ns: before + (after - before) / 2,
            device_ticks: args.gpu_clock_counter,
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
