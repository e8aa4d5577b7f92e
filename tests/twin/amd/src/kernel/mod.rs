//! The kernel driver: KFD, the render nodes of amdgpu, and their files in sysfs.
//!
//! - [`Machine`]: a machine with GPUs; [`Process`]: a process on it, with system calls as methods;
//! - [`tree`] and [`topology`]: which files there are;
//! - [`ioctl`]: which ioctls there are, how their arguments are copied, how each can fail;
//! - `memory`, `space`, `dmabuf`, `queue`, `events`, `svm`, `misc`, `drm`: what they do;
//! - `map`: mmap and munmap; `interrupt`: what GPUs tell; `gauges`: what files tell while it changes.
//!
//! A model is strict in two ways: where the kernel has a check, the call fails with the kernel's errno
//! (and the reason is an event of the journal, printed from `debug=1` on); where the kernel lets a
//! mistake pass in silence, a rule is broken.

mod dmabuf;
mod drm;
mod events;
mod files;
mod gauges;
mod inject;
mod interrupt;
pub mod ioctl;
mod map;
mod memory;
mod misc;
mod queue;
mod space;
mod svm;
pub mod topology;
pub mod tree;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use twin::caller::{Caller, Here};
pub use twin::errno;
pub use twin::host::user;
use twin::process::{Blocked, Standing};
use twin::rule::{Journal, Rule};
use twin::watch::{Moment, Watch};

use crate::config::Config;
use crate::gpu::{Gpu, Kernel, Logger, ProcessId, QueueId, Setup};
use crate::mem::{Budget, Drain, Gmc};
use crate::scheduler::Scheduler;

use dmabuf::Exported;
use errno::{Errno, Result};
use events::Events;
use files::Files;
use hcq::sync::lock;
use inject::Injector;
use memory::Device;
use space::Areas;
use topology::Place;
use tree::Tree;

/// A machine with GPUs.
pub struct Machine {
    /// What was asked for.
    pub config: Config,
    /// What happened, and every broken rule.
    pub journal: Arc<Journal>,
    nodes: Vec<Node>,
    scheduler: Arc<Scheduler>,
    /// System memory that GPUs may use.
    system: Arc<Budget>,
    tree: Tree,
    injector: Injector,
    registry: Arc<Registry>,
    printer: Logger,
    next_process: AtomicU32,
    /// Numbers of open files.
    next_file: AtomicU64,
    /// Memory that was exported, by the file of the host that stands for it: another process may have
    /// been handed its descriptor.
    exported: Mutex<Exported>,
}

/// A GPU, as the machine knows it.
struct Node {
    place: Place,
    gmc: Arc<Gmc>,
    gpu: Gpu,
    /// Offsets at which its render node can be mapped.
    areas: Mutex<Areas>,
    gone: AtomicBool,
}

/// The processes, for what GPUs have to tell them.
struct Registry {
    journal: Arc<Journal>,
    processes: Mutex<BTreeMap<ProcessId, Weak<Process>>>,
    gpu_ids: Vec<u32>,
    events_lost: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// A process on a machine. Its system calls are methods; addresses are those of its [`Caller`].
pub struct Process {
    machine: Arc<Machine>,
    id: ProcessId,
    caller: Arc<dyn Caller>,
    files: Mutex<Files>,
    kfd: Mutex<Kfd>,
    events: Events,
    /// Where the context save area of each queue is, by GPU and number there. Apart from `kfd`, which
    /// is locked while queues are waited for.
    contexts: Mutex<BTreeMap<(usize, QueueId), u64>>,
    /// RUNTIME_ENABLE: the client wants to hear of exceptions.
    runtime: AtomicBool,
}

/// What KFD knows of a process (`struct kfd_process`).
struct Kfd {
    /// One for each GPU (`struct kfd_process_device`).
    devices: Vec<Device>,
    queues: BTreeMap<u32, queue::Queue>,
    xnack: bool,
    svm: svm::Svm,
}

/// What prints: a line at a time, from any thread.
fn printer(config: &Config) -> std::io::Result<Logger> {
    let Some(path) = &config.log else {
        return Ok(Arc::new(|text: &str| eprintln!("{text}")));
    };
    let file = std::fs::File::create(path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("log={path}: {e}")))?;
    // Line by line: what hangs is looked at while it does.
    let file = Mutex::new(std::io::LineWriter::new(file));
    Ok(Arc::new(move |text: &str| {
        // A full disk loses lines and nothing else.
        let _ = writeln!(lock(&file), "{text}");
    }))
}

impl Machine {
    /// A machine.
    ///
    /// # Errors
    /// The host has no memory or no thread left.
    pub fn new(config: Config) -> std::io::Result<Arc<Self>> {
        let printer = printer(&config)?;
        let journal = Arc::new(match (config.debug, printer.clone()) {
            (0, _) => Journal::new(),
            (_, print) => Journal::telling(move |violation| print(&violation.to_string())),
        });
        let places = Place::all(&config);
        let injector = Injector::new(config.faults.clone());
        let losing = Injector::new(config.faults.clone());
        let registry = Arc::new(Registry {
            journal: journal.clone(),
            processes: Mutex::default(),
            gpu_ids: places.iter().map(|place| place.gpu_id).collect(),
            events_lost: Arc::new(move || losing.event_lost()),
        });
        let kernel: Weak<dyn Kernel> = Arc::downgrade(&(registry.clone() as Arc<dyn Kernel>));
        let tree = topology::files(&config, &places);
        let scheduler = Scheduler::new(config.seed)?;
        let mut nodes = Vec::new();
        for (index, place) in places.into_iter().enumerate() {
            let drain = match config.drain {
                crate::config::Drain::Never => Drain::Never,
                crate::config::Drain::Doorbell => Drain::Doorbell,
                crate::config::Drain::Random => Drain::Random(config.seed ^ index as u64),
            };
            let gmc = Gmc::with_xccs(
                config.chip.xccs,
                index,
                config.chip.generation,
                config.vram,
                drain,
                journal.clone(),
            )
            .map_err(std::io::Error::from_raw_os_error)?;
            let print = |level: u32| (config.debug >= level).then(|| printer.clone());
            let setup = Setup {
                index,
                chip: config.chip,
                journal: journal.clone(),
                seed: config.seed,
                threads: config.threads,
                packets: print(4),
                instructions: print(6),
            };
            nodes.push(Node {
                place,
                gmc,
                gpu: Gpu::new(setup, kernel.clone(), &scheduler),
                areas: Mutex::default(),
                gone: AtomicBool::new(false),
            });
        }
        Ok(Arc::new(Self {
            system: Arc::new(Budget::new(config.gtt)),
            journal,
            nodes,
            scheduler,
            tree,
            injector,
            registry,
            printer,
            next_process: AtomicU32::new(1),
            next_file: AtomicU64::new(1),
            exported: Mutex::default(),
            config,
        }))
    }

    /// A process of the machine: this one.
    pub fn attach(self: &Arc<Self>) -> Arc<Process> {
        self.attach_of(Arc::new(Here))
    }

    /// A process of the machine: that of a caller.
    pub fn attach_of(self: &Arc<Self>, caller: Arc<dyn Caller>) -> Arc<Process> {
        let id = self.next_process.fetch_add(1, Ordering::Relaxed);
        let process = Arc::new(Process {
            machine: self.clone(),
            id,
            caller,
            files: Mutex::default(),
            kfd: Mutex::new(Kfd {
                devices: self.nodes.iter().map(|_| Device::default()).collect(),
                queues: BTreeMap::new(),
                xnack: false,
                svm: svm::Svm::default(),
            }),
            events: Events::new(self.scheduler.clock()),
            contexts: Mutex::default(),
            runtime: AtomicBool::new(false),
        });
        lock(&self.registry.processes).insert(id, Arc::downgrade(&process));
        process
    }

    /// Every file there is, by path.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &tree::Node)> {
        self.tree.all()
    }

    /// What a GPU would tell the kernel driver, for tests.
    pub fn interrupt(&self, gpu: usize, interrupt: crate::gpu::Interrupt) {
        self.registry.interrupt(gpu, interrupt);
    }

    /// The time, in ticks of 10 ns.
    pub fn clock(&self) -> u64 {
        self.scheduler.clock().now()
    }

    /// Has somebody watch the engines from now on.
    pub fn watch(&self, watch: Box<dyn Watch>) {
        self.scheduler.watch(watch);
    }

    /// Holds the engines between two rounds until [`Self::go_on`], once all that they tell has arrived. System
    /// calls may be made meanwhile; those that have to wait for engines let them go on. One caller at a time.
    pub fn pause(&self) -> Moment {
        self.scheduler.pause()
    }

    /// See [`Self::pause`].
    pub fn go_on(&self) {
        self.scheduler.go_on();
    }

    /// The `gpu_id` of each GPU.
    pub fn gpu_ids(&self) -> Vec<u32> {
        self.registry.gpu_ids.clone()
    }

    /// How many calls have failed because the config asked for it.
    pub fn faults_fired(&self) -> u32 {
        self.injector.fired()
    }

    /// Bytes of VRAM in use on each GPU, and of system memory that GPUs use.
    pub fn memory_in_use(&self) -> (Vec<u64>, u64) {
        let used = |node: &Node| self.config.vram - node.gmc.vram.available();
        (
            self.nodes.iter().map(used).collect(),
            self.config.gtt - self.system.available(),
        )
    }

    /// The index of a `gpu_id`.
    fn gpu_of(&self, gpu_id: u32) -> Option<usize> {
        self.registry.gpu_ids.iter().position(|&id| id == gpu_id)
    }

    /// Makes a GPU vanish.
    pub fn unplug(&self, gpu: usize) {
        if let Some(node) = self.nodes.get(gpu) {
            node.gone.store(true, Ordering::Release);
            node.gpu.inject(crate::gpu::Injection::Gone);
        }
    }

    fn gone(&self, gpu: usize) -> bool {
        self.nodes
            .get(gpu)
            .is_some_and(|node| node.gone.load(Ordering::Acquire))
    }

    fn broken(&self, rule: &'static Rule, what: String) {
        self.journal.broken(rule, what);
    }
}

impl Process {
    /// Its number.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// What the kernel keeps for the process, one line each: files, queues, events, the event page,
    /// other memory.
    pub fn objects(&self) -> Vec<String> {
        let mut all: Vec<String> = lock(&self.files)
            .paths()
            .map(|path| format!("file {path}"))
            .collect();
        let kfd = self.kfd();
        all.extend(kfd.queues.keys().map(|id| format!("queue {id}")));
        all.extend(self.events.ids().iter().map(|id| format!("event {id}")));
        for (gpu, device) in kfd.devices.iter().enumerate() {
            let gpu_id = u64::from(self.machine.registry.gpu_ids[gpu]);
            for (&number, bo) in &device.bos {
                let is_page = self.events.is_page(gpu_id << 32 | u64::from(number));
                let what = if is_page { "event page" } else { "memory" };
                all.push(format!("{what} {}", bo.object.name));
            }
        }
        all
    }

    /// What its queues are at that have something to do, and the events that it waits for.
    pub fn standing(&self) -> Vec<Standing> {
        let gpus = self.machine.nodes.iter();
        let mut all: Vec<_> = gpus.flat_map(|node| node.gpu.standing(self.id)).collect();
        all.extend(self.events.waited().into_iter().map(|event| Standing {
            who: format!("process {}", self.id),
            at: "AMDKFD_IOC_WAIT_EVENTS".into(),
            kept: Blocked::Other(format!("event {event} is not signalled")),
        }));
        all
    }

    /// Fails for a reason.
    fn fail<T>(&self, errno: Errno, why: impl FnOnce() -> String) -> Result<T> {
        self.note(|| format!("{errno}: {}", why()));
        Err(errno)
    }

    /// Fails for a reason that the kernel keeps to itself: the twin names the rule.
    fn refuse<T>(&self, rule: &'static Rule, errno: Errno, what: String) -> Result<T> {
        self.broken(rule, format!("{what}; {errno}"));
        Err(errno)
    }

    fn note(&self, what: impl FnOnce() -> String) {
        let text = format!("process {}: {}", self.id, what());
        if self.machine.config.debug >= 1 {
            (self.machine.printer)(&text);
        }
        self.machine.journal.event(text);
    }

    fn broken(&self, rule: &'static Rule, what: String) {
        self.machine
            .broken(rule, format!("process {}: {what}", self.id));
    }

    fn kfd(&self) -> MutexGuard<'_, Kfd> {
        lock(&self.kfd)
    }

    /// Ends the process, as the kernel does: its queues are destroyed, its memory is freed. What the
    /// client has mapped stays mapped, without effect.
    pub fn exit(&self) {
        self.events.end();
        {
            let mut kfd = self.kfd();
            let queues: Vec<u32> = kfd.queues.keys().copied().collect();
            for id in queues {
                let _ = self.remove_queue(&mut kfd, id);
            }
            kfd.svm = svm::Svm::default();
            self.free_all(&mut kfd);
        }
        *lock(&self.files) = Files::default();
        lock(&self.machine.registry.processes).remove(&self.id);
    }
}
