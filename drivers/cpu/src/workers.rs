//! The threads that run kernels: the command processor of the compute queue, and its helpers.
//!
//! A launch with several groups is a *fork*: the processor publishes it in one place, wakes helpers,
//! and all of them take chunks of groups from one counter until none is left. The processor then
//! closes the launch and waits for those that had come in. It never waits for a helper that has
//! not come: on a busy machine a launch costs no more than running it alone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hcq::sync::lock;

use crate::event::{Event, spin};
use crate::guard::{Floats, Guard, Trap};
use crate::progress::Worker;

/// Bit of the gate that lets helpers in; the bits below count who is inside, those above the
/// launches.
const OPEN: u32 = 1 << 15;
const INSIDE: u32 = OPEN - 1;
const LAUNCH: u32 = OPEN << 1;

/// Chunks that each thread gets to take on average: more even the load, fewer cost less.
const CHUNKS_PER_THREAD: u64 = 4;

/// The longest sleep of a helper or a joining processor between two polls. Wake-ups are
/// not lost; this bounds what a broken futex could do.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// One launch, and who works on it.
#[derive(Default)]
struct Fork {
    /// Launch number, `OPEN`, threads inside. The fields below change only while it is closed
    /// with nobody inside, so whoever comes in (acquire) sees them whole.
    gate: AtomicU32,
    kernel: AtomicU64,
    args: AtomicU64,
    groups: AtomicU64,
    chunk: AtomicU64,
    next: AtomicU64,
    trap: Mutex<Option<Trap>>,
    /// A launch was published, or the pool ends.
    work: Event,
    /// The last helper has left a closed launch.
    left: Event,
    stop: AtomicU32,
    spin: Duration,
}

/// A processor's pool; the processor itself is worker 0.
pub(crate) struct Workers {
    fork: Arc<Fork>,
    helpers: Vec<JoinHandle<()>>,
    /// The helpers, for who waits.
    progress: Vec<Arc<Worker>>,
}

impl Workers {
    /// `threads - 1` helpers with stacks of `stack` bytes. `spin` is how long an idle one looks
    /// before it sleeps.
    ///
    /// # Errors
    /// The system's, if it gives no more threads.
    pub(crate) fn new(
        name: &str,
        threads: usize,
        spin: Duration,
        stack: usize,
        floats: Floats,
    ) -> std::io::Result<Workers> {
        let fork = Arc::new(Fork {
            spin,
            ..Fork::default()
        });
        let mut workers = Workers {
            fork,
            helpers: Vec::new(),
            progress: Vec::new(),
        };
        // On an error the drop of `workers` ends those that were started.
        for i in 1..threads.clamp(1, INSIDE as usize) {
            let fork = workers.fork.clone();
            let worker = Arc::new(Worker::default());
            workers.progress.push(worker.clone());
            let thread = std::thread::Builder::new()
                .name(format!("{name} {i}"))
                .stack_size(stack)
                .spawn(move || help(&fork, &worker, floats))?;
            workers.helpers.push(thread);
        }
        Ok(workers)
    }

    /// The helpers, for who waits.
    pub(crate) fn progress(&self) -> &[Arc<Worker>] {
        &self.progress
    }

    /// Runs all groups of a kernel; returns when they are done. `worker` is the thread that calls.
    ///
    /// # Errors
    /// The first fault. Groups that were not started then are not run.
    ///
    /// # Safety
    /// The contract of [`Guard::call`], for calls from several threads at once.
    pub(crate) unsafe fn run(
        &self,
        guard: &Guard,
        worker: &Worker,
        kernel: u64,
        args: &[u64],
        groups: u64,
    ) -> Result<(), Trap> {
        if groups == 0 {
            return Ok(());
        }
        if groups == 1 || self.helpers.is_empty() {
            // SAFETY: as promised by the caller.
            return worker.inside(|| unsafe { guard.call(kernel, args.as_ptr(), 0, groups) });
        }
        let fork = &*self.fork;
        let threads = self.helpers.len() as u64 + 1;
        let chunk = (groups / (threads * CHUNKS_PER_THREAD)).max(1);
        fork.kernel.store(kernel, Ordering::Relaxed);
        fork.args.store(args.as_ptr() as u64, Ordering::Relaxed);
        fork.groups.store(groups, Ordering::Relaxed);
        fork.chunk.store(chunk, Ordering::Relaxed);
        fork.next.store(0, Ordering::Relaxed);
        let gate = fork.gate.load(Ordering::Relaxed);
        fork.gate.store(
            (gate & !INSIDE).wrapping_add(LAUNCH) | OPEN,
            Ordering::Release,
        );
        fork.work.notify();
        fork.take_chunks(guard, worker);
        // From here on no thread enters.
        fork.gate.fetch_and(!OPEN, Ordering::AcqRel);
        let empty = || fork.gate.load(Ordering::Acquire) & INSIDE == 0;
        if !spin(fork.spin, empty) {
            while !empty() {
                fork.left.wait(LONGEST_SLEEP, empty);
            }
        }
        match fork.lock_trap().take() {
            None => Ok(()),
            Some(trap) => Err(trap),
        }
    }
}

impl Fork {
    /// Runs chunks until none is left.
    fn take_chunks(&self, guard: &Guard, worker: &Worker) {
        let kernel = self.kernel.load(Ordering::Relaxed);
        let args = self.args.load(Ordering::Relaxed) as *const u64;
        let groups = self.groups.load(Ordering::Relaxed);
        let chunk = self.chunk.load(Ordering::Relaxed);
        loop {
            let begin = self.next.fetch_add(chunk, Ordering::Relaxed);
            if begin >= groups {
                return;
            }
            let end = groups.min(begin.saturating_add(chunk));
            // SAFETY: the caller of `Workers::run` promised it, and waits until we are out.
            let done = worker.inside(|| unsafe { guard.call(kernel, args, begin, end) });
            if let Err(trap) = done {
                self.lock_trap().get_or_insert(trap);
                // Far beyond `groups`, and far from wrapping.
                self.next.store(u64::MAX / 2, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Enters the launch that is open, unless it is number `last`. Returns its number.
    fn enter(&self, last: u32) -> Option<u32> {
        let mut gate = self.gate.load(Ordering::Acquire);
        while gate & OPEN != 0 && gate / LAUNCH != last {
            match self.gate.compare_exchange_weak(
                gate,
                gate + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(gate / LAUNCH),
                Err(now) => gate = now,
            }
        }
        None
    }

    fn leave(&self) {
        let before = self.gate.fetch_sub(1, Ordering::AcqRel);
        if before & (OPEN | INSIDE) == 1 {
            self.left.notify();
        }
    }

    fn lock_trap(&self) -> std::sync::MutexGuard<'_, Option<Trap>> {
        lock(&self.trap)
    }
}

/// A helper's life.
fn help(fork: &Fork, worker: &Worker, floats: Floats) {
    worker.begin();
    let guard = match Guard::new(floats) {
        Ok(guard) => guard,
        Err(error) => {
            // The processor does all the work then.
            tracing::warn!("a CPU worker thread could not start: {error}");
            return;
        }
    };
    let mut last = u32::MAX;
    let stopped = || fork.stop.load(Ordering::Acquire) != 0;
    loop {
        let mut entered = None;
        let come = spin(fork.spin, || {
            entered = fork.enter(last);
            entered.is_some() || stopped()
        });
        if let Some(launch) = entered {
            fork.take_chunks(&guard, worker);
            fork.leave();
            last = launch;
        } else if come || stopped() {
            return;
        } else {
            let open = || {
                let gate = fork.gate.load(Ordering::Acquire);
                gate & OPEN != 0 && gate / LAUNCH != last
            };
            fork.work.wait(LONGEST_SLEEP, || open() || stopped());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.fork.stop.store(1, Ordering::Release);
        self.fork.work.notify();
        for helper in self.helpers.drain(..) {
            let _ = helper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Kernel;

    fn address(kernel: Kernel) -> u64 {
        kernel as *const () as u64
    }

    /// `args`: counters, one per group.
    unsafe extern "C" fn count(args: *const u64, begin: u64, end: u64) {
        for group in begin..end {
            // SAFETY: the test passes an array with a word per group.
            unsafe { AtomicU64::from_ptr((*args as *mut u64).add(group as usize)) }
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Faults in the group that `args[1]` names.
    unsafe extern "C" fn fault_at(args: *const u64, begin: u64, end: u64) {
        // SAFETY: two arguments; the guard catches the store.
        unsafe {
            if (begin..end).contains(&*args.add(1)) {
                (*args as *mut u64).write_volatile(1);
            }
        }
    }

    #[test]
    fn every_group_runs_exactly_once() {
        for threads in [1, 2, 5] {
            let guard = Guard::new(Floats::Ieee).unwrap();
            let me = Worker::default();
            let workers = Workers::new(
                "test",
                threads,
                Duration::from_micros(1),
                1 << 20,
                Floats::Ieee,
            )
            .unwrap();
            for round in 0..2000usize {
                let groups = [1, 2, 3, 64, 1000][round % 5];
                let counters = vec![0u64; groups];
                let args = [counters.as_ptr() as u64];
                // SAFETY: `count` with its arguments.
                unsafe { workers.run(&guard, &me, address(count), &args, groups as u64) }.unwrap();
                assert!(counters.iter().all(|&c| c == 1), "{groups} groups");
            }
        }
    }

    #[test]
    fn a_fault_in_any_group_ends_the_launch_and_the_pool_goes_on() {
        let guard = Guard::new(Floats::Ieee).unwrap();
        let me = Worker::default();
        let workers =
            Workers::new("test", 3, Duration::from_micros(1), 1 << 20, Floats::Ieee).unwrap();
        for group in [0u64, 1, 500, 999] {
            let args = [0x30, group];
            // SAFETY: `fault_at` with its arguments.
            let run = unsafe { workers.run(&guard, &me, address(fault_at), &args, 1000) };
            assert_eq!(run.unwrap_err().address, Some(0x30));
            let counters = vec![0u64; 100];
            let args = [counters.as_ptr() as u64];
            // SAFETY: `count` with its arguments.
            unsafe { workers.run(&guard, &me, address(count), &args, 100) }.unwrap();
            assert!(counters.iter().all(|&c| c == 1));
        }
    }
}
