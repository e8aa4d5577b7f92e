//! Submissions: queued, run by a ring, retired.
//!
//! Each ring runs one submission after the other, those of a context or queue in their order; rings take turns. Source:
//! KGSL, adreno_dispatch.c, `adreno_dispatcher_issuecmds`, `sendcmd`; Linux, drivers/gpu/drm/msm/msm_ringbuffer.c,
//! `msm_job_run`.

use std::collections::BTreeSet;
use std::time::Duration;

use hcq::sync::lock;
use twin::rounds::turns;
use twin::rule::Journal;

use crate::config::{Config, Fault as Injected};
use crate::cp::{Around, Cp, Fault, Ib, Turn, Wait};
use crate::memory::view::PageFault;

use super::state::{Shared, State, TICKS};

/// Whose a submission is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A context of KGSL.
    Context(u32),
    /// A queue of msm, by file and number.
    Queue(u64, u32),
}

impl Owner {
    /// Whether the caches stay as they are between the two: msm invalidates them where the address space changes, which
    /// all queues of a file share; KGSL does for each context.
    ///
    /// Source: Linux, drivers/gpu/drm/msm/adreno/a6xx_gpu.c, `a6xx_set_pagetable`: `ctx->seqno` is the file's; KGSL,
    /// adreno_a6xx_ringbuffer.c, `a6xx_rb_context_switch`.
    fn shares_with(self, other: Owner) -> bool {
        match (self, other) {
            (Owner::Queue(file, _), Owner::Queue(of, _)) => file == of,
            _ => self == other,
        }
    }

    /// Whether it is a queue of a file.
    pub(crate) fn is_queue_of(self, file: u64) -> bool {
        matches!(self, Owner::Queue(of, _) if of == file)
    }
}

/// What a round counts for in which nothing moves, at most: as long as the thread rests then.
const LOOK: Duration = Duration::from_micros(200);

/// A moment, by both clocks that a hang is told by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Instant {
    /// [`State::time`].
    twin: u64,
    /// Since the machine has started: what other rings run may take long on the GPU in little time of the host.
    host: Duration,
}

impl Instant {
    /// Whether it is longer ago than that by both clocks.
    fn is_over(self, now: Instant, limit: Duration) -> bool {
        now.twin - self.twin > ticks(limit) && now.host.saturating_sub(self.host) > limit
    }
}

/// In ticks of the GPU.
fn ticks(time: Duration) -> u64 {
    let ticks = time.as_micros().saturating_mul(u128::from(TICKS)) / 1000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// What a submission waits for before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dependency {
    /// A timestamp of a context.
    Timestamp(u32, u32),
    /// Another submission.
    Job(u64),
}

/// What the kernel tries after a fault, in this order: `KGSL_FT_*`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Policy {
    /// Runs it again.
    pub(crate) replay: bool,
    /// Leaves it out.
    pub(crate) skip: bool,
    /// Gives up where faults come too fast.
    pub(crate) throttle: bool,
    /// Gives up at once.
    pub(crate) disable: bool,
}

/// See the front page.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) process: u32,
    pub(crate) owner: Owner,
    /// Its timestamp, or fence.
    pub(crate) timestamp: u32,
    pub(crate) ring: usize,
    pub(crate) space: Shared,
    pub(crate) ibs: Vec<Ib>,
    pub(crate) dependencies: Vec<Dependency>,
    /// Memory that it lists, where others is not to be used.
    pub(crate) listed: Option<BTreeSet<u32>>,
    pub(crate) policy: Policy,
    /// Whether the kernel has recovered from a fault of it.
    pub(crate) recovered: bool,
    /// Which of all submissions it is, once it has begun.
    pub(crate) number: u64,
}

impl Job {
    /// For reports.
    pub(crate) fn name(&self) -> String {
        let timestamp = self.timestamp;
        match self.owner {
            Owner::Context(id) => format!("context {id}, timestamp {timestamp}"),
            Owner::Queue(file, id) => format!("file {file}, queue {id}, fence {timestamp}"),
        }
    }
}

/// A ring.
#[derive(Default)]
pub(crate) struct Ring {
    cp: Cp,
    running: Option<Job>,
    /// Whose registers the command processor has.
    active: Option<Owner>,
    waited: Option<Wait>,
    /// When it began to wait.
    since: Option<Instant>,
    /// What goes wrong with what is running.
    injected: Option<Fault>,
}

impl Ring {
    pub(crate) fn running(&self) -> Option<&Job> {
        self.running.as_ref()
    }

    pub(crate) fn waiting(&self) -> Option<&Wait> {
        self.waited.as_ref()
    }

    pub(crate) fn place(&self) -> String {
        self.cp.place()
    }

    /// What was running, which is stopped; its registers are lost.
    pub(crate) fn stop(&mut self) -> Option<Job> {
        self.cp.stop();
        (self.active, self.waited, self.since) = (None, None, None);
        self.running.take()
    }

    fn begin(&mut self, job: Job, state: (&mut crate::gpu::Core, Option<Fault>)) {
        let (core, injected) = state;
        if self.active != Some(job.owner) {
            let same_file = self
                .active
                .is_some_and(|owner| owner.shares_with(job.owner));
            self.cp.switch(core, !same_file);
            self.active = Some(job.owner);
        }
        self.cp.start(job.name(), job.ibs.iter().copied());
        (self.running, self.waited, self.since) = (Some(job), None, None);
        self.injected = injected;
    }

    /// Lets it run. Whether anything moved, and what became of its submission.
    fn turn(
        &mut self,
        core: &mut crate::gpu::Core,
        journal: &Journal,
        (packets, now): (usize, Instant),
    ) -> (bool, Option<Turn>) {
        let Some(job) = &self.running else {
            return (false, None);
        };
        if let Some(fault) = self.injected.take() {
            return (true, Some(Turn::Fault(fault)));
        }
        let space = lock(&job.space);
        let mut around = Around {
            journal,
            core,
            space: &space,
            listed: job.listed.as_ref(),
        };
        match self.cp.step(&mut around, packets) {
            Turn::Ran => {
                (self.waited, self.since) = (None, None);
                (true, None)
            }
            Turn::Waits(wait) => {
                let same = self.waited.as_ref() == Some(&wait);
                if !same {
                    (self.waited, self.since) = (Some(wait), Some(now));
                }
                (!same, None)
            }
            done => (true, Some(done)),
        }
    }
}

impl State {
    /// Queues a submission.
    pub(crate) fn queue(&mut self, job: Job) {
        self.queued.push(job);
    }

    /// Whether a dependency is over.
    fn is_over(&self, dependency: Dependency) -> bool {
        match dependency {
            Dependency::Job(id) => !self.live.contains(&id),
            // The events of a context that has gone are cancelled.
            Dependency::Timestamp(id, timestamp) => {
                let context = self.contexts.get(&id);
                context.is_none_or(|context| context.has_retired(timestamp))
            }
        }
    }

    /// The submission that a ring begins next: the oldest that is the first of its owner and waits for nothing.
    fn next(&self, ring: usize) -> Option<usize> {
        let mut seen = Vec::new();
        let running = self.rings.iter().filter_map(|ring| ring.running.as_ref());
        seen.extend(running.map(|job| job.owner));
        for (at, job) in self.queued.iter().enumerate() {
            if seen.contains(&job.owner) {
                continue;
            }
            seen.push(job.owner);
            if job.ring == ring && job.dependencies.iter().all(|one| self.is_over(*one)) {
                return Some(at);
            }
        }
        None
    }

    /// What the config has go wrong with a submission that begins.
    fn injected(&mut self, number: u64) -> Option<Fault> {
        for fault in &mut self.faults {
            match fault {
                Injected::Hang { nth, times } if *nth == number && *times > 0 => {
                    *times -= 1;
                    return Some(Fault::Soft("the config asks for it".into()));
                }
                Injected::Page { nth } if *nth == number => {
                    *nth = 0;
                    return Some(Fault::Page(PageFault {
                        address: 0,
                        write: false,
                    }));
                }
                _ => {}
            }
        }
        None
    }

    /// Begins what rings can begin. Whether there was something.
    fn begin(&mut self, journal: &Journal) -> bool {
        let mut began = false;
        for ring in 0..self.rings.len() {
            if self.rings[ring].running.is_some() {
                continue;
            }
            let Some(at) = self.next(ring) else {
                continue;
            };
            let mut job = self.queued.remove(at);
            if job.number == 0 {
                self.begun += 1;
                job.number = self.begun;
            }
            journal.event(format!(
                "{} begins as submission {}",
                job.name(),
                job.number
            ));
            if let Owner::Context(id) = job.owner
                && let Some(context) = self.contexts.get_mut(&id)
            {
                context.started = job.timestamp;
            }
            let injected = self.injected(job.number);
            self.rings[ring].begin(job, (&mut self.core, injected));
            began = true;
        }
        began
    }

    /// Whether a round may do something.
    pub(crate) fn can_move(&self) -> bool {
        self.rings.iter().any(|ring| ring.running.is_some())
            || (0..self.rings.len()).any(|ring| self.next(ring).is_some())
    }

    /// A turn for every ring, in random order, at a time of the host since the machine has started. Whether anything
    /// moved.
    pub(crate) fn round(&mut self, journal: &Journal, config: &Config, host: Duration) -> bool {
        let rested = host.saturating_sub(std::mem::replace(&mut self.host, host));
        let began = self.begin(journal);
        let mut ends = Vec::new();
        let now = self.instant();
        let (core, rings) = (&mut self.core, &mut self.rings);
        let all: Vec<(usize, &mut Ring)> = rings.iter_mut().enumerate().collect();
        let moved = turns(&mut self.order, all, |order, (number, ring)| {
            let packets = 1 + order.below(64);
            let (moved, end) = ring.turn(core, journal, (packets, now));
            ends.extend(end.map(|end| (number, end)));
            moved
        });
        for (ring, end) in ends {
            match end {
                Turn::Fault(fault) => self.recover(journal, ring, &fault),
                _ => self.finish(journal, ring),
            }
        }
        let hung = self.hung(config);
        for ring in &hung {
            let why = self.rings[*ring]
                .waited
                .as_ref()
                .map_or("", |wait| &wait.why);
            let fault = Fault::Hang(format!("waits for {why}"));
            self.recover(journal, *ring, &fault);
        }
        let moves = began || moved || !hung.is_empty();
        if !moves {
            // Looks that come one right after the other are no time.
            self.still += ticks(rested.min(LOOK));
        }
        moves
    }

    fn instant(&self) -> Instant {
        Instant {
            twin: self.time(),
            host: self.host,
        }
    }

    /// Rings that have waited for longer than the kernel does, by the clock of the twin and by that of the host. A look
    /// at what stands still counts little for the twin, so a host that is slow makes nobody late; and a program that is
    /// to end the wait has at least the time that the kernel gives it.
    ///
    /// Source: KGSL, adreno_dispatch.c, `sendcmd`: `drawqueue->expires` is `adreno_drawobj_timeout` behind the moment
    /// at which the submission becomes the head of its queue; `_adreno_dispatch_check_timeout`.
    fn hung(&self, config: &Config) -> Vec<usize> {
        let (now, limit) = (self.instant(), Duration::from_millis(config.timeout));
        let rings = self.rings.iter().enumerate().filter(|(_, ring)| {
            let late = ring.since.is_some_and(|since| since.is_over(now, limit));
            late && ring.running.as_ref().is_some_and(|job| self.times_out(job))
        });
        rings.map(|(number, _)| number).collect()
    }

    /// Whether the kernel ends a submission that takes too long. KGSL, adreno_dispatch.c,
    /// `_adreno_dispatch_check_timeout`: not one of a context without fault tolerance.
    fn times_out(&self, job: &Job) -> bool {
        match job.owner {
            Owner::Context(id) => {
                let context = self.contexts.get(&id);
                context.is_none_or(|context| !context.without_fault_tolerance())
            }
            Owner::Queue(..) => true,
        }
    }

    /// The submission of a ring is done.
    fn finish(&mut self, journal: &Journal, ring: usize) {
        let Some(job) = self.rings[ring].running.take() else {
            return;
        };
        journal.event(format!("{} is done", job.name()));
        self.retire(&job);
    }

    /// A submission is done, or given up: who waits for it may go on.
    pub(crate) fn retire(&mut self, job: &Job) {
        self.live.remove(&job.id);
        self.watchers.retain(|(id, watcher)| {
            let over = *id == job.id;
            if over {
                watcher(true);
            }
            !over
        });
        self.close_gems();
        let lost = |fault: &Injected| matches!(fault, Injected::Lost { nth } if *nth == job.number);
        let lost = job.number > 0 && self.faults.iter().any(lost);
        match job.owner {
            Owner::Context(id) => {
                if let Some(context) = self.contexts.get_mut(&id) {
                    context.retire(job, lost);
                }
            }
            Owner::Queue(file, id) => {
                if let Some(queue) = self.queues.get_mut(&(file, id)) {
                    queue.retire(job.timestamp, lost);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::packet::{op, type7};

    use super::*;
    use crate::memory::Area;

    const AT: u64 = 0x5_0000_0000;

    /// A submission that waits for memory which nobody writes.
    fn waits(state: &mut State) -> Job {
        let object = state.zeros(4096, "test".into(), false).unwrap();
        let wait = [
            type7(op::WAIT_REG_MEM, 6),
            0x13,
            AT as u32 + 2048,
            (AT >> 32) as u32,
            1,
            u32::MAX,
            32,
        ];
        for (at, word) in (0..).step_by(4).zip(wait) {
            object.dram().write(at, &word.to_le_bytes());
        }
        let space = Shared::default();
        let area = Area {
            bytes: 4096,
            object,
            writable: true,
            handle: 1,
        };
        assert!(lock(&space).insert(AT, area));
        Job {
            id: state.job(),
            process: 1,
            owner: Owner::Context(1),
            timestamp: 1,
            ring: 0,
            space,
            ibs: vec![Ib {
                address: AT,
                dwords: 7,
            }],
            dependencies: Vec::new(),
            listed: None,
            policy: Policy::default(),
            recovered: false,
            number: 0,
        }
    }

    /// The round in which it is taken for hung, of so many; between two of them so much time of the host passes, and so
    /// much work of others.
    fn hung_after(most: u32, host: Duration, others: u64) -> Option<u32> {
        let config = Config::parse("timeout=2").unwrap();
        let (mut state, journal) = (State::new(&config), Journal::new());
        let job = waits(&mut state);
        let id = job.id;
        state.queue(job);
        let round = (0..most).find(|round| {
            state.round(&journal, &config, host * *round);
            state.core.pass(others);
            !state.live.contains(&id)
        });
        assert_eq!(state.resets, u32::from(round.is_some()));
        assert_eq!(journal.resets().len(), state.resets as usize);
        round
    }

    #[test]
    fn a_ring_hangs_by_the_clocks_of_twin_and_host() {
        // Looks of 200 us, behind the round in which it begins, however long the host takes for each.
        for host in [LOOK, Duration::from_secs(10)] {
            let round = hung_after(100, host, 0);
            assert!(
                round.is_some_and(|round| (10..=12).contains(&round)),
                "{host:?}: {round:?}"
            );
        }
        // Looks that come one right after the other.
        assert_eq!(hung_after(1000, Duration::from_micros(1), 0), None);
        // Of other rings 50 ms in each: the host has had its two only when 20 looks are over.
        let round = hung_after(100, LOOK / 2, 50 * TICKS);
        assert!(
            round.is_some_and(|round| (20..=23).contains(&round)),
            "{round:?}"
        );
    }

    #[test]
    fn queues_of_a_file_share_their_caches() {
        let (first, second) = (Owner::Queue(1, 0), Owner::Queue(1, 2));
        assert!(first.shares_with(second) && !first.shares_with(Owner::Queue(2, 0)));
        assert!(!Owner::Context(1).shares_with(Owner::Context(2)));
        assert!(second.is_queue_of(1) && !second.is_queue_of(2));
    }
}
