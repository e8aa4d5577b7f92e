//! The command ring: words in memory that the host and a command processor share, with a doorbell
//! in one direction and "there is room" in the other. Arithmetic and publication are
//! [`hcq::ring`]'s; packets may wrap at any word, since the processor copies them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hcq::ring::{Consumer, Producer, RingError, RingLayout, ring};

use crate::event::Event;

/// What both ends reach besides the pointers.
pub(crate) struct RingMemory {
    words: Box<[AtomicU32]>,
    /// Rung after wptr moved.
    pub(crate) doorbell: Event,
    /// Notified after rptr moved.
    pub(crate) space: Event,
    /// Copies of the pointers, for those who only watch.
    submitted: AtomicU64,
    consumed: AtomicU64,
}

impl RingMemory {
    /// Words in the ring.
    pub(crate) fn capacity(&self) -> usize {
        self.words.len()
    }

    /// Pointer up to which packets were submitted.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Pointer up to which packets are done.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Acquire)
    }

    /// The words between them. Others than were meant, where the device goes on meanwhile.
    pub(crate) fn in_flight(&self) -> Vec<u32> {
        let (consumed, submitted) = (self.consumed(), self.submitted());
        let words = self.words.len() as u64;
        // The two are not read together.
        let count = submitted.saturating_sub(consumed).min(words);
        let word = |at: u64| self.words[(at % words) as usize].load(Ordering::Relaxed);
        (consumed..consumed + count).map(word).collect()
    }
}

/// The host's end.
pub(crate) struct Writer {
    pub(crate) memory: Arc<RingMemory>,
    producer: Producer,
}

/// The command processor's end.
pub(crate) struct Reader {
    pub(crate) memory: Arc<RingMemory>,
    consumer: Consumer,
}

/// A ring of `words` words.
///
/// # Errors
/// [`RingError::BadLayout`] for 0.
pub(crate) fn command_ring(words: u32) -> Result<(Writer, Reader), RingError> {
    let (producer, consumer) = ring(RingLayout::new(words as u64)?);
    let memory = Arc::new(RingMemory {
        words: (0..words).map(|_| AtomicU32::new(0)).collect(),
        doorbell: Event::default(),
        space: Event::default(),
        submitted: AtomicU64::new(0),
        consumed: AtomicU64::new(0),
    });
    let writer = Writer {
        memory: memory.clone(),
        producer,
    };
    Ok((writer, Reader { memory, consumer }))
}

impl Writer {
    /// Words that fit into the empty ring.
    pub(crate) fn capacity(&self) -> usize {
        self.producer.layout().units() as usize
    }

    /// Writes whole packets, publishes them and rings the doorbell.
    ///
    /// # Errors
    /// [`RingError::Full`] for now, [`RingError::TooLarge`] for ever.
    pub(crate) fn push(&mut self, packets: &[u32]) -> Result<u64, RingError> {
        let room = self.producer.reserve(packets.len() as u64)?;
        let spans = self
            .producer
            .layout()
            .spans(room.start, packets.len() as u64);
        let (head, tail) = packets.split_at((spans.first.end - spans.first.start) as usize);
        // Spans lie inside of the ring.
        for (range, from) in [(spans.first, head), (spans.wrapped, tail)] {
            let slots = &self.memory.words[range.start as usize..range.end as usize];
            for (slot, &word) in slots.iter().zip(from) {
                slot.store(word, Ordering::Relaxed);
            }
        }
        self.producer.publish(room);
        self.memory.submitted.store(room.end, Ordering::Release);
        self.memory.doorbell.notify();
        Ok(room.end)
    }
}

impl Reader {
    /// Words that wait, and the pointer of the first.
    pub(crate) fn waiting(&self) -> (u64, usize) {
        let range = self.consumer.readable();
        (range.start, (range.end - range.start) as usize)
    }

    /// The word at a pointer.
    pub(crate) fn word(&self, at: u64) -> u32 {
        let index = self.consumer.layout().index(at) as usize;
        self.memory.words[index].load(Ordering::Relaxed)
    }

    /// Copies words out from a pointer on.
    pub(crate) fn copy(&self, at: u64, to: &mut [u32]) {
        let spans = self.consumer.layout().spans(at, to.len() as u64);
        let (head, tail) = to.split_at_mut((spans.first.end - spans.first.start) as usize);
        for (range, to) in [(spans.first, head), (spans.wrapped, tail)] {
            let slots = &self.memory.words[range.start as usize..range.end as usize];
            for (slot, word) in slots.iter().zip(to) {
                *word = slot.load(Ordering::Relaxed);
            }
        }
    }

    /// Position in the ring, for messages.
    pub(crate) fn index(&self, at: u64) -> u64 {
        self.consumer.layout().index(at)
    }

    /// Gives the words before `until` back: their packets are done.
    pub(crate) fn release(&mut self, until: u64) {
        self.consumer.release(until);
        self.memory.consumed.store(until, Ordering::Release);
        self.memory.space.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_pass_in_order_around_the_end() {
        let (mut writer, mut reader) = command_ring(8).unwrap();
        let mut next = 0u32;
        let mut expected = 0u32;
        for round in 0..100usize {
            let n = round % 8 + 1;
            let words: Vec<u32> = (0..n as u32).map(|i| next + i).collect();
            next += n as u32;
            writer.push(&words).unwrap();
            let (at, waiting) = reader.waiting();
            assert_eq!(waiting, n);
            let mut seen = vec![0; n];
            reader.copy(at, &mut seen);
            assert_eq!(seen[0], reader.word(at));
            for word in seen {
                assert_eq!(word, expected);
                expected += 1;
            }
            reader.release(at + n as u64);
            assert_eq!(writer.memory.submitted(), writer.memory.consumed());
        }
        writer.push(&[0; 8]).unwrap();
        assert!(matches!(writer.push(&[0]), Err(RingError::Full { .. })));
        assert!(matches!(
            writer.push(&[0; 9]),
            Err(RingError::TooLarge { .. })
        ));
    }
}
