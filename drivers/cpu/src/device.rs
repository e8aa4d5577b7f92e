//! [`CpuDevice`]: the device.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::CoredumpWriter;
use drivers_gpu::core::Core;
use drivers_gpu::device::{self as gpu, Gpu};
use drivers_gpu::memory::pool::Pool;
use drivers_gpu::memory::signal::new_timeline;
use drivers_gpu::submit::{Channel, Parts};
use drivers_host::cpuinfo::CpuInfo;
use hcq::{Abilities, Costs, Device, DeviceId, Error, MemoryKind, QueueKind, Result};

use crate::backend::{CpuBackend, RuntimeBackend, system_memory};
use crate::encode::Encoder;
use crate::guard::Floats;
use crate::hardware::CpuHardware;
use crate::processor::Processor;
use crate::progress::{Progress, Worker};
use crate::ring::{CpuRing, RingMemory};
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::workers::Workers;

/// How to open the CPU.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of the device: several may be open in a process, with threads and memory of their
    /// own.
    pub index: u32,
    /// Threads that run kernels; 0 for as many as this process may use.
    pub cores: usize,
    /// Size of each command ring in words, 16 to 64 Mi.
    pub ring_words: u32,
    /// Bytes that may be allocated; 0 for what the machine has.
    pub memory: u64,
    /// How long a submission waits for room in a full ring while nothing moves: see [`hcq::progress`].
    pub ring_timeout: Duration,
    /// Whether kernels compute with subnormal numbers. They take one to two hundred cycles each on
    /// many processors and mean nothing to a network, whose weights and states decay into them: so
    /// unless this is set they are zeros, to kernels and to nobody else in the process.
    pub subnormals: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            index: 0,
            cores: 0,
            // 64 KiB: several hundred launches ahead.
            ring_words: 16 << 10,
            memory: 0,
            ring_timeout: Duration::from_secs(30),
            subnormals: false,
        }
    }
}

/// How long an idle thread spins before it sleeps: about as long as a wake-up takes.
const SPIN: Duration = Duration::from_micros(50);

/// Words that a ring may have: room for the largest packet of fixed size, up to 256 MiB.
const RING_WORDS: RangeInclusive<u32> = 16..=64 << 20;

/// Stack of the threads that run kernels: it has their local arrays.
const KERNEL_STACK: usize = 8 << 20;

/// A ring of the usual size holds several hundred launches, and a batch takes a worker 20 µs at the least.
const COSTS: Costs = Costs {
    batch: 64,
    in_flight: 64,
};

/// The least words of a ring: fences have room beside submissions.
const LEAST_WORDS: u32 = 256;

/// The end of the device waits for work as long as it goes on: what stands at waits is given up before.
const DRAIN: Duration = Duration::from_secs(1 << 40);

/// The CPU, to be opened.
///
/// Dropping the last handle (of the device and of its queues) finishes what was submitted and
/// ends the threads. Work that is blocked in a wait which nothing submitted here can end is given
/// up. A kernel that never returns cannot be stopped, and holds the drop as well; whoever waits for it waits as long as
/// it runs, unless the deadline bounds the work ([`Deadline::within`](hcq::Deadline::within)).
pub struct CpuDevice;

/// What a device is opened with.
struct Opening {
    config: Config,
    core: Arc<Core>,
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    cores: usize,
    spin: Duration,
    floats: Floats,
}

impl CpuDevice {
    /// Opens the CPU.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Os`] if the system gives no threads; [`Error::Command`]
    /// for a ring that is too small.
    pub fn open(config: Config) -> Result<Arc<dyn Device>> {
        drivers_host::fork::watch();
        let id = DeviceId::new("CPU", config.index);
        check_ring(&id, config.ring_words)?;
        let cpu = CpuInfo::read();
        let cores = match config.cores {
            0 => cpu.cores,
            n => n,
        };
        let total = match config.memory {
            0 => system_memory(),
            n => n,
        };
        let subnormals = config.subnormals;
        let backend = CpuBackend::new(id.clone(), total, COSTS);
        let core = Arc::new(Core::new(Arc::new(backend), None));
        let opening = Opening {
            pool: Pool::new(&core),
            shared: Arc::new(Shared::new(&core, None)),
            core,
            cores,
            // Helpers that spin on a single processor only keep the work from being done.
            spin: if cpu.cores > 1 { SPIN } else { Duration::ZERO },
            floats: match subnormals {
                true => Floats::Ieee,
                false => Floats::Flushed,
            },
            config,
        };
        let about = gpu::Opening {
            arch: std::env::consts::ARCH.into(),
            name: cpu.model.unwrap_or_else(|| std::env::consts::ARCH.into()),
            units: cores as u32,
            copies: 1,
            can: Abilities {
                poll: true,
                write: true,
                subnormals,
            },
            shared: opening.shared.clone(),
            drain_timeout: DRAIN,
        };
        let (core, pool) = (opening.core.clone(), opening.pool.clone());
        let device = Gpu::open(&core, &pool, about, move |kind, index| match index {
            0 => opening.queue(kind, 0),
            // The host can access all memory without copies.
            _ => Err(opening.core.closed()),
        })?;
        Ok(device)
    }
}

fn check_ring(device: &DeviceId, words: u32) -> Result<()> {
    if RING_WORDS.contains(&words) {
        return Ok(());
    }
    Err(Error::Command {
        device: device.clone(),
        queue: "any".into(),
        command: "open".into(),
        why: format!(
            "a ring of {words} words, expected {} to {}",
            RING_WORDS.start(),
            RING_WORDS.end()
        ),
    })
}

/// How to open a device of a runtime.
#[derive(Clone)]
pub struct RuntimeConfig {
    /// As in [`Config`].
    pub ring_words: u32,
    /// As in [`Config`].
    pub ring_timeout: Duration,
    /// How long the end of the device waits for work while nothing moves, and then for a call of the runtime's that does
    /// not return.
    pub drain_timeout: Duration,
    /// Where bundles go; none if nothing is kept.
    pub coredumps: Option<Arc<CoredumpWriter>>,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        let usual = Config::default();
        RuntimeConfig {
            ring_words: usual.ring_words,
            ring_timeout: usual.ring_timeout,
            drain_timeout: Duration::from_secs(10),
            coredumps: None,
        }
    }
}

/// A device of a runtime, with queues like those of the CPU: see [`crate::runtime`].
///
/// # Errors
/// Those of the runtime; [`Error::OutOfMemory`]; [`Error::Os`] if the system gives no threads; [`Error::Command`] for a
/// ring that is too small.
pub fn open_runtime(runtime: Arc<dyn Runtime>, options: RuntimeConfig) -> Result<Arc<dyn Device>> {
    drivers_host::fork::watch();
    check_ring(runtime.id(), options.ring_words)?;
    let cpu = CpuInfo::read();
    let backend = RuntimeBackend::new(&runtime, COSTS);
    let core = Arc::new(Core::new(Arc::new(backend), options.coredumps));
    let about = runtime.about();
    let config = Config {
        ring_words: options.ring_words,
        ring_timeout: options.ring_timeout,
        ..Config::default()
    };
    let opening = Opening {
        pool: Pool::new(&core),
        shared: Arc::new(Shared::new(
            &core,
            Some((runtime.clone(), options.drain_timeout)),
        )),
        core,
        cores: 0,
        spin: if cpu.cores > 1 { SPIN } else { Duration::ZERO },
        floats: Floats::Ieee,
        config,
    };
    let about = gpu::Opening {
        arch: about.arch.clone(),
        name: about.name.clone(),
        units: about.units,
        copies: 1,
        can: Abilities {
            poll: true,
            write: true,
            subnormals: about.subnormals,
        },
        shared: opening.shared.clone(),
        drain_timeout: options.drain_timeout,
    };
    let (core, pool) = (opening.core.clone(), opening.pool.clone());
    let device = Gpu::open(&core, &pool, about, move |kind, index| {
        opening.queue(kind, index)
    })?;
    Ok(device)
}

impl Opening {
    /// A queue whose processor runs.
    fn queue(&self, kind: QueueKind, index: u32) -> Result<Channel<CpuHardware>> {
        let Opening {
            core, pool, shared, ..
        } = self;
        let work = match &shared.runtime {
            Some(runtime) => Some(RefCell::new(runtime.queue(kind, index)?)),
            None => None,
        };
        let encoder = Encoder::new(core.id.clone(), kind, index);
        let unit = encoder.unit();
        let words = self.config.ring_words.max(LEAST_WORDS).next_power_of_two();
        let ring = RingMemory::new(words).map_err(|e| Error::OutOfMemory {
            device: core.id.clone(),
            asked: u64::from(words) * 4,
            free: 0,
            total: pool.stats().total,
            hint: format!("; {e}"),
        })?;
        let event = Arc::new(CpuBackend::event_of(&ring));
        let timeline = new_timeline(core, pool, &format!("{unit} timeline"), &event)?;
        let fences = pool.piece(MemoryKind::Control, 16, &format!("the fences of {unit}"))?;
        let counted = (fences.shared()?, fences.va());
        let zeroed = counted.0.fill(0, 16, 0);
        zeroed.map_err(|e| core.broken(&*unit, e))?;
        let threads = |what: &str, source: std::io::Error| Error::Os {
            device: core.id.clone(),
            call: format!("starting {what}"),
            source_text: source.to_string(),
            errno: source.raw_os_error(),
            hint: drivers_host::thread::spawn_hint().into(),
        };
        let workers = match kind {
            QueueKind::Compute if work.is_none() => Some(
                Workers::new(
                    "hcq worker",
                    self.cores,
                    self.spin,
                    KERNEL_STACK,
                    self.floats,
                )
                .map_err(|e| threads("a worker thread", e))?,
            ),
            QueueKind::Compute | QueueKind::Copy => None,
        };
        let worker = Arc::new(Worker::default());
        let helpers = workers.as_ref().map_or(&[][..], Workers::progress);
        let all = std::iter::once(&worker).chain(helpers).cloned().collect();
        let progress = Arc::new(Progress::new(&unit, &ring, &core.kernels, all));
        let processor = Processor {
            shared: shared.clone(),
            unit,
            ring: ring.clone(),
            workers,
            work,
            worker,
            progress: progress.clone(),
            spin: self.spin,
            floats: self.floats,
        };
        let thread = std::thread::Builder::new()
            .name(format!("hcq {kind}"))
            .stack_size(KERNEL_STACK)
            .spawn(move || processor.run())
            .map_err(|e| threads("a command processor", e))?;
        let hardware = CpuHardware::new(CpuRing(ring), encoder, progress, shared, thread, fences);
        let parts = Parts {
            hardware,
            kind,
            index,
            event,
            timeline,
            progress: counted,
            arguments: 0,
            full_limit: self.config.ring_timeout,
        };
        Channel::new(core, pool, parts)
    }
}
