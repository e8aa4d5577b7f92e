//! [`Recent`]: a log of the last submissions, always on, to find the cause of a hang.
//!
//! It is written under the queue's lock, costs some stores and one short copy, and allocates nothing. What the device
//! or a stray write has done to the real ring since, this one does not have.

/// Submissions that are kept.
const KEPT: usize = 64;

/// Their first words that are kept: what a usual launch is made of.
pub const WORDS: usize = 58;

/// A submission. Four cache lines.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// Its timeline value; 0 for the driver's own submissions.
    pub signal_value: u64,
    /// Where in the ring it ends, in dwords since the queue was made.
    pub end: u64,
    /// What the doorbell was given last.
    pub doorbell: u32,
    /// How many words it has.
    pub dwords: u32,
    words: [u32; WORDS],
}

const NONE: Submission = Submission {
    signal_value: 0,
    end: 0,
    doorbell: 0,
    dwords: 0,
    words: [0; WORDS],
};

impl Submission {
    /// Its first words.
    pub fn words(&self) -> &[u32] {
        &self.words[..(self.dwords as usize).min(WORDS)]
    }
}

/// The last submissions of a queue.
pub struct Recent {
    all: Box<[Submission]>,
    count: u64,
}

/// Of a queue to which nothing was submitted.
impl Default for Recent {
    fn default() -> Recent {
        Recent {
            all: vec![NONE; KEPT].into(),
            count: 0,
        }
    }
}

impl Recent {
    /// Notes a submission.
    #[inline]
    pub fn note(&mut self, words: &[u32], signal_value: u64, end: u64, doorbell: u64) {
        let at = self.count as usize % KEPT;
        self.count += 1;
        let Some(one) = self.all.get_mut(at) else {
            return;
        };
        one.signal_value = signal_value;
        one.end = end;
        one.doorbell = doorbell as u32;
        one.dwords = words.len() as u32;
        let kept = words.len().min(WORDS);
        one.words[..kept].copy_from_slice(&words[..kept]);
    }

    /// Those that are kept, the oldest first, each with its number from 1.
    pub fn all(&self) -> impl Iterator<Item = (u64, &Submission)> {
        let first = self.count.saturating_sub(KEPT as u64);
        let at = move |number: u64| self.all.get(number as usize % KEPT);
        (first..self.count).filter_map(move |number| Some((number + 1, at(number)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_in_order() {
        let mut recent = Recent::default();
        assert_eq!(recent.all().count(), 0);
        let words: Vec<u32> = (0..100).collect();
        for i in 0..100u64 {
            recent.note(&words[..i as usize], i, i * 10, i + 7);
        }
        let all: Vec<_> = recent.all().collect();
        assert_eq!(all.len(), KEPT);
        assert_eq!((all[0].0, all[0].1.signal_value), (37, 36));
        let (number, last) = all[KEPT - 1];
        assert_eq!(
            (number, last.end, last.doorbell, last.dwords),
            (100, 990, 106, 99)
        );
        assert_eq!(last.words(), &words[..WORDS]);
        assert_eq!(all[0].1.words(), &words[..36]);
        assert_eq!(size_of::<Submission>(), 256);
    }
}
