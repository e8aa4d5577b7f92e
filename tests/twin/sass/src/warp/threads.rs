//! A warp: which of its lanes run, where, and which wait.
//!
//! Lanes that are at the same place run together. At a branch that they do not all take they part: one
//! part goes on, the others stay behind until it ends or waits, or has run long enough, so that lanes
//! that wait for others by looking at memory do not wait forever.

use super::access;
use super::block::{Barriers, Launch};
use super::bulk::{self, Flights, Leaving};
use super::copy::{Copies, Groups};
use super::fault::Cause;
use super::flow::{Join, Meet, Meeting, Op};
use super::hazard::Watch;
use super::memory::Memory;
use super::program::{Program, What};
use super::reach::Memories;
use super::simd::apply;
use super::source::{Condition, Lanes};
use super::state::{Constants, State, each, mask};
use super::warpgroup::Products;
use super::{atomic, double, exchange, matrix, phase, tile};

/// What lanes that do not run wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing but their turn.
    Turn,
    /// Others of their warp, which come to the same place.
    Lanes(u32),
    /// The lanes with which each joins at a barrier of the warp.
    Join(u8),
    /// A barrier of the block.
    Barrier(u8),
    /// Until so many products of four warps are over.
    Products(u64),
}

/// Lanes that are at the same place.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: u32,
    lanes: u32,
    wait: Wait,
}

/// How a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It could go on.
    Over,
    /// It waits at a barrier.
    Waits,
    /// All lanes ended.
    Done,
}

/// What lanes are told of themselves.
pub(crate) struct Identity {
    /// The place of each thread in its block.
    pub place: [Lanes; 3],
    /// The block in its grid.
    pub block: [u32; 3],
    /// Where the window of shared memory begins.
    pub window: u64,
    /// Instructions so far.
    pub clock: u64,
}

/// A warp.
pub(crate) struct Threads {
    pub state: State,
    pub local: Vec<u8>,
    pub identity: Identity,
    /// What control words promised, if that is watched.
    watch: Option<Box<Watch>>,
    /// Lanes that have not ended.
    pub live: u32,
    /// What the last barrier that counts counted.
    pub counted: (u32, bool),
    /// Where the lanes that run are: the byte of it is 16 times as much.
    pub at: u32,
    active: u32,
    others: Vec<Group>,
    /// The lanes that a lane joins with at each barrier.
    joins: Box<[Lanes; 16]>,
    /// What goes on beside it.
    copies: Copies,
    leaving: Groups<Leaving>,
    pub products: Products,
}

/// What a warp has around it.
pub(crate) struct Around<'a> {
    pub program: &'a Program,
    pub constants: &'a Constants<'a>,
    pub global: &'a mut dyn Memory,
    pub shared: &'a mut [u8],
    pub windows: super::Windows,
    pub flights: &'a mut Flights,
    pub barriers: &'a mut Barriers,
    /// Its number in the block.
    pub warp: usize,
    /// The registers that the launch has for a thread.
    pub registers: u16,
}

impl Around<'_> {
    /// The memories that a warp sees, with that of its lanes.
    fn memories<'b>(&'b mut self, local: &'b mut [u8]) -> Memories<'b> {
        Memories {
            global: &mut *self.global,
            shared: &mut *self.shared,
            local,
            windows: self.windows,
            flights: &mut *self.flights,
        }
    }
}

impl Threads {
    pub fn new(first: u32, block: [u32; 3], launch: &Launch) -> Self {
        let Launch {
            threads: size,
            local,
            watch,
            ..
        } = *launch;
        let threads = size.iter().product::<u32>();
        let live = mask(|i| first + (i as u32) < threads);
        let [x, y, _] = size;
        let thread: Lanes = each(|i| first + i as u32);
        Self {
            state: State::new(usize::from(launch.program.registers)),
            local: vec![0; 32 * local],
            identity: Identity {
                place: [
                    thread.map(|t| t % x),
                    thread.map(|t| t / x % y),
                    thread.map(|t| t / x / y),
                ],
                block,
                window: launch.windows.shared,
                clock: 0,
            },
            watch: watch.then(|| Box::new(Watch::new())),
            live,
            counted: (0, false),
            at: 0,
            active: live,
            others: Vec::new(),
            joins: Box::new([[0; 32]; 16]),
            copies: Copies::default(),
            leaving: Groups::default(),
            products: Products::default(),
        }
    }

    /// Runs until it waits or ends, or for so many instructions.
    pub fn run(&mut self, around: &mut Around, budget: u64) -> Result<Turn, Cause> {
        let end = self.identity.clock + budget;
        while self.identity.clock < end {
            if self.active == 0 && !self.next_group() {
                return Ok(if self.live == 0 {
                    Turn::Done
                } else {
                    Turn::Waits
                });
            }
            self.step(around)?;
        }
        // Others of this warp have a turn, too.
        self.park(self.active, self.at, Wait::Turn);
        self.active = 0;
        Ok(Turn::Over)
    }

    /// What waits, in words.
    pub fn waiting(&self) -> String {
        let group = |group: &Group| {
            let what = match group.wait {
                Wait::Turn => "could run".to_owned(),
                Wait::Lanes(mask) => format!("wait for lanes {mask:#010x}"),
                Wait::Join(n) => format!("wait at B{n} for lanes {:#010x}", self.wanted(*group, n)),
                Wait::Barrier(n) => format!("wait at barrier {n}"),
                Wait::Products(_) => {
                    "wait for products that not all four warps have begun".to_owned()
                }
            };
            format!(
                "lanes {:#010x} at {:#x} {what}",
                group.lanes,
                16 * u64::from(group.at)
            )
        };
        self.others.iter().map(group).collect::<Vec<_>>().join(", ")
    }

    /// Lets the lanes go on that wait at a barrier.
    pub fn release(&mut self, barrier: u8) {
        for group in &mut self.others {
            if group.wait == Wait::Barrier(barrier) {
                group.wait = Wait::Turn;
            }
        }
    }

    /// How many products have to be over before its lanes go on, if they wait for that.
    pub fn wants_products(&self) -> Option<u64> {
        self.others.iter().find_map(|group| match group.wait {
            Wait::Products(until) => Some(until),
            _ => None,
        })
    }

    /// So many products are computed: lanes go on that wait for no more. Returns whether there are any.
    pub fn land_products(&mut self, computed: u64) -> bool {
        let Some(until) = self.wants_products().filter(|&until| until <= computed) else {
            return false;
        };
        self.products.land(&mut self.state, until);
        for group in &mut self.others {
            if group.wait == Wait::Products(until) {
                group.wait = Wait::Turn;
            }
        }
        true
    }

    fn park(&mut self, lanes: u32, at: u32, wait: Wait) {
        if lanes == 0 {
            return;
        }
        match self
            .others
            .iter_mut()
            .find(|group| (group.at, group.wait) == (at, wait))
        {
            Some(group) => group.lanes |= lanes,
            None => self.others.push(Group { at, lanes, wait }),
        }
    }

    /// The group that has waited longest for its turn.
    fn next_group(&mut self) -> bool {
        let Some(next) = self
            .others
            .iter()
            .position(|group| group.wait == Wait::Turn)
        else {
            return false;
        };
        let group = self.others.remove(next);
        (self.active, self.at) = (group.lanes, group.at);
        true
    }

    /// The lanes that lanes at a join wait for, together.
    fn wanted(&self, group: Group, barrier: u8) -> u32 {
        let joins = self.joins[usize::from(barrier)];
        lanes_of(group.lanes).fold(0, |wanted, i| wanted | joins[i]) & self.live
    }

    /// Which lanes of those that are at a join wait for nobody who is not there. Lanes that join others may
    /// be at the same place: a function that calls itself.
    fn complete(&self, lanes: u32, barrier: u8) -> u32 {
        let joins = &self.joins[usize::from(barrier)];
        let (mut rest, mut done) = (lanes, 0);
        while rest != 0 {
            let wanted = joins[rest.trailing_zeros() as usize & 31];
            let here = rest & mask(|i| joins[i] == wanted);
            if wanted & self.live & !here == 0 {
                done |= here;
            }
            rest &= !here;
        }
        done
    }

    /// Lets lanes go on for which all others have come, or will not come any more.
    fn reconverge(&mut self) {
        let mut k = 0;
        while let Some(&group) = self.others.get(k) {
            let lanes = match group.wait {
                Wait::Lanes(wanted) if wanted & self.live & !group.lanes == 0 => group.lanes,
                Wait::Join(barrier) => self.complete(group.lanes, barrier),
                _ => 0,
            };
            if lanes == 0 {
                k += 1;
                continue;
            }
            self.others[k].lanes &= !lanes;
            if self.others[k].lanes == 0 {
                self.others.remove(k);
            }
            self.park(lanes, group.at, Wait::Turn);
            k = 0;
        }
    }

    fn step(&mut self, around: &mut Around) -> Result<(), Cause> {
        let program = around.program;
        let step = program
            .steps
            .get(self.at as usize)
            .ok_or(Cause::Outside(16 * u64::from(self.at)))?;
        self.identity.clock += 1;
        if step.registers > around.registers {
            return Err(Cause::Registers {
                register: (step.registers - 1) as u8,
                count: around.registers,
            });
        }
        let guard = step.guard;
        let mut lanes = self.active;
        if guard.number != 7 || guard.inverted {
            lanes &= self.state.test(guard);
        }
        if let Some(watch) = &mut self.watch {
            watch.issue(&program.uses, self.at as usize, lanes, self.active)?;
        }
        if !self.copies.none() || !self.leaving.none() {
            self.wait_for_copies(around)?;
        }
        let next = self.at + 1;
        if lanes == 0 {
            self.at = next;
            return Ok(());
        }
        // What runs once for the warp is computed in all lanes.
        let mask = if step.uniform { u32::MAX } else { lanes };
        let (state, c) = (&mut self.state, around.constants);
        match &step.what {
            What::Integer(op) => apply(op, state, c, mask),
            What::Long(op) => apply(op, state, c, mask),
            What::Single(op) => apply(op, state, c, mask),
            What::Double(op) => double::run(state, c, op, mask),
            What::Half(op) => apply(op, state, c, mask),
            What::Convert(op) => apply(op, state, c, mask),
            What::Pack(op) => apply(op, state, c, mask),
            What::Access(op) => {
                let lanes = if step.uniform { 1 } else { lanes };
                access::run(state, c, &mut around.memories(&mut self.local), op, lanes)?;
            }
            What::Atomic(op) => {
                atomic::run(state, &mut around.memories(&mut self.local), op, lanes)?;
            }
            What::Phase(op) => {
                let lanes = if step.uniform { 1 } else { lanes };
                phase::run(state, &mut around.memories(&mut self.local), op, lanes)?;
            }
            What::Copy(op) => {
                let memories = &mut around.memories(&mut self.local);
                self.copies.begin(state, memories, op, lanes)?;
            }
            What::Bulk(op) => {
                let memories = &mut around.memories(&mut self.local);
                bulk::run(state, memories, op, &mut self.leaving)?;
            }
            What::Tile(_) | What::Matrix(_) | What::Product(_) if lanes != u32::MAX => {
                return Err(Cause::Lanes(!lanes));
            }
            What::Tile(op) => tile::run(state, &mut around.memories(&mut self.local), op)?,
            What::Matrix(op) => matrix::run(state, c, op),
            What::Product(op) => self.products.begin(state, c, op, self.at),
            What::Exchange(op) => exchange::run(state, c, &self.identity, op, lanes),
            What::Flow(op) => return self.flow(op, lanes, around),
            What::Refused(refusal) => return Err((**refusal).clone().into()),
        }
        self.at = next;
        Ok(())
    }

    /// Lets the copies land that an instruction waits for, and ends a group of them.
    #[cold]
    fn wait_for_copies(&mut self, around: &mut Around) -> Result<(), Cause> {
        let uses = &around.program.uses[self.at as usize];
        let memories = &mut around.memories(&mut self.local);
        for (scoreboard, left) in uses.waits() {
            self.copies.wait(memories, scoreboard, left)?;
        }
        bulk::leave(memories, &mut self.leaving, Some(uses))
    }

    fn when(&self, lanes: u32, condition: Condition) -> u32 {
        lanes & self.state.test(condition)
    }

    /// Some lanes go elsewhere, the others on.
    fn part(&mut self, lanes: u32, to: u32) {
        let rest = self.active & !lanes;
        if rest == 0 {
            self.at = to;
        } else {
            self.at += 1;
            self.park(lanes, to, Wait::Turn);
            self.active = rest;
        }
    }

    /// Some lanes wait, the others go on.
    fn wait(&mut self, lanes: u32, wait: Wait) {
        self.at += 1;
        self.active &= !lanes;
        self.park(lanes, self.at, wait);
        self.reconverge();
    }

    /// Lanes go to the addresses in a pair of registers, and some bytes on; the others go on.
    fn jump(&mut self, lanes: u32, base: u8, offset: i64) -> Result<(), Cause> {
        let (low, high) = (*self.state.register(base), *self.state.register(base + 1));
        let (rest, next) = (self.active & !lanes, self.at + 1);
        for i in (0..32).filter(|i| lanes >> i & 1 != 0) {
            let address =
                (u64::from(high[i]) << 32 | u64::from(low[i])).wrapping_add_signed(offset);
            let to = u32::try_from(address / 16)
                .ok()
                .filter(|_| address % 16 == 0);
            self.park(1 << i, to.ok_or(Cause::Outside(address))?, Wait::Turn);
        }
        self.park(rest, next, Wait::Turn);
        self.active = 0;
        Ok(())
    }

    /// What lanes do at a barrier of the warp.
    fn join(&mut self, barrier: u8, what: Join, lanes: u32) {
        match what {
            Join::Begin { when } => {
                let lanes = self.when(lanes, when);
                let joins = &mut self.joins[usize::from(barrier)];
                for (i, join) in joins.iter_mut().enumerate() {
                    if lanes >> i & 1 != 0 {
                        *join = lanes;
                    }
                }
                self.at += 1;
            }
            Join::Await { when } => {
                let lanes = self.when(lanes, when);
                if lanes == self.active && self.complete(lanes, barrier) == lanes {
                    self.at += 1;
                } else {
                    self.wait(lanes, Wait::Join(barrier));
                }
            }
            Join::Load { from } => {
                let value = self.state.read(from);
                let joins = &mut self.joins[usize::from(barrier)];
                lanes_of(lanes).for_each(|i| joins[i] = value[i]);
                self.at += 1;
            }
            Join::Store { to, clear } => {
                let joins = &mut self.joins[usize::from(barrier)];
                self.state.put(to, lanes, joins);
                if clear {
                    lanes_of(lanes).for_each(|i| joins[i] = 0);
                }
                self.at += 1;
            }
            Join::Leave { when } => {
                let lanes = self.when(lanes, when);
                for join in &mut self.joins[usize::from(barrier)] {
                    *join &= !lanes;
                }
                self.at += 1;
                self.reconverge();
            }
        }
    }

    /// Lanes come to a barrier of the block.
    fn arrive(&mut self, meet: &Meet, lanes: u32, around: &mut Around) -> Result<(), Cause> {
        let first = lanes.trailing_zeros() as usize & 31;
        let number = self.state.get(&meet.barrier, around.constants)[first] & 15;
        let declared = around.barriers.declared;
        if number >= u32::from(declared) {
            return Err(Cause::Barriers {
                barrier: number as u8,
                count: declared,
            });
        }
        let count = meet
            .count
            .map(|count| self.state.get(&count, around.constants)[first]);
        let vote = meet.vote.map_or(0, |vote| self.when(lanes, vote));
        let (number, how) = (number as u8, (meet.and, meet.or));
        let (barriers, warp) = (&mut *around.barriers, around.warp);
        barriers.arrive(number, warp, lanes, count, vote, how);
        if meet.how == Meeting::Arrive {
            self.at += 1;
        } else {
            self.wait(lanes, Wait::Barrier(number));
        }
        Ok(())
    }

    fn flow(&mut self, op: &Op, lanes: u32, around: &mut Around) -> Result<(), Cause> {
        match *op {
            Op::Nothing => self.at += 1,
            Op::Branch {
                any,
                when: [a, b],
                to,
            } => {
                let lanes = self.when(self.when(lanes, a), b);
                let lanes = if any && lanes != 0 {
                    self.active
                } else {
                    lanes
                };
                self.part(lanes, to);
            }
            Op::Gathered {
                ref mask,
                all,
                when,
                to,
            } => {
                let wanted = self.state.get(mask, around.constants)[0];
                let here = wanted & self.live & !self.active == 0;
                let lanes = self.when(lanes, when);
                self.part(if here == all { lanes } else { 0 }, to);
            }
            Op::Jump { when, base, offset } => {
                let lanes = self.when(lanes, when);
                self.jump(lanes, base, offset)?;
            }
            Op::Join { barrier, what } => self.join(barrier, what, lanes),
            Op::Together { when, ref mask } => {
                let lanes = self.when(lanes, when);
                let masks = mask.map_or([u32::MAX; 32], |mask| {
                    self.state.get(&mask, around.constants)
                });
                let wanted = masks[lanes.trailing_zeros() as usize & 31];
                if lanes == 0 || (wanted & self.live & !lanes == 0 && self.active == lanes) {
                    self.at += 1;
                } else {
                    self.wait(lanes, Wait::Lanes(wanted));
                }
            }
            Op::Exit { when } => {
                let lanes = self.when(lanes, when);
                self.live &= !lanes;
                self.active &= !lanes;
                self.at += 1;
                if self.live == 0 {
                    let memories = &mut around.memories(&mut self.local);
                    self.copies.end(memories)?;
                    bulk::leave(memories, &mut self.leaving, None)?;
                }
                self.reconverge();
            }
            Op::Yield => {
                self.at += 1;
                self.park(self.active, self.at, Wait::Turn);
                self.active = 0;
            }
            Op::Fence => {
                around.flights.fence();
                self.at += 1;
            }
            Op::Close(scoreboard) => {
                self.copies.close(scoreboard);
                self.at += 1;
            }
            Op::Products(left) => {
                if lanes != u32::MAX {
                    return Err(Cause::Lanes(!lanes));
                }
                match self.products.until(left) {
                    Some(until) => self.wait(lanes, Wait::Products(until)),
                    None => self.at += 1,
                }
            }
            Op::Trap => return Err(Cause::Trap),
            Op::Meet(ref meet) => self.arrive(meet, lanes, around)?,
            Op::Counted { to, flag } => {
                self.state.put(to, lanes, &[self.counted.0; 32]);
                if let Some(flag) = flag {
                    self.state
                        .set(flag, lanes, if self.counted.1 { u32::MAX } else { 0 });
                }
                self.at += 1;
            }
        }
        Ok(())
    }
}

fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |i| mask >> i & 1 != 0)
}
