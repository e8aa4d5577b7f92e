//! [`open`]: a device over a GPU of a runtime.

use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::CoredumpWriter;
use drivers_gpu::backend::Facts;
use drivers_gpu::core::Core;
use drivers_gpu::device::{self as gpu, Gpu as Device};
use drivers_gpu::memory::pool::Pool;
use drivers_gpu::memory::signal::new_timeline;
use drivers_gpu::submit::{Channel, Parts};
use hcq::{Abilities, Costs, DeviceId, Error, GpuVa, MemoryKind, QueueKind, Result};

use crate::backend::{RuntimeBackend, State};
use crate::calls::Gpu;
use crate::clock::Clock;
use crate::encode::Encoder;
use crate::hardware::{Kernels, RuntimeHardware};
use crate::process::Process;
use crate::stream::Line;
use crate::worker::Worker;

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Submissions that may be in flight.
    pub in_flight: u32,
    /// Bytes of the block for the packets of submissions.
    pub arguments: u64,
    /// How long a submission waits for its place while nothing moves.
    pub ring_timeout: Duration,
    /// How long the end of a device waits for work that still runs while nothing moves.
    pub drain_timeout: Duration,
    /// Writer of fault and hang bundles; without it, none are written.
    pub coredumps: Option<Arc<CoredumpWriter>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            in_flight: 256,
            arguments: 4 << 20,
            ring_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            coredumps: None,
        }
    }
}

/// What the runtime says of a GPU.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name in messages: `CUDA:0`.
    pub id: DeviceId,
    /// The runtime, as [`hcq::DeviceInfo::interface`].
    pub interface: &'static str,
    /// Its number for the runtime.
    pub ordinal: u32,
    /// Where it is: `0000:03:00.0`.
    pub place: String,
    /// The instruction set, as compilers know it.
    pub arch: String,
    /// What users call it.
    pub name: String,
    /// Its processors.
    pub units: u32,
    /// Bytes of its memory.
    pub memory: u64,
    /// Work-items of a launch in one dimension, at most.
    pub items: u64,
    /// What the kernel driver's lines in the log start with.
    pub log: &'static str,
}

/// Calls cost some microseconds each, and a place is one submission.
const COSTS: Costs = Costs {
    batch: 64,
    in_flight: 16,
};

/// The smallest block for packets.
const LEAST_ARGUMENTS: u64 = 64 << 10;

/// The memory of a queue: where fences are counted, then the words that polls fetch.
const CONTROL_BYTES: u64 = 64;
const SCRATCH: u64 = 32;

/// The GPU as a device: a compute queue and a copy queue, each a stream.
///
/// # Errors
/// [`Error::OutOfMemory`]; [`Error::Os`] and [`Error::Fault`] for refused calls.
pub fn open(
    gpu: &Arc<Gpu>,
    process: &Arc<Process>,
    about: About,
    options: &Options,
) -> Result<Arc<dyn hcq::Device>> {
    drivers_host::fork::watch();
    let state = Arc::new(State::default());
    let clock = Clock::new(gpu).map_err(|refusal| refusal.error(&about.id))?;
    let clock = Arc::new(clock);
    let backend = RuntimeBackend {
        name: format!("memory of {}", about.id).into(),
        id: about.id,
        interface: about.interface,
        facts: Facts {
            place: about.place,
            vram: about.memory,
            vram_windows: false,
            clock_hz: 1_000_000_000,
            costs: COSTS,
            log: about.log,
        },
        gpu: gpu.clone(),
        ordinal: about.ordinal,
        process: process.clone(),
        state: state.clone(),
        clock: clock.clone(),
    };
    process.enter(about.ordinal, gpu);
    let core = Arc::new(Core::new(Arc::new(backend), options.coredumps.clone()));
    let pool = Pool::new(&core);
    let opening = gpu::Opening {
        arch: about.arch.clone(),
        name: about.name,
        units: about.units,
        copies: 1,
        can: Abilities {
            poll: true,
            write: true,
            subnormals: true,
        },
        shared: Kernels {
            gpu: gpu.clone(),
            process: process.clone(),
            arch: about.arch,
        },
        drain_timeout: options.drain_timeout,
    };
    let on = Queues {
        core: core.clone(),
        pool: pool.clone(),
        gpu: gpu.clone(),
        process: process.clone(),
        state,
        clock,
        items: about.items,
        options: options.clone(),
    };
    let device: Arc<Device<RuntimeHardware>> =
        Device::open(&core, &pool, opening, move |kind, index| {
            on.open(kind, index)
        })?;
    Ok(device)
}

/// What queues are made with.
struct Queues {
    core: Arc<Core>,
    pool: Arc<Pool>,
    gpu: Arc<Gpu>,
    process: Arc<Process>,
    state: Arc<State>,
    clock: Arc<Clock>,
    items: u64,
    options: Options,
}

impl Queues {
    /// A queue whose thread runs.
    fn open(&self, kind: QueueKind, index: u32) -> Result<Channel<RuntimeHardware>> {
        let Queues { core, pool, .. } = self;
        let encoder = Encoder::new(core.id.clone(), kind, index, self.items);
        let unit = encoder.unit();
        let memory = pool.piece(
            MemoryKind::Control,
            CONTROL_BYTES,
            &format!("the control memory of {unit}"),
        )?;
        let window = memory.shared()?;
        let zeroed = window.fill(0, CONTROL_BYTES, 0);
        zeroed.map_err(|e| core.broken(&*unit, e))?;
        let progress = window.sub(0, 16).map_err(|e| core.broken(&*unit, e))?;
        let counted = (progress, memory.va());
        let scratch = GpuVa(memory.va().0 + SCRATCH);
        let event = Arc::new(core.backend.event()?);
        let timeline = new_timeline(core, pool, &format!("{unit} timeline"), &event)?;
        let stream = self.gpu.stream().map_err(|r| r.error(&core.id))?;
        let on = (stream, &self.clock);
        let line = Line::new(core, &self.process, unit.clone(), on, scratch.0);
        let worker = Worker::start(line, &self.process, &self.state, &format!("hcq {unit}"));
        let worker = worker.map_err(|source| Error::Os {
            device: core.id.clone(),
            call: format!("starting the thread of {unit}"),
            source_text: source.to_string(),
            errno: source.raw_os_error(),
            hint: "Raise the limit of threads (`ulimit -u`), or end other programs".into(),
        })?;
        let hardware = RuntimeHardware::new(worker, self.options.in_flight.max(1), encoder, memory);
        let parts = Parts {
            hardware,
            kind,
            index,
            event,
            timeline,
            progress: counted,
            arguments: self.options.arguments.max(LEAST_ARGUMENTS),
            full_limit: self.options.ring_timeout,
        };
        Channel::new(core, pool, parts)
    }
}
