//! FLAT, GLOBAL, SCRATCH, MUBUF and MTBUF, lowered.

use super::atomic::Flush;
use super::buffer::{Buffer, Offset};
use super::decode::saddr_off;
use super::format::{self, Elements};
use super::lower::{Uses, into_half, lds_check, lds_put, regs};
use super::print::LITERAL;
use super::table::{Cell, Does, Format, Half, Row};
use super::target::{Address, Base};
use super::{Fields, Inst};
use crate::counters::Counter;
use crate::isa::Gen;
use crate::page::{Port, blend, lanes};
use crate::step::{Flow, Run, Stop};
use crate::wave::Wave;

/// An instruction, operands resolved.
#[derive(Clone, Copy)]
struct Access {
    address: Address,
    /// Destination, and how many registers are written.
    dst: usize,
    written: u8,
    data: usize,
    counters: &'static [Counter],
    halves: usize,
}

type Done = Result<Flow, Stop>;

fn cache(inst: &Inst, row: &Row) -> Run {
    let (invalidates, writes_back) = cache_scopes(inst, row);
    let system = inst.generation == Gen::Rdna4 && inst.fields.cache.scope == 3;
    Box::new(move |wave| {
        if let Some(system) = writes_back {
            wave.bus.memory.write_back(system);
        }
        if invalidates {
            wave.bus.memory.invalidate(Port::Vector, system);
        }
        Ok(Flow::Next)
    })
}

/// Loads and stores of elements that have a format.
fn formatted(access: Access, does: Does, elements: Elements) -> Run {
    match does {
        Does::LoadFormat(n) => {
            Box::new(move |wave| access.load_format(wave, &elements, n, format::Into::Whole))
        }
        Does::LoadFormatHalf(n) => {
            Box::new(move |wave| access.load_format(wave, &elements, n, format::Into::Halves))
        }
        Does::LoadFormatHigh => {
            Box::new(move |wave| access.load_format(wave, &elements, 1, format::Into::High))
        }
        Does::StoreFormat(n) => {
            Box::new(move |wave| access.store_format(wave, &elements, n, format::Into::Whole))
        }
        Does::StoreFormatHalf(n) => {
            Box::new(move |wave| access.store_format(wave, &elements, n, format::Into::Halves))
        }
        _ => Box::new(move |wave| access.store_format(wave, &elements, 1, format::Into::High)),
    }
}

/// The instruction as a closure, or why it cannot run.
pub fn lower(
    inst: &Inst,
    format: Format,
    row: &Row,
    halves: usize,
    uses: &mut Uses,
) -> Result<Run, &'static str> {
    let does = row.does;
    let generation = inst.generation;
    let fields = inst.fields;
    if matches!(does, Does::Cache) {
        return Ok(cache(inst, row));
    }
    check(inst, format, does)?;
    let returns = !does.atomic() || inst.returns();
    let to_lds = fields.lds || matches!(does, Does::LoadLds(_));
    let written = if returns && !to_lds {
        does.written()
    } else {
        0
    };
    let access = Access {
        dst: uses.vector(fields.vdst, written),
        written,
        data: uses.vector(fields.vdata, does.read()),
        address: address(inst, format, does, uses),
        counters: counters(format, does.store() || !returns),
        halves,
    };
    // Flat accesses come back from LDS or from memory.
    uses.lands = (written > 0 && access.counters.len() == 1).then_some(Counter::Load);
    // Memory keeps denormals: every chip here that adds f32 in memory has LLVM's
    // `FeatureMemoryAtomicFAddF32DenormalSupport` (`llc -mcpu=gfx1100` makes no loop around it).
    let flush = Flush::default();
    let travels = row.travels();
    if to_lds {
        let cell = match does {
            Does::Load(cell) | Does::LoadLds(cell) => cell,
            _ => return Err("formats are not loaded into LDS"),
        };
        uses.scalar(m0(generation), 1);
        return Ok(Box::new(move |wave| access.load_lds(wave, cell)));
    }
    let run: Run = match does {
        Does::Load(Cell::B32) | Does::LoadTid => Box::new(move |wave| access.load::<1>(wave)),
        Does::Load(Cell::B64) => Box::new(move |wave| access.load::<2>(wave)),
        Does::Load(Cell::B96) => Box::new(move |wave| access.load::<3>(wave)),
        Does::Load(Cell::B128) => Box::new(move |wave| access.load::<4>(wave)),
        Does::Load(cell) => Box::new(move |wave| access.load_small(wave, cell, None)),
        Does::LoadHalf(cell, half) => {
            Box::new(move |wave| access.load_small(wave, cell, Some(half)))
        }
        Does::Store(Cell::B32) | Does::StoreTid => Box::new(move |wave| access.store::<1>(wave)),
        Does::Store(Cell::B64) => Box::new(move |wave| access.store::<2>(wave)),
        Does::Store(Cell::B96) => Box::new(move |wave| access.store::<3>(wave)),
        Does::Store(Cell::B128) => Box::new(move |wave| access.store::<4>(wave)),
        Does::Store(cell) => Box::new(move |wave| access.store_small(wave, cell, 0)),
        Does::StoreHigh(cell) => Box::new(move |wave| access.store_small(wave, cell, 16)),
        Does::Atomic32(op, operands) => Box::new(move |wave| {
            access.atomic(wave, 4, operands, travels, |old, data, other| {
                op(old as u32, data as u32, other as u32, flush).into()
            })
        }),
        Does::Atomic64(op, operands) => Box::new(move |wave| {
            access.atomic(wave, 8, operands, travels, |old, data, other| {
                op(old, data, other, flush)
            })
        }),
        Does::LoadFormat(_)
        | Does::LoadFormatHalf(_)
        | Does::LoadFormatHigh
        | Does::StoreFormat(_)
        | Does::StoreFormatHalf(_)
        | Does::StoreFormatHigh => {
            let typed = (format == Format::TypedBuffer).then_some(fields.format);
            formatted(access, does, Elements::new(generation, typed))
        }
        Does::LoadTransposed(_) => return Err("transposing loads are not modelled"),
        Does::LoadLds(_) | Does::Cache | Does::Other(..) => return Err("not modelled"),
    };
    if !has_order(inst, does) {
        return Ok(run);
    }
    Ok(Box::new(move |wave| {
        wave.seat.in_order();
        run(wave)
    }))
}

/// Whether it is a matter of order with what other workgroups do: an atomic that returns what was
/// there, or whose results do not add up in any order, and a load that sees what others of the GPU
/// write meanwhile (LLVM AMDGPUUsage, memory models: loads at agent scope).
fn has_order(inst: &Inst, does: Does) -> bool {
    use super::atomic::*;
    use std::ptr::fn_addr_eq;
    let cache = inst.fields.cache;
    match does {
        Does::Atomic32(op, _) => {
            let any: [Op32; 9] = [add, sub, min_u, max_u, min_i, max_i, and, or, xor];
            inst.returns() || !any.iter().any(|&x| fn_addr_eq(op, x))
        }
        Does::Atomic64(op, _) => {
            let any: [Op64; 9] = [
                add64, sub64, min_u64, max_u64, min_i64, max_i64, and64, or64, xor64,
            ];
            inst.returns() || !any.iter().any(|&x| fn_addr_eq(op, x))
        }
        _ if does.store() => false,
        _ => match inst.generation {
            Gen::Rdna2 | Gen::Rdna3 => cache.glc,
            Gen::Cdna3 => cache.dlc,
            Gen::Rdna4 => cache.scope >= 2,
        },
    }
}

/// Whether an instruction that acts on caches invalidates L0 for what others of the GPU wrote, and
/// whether it writes GL2 back: for the system (`true`) or the agent (LLVM AMDGPUUsage, memory models of GFX942 and GFX12).
fn cache_scopes(inst: &Inst, row: &Row) -> (bool, Option<bool>) {
    let cache = inst.fields.cache;
    let name = row.name(inst.generation);
    match inst.generation {
        Gen::Rdna2 | Gen::Rdna3 => (true, None),
        // SC1 is agent scope, SC0 and SC1 system scope.
        Gen::Cdna3 => (
            name == "inv" && cache.dlc,
            (name == "wbl2" && cache.dlc).then_some(cache.glc),
        ),
        // Scopes are CU, SE, DEV, SYS.
        Gen::Rdna4 => (
            name != "wb" && cache.scope >= 2,
            (name != "inv" && cache.scope == 3).then_some(true),
        ),
    }
}

/// What the disassembler prints and the chip does not run.
fn check(inst: &Inst, format: Format, does: Does) -> Result<(), &'static str> {
    let fields = &inst.fields;
    let even = |first: u16, dwords: u8| dwords < 2 || first.is_multiple_of(2);
    let vaddr = match format {
        Format::Flat => 2,
        Format::Global if fields.saddr == saddr_off(inst.generation) => 2,
        Format::Buffer | Format::TypedBuffer => u8::from(fields.idxen) + u8::from(fields.offen),
        _ => 1,
    };
    let aligned = even(fields.vdst, does.written())
        && even(fields.vdata, does.read())
        && even(fields.vaddr, vaddr);
    if inst.generation == Gen::Cdna3 && !aligned {
        return Err("registers of more than 32 bits start at an even one");
    }
    if fields.tfe {
        return Err("texture fail is not modelled");
    }
    if fields.scale_offset {
        return Err("the chip does not scale offsets");
    }
    let used = fields.saddr != saddr_off(inst.generation);
    let flat = matches!(format, Format::Flat | Format::Global | Format::Scratch);
    if flat && used && fields.saddr >= 124 {
        return Err("no address is there");
    }
    if matches!(format, Format::Buffer | Format::TypedBuffer) && fields.saddr >= 124 {
        return Err("no descriptor is there");
    }
    Ok(())
}

fn m0(generation: Gen) -> u8 {
    match generation {
        Gen::Rdna2 | Gen::Cdna3 => 124,
        Gen::Rdna3 | Gen::Rdna4 => 125,
    }
}

fn address(inst: &Inst, format: Format, does: Does, uses: &mut Uses) -> Address {
    let Fields {
        vaddr,
        saddr,
        soffset,
        literal,
        offset,
        sve,
        idxen,
        offen,
        ..
    } = inst.fields;
    let used = saddr != saddr_off(inst.generation);
    let (base, dwords, scalars) = match format {
        _ if matches!(does, Does::LoadTid | Does::StoreTid) => (Base::Tid, 0, 2),
        Format::Flat => (Base::Flat, 2, 2),
        Format::Global => (Base::Global, if used { 1 } else { 2 }, 2),
        Format::Scratch => (Base::Scratch, sve.into(), 1),
        Format::Buffer | Format::TypedBuffer => {
            let register = soffset < 128;
            let constant = match soffset {
                128..=192 => i32::from(soffset) - 128,
                193..=208 => 192 - i32::from(soffset),
                240..=248 => {
                    const FLOATS: [f32; 9] =
                        [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.159_154_94];
                    FLOATS[usize::from(soffset) - 240].to_bits() as i32
                }
                LITERAL => literal as i32,
                _ => 0,
            };
            uses.scalar(soffset, 1);
            let buffer = Buffer {
                generation: inst.generation,
                soffset: if register {
                    Offset::Scalar(soffset.into())
                } else {
                    Offset::Constant(constant as u32)
                },
                idxen,
                offen,
            };
            (Base::Buffer(buffer), u8::from(idxen) + u8::from(offen), 4)
        }
    };
    let buffer = matches!(base, Base::Buffer(_));
    // An odd pair is the pair that it is in.
    let first = saddr & !(scalars - 1);
    if used || buffer {
        uses.scalar(first, scalars);
    }
    Address {
        base,
        vaddr: (dwords > 0).then(|| uses.vector(vaddr, dwords)),
        saddr: (used || buffer).then_some(first.into()),
        offset,
        port: port(inst, does.store()),
    }
}

/// The way of a load. One that is coherent with other CUs goes past the caches in front of GL2, which
/// is where the command processor reads (LLVM AMDGPUUsage, memory models: what a load of agent scope
/// sets). Stores of RDNA4 at system scope go there, too.
fn port(inst: &Inst, store: bool) -> Port {
    let cache = inst.fields.cache;
    if store {
        let system = inst.generation == Gen::Rdna4 && cache.scope == 3;
        return if system { Port::Cp } else { Port::Vector };
    }
    let past = match inst.generation {
        Gen::Rdna2 => cache.glc && cache.dlc,
        Gen::Rdna3 => cache.glc,
        Gen::Rdna4 => cache.scope >= 2,
        Gen::Cdna3 => cache.dlc,
    };
    if past { Port::Cp } else { Port::Vector }
}

/// Which counters an instruction waits on: flat ones do not know beforehand where they go.
fn counters(format: Format, store: bool) -> &'static [Counter] {
    match (format == Format::Flat, store) {
        (false, false) => &[Counter::Load],
        (false, true) => &[Counter::Store],
        (true, false) => &[Counter::Load, Counter::Lds],
        (true, true) => &[Counter::Store, Counter::Lds],
    }
}

impl Access {
    /// Calls `each` with the half, its mask and its addresses, for each half with lanes that are on.
    #[inline(always)]
    fn run(
        &self,
        wave: &mut Wave,
        bytes: u32,
        mut each: impl FnMut(&mut Wave, usize, u32, &super::target::Target) -> Result<(), Stop>,
    ) -> Done {
        for half in 0..self.halves {
            let mask = wave.exec_half(half);
            if mask != 0 {
                let target = self.address.target(wave, half, mask, bytes);
                each(wave, half, mask, &target)?;
            }
        }
        if self.written == 0 {
            wave.counters.issue(self.counters, None);
        } else {
            let writes = regs(self.dst, self.written);
            wave.counters.issue(self.counters, Some(writes));
        }
        Ok(Flow::Next)
    }

    fn load<const N: usize>(&self, wave: &mut Wave) -> Done {
        self.run(wave, 4 * N as u32, |wave, half, mask, target| {
            target.load::<N>(wave, half, mask, self.dst)
        })
    }

    fn store<const N: usize>(&self, wave: &mut Wave) -> Done {
        self.run(wave, 4 * N as u32, |wave, half, mask, target| {
            target.store::<N>(wave, half, mask, self.data)
        })
    }

    fn load_small(&self, wave: &mut Wave, cell: Cell, part: Option<Half>) -> Done {
        let bytes = cell.bytes() as u32;
        self.run(wave, bytes, |wave, half, mask, target| {
            let found = target.load_small(wave, half, mask, bytes)?;
            let found = found.map(|value| cell.extend(value));
            let row = wave.vgpr_mut(self.dst, half);
            match part {
                None => blend(row, &found, mask),
                Some(part) => into_half(row, &found, part == Half::High, mask),
            }
            Ok(())
        })
    }

    fn store_small(&self, wave: &mut Wave, cell: Cell, shift: u32) -> Done {
        let bytes = cell.bytes() as u32;
        self.run(wave, bytes, |wave, half, mask, target| {
            let values = wave.vgpr(self.data, half).map(|value| value >> shift);
            target.store_small(wave, half, mask, bytes, &values)
        })
    }

    /// M0 and the lane say where in LDS; the offset counts for both sides.
    fn load_lds(&self, wave: &mut Wave, cell: Cell) -> Done {
        let bytes = cell.bytes() as u32;
        let first = (wave.m0 & 0xffff).wrapping_add(self.address.offset as u32);
        self.run(wave, bytes, |wave, half, mask, target| {
            let at: [u32; 32] =
                std::array::from_fn(|i| first.wrapping_add(4 * (32 * half + i) as u32));
            lds_check(wave, &at, mask, 0, 4)?;
            for lane in lanes(mask) {
                let value = cell.extend(target.get(wave, half, lane, 0, bytes)?);
                lds_put(wave, at[lane], 4, value);
            }
            Ok(())
        })
    }

    fn atomic(
        &self,
        wave: &mut Wave,
        bytes: u32,
        operands: u8,
        travels: bool,
        op: impl Fn(u64, u64, u64) -> u64,
    ) -> Done {
        let wide = usize::from(bytes == 8);
        self.run(wave, bytes, |wave, half, mask, target| {
            let mut found = [[0; 32]; 2];
            for lane in lanes(mask) {
                let value = |wave: &Wave, first: usize| {
                    let low = wave.vgpr(first, half)[lane];
                    let high = wave.vgpr(first + wide, half)[lane];
                    u64::from(low) | u64::from(high) << 32
                };
                let data = value(wave, self.data);
                let other = if operands == 2 {
                    value(wave, self.data + 1 + wide)
                } else {
                    0
                };
                let old =
                    target.atomic(wave, half, lane, bytes, travels, |old| op(old, data, other))?;
                [found[0][lane], found[1][lane]] = [old as u32, (old >> 32) as u32];
            }
            for (i, row) in found.iter().enumerate().take(self.written.into()) {
                blend(wave.vgpr_mut(self.dst + i, half), row, mask);
            }
            Ok(())
        })
    }

    /// The format, and what each element of the result is taken from.
    fn elements(&self, wave: &Wave, elements: &Elements) -> Result<format::Chosen, Stop> {
        elements.choose(Buffer::words(&self.address, wave)[3])
    }

    fn load_format(
        &self,
        wave: &mut Wave,
        elements: &Elements,
        count: u8,
        into: format::Into,
    ) -> Done {
        let chosen = self.elements(wave, elements)?;
        self.run(wave, chosen.bytes(), |wave, half, mask, target| {
            for lane in lanes(mask) {
                let mut raw = 0u128;
                let outside = target.outside(wave, lane, chosen.bytes());
                let end = if outside { 0 } else { chosen.bytes() };
                for byte in (0..end).step_by(4) {
                    let bytes = (chosen.bytes() - byte).min(4);
                    let piece = match bytes {
                        3 => {
                            target.get(wave, half, lane, byte, 2)?
                                | target.get(wave, half, lane, byte + 2, 1)? << 16
                        }
                        _ => target.get(wave, half, lane, byte, bytes)?,
                    };
                    raw |= u128::from(piece) << (8 * byte);
                }
                for i in 0..count {
                    let value = chosen.load(raw, i, into);
                    let (register, shift) = into.register(i);
                    let row = wave.vgpr_mut(self.dst + register, half);
                    row[lane] = match shift {
                        None => value,
                        Some(shift) => row[lane] & !(0xffff << shift) | value << shift,
                    };
                }
            }
            Ok(())
        })
    }

    fn store_format(
        &self,
        wave: &mut Wave,
        elements: &Elements,
        count: u8,
        from: format::Into,
    ) -> Done {
        let chosen = self.elements(wave, elements)?;
        self.run(wave, chosen.bytes(), |wave, half, mask, target| {
            for lane in lanes(mask) {
                if target.outside(wave, lane, chosen.bytes()) {
                    continue;
                }
                let mut values = [0; 4];
                for i in 0..count {
                    let (register, shift) = from.register(i);
                    let value = wave.vgpr(self.data + register, half)[lane];
                    values[usize::from(i)] = match shift {
                        None => value,
                        Some(shift) => value >> shift & 0xffff,
                    };
                }
                let raw = chosen.store(values, from);
                for byte in (0..chosen.bytes()).step_by(4) {
                    let bytes = (chosen.bytes() - byte).min(4);
                    target.put(wave, half, lane, byte, bytes, (raw >> (8 * byte)) as u32)?;
                }
            }
            Ok(())
        })
    }
}
