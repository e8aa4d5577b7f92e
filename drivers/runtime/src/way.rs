//! [`Calls`]: submissions, given to the thread of the queue. Words are triples that name words in memory; positions count submissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drivers_gpu::submit::Submit;
use drivers_gpu::submit::hardware::{Failed, Submitted};
use hcq::transport::TransportError;

use crate::worker::{Shared, Words};

/// Words that name words in memory: the halves of the address, their number.
pub(crate) const NAME: usize = 3;

/// Submissions to one queue.
pub struct Calls {
    shared: Arc<Shared>,
    places: u64,
    made: AtomicU64,
}

impl Calls {
    /// Of a new queue, of which so many may be under way.
    pub(crate) fn new(shared: &Arc<Shared>, places: u32) -> Calls {
        Calls {
            shared: shared.clone(),
            places: places.into(),
            made: AtomicU64::new(0),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// The words that are named.
pub(crate) fn named(words: &[u32]) -> impl Iterator<Item = Words> {
    let (names, _) = words.as_chunks::<NAME>();
    names
        .iter()
        .map(|&[low, high, count]| (u64::from(low) | u64::from(high) << 32, count))
}

impl Submit for Calls {
    const UNIT: &'static str = "places for submissions";

    fn size(&self) -> u64 {
        self.places
    }

    fn most(&self) -> usize {
        usize::MAX / NAME * NAME
    }

    fn packet_boundary(&self, words: &[u32], room: usize) -> usize {
        words.len().min(room) / NAME * NAME
    }

    fn missing(&self, used: u64, _: usize) -> u64 {
        (used + 1).saturating_sub(self.places)
    }

    fn submit(&self, at: u64, words: &[u32]) -> Result<Submitted, Failed> {
        self.shared.give(named(words).collect());
        let end = at + 1;
        self.made.store(end, Ordering::Release);
        Ok(Submitted { end, told: end })
    }

    fn taken(&self) -> Result<Option<u64>, TransportError> {
        // A place is free once the work is done: the runtime's own queue has room for what is under way.
        Ok(None)
    }

    fn submitted(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    fn pointers(&self) -> (u64, u64) {
        (self.submitted(), self.shared.taken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_submissions() {
        let shared = Arc::new(Shared::default());
        let calls = Calls::new(&shared, 4);
        assert_eq!(
            (calls.size(), calls.missing(3, 90), calls.missing(4, 3)),
            (4, 0, 1)
        );
        let words = [0x1000, 1, 7, 0x2000, 0, 9];
        let done = calls.submit(5, &words).unwrap();
        assert_eq!((done.end, done.told, calls.pointers()), (6, 6, (6, 0)));
        let all: Vec<Words> = named(&words).collect();
        assert_eq!(all, [(0x1_0000_1000, 7), (0x2000, 9)]);
        assert_eq!(calls.packet_boundary(&words, 5), 3);
    }
}
