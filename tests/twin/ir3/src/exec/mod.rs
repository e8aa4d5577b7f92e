//! What instructions do to a wave.

mod alu;
mod atomic;
mod constant;
mod descriptor;
mod exchange;
mod flow;
mod global;
mod image;
mod local;
mod moves;
mod texture;

use drivers_spec::qcom::chip::{Chip, Gen};

use crate::fault::{Cause, Result, broken};
use crate::hazard::Late;
use crate::inst::{Inst, Operand, Value};
use crate::launch::ThreadSize;
use crate::memory::Path;
use crate::op::Op;
use crate::regs::{A0, Reg};
use crate::rules;
use crate::wave::{Core, Event, Wave};

/// Whether a chip has a scalar ALU, which runs arithmetic on registers that a wave shares.
///
/// Source: Mesa src/freedreno/common/freedreno_devices.py, `has_scalar_alu` of `a6xx_gen3` and `a6xx_gen4`.
fn has_scalar_alu(chip: &Chip) -> bool {
    chip.generation >= Gen::Gen3
}

/// Whether an operand is a register that a wave shares.
fn is_shared(operand: &Operand) -> bool {
    matches!(operand.value, Value::Reg(number) if Reg::full(number.into()).is_shared())
}

/// Whether an operand is a register of each fiber.
fn is_own(operand: &Operand) -> bool {
    match operand.value {
        Value::Reg(_) => !is_shared(operand),
        Value::RelReg(_) => true,
        _ => false,
    }
}

/// Whether the scalar ALU runs an instruction. Moves from registers of fibers to shared ones are done elsewhere, and so
/// is movmsk.
///
/// Source: Mesa src/freedreno/ir3/ir3.c, `is_scalar_alu`.
fn is_scalar(inst: &Inst, chip: &Chip) -> bool {
    has_scalar_alu(chip)
        && (1..=3).contains(&inst.op.category())
        && inst.dsts.first().is_some_and(is_shared)
        && match inst.op {
            Op::Movmsk | Op::Movs => false,
            Op::Mov => !inst.srcs.iter().any(is_own),
            _ => true,
        }
}

/// Slots of an instruction: what Mesa counts as time that passes for arithmetic. The scalar ALU takes none.
///
/// Source: Mesa src/freedreno/ir3/ir3_legalize.c, `count_instruction`; ir3_lower_parallelcopy.c (repetitions of swz, gat
/// and sct).
fn slots(inst: &Inst, scalar: bool) -> u64 {
    let counted = match inst.op.category() {
        0 => !matches!(inst.op, Op::Jump | Op::Br | Op::Braa | Op::Brao),
        1..=3 => true,
        _ => false,
    };
    match (counted, scalar) {
        (true, false) => elements(inst) + u64::from(inst.nop),
        (true, true) => inst.nop.into(),
        (false, _) => 0,
    }
}

/// How often an instruction computes.
fn elements(inst: &Inst) -> u64 {
    match inst.op {
        Op::Swz => 2,
        Op::Gat | Op::Sct => 4,
        Op::Movmsk => u64::from(inst.mods.width / 32),
        _ => u64::from(inst.repeat) + 1,
    }
}

/// Cycles in which an instruction issues. Waves of double size take two, but for halves without conversion.
///
/// Source: Mesa src/freedreno/ir3/ir3.h, comment in `soft_sy_delay`.
fn issue(inst: &Inst, size: ThreadSize) -> u64 {
    let halves = inst
        .dsts
        .iter()
        .chain(&inst.srcs)
        .all(|operand| operand.half);
    let is_alu = (1..=3).contains(&inst.op.category());
    let times = match size {
        ThreadSize::Thread128 if is_alu && !halves => 2,
        _ => 1,
    };
    elements(inst) * times + u64::from(inst.nop)
}

impl Wave {
    /// Runs the instruction at the wave's address.
    pub fn step(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<Event> {
        self.flow.arrive(inst.marks.jp)?;
        self.settle(inst)?;
        let scalar = is_scalar(inst, core.launch.chip);
        self.hazards.unit(scalar);
        let (ss, sy) = self.hazards.begin(inst, self.cycle)?;
        self.cycle += ss + sy;
        self.counts.ss += ss;
        self.counts.sy += sy;
        let event = match inst.op.category() {
            0 => self.flow(inst, core)?,
            category => {
                match category {
                    1 => self.moves(inst, core)?,
                    2 => self.two_sources(inst, core)?,
                    3 => self.three_sources(inst, core)?,
                    4 => self.function(inst, core)?,
                    5 => self.texture(inst, core)?,
                    6 => self.memory(inst, core)?,
                    _ => {}
                }
                if (1..=3).contains(&category) {
                    self.sources_of_shared(inst, scalar)?;
                }
                let event = if category == 7 {
                    self.synchronize(inst)?
                } else {
                    Event::Next
                };
                self.flow.next();
                event
            }
        };
        if event == Event::Preamble {
            return Ok(event);
        }
        let (slots, issue) = (slots(inst, scalar), issue(inst, core.launch.thread_size));
        self.hazards.pass(slots);
        self.cycle += issue;
        self.counts.issue += issue;
        self.counts.slots += slots.max(1);
        self.counts.instructions += 1;
        Ok(event)
    }

    /// An instruction that writes a shared register reads its sources late. The scalar ALU runs in order.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3.h, `is_war_hazard_producer` and `is_ss_producer`; ir3_legalize.c,
    /// needs_ss_scalar_war.
    fn sources_of_shared(&mut self, inst: &Inst, scalar: bool) -> Result<()> {
        let reg = |operand: &Operand| match operand.value {
            Value::Reg(number) => Some(Reg {
                number: number.into(),
                half: operand.half,
            }),
            _ => None,
        };
        if !inst.dsts.iter().filter_map(reg).any(Reg::is_shared) {
            return Ok(());
        }
        let mask = self.mask();
        let late = if scalar { Late::Scalar } else { Late::Ss };
        let relative = |s: &Operand| matches!(s.value, Value::RelConst(_));
        if scalar && inst.srcs.iter().any(relative) {
            self.mark_late(Reg::full(A0), mask, late)?;
        }
        for source in &inst.srcs {
            let last = if source.advances {
                u16::from(inst.repeat)
            } else {
                0
            };
            for k in 0..=last {
                if let Some(reg) = reg(source) {
                    self.mark_late(reg.plus(k), mask, late)?;
                }
            }
        }
        Ok(())
    }

    fn memory(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        if let Some((change, target)) = inst.op.atomic() {
            return self.atomic(inst, core, change, target);
        }
        match inst.op {
            Op::Ldg | Op::LdgA => self.load_global(inst, core),
            Op::Stg | Op::StgA => self.store_global(inst, core),
            Op::Ldl => self.load_local(inst, core),
            Op::Stl => self.store_local(inst, core),
            Op::Ldp => self.load_private(inst, core),
            Op::Stp => self.store_private(inst, core),
            Op::Ldc => self.load_constant(inst, core),
            Op::LdcK => self.load_constants(inst, core),
            Op::Stc => self.store_constant(inst, core),
            Op::LdibB => self.load_image(inst, core),
            Op::StibB => self.store_image(inst, core),
            Op::ResinfoB | Op::Resinfo => self.image_size(inst, core),
            Op::Shfl => self.shuffle(inst),
            // Vertices, tessellation and geometry.
            Op::Ldlv | Op::Ldlw | Op::Stlw => broken(&rules::COMPUTE, inst.op.name()),
            Op::Getfiberid if !core.launch.chip.facts().getfiberid => {
                broken(&rules::COMPUTE, inst.op.name())
            }
            Op::Getfiberid => self.fiber_number(inst),
            _ => broken(&rules::MEANING, inst.op.name()),
        }
    }

    /// Barriers and fences. A fence orders memory, which is in order here.
    fn synchronize(&mut self, inst: &Inst) -> Result<Event> {
        match inst.op {
            Op::Bar => {
                if self.flow.is_divergent() || self.predication.is_some() {
                    let what = format!("{} fibers are here", self.mask().count_ones());
                    return broken(&rules::BARRIER_DIVERGENT, what);
                }
                self.hazards.force(true);
                Ok(Event::Barrier)
            }
            Op::Fence => {
                self.hazards.force(true);
                Ok(Event::Next)
            }
            Op::Sleep => Ok(Event::Next),
            _ => broken(&rules::MEANING, inst.op.name()),
        }
    }
}

impl Core<'_> {
    /// Reads memory for a fiber.
    fn read(&mut self, path: Path, address: u64, into: &mut [u8]) -> Result<()> {
        let bytes = into.len();
        self.memory.read(path, address, into).map_err(|why| {
            let write = false;
            Cause::Memory {
                path,
                write,
                address,
                bytes,
                why,
            }
            .into()
        })
    }

    /// Writes memory for a fiber.
    fn write(&mut self, address: u64, from: &[u8]) -> Result<()> {
        self.memory
            .write(address, from)
            .map_err(|why| refused(address, from.len(), why).into())
    }

    /// Changes memory in one step.
    fn change(&mut self, address: u64, bytes: usize, change: &dyn Fn(u64) -> u64) -> Result<u64> {
        if !address.is_multiple_of(bytes as u64) {
            return broken(
                &rules::ALIGN,
                format!("an atomic of {bytes} bytes at {address:#x}"),
            );
        }
        self.memory
            .atomic(address, bytes, change)
            .map_err(|why| refused(address, bytes, why).into())
    }
}

fn refused(address: u64, bytes: usize, why: crate::memory::Denied) -> Cause {
    Cause::Memory {
        path: Path::Uche,
        write: true,
        address,
        bytes,
        why,
    }
}

/// Which unit answers, for how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Texture,
    Constants,
    Memory,
}

/// Cycles until a result of so many components is there, where caches hit.
///
/// Source: Mesa src/freedreno/ir3/ir3.h, `soft_sy_delay`: measured.
fn latency(core: &Core<'_>, unit: Unit, components: u16) -> u64 {
    let n = u64::from(components);
    let double = core.launch.thread_size == ThreadSize::Thread128;
    match (unit, double, components) {
        (Unit::Constants, true, _) => 21 + 8 * n,
        (Unit::Constants, false, _) => 18 + 4 * n,
        (Unit::Texture, true, 0 | 1) => 58,
        (Unit::Texture, true, 2) => 60,
        (Unit::Texture, true, 3) => 77,
        (Unit::Texture, true, _) => 79,
        (Unit::Texture, false, 0 | 1) => 51,
        (Unit::Texture, false, 2) => 53,
        (Unit::Texture, false, 3) => 62,
        (Unit::Texture, false, _) => 64,
        (Unit::Memory, true, _) => 172 + n,
        (Unit::Memory, false, _) => 109 + n,
    }
}

/// A number of 1, 2 or 4 bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u32::from(*byte))
}
