//! The scheduler: what the engines of a machine do, one step after the other, in an order that follows
//! from the seed.
//!
//! One thread runs every queue of every GPU in turns. A round gives each queue a turn, in random order
//! and of random length. Doorbells are looked at when no queue can go on, and at times counted in rounds;
//! a packet that waits is tried again when what it has read has changed. So what a client does counts from
//! the same step on, however busy the host is, as long as it waits for what it has started. Time is a clock that goes on with the steps ([`Clock`]).
//!
//! Where nothing can move, no random number is used up and no time passes, however long it lasts.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use twin::rng::Rng;
use twin::watch::{Moment, Watch};

use crate::cp::clock::Clock;
use crate::cp::fiber::Fibers;
use crate::gpu::{Interrupt, Side};

/// The scheduler of a machine.
pub struct Scheduler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What its thread and callers share.
struct Shared {
    clock: Arc<Clock>,
    state: Mutex<State>,
    /// Callers that want the lock: they go first.
    callers: AtomicU32,
    /// Rung after each round.
    settled: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub gpus: Vec<Side>,
    order: Option<Rng>,
    quit: bool,
    /// Rounds in which something moved.
    moved: u64,
    /// Whether somebody holds the next round back.
    paused: bool,
    watch: Option<Box<dyn Watch>>,
}

/// Rounds after which doorbells are looked at even though queues still move.
const ROUNDS: u32 = 64;

impl Scheduler {
    /// A scheduler whose choices follow from a seed.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn new(seed: u64) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            clock: Arc::default(),
            state: Mutex::new(State {
                order: Some(Rng::new(seed)),
                ..State::default()
            }),
            callers: AtomicU32::new(0),
            settled: Condvar::new(),
        });
        let thread = thread::Builder::new().name("twin".into()).spawn({
            let shared = shared.clone();
            move || run(&shared)
        })?;
        Ok(Arc::new(Self {
            shared,
            thread: Some(thread),
        }))
    }

    /// The clock of the machine.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.shared.clock
    }

    /// The state, between two rounds.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.callers.fetch_add(1, Ordering::AcqRel);
        let state = self.shared.lock();
        self.shared.callers.fetch_sub(1, Ordering::AcqRel);
        state
    }

    /// Has somebody watch from now on.
    pub(crate) fn watch(&self, watch: Box<dyn Watch>) {
        self.lock().watch = Some(watch);
    }

    /// Waits until what engines tell the kernel driver has arrived, and holds the next round back until
    /// [`Self::go_on`]. One caller at a time.
    pub(crate) fn pause(&self) -> Moment {
        loop {
            let mut state = self.lock();
            if state.gpus.iter().all(|gpu| !gpu.delivering) {
                state.paused = true;
                return state.now(&self.shared.clock);
            }
            drop(state);
            thread::yield_now();
        }
    }

    /// See [`Self::pause`].
    pub(crate) fn go_on(&self) {
        self.lock().paused = false;
        self.wake();
    }

    /// Lets a round pass, or a moment; also where rounds are held back: who waits here needs them.
    pub(crate) fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let paused = std::mem::take(&mut state.paused);
        let mut state = self.wait_for_round(state);
        state.paused = paused;
        state
    }

    fn wait_for_round<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self
            .shared
            .settled
            .wait_timeout(state, Duration::from_millis(1));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// There may be something to do.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.quit = true;
            for gpu in &mut state.gpus {
                gpu.stop(|_| true);
            }
        }
        self.wake();
        // The thread itself may be the last that knew of it.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread has been reported by the thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is whole before it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn now(&self, clock: &Clock) -> Moment {
        Moment {
            rounds: self.moved,
            time: clock.seen(),
        }
    }

    /// Whether there shall be a round in which doorbells are looked at.
    fn looks(&mut self, clock: &Clock) -> bool {
        let Some(mut watch) = self.watch.take().filter(|_| !self.quit) else {
            return self.can_move();
        };
        let go = watch.look(self.now(clock), &mut || self.can_move());
        self.watch = Some(watch);
        go
    }

    /// Whether there may be one in which they are not.
    fn may_go(&mut self, clock: &Clock) -> bool {
        let now = self.now(clock);
        let watch = self.watch.as_mut();
        watch.is_none_or(|watch| watch.may_go(now))
    }

    /// Whether a round would do something. Asked first when nothing moved before: so every queue sees what
    /// the client has changed in the same round, whichever would have looked just before it.
    fn can_move(&mut self) -> bool {
        for gpu in &mut self.gpus {
            gpu.hold();
        }
        self.gpus.iter().any(Side::can_move)
    }

    /// A turn for every queue, in random order. Returns whether anything moved.
    fn round(
        &mut self,
        look: bool,
        fibers: &mut Fibers,
        out: &mut Vec<(usize, Interrupt)>,
    ) -> bool {
        let mut turns: Vec<_> = (0..self.gpus.len())
            .flat_map(|gpu| self.gpus[gpu].ids().map(move |id| (gpu, id)))
            .collect();
        let Some(order) = &mut self.order else {
            return false;
        };
        let before = order.clone();
        order.shuffle(&mut turns);
        let mut moved = false;
        for (gpu, id) in turns {
            let mut told = Vec::new();
            moved |= self.gpus[gpu].turn(id, (order, look), fibers, &mut told);
            out.extend(told.into_iter().map(|interrupt| (gpu, interrupt)));
        }
        if !moved {
            *order = before;
        }
        moved
    }
}

/// How often an idle machine looks before it sleeps, giving up its time slice in between.
const LOOKS: u32 = 30;
/// How long it sleeps first, and at most.
const SLEEP: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(200));

fn run(shared: &Shared) {
    let mut fibers = Fibers::default();
    let (mut quiet, mut sleep) = (0, SLEEP.0);
    // Rounds since doorbells were looked at.
    let mut rounds = ROUNDS;
    loop {
        while shared.callers.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        let mut out = Vec::new();
        let (moved, none, kernels) = {
            let mut state = shared.lock();
            if state.quit && !state.gpus.iter().any(Side::is_busy) {
                return;
            }
            let look = rounds >= ROUNDS;
            if !state.quit && (state.paused || !look && !state.may_go(&shared.clock)) {
                drop(state);
                thread::park_timeout(SLEEP.0);
                continue;
            }
            for (gpu, side) in state.gpus.iter_mut().enumerate() {
                out.extend(side.injected().map(|interrupt| (gpu, interrupt)));
            }
            rounds = if look { 0 } else { rounds + 1 };
            let round = !look || state.looks(&shared.clock);
            let moved = round && state.round(look, &mut fibers, &mut out);
            state.moved += u64::from(moved);
            if !moved || fibers.take_paused() {
                rounds = ROUNDS;
            }
            for (gpu, side) in state.gpus.iter_mut().enumerate() {
                side.delivering = out.iter().any(|(of, _)| *of == gpu);
            }
            let none =
                state.gpus.iter().all(Side::is_empty) && !state.quit && state.watch.is_none();
            let kernels: Vec<_> = out
                .iter()
                .map(|(gpu, _)| state.gpus[*gpu].kernel())
                .collect();
            (moved, none, kernels)
        };
        shared.settled.notify_all();
        if !out.is_empty() {
            for ((gpu, interrupt), kernel) in out.into_iter().zip(kernels) {
                if let Some(kernel) = kernel {
                    kernel.interrupt(gpu, interrupt);
                }
            }
            for side in &mut shared.lock().gpus {
                side.delivering = false;
            }
        }
        if moved {
            (quiet, sleep) = (0, SLEEP.0);
        } else if none {
            // No doorbell can ring: who makes a queue wakes the thread.
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
