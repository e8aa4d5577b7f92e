//! What control words promise, watched while a program runs.
//!
//! The hardware waits for no result by itself: the compiler says after how many cycles the next
//! instruction may issue, and on which of six scoreboards an instruction of variable latency reports.
//! Here such a result is ready when its scoreboard is waited for, not before.
//!
//! How long results of fixed latency take is a guess: the shortest distances that ptxas 13.5 leaves in
//! the recorded kernels, which the hardware takes no longer than.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::operand::{Kind, Role};
use crate::{Chip, Control, Inst};

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

/// A register or a predicate, of lanes or of the warp: its kind times 256, and its number.
type Item = u16;

const ITEMS: usize = 4 * 256;

fn name(item: Item) -> String {
    let number = item as u8;
    let kind = match item >> 8 {
        0 => Kind::Register(number),
        1 => Kind::Uniform(number),
        2 => Kind::Predicate(number),
        _ => Kind::UniformPredicate(number),
    };
    kind.to_string()
}

/// Of what an instruction waits, and what it reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct Uses {
    reads: Arc<[Item]>,
    writes: Arc<[Item]>,
    guard: Option<Item>,
    control: Control,
    /// Waits until no more than some are outstanding on a scoreboard.
    until: Option<(u8, usize)>,
    /// Cycles until its results are there: as a source, and as a guard. Nothing if that varies.
    latency: Option<[u64; 2]>,
    branches: bool,
    /// A unit that does one thing after the other.
    unit: Option<usize>,
    /// A way on which registers are read in order.
    queue: Option<usize>,
}

/// Ways on which registers are read in order: compilers rely on it that a store has read its own when a later
/// load has come back, and that a result may take the place of what is read by what is before it on its way. Loads
/// and stores that leave the core, those to shared memory, doubles, and special functions.
const QUEUES: [&[&str]; 4] = [
    &[
        "LDG", "STG", "LD", "ST", "LDL", "STL", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS",
    ],
    &["LDS", "STS", "ATOMS", "LDSM", "STSM"],
    &["DADD", "DMUL", "DFMA", "DSETP"],
    UNITS[1],
];

/// Of some units compilers rely on it that they keep the order: what is promised for one result holds for
/// those before, whichever of the later ones is waited for. Shared memory, the unit for special functions,
/// and that for doubles where there is one for many lanes.
const UNITS: [&[&str]; 3] = [
    &["LDS", "LDSM", "ATOMS", "MOVM"],
    &["MUFU", "F2I", "F2F", "I2F", "FRND", "POPC", "FLO", "BREV"],
    &["DADD", "DMUL", "DFMA", "DSETP"],
];
const DOUBLES: usize = 2;

/// Those whose results never come at a fixed time, beside those of the units.
const VARIABLE: &[&str] = &[
    "LDG", "LD", "LDL", "LDC", "LDCU", "ATOM", "ATOMG", "S2R", "S2UR", "SHFL", "MATCH", "B2R",
    "BMOV", "QSPC", "SYNCS",
];

impl Uses {
    pub fn of(chip: Chip, inst: &Inst) -> Self {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let mut until = None;
        let mut control = inst.control;
        for operand in &inst.operands {
            // A copy names its place in shared memory first.
            let shared = inst.name == "LDGSTS" && reads.is_empty();
            let list = if operand.role == Role::Write {
                &mut writes
            } else {
                &mut reads
            };
            let mut add = |kind: u16, first: u8, count: u8, none: u8| {
                if first != none {
                    list.extend((0..count).map(|k| kind << 8 | u16::from(first.saturating_add(k))));
                }
            };
            match operand.kind {
                Kind::Register(n) => add(0, n, operand.width, 255),
                Kind::Uniform(n) => add(1, n, operand.width, 255),
                Kind::Predicate(n) => add(2, n, 1, 7),
                Kind::UniformPredicate(n) => add(3, n, 1, 7),
                Kind::Constant(.., Some(base)) => add(0, base, 1, 255),
                Kind::ConstantOf(handle, _) => add(1, handle, 2, 255),
                Kind::ConstantBy(.., base) => add(1, base, 1, 255),
                Kind::Descriptor(n) => add(1, n, 2, 255),
                Kind::Memory(memory) => {
                    let wide = inst.has(".E") && memory.width != 1 && !shared;
                    if let Some(base) = memory.base {
                        add(0, base, if wide { 2 } else { 1 }, 255);
                    }
                    for uniform in [memory.uniform, memory.descriptor].into_iter().flatten() {
                        add(1, uniform, if inst.has(".E") { 2 } else { 1 }, 255);
                    }
                }
                Kind::Scoreboard(n) => until = Some((n, 0)),
                Kind::Immediate(count, _) if until.is_some() => {
                    until = until.map(|(n, _)| (n, count as usize))
                }
                Kind::Immediate(set, _) if inst.name == "DEPBAR" => control.waits |= set as u8,
                _ => {}
            }
        }
        // Whether a generic atomic was done is known when its sources are read, where that is all it returns.
        if inst.name == "ATOM" && control.writes.is_none() {
            control.writes = control.reads;
        }
        let guard = match inst.guard.kind {
            Kind::Predicate(n) if n != 7 => Some(2 << 8 | u16::from(n)),
            Kind::UniformPredicate(n) if n != 7 => Some(3 << 8 | u16::from(n)),
            _ => None,
        };
        // As a source, and as a guard or what a branch goes by.
        let latency = match inst.name {
            "IMAD" if chip >= Chip::Sm90 => [2, 13],
            name if name.starts_with('U') || name == "VOTEU" => [2, 11],
            _ => [4, 13],
        };
        // Hopper computes doubles at a fixed pace.
        let unit = UNITS
            .iter()
            .position(|unit| unit.contains(&inst.name))
            .filter(|&unit| unit != DOUBLES || chip != Chip::Sm90);
        let latency = if unit.is_some() || VARIABLE.contains(&inst.name) {
            None
        } else {
            Some(latency)
        };
        let branches = matches!(inst.name, "BRA" | "EXIT" | "CALL" | "RET");
        Self {
            unit,
            queue: QUEUES.iter().position(|queue| queue.contains(&inst.name)),
            reads: reads.into(),
            writes: writes.into(),
            guard,
            control,
            until,
            latency,
            branches,
        }
    }
}

impl Uses {
    /// The scoreboards that are waited for, and how much may be outstanding then.
    pub fn waits(&self) -> impl Iterator<Item = (u8, usize)> {
        let waits = self.control.waits;
        let all = (0..6).filter(move |n| waits >> n & 1 != 0);
        all.map(|n| (n, 0)).chain(self.until)
    }
}

/// When a result of fixed latency was begun, and in which lanes.
#[derive(Clone, Copy, Default)]
struct Begun {
    at: u64,
    lanes: u32,
    latency: [u64; 2],
}

/// What is outstanding on a scoreboard, of which lanes, and whether it is a result.
struct Outstanding {
    items: Arc<[Item]>,
    lanes: u32,
    result: bool,
    /// Of which instruction it is: its number, its unit, the way that it goes.
    number: u64,
    unit: Option<usize>,
    queue: Option<usize>,
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
    begun: Vec<Begun>,
    /// Lanes of results without a scoreboard.
    unpromised: Vec<u32>,
    /// How much of what is outstanding names an item.
    named: Vec<u16>,
    /// These results by the unit that makes them, in order.
    loose: [Vec<Loose>; UNITS.len()],
    /// How many instructions have issued.
    number: u64,
    scoreboards: [VecDeque<Outstanding>; 6],
}

impl Watch {
    pub fn new() -> Self {
        Self {
            now: 0,
            begun: vec![Begun::default(); ITEMS],
            unpromised: vec![0; ITEMS],
            named: vec![0; ITEMS],
            loose: Default::default(),
            number: 0,
            scoreboards: Default::default(),
        }
    }

    /// An instruction issues for some lanes; its guard is read for those of `asked`.
    pub fn issue(&mut self, uses: &Uses, lanes: u32, asked: u32) -> Result<(), Hazard> {
        if uses.control.waits != 0 || uses.until.is_some() {
            self.wait(uses);
        }
        if let Some(guard) = uses.guard {
            self.used(guard, asked, None)?;
            // What runs for the warp has its predicates at once.
            let lanes = guard >> 8 == 2 || uses.branches;
            self.passed(guard, asked, usize::from(lanes))?;
        }
        for &item in &*uses.reads {
            self.used(item, lanes, None)?;
            let how = usize::from(uses.branches && item >> 8 >= 2);
            self.passed(item, lanes, how)?;
        }
        for &item in &*uses.writes {
            self.used(item, lanes, Some(uses))?;
        }
        self.begin(uses, lanes);
        self.now += u64::from(uses.control.stall.max(1));
        Ok(())
    }

    /// What an instruction waits for is over, and what that says of others.
    fn wait(&mut self, uses: &Uses) {
        let named = &mut self.named;
        // Which instructions are over with what came before them: the last of each unit, and of memory.
        let (mut units, mut queues) = ([0; UNITS.len()], [0; QUEUES.len()]);
        let mut there = Vec::new();
        for (n, scoreboard) in self.scoreboards.iter_mut().enumerate() {
            let until = uses.until.filter(|until| usize::from(until.0) == n);
            let left = match until {
                _ if uses.control.waits >> n & 1 != 0 => 0,
                Some((_, left)) => left,
                None => continue,
            };
            let over = scoreboard.len().saturating_sub(left);
            for done in scoreboard.drain(..over) {
                forget(named, &done.items);
                if let Some(unit) = done.unit.filter(|_| done.result) {
                    units[unit] = done.number.max(units[unit]);
                }
                if let Some(queue) = done.queue {
                    queues[queue] = done.number.max(queues[queue]);
                }
                if done.result {
                    there.push(done.number);
                }
            }
        }
        // What has its result has read its sources, and so has what went before it on its way.
        let read = |one: &Outstanding| {
            there.contains(&one.number)
                || one.queue.is_some_and(|queue| one.number <= queues[queue])
        };
        if !there.is_empty() || queues != [0; QUEUES.len()] {
            for scoreboard in &mut self.scoreboards {
                scoreboard.retain(|one| {
                    let stays = one.result || !read(one);
                    if !stays {
                        forget(named, &one.items);
                    }
                    stays
                });
            }
        }
        for (loose, over) in self.loose.iter_mut().zip(units) {
            if over != 0 {
                loose.retain(|one| {
                    let stays = one.number > over;
                    if !stays && one.scoreboard.is_some() {
                        forget(named, &[one.item]);
                    }
                    stays
                });
            }
        }
    }

    /// An item is read, or written by an instruction.
    fn used(&self, item: Item, lanes: u32, writer: Option<&Uses>) -> Result<(), Hazard> {
        let write = writer.is_some();
        if self.named[usize::from(item)] == 0 && self.unpromised[usize::from(item)] == 0 {
            return Ok(());
        }
        let queue = writer.and_then(|uses| uses.queue);
        for (n, scoreboard) in (0..).zip(&self.scoreboards) {
            for outstanding in scoreboard {
                let meant = (outstanding.lanes & lanes != 0 || item >> 8 & 1 != 0)
                    && outstanding.items.contains(&item);
                let source = write && (queue.is_none() || queue != outstanding.queue);
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

    fn passed(&self, item: Item, lanes: u32, how: usize) -> Result<(), Hazard> {
        let begun = &self.begun[usize::from(item)];
        let (cycles, need) = (self.now - begun.at, begun.latency[how]);
        if begun.lanes & lanes != 0 && cycles < need {
            return Err(Hazard::Stall {
                register: name(item),
                cycles,
                need,
            });
        }
        Ok(())
    }

    fn begin(&mut self, uses: &Uses, lanes: u32) {
        let Control { writes, reads, .. } = uses.control;
        // What runs for no lane goes through its unit all the same: what is before it there is done when it is.
        for &item in uses.writes.iter().filter(|_| lanes != 0) {
            let latency = uses
                .latency
                .filter(|_| writes.is_none())
                .unwrap_or_default();
            self.begun[usize::from(item)] = Begun {
                at: self.now,
                lanes,
                latency,
            };
            let unpromised = uses.latency.is_none() && writes.is_none();
            self.unpromised[usize::from(item)] = if unpromised { lanes } else { 0 };
        }
        self.number += 1;
        // What a unit did before without a promise is done when this is.
        if let Some(unit) = uses.unit {
            let loose = &mut self.loose[unit];
            if writes.is_some() {
                for one in loose.iter_mut().filter(|one| one.scoreboard.is_none()) {
                    one.scoreboard = writes;
                    self.named[usize::from(one.item)] += 1;
                    self.unpromised[usize::from(one.item)] = 0;
                }
            } else {
                loose.extend(uses.writes.iter().map(|&item| Loose {
                    item,
                    lanes,
                    number: self.number,
                    scoreboard: None,
                }));
            }
        }
        let promises = [(writes, &uses.writes, true), (reads, &uses.reads, false)];
        for (scoreboard, items, result) in promises {
            let scoreboard = scoreboard.and_then(|n| self.scoreboards.get_mut(usize::from(n)));
            if let Some(scoreboard) = scoreboard {
                for &item in &**items {
                    self.named[usize::from(item)] += 1;
                }
                scoreboard.push_back(Outstanding {
                    items: Arc::clone(items),
                    lanes,
                    result,
                    number: self.number,
                    unit: uses.unit,
                    queue: uses.queue,
                });
            }
        }
    }
}

/// What names these items is over.
fn forget(named: &mut [u16], items: &[Item]) {
    for &item in items {
        named[usize::from(item)] -= 1;
    }
}
