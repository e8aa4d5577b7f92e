//! Work of a queue that is under way: dispatches, and what happens at the end of the pipe.
//!
//! Dispatches that take long run in pieces, so that other queues go on meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use drivers_spec::amd::aql;
use twin::rule::{Proof, Rule};
use twin_shader::code::Code;
use twin_shader::launch::{Launch, Standing, Watch, run_with_pauses};
use twin_shader::page::{MemFault, Port};
use twin_shader::trap::Message;

use super::clock::Clock;
use super::fiber::{Pause, side_by_side};
use super::race::{DISPATCH_RACE, Slots, Trace, Watched};
use super::xcc::{self, Place};
use hcq::sync::lock;
use twin::rng::Rng;

use super::{Core, Cx, DOORBELL_ID, Stop, cache};
use crate::gpu::{Interrupt, ProcessId, QueueId};
use crate::mem::{Caches, Vm};

/// A wave that stands still for a reason that nobody is told.
static HALTED_IN_SILENCE: Rule = Rule {
    name: "GPU-WAVE-SILENT",
    text: "a trap handler sends the host an interrupt before it halts a wave; otherwise the host does not learn why the \
           queue has stopped",
    source: "ROCR, trap_handler.s, .send_interrupt; without it on gfx10.3: ROCR 5.2, amd_gpu_shaders.h, .signal_error",
    proof: Proof::Sourced,
};

/// What is written at the end of the pipe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    Low(u32),
    Wide(u64),
    Clock,
}

/// No mistake of the client: without it a hang would be all that is seen.
pub(super) static PANIC: Rule = Rule {
    name: "TWIN-PANIC",
    text: "the twin itself does not fail; a panic is a bug of the twin",
    source: "this twin; the place of the panic is on stderr",
    proof: Proof::Twin,
};

/// What happens at the end of the pipe: caches, then data, then the interrupt.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    /// The packet, for reports.
    pub who: String,
    pub caches: Caches,
    /// The XCCs whose caches these are.
    pub xccs: u32,
    pub write: Option<(u64, Data)>,
    pub interrupt: Option<u32>,
    /// A completion signal of AQL, and whether it takes timestamps.
    pub signal: Option<(u64, bool)>,
    /// When it began, of a packet that is no dispatch.
    pub start: Option<u64>,
    /// The dispatch packets that it comes after, where XCCs share a ring.
    pub after: Option<u64>,
    /// A barrier of AQL that releases nothing.
    pub bare: bool,
}

/// A launch, and the XCC that runs it.
pub(crate) type OnXcc = (u32, Launch);

/// A piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    /// A dispatch, one launch for each XCC; and its end, which waits for nothing else (AQL).
    Run {
        who: String,
        launches: Vec<OnXcc>,
        /// The number of the packet, where XCCs share a ring.
        number: u64,
        end: Option<End>,
    },
    /// The end of everything before (RELEASE_MEM).
    End(End),
}

/// What a batch of work left behind.
pub(crate) struct Outcome {
    interrupts: Vec<Interrupt>,
    result: Result<(), Stop>,
}

/// The work of a queue.
pub(crate) struct Pending {
    items: Vec<Work>,
    /// A batch runs.
    running: bool,
    /// Its dispatches.
    runs: Vec<String>,
    cancel: Arc<AtomicBool>,
    /// The other XCCs of the ring.
    place: Option<Arc<Place>>,
    /// What waves that run tell the host.
    messages: Messages,
    waves: Waves,
}

/// Where waves are that have run for long, by XCC and thread.
type Waves = Arc<Mutex<BTreeMap<(u32, u32), Vec<Standing>>>>;

/// Interrupts of waves that run, which do not wait for the end of their dispatch.
type Messages = Arc<Mutex<Vec<Interrupt>>>;

impl Pending {
    pub fn new(place: Option<Arc<Place>>) -> Self {
        Self {
            place,
            items: Vec::new(),
            running: false,
            runs: Vec::new(),
            cancel: Arc::new(AtomicBool::new(false)),
            messages: Messages::default(),
            waves: Waves::default(),
        }
    }

    /// Where waves are that have run for long.
    pub fn waves(&self) -> Vec<Standing> {
        lock(&self.waves).values().flatten().copied().collect()
    }

    /// Stops what runs.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether a batch runs.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The dispatches of the batch that runs.
    pub fn runs(&self) -> &[String] {
        &self.runs
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.running
    }

    /// Adds a piece.
    pub fn push(&mut self, cx: &mut Cx, work: Work) -> Result<(), Stop> {
        match work {
            // The usual case: nothing is before it.
            Work::End(end) if self.is_empty() => {
                if let Some(what) = early(self.place.as_deref(), &end) {
                    cx.note(&xcc::EARLY, what);
                }
                let clock = &cx.core.clock;
                finish(&cx.desc.vm, clock, cx.desc.process, &end, None, cx.out)?;
            }
            work => self.items.push(work),
        }
        Ok(())
    }

    /// Gets on with it; true once everything is done.
    pub fn flush(&mut self, cx: &mut Cx) -> Result<bool, Stop> {
        let queue = (cx.core.index, cx.id);
        if !self.running {
            if self.items.is_empty() {
                return Ok(true);
            }
            let items = order(std::mem::take(&mut self.items), cx.rng);
            if items.iter().all(|work| matches!(work, Work::End(_))) {
                for work in items {
                    self.push(cx, work)?;
                }
                return Ok(true);
            }
            let dispatch = |work: &Work| match work {
                Work::Run { who, .. } => Some(who.clone()),
                Work::End(_) => None,
            };
            self.runs = items.iter().filter_map(dispatch).collect();
            let task = Arc::new(Task {
                core: cx.core.clone(),
                vm: cx.desc.vm.clone(),
                code: cx.core.code(&cx.desc.vm),
                process: cx.desc.process,
                cancel: self.cancel.clone(),
                place: self.place.clone(),
                messages: self.messages.clone(),
                waves: self.waves.clone(),
                queue: cx.id,
            });
            let started = cx.fibers.start(queue, move |pause| {
                let mut interrupts = Vec::new();
                let result = task.run(items, &mut interrupts, pause);
                Outcome { interrupts, result }
            });
            // The host is out of memory. Nobody can tell the client; the queue stops.
            started.map_err(|_| Stop::Cancelled)?;
            self.running = true;
        }
        let done = cx.fibers.resume(queue);
        // Nothing panics while it holds the lock.
        cx.out.append(&mut lock(&self.messages));
        let Some(done) = done else {
            return Ok(false);
        };
        self.running = false;
        match done {
            Ok(outcome) => {
                cx.out.extend(outcome.interrupts);
                outcome.result?;
            }
            // Nothing of the queue can be trusted.
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                let what = format!("queue {}: {}", cx.id, text.unwrap_or("no text"));
                cx.core.journal.broken(&PANIC, what);
                return Err(Stop::Cancelled);
            }
        }
        Ok(self.items.is_empty())
    }
}

/// A random order in which hardware may do it: dispatches in any order, an end after all before it.
fn order(mut items: Vec<Work>, rng: &mut Rng) -> Vec<Work> {
    let mut ordered = Vec::with_capacity(items.len());
    while !items.is_empty() {
        let ready: Vec<_> = items
            .iter()
            .enumerate()
            .filter(|(i, work)| *i == 0 || matches!(work, Work::Run { .. }))
            .map(|(i, _)| i)
            .collect();
        ordered.push(items.remove(ready[rng.below(ready.len())]));
    }
    ordered
}

/// What a batch needs.
struct Task {
    core: Arc<Core>,
    vm: Arc<Vm>,
    code: Arc<Code>,
    process: ProcessId,
    cancel: Arc<AtomicBool>,
    place: Option<Arc<Place>>,
    messages: Messages,
    waves: Waves,
    queue: QueueId,
}

impl Task {
    fn run(
        self: &Arc<Self>,
        items: Vec<Work>,
        out: &mut Vec<Interrupt>,
        pause: Pause,
    ) -> Result<(), Stop> {
        let several = items
            .iter()
            .filter(|work| matches!(work, Work::Run { .. }))
            .count()
            > 1;
        let mut traces: Vec<(String, Trace)> = Vec::new();
        for item in items {
            match item {
                Work::Run {
                    who,
                    launches,
                    number,
                    end,
                } => {
                    let start = self.core.clock.now();
                    let place = self.place.as_ref().filter(|p| p.group.several());
                    let began = place.map_or(0, |place| place.group.tick());
                    if place.is_some() {
                        // Those of other XCCs may run at the same time.
                        pause();
                    }
                    let mut trace = (several || place.is_some()).then(Trace::default);
                    self.launches(launches, &who, trace.as_mut(), pause)?;
                    if let (Some(place), Some(trace)) = (place, &trace) {
                        self.check_xccs(place, number, began, &who, trace.clone());
                    }
                    if let Some(trace) = trace {
                        self.check_race(&traces, &who, &trace);
                        traces.push((who, trace));
                    }
                    if let Some(end) = end {
                        self.finish(&end, Some(start), out)?;
                    }
                }
                Work::End(end) => {
                    if let Some(what) = early(self.place.as_deref(), &end) {
                        let journal = &self.core.journal;
                        journal.broken(&xcc::EARLY, format!("{what} ({})", end.who));
                    }
                    self.finish(&end, None, out)?;
                }
            }
        }
        Ok(())
    }

    fn finish(
        &self,
        end: &End,
        start: Option<u64>,
        out: &mut Vec<Interrupt>,
    ) -> Result<(), MemFault> {
        finish(&self.vm, &self.core.clock, self.process, end, start, out)
    }

    /// Whether a dispatch touched what those before it did.
    fn check_race(&self, before: &[(String, Trace)], who: &str, trace: &Trace) {
        for (other, theirs) in before {
            if let Some(va) = trace.race(theirs) {
                let what = format!("byte {va:#x}; {who}; {other}");
                self.core.journal.broken(&DISPATCH_RACE, what);
            }
        }
    }

    /// Whether a dispatch should have waited for another XCC, or another one for it.
    fn check_xccs(&self, place: &Place, number: u64, began: u64, who: &str, trace: Trace) {
        let raced = place.group.ran(place.xcc, number, began, who, trace);
        if let Some((va, other)) = raced {
            let what = format!("byte {va:#x}; {who}; {other}");
            self.core.journal.broken(&xcc::RACE, what);
        }
    }

    /// What a message of a wave is to the kernel driver, or to the journal.
    fn heard(&self, launch: &Launch, message: Message, since: u64, who: &str) {
        let (m0, privileged) = match message {
            Message::Interrupt { m0, privileged } => (m0, privileged),
            Message::HaltedInSilence { id, at } => {
                let what = format!("trap {id}, halted at {at:#x}; {who}");
                self.core.journal.broken(&HALTED_IN_SILENCE, what);
                return;
            }
        };
        let named = Some(m0 & DOORBELL_ID);
        let doorbell = launch.trap.map(|handler| handler.doorbell);
        let interrupt = Interrupt::Wave {
            process: self.process,
            context: m0,
            since,
            queue: (privileged && doorbell == named).then_some(self.queue),
        };
        lock(&self.messages).push(interrupt);
    }

    /// Runs the launches of a dispatch. Those of several XCCs run side by side: workgroups of one may wait for
    /// those of others.
    fn launches(
        self: &Arc<Self>,
        launches: Vec<OnXcc>,
        who: &str,
        mut trace: Option<&mut Trace>,
        pause: Pause,
    ) -> Result<(), Stop> {
        if let [(xcc, launch)] = &launches[..] {
            return self.launch(*xcc, launch, who, trace, pause);
        }
        let traced = trace.is_some();
        let tasks = launches.into_iter().map(|(xcc, launch)| {
            let (task, who) = (self.clone(), who.to_owned());
            move |pause: Pause<'_>| {
                let mut trace = traced.then(Trace::default);
                let ended = task.launch(xcc, &launch, &who, trace.as_mut(), pause);
                (ended, trace)
            }
        });
        let mut result = Ok(());
        let done = |(ended, theirs): (Result<(), Stop>, Option<Trace>)| {
            if let (Some(trace), Some(theirs)) = (&mut trace, theirs) {
                trace.add(theirs);
            }
            if ended.is_err() && result.is_ok() {
                result = ended;
                // The queue stops, and so do the others.
                self.cancel.store(true, Ordering::Relaxed);
            }
        };
        side_by_side(tasks, done, pause);
        result
    }

    /// Runs a launch; notes what it touches where that is asked for.
    fn launch(
        &self,
        xcc: u32,
        launch: &Launch,
        who: &str,
        trace: Option<&mut Trace>,
        pause: Pause,
    ) -> Result<(), Stop> {
        let log = self.core.instructions.clone();
        let since = self.core.clock.now();
        let print = |line: &str| {
            if let Some(log) = &log {
                log(line);
            }
        };
        let standing = |thread: u32, waves: Vec<Standing>| {
            let mut all = lock(&self.waves);
            match waves.is_empty() {
                true => _ = all.remove(&(xcc, thread)),
                false => _ = all.insert((xcc, thread), waves),
            }
        };
        let watch = Watch {
            standing: Some(&standing),
            cancel: &self.cancel,
            trace: log.is_some().then_some(&print as &(dyn Fn(&str) + Sync)),
            clock: &|| self.core.clock.now(),
            message: &|message| self.heard(launch, message, since, who),
            threads: self.core.threads,
        };
        self.vm.set_origin(who);
        let vm = self.vm.on(xcc);
        let memory = vm.launch();
        let result = match trace {
            None => run_with_pauses(&memory, &self.code, launch, &watch, pause),
            Some(trace) => {
                let watched = Watched::new(&memory, Slots::of(launch));
                let result = run_with_pauses(&watched, &self.code, launch, &watch, pause);
                watched.into_trace(trace);
                result
            }
        };
        match result {
            Ok(done) => {
                self.core.clock.reach(done.end);
                Ok(())
            }
            Err(Some(broken)) => Err(Stop::Wave {
                broken,
                dispatch: who.to_string(),
            }),
            Err(None) => Err(Stop::Cancelled),
        }
    }
}

/// Which XCC is behind where one writes for all of them.
fn early(place: Option<&Place>, end: &End) -> Option<String> {
    let (place, number) = (place?, end.after?);
    let xcc = place.group.behind(number)?;
    Some(format!(
        "XCC {xcc} has not done all of the {number} dispatches before"
    ))
}

/// The end of the pipe.
pub(crate) fn finish(
    vm: &Vm,
    clock: &Clock,
    process: ProcessId,
    end: &End,
    start: Option<u64>,
    out: &mut Vec<Interrupt>,
) -> Result<(), MemFault> {
    vm.set_origin(&end.who);
    if cache::any(end.caches) {
        vm.caches_on(end.xccs, end.caches, &end.who);
    }
    let since = clock.now();
    if let Some((va, data)) = end.write {
        match data {
            Data::Low(value) => vm.write(Port::Cp, va, &value.to_le_bytes())?,
            Data::Wide(value) => vm.write(Port::Cp, va, &value.to_le_bytes())?,
            Data::Clock => vm.write(Port::Cp, va, &clock.now().to_le_bytes())?,
        }
    }
    if let Some(context) = end.interrupt {
        out.push(Interrupt::EndOfPipe {
            process,
            context,
            since,
            bare: false,
        });
    }
    if let Some((signal, stamps)) = end.signal {
        let start = start.or(end.start).filter(|_| stamps);
        complete(vm, clock, signal, start)?;
        wake(vm, clock, process, (signal, end.bare), out)?;
    }
    Ok(())
}

/// Decrements a completion signal.
fn complete(vm: &Vm, clock: &Clock, signal: u64, start: Option<u64>) -> Result<(), MemFault> {
    let read = |at: usize| {
        let mut bytes = [0; 8];
        vm.read(Port::Cp, signal + at as u64, &mut bytes)?;
        Ok::<_, MemFault>(u64::from_le_bytes(bytes))
    };
    let write = |va: u64, value: u64| vm.write(Port::Cp, va, &value.to_le_bytes());
    if let Some(start) = start {
        write(signal + aql::signal::START_TS as u64, start)?;
        write(signal + aql::signal::END_TS as u64, clock.now())?;
    }
    let value = read(aql::signal::VALUE)?.wrapping_sub(1);
    write(signal + aql::signal::VALUE as u64, value)
}

/// Wakes who waits for a signal, which a barrier that releases nothing may have sent.
pub(crate) fn wake(
    vm: &Vm,
    clock: &Clock,
    process: ProcessId,
    (signal, bare): (u64, bool),
    out: &mut Vec<Interrupt>,
) -> Result<(), MemFault> {
    let read = |at: usize| {
        let mut bytes = [0; 8];
        vm.read(Port::Cp, signal + at as u64, &mut bytes)?;
        Ok::<_, MemFault>(u64::from_le_bytes(bytes))
    };
    let mailbox = read(aql::signal::EVENT_MAILBOX_PTR)?;
    if mailbox != 0 {
        let since = clock.now();
        let context = read(aql::signal::EVENT_ID)? as u32;
        vm.write(Port::Cp, mailbox, &u64::from(context).to_le_bytes())?;
        out.push(Interrupt::EndOfPipe {
            process,
            context,
            since,
            bare,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_comes_after_all_before_it() {
        let run = |n: u32| Work::Run {
            who: n.to_string(),
            launches: Vec::new(),
            number: 0,
            end: None,
        };
        let end = |n: u32| {
            Work::End(End {
                interrupt: Some(n),
                ..End::default()
            })
        };
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let items = vec![run(0), run(1), end(2), run(3), end(4)];
            let names: Vec<u32> = order(items, &mut Rng::new(seed))
                .iter()
                .map(|work| match work {
                    Work::Run { who, .. } => who.parse().unwrap(),
                    Work::End(end) => end.interrupt.unwrap(),
                })
                .collect();
            let at = |n: u32| names.iter().position(|&m| m == n).unwrap();
            assert!(at(2) > at(0) && at(2) > at(1));
            assert_eq!(at(4), 4);
            orders.insert(names);
        }
        assert!(orders.len() > 4, "{orders:?}");
    }
}
