//! Delays and waits: which registers are not ready, and which are still read.
//!
//! Source: Mesa src/freedreno/ir3/ir3_legalize.c (`sync_update`, `ir3_required_sync_flags`, `delay_update`,
//! `ir3_required_delay`), ir3_delay.c and ir3_compiler.c (`delay_slots`): results of arithmetic are ready after a fixed
//! number of slots, results of other units behind (ss) or (sy). The cycles of a wait are no slots. But a write that is
//! waited for comes behind all earlier writes to the registers that it aliases: once it was waited for, these need no
//! slots any more (`delay_update`, `reset_ready_slot`). Mesa goes by the numbers of registers there, also where the files
//! are apart, and forgets the slots at the write; here they count until the wait. State is kept for each fiber, as a
//! branch that other fibers took changes nothing for these.

use crate::fault::{Result, Stop};
use crate::inst::Inst;
use crate::op::Op;
use crate::regs::{Mask, Reg, Registers, SLOTS, Slots};
use crate::rules;

/// Slots between arithmetic and arithmetic: `delay_slots.alu_to_alu`.
const ALU: u64 = 3;
/// Slots between arithmetic and others: `delay_slots.non_alu`.
const OTHER: u64 = 6;
/// How many slots later the third source of mad and madsh is read: `delay_slots.cat3_src2_read`.
pub const THIRD_READ: u64 = 2;

/// How a result becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// After slots.
    Slots,
    /// Behind (ss), some cycles later.
    Ss(u64),
    /// At once for the scalar ALU that reads a register of the same size, for others behind (ss), some cycles later.
    Scalar(u64),
    /// Behind (sy), some cycles later.
    Sy(u64),
}

/// When a source that is read late has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Behind (ss).
    Ss,
    /// Behind (ss) or (sy).
    Either,
    /// Behind (ss), or for the scalar ALU at once.
    Scalar,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Categories 1 to 3.
    Alu,
    /// The others.
    Other,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The slot in which arithmetic wrote it, and whether as part of a full register.
    at: u64,
    full: bool,
    /// For which fibers, as full and as half registers are read.
    alu: [Mask; 2],
    ss: Mask,
    sy: Mask,
    late_ss: Mask,
    late_either: Mask,
    /// What the scalar ALU has written: whether as part of a full register.
    scalar: Option<bool>,
    /// The scalar ALU reads it late.
    late_scalar: Mask,
}

/// A range of constants that is being stored.
type Constants = (u32, u32);

/// Registers of the other size that a write is taken to be of, too, which (sy), else (ss), waits for.
struct Alias {
    slots: Slots,
    /// Whether they are half registers.
    half: bool,
    mask: Mask,
    sy: bool,
    /// The slot of the write: what arithmetic wrote since does not come before it.
    before: u64,
}

pub struct Hazards {
    /// Slots that have passed.
    slot: u64,
    slots: Vec<Slot>,
    /// Halves that may have a mark of (ss) or (sy).
    marked: Vec<usize>,
    aliases: Vec<Alias>,
    /// Whether the scalar ALU runs the instruction.
    scalar: bool,
    force_ss: bool,
    force_sy: bool,
    /// Why: a barrier, or resinfo.
    barrier: bool,
    /// Whether the instruction before was a barrier.
    at_barrier: bool,
    const_ss: Vec<Constants>,
    const_sy: Vec<Constants>,
    /// The cycle at which all that (ss) and (sy) wait for is done.
    done_ss: u64,
    done_sy: u64,
}

impl Hazards {
    pub fn new() -> Self {
        Self {
            slot: 0,
            slots: vec![Slot::default(); SLOTS],
            marked: Vec::new(),
            aliases: Vec::new(),
            scalar: false,
            force_ss: false,
            force_sy: false,
            barrier: false,
            at_barrier: false,
            const_ss: Vec::new(),
            const_sy: Vec::new(),
            done_ss: 0,
            done_sy: 0,
        }
    }

    /// Which unit runs the next instruction.
    pub fn unit(&mut self, scalar: bool) {
        self.scalar = scalar;
    }

    /// How a result of arithmetic in a shared register becomes ready.
    pub fn shared(&self, latency: u64) -> Ready {
        match self.scalar {
            true => Ready::Scalar(latency),
            false => Ready::Ss(latency),
        }
    }

    /// Begins an instruction at a cycle: waits as it says. Returns the cycles that (ss) and (sy) wait.
    pub fn begin(&mut self, inst: &Inst, cycle: u64) -> Result<(u64, u64)> {
        let marks = inst.marks;
        self.at_barrier = false;
        self.force_ss &= !marks.ss;
        self.force_sy &= !marks.sy;
        // Categories 5 and 6 have no bit of (ss): a nop before them carries it, and fills slots.
        let carries = self.barrier && inst.op == Op::Nop;
        if (self.force_ss || self.force_sy) && !carries {
            let (rule, what) = match self.barrier {
                true => (&rules::BARRIER_SYNC, "a barrier"),
                false => (&rules::RESINFO_SYNC, "resinfo"),
            };
            let missing = match (self.force_ss, self.force_sy) {
                (true, true) => "(ss)(sy)",
                (true, false) => "(ss)",
                _ => "(sy)",
            };
            return Err(Stop::rule(
                rule,
                format!("{} follows {what} without {missing}", inst.op.name()),
            ));
        }
        let mut waits = (0, 0);
        if marks.ss {
            waits.0 = self.done_ss.saturating_sub(cycle);
            self.const_ss.clear();
        }
        if marks.sy {
            waits.1 = self.done_sy.saturating_sub(cycle + waits.0);
            self.const_sy.clear();
        }
        if marks.ss || marks.sy {
            self.clear(marks.ss, marks.sy);
        }
        Ok(waits)
    }

    fn clear(&mut self, ss: bool, sy: bool) {
        let slots = &mut self.slots;
        self.marked.retain(|&at| {
            let Some(slot) = slots.get_mut(at) else {
                return false;
            };
            slot.late_either = 0;
            if ss {
                (slot.ss, slot.late_ss, slot.late_scalar) = (0, 0, 0);
                slot.scalar = None;
            }
            if sy {
                slot.sy = 0;
            }
            slot.ss | slot.sy | slot.late_ss | slot.late_scalar != 0 || slot.scalar.is_some()
        });
        self.aliases.retain(|alias| {
            let waited = if alias.sy { sy } else { ss };
            if waited {
                let (first, count) = alias.slots;
                let range = slots.get_mut(first..first + count).unwrap_or_default();
                for slot in range.iter_mut().filter(|slot| slot.at < alias.before) {
                    slot.alu[usize::from(alias.half)] &= !alias.mask;
                }
            }
            !waited
        });
    }

    /// Slots that pass.
    pub fn pass(&mut self, slots: u64) {
        self.slot += slots;
    }

    /// What the instruction behind a barrier, or resinfo, must have.
    pub fn force(&mut self, barrier: bool) {
        self.force_ss = true;
        self.force_sy = barrier;
        self.barrier = barrier;
        self.at_barrier = barrier;
    }

    /// Whether an instruction lacks a wait and stands directly behind a barrier.
    pub fn lacks_waits(&self, inst: &Inst) -> bool {
        let marks = inst.marks;
        self.at_barrier && (self.force_ss && !marks.ss || self.force_sy && !marks.sy)
    }

    /// The instruction behind a barrier begins a block: it need not have the waits. The jump that ended the barrier's block
    /// had them, and as it led to the next instruction Mesa has removed it.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_legalize.c, `legalize_block` (the waits go to the next instruction of the block),
    /// `ir3_merge_pred_legalize_states` (waits that a block leaves open are those of the next one; a block that another follows
    /// ends with a jump or branch, which has taken them), and `opt_jump`, which comes behind it; ir3_compiler_nir.c,
    /// `emit_function`: `end` is alone in a block.
    pub fn begin_block(&mut self) {
        (self.force_ss, self.force_sy) = (false, false);
    }

    fn range(&mut self, (first, count): Slots) -> &mut [Slot] {
        self.slots.get_mut(first..first + count).unwrap_or_default()
    }

    fn pending(&mut self, reg: Reg, slots: Slots, mask: Mask, verb: &str) -> Result<()> {
        // Source: ir3_legalize.c, needs_ss_scalar_full and needs_ss_scalar_half.
        let fast = self.scalar.then_some(!reg.half);
        for slot in self.range(slots) {
            let ss = match slot.scalar {
                Some(_) if slot.scalar != fast => mask,
                _ => slot.ss & mask,
            };
            let (rule, lanes) = match (ss, slot.sy & mask) {
                (0, 0) => continue,
                (0, lanes) => (&rules::SY_MISSING, lanes),
                (lanes, _) => (&rules::SS_MISSING, lanes),
            };
            let what = format!("{} is {verb} while its result is outstanding", reg.name());
            return Err(Stop::rule(rule, what).of(lanes.trailing_zeros() as usize));
        }
        Ok(())
    }

    /// Checks a source that is read so many slots after the instruction's first.
    pub fn source(
        &mut self,
        reg: Reg,
        slots: Slots,
        mask: Mask,
        reader: Reader,
        later: u64,
    ) -> Result<()> {
        self.pending(reg, slots, mask, "read")?;
        let now = self.slot + later;
        let special = Registers::is_special(slots);
        for slot in self.range(slots) {
            let lanes = slot.alu[usize::from(reg.half)] & mask;
            if lanes == 0 {
                continue;
            }
            let (rule, need) = match reader {
                _ if special => (&rules::DELAY_SPECIAL, OTHER),
                Reader::Other => (&rules::DELAY_OTHER, OTHER),
                Reader::Alu if slot.full == reg.half => (&rules::DELAY_SIZE, OTHER),
                Reader::Alu => (&rules::DELAY_ALU, ALU),
            };
            let passed = now.saturating_sub(slot.at + 1);
            if passed < need {
                let name = reg.name();
                let what = format!(
                    "{name} is read {passed} slots after it was written, {need} are needed"
                );
                return Err(Stop::rule(rule, what).of(lanes.trailing_zeros() as usize));
            }
        }
        Ok(())
    }

    /// Checks a destination.
    pub fn destination(&mut self, reg: Reg, slots: Slots, mask: Mask) -> Result<()> {
        self.pending(reg, slots, mask, "overwritten")?;
        let scalar = self.scalar;
        for slot in self.range(slots) {
            let other = if scalar { 0 } else { slot.late_scalar };
            let lanes = (slot.late_ss | slot.late_either | other) & mask;
            if lanes != 0 {
                let what = format!("{} is overwritten while it is still read", reg.name());
                return Err(Stop::rule(&rules::WAR, what).of(lanes.trailing_zeros() as usize));
            }
        }
        Ok(())
    }

    /// Notes a result that is written so many slots after the instruction's first.
    pub fn write(
        &mut self,
        reg: Reg,
        slots: Slots,
        mask: Mask,
        ready: Ready,
        later: u64,
        cycle: u64,
    ) {
        let at = self.slot + later;
        for slot in self.range(slots) {
            match ready {
                Ready::Slots => {
                    // What other fibers wrote long ago is ready.
                    let recent = slot.at + 1 + OTHER > at;
                    let old = |alu: Mask| if recent { alu & !mask } else { 0 };
                    slot.alu = slot.alu.map(|alu| old(alu) | mask);
                    (slot.at, slot.full) = (at, !reg.half);
                    continue;
                }
                Ready::Ss(_) => slot.ss |= mask,
                Ready::Sy(_) => slot.sy |= mask,
                Ready::Scalar(_) => slot.scalar = Some(!reg.half),
            }
            slot.alu = slot.alu.map(|alu| alu & !mask);
        }
        match ready {
            Ready::Slots => return,
            Ready::Ss(latency) | Ready::Scalar(latency) => {
                self.done_ss = self.done_ss.max(cycle + latency)
            }
            Ready::Sy(latency) => self.done_sy = self.done_sy.max(cycle + latency),
        }
        self.marked.extend(slots.0..slots.0 + slots.1);
    }

    /// Notes that a result of another unit is taken to be of these registers, too: full ones, or halves.
    pub fn alias(&mut self, slots: Slots, half: bool, mask: Mask, ready: Ready) {
        let sy = match ready {
            // Registers that a wave shares alias none.
            Ready::Slots | Ready::Scalar(_) => return,
            Ready::Ss(_) => false,
            Ready::Sy(_) => true,
        };
        let before = self.slot;
        self.aliases.push(Alias {
            slots,
            half,
            mask,
            sy,
            before,
        });
    }

    /// Notes a source that is read late.
    pub fn late(&mut self, slots: Slots, mask: Mask, late: Late) {
        for slot in self.range(slots) {
            match late {
                Late::Ss => slot.late_ss |= mask,
                Late::Either => slot.late_either |= mask,
                Late::Scalar => slot.late_scalar |= mask,
            }
        }
        self.marked.extend(slots.0..slots.0 + slots.1);
    }

    /// Notes constants that are stored: dwords, and whether (sy) waits for them, else (ss).
    pub fn store_constants(&mut self, first: u32, count: u32, sy: bool) {
        let list = if sy {
            &mut self.const_sy
        } else {
            &mut self.const_ss
        };
        list.push((first, count));
    }

    /// Checks a constant that is read.
    pub fn constant(&self, dword: u32) -> Result<()> {
        let hit = |list: &[Constants]| {
            list.iter()
                .any(|(first, count)| (*first..first + count).contains(&dword))
        };
        let flag = match (hit(&self.const_ss), hit(&self.const_sy)) {
            (true, _) => "(ss)",
            (_, true) => "(sy)",
            _ => return Ok(()),
        };
        let what = format!("constant dword {dword} is read without {flag} behind its store");
        Err(Stop::rule(&rules::CONST_SYNC, what))
    }
}
