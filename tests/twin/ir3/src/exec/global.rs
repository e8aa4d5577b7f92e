//! Loads and stores by address, and of private memory.

use crate::fault::{Result, Stop, broken};
use crate::hazard::{Late, Ready};
use crate::inst::{Inst, Type};
use crate::memory::Path;
use crate::op::Op;
use crate::regs::{LANES, Lanes, Mask, Reg, lanes};
use crate::rules;
use crate::wave::{Core, Wave};

/// What the upper byte of a half register holds behind a load of a byte: nothing that a program may use.
///
/// Source: Mesa src/freedreno/ir3/ir3_compiler_nir.c, `create_cov`, masks bytes before it uses them.
const JUNK: u32 = 0xa500;

impl Wave {
    /// The addresses of ldg, ldg.a, stg and stg.a.
    ///
    /// Source: Mesa src/freedreno/isa/ir3-cat6.xml, documentation of ldg.a: values are extended to 64 bits with zeros.
    fn addresses(&mut self, inst: &Inst, mask: Mask, late: Late) -> Result<[u64; LANES]> {
        let base = Self::register(inst.srcs.first())?;
        let low = self.read_late(base, mask, late)?;
        let high = self.read_late(base.plus(1), mask, late)?;
        let bases: [u64; LANES] =
            std::array::from_fn(|n| u64::from(high[n]) << 32 | u64::from(low[n]));
        let offset = i64::from(inst.mods.offset);
        if !matches!(inst.op, Op::LdgA | Op::StgA) {
            return Ok(bases.map(|base| base.wrapping_add_signed(offset)));
        }
        let index = self.read_late(Self::register(inst.srcs.get(1))?, mask, late)?;
        let scale = inst.mods.ty.map_or(0, |ty| ty.bytes().trailing_zeros());
        Ok(std::array::from_fn(|n| {
            let index = (u64::from(index[n]) << inst.mods.shift).wrapping_add_signed(offset);
            bases[n].wrapping_add(index << scale)
        }))
    }

    pub(super) fn load_global(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = shape(inst)?;
        let to = Self::register(inst.dsts.first())?;
        self.check_all(to, count, mask)?;
        let addresses = self.addresses(inst, mask, Late::Either)?;
        self.load(core, to, ty, count, mask, |core, lane, bytes| {
            core.read(Path::Uche, addresses[lane], bytes)
        })
    }

    pub(super) fn store_global(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = shape(inst)?;
        let addresses = self.addresses(inst, mask, Late::Ss)?;
        let from = Self::register(inst.srcs.last())?;
        self.store(core, from, ty, count, mask, |core, lane, bytes| {
            core.write(addresses[lane], bytes)
        })
    }

    /// Checks the registers that a load writes.
    pub(super) fn check_all(&mut self, first: Reg, count: u16, mask: Mask) -> Result<()> {
        (0..count).try_for_each(|n| self.check(first.plus(n), mask))
    }

    /// Loads components for each fiber.
    fn load(
        &mut self,
        core: &mut Core<'_>,
        to: Reg,
        ty: Type,
        count: u16,
        mask: Mask,
        mut read: impl FnMut(&mut Core<'_>, usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let size = ty.bytes() as usize;
        let mut bytes = [0; 16];
        let mut values = [[0; LANES]; 4];
        for lane in lanes(mask) {
            let bytes = &mut bytes[..size * usize::from(count)];
            read(core, lane, bytes).map_err(|stop| stop.of(lane))?;
            for (value, bytes) in values.iter_mut().zip(bytes.chunks(size)) {
                let number = super::number(bytes);
                value[lane] = if ty == Type::U8 {
                    JUNK | number
                } else {
                    number
                };
            }
        }
        let ready = Ready::Sy(super::latency(core, super::Unit::Memory, count));
        for (n, value) in values.iter().take(count.into()).enumerate() {
            self.write(to.plus(n as u16), mask, value, ready, 0)?;
        }
        Ok(())
    }

    fn store(
        &mut self,
        core: &mut Core<'_>,
        from: Reg,
        ty: Type,
        count: u16,
        mask: Mask,
        mut write: impl FnMut(&mut Core<'_>, usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let size = ty.bytes() as usize;
        let mut values: Vec<Lanes> = Vec::new();
        for n in 0..count {
            values.push(self.read_late(from.plus(n), mask, Late::Ss)?);
        }
        for lane in lanes(mask) {
            let mut bytes = [0; 16];
            for (to, value) in bytes.chunks_mut(size).zip(&values) {
                to.copy_from_slice(&value[lane].to_le_bytes()[..size]);
            }
            let bytes = &bytes[..size * usize::from(count)];
            write(core, lane, bytes).map_err(|stop| stop.of(lane))?;
        }
        Ok(())
    }

    /// The offsets into private memory.
    fn private_offsets(&mut self, inst: &Inst, mask: Mask, late: Late) -> Result<Lanes> {
        let base = self.read_late(Self::register(inst.srcs.first())?, mask, late)?;
        Ok(base.map(|base| base.wrapping_add_signed(inst.mods.offset)))
    }

    pub(super) fn load_private(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = shape(inst)?;
        let to = Self::register(inst.dsts.first())?;
        self.check_all(to, count, mask)?;
        let offsets = self.private_offsets(inst, mask, Late::Either)?;
        let seat = self.seat;
        let size = ty.bytes() as usize;
        self.load(core, to, ty, count, mask, |core, lane, bytes| {
            for (n, bytes) in bytes.chunks_mut(size).enumerate() {
                let address = private(core, seat, lane, offsets[lane], size, n)?;
                core.read(Path::Uche, address, bytes)?;
            }
            Ok(())
        })
    }

    pub(super) fn store_private(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = shape(inst)?;
        let offsets = self.private_offsets(inst, mask, Late::Ss)?;
        let from = Self::register(inst.srcs.last())?;
        let seat = self.seat;
        let size = ty.bytes() as usize;
        self.store(core, from, ty, count, mask, |core, lane, bytes| {
            for (n, bytes) in bytes.chunks(size).enumerate() {
                let address = private(core, seat, lane, offsets[lane], size, n)?;
                core.write(address, bytes)?;
            }
            Ok(())
        })
    }
}

/// The type and how many components.
pub(super) fn shape(inst: &Inst) -> Result<(Type, u16)> {
    let Some(ty) = inst.mods.ty else {
        return broken(&rules::OPERANDS, "a load or store without a type");
    };
    match inst.mods.count {
        count @ 1..=4 => Ok((ty, count)),
        count => broken(&rules::COUNT, format!("{count} components")),
    }
}

/// The address of a component in private memory.
///
/// In the layout of waves, dwords of the fibers of a wave lie side by side; else each fiber has its bytes in one piece,
/// which simplifies what hardware interleaves: a survey of what has run on A630.
fn private(
    core: &Core<'_>,
    seat: u32,
    lane: usize,
    offset: u32,
    size: usize,
    n: usize,
) -> Result<u64> {
    let private = core.launch.private;
    let (offset, size) = (u64::from(offset) + (n * size) as u64, size as u64);
    let per_fiber = u64::from(private.per_fiber);
    if offset + size > per_fiber {
        let what = format!("{size} bytes at {offset:#x} of {per_fiber:#x} of a fiber");
        return Err(Stop::rule(&rules::PRIVATE_RANGE, what));
    }
    if !offset.is_multiple_of(size) {
        return broken(
            &rules::ALIGN,
            format!("{size} bytes at {offset:#x} of private memory"),
        );
    }
    let (seat, lane, fibers) = (u64::from(seat), lane as u64, LANES as u64);
    let at = match private.per_wave_layout {
        true => seat * per_fiber * fibers + (offset / 4 * fibers + lane) * 4 + offset % 4,
        false => (seat * fibers + lane) * per_fiber + offset,
    };
    let total = u64::from(private.total) * u64::from(core.launch.chip.cores);
    if at + size > total {
        let what = format!("wave {seat} is at {at:#x} of {total:#x} bytes of private memory");
        return Err(Stop::rule(&rules::PRIVATE_RANGE, what));
    }
    Ok(private.base + at)
}
