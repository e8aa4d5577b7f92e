//! Hardware registers: `s_getreg` and `s_setreg`.

use smallvec::smallvec;

use super::meaning::*;
use super::operand::{Value, registers};
use crate::isa::Gen;
use crate::step::{Flow, ISA_RESERVED, Stop};
use crate::wave::Wave;

/// The field of a register that an instruction names.
#[derive(Clone, Copy)]
struct Field {
    id: u16,
    offset: u32,
    mask: u32,
}

fn field(simm: u16) -> Field {
    Field {
        id: simm & 63,
        offset: u32::from(simm >> 6 & 31),
        mask: !0 >> (31 - u32::from(simm >> 11)),
    }
}

const MODE: u16 = 1;
const STATUS: u16 = 2;
/// RDNA4's second status, of what only trap handlers write.
const STATE_PRIV: u16 = 4;
/// Bits of STATUS and STATE_PRIV.
const HALT: u32 = 13;
const HALT_12: u32 = 14;
const SCC_12: u32 = 9;
const GPR_ALLOC: u16 = 5;
const LDS_ALLOC: u16 = 6;
const IB_STS: u16 = 7;
const SH_MEM_BASES: u16 = 15;
const SCRATCH_LO: u16 = 20;
const SCRATCH_HI: u16 = 21;
const HW_ID1: u16 = 23;
const HW_ID2: u16 = 24;
const CYCLES: u16 = 29;
const CYCLES_HI: u16 = 30;

/// Reads a whole register. Where a wave may read something that the model does not have, such as
/// exceptions and performance snapshots, zero.
fn read(wave: &Wave, id: u16) -> Option<u32> {
    use Gen::{Cdna3, Rdna4};
    let place = &wave.place;
    // One clock of the shader takes about half a nanosecond.
    let cycles = || wave.seat.now().wrapping_mul(20);
    Some(match (id, wave.generation) {
        (MODE, _) => wave.mode,
        (STATUS, _) => {
            u32::from(wave.scc)
                | u32::from(wave.trap.is_some()) << 5
                | u32::from(wave.exec == 0) << 9
                | u32::from(wave.vccz()) << 10
                | u32::from(place.waves > 1) << 11
                | u32::from(wave.halted) << HALT
        }
        (STATE_PRIV, Rdna4) => u32::from(wave.scc) << SCC_12 | u32::from(wave.halted) << HALT_12,
        (GPR_ALLOC, _) => wave.vgprs as u32 / 8,
        (LDS_ALLOC, _) => (wave.lds.len() as u32).div_ceil(128) << 12,
        (IB_STS, _) => 0,
        (SH_MEM_BASES, Rdna4) => 0,
        (SH_MEM_BASES, _) => place.private_aperture >> 16 | place.shared_aperture & 0xffff_0000,
        // CDNA3: HW_ID is 4, XCC_ID 20.
        (4, Cdna3) => place.wave & 15,
        (SCRATCH_LO, Cdna3) => place.xcc,
        (3 | 16..=19 | 21..=24, Cdna3) => 0,
        (_, Cdna3) => return None,
        (SCRATCH_LO, _) => place.scratch as u32,
        (SCRATCH_HI, _) => (place.scratch >> 32) as u32,
        (HW_ID1, _) => place.wave & 31,
        (HW_ID2, _) => 0,
        (CYCLES, Rdna4) => cycles() as u32,
        (CYCLES_HI, Rdna4) => (cycles() >> 32) as u32,
        (CYCLES, _) => cycles() as u32 & 0xf_ffff,
        (10..=12 | 16..=19 | 26, Rdna4) => 0,
        (3 | 16..=19 | 25 | 27, Gen::Rdna2 | Gen::Rdna3) => 0,
        _ => return None,
    })
}

/// Writes the bits of `mask`. Bits that a wave without privileges may not write keep their value.
fn write(wave: &mut Wave, id: u16, mask: u32, value: u32) -> bool {
    let merge = |old: u32| old & !mask | value & mask;
    match (id, wave.generation) {
        (MODE, _) => wave.mode = merge(wave.mode),
        (STATUS, Gen::Rdna2 | Gen::Rdna3 | Gen::Cdna3) if wave.trap.is_some() => {
            set_status(wave, mask, value, (0, HALT));
        }
        (STATE_PRIV, Gen::Rdna4) if wave.trap.is_some() => {
            set_status(wave, mask, value, (SCC_12, HALT_12));
        }
        // RDNA2 programs set up their scratch by these (LLVM AMDGPUUsage, "flat scratch").
        (SCRATCH_LO, Gen::Rdna2) => {
            let scratch = wave.place.scratch;
            wave.place.scratch = scratch >> 32 << 32 | u64::from(merge(scratch as u32));
        }
        (SCRATCH_HI, Gen::Rdna2) => {
            let scratch = wave.place.scratch;
            let high = merge((scratch >> 32) as u32);
            wave.place.scratch = scratch & 0xffff_ffff | u64::from(high) << 32;
        }
        _ => return read(wave, id).is_some(),
    }
    true
}

/// The trap handler writes SCC and HALT, which are these bits.
fn set_status(wave: &mut Wave, mask: u32, value: u32, (scc, halt): (u32, u32)) {
    for (bit, state) in [(scc, &mut wave.scc), (halt, &mut wave.halted)] {
        if mask >> bit & 1 == 1 {
            *state = value >> bit & 1 == 1;
        }
    }
}

/// What a trap handler finds as the status of a wave.
pub(super) fn status(wave: &Wave) -> u32 {
    let id = if wave.generation == Gen::Rdna4 {
        STATE_PRIV
    } else {
        STATUS
    };
    read(wave, id).unwrap_or(0)
}

fn none(id: u16) -> Stop {
    Stop::Rule(&ISA_RESERVED, format!("hardware register {id}"))
}

/// D = a field of a register.
pub fn getreg() -> Meaning {
    special(&[Arg::Dst(1), Arg::Hwreg], |inst, _| {
        let (d, field) = (inst.dst::<u32>()?, field(inst.simm()));
        step([Some(registers(d, 1))], move |wave| {
            let value = read(wave, field.id).ok_or_else(|| none(field.id))?;
            (value >> field.offset & field.mask).put(d, wave);
            Ok(Flow::Next)
        })
    })
}

/// A field of a register = the value.
fn set(wave: &mut Wave, field: Field, value: u32) -> Result<Flow, Stop> {
    let (mask, value) = (field.mask << field.offset, value << field.offset);
    if write(wave, field.id, mask, value) {
        Ok(Flow::Next)
    } else {
        Err(none(field.id))
    }
}

/// A field of a register = S0.
pub fn setreg() -> Meaning {
    special(&[Arg::Hwreg, Arg::DstRead(1)], |inst, _| {
        let (a, field) = (inst.dst_read::<u32>()?, field(inst.simm()));
        step([a.touches(1)], move |wave| {
            let value = u32::get(a, wave);
            set(wave, field, value)
        })
    })
}

/// A field of a register = the literal.
pub fn setreg_imm32() -> Meaning {
    Meaning {
        args: smallvec![Arg::Hwreg, Arg::LiteralImm],
        lower: Box::new(|inst, _| {
            let (value, field) = (inst.words[1], field(inst.simm()));
            step([], move |wave| set(wave, field, value))
        }),
    }
}
