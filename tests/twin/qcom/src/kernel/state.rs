//! What the GPU and its kernel drivers hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use twin::errno::{Errno, Result};
use twin::host::{Identity, Mapping};
use twin::process::{Blocked, Standing};
use twin::rng::Rng;
use twin::watch::{Moment, Watch};

use crate::config::{Config, Fault as Injected, Kernel};
use crate::gpu::Core;
use crate::memory::{Object, Space};

use super::idle::IdleTimer;
use super::jobs::{Job, Ring};
use super::kgsl::context::Context;
use super::kgsl::counters::Used;
use super::msm::gem::Closing;
use super::msm::queue::Queue;

/// An address space, which jobs and system calls share.
pub(crate) type Shared = Arc<Mutex<Space>>;

/// Queues of the command processor that KGSL makes where rings can be preempted, as on all chips here; msm makes one.
/// KGSL, adreno_a6xx_ringbuffer.c, a6xx_ringbuffer_init; Linux, a6xx_gpu.c: nr_rings is 1.
const RINGS: usize = 4;

/// Ticks of a millisecond: 19.2 MHz.
pub(crate) const TICKS: u64 = 19_200;

/// Told whether poll would find a file ready.
pub(crate) type Watcher = Box<dyn Fn(bool) + Send + Sync>;

/// See the front page.
pub(crate) struct State {
    pub(crate) core: Core,
    pub(crate) rings: Vec<Ring>,
    /// Submissions that have not begun, in order.
    pub(crate) queued: Vec<Job>,
    /// Submissions that are not done.
    pub(crate) live: BTreeSet<u64>,
    pub(crate) contexts: BTreeMap<u32, Context>,
    /// Of msm, by file and number.
    pub(crate) queues: BTreeMap<(u64, u32), Queue>,
    /// Frees that wait for a timestamp of a context: process, object.
    pub(crate) frees: Vec<(u32, u32, u32, u32)>,
    /// Performance counters that are in use.
    pub(crate) counters: Vec<Used>,
    /// Hangs since the machine has started.
    pub(crate) resets: u32,
    pub(crate) idle: IdleTimer,
    /// Ticks in which nothing moved.
    pub(crate) still: u64,
    /// When the last round was, since the machine has started.
    pub(crate) host: Duration,
    /// Memory of msm whose handles are closed, and which submissions use.
    pub(crate) closing: Vec<Closing>,
    /// Memory that was exported, by the file of the host that stands for it.
    pub(crate) exported: BTreeMap<Identity, Weak<Object>>,
    pub(crate) order: Rng,
    pub(crate) moved: u64,
    pub(crate) paused: bool,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// Who is told when a submission is done.
    pub(crate) watchers: Vec<(u64, Watcher)>,
    /// What goes wrong with submissions.
    pub(crate) faults: Vec<Injected>,
    /// How many have begun.
    pub(crate) begun: u64,
    next_job: u64,
    next_object: u64,
    used: u64,
    most: u64,
}

impl State {
    pub(crate) fn new(config: &Config) -> State {
        let rings = match config.kernel {
            Kernel::Kgsl(_) => RINGS,
            Kernel::Msm => 1,
        };
        State {
            core: Core::new(config),
            rings: (0..rings).map(|_| Ring::default()).collect(),
            queued: Vec::new(),
            live: BTreeSet::new(),
            contexts: BTreeMap::new(),
            queues: BTreeMap::new(),
            frees: Vec::new(),
            counters: Vec::new(),
            resets: 0,
            idle: IdleTimer::new(),
            still: 0,
            host: Duration::ZERO,
            closing: Vec::new(),
            exported: BTreeMap::new(),
            order: Rng::new(config.seed),
            moved: 0,
            paused: false,
            watch: None,
            watchers: Vec::new(),
            faults: config.faults.clone(),
            begun: 0,
            next_job: 1,
            next_object: 1,
            used: 0,
            most: config.memory,
        }
    }

    /// The time by which the kernel takes a ring to hang: that of the GPU, and the looks of the twin at what stands still.
    pub(crate) fn time(&self) -> u64 {
        self.core.now() + self.still
    }

    /// Where it is.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            rounds: self.moved,
            time: self.core.now(),
        }
    }

    /// The number of a new submission, which is not done.
    pub(crate) fn job(&mut self) -> u64 {
        let id = self.next_job;
        self.next_job += 1;
        self.live.insert(id);
        id
    }

    fn object_id(&mut self) -> u64 {
        let id = self.next_object;
        self.next_object += 1;
        id
    }

    /// New memory of whole pages.
    pub(crate) fn zeros(&mut self, bytes: u64, name: String, cached: bool) -> Result<Arc<Object>> {
        if self.used.saturating_add(bytes) > self.most {
            return Err(Errno::ENOMEM);
        }
        let object = Object::zeros(self.object_id(), bytes, name, cached)?;
        self.used += bytes;
        Ok(Arc::new(object))
    }

    /// Memory of the program.
    pub(crate) fn pinned(
        &mut self,
        memory: Mapping,
        name: String,
        cached: bool,
    ) -> Result<Arc<Object>> {
        let object = Object::of_program(self.object_id(), memory, name, cached)?;
        Ok(Arc::new(object))
    }

    /// Memory has gone from an address space; if nobody has it any more, from caches, too.
    pub(crate) fn released(&mut self, object: Arc<Object>, allocated: bool) {
        let cached = self.core.caches.held(object.id);
        if Arc::strong_count(&object) > 1 + cached {
            return;
        }
        self.core.caches.forget(object.id);
        if allocated {
            self.used = self.used.saturating_sub(object.bytes);
        }
    }

    /// Submissions of a process that are not done.
    pub(crate) fn standing(&self, process: u32) -> Vec<Standing> {
        let mut all = Vec::new();
        for ring in &self.rings {
            let Some(job) = ring.running().filter(|job| job.process == process) else {
                continue;
            };
            let kept = match ring.waiting() {
                Some(wait) => Blocked::Memory {
                    at: wait.at.unwrap_or(0),
                    now: wait.held,
                    why: wait.why.clone(),
                },
                None => Blocked::Work("its packets".into()),
            };
            all.push(Standing {
                who: job.name(),
                at: ring.place(),
                kept,
            });
        }
        let queued = self.queued.iter().filter(|job| job.process == process);
        all.extend(queued.map(|job| Standing {
            who: job.name(),
            at: String::new(),
            kept: Blocked::Other("its turn, or what it waits for".into()),
        }));
        all
    }
}
