//! The header of signed parts: 256 bytes before the signed bytes, which a [signature](super::signature) follows.
//!
//! Observed in every file of Debian's firmware-amd-graphics 20250410 and 20260916: a part that has
//! this header is at least as long as header, signed bytes and the smaller signature; but for
//! stacks and a few applications, it is exactly as long, with one of two sizes of signature.

use super::Part;
use crate::Error;
use crate::file::File;

/// "$PS1", at [`COOKIE_AT`].
const COOKIE: &[u8] = b"$PS1";
const COOKIE_AT: usize = 0x10;
const SIZE_AT: usize = 0x14;
const VERSION_AT: usize = 0x60;
pub(super) const HEADER: usize = 0x100;
/// RSA of 2048 bits; some chips have 4096.
const SIGNATURE: usize = 0x100;

/// The contents of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signed {
    /// How many bytes are signed, behind the header.
    pub bytes: u32,
    /// The version, which need not be that of the file.
    pub version: u32,
}

impl Signed {
    fn of(bytes: &[u8]) -> Option<Signed> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        if bytes.len() < HEADER || bytes.get(COOKIE_AT..SIZE_AT) != Some(COOKIE) {
            return None;
        }
        Some(Signed {
            bytes: word(SIZE_AT)?,
            version: word(VERSION_AT)?,
        })
    }
}

impl Part<'_> {
    /// The contents of its signed header, if it has one.
    pub fn signed(&self) -> Option<Signed> {
        Signed::of(self.bytes)
    }
}

/// Checks that what is signed is all there.
pub(super) fn check(file: File<'_, '_>, part: &Part<'_>) -> Result<(), Error> {
    let Some(signed) = part.signed() else {
        return Ok(());
    };
    let room = part.bytes.len().saturating_sub(HEADER + SIGNATURE);
    if signed.bytes as usize > room {
        let field = format!("the signed size of {}", part.id.name());
        let expected = format!("at most {room}, of {} bytes", part.bytes.len());
        return Err(file.field(field, signed.bytes, expected));
    }
    Ok(())
}
