//! What caches know of a page: which of its bytes were written, and copies of it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use twin_shader::page::{PAGE, Page};

pub(crate) use twin::host::Frame;

/// Bytes of a page.
pub(crate) const BYTES: usize = PAGE as usize;
const WORDS: usize = BYTES / 8;

/// What a shader core gets of a page.
///
/// # Safety
/// The page, and `mask` where it is given, stay alive until the launch that gets it has ended.
pub(crate) unsafe fn hand_out(frame: Frame<'_>, mask: Option<&Mask>) -> Page {
    // SAFETY: alive by the caller's promise; sizes and alignments by those of frames and `Mask`.
    unsafe { Page::new(frame.pointer(), mask.map(Mask::pointer)) }
}

/// A bit for each byte of run `run` that lies in `range`.
pub(crate) fn run_bits(range: &Range<usize>, run: usize) -> u64 {
    let start = range.start.max(run * 64);
    let end = range.end.min(run * 64 + 64);
    if start >= end {
        return 0;
    }
    (!0 >> (64 - (end - start))) << (start % 64)
}

/// The runs of 64 bytes that a range touches.
pub(crate) fn runs(range: &Range<usize>) -> Range<usize> {
    range.start / 64..range.end.div_ceil(64)
}

/// A bit for each byte of a page.
#[repr(align(64))]
pub(crate) struct Mask([AtomicU64; 64]);

impl Default for Mask {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Mask {
    fn pointer(&self) -> *mut u64 {
        self.0.as_ptr().cast_mut().cast()
    }

    /// The bits of run `run`.
    pub(crate) fn get(&self, run: usize) -> u64 {
        self.0[run].load(Ordering::Acquire)
    }

    /// Takes the bits of run `run` away.
    pub(crate) fn take(&self, run: usize) -> u64 {
        self.0[run].swap(0, Ordering::AcqRel)
    }

    /// Sets the bits of a range.
    pub(crate) fn set(&self, range: &Range<usize>) {
        for run in runs(range) {
            self.0[run].fetch_or(run_bits(range, run), Ordering::Release);
        }
    }

    /// Clears the bits of a range.
    pub(crate) fn clear(&self, range: &Range<usize>) {
        for run in runs(range) {
            self.0[run].fetch_and(!run_bits(range, run), Ordering::Release);
        }
    }

    /// Sets the bits that another one has.
    pub(crate) fn add(&self, other: &Self) {
        for (word, bits) in self.0.iter().zip(&other.0) {
            word.fetch_or(bits.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// Clears every bit.
    pub(crate) fn clear_all(&self) {
        for word in &self.0 {
            word.store(0, Ordering::Release);
        }
    }

    /// Whether no bit is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }
}

#[repr(align(64))]
struct Bytes([AtomicU64; WORDS]);

/// A page of the twin's own, with a mask.
#[derive(Default)]
pub(crate) struct Copy {
    bytes: Box<Bytes>,
    /// Which bytes of the page that it goes with have been written.
    pub(crate) mask: Box<Mask>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Copy {
    /// A copy of a page.
    pub(crate) fn of(frame: Frame) -> Self {
        let copy = Self::default();
        copy.frame().copy(frame);
        copy
    }

    /// Its bytes.
    pub(crate) fn frame(&self) -> Frame<'_> {
        // SAFETY: a whole page, aligned, alive as long as `self`, and made of atomics.
        unsafe { Frame::new(self.bytes.0.as_ptr().cast_mut().cast()) }
    }
}
