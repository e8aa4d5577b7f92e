//! [`Ring`]: words to a ring in memory that the process owns, and a doorbell.
//!
//! A ring has dwords, and a position counts them since the queue was created. The vendor defines where the ring is,
//! how words are published to the device ([`OwnRing::publish`]), and the alignment of its packets.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq::mem::window::Window;
use hcq::transport::TransportError;

use super::hardware::{Failed, Readable, Submit, Submitted};

/// A ring as a vendor makes it.
pub trait OwnRing: Send + Sync + Sized + 'static {
    /// Dwords that submissions leave free: room for a fence, also in a full ring; and one at least where a ring whose
    /// pointers are equal is empty.
    const FENCE: u64 = 64;

    /// Dwords that packets which do not straddle the end of the ring leave there at most.
    const END: u64 = 64;

    /// Its memory; the number of dwords is a power of two.
    fn window(&self) -> &Window;

    /// See [`Submit::packet_boundary`].
    fn packet_boundary(&self, words: &[u32], room: usize) -> usize;

    /// Writes words after position `at`, for which there is room. Returns the position after them.
    ///
    /// # Errors
    /// The window's.
    #[inline]
    fn place(ring: &Ring<Self>, at: u64, words: &[u32]) -> Result<u64, TransportError> {
        ring.put(at, words)
    }

    /// Publishes the ring up to a position to the device. Returns the doorbell value.
    ///
    /// # Errors
    /// The windows'.
    fn publish(&self, end: u64) -> Result<u64, TransportError>;

    /// See [`Submit::taken`].
    ///
    /// # Errors
    /// The windows'.
    fn taken(&self) -> Result<Option<u64>, TransportError>;

    /// See [`Submit::pointers`]; `end` is what was published.
    fn pointers(&self, end: u64) -> (u64, u64);

    /// See [`Readable::fetched`]; `end` is what was published.
    fn fetched(&self, end: u64) -> Option<u64>;

    /// See [`Readable::is_straight`].
    fn is_straight(ring: &Ring<Self>, place: &Range<u64>) -> bool {
        let _ = (ring, place);
        true
    }

    /// See [`Readable::is_left`].
    fn is_left(&self, position: u64) -> bool {
        let _ = position;
        true
    }
}

/// A ring, in which there was nothing when it was made.
pub struct Ring<R> {
    own: R,
    /// Dwords less one.
    mask: u64,
    /// The position after the published words.
    published: AtomicU64,
}

impl<R: OwnRing> Ring<R> {
    /// Over a ring of a vendor's, with nothing in it.
    pub fn new(own: R) -> Ring<R> {
        Ring {
            mask: own.window().len() / 4 - 1,
            own,
            published: AtomicU64::new(0),
        }
    }

    /// What the vendor has made.
    pub fn own(&self) -> &R {
        &self.own
    }

    /// The index of a position, in dwords.
    #[inline]
    pub fn index(&self, at: u64) -> u64 {
        at & self.mask
    }

    /// Dwords from a position to the end of the ring.
    #[inline]
    pub fn to_end(&self, at: u64) -> usize {
        (self.mask + 1 - self.index(at)) as usize
    }

    /// Writes words in order, wrapping at the end.
    ///
    /// # Errors
    /// The window's.
    #[inline]
    pub fn put(&self, at: u64, words: &[u32]) -> Result<u64, TransportError> {
        let window = self.own.window();
        let (first, second) = words.split_at(words.len().min(self.to_end(at)));
        window.write_words(self.index(at) * 4, first)?;
        if !second.is_empty() {
            window.write_words(0, second)?;
        }
        Ok(at + words.len() as u64)
    }
}

impl<R: OwnRing> Submit for Ring<R> {
    const UNIT: &'static str = "dwords in the ring";

    #[inline]
    fn is_remote(&self) -> bool {
        self.own.window().is_remote()
    }

    #[inline]
    fn size(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    fn most(&self) -> usize {
        (self.size() - R::FENCE - R::END) as usize
    }

    fn packet_boundary(&self, words: &[u32], room: usize) -> usize {
        self.own.packet_boundary(words, room)
    }

    #[inline]
    fn missing(&self, used: u64, words: usize) -> u64 {
        (used + words as u64 + R::FENCE).saturating_sub(self.size())
    }

    #[inline]
    fn submit(&self, at: u64, words: &[u32]) -> Result<Submitted, Failed> {
        let end = R::place(self, at, words)?;
        self.published.store(end, Ordering::Relaxed);
        let told = self.own.publish(end)?;
        Ok(Submitted { end, told })
    }

    #[inline]
    fn taken(&self) -> Result<Option<u64>, TransportError> {
        self.own.taken()
    }

    fn submitted(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    fn pointers(&self) -> (u64, u64) {
        self.own.pointers(self.submitted())
    }

    fn ring(&self) -> Option<&dyn Readable> {
        Some(self)
    }
}

impl<R: OwnRing> Readable for Ring<R> {
    fn fetched(&self) -> Option<u64> {
        self.own.fetched(self.submitted())
    }

    fn words(&self, range: Range<u64>) -> Vec<u32> {
        let count = range.end.saturating_sub(range.start).min(self.size());
        let mut words = vec![0; count as usize];
        let cut = words.len().min(self.to_end(range.start));
        let (first, second) = words.split_at_mut(cut);
        let window = self.own.window();
        let read = |at: u64, words: &mut [u32]| match words.is_empty() {
            true => Ok(()),
            false => window.read_words(at, words),
        };
        let done = read(self.index(range.start) * 4, first).and_then(|()| read(0, second));
        match done {
            Ok(()) => words,
            Err(_) => Vec::new(),
        }
    }

    fn is_straight(&self, place: &Range<u64>) -> bool {
        R::is_straight(self, place)
    }

    fn is_left(&self, position: u64) -> bool {
        self.own.is_left(position)
    }
}
