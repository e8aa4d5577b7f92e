//! What becomes of a submission that faults, and of the others.
//!
//! Source: KGSL, adreno_dispatch.c, `dispatcher_do_fault`, `process_cmdobj_fault`, `recover_dispatch_q`, `_skip_cmd`;
//! adreno_drawctxt.c, `adreno_drawctxt_invalidate`, `adreno_drawctxt_set_guilty`; of the kernel 4.9,
//! `mark_guilty_context`. Linux, drivers/gpu/drm/msm/msm_gpu.c, `recover_worker`.

use drivers_spec::qcom::kgsl::reset;
use twin::rule::Journal;

use crate::cp::Fault;

use super::jobs::{Job, Owner};
use super::state::{State, TICKS};

/// `_fault_throttle_time` in ticks, and `_fault_throttle_burst`.
const THROTTLE: (u64, u32) = (3000 * TICKS, 3);

impl State {
    /// The GPU is reset after a fault; what was running on other rings runs again.
    pub(crate) fn recover(&mut self, journal: &Journal, ring: usize, fault: &Fault) {
        let place = self.rings[ring].place();
        journal.reset(format!("{place}: {fault}; the GPU is reset"));
        self.resets += 1;
        let mut again = Vec::new();
        let mut guilty = None;
        for (number, ring_) in self.rings.iter_mut().enumerate() {
            match ring_.stop() {
                Some(job) if number == ring => guilty = Some(job),
                Some(job) => again.push(job),
                None => {}
            }
        }
        self.core.reset();
        // The oldest are the first of their owners.
        for job in again.into_iter().rev() {
            self.queued.insert(0, job);
        }
        let Some(job) = guilty else {
            return;
        };
        match job.owner {
            Owner::Context(id) => self.recover_context(job, id, fault),
            Owner::Queue(file, id) => {
                if let Some(queue) = self.queues.get_mut(&(file, id)) {
                    queue.faults += 1;
                }
                // Its fence is signalled: nobody waits for it any more.
                self.retire(&job);
            }
        }
    }

    fn recover_context(&mut self, mut job: Job, id: u32, fault: &Fault) {
        let (mut policy, now) = (job.policy, self.time());
        let Some(context) = self.contexts.get_mut(&id) else {
            self.retire(&job);
            return;
        };
        if policy.throttle && context.faults_too_fast(now, THROTTLE) {
            policy.disable = true;
        }
        if policy.disable || context.detached {
            (policy.replay, policy.skip) = (false, false);
        }
        match fault {
            // It would fault again.
            Fault::Hard(_) | Fault::Page(_) => policy.replay = false,
            Fault::Hang(_) => (policy.replay, policy.skip) = (false, false),
            Fault::Soft(_) => {}
        }
        job.policy = policy;
        if policy.replay {
            job.policy.replay = false;
            job.recovered = true;
            self.queued.insert(0, job);
        } else if policy.skip {
            // It is left out; the next one is on trial.
            let next = self.queued.iter_mut().find(|next| next.owner == job.owner);
            match next {
                Some(next) => {
                    next.policy.skip = false;
                    next.policy.replay = false;
                    next.recovered = true;
                }
                None => context.skipped = true,
            }
            job.recovered = false;
            self.retire(&job);
        } else {
            self.condemn(&job, id);
        }
    }

    /// A context is guilty, and invalid: all that it has queued is given up.
    fn condemn(&mut self, job: &Job, id: u32) {
        for (other, context) in &mut self.contexts {
            if *other == id {
                context.reset_status = reset::GUILTY;
            } else if context.reset_status != reset::GUILTY {
                context.reset_status = reset::INNOCENT;
            }
        }
        if let Some(context) = self.contexts.get_mut(&id) {
            context.invalid = true;
        }
        self.drop_queued(|owner| owner == Owner::Context(id));
        self.retire(job);
        if let Some(context) = self.contexts.get_mut(&id) {
            // The timestamps are set to the last one, so that events happen.
            context.retire_all();
        }
    }

    /// Gives up what some owners have queued.
    pub(crate) fn drop_queued(&mut self, of: impl Fn(Owner) -> bool) {
        let queued = std::mem::take(&mut self.queued);
        let (gone, left) = queued.into_iter().partition(|job: &Job| of(job.owner));
        self.queued = left;
        for job in gone {
            self.retire(&job);
        }
    }

    /// Whether some owners have something running.
    pub(crate) fn runs(&self, of: impl Fn(Owner) -> bool) -> bool {
        let mut running = self.rings.iter().filter_map(|ring| ring.running());
        running.any(|job| of(job.owner))
    }

    /// Stops what some owners have running, without a fault.
    pub(crate) fn stop(&mut self, of: impl Fn(Owner) -> bool) {
        for at in 0..self.rings.len() {
            let runs = self.rings[at].running().is_some_and(|job| of(job.owner));
            if runs && let Some(job) = self.rings[at].stop() {
                self.retire(&job);
            }
        }
    }
}

/// Counts faults that come one after the other.
#[derive(Clone, Copy, Default)]
pub(crate) struct Throttle {
    since: Option<u64>,
    count: u32,
}

impl Throttle {
    /// One more at a time; whether it is one too many.
    pub(crate) fn count(&mut self, now: u64, (window, most): (u64, u32)) -> bool {
        match self.since {
            Some(since) if now - since <= window => self.count += 1,
            _ => (self.since, self.count) = (Some(now), 1),
        }
        self.count > most
    }
}
