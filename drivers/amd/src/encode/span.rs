//! Checks of addresses and ranges, and comparisons of 64 bits by halves.

use drivers_gpu::span;
use hcq::command_buffer::Part;
use hcq::{Compare, Result, Signal, Val, Width};

use super::Setup;
use super::sink::Halves;

/// Maximum number of packets of one copy. More indicates a wrong size.
const COPY_PACKETS: u64 = 1 << 20;

/// Bits of an address in packets.
const BITS: u32 = 64;

/// Refuses a known address that is not aligned to the word. One given later is the caller's.
pub(crate) fn check_aligned(setup: &Setup, command: &str, at: Val, width: Width) -> Result<()> {
    span::aligned(at, width).map_err(|why| setup.refused(command, why))
}

/// Refuses a copy that no engine can do.
pub(crate) fn check_copy(setup: &Setup, dst: Val, src: Val, bytes: u64, max: u64) -> Result<()> {
    span::transfers(bytes, max, COPY_PACKETS)
        .and_then(|()| span::reached(dst, bytes, BITS))
        .and_then(|()| span::reached(src, bytes, BITS))
        .and_then(|()| span::check_disjoint(dst, src, bytes))
        .map_err(|why| setup.refused("copy", why))
}

/// Refuses a fill that no engine can do.
pub(crate) fn check_fill(setup: &Setup, at: Val, bytes: u64, max: u64) -> Result<()> {
    span::aligned(at, Width::W32)
        .and_then(|()| span::words(bytes))
        .and_then(|()| span::transfers(bytes, max, COPY_PACKETS))
        .and_then(|()| span::reached(at, bytes, BITS))
        .map_err(|why| setup.refused("fill", why))
}

/// Whether a wait must be omitted: the host has seen that it is satisfied and that its high half has changed since, so
/// that an engine with 32-bit compares might wait for the low half again. Constant values only;
/// values that are given later are newer than the packets.
pub(crate) fn is_past(signal: &Signal, value: Val) -> bool {
    match value {
        Val::Const(value) => signal.seen() >> 32 > value >> 32,
        Val::Slot(..) => false,
    }
}

/// A comparison of 64 bits on an engine that compares 32: `compare32` gets the offset of each half that
/// the mask has bits in, which part of the value it is compared with, and the mask.
///
/// The high half comes first. A value that only grows is then at least as large as asked for once both
/// have passed, if it does not enter a new multiple of 2^32 in between: see
/// [`hcq::timeline::Counter`].
///
/// # Errors
/// [`hcq::Error::Command`] where two comparisons cannot say the same.
pub(crate) fn by_halves(
    setup: &Setup,
    mask: u64,
    value: Val,
    compare: Compare,
    mut compare32: impl FnMut(u64, Part, u32),
) -> Result<()> {
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let unseen =
        |half: u64| matches!(value, Val::Const(value) if value & half != 0 && mask & half == 0);
    if unseen(u64::from(u32::MAX)) || unseen(u64::from(u32::MAX) << 32) {
        let why = format!(
            "value {value:x?} has bits outside mask {mask:#x}: give a value inside the mask"
        );
        return Err(setup.refused("poll", why));
    }
    let halves = match (Halves::of(mask), compare, value) {
        (Halves::Low, ..) => Halves::Low,
        (Halves::High, ..) => Halves::High,
        (Halves::Both, Compare::NotEqual, _) => {
            let why = format!(
                "this queue compares 32 bits at a time and cannot wait for any bit of {mask:#x} to \
                 differ: poll one half, or use a compute queue"
            );
            return Err(setup.refused("poll", why));
        }
        // Any high half is at least 0.
        (Halves::Both, Compare::GreaterEqual, Val::Const(value)) if value >> 32 == 0 => Halves::Low,
        (Halves::Both, ..) => Halves::Both,
    };
    if halves != Halves::Low {
        compare32(4, Part::High, high);
    }
    if halves != Halves::High {
        compare32(0, Part::Low, low);
    }
    Ok(())
}
