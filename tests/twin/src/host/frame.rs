//! Page frames: 4 KiB that others may change at any time, accessed only atomically.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::PAGE;

/// Bytes of a page.
const BYTES: usize = PAGE as usize;
const WORDS: usize = BYTES / 8;

/// A page of memory, alive for `'a`.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    base: *mut u8,
    life: PhantomData<&'a AtomicU8>,
}

impl<'a> Frame<'a> {
    /// The page at `base`.
    ///
    /// # Safety
    /// `base` points to [`PAGE`] bytes, aligned to 64, readable and writable for all of `'a`, which
    /// nobody accesses through a reference to other than atomics.
    pub unsafe fn new(base: *mut u8) -> Self {
        Self {
            base,
            life: PhantomData,
        }
    }

    /// Where it lies, for who makes a frame of his own kind of it.
    pub fn pointer(self) -> *mut u8 {
        self.base
    }

    fn byte(self, at: usize) -> &'a AtomicU8 {
        // SAFETY: inside the page (cut), alive for 'a and only accessed atomically.
        unsafe { AtomicU8::from_ptr(self.base.add(at % BYTES)) }
    }

    /// Word `at` of 8 bytes.
    fn word(self, at: usize) -> &'a AtomicU64 {
        // SAFETY: inside the page (cut), aligned, alive for 'a and only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.base.cast::<u64>().add(at % WORDS)) }
    }

    /// The bytes from `offset`.
    pub fn read(self, offset: usize, out: &mut [u8]) {
        let (head, words) = split(offset, out.len());
        let (first, rest) = out.split_at_mut(head);
        let (middle, last) = rest.as_chunks_mut::<8>();
        for (i, byte) in first.iter_mut().enumerate() {
            *byte = self.byte(offset + i).load(Ordering::Acquire);
        }
        let at = offset + head;
        for (i, word) in middle.iter_mut().enumerate() {
            *word = self.word(at / 8 + i).load(Ordering::Acquire).to_le_bytes();
        }
        let at = at + words * 8;
        for (i, byte) in last.iter_mut().enumerate() {
            *byte = self.byte(at + i).load(Ordering::Acquire);
        }
    }

    /// Stores bytes from `offset` on; aligned words of 8 bytes in one piece, and of 4 bytes where
    /// that is all there is.
    pub fn write(self, offset: usize, data: &[u8]) {
        if let (4, Ok(word)) = (data.len(), <[u8; 4]>::try_from(data))
            && offset.is_multiple_of(4)
        {
            self.half(offset)
                .store(u32::from_le_bytes(word), Ordering::Release);
            return;
        }
        let (head, words) = split(offset, data.len());
        let (first, rest) = data.split_at(head);
        let (middle, last) = rest.as_chunks::<8>();
        for (i, byte) in first.iter().enumerate() {
            self.byte(offset + i).store(*byte, Ordering::Release);
        }
        let at = offset + head;
        for (i, word) in middle.iter().enumerate() {
            self.word(at / 8 + i)
                .store(u64::from_le_bytes(*word), Ordering::Release);
        }
        let at = at + words * 8;
        for (i, byte) in last.iter().enumerate() {
            self.byte(at + i).store(*byte, Ordering::Release);
        }
    }

    fn half(self, offset: usize) -> &'a AtomicU32 {
        let offset = offset & (BYTES - 4);
        // SAFETY: as for `word`.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).cast()) }
    }

    /// One atomic read, change and write of 4 or 8 bytes; returns what was there. `offset` is cut to
    /// its alignment.
    pub fn update(self, offset: usize, bytes: usize, new: &mut dyn FnMut(u64) -> u64) -> u64 {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        let old = if bytes == 8 {
            self.word(offset / 8)
                .fetch_update(set, fetch, |old| Some(new(old)))
        } else {
            self.half(offset)
                .fetch_update(set, fetch, |old| Some(new(old.into()) as u32))
                .map(u64::from)
                .map_err(u64::from)
        };
        old.unwrap_or_else(|old| old)
    }

    /// Takes over every byte of `other`.
    pub fn copy(self, other: Frame) {
        for at in 0..WORDS {
            self.word(at)
                .store(other.word(at).load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Takes over the bytes of `other` that `pick` chooses: it gets the number of a run of 64 bytes
    /// and returns a bit for each.
    pub fn copy_picked(self, other: Frame, mut pick: impl FnMut(usize) -> u64) {
        for run in 0..64 {
            let bits = pick(run);
            for eighth in 0..8 {
                let at = run * 8 + eighth;
                match (bits >> (8 * eighth)) as u8 {
                    0 => {}
                    0xff => self
                        .word(at)
                        .store(other.word(at).load(Ordering::Relaxed), Ordering::Relaxed),
                    some => {
                        for bit in (0..8).filter(|bit| some >> bit & 1 == 1) {
                            let byte = other.byte(at * 8 + bit).load(Ordering::Relaxed);
                            self.byte(at * 8 + bit).store(byte, Ordering::Relaxed);
                        }
                    }
                }
            }
        }
    }

    /// A bit for each byte of run `run` (of 64 bytes) in which the two differ.
    pub fn differs(self, other: Frame, run: usize) -> u64 {
        let word = |eighth| {
            let at = run * 8 + eighth;
            self.word(at).load(Ordering::Relaxed) ^ other.word(at).load(Ordering::Relaxed)
        };
        if (0..8).fold(0, |all, eighth| all | word(eighth)) == 0 {
            return 0;
        }
        let mut bits = 0;
        for eighth in 0..8 {
            let mut rest = word(eighth);
            while rest != 0 {
                let byte = rest.trailing_zeros() as usize / 8;
                bits |= 1 << (8 * eighth + byte);
                rest &= !(0xff << (8 * byte));
            }
        }
        bits
    }
}

/// How many of `bytes` at `offset` come before the first aligned word of 8 bytes, and how many such
/// words follow.
fn split(offset: usize, bytes: usize) -> (usize, usize) {
    let head = (offset.wrapping_neg() % 8).min(bytes);
    (head, (bytes - head) / 8)
}
