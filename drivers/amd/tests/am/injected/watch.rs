//! [`Watch`]: sees every access and every look at the clock, makes one of them fail, and tells which could.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hcq::sync::lock;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::fault::{FaultInject, Rule};
use hcq::transport::tap::Tap;
use hcq::transport::{Clock, Fault, VirtualClock};

/// Longer than any limit.
const AGES: Duration = Duration::from_secs(3600);

/// What a process asks of its machine, so that each can be made to fail.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Accesses of all kinds.
    pub accesses: u64,
    /// Times that memory of the host was asked for, by what it was asked with.
    pub memory: Vec<(Verb, u64)>,
    /// Looks at the clock, by their numbers, after which something was looked at that had not happened yet.
    pub waits: Vec<u64>,
}

/// The verbs that ask the host for memory.
const MEMORY: [Verb; 3] = [Verb::Dma, Verb::Memory, Verb::Reserve];

#[derive(Default)]
struct Seen {
    accesses: u64,
    memory: [u64; MEMORY.len()],
    /// What was read first after each look at the clock.
    looks: Vec<Option<(u64, u64)>>,
}

/// A clock and a tap.
pub struct Watch {
    clock: VirtualClock,
    seen: Mutex<Seen>,
    plan: Arc<FaultInject>,
    /// The look at the clock, from 1, by which all time is over.
    late: Option<u64>,
}

impl Watch {
    /// Makes accesses fail by rules, or a wait by the number of its look at the clock.
    pub fn new(rules: impl IntoIterator<Item = Rule>, late: Option<u64>) -> Arc<Watch> {
        Arc::new(Watch {
            clock: VirtualClock::new(),
            seen: Mutex::default(),
            plan: FaultInject::new(rules),
            late,
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// What was asked for so far.
    pub fn asked(&self) -> Asked {
        let seen = self.seen();
        let looks = &seen.looks;
        // Whoever looks at the same once more has not found it done. The first two may be the starts of two waits.
        let waits = (2..looks.len()).filter(|&i| {
            let same = looks[i].is_some() && looks[i - 2..i].iter().all(|look| *look == looks[i]);
            let is_first = i == 2 || looks[i - 3] != looks[i];
            same && is_first && looks.get(i + 1) == Some(&looks[i])
        });
        Asked {
            accesses: seen.accesses,
            memory: MEMORY.into_iter().zip(seen.memory).collect(),
            waits: waits.map(|i| i as u64 + 1).collect(),
        }
    }

    /// How long the process has waited by its own clock.
    pub fn waited(&self) -> Duration {
        let past = Duration::from_nanos(self.clock.now_ns());
        past.checked_sub(AGES)
            .filter(|_| self.late.is_some())
            .unwrap_or(past)
    }
}

impl Clock for Watch {
    fn now_ns(&self) -> u64 {
        let mut seen = self.seen();
        seen.looks.push(None);
        if self.late == Some(seen.looks.len() as u64) {
            self.clock.sleep(AGES);
        }
        self.clock.now_ns()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

impl Tap for Watch {
    fn before(&self, device: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        let mut seen = self.seen();
        seen.accesses += 1;
        for (verb, count) in MEMORY.iter().zip(&mut seen.memory) {
            *count += u64::from(*verb == access.verb);
        }
        if let (Verb::Read, Some(look @ None)) = (access.verb, seen.looks.last_mut()) {
            *look = Some((access.arg("bar"), access.arg("offset")));
        }
        drop(seen);
        self.plan.before(device, access)
    }
}
