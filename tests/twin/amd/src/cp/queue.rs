//! A queue: its turns, and what stops it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_spec::amd::aql;
use twin::process::{Blocked, Standing};
use twin::rng::Rng;
use twin::rule::{Proof, Rule};
use twin_shader::launch::Broken;
use twin_shader::page::{FaultKind, MemFault, Port};

use super::aql::Aql;
use super::clock;
use super::fiber::Fibers;
use super::pm4::Pm4;
use super::ring::Ring;
use super::sdma::Sdma;
use super::xcc::Place;
use super::{Core, Cx, Step, Stop, Word, exception, inactive};
use crate::gpu::{Interrupt, ProcessId, QueueDesc, QueueId, QueueKind};

/// Accesses go to memory that is mapped.
pub static PAGE_FAULT: Rule = Rule {
    name: "GPU-PAGE-FAULT",
    text: "every address that a packet or a wave accesses is mapped on this GPU with sufficient rights",
    source: "Linux, amdkfd/kfd_int_process_v11.c, amdgpu_gmc.c: a fault stops every queue of the process",
    proof: Proof::Sourced,
};

/// Waves do not trap.
pub static WAVE_TRAP: Rule = Rule {
    name: "GPU-WAVE-TRAP",
    text: "no wave traps without a trap handler (SET_TRAP_HANDLER)",
    source: "Linux, kfd_ioctl.h, EC_QUEUE_WAVE_TRAP; LLVM, AMDGPUUsage, Trap Handler ABI",
    proof: Proof::Sourced,
};

/// How many packets a queue runs at most before others have a turn.
const PACKETS: usize = 64;

/// How long an XCC whose doorbell has been rung is held back for the others of its ring. A client rings
/// them one right after the other; only where it does not does this matter.
const TOGETHER: Duration = Duration::from_secs(1);

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

/// What the packet at the head waits for.
struct Waits {
    why: String,
    /// What it has read: it is tried again when that has changed.
    on: Vec<Word>,
}

impl Waits {
    /// The host may be between what it has written and the flush of it.
    fn have_changed(&self, desc: &QueueDesc) -> bool {
        let changed = |word: &Word| {
            let mut bytes = [0; 8];
            let read = desc.vm.look(desc.port(), word.va, &mut bytes[..word.bytes]);
            read.is_err() || u64::from_le_bytes(bytes) != word.value
        };
        self.on.is_empty() || self.on.iter().any(changed)
    }

    /// Nobody waits any longer: what is still old would have stayed so.
    fn end(&self, desc: &QueueDesc) {
        for word in &self.on {
            let mut bytes = [0; 8];
            // A page that has gone is nobody's mistake here.
            let _ = desc.vm.read(desc.port(), word.va, &mut bytes[..word.bytes]);
        }
    }
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
    /// Whether the last turn has left something to be done without anything from outside.
    more: bool,
    /// Since when the doorbell does not count for the sake of others.
    held: Option<Instant>,
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
        if desc.kind == QueueKind::Aql && core.chip.reclaims_scratch() {
            let at = desc.rptr - aql::queue::READ_DISPATCH_ID as u64 + aql::queue::CAPS as u64;
            // Where there is no memory, the first packet says so.
            let caps = aql::queue::CAPS_ASYNC_RECLAIM.to_le_bytes();
            let _ = desc.vm.write(Port::Cp, at, &caps);
        }
        let engine = match desc.kind {
            QueueKind::Pm4 => Engine::Pm4(Box::new(Pm4::new(1, place))),
            QueueKind::Aql => Engine::Aql(Box::new(Aql::new(core.chip.xccs))),
            QueueKind::Sdma { .. } => Engine::Sdma(Box::new(Sdma::new(core.clock.now()))),
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
            more: true,
            held: None,
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
        if let Some(pending) = self.pending() {
            pending.cancel();
        }
    }

    /// Whether something of it runs on another thread.
    pub fn is_busy(&self) -> bool {
        self.pending().is_some_and(super::work::Pending::is_running)
    }

    /// How far it has read, and how far it may.
    pub fn pointers(&self) -> (u64, u64) {
        self.ring.pointers()
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

    /// What it is at, on a GPU of that number; none where it has nothing to do, or has stopped.
    pub fn standing(&self, gpu: usize) -> Option<Standing> {
        if self.state == State::Stopped || self.is_idle() {
            return None;
        }
        let (read, end) = self.pointers();
        let kept = match &self.waits {
            _ if self.state == State::Hangs => {
                Blocked::Other("it hangs, as the config asks".into())
            }
            Some(Waits { why, on }) => match on.last() {
                Some(word) => Blocked::Memory {
                    at: word.va,
                    now: word.value,
                    why: why.clone(),
                },
                None => Blocked::Other(why.clone()),
            },
            None if self.is_busy() => Blocked::Work(
                self.pending()
                    .map_or(String::new(), |pending| pending.runs().join("; ")),
            ),
            None if !self.desc.active => Blocked::Other(
                "it is not scheduled: its percentage is 0, or it was unmapped".into(),
            ),
            None => Blocked::Other(format!("it has read up to {read:#x} of {end:#x}")),
        };
        let kind = match self.desc.kind {
            QueueKind::Pm4 => "PM4".into(),
            QueueKind::Aql => "AQL".into(),
            QueueKind::Sdma { engine } => format!("SDMA {engine}"),
        };
        Some(Standing {
            who: format!("GPU {gpu} queue {} ({kind})", self.id),
            at: self.who.clone(),
            kept,
        })
    }

    /// Where its waves are that have run for long.
    pub fn waves(&self) -> Vec<twin_shader::launch::Standing> {
        self.pending()
            .map(super::work::Pending::waves)
            .unwrap_or_default()
    }

    fn pending(&self) -> Option<&super::work::Pending> {
        match &self.engine {
            Engine::Pm4(pm4) => Some(&pm4.pending),
            Engine::Aql(aql) => Some(&aql.pm4.pending),
            Engine::Sdma(_) => None,
        }
    }

    /// Memory reports what the host may look at and GL2 still holds.
    pub fn check_host(&self) {
        self.desc.vm.host_visible_dirty(&self.who);
    }

    /// Where it shares its ring with queues of other XCCs: the process, the ring, and the doorbell.
    pub fn shared_ring(&self) -> Option<(ProcessId, u64, u64)> {
        match &self.engine {
            Engine::Pm4(pm4) if pm4.place.is_some() => {
                let bell = self.desc.doorbell.page.load64(self.desc.doorbell.offset);
                Some((self.desc.process, self.desc.ring, bell))
            }
            _ => None,
        }
    }

    /// Notes whether the doorbell counts. `apart`: others of the ring are not rung for the same.
    pub fn hold(&mut self, apart: bool) {
        if !apart || self.ring.is_quiet(&self.desc) {
            self.held = None;
        } else {
            self.held.get_or_insert_with(Instant::now);
        }
    }

    fn is_held(&self) -> bool {
        self.held.is_some_and(|since| since.elapsed() < TOGETHER)
    }

    /// Whether a turn may do something. Asked when nothing moves, and has no effect.
    pub fn can_move(&self) -> bool {
        let runs = self.state == State::Runs && self.desc.active;
        let rung = || !self.is_held() && !self.ring.is_looked_at(&self.desc);
        let changed = || {
            let waits = self.waits.as_ref();
            waits.is_some_and(|waits| waits.have_changed(&self.desc))
        };
        self.is_busy() || runs && (self.more || rung() || changed())
    }

    /// It is destroyed: what has not come by now never does.
    pub fn end(&mut self, core: &Arc<Core>) {
        if self.state != State::Runs || !self.desc.active {
            return;
        }
        if let Some(waits) = &self.waits {
            waits.end(&self.desc);
        }
        let (mut out, mut fibers) = (Vec::new(), Fibers::default());
        let mut cx = Cx {
            core,
            id: self.id,
            desc: &self.desc,
            rng: &mut self.rng,
            fibers: &mut fibers,
            out: &mut out,
            who: std::mem::take(&mut self.who),
            first: true,
            told: &self.told,
            seen: RefCell::default(),
        };
        if let Engine::Aql(aql) = &self.engine {
            aql.end_of_queue(&cx);
        }
        cx.who = format!("gpu {} queue {}", core.index, self.id);
        self.ring.end_of_queue(&cx);
    }

    /// Runs some packets.
    pub fn turn(
        &mut self,
        core: &Arc<Core>,
        order: &mut Rng,
        look: bool,
        fibers: &mut Fibers,
        out: &mut Vec<Interrupt>,
    ) -> Turn {
        let runs = self.state == State::Runs && self.desc.active;
        if !runs && !self.is_busy() {
            return Turn::Idle;
        }
        let packets = if runs { 1 + order.below(PACKETS) } else { 0 };
        let before = self.rng.clone();
        let result = self.run(core, (packets, look), fibers, out);
        self.more = !matches!(result, Ok(false)) || !look;
        match result {
            Ok(true) => Turn::Moved,
            Ok(false) => {
                self.rng = before;
                Turn::Idle
            }
            Err(stop) => self.report(core, stop, out),
        }
    }

    fn run(
        &mut self,
        core: &Arc<Core>,
        (packets, look): (usize, bool),
        fibers: &mut Fibers,
        out: &mut Vec<Interrupt>,
    ) -> Result<bool, Stop> {
        let rung = look && packets > 0 && !self.is_held();
        let mut cx = Cx {
            core,
            id: self.id,
            desc: &self.desc,
            rng: &mut self.rng,
            fibers,
            out,
            who: std::mem::take(&mut self.who),
            first: self.first,
            told: &self.told,
            seen: RefCell::default(),
        };
        let result = turn(
            &mut cx,
            &mut self.ring,
            &mut self.engine,
            (packets, rung, look),
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
                if let (QueueKind::Aql, Some(bit)) = (self.desc.kind, inactive::bit(code)) {
                    // A queue structure that is not there is what it may have stopped for.
                    let _ = inactive::tell(&self.desc, &core.clock, bit, out);
                }
                out.push(error(code));
                Turn::Moved
            }
            Stop::Fault(at) => {
                faulted(core, at, format!("{at} ({})", self.who));
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
                        faulted(core, at, format!("{at}; {what}"));
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

/// Notes a fault. What a card did on its way to a reset is nobody's mistake, see [`twin::pci::MASTER`].
fn faulted(core: &Core, at: MemFault, what: String) {
    match at.kind {
        FaultKind::Aborted => core.journal.event(what),
        _ => _ = core.journal.broken(&PAGE_FAULT, what),
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
    (packets, rung, look): (usize, bool, bool),
    waits: &mut Option<Waits>,
) -> Result<bool, Stop> {
    if rung {
        ring.poll(cx)?;
    }
    let mut moved = false;
    for n in 1..=packets {
        cx.seen.get_mut().clear();
        let step = match engine {
            Engine::Pm4(pm4) => pm4.step(cx, Some(ring))?,
            Engine::Aql(aql) => aql.step(cx, ring)?,
            Engine::Sdma(sdma) => sdma.step(cx, ring)?,
        };
        match step {
            Step::Next => {
                cx.core.clock.pass(clock::PACKET);
                (cx.first, *waits) = (true, None);
                moved = true;
            }
            Step::More => {
                cx.first = false;
                return Ok(true);
            }
            Step::Busy => {
                cx.first = false;
                return Ok(true);
            }
            Step::Wait(why) => {
                let on = std::mem::take(cx.seen.get_mut());
                *waits = Some(Waits { why, on });
                cx.first = false;
                break;
            }
            Step::Empty => {
                cx.first = true;
                break;
            }
        }
        if n == packets {
            return Ok(true);
        }
    }
    // Packets that the client has rung for meanwhile come first; then nothing holds work back any longer.
    if !look {
        return Ok(moved);
    }
    match engine {
        Engine::Pm4(pm4) => rest(cx, &mut pm4.pending, moved),
        Engine::Aql(aql) => rest(cx, &mut aql.pm4.pending, moved),
        Engine::Sdma(sdma) => Ok(sdma.work(cx)? || moved),
    }
}

/// Runs what is under way. Whether there was something.
fn rest(cx: &mut Cx, pending: &mut super::work::Pending, moved: bool) -> Result<bool, Stop> {
    if pending.is_empty() {
        return Ok(moved);
    }
    pending.flush(cx)?;
    Ok(true)
}
