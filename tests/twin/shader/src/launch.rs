//! Grids of workgroups: what a dispatch is, and how its groups are spread over threads.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::code::Code;
use crate::group::{Group, Turn, Worker};
use crate::isa::Gen;
use crate::page::Memory;
use crate::step::Stop;
use crate::trap::{Handler, Message};
use crate::turns::{Leaves, Seat, Turns};

/// A dispatch, as the command processor hands it to the shader cores.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The generation.
    pub generation: Gen,
    /// Address of the first instruction.
    pub entry: u64,
    /// Workgroups in x, y, z.
    pub groups: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub group_size: [u32; 3],
    /// Work-items of the last workgroup in x, y, z where it is partial, else `group_size`.
    pub last_size: [u32; 3],
    /// The first workgroup id in x, y, z.
    pub start: [u32; 3],
    /// Waves of 32 lanes.
    pub wave32: bool,
    /// `COMPUTE_PGM_RSRC1`, 2 and 3.
    pub rsrc: [u32; 3],
    /// `COMPUTE_USER_DATA`; as many as RSRC2 says are loaded, the rest are undefined.
    pub user: [u32; 16],
    /// LDS of a workgroup in bytes.
    pub lds: u32,
    /// Scratch: address of the first wave's slice, 0 for none.
    pub scratch_base: u64,
    /// Scratch of one wave in bytes.
    pub scratch_wave: u32,
    /// How many waves may have scratch at a time on this XCC.
    pub scratch_waves: u32,
    /// The high half of addresses in the LDS aperture of flat accesses.
    pub shared_aperture: u32,
    /// The high half of addresses in the scratch aperture of flat accesses.
    pub private_aperture: u32,
    /// The XCC, and of how many: of several, each runs every n-th workgroup.
    pub xcc: (u32, u32),
    /// Waves that this XCC holds at a time.
    pub waves: u32,
    /// The trap handler of the process, where it has one.
    pub trap: Option<Handler>,
    /// Seeds whatever is undefined: registers and LDS at the start, the order of groups.
    pub seed: u64,
}

impl Launch {
    /// 1 for waves of 32 lanes, 2 for 64.
    pub fn halves(&self) -> usize {
        if self.wave32 { 1 } else { 2 }
    }

    /// Waves of a whole workgroup.
    pub fn waves_per_group(&self) -> u32 {
        let items: u64 = self.group_size.iter().map(|n| u64::from(*n)).product();
        items.div_ceil(32 * self.halves() as u64).max(1) as u32
    }

    /// The workgroup with this number, and its size. Numbers are scattered over the grid by the seed:
    /// hardware promises no order either.
    fn group(&self, number: u64, count: u64) -> ([u32; 3], [u32; 3]) {
        // Any odd multiplier is a permutation modulo a power of two; walk the cycle until in range.
        let size = count.next_power_of_two();
        let mut at = number;
        loop {
            at = at.wrapping_mul(self.seed | 5).wrapping_add(self.seed >> 32) & (size - 1);
            if at < count {
                break;
            }
        }
        let at = at * u64::from(self.xcc.1) + u64::from(self.xcc.0);
        let [x, y, _] = self.groups.map(u64::from);
        let id = [at % x, at / x % y, at / (x * y)].map(|n| n as u32);
        let mut group_size = self.group_size;
        for d in 0..3 {
            if id[d] + 1 == self.groups[d] {
                group_size[d] = self.last_size[d];
            }
        }
        let id = std::array::from_fn(|d| id[d].wrapping_add(self.start[d]));
        (id, group_size)
    }
}

/// Where a wave is that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Address of its next instruction.
    pub pc: u64,
    /// Its lanes, a bit for each.
    pub exec: u64,
    /// Whether it waits at the barrier of its workgroup.
    pub in_barrier: bool,
    /// Whether it is halted.
    pub halted: bool,
}

/// How a launch is watched.
pub struct Watch<'a> {
    /// Called now and then, where waves run for long, with a thread and its waves that have not ended; with none at its
    /// end.
    pub standing: Option<&'a (dyn Fn(u32, Vec<Standing>) + Sync)>,
    /// Set from outside to stop a launch that does not end.
    pub cancel: &'a AtomicBool,
    /// Called with every instruction that ran, where the person asked for it (`DEBUG=6`).
    pub trace: Option<&'a (dyn Fn(&str) + Sync)>,
    /// The clock of `s_memtime`, `s_memrealtime` and `s_sendmsg_rtn` in ticks of 10 ns, asked at the start
    /// and after each pause. In between, time goes on with the instructions of a thread.
    pub clock: &'a (dyn Fn() -> u64 + Sync),
    /// Called with what a wave tells.
    pub message: &'a (dyn Fn(Message) + Sync),
    /// How many host threads are used, where there is enough to do. What comes out may depend on the
    /// number (undefined registers do), and on nothing else of the host.
    pub threads: usize,
}

/// What a launch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Instructions that waves issued.
    pub instructions: u64,
    /// Waves that ran.
    pub waves: u64,
    /// The time on the clock of the last wave at its end.
    pub end: u64,
}

/// A launch that could not go on: why and where.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Why.
    pub stop: Stop,
    /// Address of the instruction.
    pub pc: u64,
    /// Its text, or why there is none.
    pub text: String,
    /// The workgroup.
    pub group: [u32; 3],
    /// The wave in it.
    pub wave: u32,
    /// The instructions of the wave before, oldest first, at most 16, as `address: text`.
    pub before: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.group;
        write!(
            f,
            "{:#x}: {}: {} (workgroup {x}, {y}, {z}, wave {})",
            self.pc, self.text, self.stop, self.wave
        )?;
        for line in &self.before {
            write!(f, "\n  after {line}")?;
        }
        Ok(())
    }
}

/// What the threads of a launch share.
pub(crate) struct Shared<'a> {
    pub memory: &'a dyn Memory,
    pub code: &'a Code,
    pub launch: &'a Launch,
    pub watch: &'a Watch<'a>,
    /// When the launch began to fetch.
    pub since: u64,
    /// Groups of this XCC.
    count: u64,
    /// How many threads run them.
    threads: u32,
    pub turns: Turns,
    done: Mutex<Done>,
}

impl Shared<'_> {
    fn stopped(&self) -> bool {
        self.turns.stopped() || self.watch.cancel.load(Ordering::Relaxed)
    }
}

/// Runs a launch to its end. `code` is the instruction cache of the address space.
///
/// # Errors
/// Where and why it could not go on; `None` inside means that it was cancelled.
pub fn run(
    memory: &dyn Memory,
    code: &Code,
    launch: &Launch,
    watch: &Watch,
) -> Result<Done, Option<Box<Broken>>> {
    run_with_pauses(memory, code, launch, watch, &|| ())
}

/// As [`run`], for a launch that may take long, or wait for others: calls `pause` again and again, each
/// time after the same instructions, and on the thread that called; no wave runs meanwhile.
///
/// # Errors
/// As [`run`].
pub fn run_with_pauses(
    memory: &dyn Memory,
    code: &Code,
    launch: &Launch,
    watch: &Watch,
    pause: &dyn Fn(),
) -> Result<Done, Option<Box<Broken>>> {
    let total: u64 = launch.groups.iter().map(|n| u64::from(*n)).product();
    let (xcc, xccs) = launch.xcc;
    let count = total
        .saturating_sub(u64::from(xcc))
        .div_ceil(u64::from(xccs.max(1)));
    // A thread is worth its start only for some work, and needs scratch for a group of its own.
    let waves = count * u64::from(launch.waves_per_group());
    let groups = u64::from(resident(launch, 1)).min(count);
    let threads = (watch.threads as u64).min(groups).min(waves / 4).max(1) as u32;
    let shared = Shared {
        memory,
        code,
        launch,
        watch,
        since: code.now(),
        count,
        threads,
        turns: Turns::new(threads, xccs, (watch.clock)()),
        done: Mutex::default(),
    };
    let resident = resident(launch, threads);
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let shared = &shared;
            scope.spawn(move || work(shared, Seat::new(&shared.turns, thread, None), resident));
        }
        let pause = || {
            pause();
            (watch.clock)()
        };
        work(&shared, Seat::new(&shared.turns, 0, Some(&pause)), resident);
    });
    if let Some(broken) = shared.turns.into_broken() {
        return Err(Some(broken));
    }
    if watch.cancel.load(Ordering::Relaxed) {
        return Err(None);
    }
    Ok(shared.done.into_inner().unwrap_or_default())
}

/// Groups that a thread may hold at a time: those that do not end wait for others, as on the chip.
fn resident(launch: &Launch, threads: u32) -> u32 {
    let mut waves = launch.waves;
    if launch.scratch_wave > 0 {
        waves = waves.min(launch.scratch_waves);
    }
    (waves / launch.waves_per_group() / threads).max(1)
}

/// What one thread does. Which groups are its own follows from its number alone.
fn work(shared: &Shared, seat: Seat, resident: u32) {
    let lds_words = shared.launch.lds.div_ceil(4) as usize;
    let thread = seat.number();
    let _leaves = Leaves(&seat);
    // LDS of each resident group. Allocated as groups come, never moved: waves hold references.
    let arena = Arena::default();
    let mut worker = Worker::new(shared, seat.clone());
    let mut numbers = (u64::from(thread)..shared.count).step_by(shared.threads as usize);
    let mut groups: Vec<(u32, Group)> = Vec::new();
    let mut free: Vec<u32> = Vec::new();
    let mut slots = 0;
    let mut more = true;
    let broken = 'all: loop {
        // Another group is started where none is left, or where those here wait for something.
        let waits = groups.iter().all(|(_, group)| group.waits());
        if more && waits && (groups.len() as u32) < resident {
            match numbers.next() {
                Some(number) => {
                    let slot = free.pop().unwrap_or_else(|| {
                        slots += 1;
                        slots - 1
                    });
                    let (id, size) = shared.launch.group(number, shared.count);
                    let room = arena.get(slot as usize, lds_words);
                    let scratch = thread * resident + slot;
                    match worker.group(id, size, scratch, room) {
                        Ok(group) => groups.push((slot, group)),
                        Err(broken) => break Some(broken),
                    }
                }
                None => more = false,
            }
        }
        if shared.stopped() || groups.is_empty() && !more {
            break None;
        }
        let mut at = 0;
        while at < groups.len() {
            match worker.turn(&mut groups[at].1) {
                Ok(Turn::Over) => at += 1,
                Ok(Turn::Ended) => {
                    let (slot, group) = groups.swap_remove(at);
                    free.push(slot);
                    worker.retire(group);
                }
                Err(broken) => break 'all Some(broken),
            }
            seat.ran(worker.issued());
            if shared.stopped() {
                break 'all None;
            }
        }
        if let Some(standing) = shared.watch.standing {
            let waves = groups.iter().flat_map(|(_, group)| group.standing());
            standing(thread, waves.collect());
        }
    };
    if let Some(standing) = shared.watch.standing {
        standing(thread, Vec::new());
    }
    let done = worker.done();
    if let Ok(mut all) = shared.done.lock() {
        all.instructions += done.instructions;
        all.waves += done.waves;
        all.end = all.end.max(seat.now());
    }
    seat.leave(broken);
}

/// What the waves of a group share.
pub(crate) struct GroupMemory {
    /// LDS in dwords.
    pub lds: Box<[Cell<u32>]>,
    /// How often a wave has signalled the barrier.
    pub phases: Cell<u32>,
    next: OnceCell<Box<GroupMemory>>,
}

/// Rooms of the groups of a thread.
#[derive(Default)]
struct Arena {
    // A list whose nodes never move, so that what was handed out stays while more is added.
    first: OnceCell<Box<GroupMemory>>,
}

impl Arena {
    fn get(&self, slot: usize, words: usize) -> &GroupMemory {
        let new = || {
            Box::new(GroupMemory {
                lds: vec![Cell::new(0); words].into(),
                phases: Cell::new(0),
                next: OnceCell::new(),
            })
        };
        let mut room = self.first.get_or_init(new);
        for _ in 0..slot {
            room = room.next.get_or_init(new);
        }
        room
    }
}
