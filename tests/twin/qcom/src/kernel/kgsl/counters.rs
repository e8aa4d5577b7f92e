//! Performance counters.
//!
//! Source: KGSL, adreno_perfcounter.c, `adreno_perfcounter_get`, `adreno_perfcounter_put`,
//! `adreno_perfcounter_read_group`; adreno_ioctl.c; adreno_a6xx_perfcounter.c and a6xx_reg.h: registers of each group.

use drivers_spec::qcom::kgsl::{
    PerfcounterGet, PerfcounterPut, PerfcounterRead, PerfcounterReadGroup,
    perfcounter_group as groups,
};
use drivers_spec::qcom::regs;
use twin::errno::{Errno, Result};
use twin::rule::{Proof, Rule};

use crate::kernel::Process;
use crate::kernel::files::File;
use crate::kernel::state::State;

use super::args;

static COUNTABLE: Rule = Rule {
    name: "KGSL-COUNTABLE-NOT-MODELLED",
    text: "what is counted is countable 0 of the groups CP, HLSQ, UCHE, TP and SP, busy cycles, or the always-on counter",
    source: "this twin: src/kernel/kgsl/counters.rs",
    proof: Proof::Twin,
};

/// `KGSL_PERFCOUNTER_GROUP_MAX`.
const GROUPS: u32 = 0x37;
/// The most that PERFCOUNTER_READ reads.
const MOST: u32 = 100;

/// Groups: number, register of the first counter, counters. All but ALWAYSON are not fixed.
const KNOWN: [(u32, u32, u32); 6] = [
    (groups::CP, 0x400, 14),
    (groups::HLSQ, 0x444, 6),
    (groups::UCHE, 0x476, 12),
    (groups::TP, 0x48e, 12),
    (groups::SP, 0x4a6, 24),
    (
        groups::ALWAYSON,
        regs::dword(&regs::CP_ALWAYS_ON_COUNTER),
        1,
    ),
];

/// A counter that is in use: group, countable, register, files that have it.
pub(crate) type Used = (u32, u32, u32, Vec<u64>);

impl State {
    fn counter_register(&self, group: u32, countable: u32) -> Option<u32> {
        let mut used = self.counters.iter();
        let found = used.find(|one| (one.0, one.1) == (group, countable));
        found.map(|one| one.2)
    }

    fn counter_value(&self, group: u32, countable: u32) -> u64 {
        match self.counter_register(group, countable) {
            None => 0,
            Some(_) if group == groups::ALWAYSON => self.core.now(),
            Some(register) => self.core.counted(register).unwrap_or(0),
        }
    }
}

impl Process {
    pub(super) fn get_counter(&self, file: &File, data: &mut [u8]) -> Result {
        let args: &mut PerfcounterGet = args(data)?;
        (args.offset, args.offset_hi) = (0, 0);
        let (number, countable) = (args.groupid, args.countable);
        let why = || format!("group {number:#x}, countable {countable}");
        if number >= GROUPS {
            return self.fail(Errno::EINVAL, why);
        }
        let known = KNOWN.iter().find(|(group, ..)| *group == number);
        let Some(&(_, first, count)) = known else {
            self.machine.broken(&COUNTABLE, why());
            return Err(Errno::EINVAL);
        };
        let fixed = number == groups::ALWAYSON;
        if fixed && countable >= count {
            return self.fail(Errno::EINVAL, why);
        }
        if countable != 0 {
            self.machine.broken(&COUNTABLE, why());
        }
        let mut state = self.machine.enter();
        let register = match state.counter_register(number, countable) {
            Some(register) => register,
            None => {
                let taken = |register: u32| state.counters.iter().any(|one| one.2 == register);
                // The last one that is free.
                let free = (0..count)
                    .rev()
                    .map(|i| first + 2 * i)
                    .find(|register| !taken(*register));
                let Some(register) = free else {
                    return self.fail(Errno::EBUSY, why);
                };
                if !fixed {
                    state.core.count(register);
                }
                state
                    .counters
                    .push((number, countable, register, Vec::new()));
                register
            }
        };
        let used = state.counters.iter_mut().find(|one| one.2 == register);
        if let Some(used) = used {
            used.3.push(file.id);
        }
        (args.offset, args.offset_hi) = (register, register + 1);
        Ok(())
    }

    pub(super) fn put_counter(&self, file: &File, data: &mut [u8]) -> Result {
        let args: PerfcounterPut = *args(data)?;
        let mut state = self.machine.enter();
        let mut used = state.counters.iter_mut();
        let found = used.find(|one| (one.0, one.1) == (args.groupid, args.countable));
        let at = found.and_then(|one| {
            let at = one.3.iter().position(|of| *of == file.id)?;
            one.3.remove(at);
            Some(())
        });
        if at.is_none() {
            return self.fail(Errno::ENODEV, || {
                format!("group {:#x}, countable {}", args.groupid, args.countable)
            });
        }
        state.uncount();
        Ok(())
    }

    pub(super) fn read_counters(&self, _: &File, data: &mut [u8]) -> Result {
        let args: PerfcounterRead = *args(data)?;
        if args.reads == 0 || args.count == 0 || args.count > MOST {
            return self.fail(Errno::EINVAL, || format!("{} counters", args.count));
        }
        let mut all: Vec<PerfcounterReadGroup> =
            self.caller.get_all(args.reads, args.count as usize)?;
        let state = self.machine.enter();
        for one in &mut all {
            if one.groupid >= GROUPS {
                return self.fail(Errno::EINVAL, || format!("group {:#x}", one.groupid));
            }
            one.value = state.counter_value(one.groupid, one.countable);
        }
        drop(state);
        let size = size_of::<PerfcounterReadGroup>() as u64;
        for (i, one) in (0..).zip(&all) {
            self.caller.put(args.reads + i * size, one)?;
        }
        Ok(())
    }
}

impl State {
    /// Switches off what nobody has any more.
    fn uncount(&mut self) {
        let core = &mut self.core;
        self.counters.retain(|one| {
            if one.3.is_empty() {
                core.uncount(one.2);
            }
            !one.3.is_empty()
        });
    }

    /// A file is closed.
    pub(crate) fn forget_counters(&mut self, file: u64) {
        for one in &mut self.counters {
            one.3.retain(|of| *of != file);
        }
        self.uncount();
    }
}
