//! Pieces of a file, used and hashed at the same time.
//!
//! The hash of the weights takes as long as reading them and bringing them to a device: it has a thread of its own.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, scope};

use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::source::PIECE;

/// From so many bytes on a thread takes less time than it saves.
const THREAD: u64 = 4 * PIECE as u64;

/// Pieces that are there at once: one is read or used, one waits, one is hashed.
const PIECES: usize = 3;

/// Has `read` fill pieces of so many bytes, in order, and `used` see each of them: the SHA-256 of all. Both are given where
/// a piece begins.
///
/// # Errors
/// Those of `read` and `used`, at once.
pub(crate) fn hashed(
    bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
    mut used: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<[u8; 32]> {
    if bytes < THREAD {
        return here(bytes, &mut read, &mut used);
    }
    scope(|scope| {
        let (send, pieces) = sync_channel::<(Arc<Vec<u8>>, usize)>(1);
        let threads = Builder::new().name("bundle-hash".into());
        let hashing = threads.spawn_scoped(scope, move || {
            let mut hash = Sha256::new();
            for (piece, n) in pieces {
                hash.update(&piece[..n]);
            }
            <[u8; 32]>::from(hash.finalize())
        });
        let Ok(hashing) = hashing else {
            return here(bytes, &mut read, &mut used);
        };
        let mut ring: [Arc<Vec<u8>>; PIECES] = Default::default();
        for (number, at) in (0..bytes).step_by(PIECE).enumerate() {
            let n = (bytes - at).min(PIECE as u64) as usize;
            let piece = &mut ring[number % PIECES];
            // The thread has given it back when it took the one before last, and that one is not in the channel any more.
            let into = Arc::make_mut(piece);
            into.resize(PIECE, 0);
            read(at, &mut into[..n])?;
            // It ends early by a panic alone.
            let _ = send.send((piece.clone(), n));
            used(at, &piece[..n])?;
        }
        drop(send);
        hashing.join().or_else(|panic| resume_unwind(panic))
    })
}

/// The same, one after the other.
fn here(
    bytes: u64,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<()>,
    used: &mut impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; bytes.min(PIECE as u64) as usize];
    for at in (0..bytes).step_by(PIECE) {
        let piece = &mut piece[..(bytes - at).min(PIECE as u64) as usize];
        read(at, piece)?;
        hash.update(&*piece);
        used(at, piece)?;
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn byte(at: u64) -> u8 {
        (at ^ at >> 8 ^ at >> 17) as u8
    }

    fn fill(at: u64, into: &mut [u8]) -> Result<()> {
        (at..).zip(into).for_each(|(at, into)| *into = byte(at));
        Ok(())
    }

    #[test]
    fn pieces_are_seen_in_order_and_hashed() {
        for bytes in [
            0,
            1,
            PIECE as u64,
            THREAD - 1,
            THREAD,
            9 * PIECE as u64 + 77,
        ] {
            let mut seen = Vec::new();
            let found = hashed(bytes, fill, |at, piece| {
                assert_eq!(at, seen.len() as u64);
                seen.extend_from_slice(piece);
                Ok(())
            });
            let all: Vec<u8> = (0..bytes).map(byte).collect();
            assert!(seen == all, "{bytes}");
            let expected: [u8; 32] = Sha256::digest(&all).into();
            assert_eq!(found.unwrap(), expected, "{bytes}");
        }
    }

    #[test]
    fn an_error_ends_it() {
        let fails = || {
            Err(Error::Io {
                file: "a file".into(),
                source: std::io::Error::other("no"),
            })
        };
        for at_fault in [0, 5] {
            let mut read = 0;
            let counted = |at, into: &mut [u8]| {
                read += 1;
                fill(at, into)
            };
            let using = |at: u64, _: &[u8]| match at / PIECE as u64 == at_fault {
                true => fails(),
                false => Ok(()),
            };
            assert!(hashed(8 * PIECE as u64, counted, using).is_err());
            assert_eq!(read, at_fault + 1);
        }
        assert!(hashed(THREAD, |_, _| fails(), |_, _| Ok(())).is_err());
    }
}
