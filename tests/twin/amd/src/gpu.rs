//! A GPU as the kernel driver sees it: queues come and go, doorbells ring, interrupts come back.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use twin::process::{Blocked, Standing};
use twin::rng::Rng;
use twin::rule::Journal;
use twin_shader::page::{MemFault, Port};

use crate::chip::Chip;
use crate::cp::Core;
use crate::cp::fiber::Fibers;
use crate::cp::queue::{Queue, Turn};
use crate::mem::Vm;
use crate::scheduler::Scheduler;

/// A process of the kernel driver.
pub type ProcessId = u32;

/// A queue of a GPU.
pub type QueueId = u32;

/// The kind of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// Compute, PM4 packets.
    Pm4,
    /// Compute, AQL packets.
    Aql,
    /// SDMA, on this engine.
    Sdma {
        /// The engine.
        engine: u32,
    },
}

/// Where a queue begins to take packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// At the start of its ring, with what the write pointer in memory says: the firmware that maps queues for
    /// the kernel driver looks there.
    Memory,
    /// At a read pointer that its registers hold, in the unit of the queue's pointers. A doorbell says how far.
    Registers(u64),
}

/// A queue, as the kernel driver hands it to the hardware: every address is checked and mapped.
#[derive(Clone)]
pub struct QueueDesc {
    /// The process.
    pub process: ProcessId,
    /// Its address space on this GPU.
    pub vm: Arc<Vm>,
    /// The kind.
    pub kind: QueueKind,
    /// Address of the ring.
    pub ring: u64,
    /// Its bytes, a power of two.
    pub ring_bytes: u64,
    /// Address of the read pointer.
    pub rptr: u64,
    /// Address of the write pointer.
    pub wptr: u64,
    /// Address and bytes of the end-of-pipe buffer; 0 for none.
    pub eop: (u64, u64),
    /// Address of the context save area and the bytes for one XCC; 0 for none.
    pub cwsr: (u64, u64),
    /// The XCC of a PM4 queue on a chip with several.
    pub xcc: u32,
    /// Whether it may run: false while its percentage is 0.
    pub active: bool,
    /// Where it begins.
    pub begin: Begin,
    /// The doorbell: 8 bytes that the client writes.
    pub doorbell: Doorbell,
}

impl QueueDesc {
    /// Its path to memory.
    pub(crate) fn port(&self) -> Port {
        match self.kind {
            QueueKind::Pm4 | QueueKind::Aql => Port::Cp,
            QueueKind::Sdma { .. } => Port::Sdma,
        }
    }
}

/// The 8 bytes of a doorbell, in the twin's own mapping of the doorbell page.
#[derive(Clone)]
pub struct Doorbell {
    /// The page.
    pub page: Arc<crate::mem::Mapping>,
    /// Where in it.
    pub offset: usize,
}

/// What a GPU tells its kernel driver.
#[derive(Clone, Debug)]
pub enum Interrupt {
    /// End of pipe of a compute queue, with the context id of the packet. 32 bits.
    EndOfPipe {
        /// Whose.
        process: ProcessId,
        /// The context id.
        context: u32,
        /// Its event slot was written after this time.
        since: u64,
        /// A barrier of AQL that releases nothing: what is in memory is not its matter.
        bare: bool,
    },
    /// A wave's message, with what it had in M0: 23 bits.
    Wave {
        /// Whose.
        process: ProcessId,
        /// The context id.
        context: u32,
        /// Its event slot was written after this time.
        since: u64,
        /// Of a trap handler: the queue whose doorbell the context names, with exceptions above it.
        queue: Option<QueueId>,
    },
    /// A TRAP packet of SDMA, with its context: 28 bits.
    SdmaTrap {
        /// Whose.
        process: ProcessId,
        /// The context id.
        context: u32,
        /// Its event slot was written after this time.
        since: u64,
    },
    /// A page fault. The queues of the process on this GPU have stopped.
    Fault {
        /// Whose.
        process: ProcessId,
        /// What.
        fault: MemFault,
    },
    /// A packet that the command processor does not know, or a wave that trapped. The queue has
    /// stopped.
    QueueError {
        /// Whose.
        process: ProcessId,
        /// Which.
        queue: QueueId,
        /// The exception code of the KFD debugger interface (`EC_QUEUE_*`).
        code: u32,
    },
    /// Memory whose content is lost was used. The queues of the process on this GPU have stopped.
    Poison {
        /// By whom.
        process: ProcessId,
    },
    /// The GPU hung and was reset, or has gone.
    Reset {
        /// Memory is lost.
        memory_lost: bool,
    },
}

/// The kernel driver behind a GPU. Called from the scheduler's thread, which holds no lock then.
pub trait Kernel: Send + Sync {
    /// Whether it stops all queues of a process on a GPU where one of them has faulted. Source: Linux,
    /// amdkfd/kfd_int_process_v11.c, `event_interrupt_wq_v11`: `kfd_dqm_evict_pasid`. Where nobody does, the others go on.
    fn evicts(&self) -> bool {
        true
    }

    /// An interrupt of GPU number `gpu`.
    fn interrupt(&self, gpu: usize, interrupt: Interrupt);
}

/// Who gets decoded text.
pub type Logger = Arc<dyn Fn(&str) + Send + Sync>;

/// How a GPU is set up.
#[derive(Clone)]
pub struct Setup {
    /// Its number.
    pub index: usize,
    /// Its facts.
    pub chip: &'static Chip,
    /// Where events and broken rules are noted.
    pub journal: Arc<Journal>,
    /// Seeds every choice that hardware leaves open.
    pub seed: u64,
    /// How many host threads a dispatch uses.
    pub threads: usize,
    /// Gets every packet (`DEBUG=4`).
    pub packets: Option<Logger>,
    /// Gets every instruction (`DEBUG=6`).
    pub instructions: Option<Logger>,
}

/// A fault that is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Injection {
    /// The queue takes no more packets.
    Hang(QueueId),
    /// An access of the process has faulted.
    Fault(ProcessId, MemFault),
    /// The process has used memory whose content is lost.
    Poison(ProcessId),
    /// The GPU hangs and is reset: every queue is lost.
    Reset {
        /// Memory is lost.
        memory_lost: bool,
    },
    /// The GPU falls off the bus.
    Gone,
}

/// A GPU.
pub struct Gpu {
    /// Its number.
    pub index: usize,
    /// Its facts.
    pub chip: &'static Chip,
    scheduler: Arc<Scheduler>,
    /// Its place among those of the scheduler.
    place: usize,
}

/// A GPU's side of the scheduler: its queues.
pub(crate) struct Side {
    core: Arc<Core>,
    kernel: Weak<dyn Kernel>,
    queues: BTreeMap<QueueId, Queue>,
    next: QueueId,
    /// Interrupts of faults that were asked for.
    injected: Vec<Interrupt>,
    /// Interrupts are on their way to the kernel.
    pub delivering: bool,
    gone: bool,
}

impl Gpu {
    /// A GPU in front of a kernel driver.
    pub fn new(setup: Setup, kernel: Weak<dyn Kernel>, scheduler: &Arc<Scheduler>) -> Self {
        let (index, chip) = (setup.index, setup.chip);
        let side = Side {
            core: Arc::new(Core::new(setup, scheduler.clock().clone())),
            kernel,
            queues: BTreeMap::new(),
            next: 1,
            injected: Vec::new(),
            delivering: false,
            gone: false,
        };
        let mut state = scheduler.lock();
        state.gpus.push(side);
        let place = state.gpus.len() - 1;
        drop(state);
        Self {
            index,
            chip,
            scheduler: scheduler.clone(),
            place,
        }
    }

    /// Calls `with` between two rounds of the scheduler.
    fn at<T>(&self, with: impl FnOnce(&mut Side) -> T) -> T {
        with(&mut self.scheduler.lock().gpus[self.place])
    }

    /// Starts a queue. Its doorbell is set to "never rung": all ones.
    pub fn create_queue(&self, desc: QueueDesc) -> QueueId {
        let id = self.at(|side| {
            let id = side.next;
            side.next += 1;
            let queue = Queue::new(id, desc, &side.core);
            side.queues.insert(id, queue);
            id
        });
        self.scheduler.wake();
        id
    }

    /// Ends a queue. On return nothing of it runs any more.
    pub fn destroy_queue(&self, id: QueueId) {
        let mut state = self.scheduler.lock();
        if let Some(queue) = state.gpus[self.place].queues.get(&id) {
            queue.cancel();
        }
        while let Some(queue) = state.gpus[self.place].queues.get(&id)
            && queue.is_busy()
        {
            self.scheduler.wake();
            state = self.scheduler.wait(state);
        }
        let side = &mut state.gpus[self.place];
        if let Some(mut queue) = side.queues.remove(&id) {
            queue.end(&side.core);
        }
    }

    /// Moves the ring of a queue. The kernel driver unmaps the queue for it.
    pub fn update_ring(&self, id: QueueId, ring: u64, ring_bytes: u64) {
        self.at(|side| {
            if let Some(queue) = side.queues.get_mut(&id) {
                queue.set_ring(ring, ring_bytes);
            }
        });
        self.scheduler.wake();
    }

    /// Unmaps a queue, or maps it again: it then goes on where it was, up to the write pointer in
    /// memory. A dispatch that runs is preempted, which shows nowhere.
    pub fn set_active(&self, id: QueueId, active: bool) {
        self.at(|side| {
            if let Some(queue) = side.queues.get_mut(&id) {
                queue.set_active(active);
            }
        });
        self.scheduler.wake();
    }

    /// Whether a queue has nothing left to do, or is not there.
    pub fn queue_is_idle(&self, id: QueueId) -> bool {
        self.at(|side| side.queues.get(&id).is_none_or(Queue::is_idle))
    }

    /// Whether no queue gets on, nor tells anything, until somebody rings or changes memory that it waits for.
    pub fn is_idle(&self) -> bool {
        self.at(|side| !side.delivering && side.injected.is_empty() && !side.can_move())
    }

    /// How far a queue has read, and how far it may, in its unit.
    pub fn queue_pointers(&self, id: QueueId) -> Option<(u64, u64)> {
        self.at(|side| side.queues.get(&id).map(Queue::pointers))
    }

    /// Whether the queues of a process have nothing left to do.
    pub fn idle(&self, process: ProcessId) -> bool {
        self.at(|side| {
            let mut queues = side.queues.values();
            !side.delivering && queues.all(|queue| queue.process() != process || queue.is_idle())
        })
    }

    /// What the queues of a process are at that have something to do.
    pub fn standing(&self, process: ProcessId) -> Vec<Standing> {
        self.at(|side| {
            let index = side.core.index;
            let queues = side.queues.values();
            let own = queues.filter(|queue| queue.process() == process);
            own.filter_map(|queue| queue.standing(index)).collect()
        })
    }

    /// Where waves are that have run for long.
    pub fn waves(&self) -> Vec<twin_shader::launch::Standing> {
        self.at(|side| side.queues.values().flat_map(Queue::waves).collect())
    }

    /// What every queue of a process waits for, one line each, for reports of a hang.
    pub fn waiting(&self, process: ProcessId) -> Vec<String> {
        let line = |one: Standing| match one.kept {
            Blocked::Memory { why, .. } => Some(format!("{} waits: {why}", one.at)),
            _ => None,
        };
        let mut lines: Vec<_> = self
            .standing(process)
            .into_iter()
            .filter_map(line)
            .collect();
        lines.sort();
        lines
    }

    /// Makes something go wrong.
    pub fn inject(&self, injection: Injection) {
        self.at(|side| match injection {
            Injection::Hang(id) => {
                if let Some(queue) = side.queues.get_mut(&id) {
                    queue.hang();
                }
            }
            Injection::Fault(process, fault) => {
                side.stop(|queue| queue.process() == process);
                side.injected.push(Interrupt::Fault { process, fault });
            }
            Injection::Poison(process) => {
                side.stop(|queue| queue.process() == process);
                side.injected.push(Interrupt::Poison { process });
            }
            Injection::Reset { memory_lost } => {
                side.stop(|_| true);
                side.injected.push(Interrupt::Reset { memory_lost });
            }
            Injection::Gone => {
                side.stop(|_| true);
                side.gone = true;
                side.injected.push(Interrupt::Reset { memory_lost: true });
            }
        });
        self.scheduler.wake();
    }

    /// Whether it has fallen off the bus.
    pub fn gone(&self) -> bool {
        self.at(|side| side.gone)
    }

    /// Doorbells have been written: whoever sleeps looks at them.
    pub fn rung(&self) {
        self.scheduler.wake();
    }

    /// Its clock, in ticks of 10 ns. All GPUs of a machine agree.
    pub fn clock(&self) -> u64 {
        self.scheduler.clock().now()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.at(|side| side.stop(|_| true));
        self.scheduler.wake();
    }
}

impl Side {
    /// Stops queues for good, as the kernel driver does when it evicts them.
    pub fn stop(&mut self, which: impl Fn(&Queue) -> bool) {
        for queue in self.queues.values_mut().filter(|queue| which(queue)) {
            queue.stop();
        }
    }

    /// Its queues.
    pub fn ids(&self) -> impl Iterator<Item = QueueId> + use<> {
        let ids: Vec<_> = self.queues.keys().copied().collect();
        ids.into_iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether dispatches are under way.
    pub fn is_busy(&self) -> bool {
        self.queues.values().any(Queue::is_busy)
    }

    /// Takes the interrupts that were asked for.
    pub fn injected(&mut self) -> impl Iterator<Item = Interrupt> + use<> {
        std::mem::take(&mut self.injected).into_iter()
    }

    /// Whom to interrupt.
    pub fn kernel(&self) -> Option<Arc<dyn Kernel>> {
        self.kernel.upgrade()
    }

    /// XCCs that share a ring are rung one after the other. They start together, so that which comes first
    /// is not a matter of the host's threads.
    pub fn hold(&mut self) {
        let rings: Vec<_> = self
            .queues
            .values()
            .filter_map(Queue::shared_ring)
            .collect();
        for queue in self.queues.values_mut() {
            let apart = queue.shared_ring().is_some_and(|mine| {
                let same = |other: &&(ProcessId, u64, u64)| (other.0, other.1) == (mine.0, mine.1);
                rings.iter().filter(same).any(|other| other.2 != mine.2)
            });
            queue.hold(apart);
        }
    }

    /// Whether a turn of a queue may do something.
    pub fn can_move(&self) -> bool {
        self.queues.values().any(Queue::can_move)
    }

    /// A turn of a queue. Returns whether it moved.
    pub fn turn(
        &mut self,
        id: QueueId,
        (order, look): (&mut Rng, bool),
        fibers: &mut Fibers,
        out: &mut Vec<Interrupt>,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false;
        };
        let moved = match queue.turn(&self.core, order, look, fibers, out) {
            Turn::Idle => false,
            Turn::Moved => true,
            Turn::Faulted(process) => {
                match self.kernel.upgrade().is_none_or(|kernel| kernel.evicts()) {
                    true => self.stop(|queue| queue.process() == process),
                    false => queue.stop(),
                }
                true
            }
        };
        if told_host(out) {
            self.check_host(id);
        }
        moved
    }

    /// The host hears that work of a queue is done. Where nothing of the process is left to run, what
    /// the host may look at should be in memory.
    fn check_host(&self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let mut others = self.queues.values();
        if others.all(|other| other.process() != queue.process() || other.is_idle()) {
            queue.check_host();
        }
    }
}

/// Whether the kernel driver is about to tell the client that memory is ready. Context 0 is no event.
fn told_host(interrupts: &[Interrupt]) -> bool {
    interrupts.iter().any(|interrupt| {
        matches!(interrupt, Interrupt::EndOfPipe { context, bare: false, .. } if *context != 0)
    })
}
