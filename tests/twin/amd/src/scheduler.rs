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
use std::sync::{Arc, Condvar, MutexGuard};
use std::thread;
use std::time::Duration;

use hcq::sync::unpoisoned;
use twin::rng::Rng;
use twin::rounds::{Gate, Rhythm, Worker, turns};
use twin::watch::{Moment, Watch};

use crate::cp::clock::Clock;
use crate::cp::fiber::Fibers;
use crate::gpu::{Interrupt, Side};

/// The scheduler of a machine.
pub struct Scheduler {
    shared: Arc<Shared>,
    thread: Worker,
}

/// What its thread and callers share.
struct Shared {
    clock: Arc<Clock>,
    state: Gate<State>,
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

impl Scheduler {
    /// A scheduler whose choices follow from a seed.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn new(seed: u64) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            clock: Arc::default(),
            state: Gate::new(State {
                order: Some(Rng::new(seed)),
                ..State::default()
            }),
            settled: Condvar::new(),
        });
        let thread = Worker::default();
        thread.start({
            let shared = shared.clone();
            move || run(&shared)
        })?;
        Ok(Arc::new(Self { shared, thread }))
    }

    /// The clock of the machine.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.shared.clock
    }

    /// The state, between two rounds.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.enter()
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
        unpoisoned(waited).0
    }

    /// There may be something to do.
    pub(crate) fn wake(&self) {
        self.thread.wake();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.quit = true;
            for gpu in &mut state.gpus {
                gpu.stop(|_| true);
            }
        }
        self.thread.join();
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
        let all = (0..self.gpus.len())
            .flat_map(|gpu| self.gpus[gpu].ids().map(move |id| (gpu, id)))
            .collect();
        let Some(order) = &mut self.order else {
            return false;
        };
        turns(order, all, |order, (gpu, id)| {
            let mut told = Vec::new();
            let moved = self.gpus[gpu].turn(id, (order, look), fibers, &mut told);
            out.extend(told.into_iter().map(|interrupt| (gpu, interrupt)));
            moved
        })
    }
}

fn run(shared: &Shared) {
    let mut fibers = Fibers::default();
    let mut rhythm = Rhythm::default();
    loop {
        shared.state.give_way();
        let mut out = Vec::new();
        let (moved, none, kernels) = {
            let mut state = shared.state.lock();
            if state.quit && !state.gpus.iter().any(Side::is_busy) {
                return;
            }
            let look = rhythm.looks();
            if !state.quit && (state.paused || !look && !state.may_go(&shared.clock)) {
                drop(state);
                rhythm.hold();
                continue;
            }
            for (gpu, side) in state.gpus.iter_mut().enumerate() {
                out.extend(side.injected().map(|interrupt| (gpu, interrupt)));
            }
            let round = !look || state.looks(&shared.clock);
            let moved = round && state.round(look, &mut fibers, &mut out);
            state.moved += u64::from(moved);
            rhythm.passed(look, moved && !fibers.take_paused());
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
            for side in &mut shared.state.lock().gpus {
                side.delivering = false;
            }
        }
        // Who makes a queue wakes the thread.
        rhythm.rest(moved, none);
    }
}
