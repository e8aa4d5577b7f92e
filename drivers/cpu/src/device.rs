//! [`CpuDevice`]: the device.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use drivers_host::clock::monotonic_ns;
use drivers_host::cpuinfo::CpuInfo;
use hcq::kernels::{Kernel, Registration};
use hcq::progress::Queues;
use hcq::{
    Abilities, AllocSpec, Buffer, ClockInfo, Costs, Deadline, Device, DeviceId, DeviceInfo, Error,
    GpuVa, KernelImage, LostState, MemoryStats, Program, Queue, QueueKind, Result, Signal,
};

use crate::encode::Encoder;
use crate::guard::Floats;
use crate::loader::{self, Loaded};
use crate::memory::system_memory;
use crate::processor::Processor;
use crate::progress::{Progress, Worker};
use crate::queue::{Channel, CpuQueue, Engine};
use crate::ring::command_ring;
use crate::shared::Shared;
use crate::signal::new_signal;
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

/// How long an idle thread looks before it sleeps: about what it takes to wake it.
const SPIN: Duration = Duration::from_micros(50);

/// Words that a ring may have: room for the largest packet of fixed size, up to 256 MiB.
const RING_WORDS: RangeInclusive<u32> = 16..=64 << 20;

/// Stack of the threads that run kernels: their local arrays lie there.
const KERNEL_STACK: usize = 8 << 20;

/// A ring of the usual size holds several hundred launches, and a batch takes a worker 20 µs at the least.
const COSTS: Costs = Costs {
    batch: 64,
    in_flight: 64,
};

/// The queues, in the order of their channels.
const QUEUES: [QueueKind; 2] = [QueueKind::Compute, QueueKind::Copy];

/// The CPU, opened.
///
/// Dropping the last handle (this one and those of its queues) finishes what was submitted and
/// ends the threads. Work that is blocked in a wait which nothing submitted here can end is given
/// up. A kernel that never returns cannot be stopped, and holds the drop as well; whoever waits for it waits as long as
/// it runs, unless the deadline bounds the work ([`Deadline::within`]).
pub struct CpuDevice {
    info: DeviceInfo,
    shared: Arc<Shared>,
    engine: Arc<Engine>,
    queues: Vec<Arc<CpuQueue>>,
    spin: Duration,
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
        let cpu = CpuInfo::read();
        let cores = match config.cores {
            0 => cpu.cores,
            n => n,
        };
        let floats = match config.subnormals {
            true => Floats::Ieee,
            false => Floats::Flushed,
        };
        // Helpers that spin on a single processor only keep the work from being done.
        let spin = if cpu.cores > 1 { SPIN } else { Duration::ZERO };
        let total = match config.memory {
            0 => system_memory(),
            n => n,
        };
        let shared = Arc::new(Shared::new(id.clone(), total));
        if !RING_WORDS.contains(&config.ring_words) {
            return Err(Error::Command {
                device: id,
                queue: "any".into(),
                command: "open".into(),
                why: format!(
                    "a ring of {} words, expected {} to {}",
                    config.ring_words,
                    RING_WORDS.start(),
                    RING_WORDS.end()
                ),
            });
        }
        let mut engine = Engine {
            shared: shared.clone(),
            channels: Vec::new(),
            threads: Vec::new(),
            generation: hcq::process_generation(),
        };
        // What a failure leaves behind is ended by the drop of `engine`.
        for kind in QUEUES {
            let encoder = Encoder::new(id.clone(), kind, 0);
            let unit = encoder.unit();
            let (writer, reader) = command_ring(config.ring_words).map_err(|e| Error::Command {
                device: id.clone(),
                queue: unit.clone(),
                command: "open".into(),
                why: e.to_string(),
            })?;
            let timeline = new_signal(&shared, &format!("{unit} timeline"), spin)?;
            let threads = |what: &str, source: std::io::Error| Error::Os {
                device: id.clone(),
                call: format!("starting {what}"),
                source_text: source.to_string(),
                errno: source.raw_os_error(),
                hint: "Raise `ulimit -u` or the pids limit of the container".into(),
            };
            let workers = match kind {
                QueueKind::Compute => Some(
                    Workers::new("hcq worker", cores, spin, KERNEL_STACK, floats)
                        .map_err(|e| threads("a worker thread", e))?,
                ),
                QueueKind::Copy => None,
            };
            let worker = Arc::new(Worker::default());
            let helpers = workers.as_ref().map_or(&[][..], Workers::progress);
            let all = std::iter::once(&worker).chain(helpers).cloned().collect();
            let progress = Progress::new(&unit, &reader.memory, &shared.kernels, all);
            let progress = Arc::new(progress);
            shared.watch(progress.clone());
            let processor = Processor {
                shared: shared.clone(),
                unit,
                reader,
                workers,
                worker,
                progress: progress.clone(),
                spin,
                floats,
            };
            shared.lock_holds().start();
            let thread = std::thread::Builder::new()
                .name(format!("hcq {kind}"))
                .stack_size(KERNEL_STACK)
                .spawn(move || processor.run())
                .map_err(|e| threads("a command processor", e))?;
            engine.threads.push(thread);
            engine.channels.push(Channel::new(
                shared.clone(),
                encoder,
                kind,
                timeline,
                writer,
                progress,
                config.ring_timeout,
            ));
        }
        let engine = Arc::new(engine);
        let watched: Arc<dyn Queues> = shared.clone();
        hcq::progress::watch(Arc::downgrade(&watched));
        let queues = (0..QUEUES.len())
            .map(|channel| Arc::new(CpuQueue::new(engine.clone(), channel)))
            .collect();
        let info = DeviceInfo {
            id,
            interface: "THREADS",
            arch: std::env::consts::ARCH.into(),
            name: cpu.model.unwrap_or_else(|| std::env::consts::ARCH.into()),
            units: cores as u32,
            memory: total,
            queues: QUEUES.iter().map(|&kind| (kind, 1)).collect(),
            costs: COSTS,
            can: Abilities {
                poll: true,
                write: true,
                subnormals: config.subnormals,
            },
        };
        tracing::debug!(device = %info.id, name = info.name, units = info.units, "opened");
        Ok(Arc::new(CpuDevice {
            info,
            shared,
            engine,
            queues,
            spin,
        }))
    }

    fn check_image(&self, image: &KernelImage) -> std::result::Result<(), String> {
        if image.arch != self.info.arch {
            return Err(format!(
                "compiled for {}, this device runs {}; compile it for this device",
                image.arch, self.info.arch
            ));
        }
        if image.local_bytes != 0 {
            return Err(format!(
                "needs {} bytes of local memory; a CPU kernel keeps it on its stack",
                image.local_bytes
            ));
        }
        let args = &image.args;
        if args.align > 8 {
            return Err(format!(
                "argument block aligned to {}, at most 8",
                args.align
            ));
        }
        for field in &args.fields {
            let (offset, bytes) = (field.offset, field.kind.bytes());
            let inside = field.end().is_some_and(|end| end <= args.bytes);
            if !offset.is_multiple_of(bytes) || !inside {
                return Err(format!(
                    "argument of {bytes} bytes at {offset}, expected aligned bytes inside of the {} \
                     bytes of the block",
                    args.bytes
                ));
            }
        }
        Ok(())
    }
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, spec: AllocSpec) -> Result<Buffer> {
        self.status()?;
        self.shared.pool.alloc(spec)
    }

    fn memory(&self) -> MemoryStats {
        self.shared.pool.stats()
    }

    fn load(&self, image: &KernelImage) -> Result<Arc<Program>> {
        self.status()?;
        let refused = |why: String| Error::Program {
            device: self.info.id.clone(),
            program: image.name.clone(),
            why,
        };
        self.check_image(image).map_err(refused)?;
        let loaded = loader::load(&self.shared.code, &image.bytes, &image.entry)
            .map_err(|e| refused(e.to_string()))?;
        let kernel = Kernel {
            name: image.name.as_str().into(),
            argument_bytes: image.args.bytes,
        };
        let registration = self.shared.kernels.register(loaded.code_range(), kernel);
        Ok(Arc::new(Program {
            name: image.name.clone(),
            entry: GpuVa(loaded.entry()),
            args: image.args.clone(),
            local_bytes: 0,
            launch_words: Box::new([]),
            owner: Box::new(Code {
                lost: self.shared.lost.clone(),
                parts: Some((registration, loaded)),
            }),
        }))
    }

    fn queue(&self, kind: QueueKind, index: u32) -> Result<Arc<dyn Queue>> {
        self.status()?;
        let channel = QUEUES.iter().position(|&k| k == kind);
        match channel.filter(|_| index == 0) {
            Some(channel) => Ok(self.queues[channel].clone()),
            None => Err(Error::Command {
                device: self.info.id.clone(),
                queue: format!("{kind} {index}"),
                command: "open".into(),
                why: "there is one compute queue and one copy queue, number 0".into(),
            }),
        }
    }

    fn signal(&self, name: &str) -> Result<Signal> {
        self.status()?;
        new_signal(&self.shared, name, self.spin)
    }

    fn clock(&self) -> Result<ClockInfo> {
        self.status()?;
        let now = monotonic_ns();
        Ok(ClockInfo {
            hz: 1_000_000_000,
            host_ns: now,
            device_ticks: now,
        })
    }

    fn status(&self) -> Result<()> {
        self.shared.lost.check()
    }

    fn lose(&self, cause: Error) -> Error {
        let error = self.shared.lose(cause);
        for channel in &self.engine.channels {
            channel.ring.doorbell.notify();
            channel.ring.space.notify();
        }
        error
    }

    fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.engine
            .channels
            .iter()
            .try_for_each(|channel| channel.synchronize(deadline))
    }
}

/// The code of a program. Workers of a device that is lost may still be in it: it is unmapped once they have ended.
struct Code {
    lost: Arc<LostState>,
    parts: Option<(Registration, Loaded)>,
}

impl Drop for Code {
    fn drop(&mut self) {
        self.lost.let_go(self.parts.take());
    }
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CpuDevice({}, {} threads)",
            self.info.id, self.info.units
        )
    }
}
