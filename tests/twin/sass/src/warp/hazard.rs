//! What control words promise, watched while a program runs.
//!
//! The hardware waits for no result by itself: the compiler says after how many cycles the next
//! instruction may issue, and on which of six scoreboards an instruction of variable latency reports.
//! Here such a result is ready when its scoreboard is waited for, not before.
//!
//! How long results of fixed latency take is a guess: the shortest distances that ptxas 13.5 leaves in
//! the recorded kernels, which the hardware takes no longer than.

use std::collections::VecDeque;

use super::uses::{Group, ITEMS, Item, PRODUCTS, QUEUES, UNITS, Uses, name};

/// A rule that a program broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Hazard {
    /// A result is used before its scoreboard was waited for.
    #[error("SCOREBOARD-RESULT: {register} is {verb} before SB{scoreboard} was waited for, on which it was promised", verb = verb(*.write))]
    Result {
        /// The register or predicate.
        register: String,
        /// On which it was promised.
        scoreboard: u8,
        /// Whether it is written again, not read.
        write: bool,
    },
    /// A source is overwritten before it was read.
    #[error(
        "SCOREBOARD-SOURCE: {register} is written before SB{scoreboard} was waited for, until which it is still read"
    )]
    Source {
        /// The register.
        register: String,
        /// On which it is free.
        scoreboard: u8,
    },
    /// A result of variable latency was promised on no scoreboard.
    #[error("SCOREBOARD-NONE: {register} is {verb}, of which no scoreboard says when it is there", verb = verb(*.write))]
    None {
        /// The register or predicate.
        register: String,
        /// Whether it is written again, not read.
        write: bool,
    },
    /// A register of a product of four warps is written too late.
    #[error(
        "WARPGROUP-ARRIVE: {register} was written after the last WARPGROUP.ARRIVE, and a product of four warps reads it"
    )]
    Arrive {
        /// The register.
        register: String,
    },
    /// A result of fixed latency is used too early.
    #[error(
        "STALL: {register} is read {cycles} cycles after its instruction issued, but is there after {need}"
    )]
    Stall {
        /// The register or predicate.
        register: String,
        /// Cycles that passed.
        cycles: u64,
        /// Cycles that must.
        need: u64,
    },
}

fn verb(write: bool) -> &'static str {
    if write { "written again" } else { "read" }
}

/// What is known of an item: when its last result of fixed latency was begun, and in which lanes.
#[derive(Clone, Copy, Default)]
struct Known {
    at: u64,
    lanes: u32,
    latency: [u8; 2],
    /// How much that is outstanding, or promised by nobody, names it.
    named: u16,
}

/// What is outstanding on a scoreboard, of which lanes, and whether it is a result.
struct Outstanding {
    /// Of which instruction of the program it is, and how many issued before.
    of: usize,
    number: u64,
    lanes: u32,
    result: bool,
}

impl Outstanding {
    fn items<'a>(&self, program: &'a [Uses]) -> &'a [Item] {
        let uses = &program[self.of];
        if self.result {
            uses.writes()
        } else {
            uses.held()
        }
    }

    /// Whether it is one of those that an instruction counts which waits until some are left.
    fn counts(&self, program: &[Uses]) -> bool {
        match program[self.of].group {
            Group::Product(closes) => closes && !self.result,
            _ => true,
        }
    }
}

/// A result that its unit promises by a later one: the number of its instruction, and the scoreboard of
/// the first that came after.
struct Loose {
    item: Item,
    lanes: u32,
    number: u64,
    scoreboard: Option<u8>,
}

/// What a warp has been promised.
pub(crate) struct Watch {
    now: u64,
    known: Box<[Known; ITEMS]>,
    /// Lanes of results without a scoreboard.
    unpromised: Vec<u32>,
    /// These results by the unit that makes them, in order.
    loose: [Vec<Loose>; UNITS.len()],
    /// How many instructions have issued.
    number: u64,
    scoreboards: [VecDeque<Outstanding>; PRODUCTS as usize + 1],
    /// When the warp last said that a product may read what was written.
    arrived: u64,
    /// How many sources are outstanding on them.
    sources: usize,
    /// Numbers of instructions, while some are waited for.
    there: Vec<u64>,
}

impl Watch {
    pub fn new() -> Self {
        Self {
            now: 0,
            known: Box::new([Known::default(); ITEMS]),
            unpromised: vec![0; ITEMS],
            loose: Default::default(),
            number: 0,
            scoreboards: Default::default(),
            arrived: 0,
            sources: 0,
            there: Vec::new(),
        }
    }

    /// An instruction of a program issues for some lanes; its guard is read for those of `asked`.
    pub fn issue(
        &mut self,
        program: &[Uses],
        at: usize,
        lanes: u32,
        asked: u32,
    ) -> Result<(), Hazard> {
        let uses = &program[at];
        if uses.control.waits != 0 || uses.until.is_some() {
            self.wait(program, uses);
        }
        if let Some(guard) = uses.guard {
            // What runs for the warp has its predicates at once.
            let late = guard >> 8 == 2 || uses.branches;
            self.read(program, uses, guard, asked, usize::from(late))?;
        }
        if let Group::Product(_) = uses.group {
            self.arrived(uses)?;
        }
        for &item in uses.reads() {
            let late = uses.branches && item >> 8 >= 2;
            self.read(program, uses, item, lanes, usize::from(late))?;
        }
        for &item in uses.writes() {
            if self.known(item).named != 0 {
                self.used(program, uses, item, lanes, true)?;
            }
        }
        self.begin(program, at, lanes);
        self.now += u64::from(uses.control.stall.max(1));
        Ok(())
    }

    #[inline(always)]
    fn known(&mut self, item: Item) -> &mut Known {
        &mut self.known[usize::from(item) % ITEMS]
    }

    /// What an instruction waits for is over, and what that says of others.
    fn wait(&mut self, program: &[Uses], uses: &Uses) {
        // Which instructions are over with what came before them: the last of each unit, and of memory.
        let (mut units, mut queues) = ([0; UNITS.len()], [0; QUEUES.len()]);
        self.there.clear();
        for (n, scoreboard) in self.scoreboards.iter_mut().enumerate() {
            let until = uses.until.filter(|until| usize::from(until.0) == n);
            let left = match until {
                _ if uses.control.waits >> n & 1 != 0 => 0,
                Some((_, left)) => left,
                None => continue,
            };
            let counted = scoreboard.iter().enumerate().rev();
            let mut counted = counted.filter(|(_, one)| one.counts(program));
            let over = counted.nth(left).map_or(0, |(last, _)| last + 1);
            for done in scoreboard.drain(..over) {
                forget(&mut self.known, done.items(program));
                let of = &program[done.of];
                if let Some(queue) = of.queue {
                    queues[queue] = done.number.max(queues[queue]);
                }
                if !done.result {
                    self.sources -= 1;
                    continue;
                }
                if let Some(unit) = of.unit {
                    units[unit] = done.number.max(units[unit]);
                }
                self.there.push(done.number);
            }
        }
        if self.sources != 0 && (!self.there.is_empty() || queues != [0; QUEUES.len()]) {
            self.have_read(program, &queues);
        }
        for (loose, over) in self.loose.iter_mut().zip(units) {
            if over != 0 {
                loose.retain(|one| {
                    let stays = one.number > over;
                    if !stays && one.scoreboard.is_some() {
                        forget(&mut self.known, &[one.item]);
                    }
                    stays
                });
            }
        }
    }

    /// What has its result has read its sources, and so has what went before it on its way.
    fn have_read(&mut self, program: &[Uses], queues: &[u64; QUEUES.len()]) {
        for scoreboard in &mut self.scoreboards {
            scoreboard.retain(|one| {
                let queue = program[one.of].queue;
                let read = self.there.contains(&one.number)
                    || queue.is_some_and(|queue| one.number <= queues[queue]);
                let stays = one.result || !read;
                if !stays {
                    forget(&mut self.known, one.items(program));
                    self.sources -= 1;
                }
                stays
            });
        }
    }

    /// An item is read.
    #[inline(always)]
    fn read(
        &mut self,
        program: &[Uses],
        by: &Uses,
        item: Item,
        lanes: u32,
        how: usize,
    ) -> Result<(), Hazard> {
        let known = *self.known(item);
        if known.named != 0 {
            self.used(program, by, item, lanes, false)?;
        }
        let (cycles, need) = (self.now - known.at, u64::from(known.latency[how]));
        let short = cycles < need && known.lanes & lanes != 0;
        if short && (by.late != Some(item) || cycles + 1 < need) {
            return Err(Hazard::Stall {
                register: name(item),
                cycles,
                need,
            });
        }
        Ok(())
    }

    /// What a product reads was written before the warp arrived.
    fn arrived(&self, uses: &Uses) -> Result<(), Hazard> {
        let late = |item: &&Item| {
            let known = &self.known[usize::from(**item) % ITEMS];
            **item >> 8 == 0 && known.lanes != 0 && known.at >= self.arrived
        };
        match uses.reads().iter().find(late) {
            Some(&item) => Err(Hazard::Arrive {
                register: name(item),
            }),
            None => Ok(()),
        }
    }

    /// An item that something outstanding names is read, or written by an instruction.
    #[inline(never)]
    fn used(
        &self,
        program: &[Uses],
        by: &Uses,
        item: Item,
        lanes: u32,
        write: bool,
    ) -> Result<(), Hazard> {
        let queue = by.queue.filter(|_| write);
        // A product may go on with sums that are not there yet.
        let sums = matches!(by.group, Group::Product(_)) && by.writes().contains(&item);
        for (n, scoreboard) in (0..).zip(&self.scoreboards) {
            for outstanding in scoreboard {
                if sums && n == PRODUCTS && outstanding.result {
                    continue;
                }
                let meant = (outstanding.lanes & lanes != 0 || item >> 8 & 1 != 0)
                    && outstanding.items(program).contains(&item);
                let way = program[outstanding.of].queue;
                let source = write && (queue.is_none() || queue != way);
                if meant && (source || outstanding.result) {
                    let register = name(item);
                    return Err(if outstanding.result {
                        Hazard::Result {
                            register,
                            scoreboard: n,
                            write,
                        }
                    } else {
                        Hazard::Source {
                            register,
                            scoreboard: n,
                        }
                    });
                }
            }
        }
        for loose in self.loose.iter().flatten() {
            if let Some(scoreboard) = loose.scoreboard
                && loose.item == item
                && loose.lanes & lanes != 0
            {
                return Err(Hazard::Result {
                    register: name(item),
                    scoreboard,
                    write,
                });
            }
        }
        if self.unpromised[usize::from(item)] & lanes != 0 {
            return Err(Hazard::None {
                register: name(item),
                write,
            });
        }
        Ok(())
    }

    /// No scoreboard says when an item is there in some lanes; in none, it does for all.
    fn unpromise(&mut self, item: Item, lanes: u32) {
        let before = std::mem::replace(&mut self.unpromised[usize::from(item)], lanes);
        let known = self.known(item);
        known.named += u16::from(lanes != 0);
        known.named -= u16::from(before != 0);
    }

    fn begin(&mut self, program: &[Uses], at: usize, lanes: u32) {
        let uses = &program[at];
        let now = self.now;
        if uses.group == Group::Arrives {
            self.arrived = now;
        }
        // Sums that a product goes on with are no news to the next one.
        let product = matches!(uses.group, Group::Product(_));
        // What runs for no lane goes through its unit all the same: what is before it there is done when it is.
        for &item in uses.writes().iter().filter(|_| lanes != 0 && !product) {
            let known = self.known(item);
            (known.at, known.lanes, known.latency) = (now, lanes, uses.latency);
            if known.named != 0 || uses.unpromised {
                self.unpromise(item, if uses.unpromised { lanes } else { 0 });
            }
        }
        self.number += 1;
        if let Some(unit) = uses.unit {
            self.in_order(uses, unit, lanes);
        }
        let promises = [(uses.control.writes, true), (uses.control.reads, false)];
        for (scoreboard, result) in promises {
            let kept = |n: &u8| *n < PRODUCTS || product;
            let Some(n) = scoreboard.filter(kept).map(usize::from) else {
                continue;
            };
            let outstanding = Outstanding {
                of: at,
                number: self.number,
                lanes,
                result,
            };
            for &item in outstanding.items(program) {
                self.known(item).named += 1;
            }
            self.sources += usize::from(!result);
            self.scoreboards[n].push_back(outstanding);
        }
    }

    /// What a unit did before without a promise is done when this is.
    fn in_order(&mut self, uses: &Uses, unit: usize, lanes: u32) {
        let writes = uses.control.writes;
        if writes.is_none() {
            self.loose[unit].extend(uses.writes().iter().map(|&item| Loose {
                item,
                lanes,
                number: self.number,
                scoreboard: None,
            }));
            return;
        }
        let mut loose = std::mem::take(&mut self.loose[unit]);
        for one in loose.iter_mut().filter(|one| one.scoreboard.is_none()) {
            one.scoreboard = writes;
            self.known(one.item).named += 1;
            self.unpromise(one.item, 0);
        }
        self.loose[unit] = loose;
    }
}

/// What names these items is over.
fn forget(known: &mut [Known; ITEMS], items: &[Item]) {
    for &item in items {
        known[usize::from(item)].named -= 1;
    }
}
