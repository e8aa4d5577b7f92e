//! IP discovery tables shipped with the firmware, for chips without one in memory. Those chips are not supported;
//! the files are only checked for integrity.

use crate::Error;
use crate::file::File;

/// The first word.
const SIGNATURE: u32 = 0x2821_1407;
/// Where the bytes start that the checksum is of.
const SUMMED: u64 = 10;

/// Checks signature, size and checksum of a table.
///
/// Source: Linux, drivers/gpu/drm/amd/include/discovery.h, `struct binary_header`.
///
/// # Errors
/// [`Error::Truncated`] or [`Error::Field`].
pub fn check(name: &str, bytes: &[u8]) -> Result<(), Error> {
    let file = File { name, bytes };
    let half = |what, at| {
        let bytes: &[u8; 2] = file.read(what, at)?;
        Ok::<_, Error>(u16::from_le_bytes(*bytes))
    };
    let signature: &[u8; 4] = file.read("binary_signature", 0)?;
    let signature = u32::from_le_bytes(*signature);
    if signature != SIGNATURE {
        let expected = format!("{SIGNATURE:#010x}");
        return Err(file.field("binary_signature", format!("{signature:#010x}"), expected));
    }
    let found = half("binary_checksum", 8)?;
    let size = u64::from(half("binary_size", 10)?);
    if size < SUMMED {
        return Err(file.field("binary_size", size, format!("at least {SUMMED}")));
    }
    let summed = file.slice("the table", SUMMED, size - SUMMED)?;
    let sum = summed
        .iter()
        .fold(0u16, |sum, &b| sum.wrapping_add(b.into()));
    if found != sum {
        return Err(file.field(
            "binary_checksum",
            found,
            format!("{sum}, the sum of its bytes"),
        ));
    }
    Ok(())
}
