//! Work of a channel that nothing waits for in between, and that touches the same bytes.
//!
//! Work is done as late as can be: what has not run when more is given may run at the same time.
//! Accesses are only noted where there is such work.

use std::collections::VecDeque;

use twin::rule::{Proof, Rule};
use twin::touched::Touched;

use super::super::port::Port;
use super::Job;

static RACE: Rule = Rule {
    name: "COMPUTE-RACE",
    text: "a grid does not read what another one writes without a wait in between: WAIT_FOR_IDLE, WFI, a semaphore that \
           the first one releases, or a dependent QMD",
    source: "Mesa, src/nouveau/vulkan/nvk_cmd_buffer.c, NVK_BARRIER_COMPUTE_WFI; open-gpu-doc, \
             classes/compute/clc7c0.h, WAIT_FOR_IDLE",
    proof: Proof::Sourced,
};

/// Work that an engine was given, and that nobody has waited for yet.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Each with how many had run when it came.
    waiting: VecDeque<(Job, u64)>,
    ran: u64,
    /// What those touched with which some that wait may run, by their numbers.
    touched: Vec<(u64, Touched)>,
}

impl Jobs {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
        self.touched.clear();
    }

    pub fn add(&mut self, job: Option<Job>) {
        self.waiting.extend(job.map(|job| (job, self.ran)));
    }

    /// Takes some out, which do not wait for those before them.
    pub fn take(&mut self, which: impl Fn(&Job) -> bool) -> Vec<Job> {
        let (taken, others) = self.waiting.drain(..).partition(|(job, _)| which(job));
        self.waiting = others;
        let taken: VecDeque<(Job, u64)> = taken;
        taken.into_iter().map(|(job, _)| job).collect()
    }

    /// The next.
    pub fn next(&mut self) -> Option<(Job, Running)> {
        let (job, after) = self.waiting.pop_front()?;
        let number = self.ran;
        self.ran += 1;
        self.touched.retain(|(other, _)| *other >= after);
        let alone = self.waiting.is_empty() && number == after;
        let running = Running {
            number,
            touched: (!alone).then(Touched::default),
        };
        Some((job, running))
    }

    /// One has run: it is compared with those before it.
    pub fn done(&mut self, port: &Port, running: Running) {
        let Some(mine) = running.touched else {
            return;
        };
        for (number, theirs) in &self.touched {
            if let Some(va) = mine.race(theirs) {
                let between = running.number - number;
                port.broken(
                    &RACE,
                    format!("byte {va:#x}, by the work {between} before it on the channel"),
                );
            }
        }
        if !self.waiting.is_empty() {
            self.touched.push((running.number, mine));
        }
    }
}

/// Work that runs, and what it touches if that is noted.
pub(super) struct Running {
    number: u64,
    pub touched: Option<Touched>,
}
