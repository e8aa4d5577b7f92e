//! DS, lowered.

use super::atomic::{Op32, Op64};
use super::ds_table::{Does, Row};
use super::gws::Gws;
use super::lower::{Uses, into_half, lds_check, lds_flush, lds_get, lds_put, regs, rows};
use super::rules::MEM_ALIGN;
use super::table::{Cell, Half};
use super::{Fields, Inst};
use crate::counters::Counter;
use crate::isa::Gen;
use crate::page::{blend, lanes};
use crate::step::{Flow, Run, Stop};
use crate::wave::{Lanes, Wave};

/// Operands of an instruction, as numbers of registers.
#[derive(Clone, Copy)]
struct Ds {
    dst: usize,
    addr: usize,
    data: [usize; 2],
    /// Bytes.
    offset: u32,
    /// Bytes, of instructions with two.
    offset1: u32,
    halves: usize,
    generation: Gen,
}

type Done = Result<Flow, Stop>;

/// The instruction as a closure, or why it cannot run.
pub fn lower(inst: &Inst, row: &Row, halves: usize, uses: &mut Uses) -> Result<Run, &'static str> {
    let Fields {
        vdst,
        vaddr,
        vdata,
        vdata1,
        offset,
        gds,
        ..
    } = inst.fields;
    let shape = row.does.shape();
    if gds && !matches!(row.does, Does::Gws(_)) {
        return Err("there is no global data share");
    }
    let even = |first: u16, dwords: u8| dwords < 2 || first.is_multiple_of(2);
    if inst.generation == Gen::Cdna3
        && !(even(vdst, shape.dst) && even(vdata, shape.data[0]) && even(vdata1, shape.data[1]))
    {
        return Err("registers of more than 32 bits start at an even one");
    }
    let mut ds = Ds {
        dst: uses.vector(vdst, shape.dst),
        addr: uses.vector(vaddr, shape.addr.into()),
        data: [
            uses.vector(vdata, shape.data[0]),
            uses.vector(vdata1, shape.data[1]),
        ],
        offset: offset as u32,
        offset1: 0,
        halves,
        generation: inst.generation,
    };
    uses.lands = (shape.dst > 0).then_some(Counter::Lds);
    if shape.data[1] == 0 {
        ds.data[1] = ds.data[0];
    }
    if let Does::Load2(_, unit) | Does::Store2(_, unit) | Does::Swap2(_, unit) = row.does {
        ds.offset = (offset as u32 & 255) * unit;
        ds.offset1 = (offset as u32 >> 8) * unit;
    }
    if matches!(
        row.does,
        Does::LoadTid | Does::StoreTid | Does::Count(_) | Does::Gws(_)
    ) {
        let m0 = match inst.generation {
            Gen::Rdna2 | Gen::Cdna3 => 124,
            Gen::Rdna3 | Gen::Rdna4 => 125,
        };
        uses.scalar(m0, 1);
    }
    Ok(match row.does {
        Does::Load(cell) => match cell.dwords() {
            1 if cell != Cell::B32 => Box::new(move |wave| ds.load_small(wave, cell, None)),
            1 => Box::new(move |wave| ds.load::<1>(wave)),
            2 => Box::new(move |wave| ds.load::<2>(wave)),
            3 => Box::new(move |wave| ds.load::<3>(wave)),
            _ => Box::new(move |wave| ds.load::<4>(wave)),
        },
        Does::LoadHalf(cell, half) => Box::new(move |wave| ds.load_small(wave, cell, Some(half))),
        Does::Load2(1, _) => Box::new(move |wave| ds.load2::<1>(wave)),
        Does::Load2(..) => Box::new(move |wave| ds.load2::<2>(wave)),
        Does::Store(cell) => match cell.dwords() {
            1 if cell != Cell::B32 => Box::new(move |wave| ds.store_small(wave, cell, 0)),
            1 => Box::new(move |wave| ds.store::<1>(wave)),
            2 => Box::new(move |wave| ds.store::<2>(wave)),
            3 => Box::new(move |wave| ds.store::<3>(wave)),
            _ => Box::new(move |wave| ds.store::<4>(wave)),
        },
        Does::StoreHigh(cell) => Box::new(move |wave| ds.store_small(wave, cell, 16)),
        Does::Store2(1, _) => Box::new(move |wave| ds.store2::<1>(wave)),
        Does::Store2(..) => Box::new(move |wave| ds.store2::<2>(wave)),
        Does::Swap2(dwords, _) => Box::new(move |wave| ds.swap2(wave, dwords)),
        Does::Atomic32(op, _, rtn) => Box::new(move |wave| ds.atomic32(wave, op, rtn)),
        Does::Atomic64(op, _, rtn) => Box::new(move |wave| ds.atomic64(wave, op, rtn)),
        Does::CondSwap => Box::new(move |wave| ds.cond_swap(wave)),
        Does::LoadTid => Box::new(move |wave| ds.load_tid(wave)),
        Does::StoreTid => Box::new(move |wave| ds.store_tid(wave)),
        Does::Count(up) => Box::new(move |wave| ds.count(wave, up)),
        Does::Swizzle => {
            let from = pattern(offset as u32);
            Box::new(move |wave| ds.swizzle(wave, &from))
        }
        Does::Permute => Box::new(move |wave| ds.permute(wave)),
        Does::Bpermute(all) => Box::new(move |wave| ds.bpermute(wave, all)),
        Does::Nop => Box::new(|_| Ok(Flow::Next)),
        Does::Gws(_) => return ds.gws(row.name(inst.generation)),
        Does::Ordered | Does::GsReg => return Err("for graphics only"),
        Does::Bvh(..) => return Err("ray tracing is not modelled"),
    })
}

/// From which lane of 32 each lane takes its value in `ds_swizzle_b32`.
fn pattern(offset: u32) -> [u8; 32] {
    let five = |first: u32| offset >> first & 31;
    std::array::from_fn(|lane| {
        let lane = lane as u32;
        let from = match offset {
            0xe000.. => {
                let mask = five(0);
                lane.reverse_bits() >> 27 >> mask.count_ones() | lane & mask
            }
            0xc000.. => {
                let (mask, by) = (five(0), five(5));
                let rotated = if offset >> 10 & 1 == 1 {
                    lane.wrapping_sub(by)
                } else {
                    lane + by
                };
                lane & mask | rotated & !mask
            }
            0x8000.. => lane & !3 | offset >> (2 * (lane & 3)) & 3,
            _ => (lane & five(0) | five(5)) ^ five(10),
        };
        (from & 31) as u8
    })
}

impl Ds {
    /// Calls `each` for each half with lanes that are on, with its addresses and its mask.
    #[inline(always)]
    fn halves(
        &self,
        wave: &mut Wave,
        mut each: impl FnMut(&mut Wave, usize, &Lanes, u32) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for half in 0..self.halves {
            let mask = wave.exec_half(half);
            if mask != 0 {
                let addresses = *wave.vgpr(self.addr, half);
                each(wave, half, &addresses, mask)?;
            }
        }
        Ok(())
    }

    /// The end of an instruction that writes so many registers.
    #[inline(always)]
    /// Global wave sync: the resource is in M0, a value in the first lane that is on.
    fn gws(self, name: &str) -> Result<Run, &'static str> {
        type Op = fn(&Gws, usize, u32, &mut Option<u64>) -> bool;
        let op: Op = match name {
            "ds_gws_init" => |gws, id, value, _| {
                gws.init(id, value);
                true
            },
            "ds_gws_barrier" => Gws::barrier,
            "ds_gws_sema_v" => |gws, id, _, _| {
                gws.add(id, 1);
                true
            },
            "ds_gws_sema_br" => |gws, id, value, _| {
                gws.add(id, value);
                true
            },
            "ds_gws_sema_p" => |gws, id, _, _| gws.take(id),
            _ => return Err("the release of all waves of a semaphore is not modelled"),
        };
        Ok(Box::new(move |wave| {
            let lane = wave.exec.trailing_zeros() as usize % 64;
            let value = wave.vgpr(self.addr, lane / 32)[lane % 32];
            let id = (wave.m0 >> 16) as usize + self.offset as usize;
            wave.seat.in_order();
            let Some(gws) = wave.bus.memory.gws() else {
                let text = "there is no global wave sync".into();
                return Err(Stop::Rule(&crate::step::ISA_RESERVED, text));
            };
            if op(gws, id, value, &mut wave.arrived) {
                self.issued(wave, 0)
            } else {
                Ok(Flow::Again)
            }
        }))
    }

    fn issued(&self, wave: &mut Wave, dwords: u8) -> Done {
        if dwords == 0 {
            wave.counters.issue(&[Counter::Lds], None);
        } else {
            let writes = regs(self.dst, dwords);
            wave.counters.issue(&[Counter::Lds], Some(writes));
        }
        Ok(Flow::Next)
    }

    fn load<const N: usize>(&self, wave: &mut Wave) -> Done {
        self.halves(wave, |wave, half, addresses, mask| {
            self.load_at::<N>(wave, half, addresses, mask, self.offset, self.dst)
        })?;
        self.issued(wave, N as u8)
    }

    fn load2<const N: usize>(&self, wave: &mut Wave) -> Done {
        self.halves(wave, |wave, half, addresses, mask| {
            self.load_at::<N>(wave, half, addresses, mask, self.offset, self.dst)?;
            self.load_at::<N>(wave, half, addresses, mask, self.offset1, self.dst + N)
        })?;
        self.issued(wave, 2 * N as u8)
    }

    #[inline(always)]
    fn load_at<const N: usize>(
        &self,
        wave: &mut Wave,
        half: usize,
        addresses: &Lanes,
        mask: u32,
        offset: u32,
        dst: usize,
    ) -> Result<(), Stop> {
        let aligned = lds_check(wave, addresses, mask, offset, 4 * N as u32)?;
        let mut found = [[0; 32]; N];
        if aligned {
            for lane in 0..32 {
                // A lane that is off reads the first dwords, and drops them.
                let on = (mask >> lane & 1).wrapping_neg();
                let at = (addresses[lane].wrapping_add(offset) & on) as usize / 4;
                let cells = wave.lds.get(at..at + N).unwrap_or_default();
                for (row, cell) in found.iter_mut().zip(cells) {
                    row[lane] = cell.get();
                }
            }
        } else {
            for lane in lanes(mask) {
                for (i, row) in found.iter_mut().enumerate() {
                    row[lane] =
                        lds_get(wave, addresses[lane].wrapping_add(offset) + 4 * i as u32, 4);
                }
            }
        }
        let rows = rows(wave, dst, half);
        for (i, row) in found.iter().enumerate() {
            blend(&mut rows[i * self.halves], row, mask);
        }
        Ok(())
    }

    fn load_small(&self, wave: &mut Wave, cell: Cell, part: Option<Half>) -> Done {
        let bytes = cell.bytes() as u32;
        self.halves(wave, |wave, half, addresses, mask| {
            lds_check(wave, addresses, mask, self.offset, bytes)?;
            let mut found = [0; 32];
            for lane in lanes(mask) {
                found[lane] = cell.extend(lds_get(
                    wave,
                    addresses[lane].wrapping_add(self.offset),
                    bytes,
                ));
            }
            let row = wave.vgpr_mut(self.dst, half);
            match part {
                None => blend(row, &found, mask),
                Some(part) => into_half(row, &found, part == Half::High, mask),
            }
            Ok(())
        })?;
        self.issued(wave, 1)
    }

    fn store<const N: usize>(&self, wave: &mut Wave) -> Done {
        self.halves(wave, |wave, half, addresses, mask| {
            self.store_at::<N>(wave, half, addresses, mask, self.offset, self.data[0])
        })?;
        self.issued(wave, 0)
    }

    fn store2<const N: usize>(&self, wave: &mut Wave) -> Done {
        self.halves(wave, |wave, half, addresses, mask| {
            self.store_at::<N>(wave, half, addresses, mask, self.offset, self.data[0])?;
            self.store_at::<N>(wave, half, addresses, mask, self.offset1, self.data[1])
        })?;
        self.issued(wave, 0)
    }

    #[inline(always)]
    fn store_at<const N: usize>(
        &self,
        wave: &mut Wave,
        half: usize,
        addresses: &Lanes,
        mask: u32,
        offset: u32,
        data: usize,
    ) -> Result<(), Stop> {
        let aligned = lds_check(wave, addresses, mask, offset, 4 * N as u32)?;
        let rows = &wave.v[data * self.halves + half..];
        let rows: [&Lanes; N] = std::array::from_fn(|i| &rows[i * self.halves]);
        if aligned {
            for lane in 0..32 {
                if mask >> lane & 1 == 1 {
                    let at = addresses[lane].wrapping_add(offset) as usize / 4;
                    let cells = wave.lds.get(at..at + N).unwrap_or_default();
                    for (row, cell) in rows.iter().zip(cells) {
                        cell.set(row[lane]);
                    }
                }
            }
            return Ok(());
        }
        for lane in lanes(mask) {
            for (i, row) in rows.iter().enumerate() {
                lds_put(
                    wave,
                    addresses[lane].wrapping_add(offset) + 4 * i as u32,
                    4,
                    row[lane],
                );
            }
        }
        Ok(())
    }

    fn store_small(&self, wave: &mut Wave, cell: Cell, shift: u32) -> Done {
        let bytes = cell.bytes() as u32;
        self.halves(wave, |wave, half, addresses, mask| {
            lds_check(wave, addresses, mask, self.offset, bytes)?;
            let values = *wave.vgpr(self.data[0], half);
            for lane in lanes(mask) {
                lds_put(
                    wave,
                    addresses[lane].wrapping_add(self.offset),
                    bytes,
                    values[lane] >> shift,
                );
            }
            Ok(())
        })?;
        self.issued(wave, 0)
    }

    fn swap2(&self, wave: &mut Wave, dwords: u8) -> Done {
        let dwords = usize::from(dwords);
        let bytes = 4 * dwords as u32;
        self.halves(wave, |wave, half, addresses, mask| {
            let mut found = [[0; 32]; 4];
            for offset in [self.offset, self.offset1] {
                lds_check(wave, addresses, mask, offset, bytes)?;
                for lane in lanes(mask) {
                    aligned(addresses[lane].wrapping_add(offset), bytes)?;
                }
            }
            for lane in lanes(mask) {
                for (which, offset) in [self.offset, self.offset1].into_iter().enumerate() {
                    for i in 0..dwords {
                        let at = addresses[lane].wrapping_add(offset) + 4 * i as u32;
                        let new = wave.vgpr(self.data[which] + i, half)[lane];
                        found[which * dwords + i][lane] = lds_get(wave, at, 4);
                        lds_put(wave, at, 4, new);
                    }
                }
            }
            for (i, row) in found.iter().enumerate().take(2 * dwords) {
                blend(wave.vgpr_mut(self.dst + i, half), row, mask);
            }
            Ok(())
        })?;
        self.issued(wave, 2 * dwords as u8)
    }

    fn atomic32(&self, wave: &mut Wave, op: Op32, rtn: bool) -> Done {
        let flush = lds_flush(wave.mode, false);
        self.halves(wave, |wave, half, addresses, mask| {
            lds_check(wave, addresses, mask, self.offset, 4)?;
            let mut found = [0; 32];
            for lane in lanes(mask) {
                let at = addresses[lane].wrapping_add(self.offset);
                aligned(at, 4)?;
                let data = wave.vgpr(self.data[0], half)[lane];
                let other = wave.vgpr(self.data[1], half)[lane];
                let old = lds_get(wave, at, 4);
                found[lane] = old;
                lds_put(wave, at, 4, op(old, data, other, flush));
            }
            if rtn {
                blend(wave.vgpr_mut(self.dst, half), &found, mask);
            }
            Ok(())
        })?;
        self.issued(wave, rtn.into())
    }

    fn atomic64(&self, wave: &mut Wave, op: Op64, rtn: bool) -> Done {
        let flush = lds_flush(wave.mode, true);
        self.halves(wave, |wave, half, addresses, mask| {
            lds_check(wave, addresses, mask, self.offset, 8)?;
            let mut found = [[0; 32]; 2];
            let pair = |wave: &Wave, first: usize, lane: usize| {
                let low = wave.vgpr(first, half)[lane];
                let high = wave.vgpr(first + 1, half)[lane];
                u64::from(low) | u64::from(high) << 32
            };
            for lane in lanes(mask) {
                let at = addresses[lane].wrapping_add(self.offset);
                aligned(at, 8)?;
                let data = pair(wave, self.data[0], lane);
                let other = pair(wave, self.data[1], lane);
                let [low, high] = [lds_get(wave, at, 4), lds_get(wave, at + 4, 4)];
                let old = u64::from(low) | u64::from(high) << 32;
                let new = op(old, data, other, flush);
                [found[0][lane], found[1][lane]] = [low, high];
                lds_put(wave, at, 4, new as u32);
                lds_put(wave, at + 4, 4, (new >> 32) as u32);
            }
            if rtn {
                blend(wave.vgpr_mut(self.dst, half), &found[0], mask);
                blend(wave.vgpr_mut(self.dst + 1, half), &found[1], mask);
            }
            Ok(())
        })?;
        self.issued(wave, 2 * u8::from(rtn))
    }

    fn cond_swap(&self, wave: &mut Wave) -> Done {
        self.halves(wave, |wave, half, addresses, mask| {
            let at: Lanes = addresses.map(|a| a.wrapping_add(self.offset) & 0xfff8);
            lds_check(wave, &at, mask, 0, 8)?;
            let mut found = [[0; 32]; 2];
            for lane in lanes(mask) {
                for (i, found) in found.iter_mut().enumerate() {
                    let at = at[lane] + 4 * i as u32;
                    let data = wave.vgpr(self.data[0] + i, half)[lane];
                    found[lane] = lds_get(wave, at, 4);
                    if data >> 31 == 1 {
                        lds_put(wave, at, 4, data & 0x7fff_ffff);
                    }
                }
            }
            blend(wave.vgpr_mut(self.dst, half), &found[0], mask);
            blend(wave.vgpr_mut(self.dst + 1, half), &found[1], mask);
            Ok(())
        })?;
        self.issued(wave, 2)
    }

    /// Addresses that come from M0 and the lane.
    fn tid(&self, wave: &Wave, half: usize) -> Lanes {
        let first = (self.offset + wave.m0) & 0xffff;
        std::array::from_fn(|lane| first + 4 * (32 * half + lane) as u32)
    }

    fn load_tid(&self, wave: &mut Wave) -> Done {
        for half in 0..self.halves {
            let (at, mask) = (self.tid(wave, half), wave.exec_half(half));
            if mask != 0 {
                self.load_at::<1>(wave, half, &at, mask, 0, self.dst)?;
            }
        }
        self.issued(wave, 1)
    }

    fn store_tid(&self, wave: &mut Wave) -> Done {
        for half in 0..self.halves {
            let (at, mask) = (self.tid(wave, half), wave.exec_half(half));
            if mask != 0 {
                self.store_at::<1>(wave, half, &at, mask, 0, self.data[0])?;
            }
        }
        self.issued(wave, 0)
    }

    fn count(&self, wave: &mut Wave, up: bool) -> Done {
        // RDNA4 has no base in M0 (ISA document, DS_APPEND).
        let base = if self.generation == Gen::Rdna4 {
            0
        } else {
            wave.m0 & 0xffff
        };
        let at = base + self.offset;
        lds_check(wave, &[at; 32], 1, 0, 4)?;
        aligned(at, 4)?;
        let old = lds_get(wave, at, 4);
        let count = wave.exec.count_ones();
        let new = if up {
            old.wrapping_add(count)
        } else {
            old.wrapping_sub(count)
        };
        lds_put(wave, at, 4, new);
        for half in 0..self.halves {
            let mask = wave.exec_half(half);
            blend(wave.vgpr_mut(self.dst, half), &[old; 32], mask);
        }
        self.issued(wave, 1)
    }

    fn swizzle(&self, wave: &mut Wave, from: &[u8; 32]) -> Done {
        self.halves(wave, |wave, half, values, mask| {
            let found = std::array::from_fn(|lane| {
                let from = usize::from(from[lane] & 31);
                values[from] & (mask >> from & 1).wrapping_neg()
            });
            blend(wave.vgpr_mut(self.dst, half), &found, mask);
            Ok(())
        })?;
        self.issued(wave, 1)
    }

    /// The lane of the wave that `address` names for a lane of `half`. RDNA2 and 3 stay in their
    /// half (ISA documents: modulo 32 whatever the wave's size).
    fn peer(&self, address: u32, half: usize) -> usize {
        let lane = (address.wrapping_add(self.offset) / 4) as usize;
        match self.generation {
            Gen::Rdna2 | Gen::Rdna3 => lane % 32 + 32 * half,
            Gen::Rdna4 | Gen::Cdna3 => lane % (32 * self.halves),
        }
    }

    fn permute(&self, wave: &mut Wave) -> Done {
        let mut found = [[0; 32]; 2];
        self.halves(wave, |wave, half, addresses, mask| {
            let values = wave.vgpr(self.data[0], half);
            for lane in lanes(mask) {
                let to = self.peer(addresses[lane], half);
                found[to / 32][to % 32] = values[lane];
            }
            Ok(())
        })?;
        self.put(wave, &found)
    }

    fn bpermute(&self, wave: &mut Wave, all: bool) -> Done {
        let mut found = [[0; 32]; 2];
        self.halves(wave, |wave, half, addresses, mask| {
            for lane in lanes(mask) {
                let from = self.peer(addresses[lane], half);
                if all || wave.exec >> from & 1 == 1 {
                    found[half][lane] = wave.vgpr(self.data[0], from / 32)[from % 32];
                }
            }
            Ok(())
        })?;
        self.put(wave, &found)
    }

    fn put(&self, wave: &mut Wave, found: &[Lanes; 2]) -> Done {
        for (half, row) in found.iter().enumerate().take(self.halves) {
            let mask = wave.exec_half(half);
            blend(wave.vgpr_mut(self.dst, half), row, mask);
        }
        self.issued(wave, 1)
    }
}

fn aligned(at: u32, bytes: u32) -> Result<(), Stop> {
    if at.is_multiple_of(bytes) {
        return Ok(());
    }
    Err(Stop::Rule(
        &MEM_ALIGN,
        format!("atomic of {bytes} bytes at {at:#x} of LDS"),
    ))
}
