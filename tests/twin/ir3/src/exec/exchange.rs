//! Exchange between fibers: shfl, quad_shuffle, brcst.active.
//!
//! Source: Mesa src/freedreno/isa/ir3-cat6.xml (shfl) and ir3-cat5.xml (quad_shuffle, brcst.active). What a fiber that
//! does not run would give is undefined, as in Vulkan: the result has no value then.

use super::Unit;
use super::local::LOCAL_LATENCY;
use crate::fault::{Result, broken};
use crate::hazard::{Late, Ready};
use crate::inst::{Inst, Shuffle};
use crate::op::Op;
use crate::regs::{LANES, Mask, Reg, lanes};
use crate::rules;
use crate::wave::{Core, Wave};

impl Wave {
    /// Each fiber takes a register of another.
    fn take(
        &mut self,
        to: Reg,
        from: Reg,
        late: Late,
        ready: Ready,
        of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        let mask = self.mask();
        let values = self.read_late(from, mask, late)?;
        let mut result = [0; LANES];
        let mut without: Mask = 0;
        for lane in lanes(mask) {
            match of(lane).filter(|&other| mask >> other & 1 != 0) {
                Some(other) => result[lane] = values[other],
                None => without |= 1 << lane,
            }
        }
        self.write(to, mask, &result, ready, 0)?;
        self.regs.undefine(to, without)
    }

    pub(super) fn shuffle(&mut self, inst: &Inst) -> Result<()> {
        let to = Self::register(inst.dsts.first())?;
        let from = Self::register(inst.srcs.first())?;
        let mask = self.mask();
        self.check(to, mask)?;
        let by = self.agreed(inst.srcs.get(1), Late::Ss, "the distance of shfl")? as usize;
        let size = self.regs.all().count_ones() as usize;
        let inside = |lane: usize| (lane < size).then_some(lane);
        let of = |lane: usize| match inst.mods.shuffle? {
            Shuffle::Xor => inside(lane ^ by),
            Shuffle::Up => lane.checked_sub(by),
            Shuffle::Down => inside(lane.saturating_add(by)),
            Shuffle::RotateUp => Some((lane + size - by % size) % size),
            Shuffle::RotateDown => Some((lane + by % size) % size),
        };
        self.take(to, from, Late::Ss, Ready::Ss(LOCAL_LATENCY), of)
    }

    /// getfiberid: the number of a fiber in its wave, which comes as results of category 4 do.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_compiler_nir.c, `nir_intrinsic_load_subgroup_invocation`; ir3.h, `is_sfu`.
    pub(super) fn fiber_number(&mut self, inst: &Inst) -> Result<()> {
        let (to, mask) = (Self::register(inst.dsts.first())?, self.mask());
        self.check(to, mask)?;
        let numbers = std::array::from_fn(|lane| lane as u32);
        self.write(to, mask, &numbers, Ready::Ss(LOCAL_LATENCY), 0)
    }

    pub(super) fn quad(&mut self, inst: &Inst, core: &Core<'_>) -> Result<()> {
        let to = Self::register(inst.dsts.first())?;
        let from = Self::register(inst.srcs.first())?;
        if inst.mods.mask != 1 {
            return broken(
                &rules::MEANING,
                format!("{} of other than one component", inst.op.name()),
            );
        }
        let ty = inst.mods.ty.is_some_and(|ty| ty.half());
        if ty != from.half {
            return broken(&rules::OPERANDS, "source and result have different sizes");
        }
        let mask = self.mask();
        self.check(to, mask)?;
        let fiber = match inst.op {
            Op::QuadBrcst => {
                let reg = Self::register(inst.srcs.get(1))?;
                self.read_late(reg, mask, Late::Either)?
            }
            _ => [0; LANES],
        };
        let of = |lane: usize| {
            Some(match inst.op {
                Op::QuadBrcst => lane & !3 | fiber[lane] as usize & 3,
                Op::QuadHoriz => lane ^ 1,
                Op::QuadVert => lane ^ 2,
                _ => lane ^ 3,
            })
        };
        let ready = Ready::Sy(super::latency(core, Unit::Texture, 1));
        self.take(to, from, Late::Either, ready, of)
    }

    /// The upper half of each cluster takes the value of the last running fiber of its lower half.
    pub(super) fn broadcast_active(&mut self, inst: &Inst, core: &Core<'_>) -> Result<()> {
        let to = Self::register(inst.dsts.first())?;
        let from = Self::register(inst.srcs.first())?;
        if inst.mods.mask != 1 {
            return broken(&rules::MEANING, "brcst.active of other than one component");
        }
        let mask = self.mask();
        self.check(to, mask)?;
        let values = self.read_late(from, mask, Late::Either)?;
        let half = usize::from(inst.mods.width) / 2;
        let mut result = [0; LANES];
        let mut written: Mask = 0;
        for lane in lanes(mask) {
            let cluster = lane / (2 * half).max(1) * 2 * half;
            if lane < cluster + half {
                continue;
            }
            let lower = (cluster..cluster + half).rev();
            if let Some(source) = lower.into_iter().find(|other| mask >> other & 1 != 0) {
                result[lane] = values[source];
                written |= 1 << lane;
            }
        }
        let ready = Ready::Sy(super::latency(core, Unit::Texture, 1));
        self.write(to, written, &result, ready, 0)?;
        self.note(to, mask, ready, 0)
    }
}
