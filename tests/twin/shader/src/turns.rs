//! The host threads of a launch, and how they meet.
//!
//! What a launch does must not follow from when the host runs which thread. Threads run at the same time
//! as long as none can see what another does: each has workgroups of its own. A wave that comes to an
//! instruction whose result is a matter of order (an atomic that returns something, a sum of floats, a
//! load that looks past caches) waits until every thread has come to one, is done, or has run for long;
//! from then on threads run one at a time, in turn.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use hcq::sync::{lock, unpoisoned};

use crate::launch::Broken;

/// Instructions that a thread runs before it meets the others.
const LONG: u64 = 1 << 20;

/// The same on one of several XCCs: what its groups may wait for is another XCC, which has no turn meanwhile.
const SHORT: u64 = 1 << 14;

/// Instructions of a tick of 10 ns.
const OF_A_TICK: u64 = 16;

/// Where a thread is.
enum At {
    Runs,
    /// At an instruction whose order matters, or not.
    Waits {
        ordered: bool,
    },
    Left,
}

struct State {
    threads: Vec<At>,
    /// What each could not do, if there is something.
    broken: Vec<Option<Box<Broken>>>,
    /// The time, as of the last meeting.
    now: u64,
}

/// The threads of a launch. The first is the one that called, and leads.
pub struct Turns {
    state: Mutex<State>,
    moved: Condvar,
    several: bool,
    /// After how many instructions they meet.
    long: u64,
    /// One runs at a time.
    one: AtomicBool,
    stop: AtomicBool,
}

impl Turns {
    /// So many threads of one of so many XCCs, at that time.
    pub fn new(threads: u32, xccs: u32, now: u64) -> Self {
        Self {
            state: Mutex::new(State {
                threads: (0..threads).map(|_| At::Runs).collect(),
                broken: (0..threads).map(|_| None).collect(),
                now,
            }),
            moved: Condvar::new(),
            several: threads > 1,
            long: if xccs > 1 { SHORT } else { LONG },
            one: AtomicBool::new(threads == 1),
            stop: AtomicBool::new(false),
        }
    }

    /// Whether something could not go on.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What could not go on: of several threads that ran at the same time, the first.
    pub fn into_broken(self) -> Option<Box<Broken>> {
        let state = self.state.into_inner();
        let state = unpoisoned(state);
        state.broken.into_iter().flatten().next()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panics ends the launch; what it changed in here was whole.
        lock(&self.state)
    }

    fn until<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        is: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        while !is(&state) {
            let woken = self.moved.wait(state);
            state = unpoisoned(woken);
        }
        state
    }

    /// A thread other than the first waits until it may go on.
    fn follow(&self, me: usize, ordered: bool) -> u64 {
        let mut state = self.lock();
        state.threads[me] = At::Waits { ordered };
        self.moved.notify_all();
        self.until(state, |state| matches!(state.threads[me], At::Runs))
            .now
    }

    /// The first thread waits for the others, pauses, and lets them go on: all, or one after the other.
    /// Returns the time; none once all have left.
    fn lead(&self, ordered: bool, pause: &dyn Fn() -> u64) -> Option<u64> {
        let runs = |at: &At| matches!(at, At::Runs);
        let order = |at: &At| matches!(at, At::Waits { ordered: true });
        let left = |at: &At| matches!(at, At::Left);
        let mut state = self.until(self.lock(), |state| !state.threads[1..].iter().any(runs));
        if state.threads.iter().all(left) {
            return None;
        }
        if ordered || state.threads[1..].iter().any(order) {
            self.one.store(true, Ordering::Relaxed);
        }
        self.stop_if_broken(&state);
        drop(state);
        let now = pause();
        state = self.lock();
        state.now = now;
        for thread in 1..state.threads.len() {
            if matches!(state.threads[thread], At::Waits { .. }) {
                state.threads[thread] = At::Runs;
                self.moved.notify_all();
                if self.one.load(Ordering::Relaxed) {
                    state = self.until(state, |state| !runs(&state.threads[thread]));
                    self.stop_if_broken(&state);
                }
            }
        }
        Some(now)
    }

    fn stop_if_broken(&self, state: &State) {
        if state.broken.iter().any(Option::is_some) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// A thread's place among those of its launch. Its waves share it.
#[derive(Clone)]
pub struct Seat<'a> {
    turns: &'a Turns,
    me: usize,
    /// What the first thread does when all have met; gives the time.
    pause: Option<&'a dyn Fn() -> u64>,
    state: Rc<Own>,
}

/// What only the thread itself knows.
struct Own {
    /// Its clock.
    now: Cell<u64>,
    /// Instructions of it, and when it met the others.
    ran: Cell<u64>,
    met: Cell<u64>,
}

impl<'a> Seat<'a> {
    /// That of a thread; `pause` is for the first.
    pub fn new(turns: &'a Turns, thread: u32, pause: Option<&'a dyn Fn() -> u64>) -> Self {
        let now = turns.lock().now;
        Self {
            turns,
            me: thread as usize,
            pause,
            state: Rc::new(Own {
                now: Cell::new(now),
                ran: Cell::new(0),
                met: Cell::new(0),
            }),
        }
    }

    /// The number of the thread.
    pub fn number(&self) -> u32 {
        self.me as u32
    }

    /// The time: later with each look.
    pub fn now(&self) -> u64 {
        let now = self.state.now.get() + 1;
        self.state.now.set(now);
        now
    }

    /// The thread has run a turn of a group, and so many instructions in all.
    pub fn ran(&self, instructions: u64) {
        let Own { now, ran, met } = &*self.state;
        now.set(now.get() + (instructions - ran.replace(instructions)) / OF_A_TICK);
        // Alone, too, a launch must not hold everything up.
        let in_turn = self.turns.several && self.turns.one.load(Ordering::Relaxed);
        if in_turn || instructions - met.get() >= self.turns.long {
            met.set(instructions);
            self.synchronise(false);
        }
    }

    /// A wave comes to an instruction whose result is a matter of order.
    pub fn in_order(&self) {
        if !self.turns.one.load(Ordering::Relaxed) {
            self.synchronise(true);
        }
    }

    fn synchronise(&self, ordered: bool) {
        let now = match self.pause {
            Some(pause) => self.turns.lead(ordered, pause),
            None => Some(self.turns.follow(self.me, ordered)),
        };
        let own = &self.state.now;
        own.set(own.get().max(now.unwrap_or(0)));
    }

    /// The thread has no groups left, or could not go on.
    pub(crate) fn leave(&self, broken: Option<Box<Broken>>) {
        {
            let mut state = self.turns.lock();
            state.broken[self.me] = broken;
            state.threads[self.me] = At::Left;
            self.turns.moved.notify_all();
        }
        if let Some(pause) = self.pause {
            while self.turns.lead(false, pause).is_some() {}
        }
    }
}

/// A thread that panics must not keep the others waiting.
pub(crate) struct Leaves<'a, 'b>(pub &'b Seat<'a>);

impl Drop for Leaves<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.turns.stop.store(true, Ordering::Relaxed);
            let pause = self.0.pause.map(|_| &(|| 0u64) as &dyn Fn() -> u64);
            let seat = Seat {
                pause,
                ..self.0.clone()
            };
            seat.leave(None);
        }
    }
}
