//! Checks of addresses and ranges, and comparisons of 64 bits by halves.

use hcq::packets::Part;
use hcq::{Compare, Result, Signal, Val, Width};

use super::Setup;
use super::sink::Halves;

/// Packets of one copy at most. What is more comes from a wrong size.
const COPY_PACKETS: u64 = 1 << 20;

/// Bytes of a word.
pub(crate) const fn bytes(width: Width) -> u64 {
    match width {
        Width::W32 => 4,
        Width::W64 => 8,
    }
}

/// Refuses a known address that is not aligned to the word. One given later is the caller's.
pub(crate) fn check_aligned(setup: &Setup, command: &str, at: Val, width: Width) -> Result<()> {
    let bytes = bytes(width);
    let wrong = match at {
        Val::Const(at) | Val::Slot(_, at) => !at.is_multiple_of(bytes),
    };
    if !wrong {
        return Ok(());
    }
    let why = match at {
        Val::Const(at) => {
            format!("address {at:#x} is no multiple of the {bytes} bytes of the word")
        }
        Val::Slot(slot, add) => {
            let slot = slot.0;
            format!("slot {slot} + {add:#x} is no multiple of the {bytes} bytes of the word")
        }
    };
    Err(setup.refused(command, why))
}

/// Refuses a copy that no engine can do.
pub(crate) fn check_copy(setup: &Setup, dst: Val, src: Val, bytes: u64, max: u64) -> Result<()> {
    if bytes.div_ceil(max) > COPY_PACKETS {
        let most = max * COPY_PACKETS;
        let why = format!("{bytes} bytes, at most {most} fit a command: split it");
        return Err(setup.refused("copy", why));
    }
    let (Val::Const(dst), Val::Const(src)) = (dst, src) else {
        return Ok(());
    };
    let (Some(dst_end), Some(src_end)) = (dst.checked_add(bytes), src.checked_add(bytes)) else {
        let why = format!("{bytes} bytes from {src:#x} to {dst:#x} run past the last address");
        return Err(setup.refused("copy", why));
    };
    if dst < src_end && src < dst_end {
        let why = format!(
            "{bytes} bytes from {src:#x} to {dst:#x} overlap, which engines do not copy in order: go \
             through another buffer"
        );
        return Err(setup.refused("copy", why));
    }
    Ok(())
}

/// Refuses a fill that no engine can do.
pub(crate) fn check_fill(setup: &Setup, at: Val, bytes: u64, max: u64) -> Result<()> {
    check_aligned(setup, "fill", at, Width::W32)?;
    let why = if !bytes.is_multiple_of(4) {
        format!("{bytes} bytes are no multiple of the 4 of its word")
    } else if bytes.div_ceil(max) > COPY_PACKETS {
        let most = max * COPY_PACKETS;
        format!("{bytes} bytes, at most {most} fit a command: split it")
    } else if matches!(at, Val::Const(at) if at.checked_add(bytes).is_none()) {
        format!("{bytes} bytes at {at:x?} run past the last address")
    } else {
        return Ok(());
    };
    Err(setup.refused("fill", why))
}

/// Whether the host has seen that a wait is over, and that its high half has changed since, so that an engine
/// which compares 32 bits might wait for the low half to come again: it is left out. Values at hand only;
/// what is given later is newer than the packets.
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
            "it compares with {value:x?} a half of which mask {mask:#x} hides: give a value inside of \
             the mask"
        );
        return Err(setup.refused("poll", why));
    }
    let halves = match (Halves::of(mask), compare, value) {
        (Halves::Low, ..) => Halves::Low,
        (Halves::High, ..) => Halves::High,
        (Halves::Both, Compare::NotEqual, _) => {
            let why = format!(
                "this queue compares 32 bits at a time, and cannot wait until any bit of {mask:#x} \
                 differs: poll one half, or on a compute queue"
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
