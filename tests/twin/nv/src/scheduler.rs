//! The scheduler: what the channels of a machine do, one step after the other, in an order that follows
//! from the seed.
//!
//! One thread runs every channel of every GPU in turns. A round gives each channel a turn, in random order
//! and of random length. System calls come between rounds. Doorbells are looked at when no channel can go
//! on, and at times counted in rounds; a channel that waits is tried again when its semaphore has changed. So
//! what a client does counts from the same step on, however busy the host is, as long as it waits for what it
//! has started. Where nothing can move, no random number is used up.
//!
//! Of two rings between two looks only the last leaves its token: then each channel of the GPU whose GPPut
//! has moved counts as rung. One that nobody has rung by its end is named, and so is one that has begun by
//! tokens of others alone, while these had nothing new.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

use twin::process::{Blocked, Standing};
use twin::rng::Rng;
use twin::rounds::{Gate, Rhythm, Worker, turns};
use twin::rule::{Proof, Rule};
use twin::watch::{Moment, Watch};

use crate::config::{Config, Hardware};
use crate::engines::bus::Bus;
use crate::engines::host::Channel;
use crate::engines::view::{Physical, View};
use crate::engines::{self, Around, Error, Gpu, Turn, Wait};
use crate::kernel::Machine;
use crate::rm::State;
use crate::rm::channel::Channel as Made;

pub(crate) static SILENT: Rule = Rule {
    name: "HOST-DOORBELL-MISSING",
    text: "the doorbell is written after GPPut: the host does not read GPPut before",
    source: "open-gpu-doc, classes/host/clc361.h, NOTIFY_CHANNEL_PENDING; from Volta on the host does not poll USERD",
    proof: Proof::Sourced,
};

static OTHER: Rule = Rule {
    name: "HOST-DOORBELL-OTHER",
    text: "a channel's doorbell is written with its own token: other tokens do not start it",
    source: "open-gpu-doc, classes/host/clc361.h, NOTIFY_CHANNEL_PENDING_ID; open-gpu-kernel-modules, ctrl/ctrlc36f.h, GPFIFO_GET_WORK_SUBMIT_TOKEN",
    proof: Proof::Sourced,
};

/// See the front page.
pub(crate) struct Scheduler {
    side: Gate<Side>,
    quit: AtomicBool,
    thread: Worker,
}

/// The hardware.
struct Side {
    gpus: Vec<Gpu>,
    /// By client and handle.
    channels: BTreeMap<(u32, u32), Live>,
    order: Rng,
    /// Rounds in which something moved.
    moved: u64,
    /// Whether somebody holds the next round back.
    paused: bool,
    watch: Option<Box<dyn Watch>>,
}

/// A channel that the hardware knows.
struct Live {
    made: Made,
    channel: Channel,
    view: View,
    userd: Option<Physical>,
    /// GPPut at the last ring.
    put: u32,
    /// Whether it may have something to do.
    active: bool,
    /// Whether it has begun by the token of another channel.
    begun: bool,
    /// Whether its own token was seen, or may have been one that was not.
    called: bool,
    /// What it waited for in its last turn.
    waited: Option<Wait>,
    /// Whether it does nothing, because the config says so.
    hangs: bool,
    dead: bool,
}

impl Live {
    fn new(made: &Made, view: View, machine: &Machine) -> Live {
        let userd = made.userd.clone();
        Live {
            channel: Channel::new(made, machine.config.chips[made.gpu]),
            view,
            userd: userd.map(|(memory, at)| Physical::new(memory, at)),
            put: 0,
            active: false,
            begun: false,
            called: false,
            waited: None,
            hangs: false,
            dead: false,
            made: made.clone(),
        }
    }

    /// Its doorbell was rung, or may have been.
    fn ring(&mut self, machine: &Machine) -> bool {
        let userd = self.userd.as_ref();
        let put = userd.and_then(|userd| engines::put(machine, &self.made, userd));
        let Some(put) = put.filter(|put| *put != self.put) else {
            return false;
        };
        self.channel.ring(put);
        (self.put, self.active) = (put, true);
        true
    }

    fn runs(&self) -> bool {
        self.active && self.made.scheduled
    }

    /// Whether a turn may do something: of one that waits, whether what it waits for has changed.
    fn can_move(&self) -> bool {
        let Some(wait) = self.waited.as_ref().filter(|_| self.runs()) else {
            return self.runs();
        };
        let mut word = [0; 8];
        let read = self.view.read(wait.va, &mut word[..wait.bytes.min(8)]);
        read.is_err() || u64::from_le_bytes(word) != wait.held
    }

    /// Lets it run. Whether anything moved.
    fn turn(&mut self, machine: &Machine, gpu: &mut Gpu, methods: usize) -> bool {
        let userd = self.userd.as_ref().map(|userd| userd as &dyn Bus);
        let mut around = Around {
            machine,
            gpu,
            bus: &self.view,
            userd,
        };
        let before = self.active;
        if self.hangs
            || machine
                .fails(|f| *f == Hardware::Hang(self.made.id))
                .is_some()
        {
            // It stays as it is, until its client frees it.
            (self.hangs, self.active, self.dead) = (true, false, true);
            return false;
        }
        if let Some(fault) = machine.fails(|f| matches!(f, Hardware::Mmu(_) | Hardware::Exception))
        {
            self.channel.kill(engines::injected(&fault));
        }
        let turn = self.channel.step(&mut around, methods);
        for notice in self.channel.take_notices() {
            machine
                .state()
                .interrupt(machine, gpu.number, self.made.engine, notice);
        }
        self.active = matches!(turn, Turn::Ran | Turn::Waits);
        let waited = self.channel.waits_for().cloned();
        let same = turn == Turn::Waits && waited == self.waited;
        self.waited = waited;
        before && !same
    }

    /// It dies, whoever is to blame.
    fn kill(&mut self, error: &Error) {
        self.channel.kill(error.clone());
        (self.active, self.dead) = (false, true);
    }

    /// What it is at; none where it has nothing to do.
    fn standing(&self) -> Option<Standing> {
        let kept = match &self.waited {
            _ if self.hangs => Blocked::Other("it hangs, as the config asks".into()),
            _ if self.dead => return None,
            Some(wait) => Blocked::Memory {
                at: wait.va,
                now: wait.held,
                why: wait.to_string(),
            },
            None if self.active => Blocked::Work("its methods".into()),
            None => return None,
        };
        Some(Standing {
            who: self.channel.who().into(),
            at: String::new(),
            kept,
        })
    }

    /// The end of a channel: what it still waited for, and what nobody has rung for.
    fn end(&self, machine: &Machine) {
        if self.dead {
            return;
        }
        engines::stuck(machine, [&self.channel]);
        if self.begun && !self.called {
            let what = format!("{}: GPPut {}", self.channel.who(), self.put);
            machine.broken(&OTHER, what);
        }
        let userd = self.userd.as_ref();
        let put = userd.and_then(|userd| engines::put(machine, &self.made, userd));
        if let Some(put) = put.filter(|put| self.made.scheduled && *put != self.put) {
            let what = format!(
                "{}: GPPut {put}, {} at the last ring",
                self.channel.who(),
                self.put
            );
            machine.broken(&SILENT, what);
        }
    }
}

impl Side {
    /// Takes over what system calls have changed.
    fn sync(&mut self, machine: &Machine, state: &mut State) {
        for gone in state.take_ended() {
            if let Some(live) = self.channels.remove(&gone) {
                live.end(machine);
            }
        }
        for made in state.channels() {
            let Some(space) = state.space_of(made) else {
                continue;
            };
            let view = View::new(space.clone());
            let known = self.channels.get_mut(&(made.client, made.handle));
            match known {
                Some(live) => {
                    live.view = view;
                    live.made.scheduled = made.scheduled;
                    if let Some(error) = &made.error {
                        live.kill(error);
                    }
                }
                None => {
                    let live = Live::new(made, view, machine);
                    self.channels.insert((made.client, made.handle), live);
                }
            }
        }
    }

    /// Looks at the doorbells.
    fn look(&mut self, machine: &Machine) {
        for gpu in 0..self.gpus.len() {
            let Some(token) = machine.rung(gpu) else {
                continue;
            };
            if machine.fails(|f| *f == Hardware::Gone).is_some() {
                self.lose(machine);
                continue;
            }
            let state = machine.state();
            let rung = engines::ring(machine, &state, gpu, token);
            let Some(meant) = rung.map(|channel| (channel.client, channel.handle)) else {
                continue;
            };
            drop(state);
            // Only where the one that is meant has something new, more than one ring may have come.
            let own = self.channels.get_mut(&meant).is_some_and(|live| {
                live.called = true;
                live.ring(machine)
            });
            for (key, live) in &mut self.channels {
                let other = live.made.gpu == gpu && live.made.scheduled && *key != meant;
                if other && live.ring(machine) {
                    live.begun = true;
                    live.called |= own;
                }
            }
        }
    }

    /// Whether a round would do something. Asked first: so every channel sees what the client has changed in the
    /// same round, whichever would have looked just before it.
    fn can_move(&self) -> bool {
        self.channels.values().any(Live::can_move)
    }

    /// Looks at the doorbells, before the eyes of who watches. Whether there shall be a round.
    fn looks(&mut self, machine: &Machine) -> bool {
        let now = machine.moment(self.moved);
        let Some(mut watch) = self.watch.take() else {
            self.look(machine);
            return self.can_move();
        };
        let go = watch.look(now, &mut || {
            self.look(machine);
            self.can_move()
        });
        self.watch = Some(watch);
        go
    }

    /// Whether there may be a round in which they are not looked at.
    fn may_go(&mut self, machine: &Machine) -> bool {
        let now = machine.moment(self.moved);
        let watch = self.watch.as_mut();
        watch.is_none_or(|watch| watch.may_go(now))
    }

    /// A turn for every channel, in random order. Whether anything moved.
    fn round(&mut self, machine: &Machine) -> bool {
        let live = self.channels.values_mut().filter(|live| live.runs());
        let gpus = &mut self.gpus;
        let moved = turns(&mut self.order, live.collect(), |order, live: &mut Live| {
            let methods = 1 + order.below(64);
            live.turn(machine, &mut gpus[live.made.gpu], methods)
        });
        self.bury(machine);
        moved
    }

    /// Tells RM who has died, and ends those who die with them.
    fn bury(&mut self, machine: &Machine) {
        let died = |live: &&Live| !live.dead && live.channel.error().is_some();
        let died: Vec<(u32, u32, Error)> = self
            .channels
            .values()
            .filter(died)
            .filter_map(|live| {
                let error = live.channel.error()?.clone();
                Some((live.made.client, live.made.handle, error))
            })
            .collect();
        for (client, handle, error) in died {
            let with = machine.state().recover(machine, client, handle, &error);
            for key in with {
                if let Some(live) = self.channels.get_mut(&key) {
                    live.kill(&error);
                }
            }
        }
    }

    /// The GPUs fall off the bus: every channel dies.
    fn lose(&mut self, machine: &Machine) {
        let error = engines::injected(&Hardware::Gone);
        for (&(client, handle), live) in &mut self.channels {
            machine.state().recover(machine, client, handle, &error);
            live.kill(&error);
        }
    }
}

/// Engines stand still for as long as this lives.
pub(crate) struct Between<'a> {
    machine: &'a Machine,
    side: MutexGuard<'a, Side>,
}

impl Drop for Between<'_> {
    fn drop(&mut self) {
        let machine = self.machine;
        self.side.sync(machine, &mut machine.state());
        machine.scheduler.wake();
    }
}

impl Scheduler {
    /// One whose thread has not started.
    pub(crate) fn new(config: &Config) -> Scheduler {
        let gpus = config.chips.iter().enumerate();
        Scheduler {
            side: Gate::new(Side {
                gpus: gpus.map(|(gpu, chip)| Gpu::new(gpu, chip)).collect(),
                channels: BTreeMap::new(),
                order: Rng::new(config.seed),
                moved: 0,
                paused: false,
                watch: None,
            }),
            quit: AtomicBool::new(false),
            thread: Worker::default(),
        }
    }

    /// Starts the thread, which ends with the machine.
    pub(crate) fn start(&self, machine: &Arc<Machine>) -> io::Result<()> {
        let weak = Arc::downgrade(machine);
        self.thread.start(move || run(&weak))
    }

    /// Has somebody watch from now on.
    pub(crate) fn watch(&self, watch: Box<dyn Watch>) {
        self.lock().watch = Some(watch);
    }

    /// What channels of those clients are at.
    pub(crate) fn standing(&self, clients: &[u32]) -> Vec<Standing> {
        let side = self.lock();
        let own = side
            .channels
            .iter()
            .filter(|((client, _), _)| clients.contains(client));
        own.filter_map(|(_, live)| live.standing()).collect()
    }

    /// Holds the next round back until [`Self::go_on`]. One caller at a time.
    pub(crate) fn pause(&self, machine: &Machine) -> Moment {
        let mut side = self.lock();
        side.paused = true;
        machine.moment(side.moved)
    }

    /// See [`Self::pause`].
    pub(crate) fn go_on(&self) {
        self.lock().paused = false;
        self.wake();
    }

    /// Waits for the end of a round, and holds the next one back. Doorbells that were rung before the call have
    /// been heard: the way to the GPU keeps the order of stores.
    pub(crate) fn between<'a>(&'a self, machine: &'a Machine) -> Between<'a> {
        let mut side = self.side.enter();
        side.look(machine);
        Between { machine, side }
    }

    fn lock(&self) -> MutexGuard<'_, Side> {
        self.side.lock()
    }

    fn wake(&self) {
        self.thread.wake();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::Release);
        self.thread.join();
    }
}

fn run(machine: &Weak<Machine>) {
    let mut rhythm = Rhythm::default();
    loop {
        let Some(machine) = machine.upgrade() else {
            return;
        };
        let scheduler = &machine.scheduler;
        if scheduler.quit.load(Ordering::Acquire) {
            return;
        }
        scheduler.side.give_way();
        let (moved, none) = {
            let mut side = scheduler.lock();
            let look = rhythm.looks();
            if side.paused || !look && !side.may_go(&machine) {
                drop(side);
                rhythm.hold();
                continue;
            }
            let go = match look {
                true => side.looks(&machine),
                false => side.can_move(),
            };
            let moved = go && side.round(&machine);
            side.moved += u64::from(moved);
            rhythm.passed(look, moved);
            (moved, side.channels.is_empty() && side.watch.is_none())
        };
        drop(machine);
        // A system call that makes a channel wakes the thread.
        rhythm.rest(moved, none);
    }
}
