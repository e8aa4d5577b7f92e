//! A grid of workgroups, and what it takes.

use std::collections::VecDeque;

use crate::code::Code;
use crate::fault::{Broken, Cause, Result, broken};
use crate::group::{Group, Shared};
use crate::launch::{Launch, SystemRegisters, ThreadSize};
use crate::memory::Memory;
use crate::regs::{Reg, SHARED};
use crate::rules;
use crate::wave::Preamble;

/// Instructions of a workgroup before another has its turn.
const TURN: u64 = 1 << 12;

/// The most vectors of registers of a fiber.
const MAX_FOOTPRINT: u32 = 48;

/// The most dwords of constants of a compute shader: Mesa src/freedreno/ir3/ir3_compiler.c, `max_const_compute`.
const MAX_CONST_DWORDS: u32 = 256 * 4;

/// What a launch did.
///
/// Cycles are a model: arithmetic issues once a cycle, (ss) and (sy) wait for the latencies that Mesa measured with warm
/// caches, and the waves of a shader processor fill each other's waits as far as registers allow. They compare programs
/// and say nothing of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Workgroups.
    pub groups: u64,
    /// Waves with at least one fiber.
    pub waves: u64,
    /// Instructions that waves issued.
    pub instructions: u64,
    /// Slots in which waves issued, nops and repetitions among them.
    pub slots: u64,
    /// Cycles in which waves issued.
    pub issue_cycles: u64,
    /// Cycles in which waves waited for (ss).
    pub ss_cycles: u64,
    /// Cycles in which waves waited for (sy).
    pub sy_cycles: u64,
    /// Waves that a shader processor holds at a time.
    pub occupancy: u32,
    /// Cycles of the waves, each by its own time.
    pub wave_cycles: u64,
    /// Cycles of the whole.
    pub cycles: u64,
}

/// A launch that runs.
pub struct Grid {
    launch: Launch,
    code: Code,
    constants: Vec<Option<u32>>,
    preamble: Preamble,
    /// Workgroups that were started.
    started: u64,
    running: VecDeque<(Group, u32)>,
    /// Seats for waves that are free.
    seats: Vec<u32>,
    done: Done,
}

impl Grid {
    /// A grid before its first instruction.
    ///
    /// # Errors
    /// The launch has something that the shader cores do not take.
    pub fn new(launch: Launch) -> std::result::Result<Self, Box<Broken>> {
        check(&launch).map_err(|stop| {
            Box::new(Broken {
                cause: *stop.cause,
                pc: launch.program,
                word: None,
                name: "",
                group: [0; 3],
                wave: 0,
                fiber: None,
            })
        })?;
        let per_group = launch.waves_per_group().max(1) as u32;
        let places = launch.occupancy() * launch.chip.cores / per_group;
        let seats = (0..places.max(1)).rev().map(|n| n * per_group).collect();
        Ok(Self {
            code: Code::new(&launch),
            constants: launch.constants.clone(),
            preamble: Preamble::Open,
            started: 0,
            running: VecDeque::new(),
            seats,
            done: Done {
                occupancy: launch.occupancy(),
                ..Done::default()
            },
            launch,
        })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first broken rule, refused access or missed deadline.
    pub fn run(&mut self, memory: &mut dyn Memory) -> std::result::Result<Done, Box<Broken>> {
        loop {
            if let Some(done) = self.turn(memory, u64::MAX)? {
                return Ok(done);
            }
        }
    }

    /// Runs about so many instructions. Returns what was done once all is.
    ///
    /// # Errors
    /// As [`Grid::run`].
    pub fn turn(
        &mut self,
        memory: &mut dyn Memory,
        budget: u64,
    ) -> std::result::Result<Option<Done>, Box<Broken>> {
        let mut left = budget;
        let mut idle = 0;
        while left > 0 {
            self.fill()?;
            let Some((mut group, seat)) = self.running.pop_front() else {
                return Ok(Some(self.finish()));
            };
            let mut shared = Shared {
                launch: &self.launch,
                memory,
                code: &mut self.code,
                constants: &mut self.constants,
                preamble: &mut self.preamble,
            };
            let issued = group.turn(&mut shared, TURN.min(left))?;
            idle = if issued == 0 { idle + 1 } else { 0 };
            left = left.saturating_sub(issued.max(1));
            if group.ended() {
                self.retire(&group, seat);
            } else {
                self.running.push_back((group, seat));
            }
            if idle > self.running.len() {
                return Err(self.stuck());
            }
        }
        Ok(None)
    }

    fn stuck(&self) -> Box<Broken> {
        Box::new(Broken {
            cause: Cause::Stuck,
            pc: self.launch.program,
            word: None,
            name: "",
            group: self.running.front().map_or([0; 3], |(group, _)| group.id),
            wave: 0,
            fiber: None,
        })
    }

    /// Starts workgroups where seats are free.
    fn fill(&mut self) -> std::result::Result<(), Box<Broken>> {
        while self.started < self.launch.group_count() {
            let Some(seat) = self.seats.pop() else {
                break;
            };
            let [x, y, _] = self.launch.groups.map(u64::from);
            let n = self.started;
            let id = [n % x, n / x % y, n / (x * y)].map(|n| n as u32);
            self.started += 1;
            let group = Group::new(&self.launch, id, seat).map_err(|stop| {
                Box::new(Broken {
                    cause: *stop.cause,
                    pc: self.launch.program,
                    word: None,
                    name: "",
                    group: id,
                    wave: 0,
                    fiber: None,
                })
            })?;
            self.running.push_back((group, seat));
        }
        Ok(())
    }

    fn retire(&mut self, group: &Group, seat: u32) {
        self.seats.push(seat);
        self.done.groups += 1;
        for (counts, cycles) in group.counts() {
            self.done.waves += u64::from(counts.instructions > 0);
            self.done.instructions += counts.instructions;
            self.done.slots += counts.slots;
            self.done.issue_cycles += counts.issue;
            self.done.ss_cycles += counts.ss;
            self.done.sy_cycles += counts.sy;
            self.done.wave_cycles += cycles;
        }
    }

    /// The cycles of the whole: issuing bounds it, and waits as far as other waves do not fill them.
    fn finish(&self) -> Done {
        // A workgroup is on one shader processor, a wave waits by itself.
        let cores = u64::from(self.launch.chip.cores).clamp(1, self.done.groups.max(1));
        let waves = (u64::from(self.done.occupancy) * cores).clamp(1, self.done.waves.max(1));
        let issue = self.done.issue_cycles.div_ceil(cores);
        let time = self.done.wave_cycles.div_ceil(waves);
        Done {
            cycles: issue.max(time),
            ..self.done
        }
    }
}

/// What the shader cores take.
fn check(launch: &Launch) -> Result<()> {
    let chip = launch.chip;
    let sizes = launch.local_size;
    if sizes.iter().any(|n| !(1..=1024).contains(n)) {
        return broken(&rules::LAUNCH_SIZE, format!("a workgroup of {sizes:?}"));
    }
    if launch.groups.contains(&0) {
        return broken(
            &rules::LAUNCH_SIZE,
            format!("a grid of {:?} workgroups", launch.groups),
        );
    }
    let (full, half) = (launch.full_footprint, launch.half_footprint);
    if !(1..=MAX_FOOTPRINT).contains(&full) || half > MAX_FOOTPRINT {
        let what = format!("{full} vectors of full and {half} of half registers");
        return broken(&rules::LAUNCH_FOOTPRINT, what);
    }
    if launch.thread_size == ThreadSize::Thread128 && !chip.double_threadsize {
        return broken(
            &rules::LAUNCH_THREADSIZE,
            format!("THREAD128 on {}", chip.name),
        );
    }
    let (waves, occupancy) = (launch.waves_per_group(), launch.occupancy());
    if waves > u64::from(occupancy) {
        let vectors = launch.register_vectors();
        let what = format!("{waves} waves of {vectors} vectors of registers, {occupancy} fit");
        return broken(&rules::LAUNCH_OCCUPANCY, what);
    }
    if launch.local_bytes > chip.shared || launch.const_dwords > MAX_CONST_DWORDS {
        let (bytes, dwords) = (launch.local_bytes, launch.const_dwords);
        let what = format!("{bytes} bytes of local memory, {dwords} dwords of constants");
        return broken(&rules::LAUNCH_MEMORY, what);
    }
    system(launch.system, full)
}

fn system(system: SystemRegisters, full: u32) -> Result<()> {
    let shared = [system.group_id, system.group_size, system.group_offset];
    for first in shared.into_iter().flatten() {
        let first = u16::from(first);
        if first < SHARED || !Reg::full(first + 2).is_shared() {
            return broken(
                &rules::LAUNCH_SYSTEM,
                format!("{} is no shared register", Reg::full(first).name()),
            );
        }
    }
    let full = full as u16 * 4;
    for (first, count) in [(system.local_id, 3), (system.linear_local_id, 1)] {
        if let Some(first) = first.map(u16::from)
            && first + count > full
        {
            let name = Reg::full(first).name();
            return broken(
                &rules::LAUNCH_SYSTEM,
                format!("{name} is beyond {} vectors", full / 4),
            );
        }
    }
    Ok(())
}
