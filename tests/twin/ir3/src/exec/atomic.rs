//! Atomic operations on local memory, addresses and images.
//!
//! Source: Mesa src/freedreno/ir3/ir3_a6xx.c (`emit_intrinsic_atomic_ssbo`, `emit_intrinsic_atomic_global`) and
//! ir3_compiler_nir.c (`emit_intrinsic_atomic_shared`): a comparison takes the new value and then the expected one;
//! those on images take a vector whose first register becomes the result. Fibers come in the order of their numbers.

use super::Unit;
use super::image::element;
use super::local::LOCAL_LATENCY;
use crate::fault::{Result, Stop, broken};
use crate::hazard::{Late, Ready};
use crate::inst::{Inst, Operand, Type, Value};
use crate::op::{Atomic, Target};
use crate::regs::{LANES, Lanes, Mask, lanes};
use crate::rules;
use crate::wave::{Core, Wave};

/// The new value of an operation on 32 bits.
pub(super) fn changed(operation: Atomic, ty: Type, old: u32, value: u32, expected: u32) -> u32 {
    let signed = ty == Type::S32;
    match operation {
        Atomic::Add => old.wrapping_add(value),
        Atomic::Sub => old.wrapping_sub(value),
        Atomic::Xchg => value,
        Atomic::Inc => old.wrapping_add(1),
        Atomic::Dec => old.wrapping_sub(1),
        Atomic::Cmpxchg => {
            if old == expected {
                value
            } else {
                old
            }
        }
        Atomic::Min if signed => (old as i32).min(value as i32) as u32,
        Atomic::Max if signed => (old as i32).max(value as i32) as u32,
        Atomic::Min => old.min(value),
        Atomic::Max => old.max(value),
        Atomic::And => old & value,
        Atomic::Or => old | value,
        Atomic::Xor => old ^ value,
    }
}

impl Wave {
    pub(super) fn atomic(
        &mut self,
        inst: &Inst,
        core: &mut Core<'_>,
        operation: Atomic,
        target: Target,
    ) -> Result<()> {
        let ty = match inst.mods.ty {
            Some(ty @ (Type::U32 | Type::S32)) => ty,
            ty => return broken(&rules::MEANING, format!("an atomic of the type {ty:?}")),
        };
        if inst.mods.count != 1 {
            return broken(
                &rules::COUNT,
                format!("an atomic of {} components", inst.mods.count),
            );
        }
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        self.check(to, mask)?;
        if target == Target::Image {
            return self.image_atomic(inst, core, operation, ty);
        }
        let (value, expected) = self.data(inst.srcs.get(1), operation, mask)?;
        let change =
            |old: u32, lane: usize| changed(operation, ty, old, value[lane], expected[lane]);
        let mut result = [0; LANES];
        let ready = if target == Target::Local {
            let at = self.scalar(inst.srcs.first(), mask)?;
            for lane in lanes(mask) {
                let old = core
                    .local
                    .atomic(self.number, at[lane], |old| change(old, lane));
                result[lane] = old.map_err(|stop| stop.of(lane))?;
            }
            Ready::Ss(LOCAL_LATENCY)
        } else {
            let base = Self::register(inst.srcs.first())?;
            let low = self.read_late(base, mask, Late::Either)?;
            let high = self.read_late(base.plus(1), mask, Late::Either)?;
            for lane in lanes(mask) {
                let at = u64::from(high[lane]) << 32 | u64::from(low[lane]);
                result[lane] = change_global(core, at, lane, &change)?;
            }
            Ready::Sy(super::latency(core, Unit::Memory, 1))
        };
        self.write(to, mask, &result, ready, 0)
    }

    /// A register or an immediate.
    fn scalar(&mut self, operand: Option<&Operand>, mask: Mask) -> Result<Lanes> {
        match operand.map(|o| o.value) {
            Some(Value::Imm(value)) => Ok([value; LANES]),
            _ => self.read_late(Self::register(operand)?, mask, Late::Either),
        }
    }

    /// The value of an operation, and of a comparison the expected one behind it.
    fn data(
        &mut self,
        operand: Option<&Operand>,
        operation: Atomic,
        mask: Mask,
    ) -> Result<(Lanes, Lanes)> {
        let value = self.scalar(operand, mask)?;
        let expected = match operation {
            Atomic::Cmpxchg => {
                self.read_late(Self::register(operand)?.plus(1), mask, Late::Either)?
            }
            _ => [0; LANES],
        };
        Ok((value, expected))
    }

    fn image_atomic(
        &mut self,
        inst: &Inst,
        core: &mut Core<'_>,
        operation: Atomic,
        ty: Type,
    ) -> Result<()> {
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        let places = self.places(inst, core, mask, Late::Either)?;
        let value = self.read_late(to.plus(1), mask, Late::Either)?;
        let expected = match operation {
            Atomic::Cmpxchg => self.read_late(to.plus(2), mask, Late::Either)?,
            _ => [0; LANES],
        };
        let change =
            |old: u32, lane: usize| changed(operation, ty, old, value[lane], expected[lane]);
        let mut result = [0; LANES];
        for lane in lanes(mask) {
            let mut image = places.image(core, lane)?;
            if inst.mods.typed {
                if image.format.count != 1 || image.format.bits != 32 {
                    let what = format!("an atomic on {}", image.format.name);
                    return Err(Stop::rule(&rules::IMAGE_TYPE, what).of(lane));
                }
            } else {
                image = element(core, &image, ty).map_err(|stop| stop.of(lane))?;
            }
            // Outside of the image nothing happens, and the result is 0.
            if let Some(at) = image.inside(places.at(lane, 0)) {
                let at = core.place(&image, at).map_err(|stop| stop.of(lane))?;
                result[lane] = change_global(core, at, lane, &change)?;
            }
        }
        let ready = Ready::Sy(super::latency(core, Unit::Memory, 1));
        self.write(to, mask, &result, ready, 0)
    }
}

fn change_global(
    core: &mut Core<'_>,
    at: u64,
    lane: usize,
    change: &impl Fn(u32, usize) -> u32,
) -> Result<u32> {
    let change = |old: u64| u64::from(change(old as u32, lane));
    let old = core.change(at, 4, &change).map_err(|stop| stop.of(lane))?;
    Ok(old as u32)
}
