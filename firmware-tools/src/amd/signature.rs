//! Verifies AMD's signatures that the PSP checks, as far as the PSP's own file has the key.
//!
//! Observed in the files of all chips here of Debian's firmware-amd-graphics 20250410 and 20260916, each of which
//! verifies:
//!
//! - The part `PSP_KDB` of the PSP's own file is a table of public keys. Behind its 256 bytes of header there are
//!   its length, 1, `$KDB`, up to 80 bytes; then keys, each with its length, 1, its use, the exponent, 16 bytes that
//!   name it, how many bits it has, up to 80 bytes, and the modulus, its least byte first.
//! - A [signed](super::Signed) part names its key at 0x38. What is signed is the header and what follows; the
//!   signature comes behind that, its most significant byte first: RSASSA-PSS (RFC 8017, 8.1.2) with SHA-256 by keys
//!   of 2048 bits, with SHA-384 by those of 4096, and salt as long as the hash.
//!
//! The PSP's own parts are signed by keys that are not in the table; cards of some editions have other keys.

use num_bigint::BigUint;
use sha2::{Digest, Sha256, Sha384};

use super::Part;
use super::signed::HEADER;

/// Where in a part its key is named.
const KEY_AT: usize = 0x38;
/// Bytes of a name.
const NAME: usize = 16;
/// Bytes before the first key, and before the modulus of a key.
const FRONT: usize = 0x50;
const COOKIE: &[u8] = b"$KDB";

/// A public key.
#[derive(Clone, Copy, Debug)]
struct Key<'a> {
    name: &'a [u8],
    exponent: u32,
    /// Its least byte first.
    modulus: &'a [u8],
}

/// The keys of a chip.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys<'a>(Vec<Key<'a>>);

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word) as usize)
}

impl<'a> Keys<'a> {
    /// Those of a key database; none where it is no such table.
    pub(super) fn of(database: &'a [u8]) -> Keys<'a> {
        let table = database.get(HEADER..).unwrap_or_default();
        let all = word(table, 0).and_then(|bytes| table.get(..bytes));
        let is_first_version = word(table, 4) == Some(1);
        let is_table =
            is_first_version && table.get(8..).is_some_and(|rest| rest.starts_with(COOKIE));
        let mut rest = all.filter(|_| is_table).and_then(|all| all.get(FRONT..));
        let mut keys = Vec::new();
        while let Some((key, behind)) = rest.and_then(Key::first) {
            keys.push(key);
            rest = Some(behind);
        }
        Keys(keys)
    }

    /// Whether a part is what AMD has signed; none if that cannot be told.
    pub(super) fn verify(&self, part: &Part<'_>) -> Option<bool> {
        let signed = HEADER + part.signed()?.bytes as usize;
        let name = part.bytes.get(KEY_AT..KEY_AT + NAME)?;
        let key = self.0.iter().find(|key| key.name == name)?;
        let (message, behind) = part.bytes.split_at_checked(signed)?;
        match behind.get(..key.modulus.len()) {
            Some(signature) => key.verify(message, signature),
            None => Some(false),
        }
    }
}

impl<'a> Key<'a> {
    /// The first key of several, and the others.
    fn first(bytes: &'a [u8]) -> Option<(Key<'a>, &'a [u8])> {
        let (key, others) = bytes.split_at_checked(word(bytes, 0)?)?;
        let key = Key {
            exponent: word(key, 0xc)? as u32,
            name: key.get(0x10..0x10 + NAME)?,
            modulus: key.get(FRONT..)?,
        };
        Some((key, others))
    }

    /// Whether a signature is one of a message; none for keys of another length.
    fn verify(&self, message: &[u8], signature: &[u8]) -> Option<bool> {
        let modulus = BigUint::from_bytes_le(self.modulus);
        let value = BigUint::from_bytes_be(signature);
        if !modulus.bit(0) || value >= modulus {
            return Some(false);
        }
        let value = value.modpow(&self.exponent.into(), &modulus).to_bytes_be();
        let mut encoded = vec![0; signature.len().saturating_sub(value.len())];
        encoded.extend(value);
        match signature.len() {
            0x100 => Some(is_pss::<Sha256>(message, &encoded)),
            0x200 => Some(is_pss::<Sha384>(message, &encoded)),
            _ => None,
        }
    }
}

/// EMSA-PSS-VERIFY of RFC 8017, 9.1.2, with MGF1 and salt as long as the hash.
fn is_pss<H: Digest>(message: &[u8], encoded: &[u8]) -> bool {
    let bytes = <H as Digest>::output_size();
    let Some((0xbc, encoded)) = encoded.split_last() else {
        return false;
    };
    let at = encoded.len().saturating_sub(bytes);
    let (masked, hash) = encoded.split_at(at);
    let mut block = masked.to_vec();
    for (counter, part) in (0u32..).zip(block.chunks_mut(bytes)) {
        let mask = H::new()
            .chain_update(hash)
            .chain_update(counter.to_be_bytes());
        let mask = mask.finalize();
        part.iter_mut()
            .zip(mask)
            .for_each(|(byte, mask)| *byte ^= mask);
    }
    // The number has a bit fewer than the modulus.
    if let Some(first) = block.first_mut() {
        *first &= 0x7f;
    }
    let at = block.len().saturating_sub(bytes);
    let (padding, salt) = block.split_at(at);
    let is_padded = padding
        .split_last()
        .is_some_and(|(last, zeros)| *last == 1 && zeros.iter().all(|byte| *byte == 0));
    let expected = H::new()
        .chain_update([0; 8])
        .chain_update(H::digest(message))
        .chain_update(salt);
    is_padded && expected.finalize()[..] == *hash
}

#[cfg(test)]
mod tests {
    use drivers_spec::amd::fw_type::GfxFwType;

    use super::super::PartId;
    use super::*;

    /// A table of two keys, and 48 bytes that were signed with the second, by Python's `cryptography` 48.
    const KEYS: &[u8] = include_bytes!("../../data/tests/kdb.bin");
    const SIGNED: &[u8] = include_bytes!("../../data/tests/signed.bin");

    fn verify(keys: &[u8], bytes: &[u8]) -> Option<bool> {
        let part = Part {
            id: PartId::Ip(&[GfxFwType::SMU]),
            version: 0,
            feature: None,
            auxiliary: false,
            offset: 0,
            bytes,
        };
        Keys::of(keys).verify(&part)
    }

    #[test]
    fn each_bit_of_what_is_signed_counts() {
        assert_eq!(verify(KEYS, SIGNED), Some(true));
        let more = [SIGNED, &[1]].concat();
        assert_eq!(verify(KEYS, &more), Some(true));
        assert_eq!(verify(KEYS, &SIGNED[..SIGNED.len() - 1]), Some(false));
        for at in 0..SIGNED.len() {
            let mut bytes = SIGNED.to_vec();
            bytes[at] ^= 0x10;
            let found = verify(KEYS, &bytes);
            match at {
                // No signed part any more, or one of another key or length.
                0x10..0x18 | 0x38..0x48 => assert_ne!(found, Some(true), "{at:#x}"),
                _ => assert_eq!(found, Some(false), "{at:#x}"),
            }
        }
    }

    #[test]
    fn a_table_that_is_none_has_no_keys() {
        assert_eq!(verify(&[], SIGNED), None);
        // What it says is its length.
        let end = HEADER + word(&KEYS[HEADER..], 0).unwrap();
        for at in 0..end {
            assert_ne!(verify(&KEYS[..at], SIGNED), Some(true), "{at:#x}");
            let mut keys = KEYS.to_vec();
            keys[at] ^= 0xff;
            // Whatever it says: no panic.
            let found = verify(&keys, SIGNED);
            // Bytes that mean something.
            if (0x100..0x10c).contains(&at) {
                assert_ne!(found, Some(true), "{at:#x}");
            }
        }
    }
}
