//! Atomic operations of ATOMIC_MEM and SDMA's ATOMIC.

use twin::rule::{Proof, Rule};

use super::{Cx, Stop, refuse};

/// Only operations that are modelled.
pub static ATOMIC_OP: Rule = Rule {
    name: "Q-ATOMIC-OP",
    text: "an atomic operation is one of swap, compare and swap, add, sub, min, max, and, or, xor, inc, \
           dec on 32 or 64 integer bits",
    source: "Linux, navi10_enum.h, enum TC_OP (others are not modelled)",
    proof: Proof::Sourced,
};

/// Addresses are aligned to what is accessed.
pub static ALIGN: Rule = Rule {
    name: "Q-ALIGN",
    text: "an address in a packet is aligned to the size of the access: 4 bytes, or 8 for 64 bits",
    source: "Linux, nvd.h: the low bits of addresses are not part of the fields; gfx_v11_0.c, BUG_ON of \
             emit_fence",
    proof: Proof::Sourced,
};

/// Checks an alignment.
pub(crate) fn aligned(va: u64, bytes: u64) -> Result<(), Stop> {
    if va.is_multiple_of(bytes) {
        Ok(())
    } else {
        Err(refuse(&ALIGN, format!("{va:#x} for {bytes} bytes")))
    }
}

/// Does it; returns what was there. `op` as the texture cache numbers it: 7 to 0x19 on 32 bits,
/// 0x20 more on 64 bits, 0x40 more without a result.
pub(crate) fn run(cx: &Cx, op: u32, va: u64, src: u64, cmp: u64) -> Result<u64, Stop> {
    let wide = op & 0x20 != 0;
    let bytes = if wide { 8 } else { 4 };
    aligned(va, bytes)?;
    if !matches!(op & 0x1f, 0x07 | 0x08 | 0x0f..=0x19) || op >> 7 != 0 {
        return Err(refuse(&ATOMIC_OP, format!("operation {op:#x}")));
    }
    let mask = if wide { u64::MAX } else { 0xffff_ffff };
    let signed = |value: u64| {
        if wide {
            value as i64
        } else {
            i64::from(value as u32 as i32)
        }
    };
    let (src, cmp) = (src & mask, cmp & mask);
    let mut new = |old: u64| {
        let new = match op & 0x1f {
            0x07 => src,
            0x08 if old == cmp => src,
            0x0f => old.wrapping_add(src),
            0x10 => old.wrapping_sub(src),
            0x11 if signed(src) < signed(old) => src,
            0x12 => old.min(src),
            0x13 if signed(src) > signed(old) => src,
            0x14 => old.max(src),
            0x15 => old & src,
            0x16 => old | src,
            0x17 => old ^ src,
            0x18 if old >= src => 0,
            0x18 => old + 1,
            0x19 if old == 0 || old > src => src,
            0x19 => old - 1,
            _ => old,
        };
        new & mask
    };
    Ok(cx.desc.vm.atomic(cx.port(), va, bytes as usize, &mut new)?)
}
