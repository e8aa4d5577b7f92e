//! A wave: its registers, where its fibers are, and how instructions reach operands.

use crate::arith::convert::{convert, to_half};
use crate::arith::float::TABLE;
use crate::fault::{Result, Stop, broken};
use crate::flow::Flow;
use crate::hazard::{Hazards, Late, Reader, Ready};
use crate::inst::{Inst, Operand, Round, Type, Value};
use crate::launch::{FIRST_SHARED_CONSTANT, Launch};
use crate::local::Local;
use crate::memory::Memory;
use crate::regs::{A0, A1, LANES, Lanes, Mask, Reg, Registers, lanes, same};
use crate::rules;

/// What the waves of a launch share, at one step.
pub struct Core<'a> {
    pub launch: &'a Launch,
    pub memory: &'a mut dyn Memory,
    /// The constant file, which a preamble may write.
    pub constants: &'a mut Vec<Option<u32>>,
    pub preamble: &'a mut Preamble,
    pub local: &'a mut Local,
}

/// Who runs the preamble, between shps and shpe: one wave, before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// Nobody yet.
    Open,
    /// A wave does.
    Running,
    /// It was run.
    Done,
}

/// What a step comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next instruction.
    Next,
    /// The wave waits for the others at a barrier.
    Barrier,
    /// The wave waits for the preamble, at the same instruction.
    Preamble,
    /// The wave ended.
    End,
}

/// Counts of a wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Slots: repetitions and nops too.
    pub slots: u64,
    /// Cycles in which it issued.
    pub issue: u64,
    /// Cycles in which it waited for (ss).
    pub ss: u64,
    /// Cycles in which it waited for (sy).
    pub sy: u64,
}

pub struct Wave {
    /// Its number in the workgroup.
    pub number: u32,
    /// Its place among the waves that a shader processor holds, for private memory.
    pub seat: u32,
    pub regs: Registers,
    pub hazards: Hazards,
    pub flow: Flow,
    /// The predication mask and whether its fibers run, else the others.
    pub predication: Option<(Mask, bool)>,
    /// Nops that predication still needs behind it.
    pub nops: u64,
    /// Whether it runs the preamble.
    pub in_preamble: bool,
    pub cycle: u64,
    pub counts: Counts,
}

/// Which unit an instruction is of, for its operands.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub reader: Reader,
    /// Slots after the instruction's first.
    pub later: u64,
}

impl Access {
    pub const OTHER: Self = Self {
        reader: Reader::Other,
        later: 0,
    };

    pub fn alu(later: u64) -> Self {
        Self {
            reader: Reader::Alu,
            later,
        }
    }
}

/// The values of constants that are halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Float,
    Integer,
}

impl Wave {
    /// The fibers that run.
    pub fn mask(&self) -> Mask {
        match self.predication {
            None => self.flow.active,
            Some((mask, true)) => self.flow.active & mask,
            Some((mask, false)) => self.flow.active & !mask,
        }
    }

    /// Reads a register after checking that it is ready.
    pub fn read(&mut self, reg: Reg, mask: Mask, access: Access) -> Result<Lanes> {
        self.check_source(reg, mask, access)?;
        self.regs.read(reg, mask)
    }

    fn check_source(&mut self, reg: Reg, mask: Mask, access: Access) -> Result<()> {
        let slots = self.regs.slots(reg)?;
        let lanes = whole(reg, mask);
        let Access { reader, later } = access;
        self.hazards.source(reg, slots, lanes, reader, later)
    }

    /// Reads a register that its instruction reads late.
    pub fn read_late(&mut self, reg: Reg, mask: Mask, late: Late) -> Result<Lanes> {
        let values = self.read(reg, mask, Access::OTHER)?;
        self.mark_late(reg, mask, late)?;
        Ok(values)
    }

    pub fn mark_late(&mut self, reg: Reg, mask: Mask, late: Late) -> Result<()> {
        let slots = self.regs.slots(reg)?;
        self.hazards.late(slots, whole(reg, mask), late);
        Ok(())
    }

    /// Checks that a register may be written.
    pub fn check(&mut self, reg: Reg, mask: Mask) -> Result<()> {
        let slots = self.regs.slots(reg)?;
        self.hazards.destination(reg, slots, whole(reg, mask))
    }

    /// Writes a register.
    pub fn write(
        &mut self,
        reg: Reg,
        mask: Mask,
        values: &Lanes,
        ready: Ready,
        later: u64,
    ) -> Result<()> {
        self.regs.write(reg, mask, values)?;
        self.note(reg, mask, ready, later)
    }

    /// Notes when a register that was written is ready.
    pub fn note(&mut self, reg: Reg, mask: Mask, ready: Ready, later: u64) -> Result<()> {
        let slots = self.regs.slots(reg)?;
        let mask = whole(reg, mask);
        self.hazards
            .write(reg, slots, mask, ready, later, self.cycle);
        if let Some(alias) = self.regs.alias(reg) {
            self.hazards.alias(alias, !reg.half, mask, ready);
        }
        Ok(())
    }

    /// a0.x of each fiber, with its sign.
    pub fn address(&mut self, mask: Mask, access: Access) -> Result<Lanes> {
        let values = self.read(Reg::full(A0), mask, access)?;
        Ok(values.map(|value| value as u16 as i16 as u32))
    }

    /// a1.x.
    pub fn address1(&mut self, mask: Mask) -> Result<u32> {
        let values = self.read(Reg::full(A1), mask, Access::OTHER)?;
        Ok(values[0])
    }

    /// The register that a0.x and an offset give for a fiber.
    fn relative(address: u32, offset: i16, k: u16, half: bool) -> Result<Reg> {
        let number = i64::from(address as i32) + i64::from(offset) + i64::from(k);
        match u16::try_from(number) {
            Ok(number) if number < crate::regs::SHARED => Ok(Reg { number, half }),
            _ => broken(
                &rules::REGISTER,
                format!("a0.x gives register component {number}"),
            ),
        }
    }

    /// A source of arithmetic, at the k-th repetition.
    pub fn source(
        &mut self,
        core: &Core<'_>,
        operand: &Operand,
        k: u16,
        sort: Sort,
        access: Access,
    ) -> Result<Lanes> {
        let mask = self.mask();
        let k = if operand.advances { k } else { 0 };
        let half = operand.half;
        match operand.value {
            Value::Reg(number) => {
                let number = u16::from(number);
                self.read(Reg { number, half }.plus(k), mask, access)
            }
            Value::RelReg(offset) => {
                let address = self.address(mask, access)?;
                let mut values = [0; LANES];
                for lane in lanes(mask) {
                    let reg = Self::relative(address[lane], offset, k, half)?;
                    values[lane] = self.read(reg, 1 << lane, access)?[lane];
                }
                Ok(values)
            }
            Value::Const(number) => {
                let value = self.constant(core, u32::from(number) + u32::from(k), half, sort)?;
                Ok([value; LANES])
            }
            Value::RelConst(offset) => {
                let address = self.address(mask, access)?;
                let mut values = [0; LANES];
                for lane in lanes(mask) {
                    let number = i64::from(address[lane] as i32) + i64::from(offset) + i64::from(k);
                    let Ok(number) = u32::try_from(number) else {
                        let what = format!("a0.x gives constant component {number}");
                        return Err(Stop::rule(&rules::CONST_RANGE, what).of(lane));
                    };
                    values[lane] = self.constant(core, number, half, sort)?;
                }
                Ok(values)
            }
            Value::Imm(value) => Ok([if half { value & 0xffff } else { value }; LANES]),
            Value::Float(entry) => {
                let (single, half_bits) =
                    TABLE.get(usize::from(entry)).copied().unwrap_or_default();
                Ok([if half { half_bits.into() } else { single }; LANES])
            }
            Value::A1Const(_) => broken(&rules::OPERANDS, "a constant to be stored is read"),
        }
    }

    /// A constant. With demotion, half constants are 32-bit ones, converted; else they are packed.
    ///
    /// Source: Mesa src/freedreno/registers/adreno/a6xx.xml, SP_MODE_CNTL (CONSTANT_DEMOTION_ENABLE).
    fn constant(&self, core: &Core<'_>, number: u32, half: bool, sort: Sort) -> Result<u32> {
        let packed = half && !core.launch.constant_demotion;
        let dword = if packed { number / 2 } else { number };
        self.hazards.constant(dword)?;
        let shared = core.launch.descriptors.shared_constants.as_ref();
        let shared = dword
            .checked_sub(FIRST_SHARED_CONSTANT)
            .and_then(|at| shared?.get(at as usize));
        if shared.is_none() && dword >= core.launch.const_dwords {
            let (vector, count) = (dword / 4, core.launch.const_dwords / 4);
            return broken(&rules::CONST_RANGE, format!("c{vector} of {count}"));
        }
        let found = shared.or_else(|| core.constants.get(dword as usize));
        let Some(Some(value)) = found.copied() else {
            let component = ['x', 'y', 'z', 'w'][dword as usize & 3];
            let what = format!("c{}.{component} is read and was never loaded", dword / 4);
            return broken(&rules::CONST_UNDEFINED, what);
        };
        Ok(match (half, packed, sort) {
            (false, ..) => value,
            (true, true, _) => value >> (number % 2 * 16) & 0xffff,
            (true, false, Sort::Float) => to_half(f32::from_bits(value)).into(),
            (true, false, Sort::Integer) => convert(value, Type::U32, Type::U16, Round::Zero),
        })
    }

    /// The result of arithmetic, at the k-th repetition.
    pub fn result(&mut self, operand: &Operand, k: u16, values: &Lanes, later: u64) -> Result<()> {
        let mask = self.mask();
        let half = operand.half;
        match operand.value {
            Value::Reg(number) => {
                let number = u16::from(number);
                let reg = Reg { number, half }.plus(k);
                self.check(reg, mask)?;
                // Who writes a shared register is waited for, but within the scalar ALU.
                let ready = match reg.is_shared() {
                    true => self.hazards.shared(SHARED_LATENCY),
                    false => Ready::Slots,
                };
                self.write(reg, mask, values, ready, later)
            }
            Value::RelReg(offset) => {
                let address = self.address(mask, Access::alu(later))?;
                for lane in lanes(mask) {
                    let reg = Self::relative(address[lane], offset, k, half)?;
                    self.check(reg, 1 << lane)?;
                    self.write(reg, 1 << lane, values, Ready::Slots, later)?;
                }
                Ok(())
            }
            _ => broken(&rules::OPERANDS, "a destination is no register"),
        }
    }

    /// The register of an operand of another unit.
    pub fn register(operand: Option<&Operand>) -> Result<Reg> {
        match operand.map(|o| (o.value, o.half)) {
            Some((Value::Reg(number), half)) => Ok(Reg {
                number: number.into(),
                half,
            }),
            _ => broken(&rules::OPERANDS, "an operand is no register"),
        }
    }

    /// A register or an immediate that all fibers agree on.
    pub fn agreed(&mut self, operand: Option<&Operand>, late: Late, what: &str) -> Result<u32> {
        if let Some(Value::Imm(value)) = operand.map(|o| o.value) {
            return Ok(value);
        }
        let mask = self.mask();
        let values = self.read_late(Self::register(operand)?, mask, late)?;
        if mask == 0 {
            return Ok(0);
        }
        match same(mask, &values) {
            Some(value) => Ok(value),
            None => broken(&rules::UNIFORM, format!("{what} differs between fibers")),
        }
    }

    /// The address that a branch leads to.
    pub fn target(&self, inst: &Inst) -> u64 {
        inst.target(self.flow.pc).unwrap_or(self.flow.pc)
    }
}

/// Cycles until a shared register that a vector instruction wrote is ready: Mesa src/freedreno/ir3/ir3.h,
/// `soft_ss_delay`.
pub const SHARED_LATENCY: u64 = 6;

/// Registers that the wave shares are those of all fibers.
fn whole(reg: Reg, mask: Mask) -> Mask {
    match reg.is_shared() || reg.number == A1 {
        true if mask != 0 => Mask::MAX,
        _ => mask,
    }
}
