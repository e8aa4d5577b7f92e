//! What all lowered memory instructions share.

use smallvec::SmallVec;

use super::atomic::Flush;
use super::rules::LDS_RANGE;
use super::{Inst, Op, ds, vector};
use crate::counters::Counter;
use crate::step::{File, ISA_RESERVED, Regs, Run, Step, Stop};
use crate::wave::{Lanes, Wave};

/// The instruction as a step.
pub fn lower(inst: &Inst, halves: usize) -> Step {
    let mut uses = Uses::default();
    let run = match inst.op {
        Op::Ds(row) => ds::lower(inst, row, halves, &mut uses),
        Op::Vector(format, row) => vector::lower(inst, format, row, halves, &mut uses),
    };
    let run = run.unwrap_or_else(|why| reserved(inst, why));
    Step {
        lands: uses.lands,
        run,
        touches: uses.touches,
    }
}

/// Stops: the encoding means nothing here.
fn reserved(inst: &Inst, why: &'static str) -> Run {
    let text = inst.to_string();
    Box::new(move |_| Err(Stop::Rule(&ISA_RESERVED, format!("`{text}`: {why}"))))
}

/// The registers of an instruction. The engine checks that the wave has them, and that none is in
/// flight.
#[derive(Default)]
pub struct Uses {
    pub touches: SmallVec<[Regs; 4]>,
    /// The counter on which the first of them comes back in order.
    pub lands: Option<Counter>,
}

impl Uses {
    /// Vector registers; the number of the first, for indexing; 0 where there are none.
    pub fn vector(&mut self, first: u16, count: u8) -> usize {
        if count == 0 {
            return 0;
        }
        self.touches.push(Regs {
            file: File::V,
            first,
            count: count.into(),
        });
        first.into()
    }

    /// Scalar registers; codes above 127 are constants.
    pub fn scalar(&mut self, first: u8, count: u8) {
        if first < 128 {
            self.touches.push(Regs {
                file: File::S,
                first: first.into(),
                count: count.into(),
            });
        }
    }
}

/// Registers in flight after a load.
pub fn regs(first: usize, count: u8) -> Regs {
    Regs {
        file: File::V,
        first: first as u16,
        count: count.into(),
    }
}

/// The rows of `count` registers from `first` of one half: row `i` is at `i * halves`.
pub fn rows<'a>(wave: &'a mut Wave<'_>, first: usize, half: usize) -> &'a mut [Lanes] {
    let start = first * wave.halves + half;
    &mut wave.v[start..]
}

/// Which denormals LDS flushes: as MODE says (ISA documents, float atomics of LDS).
pub fn lds_flush(mode: u32, wide: bool) -> Flush {
    let bits = mode >> if wide { 6 } else { 4 };
    Flush {
        input: bits & 1 == 0,
        output: bits & 2 == 0,
    }
}

/// Whether the bytes of each lane that is on lie in LDS: the dwords are aligned, or not all of them.
#[inline(always)]
pub fn lds_check(
    wave: &Wave,
    addresses: &Lanes,
    mask: u32,
    offset: u32,
    bytes: u32,
) -> Result<bool, Stop> {
    let (mut high, mut low) = (0, offset);
    for (lane, address) in addresses.iter().enumerate() {
        let address = address & (mask >> lane & 1).wrapping_neg();
        high = address.max(high);
        low |= address;
    }
    let size = wave.lds.len() as u32 * 4;
    if size
        .checked_sub(offset + bytes)
        .is_some_and(|last| high <= last)
    {
        return Ok(low.is_multiple_of(4));
    }
    lds_check_sums(wave, addresses, mask, offset, bytes)
}

/// Address and offset make 32 bits: compilers load from `252 - 4 * lane` with the offset 252.
///
/// Source: LLVM, AMDGPUISelDAGToDAG.cpp, isDSOffsetLegal: only chips before these cannot.
#[cold]
fn lds_check_sums(
    wave: &Wave,
    addresses: &Lanes,
    mask: u32,
    offset: u32,
    bytes: u32,
) -> Result<bool, Stop> {
    let size = wave.lds.len() as u64 * 4;
    let mut low = 0;
    for lane in crate::page::lanes(mask) {
        let at = addresses[lane].wrapping_add(offset);
        if u64::from(at) + u64::from(bytes) > size {
            return Err(Stop::Rule(
                &LDS_RANGE,
                format!("lane {lane}: {bytes} bytes at {at:#x}, of {size:#x} bytes"),
            ));
        }
        low |= at;
    }
    Ok(low.is_multiple_of(4))
}

/// Up to 4 bytes of LDS at any address that has been checked.
pub fn lds_get(wave: &Wave, at: u32, bytes: u32) -> u32 {
    let word = |i: u32| wave.lds.get(i as usize).map_or(0, |cell| cell.get());
    let (index, shift) = (at / 4, at % 4 * 8);
    let both = u64::from(word(index)) | u64::from(word(index + 1)) << 32;
    (both >> shift) as u32 & (!0 >> (32 - 8 * bytes))
}

/// Stores up to 4 bytes in LDS at any address that has been checked.
pub fn lds_put(wave: &Wave, at: u32, bytes: u32, value: u32) {
    for i in 0..bytes {
        let (index, shift) = ((at + i) / 4, (at + i) % 4 * 8);
        if let Some(cell) = wave.lds.get(index as usize) {
            cell.set(cell.get() & !(255 << shift) | (value >> (8 * i) & 255) << shift);
        }
    }
}

/// Puts 16 bits into one half of each lane.
pub fn into_half(into: &mut Lanes, from: &Lanes, high: bool, mask: u32) {
    for lane in crate::page::lanes(mask) {
        into[lane] = if high {
            into[lane] & 0xffff | from[lane] << 16
        } else {
            into[lane] & 0xffff_0000 | from[lane] & 0xffff
        };
    }
}
