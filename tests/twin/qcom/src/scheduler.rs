//! The scheduler: one thread runs the rings of a machine in rounds; system calls come between.
//!
//! A round gives each ring a turn, in random order and of random length. What a ring waits for in memory is looked at in
//! each round; where nothing can move, no random number is used up.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use twin::rounds::{Rhythm, Worker};

use crate::kernel::{Machine, State};

/// See the front page.
#[derive(Default)]
pub(crate) struct Scheduler {
    quit: AtomicBool,
    thread: Worker,
}

impl Scheduler {
    /// Starts the thread, which ends with the machine.
    pub(crate) fn start(&self, machine: &Arc<Machine>) -> io::Result<()> {
        let weak = Arc::downgrade(machine);
        self.thread.start(move || run(&weak))
    }

    /// There may be something to do.
    pub(crate) fn wake(&self) {
        self.thread.wake();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::Release);
        self.thread.join();
    }
}

/// Whether there shall be a round, before the eyes of who watches.
fn goes(state: &mut State, looks: bool) -> bool {
    let now = state.moment();
    let Some(mut watch) = state.watch.take() else {
        return state.can_move();
    };
    let go = match looks {
        true => watch.look(now, &mut || state.can_move()),
        false => watch.may_go(now) && state.can_move(),
    };
    state.watch = Some(watch);
    go
}

fn run(machine: &Weak<Machine>) {
    let mut rhythm = Rhythm::default();
    let start = Instant::now();
    loop {
        let Some(machine) = machine.upgrade() else {
            return;
        };
        if machine.scheduler.quit.load(Ordering::Acquire) {
            return;
        }
        machine.gate().give_way();
        let (moved, idle) = {
            let mut state = machine.gate().lock();
            if state.paused {
                drop(state);
                rhythm.hold();
                continue;
            }
            let looks = rhythm.looks();
            let go = goes(&mut state, looks);
            let moved = go && state.round(&machine.journal, &machine.config, start.elapsed());
            state.moved += u64::from(moved);
            rhythm.passed(looks, moved);
            (moved, !state.can_move() && state.watch.is_none())
        };
        if moved {
            machine.tell();
        }
        drop(machine);
        // Who queues a submission wakes the thread.
        rhythm.rest(moved, idle);
    }
}
