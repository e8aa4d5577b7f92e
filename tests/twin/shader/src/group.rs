//! A workgroup: its waves, their turns, its barriers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use twin::rule::{Proof, Rule};

use crate::code::{self, Bounds, CodePage, Entry};
use crate::counters::WAIT_BEFORE_USE;
use crate::launch::{Broken, Done, GroupMemory, Shared, Standing};
use crate::page::{Bus, PAGE};
use crate::start;
use crate::step::{Flow, SGPR_RANGE, Stop, VGPR_RANGE};
use crate::trace::Values;
use crate::turns::Seat;
use crate::wave::{Lanes, Wave};

/// Waves wait for each other in vain.
pub static BARRIER_DIVERGED: Rule = Rule {
    name: "BARRIER-DIVERGED",
    text: "every wave of a workgroup reaches a barrier or ends, and signals it before it waits",
    source: "ISA documents, s_barrier and s_barrier_wait",
    proof: Proof::Sourced,
};

/// Instructions of a wave before others have a turn.
const SLICE: usize = 4096;

/// Rounds of slices that a group has before other groups have a turn.
const ROUNDS: u32 = 16;

/// What a turn counts as instructions where every wave is halted.
const IDLE: u64 = 1 << 16;

/// Instructions that a report shows. A power of two.
const BEFORE: usize = 16;

/// How a turn of a group came out.
pub(crate) enum Turn {
    /// It is not done.
    Over,
    /// Every wave has ended.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// Waits at the barrier of the workgroup.
    Barrier,
    /// Halted by its trap handler.
    Halted,
    Ended,
}

/// A wave and its story.
struct Runner<'a> {
    wave: Wave<'a>,
    /// The registers that it has.
    has: Bounds,
    state: State,
    /// How often it went through the barrier.
    passed: u32,
    /// The last addresses, `recent[issued % BEFORE]` the next to be overwritten.
    recent: [u64; BEFORE],
    issued: usize,
}

/// A workgroup on a thread.
pub(crate) struct Group<'a> {
    waves: Vec<Runner<'a>>,
    turns: u32,
}

impl Group<'_> {
    /// Whether it has had a turn and did not end.
    pub fn waits(&self) -> bool {
        self.turns > 0
    }

    /// Where its waves are that have not ended.
    pub fn standing(&self) -> impl Iterator<Item = Standing> {
        let alive = self.waves.iter().filter(|w| w.state != State::Ended);
        alive.map(|runner| Standing {
            pc: runner.wave.next,
            exec: runner.wave.exec,
            in_barrier: runner.state == State::Barrier,
            halted: runner.state == State::Halted,
        })
    }

    /// Lets waves through the barrier that all others have signalled; waves that have ended count as
    /// if they had. False where no wave can go on.
    fn barrier(&mut self) -> bool {
        let alive = self.waves.iter().filter(|w| w.state != State::Ended);
        let signalled = alive.map(|w| w.wave.signalled).min().unwrap_or(0);
        let mut runs = false;
        for runner in &mut self.waves {
            if runner.state == State::Barrier && signalled > runner.passed {
                runner.passed += 1;
                runner.state = State::Runs;
            }
            runs |= runner.state == State::Runs;
        }
        runs
    }
}

/// The pages of code that a thread has met in this launch.
struct Fetch<'a> {
    shared: &'a Shared<'a>,
    pages: Vec<(u64, Arc<CodePage>)>,
    /// When pages must have been compared with memory, or later.
    since: u64,
}

impl Fetch<'_> {
    /// The index of the page that `pc` is in.
    #[inline(always)]
    fn page(&mut self, bus: &mut Bus, pc: u64) -> usize {
        let base = pc & !(PAGE - 1);
        match self.pages.iter().position(|(page, _)| *page == base) {
            Some(at) => at,
            None => self.load_page(bus, base),
        }
    }

    #[cold]
    fn load_page(&mut self, bus: &mut Bus, base: u64) -> usize {
        let halves = self.shared.launch.halves();
        let page = self.shared.code.page(halves, base, self.since, bus);
        self.pages.push((base, page));
        self.pages.len() - 1
    }

    /// Code is fetched anew from now on.
    fn refetch(&mut self) {
        self.pages.clear();
        self.since = self.shared.code.now();
    }

    fn text(&self, pc: u64) -> String {
        let base = pc & !(PAGE - 1);
        let page = self.pages.iter().find(|(page, _)| *page == base);
        page.map_or_else(|| code::NEVER.into(), |(_, page)| page.text(pc))
    }
}

/// What runs groups on one thread.
pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    fetch: Fetch<'a>,
    /// The way to memory of every wave.
    bus: Bus<'a>,
    random: start::Random,
    seat: Seat<'a>,
    /// VGPRs of waves that have ended, to be used again.
    spare: Vec<Vec<Lanes>>,
    done: Done,
    issued: u64,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared<'a>, seat: Seat<'a>) -> Self {
        Self {
            shared,
            fetch: Fetch {
                shared,
                pages: Vec::new(),
                since: shared.since,
            },
            bus: Bus::new(shared.memory),
            random: start::Random::new(shared.launch.seed ^ u64::from(seat.number()) << 32),
            seat,
            spare: Vec::new(),
            done: Done::default(),
            issued: 0,
        }
    }

    pub fn done(&self) -> Done {
        self.done
    }

    /// Instructions of its groups so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// A workgroup at its start. `number` counts the resident groups of the launch: it decides which
    /// scratch its waves have.
    pub fn group<'b>(
        &mut self,
        id: [u32; 3],
        size: [u32; 3],
        number: u32,
        room: &'b GroupMemory,
    ) -> Result<Group<'b>, Box<Broken>>
    where
        'a: 'b,
    {
        room.phases.set(0);
        for word in &room.lds {
            word.set(self.random.word());
        }
        let launch = self.shared.launch;
        let items: u32 = size.iter().product();
        let count = items.div_ceil(32 * launch.halves() as u32);
        let has = start::registers(launch);
        let mut waves = Vec::with_capacity(count as usize);
        for wave in 0..count {
            let place = start::Start {
                id,
                size,
                wave,
                waves: count,
                number: number * launch.waves_per_group() + wave,
            };
            let wave = start::wave(
                launch,
                place,
                self.bus.clone(),
                room,
                self.seat.clone(),
                self.spare.pop().unwrap_or_default(),
                &mut self.random,
            )
            .map_err(|stop| {
                Box::new(Broken {
                    stop,
                    pc: launch.entry,
                    text: "the start of the wave".into(),
                    group: id,
                    wave,
                    before: Vec::new(),
                })
            })?;
            waves.push(Runner {
                wave,
                has: has.bounds(),
                state: State::Runs,
                passed: 0,
                recent: [0; BEFORE],
                issued: 0,
            });
        }
        self.done.waves += u64::from(count);
        Ok(Group { waves, turns: 0 })
    }

    /// Keeps what an ended group leaves for the next one.
    pub fn retire(&mut self, group: Group) {
        for runner in group.waves {
            self.done.instructions += runner.issued as u64;
            self.spare.push(runner.wave.v);
        }
    }

    /// Lets every wave of a group run for some time.
    pub fn turn(&mut self, group: &mut Group) -> Result<Turn, Box<Broken>> {
        group.turns += 1;
        for _ in 0..ROUNDS {
            for runner in &mut group.waves {
                if runner.state != State::Runs {
                    continue;
                }
                let before = runner.issued;
                let watch = self.shared.watch;
                let ran = match self.shared.watch.trace {
                    None => runner.slice(&mut self.fetch),
                    Some(trace) => runner.slice_traced(&mut self.fetch, trace),
                };
                runner.wave.messages.drain(..).for_each(watch.message);
                self.issued += (runner.issued - before) as u64;
                if let Err(stop) = ran {
                    return Err(self.broken(runner, stop));
                }
            }
            if group.waves.iter().all(|w| w.state == State::Ended) {
                return Ok(Turn::Ended);
            }
            let runs = group.barrier();
            if !runs && group.waves.iter().any(|w| w.state == State::Halted) {
                // Time passes until somebody does away with the queue.
                self.issued += IDLE;
                return Ok(Turn::Over);
            }
            if !runs && let Some(runner) = group.waves.iter().find(|w| w.state == State::Barrier) {
                let what =
                    "no wave can go on: each waits at a barrier that some have not signalled";
                return Err(self.broken(runner, Stop::Rule(&BARRIER_DIVERGED, what.into())));
            }
            if self.shared.watch.cancel.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(Turn::Over)
    }

    fn broken(&mut self, runner: &Runner, stop: Stop) -> Box<Broken> {
        let wave = &runner.wave;
        let first = runner.issued.saturating_sub(BEFORE);
        let before = (first..runner.issued)
            .map(|i| runner.recent[i % BEFORE])
            .map(|pc| format!("{pc:#x}: {}", self.fetch.text(pc)))
            .collect();
        Box::new(Broken {
            stop,
            pc: wave.pc,
            text: self.fetch.text(wave.pc),
            group: wave.place.group,
            wave: wave.place.wave,
            before,
        })
    }
}

impl Runner<'_> {
    /// Runs until the slice is over, or the wave waits or ends.
    fn slice(&mut self, fetch: &mut Fetch) -> Result<(), Stop> {
        let end = self.issued + SLICE;
        let mut pc = self.wave.next;
        loop {
            let page = fetch.page(&mut self.wave.bus, pc);
            let (base, page) = &fetch.pages[page];
            loop {
                self.wave.pc = pc;
                let entry = page.entry(&mut self.wave.bus, pc)?;
                self.check(entry)?;
                self.wave.next = pc + entry.bytes;
                let flow = (entry.run)(&mut self.wave)?;
                self.recent[self.issued % BEFORE] = pc;
                self.issued += 1;
                match flow {
                    Flow::Next => {}
                    Flow::Jump(to) => self.wave.next = to,
                    Flow::Refetch => {
                        fetch.refetch();
                        return Ok(());
                    }
                    other => {
                        self.pause(other);
                        return Ok(());
                    }
                }
                pc = self.wave.next;
                if self.issued == end {
                    return Ok(());
                }
                if pc.wrapping_sub(*base) >= PAGE {
                    break;
                }
            }
        }
    }

    /// As [`Runner::slice`], told instruction by instruction.
    fn slice_traced(
        &mut self,
        fetch: &mut Fetch,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<(), Stop> {
        for _ in 0..SLICE {
            let pc = self.wave.next;
            self.wave.pc = pc;
            let page = fetch.page(&mut self.wave.bus, pc);
            let page = &fetch.pages[page].1;
            let entry = page.entry(&mut self.wave.bus, pc)?;
            self.check(entry)?;
            self.wave.next = pc + entry.bytes;
            let before = Values::of(&self.wave, &entry.rest.touches);
            let flow = (entry.run)(&mut self.wave)?;
            let changes = before.changes(&self.wave, &entry.rest.touches);
            let [x, y, z] = self.wave.place.group;
            let (wave, text) = (self.wave.place.wave, page.text(pc));
            tell(&format!("[{x},{y},{z}].{wave} {pc:#x}: {text}{changes}"));
            self.recent[self.issued % BEFORE] = pc;
            self.issued += 1;
            match flow {
                Flow::Next => {}
                Flow::Jump(to) => self.wave.next = to,
                Flow::Refetch => fetch.refetch(),
                other => {
                    self.pause(other);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The wave does not go on at once.
    fn pause(&mut self, flow: Flow) {
        match flow {
            Flow::End => self.state = State::Ended,
            Flow::Barrier(_) => self.state = State::Barrier,
            Flow::Halt => self.state = State::Halted,
            Flow::Again => self.wave.next = self.wave.pc,
            _ => {}
        }
    }

    /// The registers that an instruction uses are there, and not in flight.
    #[inline(always)]
    fn check(&self, entry: &Entry) -> Result<(), Stop> {
        if !self.has.holds(entry.needs) {
            return Err(self.out_of_range(entry));
        }
        if self.wave.counters.hits(&entry.touches) {
            return self.in_flight(entry);
        }
        Ok(())
    }

    #[cold]
    fn in_flight(&self, entry: &Entry) -> Result<(), Stop> {
        match self
            .wave
            .counters
            .in_flight(&entry.rest.touches, entry.rest.lands)
        {
            None => Ok(()),
            Some(regs) => Err(Stop::Rule(
                &WAIT_BEFORE_USE,
                format!("{regs} is in flight: memory is still to write it"),
            )),
        }
    }

    #[cold]
    fn out_of_range(&self, entry: &Entry) -> Stop {
        let beyond: Vec<String> = entry
            .rest
            .touches
            .iter()
            .filter(|regs| !self.has.holds(Bounds::of(&[**regs])))
            .map(ToString::to_string)
            .collect();
        let scalar = beyond.iter().all(|regs| regs.starts_with('s'));
        Stop::Rule(
            if scalar { &SGPR_RANGE } else { &VGPR_RANGE },
            format!("{} of {}", beyond.join(", "), self.has),
        )
    }
}
