//! What runs the channels that GSP's firmware has made: a thread, on which each of them has its turn.
//!
//! The host tells of every ring, with GPPut as it was then. A channel that waits for a semaphore is tried again after a while:
//! nobody says when memory changes.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use drivers_spec::nv::push::userd;
use hcq::sync::lock;
use twin::rule::{Journal, Proof, Rule};

use super::memory::{Physical, Place};
use super::mmu::bus::{Plain, Translated};
use super::mmu::table::Cause;
use super::mmu::tlb::Tlb;
use super::state::State;
use crate::engines::host::Channel;
use crate::engines::{self, Around, Error, Gpu, Turn};
use crate::kernel::Machine;
use crate::scheduler;

static INSTANCE: Rule = Rule {
    name: "NV-CHANNEL-INSTANCE",
    text: "the instance block of a channel is GSP's as long as the channel lives: nobody else writes it, and its memory is not \
           taken away",
    source: "OGKM, kernel_channel.c, _kchannelDescribeMemDescsFromParams: firmware describes memory that the client gives it; \
             ampere/ga100/dev_ram.h, NV_RAMIN",
    proof: Proof::Sourced,
};

/// Methods that a channel does in a turn.
const METHODS: usize = 64;
/// How long one rests that waits.
const REST: Duration = Duration::from_millis(1);

/// A channel: its runlist, and its number there.
pub(super) type Key = (u32, u32);

/// What a turn came to.
struct Turned {
    moved: bool,
    /// It has told the host something.
    noticed: bool,
    died: Option<(Error, Option<Cause>)>,
}

/// What a round came to.
#[derive(Default)]
struct Round {
    moved: bool,
    /// Engines whose channels have told the host something.
    noticed: Vec<u32>,
    died: Vec<Died>,
}

/// The machine behind engines, and how many of its broken rules have been passed on.
pub(super) struct Notes {
    pub(super) machine: Arc<Machine>,
    told: Mutex<usize>,
}

impl Notes {
    pub(super) fn new(machine: Arc<Machine>) -> Notes {
        let told = Mutex::default();
        Notes { machine, told }
    }

    /// What broke a rule there breaks it of the card.
    pub(super) fn tell(&self, journal: &Journal) {
        let mut told = lock(&self.told);
        for violation in self.machine.journal.violations_from(*told) {
            journal.broken(violation.rule, violation.what);
            *told += 1;
        }
    }
}

/// A channel that has died.
pub(super) struct Died {
    pub(super) key: Key,
    pub(super) error: Error,
    /// What the MMU says of it.
    pub(super) cause: Option<Cause>,
}

/// A channel that can run.
pub(super) struct Live {
    /// Whose channel it is.
    pub(super) engine: u32,
    pub(super) channel: Channel,
    pub(super) physical: Physical,
    pub(super) tlb: Arc<Mutex<Tlb>>,
    /// Its page directory.
    pub(super) root: Place,
    pub(super) userd: Place,
    /// The words of its instance block, as firmware has written them.
    pub(super) instance: Vec<(Place, u64)>,
    /// GPPut at the last ring.
    pub(super) put: u32,
    pub(super) active: bool,
    pub(super) dead: bool,
}

impl Live {
    /// The end of a channel that was scheduled: what nobody has rung for.
    fn silent(&self, machine: &Machine) {
        let who = self.channel.who();
        let put = self
            .physical
            .long(self.userd.plus(userd::GP_PUT - 4), who)
            .map(|long| (long >> 32) as u32);
        if let Some(put) = put.filter(|put| *put != self.put) {
            let what = format!("{who}: GPPut {put}, {} at the last ring", self.put);
            machine.broken(&scheduler::SILENT, what);
        }
    }

    /// Whether its instance block is as firmware has left it.
    fn is_whole(&self, journal: &Journal) -> bool {
        let who = self.channel.who();
        let differs = self
            .instance
            .iter()
            .find(|(place, word)| self.physical.long(*place, who) != Some(*word));
        if let Some((place, word)) = differs {
            let found = self.physical.long(*place, who);
            let what = format!("{who}: at {place} was {word:#x}, and is {found:x?}");
            journal.broken(&INSTANCE, what);
        }
        differs.is_none()
    }

    /// Lets it run.
    fn turn(&mut self, machine: &Machine, gpu: &mut Gpu, journal: &Arc<Journal>) -> Turned {
        let who: Arc<str> = self.channel.who().into();
        if !self.is_whole(journal) {
            let error = Error {
                xid: engines::error::xid::MMU,
                what: format!("{who}: its instance block is not firmware's"),
                fault: None,
                exception: None,
            };
            self.channel.kill(error);
        }
        let (physical, tlb) = (self.physical.clone(), self.tlb.clone());
        let bus = Translated::new(physical, tlb, journal.clone(), self.root, who.clone());
        let userd = Plain {
            physical: self.physical.clone(),
            from: self.userd,
            who,
        };
        let mut around = Around {
            machine,
            gpu,
            bus: &bus,
            userd: Some(&userd),
        };
        let turn = self.channel.step(&mut around, METHODS);
        let noticed = !self.channel.take_notices().is_empty();
        self.active = matches!(turn, Turn::Ran | Turn::Waits);
        let error = self.channel.error().filter(|_| !self.dead).cloned();
        self.dead |= error.is_some();
        let died = error.map(|error| {
            let cause = error.fault.and_then(|fault| bus.cause(fault.va));
            (error, cause)
        });
        Turned {
            moved: turn == Turn::Ran,
            noticed,
            died,
        }
    }
}

/// The hardware.
#[derive(Default)]
struct Side {
    around: Option<(Arc<Notes>, Gpu)>,
    live: BTreeMap<Key, Live>,
}

/// The host's end.
pub(super) struct Runner {
    side: Arc<Mutex<Side>>,
    /// Rings that the thread has not heard.
    rung: Arc<Mutex<Vec<(Key, u32)>>>,
    wake: Sender<()>,
    busy: Arc<AtomicUsize>,
}

/// The thread's, before there is one.
pub(super) struct Work {
    side: Arc<Mutex<Side>>,
    rung: Arc<Mutex<Vec<(Key, u32)>>>,
    woken: Receiver<()>,
    busy: Arc<AtomicUsize>,
    journal: Arc<Journal>,
}

impl Runner {
    pub(super) fn new(journal: &Arc<Journal>) -> (Runner, Work) {
        let (wake, woken) = mpsc::channel();
        let runner = Runner {
            side: Arc::default(),
            rung: Arc::default(),
            wake,
            busy: Arc::default(),
        };
        let work = Work {
            side: runner.side.clone(),
            rung: runner.rung.clone(),
            woken,
            busy: runner.busy.clone(),
            journal: journal.clone(),
        };
        (runner, work)
    }

    /// How often it was woken and has not done all that there was.
    pub(super) fn busy(&self) -> Arc<AtomicUsize> {
        self.busy.clone()
    }

    /// Firmware starts: the engines have done nothing.
    pub(super) fn begin(&self, notes: &Arc<Notes>) {
        let chip = notes.machine.config.chips[0];
        let around = Some((notes.clone(), Gpu::new(0, chip)));
        let live = BTreeMap::new();
        *lock(&self.side) = Side { around, live };
    }

    /// Nothing runs any more.
    pub(super) fn clear(&self) {
        lock(&self.rung).clear();
        *lock(&self.side) = Side::default();
    }

    /// A channel is there.
    pub(super) fn add(&self, key: Key, live: Live) {
        lock(&self.side).live.insert(key, live);
    }

    /// A channel ends: what it still waited for is named, and, where it was scheduled, what nobody has rung for.
    pub(super) fn remove(&self, key: Key, scheduled: bool) {
        let mut side = lock(&self.side);
        side.hear(&self.rung);
        let Some(live) = side.live.remove(&key) else {
            return;
        };
        if let Some((notes, _)) = side.around.as_ref().filter(|_| !live.dead) {
            engines::stuck(&notes.machine, [&live.channel]);
            if scheduled {
                live.silent(&notes.machine);
            }
        }
    }

    /// A channel dies, whoever is to blame.
    pub(super) fn kill(&self, key: Key, error: &Error) {
        if let Some(live) = lock(&self.side).live.get_mut(&key) {
            live.channel.kill(error.clone());
            (live.active, live.dead) = (false, true);
        }
    }

    /// Its doorbell was rung, with that GPPut.
    pub(super) fn ring(&self, key: Key, put: u32) {
        lock(&self.rung).push((key, put));
        self.busy.fetch_add(1, Ordering::AcqRel);
        if self.wake.send(()).is_err() {
            self.busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Side {
    fn hear(&mut self, rung: &Mutex<Vec<(Key, u32)>>) {
        for (key, put) in lock(rung).drain(..) {
            if let Some(live) = self.live.get_mut(&key).filter(|live| !live.dead) {
                live.channel.ring(put);
                (live.put, live.active) = (put, true);
            }
        }
    }

    /// A turn for each.
    fn round(&mut self, journal: &Arc<Journal>) -> Round {
        let mut round = Round::default();
        let Some((notes, gpu)) = &mut self.around else {
            return round;
        };
        for (key, live) in &mut self.live {
            if !live.active {
                continue;
            }
            let turned = live.turn(&notes.machine, gpu, journal);
            round.moved |= turned.moved;
            round.noticed.extend(turned.noticed.then_some(live.engine));
            round.died.extend(turned.died.map(|(error, cause)| Died {
                key: *key,
                error,
                cause,
            }));
        }
        notes.tell(journal);
        round
    }
}

impl Work {
    /// Runs the channels of a card for as long as the card is there.
    ///
    /// # Errors
    /// The host has no thread left.
    pub(super) fn start(self, state: &Arc<Mutex<State>>) -> io::Result<()> {
        let state = Arc::downgrade(state);
        let run = move || {
            let mut waits = false;
            loop {
                let heard = match waits {
                    true => self.woken.recv_timeout(REST),
                    false => self.woken.recv().map_err(RecvTimeoutError::from),
                };
                if heard == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
                waits = self.rounds(&state);
                if heard.is_ok() {
                    self.busy.fetch_sub(1, Ordering::AcqRel);
                }
            }
        };
        let thread = thread::Builder::new().name("twin-nv-runner".into());
        thread.spawn(run).map(drop)
    }

    /// Rounds until nothing moves. Whether a channel waits.
    fn rounds(&self, state: &Weak<Mutex<State>>) -> bool {
        loop {
            let (round, waits) = {
                let mut side = lock(&self.side);
                side.hear(&self.rung);
                let round = side.round(&self.journal);
                let waits = side.live.values().any(|live| live.active);
                (round, waits)
            };
            if !round.died.is_empty() || !round.noticed.is_empty() {
                let Some(state) = state.upgrade() else {
                    return false;
                };
                let mut state = lock(&state);
                for engine in round.noticed {
                    super::gsp::noticed(&mut state, engine);
                }
                for one in &round.died {
                    super::gsp::died(&mut state, one);
                }
                if !round.died.is_empty() {
                    continue;
                }
            }
            if !round.moved {
                return waits;
            }
        }
    }
}
