//! Loads and stores of local memory.

use super::global::shape;
use crate::fault::Result;
use crate::hazard::{Late, Ready};
use crate::inst::Inst;
use crate::regs::{LANES, lanes};
use crate::wave::{Core, Wave};

/// Cycles until local memory is read: Mesa src/freedreno/ir3/ir3.h, `soft_ss_delay`.
pub(super) const LOCAL_LATENCY: u64 = 10;

impl Wave {
    pub(super) fn load_local(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = shape(inst)?;
        let size = ty.bytes() as u32;
        let to = Self::register(inst.dsts.first())?;
        self.check_all(to, count, mask)?;
        let base = self.read_late(Self::register(inst.srcs.first())?, mask, Late::Ss)?;
        for n in 0..count {
            let mut values = [0; LANES];
            for lane in lanes(mask) {
                let at = base[lane].wrapping_add_signed(inst.mods.offset);
                let at = at.wrapping_add(u32::from(n) * size);
                let value = core.local.read(self.number, at, size);
                values[lane] = value.map_err(|stop| stop.of(lane))?;
            }
            self.write(to.plus(n), mask, &values, Ready::Ss(LOCAL_LATENCY), 0)?;
        }
        Ok(())
    }

    pub(super) fn store_local(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = shape(inst)?;
        let size = ty.bytes() as u32;
        let base = self.read_late(Self::register(inst.srcs.first())?, mask, Late::Ss)?;
        let from = Self::register(inst.srcs.last())?;
        for n in 0..count {
            let values = self.read_late(from.plus(n), mask, Late::Ss)?;
            for lane in lanes(mask) {
                let at = base[lane].wrapping_add_signed(inst.mods.offset);
                let at = at.wrapping_add(u32::from(n) * size);
                let done = core.local.write(self.number, at, size, values[lane]);
                done.map_err(|stop| stop.of(lane))?;
            }
        }
        Ok(())
    }
}
