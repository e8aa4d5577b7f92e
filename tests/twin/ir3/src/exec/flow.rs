//! Category 0: control flow.

use drivers_spec::qcom::chip::Gen;

use crate::fault::{Result, broken};
use crate::inst::{Inst, Operand, Value};
use crate::op::Op;
use crate::regs::{Mask, P0, Reg};
use crate::rules;
use crate::wave::{Access, Core, Event, Preamble, Wave};

impl Wave {
    pub(super) fn flow(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<Event> {
        let mask = self.mask();
        let branches = !matches!(inst.op, Op::Nop | Op::Predt | Op::Predf | Op::Prede);
        if branches && self.predication.is_some() {
            return broken(&rules::PREDICATED_FLOW, inst.op.name());
        }
        let taken = match inst.op {
            Op::Nop => {
                self.flow.next();
                return Ok(Event::Next);
            }
            Op::End => {
                return Ok(if self.flow.end() {
                    Event::End
                } else {
                    Event::Next
                });
            }
            Op::Predt | Op::Predf | Op::Prede => return self.predicate(inst, core),
            Op::Call => {
                let target = self.target(inst);
                self.flow.call(target, core.launch.private.stack as usize)?;
                return Ok(Event::Next);
            }
            Op::Ret => {
                self.flow.ret()?;
                return Ok(Event::Next);
            }
            Op::Shps => return self.begin_preamble(inst, core),
            Op::Shpe => {
                if !std::mem::take(&mut self.in_preamble) {
                    return broken(&rules::PREAMBLE, "shpe without shps");
                }
                *core.preamble = Preamble::Done;
                self.flow.next();
                return Ok(Event::Next);
            }
            Op::Jump => mask,
            Op::Br => self.condition(inst.srcs.first(), mask)?,
            Op::Brao => {
                self.condition(inst.srcs.first(), mask)? | self.condition(inst.srcs.get(1), mask)?
            }
            Op::Braa => {
                self.condition(inst.srcs.first(), mask)? & self.condition(inst.srcs.get(1), mask)?
            }
            Op::Bany => match self.condition(inst.srcs.first(), mask)? {
                0 => 0,
                _ => mask,
            },
            Op::Ball => match self.condition(inst.srcs.first(), mask)? == mask {
                true => mask,
                false => 0,
            },
            Op::Brac => match core.launch.booleans >> inst.mods.index & 1 {
                0 => 0,
                _ => mask,
            },
            // All but one fiber go: Mesa src/freedreno/ir3/ir3_lower_subgroups.c, OPC_ELECT_MACRO. Which one stays is
            // the hardware's choice.
            Op::Getone => mask & mask.wrapping_sub(1),
            Op::Kill | Op::Emit | Op::Cut | Op::Chmask | Op::Chsh => {
                return broken(&rules::COMPUTE, inst.op.name());
            }
            _ => return broken(&rules::MEANING, inst.op.name()),
        };
        let target = self.target(inst);
        self.flow.branch(taken, target)?;
        Ok(Event::Next)
    }

    /// The fibers of a mask for which a condition holds.
    fn condition(&mut self, operand: Option<&Operand>, mask: Mask) -> Result<Mask> {
        let (component, neg) = match operand.map(|o| (o.value, o.neg)) {
            Some((Value::Reg(number), neg)) => (u16::from(number) & 3, neg),
            _ => return broken(&rules::OPERANDS, "a condition is no predicate"),
        };
        let reg = Reg::full(P0 + component);
        self.read(reg, mask, Access::OTHER)?;
        let set = self.regs.predicate(component.into(), mask)?;
        Ok(mask & if neg { !set } else { set })
    }

    /// Predicated code: the mask is p0.x, the mode says which fibers of it run.
    ///
    /// Source: Mesa src/freedreno/isa/ir3-cat0.xml, documentation of predt.
    fn predicate(&mut self, inst: &Inst, core: &Core<'_>) -> Result<Event> {
        let generation = core.launch.chip.generation;
        self.nops = match (inst.op, self.predication) {
            (Op::Prede, _) if generation >= Gen::Gen3 => 6,
            (Op::Predt | Op::Predf, Some(_)) if generation >= Gen::Gen4 => 4,
            _ => 0,
        };
        self.predication = match inst.op {
            Op::Prede => None,
            op => {
                let active = self.flow.active;
                self.read(Reg::full(P0), active, Access::OTHER)?;
                let mask = self.regs.predicate(0, active)?;
                Some((mask, op == Op::Predt))
            }
        };
        self.flow.next();
        Ok(Event::Next)
    }

    /// Counts the nops behind predication.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_legalize.c, `add_predication_workaround`.
    pub(super) fn settle(&mut self, inst: &Inst) -> Result<()> {
        if self.nops > 0 && inst.op != Op::Nop {
            let what = format!("{} comes {} nops early", inst.op.name(), self.nops);
            return broken(&rules::PREDICATION_NOPS, what);
        }
        self.nops = self.nops.saturating_sub(u64::from(inst.repeat) + 1);
        Ok(())
    }

    /// One wave runs the preamble; the others wait and jump over it.
    fn begin_preamble(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<Event> {
        match *core.preamble {
            Preamble::Running => return Ok(Event::Preamble),
            Preamble::Open => {
                *core.preamble = Preamble::Running;
                self.in_preamble = true;
                self.flow.next();
            }
            Preamble::Done => {
                let (target, active) = (self.target(inst), self.flow.active);
                self.flow.branch(active, target)?;
            }
        }
        Ok(Event::Next)
    }
}
