//! The bytes of memory: what the CPU has mapped, and engines read and write.

use std::fmt;
use std::sync::{Arc, Mutex};

use hcq::sync::lock;
use twin::host::{Frame, Mapping, PAGE};

use crate::errno::Errno;
use crate::ranges::{Part, Ranges};

/// Pages of the host, from that byte on.
#[derive(Clone)]
pub struct Piece {
    /// Where they are.
    pub of: Arc<Mapping>,
    /// From where on.
    pub offset: u64,
}

impl Part for Piece {
    fn from(&self, bytes: u64) -> Self {
        let offset = self.offset + bytes;
        Piece {
            of: self.of.clone(),
            offset,
        }
    }
}

/// Bytes in one piece, or, of memory that a process has pinned, in as many as that has mapped there.
#[derive(Default)]
pub struct Contents(Ranges<Piece>);

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contents of {} pieces", self.0.iter().count())
    }
}

/// Holds who changes 16 bytes at once: the host has no such operation on all processors.
static WIDE: Mutex<()> = Mutex::new(());

impl Contents {
    /// Zeros. Pages take room once they are touched.
    ///
    /// # Errors
    /// `ENOMEM`, or what else the host says.
    pub fn zeros(bytes: u64) -> Result<Contents, Errno> {
        Ok(Contents::whole(Arc::new(Mapping::new(bytes)?)))
    }

    /// All of a mapping.
    pub fn whole(of: Arc<Mapping>) -> Contents {
        let mut contents = Contents::default();
        contents.push(0, of.bytes(), Piece { of, offset: 0 });
        contents
    }

    /// Goes on with a piece at that byte.
    pub(crate) fn push(&mut self, at: u64, bytes: u64, piece: Piece) {
        self.0.insert(at, bytes, piece);
    }

    /// The host's pages from a byte on, and how many bytes of them there are.
    pub fn piece(&self, at: u64) -> Option<(Piece, u64)> {
        self.0.at(at)
    }

    /// Calls `each` for every piece of a range, with the bytes of the range that it has.
    fn walk(
        &self,
        at: u64,
        bytes: usize,
        mut each: impl FnMut(&Piece, std::ops::Range<usize>) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < bytes {
            let Some((piece, rest)) = self.piece(at + done as u64) else {
                return false;
            };
            let length = (bytes - done).min(usize::try_from(rest).unwrap_or(usize::MAX));
            if !each(&piece, done..done + length) {
                return false;
            }
            done += length;
        }
        true
    }

    /// Reads; whether all of it is there.
    pub fn read(&self, at: u64, out: &mut [u8]) -> bool {
        self.walk(at, out.len(), |piece, range| {
            piece.of.read(piece.offset, &mut out[range])
        })
    }

    /// Writes; whether all of it is there.
    pub fn write(&self, at: u64, data: &[u8]) -> bool {
        self.walk(at, data.len(), |piece, range| {
            piece.of.write(piece.offset, &data[range])
        })
    }

    /// The page that a byte lies in, and the place in it.
    fn page(&self, at: u64, done: impl FnOnce(Frame<'_>, usize)) -> bool {
        let Some((piece, _)) = self.piece(at) else {
            return false;
        };
        let Some(frame) = piece.of.frame(piece.offset / PAGE) else {
            return false;
        };
        done(frame, (piece.offset % PAGE) as usize);
        true
    }

    /// Reads, changes and writes 1, 2, 4, 8 or 16 bytes that are aligned so, with nobody between; `held`
    /// gets what was there. Whether it is there.
    pub fn update(&self, at: u64, held: &mut [u8], change: &mut dyn FnMut(&mut [u8])) -> bool {
        let bytes = held.len();
        if !bytes.is_power_of_two() || bytes > 16 || !at.is_multiple_of(bytes as u64) {
            return false;
        }
        if bytes == 16 {
            let _held = lock(&WIDE);
            let read = self.read(at, held);
            let mut new = [0; 16];
            new.copy_from_slice(held);
            change(&mut new);
            return read && self.write(at, &new);
        }
        // What the host changes at once is a word of 4 or 8 bytes.
        let word = bytes.max(4);
        self.page(at, |frame, inside| {
            let (start, shift) = (inside & !(word - 1), inside % word);
            let old = frame.update(start, word, &mut |old| {
                let mut new = old.to_le_bytes();
                change(&mut new[shift..shift + bytes]);
                u64::from_le_bytes(new)
            });
            held.copy_from_slice(&old.to_le_bytes()[shift..shift + bytes]);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_memory() {
        let (first, second) = (Mapping::new(PAGE).unwrap(), Mapping::new(3 * PAGE).unwrap());
        let mut contents = Contents::default();
        let piece = |of, offset| Piece { of, offset };
        contents.push(0, PAGE, piece(Arc::new(first), 0));
        let second = Arc::new(second);
        contents.push(PAGE, 2 * PAGE, piece(second.clone(), PAGE));
        let data: Vec<u8> = (0..200).collect();
        assert!(contents.write(PAGE - 100, &data));
        let mut out = vec![0; 200];
        assert!(contents.read(PAGE - 100, &mut out));
        assert_eq!(out, data);
        let mut word = [0; 2];
        assert!(second.read(PAGE, &mut word) && word == [100, 101]);
        assert!(!contents.read(3 * PAGE - 1, &mut word));
    }

    #[test]
    fn words_of_all_sizes_are_changed_at_once() {
        let contents = Contents::zeros(PAGE).unwrap();
        for (at, bytes) in [(0x31, 1), (0x42, 2), (0x54, 4), (0x68, 8), (0x70, 16)] {
            let mut held = vec![0xff; bytes];
            let mut add = |word: &mut [u8]| word[0] += 7;
            for want in [0, 7] {
                assert!(contents.update(at, &mut held, &mut add));
                assert_eq!(held[0], want);
            }
            let mut around = [0; 3];
            assert!(contents.read(at - 1, &mut around));
            assert_eq!(around[..2], [0, 14]);
        }
        let mut held = [0; 4];
        assert!(!contents.update(2, &mut held, &mut |_| {}));
        assert!(!contents.update(PAGE, &mut held, &mut |_| {}));
        assert!(!contents.update(0, &mut [0; 3], &mut |_| {}));
    }
}
