//! DPP: the first source comes from other lanes.

use crate::isa::Gen;
use crate::wave::{Lanes, Wave};

use super::operand::Source;
use super::run::Operands;

/// Where lanes come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dpp {
    /// By a pattern, DPP16.
    Pattern {
        /// `dpp_ctrl`.
        control: u16,
        /// A lane without a source reads 0 instead of not being written (`bound_ctrl`).
        zero: bool,
        /// Lanes that are not active can be read (`fi`).
        inactive: bool,
        /// Which rows of 16 are written.
        rows: u8,
        /// Which banks of 4 lanes in each row are written.
        banks: u8,
        /// Rows are counted over 32 or 64 lanes.
        generation: Gen,
    },
    /// Any permutation of each 8 lanes, DPP8.
    Eight {
        /// 3 bits for each of 8 lanes.
        select: u32,
        /// Lanes that are not active can be read (`fi`).
        inactive: bool,
    },
}

/// The first source after DPP.
pub struct Crossed {
    /// By half, low and high dwords.
    pub lanes: [[Lanes; 2]; 2],
    /// By half, which lanes may be written.
    pub enabled: [u32; 2],
}

impl Dpp {
    /// The lane that `lane` reads; none where there is no such lane.
    pub fn source(&self, lane: usize, lanes: usize) -> Option<usize> {
        let row = lane & !15;
        let at = lane & 15;
        let (control, generation) = match *self {
            Self::Eight { select, .. } => {
                return Some(lane & !7 | (select >> (3 * (lane & 7)) & 7) as usize);
            }
            Self::Pattern {
                control,
                generation,
                ..
            } => (usize::from(control), generation),
        };
        let n = control & 15;
        match control {
            0..=0xff => Some(lane & !3 | control >> (2 * (lane & 3)) & 3),
            0x101..=0x10f => (at + n < 16).then_some(lane + n),
            0x111..=0x11f => (at >= n).then(|| lane - n),
            0x121..=0x12f => Some(row | (at + 16 - n) & 15),
            0x130 => (lane + 1 < lanes).then_some(lane + 1),
            0x134 => Some((lane + 1) % lanes),
            0x138 => lane.checked_sub(1),
            0x13c => Some((lane + lanes - 1) % lanes),
            0x140 => Some(row | (15 - at)),
            0x141 => Some(lane & !7 | (7 - (lane & 7))),
            0x142 => row.checked_sub(1),
            0x143 => (lane >= 32).then_some(31),
            0x150..=0x15f => Some(row | n),
            0x160..=0x16f if generation != Gen::Cdna3 => Some(row | at ^ n),
            _ => None,
        }
    }

    /// Where each lane reads in a wave of so many halves.
    pub fn resolve(&self, halves: usize) -> Crossing {
        let count = 32 * halves;
        let (zero, inactive) = match *self {
            Self::Pattern { zero, inactive, .. } => (zero, inactive),
            Self::Eight { inactive, .. } => (true, inactive),
        };
        let mut crossing = Crossing {
            from: [0; 64],
            exists: 0,
            written: 0,
            zero,
            inactive,
        };
        for lane in 0..count {
            if let Some(from) = self.source(lane, count) {
                crossing.from[lane] = from as u8;
                crossing.exists |= 1 << lane;
            }
            let written = match *self {
                Self::Pattern { rows, banks, .. } => {
                    rows >> (lane / 16) & 1 != 0 && banks >> (lane / 4 % 4) & 1 != 0
                }
                Self::Eight { .. } => true,
            };
            crossing.written |= u64::from(written) << lane;
        }
        crossing
    }
}

/// Where lanes come from, by lane.
#[derive(Clone, Debug)]
pub struct Crossing {
    from: [u8; 64],
    /// Lanes that have a source.
    exists: u64,
    /// Lanes that are written at all.
    written: u64,
    zero: bool,
    inactive: bool,
}

impl Crossing {
    /// Reads the first source for all lanes, before anything is written.
    pub fn gather(&self, wave: &Wave, operands: &Operands) -> Crossed {
        let mut crossed = Crossed {
            lanes: [[[0; 32]; 2]; 2],
            enabled: [0; 2],
        };
        let Source::Vgpr(register) = operands.src[0].source else {
            return crossed;
        };
        let dwords = operands.src[0].kind.dwords();
        let mut readable = self.exists;
        if !self.inactive && wave.exec != super::operand::lanes_of(wave) {
            let mut active = 0;
            for (lane, from) in self.from.iter().enumerate() {
                active |= (wave.exec >> from & 1) << lane;
            }
            readable &= active;
        }
        let enabled = self.written & if self.zero { u64::MAX } else { readable };
        for half in 0..operands.halves {
            crossed.enabled[half] = (enabled >> (32 * half)) as u32;
            let readable = (readable >> (32 * half)) as u32;
            for dword in 0..dwords {
                // 64 lanes, whether the wave has them or not.
                let low = wave.vgpr(register + dword, 0);
                let high = wave.vgpr(register + dword, operands.halves - 1);
                let lanes = &mut crossed.lanes[half][dword];
                for i in 0..32 {
                    let from = usize::from(self.from[32 * half + i]);
                    let both = if from < 32 { low } else { high };
                    lanes[i] = both[from % 32] & (readable >> i & 1).wrapping_neg();
                }
            }
        }
        crossed
    }
}
