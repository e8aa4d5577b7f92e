//! What the schedulers of machines have in common: one thread runs all engines in rounds, each of them has a turn in
//! random order, and who calls from outside comes between two rounds.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hcq::sync::lock;

use crate::rng::Rng;

/// Rounds after which doorbells are looked at even though engines still move.
const ROUNDS: u32 = 64;
/// How often an idle machine looks before it sleeps, giving up its time slice in between.
const LOOKS: u32 = 30;
/// How long it sleeps first, and at most.
const SLEEP: (Duration, Duration) = (Duration::from_micros(10), Duration::from_micros(200));

/// When the thread looks at doorbells, and when it rests.
pub struct Rhythm {
    /// Rounds since doorbells were looked at.
    rounds: u32,
    quiet: u32,
    sleep: Duration,
}

impl Default for Rhythm {
    fn default() -> Rhythm {
        Rhythm {
            rounds: ROUNDS,
            quiet: 0,
            sleep: SLEEP.0,
        }
    }
}

impl Rhythm {
    /// Whether doorbells are looked at in the next round.
    pub fn looks(&self) -> bool {
        self.rounds >= ROUNDS
    }

    /// The next round is held back.
    pub fn hold(&self) {
        thread::park_timeout(SLEEP.0);
    }

    /// There was a round, in which doorbells were looked at or not. Unless it goes on, they are in the next.
    pub fn passed(&mut self, looked: bool, goes_on: bool) {
        self.rounds = match (goes_on, looked) {
            (false, _) => ROUNDS,
            (true, true) => 0,
            (true, false) => self.rounds + 1,
        };
    }

    /// Between two rounds. `asleep`: no doorbell can ring, and who changes that wakes the thread.
    pub fn rest(&mut self, moved: bool, asleep: bool) {
        if moved {
            (self.quiet, self.sleep) = (0, SLEEP.0);
        } else if asleep {
            thread::park();
        } else if self.quiet < LOOKS {
            self.quiet += 1;
            thread::yield_now();
        } else {
            thread::park_timeout(self.sleep);
            self.sleep = SLEEP.1.min(self.sleep * 2);
        }
    }
}

/// A turn for each, in random order. Whether anything moved: where nothing has, no random number is used up.
pub fn turns<T>(
    order: &mut Rng,
    mut all: Vec<T>,
    mut turn: impl FnMut(&mut Rng, T) -> bool,
) -> bool {
    let before = order.clone();
    order.shuffle(&mut all);
    let mut moved = false;
    for one in all {
        moved |= turn(order, one);
    }
    if !moved {
        *order = before;
    }
    moved
}

/// What engines and callers share. Every change of it is whole before it can panic.
#[derive(Default)]
pub struct Gate<T> {
    state: Mutex<T>,
    /// Callers that want the lock: they go first.
    callers: AtomicU32,
}

impl<T> Gate<T> {
    /// With that state.
    pub fn new(state: T) -> Gate<T> {
        Gate {
            state: Mutex::new(state),
            callers: AtomicU32::new(0),
        }
    }

    /// The state, for the thread itself or for a look.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.state)
    }

    /// The state between two rounds, for a caller.
    pub fn enter(&self) -> MutexGuard<'_, T> {
        self.callers.fetch_add(1, Ordering::AcqRel);
        let state = self.lock();
        self.callers.fetch_sub(1, Ordering::AcqRel);
        state
    }

    /// Waits until no caller wants the lock.
    pub fn give_way(&self) {
        while self.callers.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
    }
}

/// The thread of a scheduler.
#[derive(Default)]
pub struct Worker(OnceLock<JoinHandle<()>>);

impl Worker {
    /// Starts it: once.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn start(&self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name("twin".into()).spawn(run)?;
        // The only one.
        let _ = self.0.set(thread);
        Ok(())
    }

    /// There may be something to do.
    pub fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.thread().unpark();
        }
    }

    /// Waits for its end, which it has been told to come to.
    pub fn join(&mut self) {
        self.wake();
        // The thread itself may be the last that knew of its machine.
        if let Some(thread) = self.0.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread has been reported by the thread.
            let _ = thread.join();
        }
    }
}
