//! [`Shared`]: what every part of one open device knows: its name, whether it is lost, its memory,
//! and which kernel lies where.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drivers_host::mmap::CodeArenas;
use hcq::kernels::Kernels;
use hcq::progress::{Asked, Queues};
use hcq::{DeviceId, Error, LostState};

use crate::guard::Trap;
use crate::hold::Holds;
use crate::memory::Pool;
use crate::progress::Progress;
use crate::waiters;

/// State of one open device.
pub(crate) struct Shared {
    pub(crate) id: DeviceId,
    pub(crate) lost: Arc<LostState>,
    pub(crate) pool: Arc<Pool>,
    /// Where kernels lie.
    pub(crate) code: Arc<CodeArenas>,
    /// The loaded kernels, for messages.
    pub(crate) kernels: Arc<Kernels>,
    /// All handles are gone: finish what can be finished.
    closing: AtomicBool,
    holds: Mutex<Holds>,
    /// Of the queues, for who waits.
    progress: Mutex<Vec<Arc<Progress>>>,
}

impl Shared {
    pub(crate) fn new(id: DeviceId, memory: u64) -> Shared {
        let lost = Arc::new(LostState::new(id.clone()));
        Shared {
            pool: Pool::new(&lost, id.clone(), memory),
            lost,
            id,
            code: Arc::default(),
            kernels: Arc::default(),
            closing: AtomicBool::new(false),
            holds: Mutex::default(),
            progress: Mutex::default(),
        }
    }

    /// Loses the device and wakes whoever waits for it.
    pub(crate) fn lose(&self, cause: Error) -> Error {
        let error = self.lost.lose(cause);
        waiters::wake_all();
        error
    }

    /// The same for a fault of one of its units.
    pub(crate) fn fault(&self, unit: String, what: String) -> Error {
        let device = self.id.clone();
        self.lose(Error::Fault { device, unit, what })
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        waiters::wake_all();
    }

    pub(crate) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// What the command processors wait for.
    pub(crate) fn lock_holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a queue, for who waits.
    pub(crate) fn watch(&self, queue: Arc<Progress>) {
        self.lock_progress().push(queue);
    }

    /// Where the queues stand that have something to do, for messages.
    pub(crate) fn report(&self) -> String {
        let queues = self.lock_progress().clone();
        let lines: Vec<_> = queues.iter().filter_map(|queue| queue.report()).collect();
        match lines.is_empty() {
            true => "no queue has work".into(),
            false => lines.join("; "),
        }
    }

    fn lock_progress(&self) -> MutexGuard<'_, Vec<Arc<Progress>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trap in words. `entry` is the kernel that ran; `None` for the processor's own accesses.
    pub(crate) fn describe(&self, trap: &Trap, entry: Option<u64>) -> String {
        let mut text = match entry {
            Some(entry) => match self.kernels.at(entry) {
                Some((kernel, _)) => format!("kernel {}", kernel.name),
                None => format!("kernel at {entry:#x}, which no loaded program has"),
            },
            None => "memory access".into(),
        };
        if let Some((_, offset)) = entry.and_then(|_| self.kernels.at(trap.pc)) {
            text += &format!(", code offset {offset:#x}");
        } else if entry.is_some() {
            text += &format!(", at {:#x}, outside of its code", trap.pc);
        }
        text += match trap.signal {
            libc::SIGSEGV => ": SIGSEGV",
            libc::SIGBUS => ": SIGBUS",
            libc::SIGFPE => ": SIGFPE (an integer division by zero or overflow)",
            libc::SIGILL => {
                ": SIGILL (an instruction that this processor lacks, or a trap of the compiler)"
            }
            _ => ": signal",
        };
        if let Some(address) = trap.address {
            text += match trap.write {
                Some(true) => " writing ",
                Some(false) => " reading ",
                None => " at ",
            };
            text += &format!("{address:#x}, ");
            let near_stack = address.abs_diff(trap.sp) < 64 << 10;
            if near_stack && entry.is_some() && trap.sp != 0 {
                text += "beside the stack pointer: the stack of the worker is exhausted";
            } else {
                text += &self.pool.locate(address);
            }
        } else if matches!(trap.signal, libc::SIGSEGV | libc::SIGBUS) {
            text += " at an address that the processor does not tell (not canonical)";
        }
        text
    }
}

impl Queues for Shared {
    fn raising(&self, at: u64, asked: &mut Asked) -> Option<Duration> {
        // A copy: what a queue waits for may be raised by this device again.
        let queues = self.lock_progress().clone();
        let raising = queues.iter().filter(|queue| queue.raises(at));
        raising.map(|queue| queue.silence(asked)).min()
    }
}
