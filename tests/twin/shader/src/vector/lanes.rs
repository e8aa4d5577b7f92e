//! What is done with whole registers of lanes.

use crate::wave::Lanes;

/// All lanes of a half.
pub const ALL: u32 = u32::MAX;

/// Writes the lanes whose bit in `exec` is set.
#[inline(always)]
pub fn blend(to: &mut Lanes, from: &Lanes, exec: u32) {
    if exec == ALL {
        *to = *from;
        return;
    }
    // By exclusive or: as a choice it would become masked stores, which AMD's own processors are
    // slow at.
    for i in 0..32 {
        let write = (exec >> i & 1).wrapping_neg();
        to[i] ^= (to[i] ^ from[i]) & write;
    }
}

/// A bit per lane from lanes that are 0 or 1.
#[inline(always)]
pub fn pack(flags: &Lanes) -> u32 {
    // By columns of eight, which are one vector.
    let mut columns = [0; 8];
    for row in 0..4 {
        for i in 0..8 {
            columns[i] |= flags[8 * row + i] << (8 * row + i);
        }
    }
    columns.iter().fold(0, |mask, column| mask | column)
}

/// Lanes that are 0 or 1 from a bit per lane.
#[inline(always)]
pub fn unpack(mask: u32) -> Lanes {
    let mut flags = [0; 32];
    for i in 0..32 {
        flags[i] = mask >> i & 1;
    }
    flags
}

/// Clears and flips bits in every lane: `(x & and) ^ xor`, as absolute value and negation do.
#[inline(always)]
pub fn and_xor(lanes: &Lanes, and: u32, xor: u32) -> Lanes {
    let mut to = [0; 32];
    for i in 0..32 {
        to[i] = (lanes[i] & and) ^ xor;
    }
    to
}

/// The high halves of the lanes.
#[inline(always)]
pub fn high(lanes: &Lanes) -> Lanes {
    let mut to = [0; 32];
    for i in 0..32 {
        to[i] = lanes[i] >> 16;
    }
    to
}

/// Low halves of one register and of another as high halves.
#[inline(always)]
pub fn join(low: &Lanes, high: &Lanes) -> Lanes {
    let mut to = [0; 32];
    for i in 0..32 {
        to[i] = low[i] & 0xffff | high[i] << 16;
    }
    to
}
