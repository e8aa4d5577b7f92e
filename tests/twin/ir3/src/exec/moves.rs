//! Category 1: moves and conversions.

use crate::arith::convert::moved;
use crate::fault::{Result, broken};
use crate::hazard::Ready;
use crate::inst::{Inst, Operand, Round, Type, Value};
use crate::op::Op;
use crate::regs::{A0, LANES, Lanes, Reg, same};
use crate::rules;
use crate::wave::{Access, Core, SHARED_LATENCY, Sort, Wave};

use super::{has_scalar_alu, is_own, is_shared};

fn relative(operand: &Operand) -> bool {
    matches!(operand.value, Value::RelReg(_) | Value::RelConst(_))
}

fn sort(ty: Type) -> Sort {
    if ty.float() {
        Sort::Float
    } else {
        Sort::Integer
    }
}

/// What conversions to shared registers take.
///
/// Source: Mesa src/freedreno/ir3/ir3.c, `ir3_valid_flags`: of registers of fibers none of floats, and none of bytes with
/// their sign; of shared ones none without a scalar ALU.
fn check_shared(core: &Core<'_>, dst: &Operand, src: &Operand, from: Type, to: Type) -> Result<()> {
    if !is_shared(dst) || from == to {
        return Ok(());
    }
    let of_bytes = from == Type::U8 && matches!(to, Type::S16 | Type::S32);
    let own = is_own(src) && (from.float() || to.float() || of_bytes);
    match own || is_shared(src) && !has_scalar_alu(core.launch.chip) {
        true => broken(
            &rules::OPERANDS,
            format!("a conversion of {from:?} to {to:?} in a shared register"),
        ),
        false => Ok(()),
    }
}

impl Wave {
    pub(super) fn moves(&mut self, inst: &Inst, core: &Core<'_>) -> Result<()> {
        if inst.dsts.iter().any(relative) && inst.srcs.iter().any(relative) {
            return broken(&rules::OPERANDS, "destination and source are both relative");
        }
        if inst.op == Op::Movmsk {
            return self.active_mask(inst);
        }
        let (Some(to), Some(from)) = (inst.mods.ty, inst.mods.src_ty) else {
            return broken(&rules::OPERANDS, "a move without types");
        };
        let round = inst.mods.round.unwrap_or(Round::Zero);
        match inst.op {
            Op::Mov => self.mov(inst, core, from, to, round),
            Op::Movs => self.broadcast(inst, core, from, to, round),
            _ => self.several(inst, core, from, to, round),
        }
    }

    fn mov(
        &mut self,
        inst: &Inst,
        core: &Core<'_>,
        from: Type,
        to: Type,
        round: Round,
    ) -> Result<()> {
        let ([dst], [src]) = (inst.dsts.as_slice(), inst.srcs.as_slice()) else {
            return broken(&rules::OPERANDS, "a move of other than one register");
        };
        check_shared(core, dst, src, from, to)?;
        for k in 0..=u16::from(inst.repeat) {
            let later = u64::from(k);
            let values = self.source(core, src, k, sort(from), Access::alu(later))?;
            let values = moved(values, from, to, round)?;
            self.result(dst, k, &values, later)?;
        }
        Ok(())
    }

    /// The value of one fiber, for a shared register; into others it is a plain move.
    ///
    /// Source: Mesa src/freedreno/isa/ir3-cat1.xml, `#instruction-cat1-movs`.
    fn broadcast(
        &mut self,
        inst: &Inst,
        core: &Core<'_>,
        from: Type,
        to: Type,
        round: Round,
    ) -> Result<()> {
        let ([dst], [src, fiber]) = (inst.dsts.as_slice(), inst.srcs.as_slice()) else {
            return broken(&rules::OPERANDS, "movs without a fiber");
        };
        if from == Type::U8 {
            return broken(&rules::MEANING, "movs of bytes");
        }
        let is_shared =
            matches!(dst.value, Value::Reg(number) if Reg::full(number.into()).is_shared());
        if !is_shared {
            let plain = Inst {
                srcs: vec![*src],
                ..inst.clone()
            };
            return self.mov(&plain, core, from, to, round);
        }
        let mask = self.mask();
        let fiber = match fiber.value {
            Value::Imm(fiber) => fiber,
            _ => {
                let values = self.read(Reg::full(A0), mask, Access::alu(0))?;
                match same(mask, &values) {
                    Some(fiber) => fiber,
                    None => {
                        return broken(&rules::UNIFORM, "the fiber of movs differs between fibers");
                    }
                }
            }
        };
        let lane = fiber as usize % LANES;
        for k in 0..=u16::from(inst.repeat) {
            let reg = Self::register(Some(src))?;
            let reg = reg.plus(if src.advances { k } else { 0 });
            let later = u64::from(k);
            let values = self.read(reg, 1 << lane, Access::alu(later))?;
            let values = moved([values[lane]; LANES], from, to, round)?;
            self.result(dst, k, &values, later)?;
        }
        Ok(())
    }

    /// swz, gat and sct: all sources are read before anything is written, one in each slot.
    fn several(
        &mut self,
        inst: &Inst,
        core: &Core<'_>,
        from: Type,
        to: Type,
        round: Round,
    ) -> Result<()> {
        let count = super::elements(inst) as u16;
        let mut values: Vec<Lanes> = Vec::new();
        for n in 0..count {
            let (src, k) = match inst.srcs.as_slice() {
                [one] => (
                    Operand {
                        advances: true,
                        ..*one
                    },
                    n,
                ),
                all => match all.get(usize::from(n)) {
                    Some(src) => (*src, 0),
                    None => return broken(&rules::OPERANDS, "too few sources"),
                },
            };
            let value = self.source(core, &src, k, sort(from), Access::alu(n.into()))?;
            values.push(moved(value, from, to, round)?);
        }
        for (n, value) in values.iter().enumerate() {
            let (dst, k) = match inst.dsts.as_slice() {
                [one] => (*one, n as u16),
                all => match all.get(n) {
                    Some(dst) => (*dst, 0),
                    None => return broken(&rules::OPERANDS, "too few destinations"),
                },
            };
            self.result(&dst, k, value, n as u64)?;
        }
        Ok(())
    }

    /// movmsk: the mask of running fibers, in words. Its users wait until all of it is written.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_delay.c, `ir3_delayslots_with_repeat`.
    fn active_mask(&mut self, inst: &Inst) -> Result<()> {
        let mask = self.mask();
        let first = Self::register(inst.dsts.first())?;
        let words = inst.mods.width / 32;
        for n in 0..words {
            let reg = first.plus(n);
            self.check(reg, mask)?;
            let value = (mask >> (32 * u32::from(n))) as u32;
            let ready = if reg.is_shared() {
                Ready::Ss(SHARED_LATENCY)
            } else {
                Ready::Slots
            };
            self.write(reg, mask, &[value; LANES], ready, u64::from(words) - 1)?;
        }
        Ok(())
    }
}
