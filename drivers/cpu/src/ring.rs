//! The command ring: words in memory that the host and a command processor share, with a doorbell
//! in one direction and "there is room" in the other. Packets may wrap at any word, since the processor copies them out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drivers_gpu::submit::ring::OwnRing;
use hcq::mem::view::{View, ViewError};
use hcq::mem::window::Window;
use hcq::transport::TransportError;

use crate::event::Event;
use crate::packet::{SIGNAL_WORDS, length};

/// A pointer with what is notified when it moves, in cache lines of their own: another thread writes the other one.
#[repr(align(128))]
#[derive(Default)]
struct Pointer {
    at: AtomicU64,
    moved: Event,
}

/// What both ends reach.
pub(crate) struct RingMemory {
    window: Window,
    /// Words less one.
    mask: u64,
    submitted: Pointer,
    consumed: Pointer,
}

impl RingMemory {
    /// A ring of so many words, a power of two.
    ///
    /// # Errors
    /// [`ViewError::NoMemory`].
    pub(crate) fn new(words: u32) -> Result<Arc<RingMemory>, ViewError> {
        let view = View::alloc(words as usize * 4, 4096)?;
        Ok(Arc::new(RingMemory {
            window: Window::mapped("a command ring", view),
            mask: u64::from(words) - 1,
            submitted: Pointer::default(),
            consumed: Pointer::default(),
        }))
    }

    /// Words in the ring.
    pub(crate) fn capacity(&self) -> usize {
        self.mask as usize + 1
    }

    /// Pointer up to which packets were submitted.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        // With the release in `publish`: whoever sees the pointer sees the words.
        self.submitted.at.load(Ordering::Acquire)
    }

    /// Pointer up to which packets are done.
    #[inline]
    pub(crate) fn consumed(&self) -> u64 {
        // With the release in `release`: the processor has read what is written over now.
        self.consumed.at.load(Ordering::Acquire)
    }

    /// Rung after words were submitted.
    pub(crate) fn doorbell(&self) -> &Event {
        &self.submitted.moved
    }

    /// Notified after packets were done.
    pub(crate) fn space(&self) -> &Event {
        &self.consumed.moved
    }

    /// Position in the ring.
    #[inline]
    pub(crate) fn index(&self, at: u64) -> u64 {
        at & self.mask
    }

    /// Copies words out from a pointer on. What is not there is zeros.
    #[inline]
    pub(crate) fn copy(&self, at: u64, to: &mut [u32]) {
        let start = self.index(at);
        let cut = to.len().min((self.mask + 1 - start) as usize);
        let (head, tail) = to.split_at_mut(cut);
        for (at, words) in [(start, head), (0, tail)] {
            if !words.is_empty() && self.window.read_words(at * 4, words).is_err() {
                words.fill(0);
            }
        }
    }

    /// The words that are not done. Others than were meant, where the device goes on meanwhile.
    pub(crate) fn in_flight(&self) -> Vec<u32> {
        let (consumed, submitted) = (self.consumed(), self.submitted());
        // The two are not read together.
        let count = submitted.saturating_sub(consumed).min(self.mask + 1);
        let mut words = vec![0; count as usize];
        self.copy(consumed, &mut words);
        words
    }

    /// Gives the words before `until` back: their packets are done.
    #[inline]
    pub(crate) fn release(&self, until: u64) {
        self.consumed.at.swap(until, Ordering::SeqCst);
        self.space().notify_exchanged();
    }
}

/// The host's end.
pub struct CpuRing(pub(crate) Arc<RingMemory>);

impl OwnRing for CpuRing {
    const FENCE: u64 = SIGNAL_WORDS as u64;
    // They straddle it.
    const END: u64 = 0;

    #[inline]
    fn window(&self) -> &Window {
        &self.0.window
    }

    fn packet_boundary(&self, words: &[u32], room: usize) -> usize {
        if words.len() <= room {
            return words.len();
        }
        let mut at = 0;
        while let Some(&header) = words.get(at) {
            let end = at + length(header).max(1);
            if end > room {
                break;
            }
            at = end;
        }
        at.min(words.len())
    }

    #[inline]
    fn publish(&self, end: u64) -> Result<u64, TransportError> {
        self.0.submitted.at.swap(end, Ordering::SeqCst);
        self.0.doorbell().notify_exchanged();
        Ok(end)
    }

    #[inline]
    fn taken(&self) -> Result<Option<u64>, TransportError> {
        Ok(Some(self.0.consumed()))
    }

    fn pointers(&self, end: u64) -> (u64, u64) {
        (end, self.0.consumed())
    }

    fn fetched(&self, _: u64) -> Option<u64> {
        Some(self.0.consumed())
    }
}

/// What waits in a ring, for its command processor.
pub(crate) fn waiting(memory: &RingMemory) -> Range<u64> {
    // Only the processor moves this one.
    memory.consumed()..memory.submitted()
}

#[cfg(test)]
mod tests {
    use drivers_gpu::submit::Submit;
    use drivers_gpu::submit::ring::Ring;

    use super::*;

    #[test]
    fn words_pass_in_order_around_the_end() {
        let memory = RingMemory::new(256).unwrap();
        let ring = Ring::new(CpuRing(memory.clone()));
        let (mut next, mut expected, mut at) = (0u32, 0u32, 0);
        for round in 0..100usize {
            let n = round % 8 + 1;
            let words: Vec<u32> = (0..n as u32).map(|i| next + i).collect();
            next += n as u32;
            at = ring.submit(at, &words).unwrap().end;
            let range = waiting(&memory);
            assert_eq!(range, at - n as u64..at);
            let mut seen = vec![0; n];
            memory.copy(range.start, &mut seen);
            for word in seen {
                assert_eq!(word, expected);
                expected += 1;
            }
            assert_eq!(memory.in_flight(), words);
            memory.release(at);
            assert_eq!(ring.taken().unwrap(), Some(at));
        }
        assert_eq!(ring.most(), 251);
        assert_eq!(ring.missing(0, ring.most()), 0);
        assert_eq!(ring.missing(8, ring.most()), 8);
    }
}
