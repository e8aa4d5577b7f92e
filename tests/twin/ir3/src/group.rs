//! A workgroup: its waves, local memory and barriers.

use crate::code::Code;
use crate::fault::{Broken, Cause, Result, Stop};
use crate::flow::Flow;
use crate::hazard::Hazards;
use crate::launch::Launch;
use crate::local::Local;
use crate::memory::Memory;
use crate::op::Op;
use crate::regs::{LANES, Lanes, Mask, Reg, Registers};
use crate::rules;
use crate::wave::{Core, Counts, Event, Preamble, Wave};

/// What a wave is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    AtBarrier,
    AtPreamble,
    Ended,
}

/// What the workgroups of a launch share.
pub struct Shared<'a> {
    pub launch: &'a Launch,
    pub memory: &'a mut dyn Memory,
    pub code: &'a mut Code,
    pub constants: &'a mut Vec<Option<u32>>,
    pub preamble: &'a mut Preamble,
}

pub struct Group {
    pub id: [u32; 3],
    waves: Vec<(Wave, State)>,
    local: Local,
    random: u64,
}

/// A generator for the order of waves (Knuth).
pub fn random(state: &mut u64) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as u32
}

impl Group {
    /// A workgroup whose waves have seats from one on.
    pub fn new(launch: &Launch, id: [u32; 3], seat: u32) -> Result<Self> {
        let number = id
            .iter()
            .fold(launch.seed, |seed, n| seed.wrapping_mul(31) ^ u64::from(*n));
        let mut waves = Vec::new();
        for wave in 0..launch.waves_per_group() as u32 {
            let wave = start(launch, id, wave, seat + wave)?;
            let state = if wave.flow.active == 0 {
                State::Ended
            } else {
                State::Runs
            };
            waves.push((wave, state));
        }
        Ok(Self {
            id,
            waves,
            local: Local::new(launch.local_bytes, launch.seed),
            random: number | 1,
        })
    }

    /// What its waves did.
    pub fn counts(&self) -> impl Iterator<Item = (Counts, u64)> {
        self.waves.iter().map(|(wave, _)| (wave.counts, wave.cycle))
    }

    /// Whether all its waves ended.
    pub fn ended(&self) -> bool {
        self.waves.iter().all(|(_, state)| *state == State::Ended)
    }

    /// Whether it can go on only after the preamble, which another workgroup runs.
    pub fn waits(&self) -> bool {
        let running = self
            .waves
            .iter()
            .filter(|(_, state)| *state != State::Ended);
        running
            .clone()
            .any(|(_, state)| *state == State::AtPreamble)
            && !running.clone().any(|(_, state)| *state == State::Runs)
    }

    /// Lets waves run in some order until one after another they issued about so many instructions. Returns how many.
    pub fn turn(
        &mut self,
        shared: &mut Shared<'_>,
        budget: u64,
    ) -> std::result::Result<u64, Box<Broken>> {
        let mut issued = 0;
        while issued < budget && !self.ended() {
            self.release(*shared.preamble);
            let ready: Vec<usize> = (0..self.waves.len())
                .filter(|&n| self.waves[n].1 == State::Runs)
                .collect();
            if ready.is_empty() {
                if self.waits() {
                    break;
                }
                return Err(self.broken(shared, 0, Cause::Stuck.into()));
            }
            let chosen = ready[random(&mut self.random) as usize % ready.len()];
            // Few instructions at a time, so that waves overtake one another.
            let burst = u64::from(random(&mut self.random) % 32 + 1).min(budget - issued);
            issued += self.run(shared, chosen, burst)?;
        }
        Ok(issued)
    }

    /// Opens the barrier once all waves are there, and the preamble's wait once it was run.
    fn release(&mut self, preamble: Preamble) {
        let mut running = self
            .waves
            .iter()
            .filter(|(_, state)| *state != State::Ended)
            .peekable();
        let all = running.peek().is_some() && running.all(|(_, state)| *state == State::AtBarrier);
        if all {
            self.local.barrier();
        }
        let latest = self
            .waves
            .iter()
            .map(|(wave, _)| wave.cycle)
            .max()
            .unwrap_or(0);
        for (wave, state) in &mut self.waves {
            match state {
                State::AtBarrier if all => {
                    wave.cycle = latest;
                    *state = State::Runs;
                }
                State::AtPreamble if preamble != Preamble::Running => *state = State::Runs,
                _ => {}
            }
        }
    }

    fn run(
        &mut self,
        shared: &mut Shared<'_>,
        chosen: usize,
        burst: u64,
    ) -> std::result::Result<u64, Box<Broken>> {
        for issued in 0..burst {
            let event = self
                .step(shared, chosen)
                .map_err(|stop| self.broken(shared, chosen, stop))?;
            let (wave, state) = &mut self.waves[chosen];
            *state = match event {
                Event::Next => State::Runs,
                Event::Barrier => State::AtBarrier,
                Event::Preamble => State::AtPreamble,
                Event::End => State::Ended,
            };
            let limit = shared.launch.limit;
            if wave.counts.instructions > limit {
                return Err(self.broken(shared, chosen, Cause::Limit(limit).into()));
            }
            if *state != State::Runs {
                return Ok(issued + 1);
            }
        }
        Ok(burst)
    }

    fn step(&mut self, shared: &mut Shared<'_>, chosen: usize) -> Result<Event> {
        let (wave, _) = &mut self.waves[chosen];
        let (_, inst) = shared.code.fetch(shared.memory, wave.flow.pc)?;
        let inst = match inst {
            Ok(inst) => inst.clone(),
            Err(error) => return Err(Stop::rule(&rules::ENCODING, error.to_string())),
        };
        if wave.hazards.lacks_waits(&inst)
            && (inst.op == Op::End || shared.code.begins_block(shared.memory, wave.flow.pc)?)
        {
            wave.hazards.begin_block();
        }
        let mut core = Core {
            launch: shared.launch,
            memory: shared.memory,
            constants: shared.constants,
            preamble: shared.preamble,
            local: &mut self.local,
        };
        wave.step(&inst, &mut core)
    }

    fn broken(&self, shared: &mut Shared<'_>, chosen: usize, stop: Stop) -> Box<Broken> {
        let wave = self.waves.get(chosen).map(|(wave, _)| wave);
        let pc = wave.map_or(0, |wave| wave.flow.pc);
        let fetched = shared.code.fetch(shared.memory, pc).ok();
        let name = match fetched {
            Some((_, Ok(inst))) => inst.op.name(),
            _ => "",
        };
        Box::new(Broken {
            word: fetched.map(|(word, _)| *word),
            cause: *stop.cause,
            pc,
            name,
            group: self.id,
            wave: wave.map_or(0, |wave| wave.number),
            fiber: stop.fiber,
        })
    }
}

/// A wave before its first instruction: system values in their registers.
fn start(launch: &Launch, id: [u32; 3], number: u32, seat: u32) -> Result<Wave> {
    let mut regs = Registers::new(launch);
    let [width, height, _] = launch.local_size;
    let size = launch.wave_size();
    let mut local = [[0; LANES]; 3];
    let mut linear: Lanes = [0; LANES];
    let mut active: Mask = 0;
    for lane in 0..size {
        let fiber = number * size + lane;
        let at = [
            fiber % width,
            fiber / width % height,
            fiber / (width * height),
        ];
        // Those beyond the workgroup, or beyond the grid, do not run.
        let inside = u64::from(fiber) < launch.group_fibers()
            && (0..3).all(|d| {
                let global = u64::from(id[d]) * u64::from(launch.local_size[d]) + u64::from(at[d]);
                global < u64::from(launch.global_size[d])
            });
        let lane = lane as usize;
        active |= Mask::from(inside) << lane;
        linear[lane] = fiber;
        for (values, at) in local.iter_mut().zip(at) {
            values[lane] = at;
        }
    }
    let all = regs.all();
    let mut set = |register: Option<u8>, values: &[Lanes]| -> Result<()> {
        let Some(first) = register else {
            return Ok(());
        };
        for (n, value) in values.iter().enumerate() {
            regs.write(Reg::full(u16::from(first)).plus(n as u16), all, value)?;
        }
        Ok(())
    };
    let system = launch.system;
    set(system.local_id, &local)?;
    set(system.linear_local_id, &[linear])?;
    set(system.group_id, &id.map(|n| [n; LANES]))?;
    set(system.group_size, &launch.local_size.map(|n| [n; LANES]))?;
    let offset: [u32; 3] = std::array::from_fn(|d| id[d].wrapping_mul(launch.local_size[d]));
    set(system.group_offset, &offset.map(|n| [n; LANES]))?;
    let pc = launch.program + u64::from(launch.first);
    Ok(Wave {
        number,
        seat,
        regs,
        hazards: Hazards::new(),
        flow: Flow::new(pc, active, launch.branch_stack),
        predication: None,
        nops: 0,
        in_preamble: false,
        cycle: 0,
        counts: Counts::default(),
    })
}
