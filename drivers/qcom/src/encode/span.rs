//! Checks of addresses and ranges, and comparisons of 64 bits by halves.

use drivers_gpu::span;
use hcq::command_buffer::{Part, Patch, Section};
use hcq::{CommandBuffer, Compare, Result, Signal, Val, Width};

use super::{ADDRESS_BITS, Setup};

/// Maximum number of launches of one copy. More indicates a wrong size.
const MOST: u64 = 1 << 12;

/// Refuses a known address that is not aligned to the word. One given later is the caller's.
pub(super) fn check_word(setup: &Setup, command: &str, at: Val, width: Width) -> Result<()> {
    span::aligned(at, width)
        .and_then(|()| span::reached(at, span::bytes(width), ADDRESS_BITS))
        .map_err(|why| setup.refused(command, why))
}

/// Refuses a copy that no kernel can do. `each`: bytes of a launch.
pub(super) fn check_copy(setup: &Setup, dst: Val, src: Val, bytes: u64, each: u64) -> Result<()> {
    span::transfers(bytes, each, MOST)
        .and_then(|()| span::reached(dst, bytes, ADDRESS_BITS))
        .and_then(|()| span::reached(src, bytes, ADDRESS_BITS))
        .and_then(|()| span::check_disjoint(dst, src, bytes))
        .map_err(|why| setup.refused("copy", why))
}

/// Refuses a fill that no kernel can do.
pub(super) fn check_fill(setup: &Setup, at: Val, bytes: u64, each: u64) -> Result<()> {
    span::aligned(at, Width::W32)
        .and_then(|()| span::words(bytes))
        .and_then(|()| span::transfers(bytes, each, MOST))
        .and_then(|()| span::reached(at, bytes, ADDRESS_BITS))
        .map_err(|why| setup.refused("fill", why))
}

/// Whether a wait must be omitted: the host has seen that it is satisfied and that its high half has changed since, so
/// that 32-bit compares might wait for the low half again. Constant values only; values that are given later are newer
/// than the packets.
pub(super) fn is_past(signal: &Signal, value: Val) -> bool {
    match value {
        Val::Const(value) => signal.seen() >> 32 > value >> 32,
        Val::Slot(..) => false,
    }
}

/// A comparison of 64 bits by two of 32: `compare32` gets the offset of each half that the mask has bits in, which part
/// of the value it is compared with, and the mask. The high half comes first: a value that only grows is then at least
/// as large as asked for once both have passed ([`hcq::timeline::Counter`]).
///
/// # Errors
/// [`hcq::Error::Command`] where two comparisons cannot say the same.
pub(super) fn by_halves(
    setup: &Setup,
    mask: u64,
    value: Val,
    compare: Compare,
    mut compare32: impl FnMut(u64, Part, u32),
) -> Result<()> {
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let unseen =
        |half: u64| matches!(value, Val::Const(value) if value & half != 0 && mask & half == 0);
    let exact = compare != Compare::GreaterEqual;
    let outside = matches!(value, Val::Const(value) if exact && value & !mask != 0);
    if outside || unseen(u64::from(u32::MAX)) || unseen(u64::from(u32::MAX) << 32) {
        let why = format!(
            "value {value:x?} has bits outside mask {mask:#x}: give a value inside the mask"
        );
        return Err(setup.refused("poll", why));
    }
    let both = low != 0 && high != 0;
    if both && compare == Compare::NotEqual {
        let why = format!(
            "WAIT_REG_MEM compares 32 bits and cannot wait for any bit of {mask:#x} to differ: poll one half"
        );
        return Err(setup.refused("poll", why));
    }
    // Any high half is at least 0.
    let is_low =
        matches!(value, Val::Const(value) if value >> 32 == 0) && compare == Compare::GreaterEqual;
    if high != 0 && !(both && is_low) {
        compare32(4, Part::High, high);
    }
    if low != 0 {
        compare32(0, Part::Low, low);
    }
    Ok(())
}

/// An address and an offset.
pub(super) fn plus(at: Val, offset: u64) -> Val {
    match at {
        Val::Const(at) => Val::Const(at.wrapping_add(offset)),
        Val::Slot(slot, add) => Val::Slot(slot, add.wrapping_add(offset)),
    }
}

/// Appends a half of a value, with a patch if it is open.
#[inline]
pub(super) fn half(out: &mut CommandBuffer, value: Val, part: Part) {
    let word = match (value, part) {
        (Val::Const(value), Part::High) => (value >> 32) as u32,
        (Val::Const(value), _) => value as u32,
        (Val::Slot(slot, add), _) => {
            out.patches.push(Patch {
                section: Section::Words,
                offset: out.words.len() as u32 * 4,
                part,
                slot,
                add,
            });
            0
        }
    };
    out.word(word);
}
