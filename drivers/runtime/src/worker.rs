//! The thread of a queue: it takes submissions, waits where they wait, and makes the calls of the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use drivers_gpu::submit::Stand;
use hcq::sync::{lock, unpoisoned};
use hcq::transport::MonotonicClock;
use hcq::{Deadline, process_generation};
use smallvec::SmallVec;

use crate::backend::State;
use crate::packet::{Packet, decode};
use crate::process::Process;
use crate::stream::{Gate, Line, Stop};

/// Words in memory: address, count.
pub(crate) type Words = (u64, u32);

/// One submission.
pub(crate) type Job = SmallVec<[Words; 2]>;

/// Looks without sleeping: most waits are for work of some microseconds.
const LOOKS: u32 = 200;

/// The longest sleep between two looks at a value in memory.
const SLICE: Duration = Duration::from_micros(50);

/// Between two looks at work that is under way while there is nothing else to do: the shortest and the longest.
const GLANCE: Duration = Duration::from_micros(100);
const MOST_GLANCE: Duration = Duration::from_millis(2);

/// How long the end of a queue waits for what its stream still does.
const END: Duration = Duration::from_secs(5);

/// What the thread and the others share.
#[derive(Default)]
pub(crate) struct Shared {
    jobs: Mutex<Jobs>,
    given: Condvar,
    ended: Condvar,
    taken: AtomicU64,
    /// What the thread waits for, and how often it has waited and gone on.
    held: Mutex<(bool, u64)>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    is_closing: bool,
    /// Whether the stream was idle, or can do nothing any more, when the thread ended.
    ended: Option<bool>,
}

enum Next {
    Job(Job),
    Look,
    End,
}

impl Shared {
    /// Gives the thread a submission.
    pub(crate) fn give(&self, job: Job) {
        self.lock().waiting.push_back(job);
        self.given.notify_one();
    }

    /// Submissions that are done with.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Whether the thread is at a wait.
    pub(crate) fn stand(&self) -> Stand {
        match *lock(&self.held) {
            (true, turns) => Stand::Held(turns),
            (false, _) => Stand::Moves,
        }
    }

    fn set_held(&self, is_held: bool) {
        let mut held = lock(&self.held);
        *held = (is_held, held.1 + 1);
    }

    fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// The next thing to do; a look after a while if something is under way.
    fn next(&self, glance: Option<Duration>) -> Next {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Next::Job(job);
            }
            if jobs.is_closing {
                return Next::End;
            }
            match glance {
                None => jobs = unpoisoned(self.given.wait(jobs)),
                Some(glance) => {
                    let (guard, waited) = unpoisoned(self.given.wait_timeout(jobs, glance));
                    jobs = guard;
                    if waited.timed_out() && jobs.waiting.is_empty() && !jobs.is_closing {
                        return Next::Look;
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        // Changed in single steps.
        lock(&self.jobs)
    }
}

/// The thread, for its queue.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    state: Arc<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
    generation: u32,
}

impl Worker {
    /// Starts the thread of a stream.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        line: Line,
        process: &Arc<Process>,
        state: &Arc<State>,
        name: &str,
    ) -> std::io::Result<Worker> {
        let shared = Arc::new(Shared::default());
        let run = Run {
            shared: shared.clone(),
            state: state.clone(),
            process: process.clone(),
            line,
            words: Vec::new(),
            is_over: false,
        };
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run.all())?;
        Ok(Worker {
            shared,
            state: state.clone(),
            thread: Mutex::new(Some(thread)),
            generation: process_generation(),
        })
    }

    /// What is shared with it.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends the thread, which does first what it can without waiting. Returns whether nothing can write any more.
    pub(crate) fn stop(&self) -> bool {
        let thread = lock(&self.thread).take();
        if self.generation != process_generation() {
            // A fork has none of the threads: there is nothing to join.
            std::mem::forget(thread);
            return false;
        }
        let mut jobs = self.shared.lock();
        let Some(thread) = thread else {
            return jobs.ended.unwrap_or(false);
        };
        jobs.is_closing = true;
        self.shared.given.notify_all();
        self.state.ring();
        let soon = Deadline::after(END + END);
        while jobs.ended.is_none() && !soon.expired(&MonotonicClock) {
            (jobs, _) = unpoisoned(self.shared.ended.wait_timeout(jobs, SLICE * 20));
        }
        let ended = jobs.ended;
        drop(jobs);
        match ended {
            Some(is_stopped) => {
                // Its panic was reported already.
                let _ = thread.join();
                is_stopped
            }
            // It is inside of a call that does not return.
            None => false,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread has.
struct Run {
    shared: Arc<Shared>,
    state: Arc<State>,
    process: Arc<Process>,
    line: Line,
    words: Vec<u32>,
    /// A submission was dropped: so is what is behind it.
    is_over: bool,
}

impl Run {
    fn all(mut self) {
        let mut glance = GLANCE;
        loop {
            let is_busy = self.line.is_busy() && !self.is_lost();
            match self.shared.next(is_busy.then_some(glance)) {
                Next::Job(job) => {
                    glance = GLANCE;
                    let done = match self.is_over {
                        true => Err(Stop::Over),
                        false => self.job(&job),
                    };
                    self.is_over |= done.is_err();
                    self.note(done);
                    self.shared.taken.fetch_add(1, Ordering::AcqRel);
                    if !self.line.is_busy() {
                        self.state.ring();
                    }
                }
                Next::Look => {
                    glance = (glance * 2).min(MOST_GLANCE);
                    match self.line.look() {
                        Ok(true) => self.state.ring(),
                        Ok(false) => {}
                        Err(stop) => self.note(Err(stop)),
                    }
                }
                Next::End => break,
            }
        }
        let is_stopped = self.drain();
        let Run { shared, line, .. } = self;
        match is_stopped {
            true => drop(line),
            // The end of a stream that is still busy may wait for it.
            false => std::mem::forget(line),
        }
        let mut jobs = shared.lock();
        jobs.ended = Some(is_stopped);
        drop(jobs);
        shared.ended.notify_all();
    }

    fn note(&self, done: Result<(), Stop>) {
        if let Err(Stop::Failed(error)) = done {
            self.state.fail(error);
        }
    }

    /// Waits until nothing is under way. A context that is lost does nothing any more, either.
    fn drain(&mut self) -> bool {
        let soon = Deadline::after(END);
        loop {
            match self.line.look() {
                Ok(true) | Err(_) => return true,
                Ok(false) if soon.expired(&MonotonicClock) => return false,
                Ok(false) => std::thread::sleep(SLICE),
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.state.failed().is_some() || self.line.is_lost()
    }

    fn job(&mut self, job: &Job) -> Result<(), Stop> {
        for &(at, count) in job {
            if self.is_lost() {
                return Err(Stop::Over);
            }
            let mut words = std::mem::take(&mut self.words);
            words.clear();
            words.resize(count as usize, 0);
            let read = self
                .process
                .window_at(at)
                .is_some_and(|(window, offset)| window.read_words(offset, &mut words).is_ok());
            let done = match read {
                true => self.packets(&words),
                // Cannot be: a submission keeps its words.
                false => Err(self.line.unreadable(at)),
            };
            self.words = words;
            done?;
        }
        Ok(())
    }

    fn packets(&mut self, words: &[u32]) -> Result<(), Stop> {
        let mut at = 0;
        while let Some(rest) = words.get(at..).filter(|rest| !rest.is_empty()) {
            let Some((packet, length)) = decode(rest) else {
                return Err(self.line.unknown(rest[0]));
            };
            self.packet(&packet)?;
            at += length;
        }
        Ok(())
    }

    fn packet(&mut self, packet: &Packet<'_>) -> Result<(), Stop> {
        match self.line.gate(packet)? {
            Gate::Open => {}
            gate => self.until(|line| line.is_met(&gate))?,
        }
        self.line.run(packet)
    }

    /// Waits until something holds, the queue ends, or its device is lost.
    fn until(
        &mut self,
        mut holds: impl FnMut(&mut Line) -> Result<bool, Stop>,
    ) -> Result<(), Stop> {
        if holds(&mut self.line)? {
            return Ok(());
        }
        let mut is_held = false;
        let mut looks = 0u32;
        let done = loop {
            if self.is_lost() || self.shared.is_closing() {
                break Err(Stop::Over);
            }
            match self.line.look() {
                // What is under way may be what is waited for.
                Ok(true) if !is_held => {
                    is_held = true;
                    self.state.ring();
                    self.shared.set_held(true);
                }
                Ok(_) => {}
                Err(stop) => break Err(stop),
            }
            match looks < LOOKS {
                true => std::thread::yield_now(),
                false => std::thread::sleep(SLICE),
            }
            looks = looks.saturating_add(1);
            match holds(&mut self.line) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(stop) => break Err(stop),
            }
        };
        if is_held {
            self.shared.set_held(false);
        }
        done
    }
}
