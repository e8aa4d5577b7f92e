//! Categories 2 to 4: arithmetic.

use drivers_spec::qcom::chip::{Chip, Gen};

use crate::arith::sfu;
use crate::arith::{self, Facts, Kind, Signs, float, integer};
use crate::fault::{Result, broken};
use crate::hazard::{Late, Ready, THIRD_READ};
use crate::inst::{Inst, Operand, Value};
use crate::op::Op;
use crate::regs::{A0, Lanes, P0};
use crate::rules;
use crate::wave::{Access, Core, Sort, Wave};

use super::{has_scalar_alu, is_own, is_shared};

/// Cycles until the result of category 4 is there: Mesa src/freedreno/ir3/ir3.h, `soft_ss_delay`.
const SFU_LATENCY: u64 = 10;

/// Integers beyond it are in the field, but Mesa never encodes them: ir3.c, `ir3_valid_immediate`.
const MAX_IMMEDIATE: i32 = 511;

fn constant(operand: &Operand) -> bool {
    matches!(operand.value, Value::Const(_) | Value::RelConst(_))
}

fn immediate(operand: &Operand) -> bool {
    matches!(operand.value, Value::Imm(_) | Value::Float(_))
}

/// What arithmetic takes whose result is a shared register: a scalar ALU, and no registers of fibers.
///
/// Source: Mesa src/freedreno/ir3/ir3.c, `ir3_valid_flags`; ir3_validate.c, `has_scalar_alu`.
fn check_shared(inst: &Inst, chip: &Chip) -> Result<()> {
    if !inst.dsts.first().is_some_and(is_shared) {
        return Ok(());
    }
    if !has_scalar_alu(chip) {
        let what = format!("{} has no scalar ALU for shared registers", chip.name);
        return broken(&rules::OPERANDS, what);
    }
    match inst.srcs.iter().any(is_own) {
        true => broken(
            &rules::OPERANDS,
            "a register of a fiber is a source, and the result is a shared register",
        ),
        false => Ok(()),
    }
}

/// Whether sources have 32 bits. Floats of the table and integers of category 3 have sizes of their own.
fn is_full(inst: &Inst) -> bool {
    let sized = |s: &&Operand| match s.value {
        Value::Float(_) => false,
        Value::Imm(_) => inst.op.category() != 3,
        _ => true,
    };
    let source = inst.srcs.iter().find(sized).or(inst.srcs.first());
    source.is_none_or(|s| !s.half)
}

impl Wave {
    pub(super) fn two_sources(&mut self, inst: &Inst, core: &Core<'_>) -> Result<()> {
        if matches!(inst.op, Op::BaryF | Op::FlatB) || inst.marks.ei {
            return broken(&rules::COMPUTE, "inputs are of fragment shaders");
        }
        let Some(facts) = arith::facts(inst.op) else {
            return broken(&rules::MEANING, inst.op.name());
        };
        let full = is_full(inst);
        check_two(inst, facts, full)?;
        check_shared(inst, core.launch.chip)?;
        for k in 0..=u16::from(inst.repeat) {
            let later = u64::from(k);
            let mut values = [[0; crate::regs::LANES]; 2];
            for (value, operand) in values.iter_mut().zip(&inst.srcs) {
                *value = self.operand(core, operand, k, facts, full, later)?;
            }
            let [a, b] = &values;
            let mut result = arith::category2(inst, full, a, b)?;
            if inst.marks.sat {
                for (lane, value) in result.iter_mut().enumerate() {
                    *value = integer::saturated(inst.op, full, a[lane], b[lane]).unwrap_or(*value);
                }
            }
            self.finish(inst, facts, full, result, k)?;
        }
        Ok(())
    }

    pub(super) fn three_sources(&mut self, inst: &Inst, core: &Core<'_>) -> Result<()> {
        let chip = core.launch.chip;
        let exists = match inst.op {
            Op::Dp2acc => chip.facts().dp2acc,
            Op::Dp4acc => chip.facts().dp4acc,
            Op::SadS16 | Op::SadS32 => chip.generation == Gen::Gen4,
            Op::Wmm | Op::WmmAccu => false,
            _ => true,
        };
        if !exists {
            return broken(
                &rules::COMPUTE,
                format!("{} on {}", inst.op.name(), chip.name),
            );
        }
        let Some(facts) = arith::facts(inst.op) else {
            return broken(&rules::MEANING, inst.op.name());
        };
        check_shared(inst, chip)?;
        let writes_shared = inst.dsts.first().is_some_and(is_shared);
        if inst.srcs.get(1).is_some_and(is_shared) && !writes_shared {
            return broken(&rules::OPERANDS, "the second source is shared");
        }
        if writes_shared && matches!(inst.op, Op::SadS16 | Op::SadS32) {
            // Mesa ir3_compiler_nir.c, iadd3.
            return broken(&rules::OPERANDS, "the scalar ALU has no sad");
        }
        let full = is_full(inst);
        let third = match inst.op {
            Op::MadU16
            | Op::MadS16
            | Op::MadU24
            | Op::MadS24
            | Op::MadF16
            | Op::MadF32
            | Op::MadshU16
            | Op::MadshM16 => THIRD_READ,
            _ => 0,
        };
        for k in 0..=u16::from(inst.repeat) {
            let mut values = [[0; crate::regs::LANES]; 3];
            for (n, (value, operand)) in values.iter_mut().zip(&inst.srcs).enumerate() {
                let later = u64::from(k) + if n == 2 { third } else { 0 };
                let signs = arith::signs_of(inst.op, chip, n, facts);
                let facts = Facts { signs, ..facts };
                *value = self.operand(core, operand, k, facts, full, later)?;
            }
            let [a, b, c] = &values;
            let result = arith::category3(inst, full, core.launch.arithmetic.fused, [a, b, c])?;
            self.finish(inst, facts, full, result, k)?;
        }
        Ok(())
    }

    fn operand(
        &mut self,
        core: &Core<'_>,
        operand: &Operand,
        k: u16,
        facts: Facts,
        full: bool,
        later: u64,
    ) -> Result<Lanes> {
        let is_float = matches!(facts.signs, Signs::Float | Signs::FloatNeg);
        let sort = if is_float { Sort::Float } else { Sort::Integer };
        let values = self.source(core, operand, k, sort, Access::alu(later))?;
        arith::signed(facts.signs, full, operand.abs, operand.neg, values)
    }

    /// Clamps, converts and writes a result.
    fn finish(
        &mut self,
        inst: &Inst,
        facts: Facts,
        full: bool,
        result: Lanes,
        k: u16,
    ) -> Result<()> {
        let Some(dst) = inst.dsts.first() else {
            return broken(&rules::OPERANDS, "no destination");
        };
        let result = match (inst.marks.sat, facts.kind) {
            (false, _) => result,
            (true, Kind::Float) => result.map(|v| float::saturate(v, full)),
            (true, _) if integer::saturated(inst.op, full, 0, 0).is_some() => result,
            (true, _) => return broken(&rules::MEANING, "(sat) of an integer"),
        };
        let number = match dst.value {
            Value::Reg(number) => u16::from(number),
            _ => return broken(&rules::OPERANDS, "the destination is relative"),
        };
        if (A0..P0).contains(&number) {
            // Of category 2 that is a predicate of a scalar unit, which generation 600 does not have.
            return broken(
                &rules::OPERANDS,
                "an address register is written by arithmetic",
            );
        }
        // Predicates take any size.
        let result = match number < P0 && dst.half == full {
            true => arith::resize(facts.kind, full, result),
            false => result,
        };
        self.result(dst, k, &result, k.into())
    }

    /// Category 4.
    pub(super) fn function(&mut self, inst: &Inst, core: &Core<'_>) -> Result<()> {
        check_shared(inst, core.launch.chip)?;
        let (Some(dst), Some(src)) = (inst.dsts.first(), inst.srcs.first()) else {
            return broken(&rules::OPERANDS, "an operand is missing");
        };
        if !matches!(src.value, Value::Reg(_)) || is_shared(src) != is_shared(dst) {
            return broken(
                &rules::OPERANDS,
                "the source of category 4 is a register, shared if the result is",
            );
        }
        if inst.op == Op::Rcp && inst.repeat > 0 {
            return broken(&rules::OPERANDS, "rcp does not repeat");
        }
        if inst.marks.sat {
            return broken(&rules::MEANING, "(sat) of category 4");
        }
        let mask = self.mask();
        let full = !src.half;
        let (to, from) = (Self::register(Some(dst))?, Self::register(Some(src))?);
        let last = u16::from(inst.repeat);
        for k in 0..=last {
            self.check(to.plus(k), mask)?;
        }
        for k in 0..=last {
            let from = from.plus(if src.advances { k } else { 0 });
            let access = Access {
                later: k.into(),
                ..Access::OTHER
            };
            let values = self.read(from, mask, access)?;
            let values = arith::signed(Signs::Float, full, src.abs, src.neg, values)?;
            let result = sfu::category4(inst.op, full, core.launch.arithmetic.ulp, mask, &values)?;
            let result = match dst.half == full {
                true => arith::resize(Kind::Float, full, result),
                false => result,
            };
            self.mark_late(from, mask, Late::Ss)?;
            self.write(to.plus(k), mask, &result, Ready::Ss(SFU_LATENCY), k.into())?;
        }
        Ok(())
    }
}

/// Operands of category 2.
fn check_two(inst: &Inst, facts: Facts, full: bool) -> Result<()> {
    let is_float = facts.signs == Signs::Float;
    for source in &inst.srcs {
        match source.value {
            Value::Float(_) if !is_float => {
                return broken(
                    &rules::OPERANDS,
                    "a float of the table is a source of an integer operation",
                );
            }
            Value::Float(_) if source.half == full => {
                return broken(
                    &rules::OPERANDS,
                    "a float of the table has another size than the operation",
                );
            }
            Value::Imm(_) if is_float => {
                return broken(
                    &rules::OPERANDS,
                    "an integer is a source of a float operation",
                );
            }
            Value::Imm(value) if !(-MAX_IMMEDIATE..=MAX_IMMEDIATE).contains(&(value as i32)) => {
                return broken(&rules::OPERANDS, format!("the immediate {}", value as i32));
            }
            _ => {}
        }
    }
    let [a, b] = inst.srcs.as_slice() else {
        return Ok(());
    };
    if immediate(a) && immediate(b) {
        return broken(&rules::OPERANDS, "both sources are immediates");
    }
    let uniform = |o: &Operand| constant(o) || is_shared(o);
    let writes_shared = inst.dsts.first().is_some_and(is_shared);
    // The scalar ALU takes two: Mesa 26.2, ir3.c, ir3_valid_flags; older versions gave it no two constants.
    if uniform(a) && uniform(b) && !writes_shared {
        return broken(
            &rules::OPERANDS,
            "both sources are constants or shared registers",
        );
    }
    Ok(())
}
