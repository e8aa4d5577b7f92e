//! A GPU as the kernel driver sees it: queues come and go, doorbells ring, interrupts come back.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use twin::rule::Journal;
use twin_shader::page::MemFault;

use crate::chip::Chip;
use crate::cp::clock;
use crate::cp::queue::{Queue, Turn};
use crate::cp::{Core, rng::Rng};
use crate::mem::Vm;

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
    /// The doorbell: 8 bytes that the client writes.
    pub doorbell: Doorbell,
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
        /// Its event slot was written after this.
        since: Instant,
    },
    /// A TRAP packet of SDMA, with its context: 28 bits.
    SdmaTrap {
        /// Whose.
        process: ProcessId,
        /// The context id.
        context: u32,
        /// Its event slot was written after this.
        since: Instant,
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
    /// The GPU hung and was reset, or has gone.
    Reset {
        /// Memory is lost.
        memory_lost: bool,
    },
}

/// The kernel driver behind a GPU. Called from the GPU's own thread, which holds no lock then.
pub trait Kernel: Send + Sync {
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
    /// How many host threads a dispatch may use.
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
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the GPU's thread and its callers share.
struct Shared {
    core: Arc<Core>,
    kernel: Weak<dyn Kernel>,
    state: Mutex<State>,
    /// Rung when a queue that had work in flight has none.
    settled: Condvar,
}

struct State {
    queues: HashMap<QueueId, Queue>,
    next: QueueId,
    order: Rng,
    /// Interrupts of faults that were asked for, which the GPU's thread delivers.
    injected: Vec<Interrupt>,
    /// Interrupts are on their way to the kernel.
    delivering: bool,
    gone: bool,
    quit: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is whole before it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, interrupts: Vec<Interrupt>) {
        let Some(kernel) = self.kernel.upgrade() else {
            return;
        };
        for interrupt in interrupts {
            kernel.interrupt(self.core.index, interrupt);
        }
    }
}

impl Gpu {
    /// A GPU in front of a kernel driver.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn new(setup: Setup, kernel: Weak<dyn Kernel>) -> io::Result<Self> {
        let (index, chip) = (setup.index, setup.chip);
        let order = Rng::new(setup.seed ^ index as u64);
        let shared = Arc::new(Shared {
            core: Arc::new(Core::new(setup)),
            kernel,
            state: Mutex::new(State {
                queues: HashMap::new(),
                next: 1,
                order,
                injected: Vec::new(),
                delivering: false,
                gone: false,
                quit: false,
            }),
            settled: Condvar::new(),
        });
        let thread = thread::Builder::new()
            .name(format!("twin-gpu{index}"))
            .spawn({
                let shared = shared.clone();
                move || run(&shared)
            })?;
        Ok(Self {
            index,
            chip,
            shared,
            thread: Some(thread),
        })
    }

    /// Starts a queue. Its doorbell is set to "never rung": all ones.
    pub fn create_queue(&self, desc: QueueDesc) -> QueueId {
        let mut state = self.shared.lock();
        let id = state.next;
        state.next += 1;
        let queue = Queue::new(id, desc, &self.shared.core);
        state.queues.insert(id, queue);
        drop(state);
        self.wake();
        id
    }

    /// Ends a queue. On return nothing of it runs any more.
    pub fn destroy_queue(&self, id: QueueId) {
        let mut state = self.shared.lock();
        if let Some(queue) = state.queues.get(&id) {
            queue.cancel();
        }
        loop {
            match state.queues.get_mut(&id) {
                Some(queue) if queue.is_busy() => {}
                _ => break,
            }
            state = self.wait(state);
        }
        state.queues.remove(&id);
    }

    /// Moves the ring of a queue. The kernel driver unmaps the queue for it.
    pub fn update_ring(&self, id: QueueId, ring: u64, ring_bytes: u64) {
        if let Some(queue) = self.shared.lock().queues.get_mut(&id) {
            queue.set_ring(ring, ring_bytes);
        }
        self.wake();
    }

    /// Unmaps a queue, or maps it again: it then goes on where it was, up to the write pointer in
    /// memory. A dispatch that runs is preempted, which shows nowhere.
    pub fn set_active(&self, id: QueueId, active: bool) {
        if let Some(queue) = self.shared.lock().queues.get_mut(&id) {
            queue.set_active(active);
        }
        self.wake();
    }

    /// Whether the queues of a process have nothing left to do.
    pub fn idle(&self, process: ProcessId) -> bool {
        let state = self.shared.lock();
        let mut queues = state.queues.values();
        !state.delivering && queues.all(|queue| queue.process() != process || queue.is_idle())
    }

    /// What every queue of a process waits for, one line each, for reports of a hang.
    pub fn waiting(&self, process: ProcessId) -> Vec<String> {
        let state = self.shared.lock();
        let mut lines: Vec<_> = state
            .queues
            .values()
            .filter(|queue| queue.process() == process)
            .filter_map(Queue::waiting)
            .collect();
        lines.sort();
        lines
    }

    /// Makes something go wrong.
    pub fn inject(&self, injection: Injection) {
        let mut state = self.shared.lock();
        match injection {
            Injection::Hang(id) => {
                if let Some(queue) = state.queues.get_mut(&id) {
                    queue.hang();
                }
            }
            Injection::Fault(process, fault) => {
                state.stop(|queue| queue.process() == process);
                state.injected.push(Interrupt::Fault { process, fault });
            }
            Injection::Reset { memory_lost } => {
                state.stop(|_| true);
                state.injected.push(Interrupt::Reset { memory_lost });
            }
            Injection::Gone => {
                state.stop(|_| true);
                state.gone = true;
                state.injected.push(Interrupt::Reset { memory_lost: true });
            }
        }
        drop(state);
        self.wake();
    }

    /// Whether it has fallen off the bus.
    pub fn gone(&self) -> bool {
        self.shared.lock().gone
    }

    /// Its clock, in ticks of 10 ns. All GPUs of a machine agree.
    pub fn clock(&self) -> u64 {
        clock::now()
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self
            .shared
            .settled
            .wait_timeout(state, Duration::from_millis(1));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.quit = true;
            state.stop(|_| true);
        }
        self.wake();
        // The thread itself may be the last that knew of it.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread has been reported by the thread.
            let _ = thread.join();
        }
    }
}

impl State {
    /// Stops queues for good, as the kernel driver does when it evicts them.
    fn stop(&mut self, which: impl Fn(&Queue) -> bool) {
        for queue in self.queues.values_mut().filter(|queue| which(queue)) {
            queue.stop();
        }
    }

    /// One turn for every queue, in random order. Returns whether anything moved.
    fn turn(&mut self, core: &Arc<Core>, thread: &Thread, out: &mut Vec<Interrupt>) -> bool {
        let mut ids: Vec<_> = self.queues.keys().copied().collect();
        ids.sort_unstable();
        self.order.shuffle(&mut ids);
        let mut moved = false;
        for id in ids {
            let Some(queue) = self.queues.get_mut(&id) else {
                continue;
            };
            let before = out.len();
            match queue.turn(core, thread, out) {
                Turn::Idle => {}
                Turn::Moved => moved = true,
                Turn::Faulted(process) => {
                    self.stop(|queue| queue.process() == process);
                    moved = true;
                }
            }
            if told_host(&out[before..]) {
                self.check_host(id);
            }
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

/// Whether the kernel driver is about to wake the client. Context 0 is no event.
fn told_host(interrupts: &[Interrupt]) -> bool {
    interrupts
        .iter()
        .any(|interrupt| matches!(interrupt, Interrupt::EndOfPipe { context, .. } if *context != 0))
}

/// How often an idle GPU looks before it sleeps, giving up its time slice in between.
const LOOKS: u32 = 30;
/// How long it sleeps first, and at most.
const SLEEP: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(200));

fn run(shared: &Shared) {
    let this = thread::current();
    let mut quiet = 0;
    let mut sleep = SLEEP.0;
    loop {
        let mut interrupts = Vec::new();
        let (moved, none) = {
            let mut state = shared.lock();
            if state.quit && state.queues.values_mut().all(|queue| !queue.is_busy()) {
                return;
            }
            interrupts.append(&mut state.injected);
            let moved = state.turn(&shared.core, &this, &mut interrupts);
            state.delivering = !interrupts.is_empty();
            (moved, state.queues.is_empty() && !state.quit)
        };
        shared.settled.notify_all();
        if !interrupts.is_empty() {
            shared.deliver(interrupts);
            shared.lock().delivering = false;
        }
        if moved {
            (quiet, sleep) = (0, SLEEP.0);
        } else if none {
            // No doorbell can ring: `create_queue` wakes the thread.
            thread::park();
        } else if quiet < LOOKS {
            quiet += 1;
            thread::yield_now();
        } else {
            thread::park_timeout(sleep);
            sleep = SLEEP.1.min(sleep * 2);
        }
    }
}
