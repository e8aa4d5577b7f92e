//! [`Progress`]: the visible progress of a queue, checked by long waits.
//!
//! The threads that run kernels count where they enter and leave them, by two stores each; nothing else is done before
//! somebody asks. A kernel that runs is progress, however long it takes: its thread has a processor, or would take one.
//! One that waits in the system and uses no processor is not.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use drivers_gpu::submit::Stand;
use drivers_host::thread::Thread;
use hcq::kernels::Kernels;
use hcq::progress::{Asked, Seen, raising};
use hcq::sync::lock;

use crate::bus::Bus;
use crate::guard::{Floats, Guard};
use crate::hold::Hold;
use crate::packet::{Packet, decode};
use crate::ring::RingMemory;

/// A thread that runs kernels and copies, as others see it. A cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// Its number; 0 before it runs.
    thread: AtomicI32,
    /// Goes up by one where it enters a kernel or copy, and where it leaves: it is odd inside. Only that thread writes.
    steps: AtomicU64,
}

impl Worker {
    /// The thread that calls is the worker.
    pub(crate) fn begin(&self) {
        self.thread
            .store(Thread::current().raw(), Ordering::Release);
    }

    /// Does something that may take long.
    #[inline]
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps + 1, Ordering::Relaxed);
        let done = work();
        self.steps.store(steps + 2, Ordering::Relaxed);
        done
    }

    fn thread(&self) -> Option<Thread> {
        match self.thread.load(Ordering::Acquire) {
            0 => None,
            number => Some(Thread::from_raw(number)),
        }
    }
}

/// One queue, for who waits.
pub(crate) struct Progress {
    unit: String,
    ring: Arc<RingMemory>,
    kernels: Arc<Kernels>,
    /// The command processor first.
    workers: Vec<Arc<Worker>>,
    /// What the processor is blocked in, and how often it has blocked and gone on.
    held: Mutex<(Option<Hold>, u64)>,
    /// Its processor waits for a runtime, which does not tell a long kernel from one that hangs.
    is_elsewhere: AtomicBool,
    seen: Seen,
}

impl Progress {
    pub(crate) fn new(
        unit: &str,
        ring: &Arc<RingMemory>,
        kernels: &Arc<Kernels>,
        workers: Vec<Arc<Worker>>,
    ) -> Progress {
        Progress {
            unit: unit.into(),
            ring: ring.clone(),
            kernels: kernels.clone(),
            // What `silence` notes.
            seen: Seen::with_room(2 + 2 * workers.len()),
            workers,
            held: Mutex::default(),
            is_elsewhere: AtomicBool::new(false),
        }
    }

    /// The processor waits for a runtime, or goes on.
    pub(crate) fn set_elsewhere(&self, is_elsewhere: bool) {
        self.is_elsewhere.store(is_elsewhere, Ordering::Relaxed);
    }

    /// The processor blocks, or continues.
    pub(crate) fn set_held(&self, hold: Option<Hold>) {
        let mut held = self.lock_held();
        *held = (hold, held.1 + 1);
    }

    /// For how long nothing has moved here, nor in what this queue waits for.
    pub(crate) fn silence(&self, asked: &mut Asked) -> Duration {
        let (held, turns) = *self.lock_held();
        let mut moves = match held {
            // Its processor has not woken up yet.
            Some(hold) => is_met(&hold),
            None if self.is_elsewhere.load(Ordering::Relaxed) => false,
            // Between two packets, or before it has seen the first.
            None => self.is_busy() && self.workers.first().is_some_and(runs),
        };
        let workers = self.workers.iter().flat_map(|worker| {
            let steps = worker.steps.load(Ordering::Relaxed);
            // Outside of kernels a thread uses a processor to look for work.
            let time = match is_inside(steps) {
                true => worker.thread().and_then(Thread::processor_ns),
                false => None,
            };
            moves |= is_inside(steps) && runs(worker);
            [steps, time.unwrap_or(0)]
        });
        let marks = [self.ring.consumed(), turns].into_iter().chain(workers);
        let mut own = self.seen.note(marks);
        if moves {
            self.seen.note_progress();
            own = Duration::ZERO;
        }
        match held {
            Some(Hold::Signal { va: at, .. } | Hold::Word { at, .. }) => {
                own.min(raising(at, asked).unwrap_or(Duration::MAX))
            }
            None => own,
        }
    }

    /// Whether the processor is blocked by a wait.
    pub(crate) fn stand(&self) -> Stand {
        let (held, turns) = *self.lock_held();
        match held {
            Some(hold) if !is_met(&hold) => Stand::Held(turns),
            _ => Stand::Moves,
        }
    }

    /// Whether there are packets that are not done.
    fn is_busy(&self) -> bool {
        self.ring.consumed() < self.ring.submitted()
    }

    /// The position of the queue as text; `None` if it is idle.
    pub(crate) fn report(&self) -> Option<String> {
        let (held, _) = *self.lock_held();
        if !self.is_busy() {
            return None;
        }
        let (rptr, wptr) = (self.ring.consumed(), self.ring.submitted());
        let mut text = format!("{}: read pointer {rptr:#x} of {wptr:#x}", self.unit);
        if let Some(hold) = held {
            return Some(text + &format!(", held by {hold}"));
        }
        let words = self.ring.in_flight();
        match decode(&words, 0) {
            Ok((Packet::Exec { entry, .. }, _)) => match self.kernels.at(entry) {
                Some((kernel, _)) => text += &format!(", at kernel {}", kernel.name),
                None => text += &format!(", at a kernel at {entry:#x}, in no loaded program"),
            },
            Ok((packet, _)) => text += &format!(", at {packet}"),
            Err(_) => {}
        }
        let all = self.workers.iter();
        let inside: Vec<_> = all
            .filter(|worker| is_inside(worker.steps.load(Ordering::Relaxed)))
            .collect();
        if !inside.is_empty() {
            let running = inside.iter().filter(|worker| runs(worker)).count();
            text += &format!(
                " ({} of {} worker threads in the kernel, {running} on a core)",
                inside.len(),
                self.workers.len()
            );
        }
        Some(text)
    }

    fn lock_held(&self) -> MutexGuard<'_, (Option<Hold>, u64)> {
        lock(&self.held)
    }
}

/// Whether memory is as a hold wants it. Its address comes from a program, and may be wrong.
fn is_met(hold: &Hold) -> bool {
    let guard = Guard::new(Floats::Ieee);
    guard.is_ok_and(|guard| hold.met(&Bus(&guard)).unwrap_or(false))
}

/// Whether its thread has a processor, or only lacks one: as well if it has not begun yet.
fn runs(worker: &Arc<Worker>) -> bool {
    let thread = worker.thread();
    thread.is_none_or(|thread| thread.is_runnable() == Some(true))
}

fn is_inside(steps: u64) -> bool {
    steps % 2 == 1
}
