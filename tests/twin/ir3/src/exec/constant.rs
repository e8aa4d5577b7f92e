//! Constants from buffers, and stores to the constant file.

use super::Unit;
use crate::fault::{Result, Stop, broken};
use crate::hazard::{Late, Ready};
use crate::inst::{Inst, Type, Value};
use crate::memory::Path;
use crate::regs::{LANES, Lanes, lanes};
use crate::rules;
use crate::wave::{Core, SHARED_LATENCY, Wave};

impl Core<'_> {
    /// Dwords of a buffer of constants, from a vector on.
    fn vector(&mut self, index: u32, base: Option<u8>, vector: u32, into: &mut [u8]) -> Result<()> {
        let ubo = self.ubo(index, base)?;
        let end = u64::from(vector) * 16 + into.len() as u64;
        if end > u64::from(ubo.vectors) * 16 {
            let what = format!("vector {vector} of {} of buffer {index}", ubo.vectors);
            return broken(&rules::UBO_RANGE, what);
        }
        self.read(Path::Uche, ubo.base + u64::from(vector) * 16, into)
    }

    /// Whole vectors of a buffer of constants; those beyond its end are 0.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_nir_analyze_ubo_ranges.c, `const_upload_unit`: ranges are rounded up to what is
    /// loaded at a time; src/freedreno/vulkan/tu_device.cc, robustBufferAccess2: reads outside of uniform buffers give 0.
    fn vectors(
        &mut self,
        index: u32,
        base: Option<u8>,
        vector: u32,
        into: &mut [u8],
    ) -> Result<()> {
        let ubo = self.ubo(index, base)?;
        let left = u64::from(ubo.vectors.saturating_sub(vector)) * 16;
        let inside = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let at = ubo.base + u64::from(vector) * 16;
        self.read(Path::Uche, at, &mut into[..inside])
    }

    fn store_constants(&mut self, first: u32, values: &[u32]) -> Result<()> {
        let end = first as usize + values.len();
        if end > self.launch.const_dwords as usize {
            let what = format!("{} dwords are stored to c{}", values.len(), first / 4);
            return broken(&rules::CONST_RANGE, what);
        }
        if self.constants.len() < end {
            self.constants.resize(end, None);
        }
        for (to, from) in self.constants.iter_mut().skip(first as usize).zip(values) {
            *to = Some(*from);
        }
        Ok(())
    }
}

impl Wave {
    /// ldc: the offset counts vectors, `.offsetN` is the first component.
    pub(super) fn load_constant(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        if to.is_shared() != inst.mods.uniform {
            return broken(
                &rules::OPERANDS,
                "ldc has .u if it writes shared registers, and else not",
            );
        }
        let late = if to.is_shared() {
            Late::Ss
        } else {
            Late::Either
        };
        let count = inst.mods.count;
        let first = usize::from(inst.mods.index);
        if first + usize::from(count) > 4 {
            let what = format!("{count} components from {first} on of a vector");
            return broken(&rules::COUNT, what);
        }
        self.check_all(to, count, mask)?;
        let offset = match inst.srcs.first().map(|o| o.value) {
            Some(Value::Imm(offset)) => [offset; LANES],
            _ => self.read_late(Self::register(inst.srcs.first())?, mask, late)?,
        };
        let indices = self.indices(inst, inst.srcs.get(1), mask, late)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes(mask) {
            let mut bytes = [0; 16];
            let read = core.vector(indices[lane], inst.mods.base, offset[lane], &mut bytes);
            read.map_err(|stop| stop.of(lane))?;
            let components = bytes.chunks(4).skip(first);
            for (value, component) in values.iter_mut().zip(components) {
                value[lane] = super::number(component);
            }
        }
        let ready = match to.is_shared() {
            true => Ready::Ss(SHARED_LATENCY),
            false => Ready::Sy(super::latency(core, Unit::Constants, count)),
        };
        for (n, value) in values.iter().take(count.into()).enumerate() {
            self.write(to.plus(n as u16), mask, value, ready, 0)?;
            if to.is_shared() {
                // It is a load as well.
                let ready = Ready::Sy(super::latency(core, Unit::Constants, count));
                self.note(to.plus(n as u16), mask, ready, 0)?;
            }
        }
        Ok(())
    }

    fn only_in_preamble(&self, inst: &Inst) -> Result<()> {
        match self.in_preamble {
            true => Ok(()),
            false => broken(
                &rules::PREAMBLE,
                format!("{} outside of the preamble", inst.op.name()),
            ),
        }
    }

    /// ldc.k: vectors of a buffer to the constants at a1.x, in dwords.
    ///
    /// Source: Mesa src/freedreno/isa/ir3-cat6.xml, ldc.k.
    pub(super) fn load_constants(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        self.only_in_preamble(inst)?;
        let mask = self.mask();
        let vector = self.agreed(inst.srcs.first(), Late::Either, "the offset of ldc.k")?;
        let indices = self.indices(inst, inst.srcs.get(1), mask, Late::Either)?;
        let to = self.address1(mask)?;
        let Some(lane) = lanes(mask).next() else {
            return Ok(());
        };
        if !to.is_multiple_of(16) || !vector.is_multiple_of(4) {
            let what = format!(
                "ldc.k from vector {vector} to dword {to}: both are multiples of 4 vectors"
            );
            return broken(&rules::OPERANDS, what);
        }
        let mut bytes = vec![0; usize::from(inst.mods.count) * 16];
        core.vectors(indices[lane], inst.mods.base, vector, &mut bytes)?;
        let values: Vec<u32> = bytes.chunks(4).map(super::number).collect();
        core.store_constants(to, &values)?;
        self.hazards.store_constants(to, values.len() as u32, true);
        Ok(())
    }

    /// stc: registers that all fibers agree on, to constants by dwords.
    ///
    /// Source: Mesa src/freedreno/isa/ir3-cat6.xml, stc.
    pub(super) fn store_constant(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        self.only_in_preamble(inst)?;
        if !matches!(inst.mods.ty, Some(Type::F32 | Type::U32 | Type::S32)) {
            return broken(&rules::MEANING, "stc of halves");
        }
        let mask = self.mask();
        let to = match inst.dsts.first().map(|o| o.value) {
            Some(Value::Imm(to)) => to,
            Some(Value::A1Const(offset)) => self.address1(mask)? + u32::from(offset),
            _ => return broken(&rules::OPERANDS, "stc without a constant"),
        };
        let from = Self::register(inst.srcs.first())?;
        let mut values = Vec::new();
        for n in 0..inst.mods.count {
            let value: Lanes = self.read_late(from.plus(n), mask, Late::Ss)?;
            match crate::regs::same(mask, &value) {
                Some(value) => values.push(value),
                None if mask == 0 => return Ok(()),
                None => {
                    return Err(Stop::rule(
                        &rules::UNIFORM,
                        "the source of stc differs between fibers",
                    ));
                }
            }
        }
        core.store_constants(to, &values)?;
        self.hazards.store_constants(to, values.len() as u32, false);
        Ok(())
    }
}
