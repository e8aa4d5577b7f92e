//! Checks of addresses and ranges of commands before encoding. Each returns why a command is refused. Values of slots
//! are the caller's responsibility: only the added offset is checked.

use hcq::{Val, Width};

/// Bytes of a word.
#[inline]
pub const fn bytes(width: Width) -> u64 {
    match width {
        Width::W32 => 4,
        Width::W64 => 8,
    }
}

/// Checks that a word is aligned to its size.
///
/// # Errors
/// It is not.
#[inline]
pub fn aligned(at: Val, width: Width) -> Result<(), String> {
    let bytes = bytes(width);
    let (Val::Const(low) | Val::Slot(_, low)) = at;
    match low.is_multiple_of(bytes) {
        true => Ok(()),
        false => Err(askew(at, bytes)),
    }
}

#[cold]
fn askew(at: Val, bytes: u64) -> String {
    let place = match at {
        Val::Const(at) => format!("address {at:#x}"),
        Val::Slot(slot, add) => format!("slot {} + {add:#x}", slot.0),
    };
    format!("{place} is not aligned to the {bytes}-byte word")
}

/// Checks that a range takes at most `most` transfers of `each` bytes: more indicates a wrong size.
///
/// # Errors
/// It takes more.
#[inline]
pub fn transfers(bytes: u64, each: u64, most: u64) -> Result<(), String> {
    if bytes.div_ceil(each) <= most {
        return Ok(());
    }
    let most = each * most;
    Err(format!(
        "{bytes} bytes, expected at most {most} per command: split it"
    ))
}

/// Checks that a range ends within an address space of `bits` bits.
///
/// # Errors
/// It ends after it.
#[inline]
pub fn reached(at: Val, bytes: u64, bits: u32) -> Result<(), String> {
    let Val::Const(at) = at else {
        return Ok(());
    };
    let end = 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
    if at.checked_add(bytes).is_some_and(|last| last <= end) {
        return Ok(());
    }
    Err(format!(
        "{bytes} bytes at {at:#x} run past the last {bits}-bit address"
    ))
}

/// A fill is of whole words of 4 bytes.
///
/// # Errors
/// It is not.
#[inline]
pub fn words(bytes: u64) -> Result<(), String> {
    match bytes.is_multiple_of(4) {
        true => Ok(()),
        false => Err(format!(
            "{bytes} bytes, expected a multiple of the 4-byte word"
        )),
    }
}

/// Checks that source and destination of a copy do not overlap. Both ranges are [`reached`].
///
/// # Errors
/// They have bytes in common.
#[inline]
pub fn check_disjoint(dst: Val, src: Val, bytes: u64) -> Result<(), String> {
    let (Val::Const(dst), Val::Const(src)) = (dst, src) else {
        return Ok(());
    };
    if bytes == 0 || dst >= src + bytes || src >= dst + bytes {
        return Ok(());
    }
    Err(format!(
        "{bytes} bytes from {src:#x} to {dst:#x} overlap, and engines do not copy in order: go through \
         another buffer"
    ))
}

#[cfg(test)]
mod tests {
    use hcq::Slot;

    use super::*;

    #[test]
    fn words_lie_at_multiples_of_their_bytes() {
        assert_eq!(aligned(Val::Const(8), Width::W64), Ok(()));
        assert_eq!(aligned(Val::Slot(Slot(1), 4), Width::W32), Ok(()));
        let why = aligned(Val::Const(0x44), Width::W64).unwrap_err();
        assert!(why.starts_with("address 0x44 is not aligned to the 8-byte"));
        let why = aligned(Val::Slot(Slot(3), 2), Width::W32).unwrap_err();
        assert!(why.starts_with("slot 3 + 0x2 is not aligned to the 4-byte"));
        assert!(words(8).is_ok() && words(6).is_err());
    }

    #[test]
    fn ranges_have_an_end() {
        assert!(transfers(100, 10, 10).is_ok() && transfers(101, 10, 10).is_err());
        assert!(transfers(u64::MAX, 1 << 20, 1 << 20).is_err());
        let top = Val::Const((1 << 49) - 16);
        assert!(reached(top, 16, 49).is_ok() && reached(top, 17, 49).is_err());
        assert!(reached(Val::Const(u64::MAX - 3), 4, 64).is_err());
        assert!(reached(Val::Const(u64::MAX - 4), 4, 64).is_ok());
        assert!(reached(Val::Slot(Slot(0), u64::MAX), 4, 49).is_ok());
    }

    #[test]
    fn a_copy_goes_elsewhere() {
        let at = Val::Const;
        assert!(
            check_disjoint(at(100), at(0), 100).is_ok()
                && check_disjoint(at(0), at(100), 100).is_ok()
        );
        assert!(
            check_disjoint(at(99), at(0), 100).is_err() && check_disjoint(at(5), at(5), 1).is_err()
        );
        assert!(check_disjoint(at(5), at(5), 0).is_ok());
    }
}
