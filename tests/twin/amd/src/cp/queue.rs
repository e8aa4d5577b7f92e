//! A queue: its turns, and what stops it.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

use twin::rule::{Proof, Rule};
use twin_shader::launch::Broken;
use twin_shader::page::MemFault;

use super::aql::Aql;
use super::pm4::Pm4;
use super::ring::Ring;
use super::rng::Rng;
use super::sdma::Sdma;
use super::xcc::Place;
use super::{Core, Cx, Step, Stop, exception};
use crate::gpu::{Interrupt, ProcessId, QueueDesc, QueueId, QueueKind};

/// Accesses go to memory that is mapped.
pub static PAGE_FAULT: Rule = Rule {
    name: "GPU-PAGE-FAULT",
    text: "every address that a packet or a wave accesses is mapped on this GPU, with the right for it",
    source: "Linux, amdkfd/kfd_int_process_v11.c, amdgpu_gmc.c: a fault stops every queue of the process",
    proof: Proof::Sourced,
};

/// Waves do not trap.
pub static WAVE_TRAP: Rule = Rule {
    name: "GPU-WAVE-TRAP",
    text: "no wave traps or comes to something that is no instruction: no trap handler is set",
    source: "Linux, kfd_ioctl.h, EC_QUEUE_WAVE_TRAP, EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION",
    proof: Proof::Sourced,
};

/// How many packets a queue runs before others have a turn.
const PACKETS: usize = 64;

/// How long a queue waits before the journal is told.
const LONG: Duration = Duration::from_millis(500);

enum Engine {
    Pm4(Box<Pm4>),
    Aql(Box<Aql>),
    Sdma(Box<Sdma>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// Asked to hang.
    Hangs,
    /// Will not run again.
    Stopped,
}

/// What a turn did.
pub(crate) enum Turn {
    /// Nothing.
    Idle,
    /// Something.
    Moved,
    /// A page fault: every queue of the process stops.
    Faulted(ProcessId),
}

/// What a queue waits for.
struct Waits {
    why: String,
    since: Instant,
    /// Whether the journal has been told.
    told: bool,
}

/// A queue.
pub(crate) struct Queue {
    id: QueueId,
    desc: QueueDesc,
    ring: Ring,
    engine: Engine,
    rng: Rng,
    state: State,
    /// Whether the next step is the first try of its packet.
    first: bool,
    waits: Option<Waits>,
    /// The packet that it is at.
    who: String,
    /// The rules that it has broken without being stopped.
    told: RefCell<Vec<&'static str>>,
}

impl Queue {
    pub fn new(id: QueueId, desc: QueueDesc, core: &Arc<Core>) -> Self {
        let ring = Ring::new(&desc);
        let mut desc = desc;
        let mut place = None;
        if desc.kind == QueueKind::Pm4 && core.chip.xccs > 1 {
            desc.vm = desc.vm.on(desc.xcc);
            let groups = &core.groups;
            place = Some(Place::new(groups, desc.process, desc.ring, desc.xcc));
        }
        let engine = match desc.kind {
            QueueKind::Pm4 => Engine::Pm4(Box::new(Pm4::new(1, place))),
            QueueKind::Aql => Engine::Aql(Box::new(Aql::new(core.chip.xccs))),
            QueueKind::Sdma { .. } => Engine::Sdma(Box::new(Sdma::new())),
        };
        let seed = core.seed ^ (core.index as u64) << 32 ^ u64::from(id);
        Self {
            id,
            desc,
            ring,
            engine,
            rng: Rng::new(seed),
            state: State::Runs,
            first: true,
            waits: None,
            who: String::new(),
            told: RefCell::default(),
        }
    }

    pub fn process(&self) -> ProcessId {
        self.desc.process
    }

    pub fn set_ring(&mut self, ring: u64, bytes: u64) {
        (self.desc.ring, self.desc.ring_bytes) = (ring, bytes);
        self.ring.set(ring, bytes);
    }

    pub fn set_active(&mut self, active: bool) {
        if active && !self.desc.active {
            self.ring.mapped();
        }
        self.desc.active = active;
    }

    /// Takes no more packets.
    pub fn hang(&mut self) {
        if self.state == State::Runs {
            self.state = State::Hangs;
        }
    }

    /// Ends for good.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
        self.cancel();
    }

    /// Stops what runs on other threads.
    pub fn cancel(&self) {
        match &self.engine {
            Engine::Pm4(pm4) => pm4.pending.cancel(),
            Engine::Aql(aql) => aql.pm4.pending.cancel(),
            Engine::Sdma(_) => {}
        }
    }

    /// Whether something of it runs on another thread.
    pub fn is_busy(&self) -> bool {
        match &self.engine {
            Engine::Pm4(pm4) => pm4.pending.is_running(),
            Engine::Aql(aql) => aql.pm4.pending.is_running(),
            Engine::Sdma(_) => false,
        }
    }

    /// Whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        let done = match &self.engine {
            Engine::Pm4(pm4) => pm4.pending.is_empty() && !pm4.in_ib(),
            Engine::Aql(aql) => aql.is_idle(),
            Engine::Sdma(sdma) => sdma.is_idle(),
        };
        self.state == State::Stopped || done && self.ring.is_quiet(&self.desc)
    }

    /// What it waits for.
    pub fn waiting(&self) -> Option<String> {
        if self.state == State::Hangs {
            return Some(format!("{}: hangs, as asked", self.who));
        }
        let Waits { why, since, .. } = self.waits.as_ref()?;
        let ms = since.elapsed().as_millis();
        Some(format!("{} has waited {ms} ms: {why}", self.who))
    }

    /// Memory reports what the host may look at and GL2 still holds.
    pub fn check_host(&self) {
        self.desc.vm.host_visible_dirty(&self.who);
    }

    /// Runs some packets.
    pub fn turn(&mut self, core: &Arc<Core>, gpu: &Thread, out: &mut Vec<Interrupt>) -> Turn {
        if self.state != State::Runs || !self.desc.active {
            return Turn::Idle;
        }
        match self.run(core, gpu, out) {
            Ok(true) => Turn::Moved,
            Ok(false) => Turn::Idle,
            Err(stop) => self.report(core, stop, out),
        }
    }

    fn run(
        &mut self,
        core: &Arc<Core>,
        gpu: &Thread,
        out: &mut Vec<Interrupt>,
    ) -> Result<bool, Stop> {
        let mut cx = Cx {
            core,
            id: self.id,
            desc: &self.desc,
            rng: &mut self.rng,
            out,
            who: std::mem::take(&mut self.who),
            first: self.first,
            told: &self.told,
        };
        let result = turn(
            &mut cx,
            &mut self.ring,
            &mut self.engine,
            gpu,
            &mut self.waits,
        );
        self.who = cx.who;
        self.first = cx.first;
        result
    }

    /// The queue stops: the journal, the interrupt.
    fn report(&mut self, core: &Core, stop: Stop, out: &mut Vec<Interrupt>) -> Turn {
        self.stop();
        let (process, queue) = (self.desc.process, self.id);
        let error = |code| Interrupt::QueueError {
            process,
            queue,
            code,
        };
        let fault = |fault: MemFault, out: &mut Vec<Interrupt>| {
            out.push(Interrupt::Fault { process, fault });
            Turn::Faulted(process)
        };
        match stop {
            Stop::Rule { rule, what, code } => {
                core.journal.broken(rule, format!("{what} ({})", self.who));
                out.push(error(code));
                Turn::Moved
            }
            Stop::Fault(at) => {
                core.journal
                    .broken(&PAGE_FAULT, format!("{at} ({})", self.who));
                fault(at, out)
            }
            Stop::Wave { broken, dispatch } => {
                for line in &broken.before {
                    core.journal.event(line.clone());
                }
                let what = wave(&broken, &dispatch);
                match broken.stop {
                    twin_shader::step::Stop::Rule(rule, why) => {
                        core.journal.broken(rule, format!("{why}; {what}"));
                        out.push(error(exception::WAVE_ILLEGAL_INSTRUCTION));
                        Turn::Moved
                    }
                    twin_shader::step::Stop::Fault(at) => {
                        core.journal.broken(&PAGE_FAULT, format!("{at}; {what}"));
                        fault(at, out)
                    }
                    twin_shader::step::Stop::Trap(why) => {
                        core.journal.broken(&WAVE_TRAP, format!("{why}; {what}"));
                        out.push(error(exception::WAVE_TRAP));
                        Turn::Moved
                    }
                }
            }
            Stop::Cancelled => Turn::Moved,
        }
    }
}

fn wave(broken: &Broken, dispatch: &str) -> String {
    format!(
        "at {:#x}: {}, workgroup {:?} wave {} ({dispatch})",
        broken.pc, broken.text, broken.group, broken.wave
    )
}

/// Runs packets until there are none, one waits, or others want a turn.
fn turn(
    cx: &mut Cx,
    ring: &mut Ring,
    engine: &mut Engine,
    gpu: &Thread,
    waits: &mut Option<Waits>,
) -> Result<bool, Stop> {
    ring.poll(cx)?;
    let mut moved = false;
    for _ in 0..PACKETS {
        let step = match engine {
            Engine::Pm4(pm4) => {
                pm4.pending.set_thread(gpu);
                pm4.step(cx, Some(ring))?
            }
            Engine::Aql(aql) => {
                aql.pm4.pending.set_thread(gpu);
                aql.step(cx, ring)?
            }
            Engine::Sdma(sdma) => sdma.step(cx, ring)?,
        };
        match step {
            Step::Next => {
                (cx.first, *waits) = (true, None);
                moved = true;
            }
            Step::More => {
                cx.first = false;
                return Ok(true);
            }
            Step::Busy => {
                cx.first = false;
                return Ok(moved);
            }
            Step::Wait(why) => {
                waited(cx, waits, why);
                cx.first = false;
                break;
            }
            Step::Empty => {
                cx.first = true;
                break;
            }
        }
    }
    // Nothing holds work back any longer than the packets do.
    match engine {
        Engine::Pm4(pm4) => rest(cx, &mut pm4.pending, moved),
        Engine::Aql(aql) => rest(cx, &mut aql.pm4.pending, moved),
        Engine::Sdma(sdma) => Ok(sdma.work(cx)? || moved),
    }
}

fn rest(cx: &mut Cx, pending: &mut super::work::Pending, moved: bool) -> Result<bool, Stop> {
    if pending.is_empty() {
        return Ok(moved);
    }
    Ok(pending.flush(cx)? || moved)
}

/// A packet waits. The journal hears of it once, when it has been long.
fn waited(cx: &Cx, waits: &mut Option<Waits>, why: String) {
    let waits = waits.get_or_insert_with(|| Waits {
        why: String::new(),
        since: Instant::now(),
        told: false,
    });
    waits.why = why;
    if !waits.told && waits.since.elapsed() >= LONG {
        waits.told = true;
        let event = format!("{} has waited long: {}", cx.who, waits.why);
        cx.core.journal.event(event);
    }
}
