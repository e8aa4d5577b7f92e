//! Sets of small numbers.

/// A set of numbers below a limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    limit: usize,
}

impl Bits {
    /// An empty set of numbers below `limit`.
    pub fn new(limit: usize) -> Bits {
        Bits {
            words: vec![0; limit.div_ceil(64)],
            limit,
        }
    }

    /// The limit.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a number is in it.
    pub fn has(&self, n: usize) -> bool {
        self.words[n / 64] >> (n % 64) & 1 == 1
    }

    /// Adds a number; whether it is new.
    pub fn add(&mut self, n: usize) -> bool {
        let bit = 1 << (n % 64);
        let new = self.words[n / 64] & bit == 0;
        self.words[n / 64] |= bit;
        new
    }

    /// Takes a number out; whether it was there.
    pub fn take(&mut self, n: usize) -> bool {
        let bit = 1 << (n % 64);
        let there = self.words[n / 64] & bit != 0;
        self.words[n / 64] &= !bit;
        there
    }

    /// Adds all of another set of the same limit; whether any is new.
    pub fn join(&mut self, other: &Bits) -> bool {
        let mut changed = false;
        for (to, from) in self.words.iter_mut().zip(&other.words) {
            changed |= from & !*to != 0;
            *to |= from;
        }
        changed
    }

    /// Keeps what another set has as well; whether any is lost.
    pub fn meet(&mut self, other: &Bits) -> bool {
        let mut changed = false;
        for (to, from) in self.words.iter_mut().zip(&other.words) {
            changed |= *to & !from != 0;
            *to &= from;
        }
        changed
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Its numbers, the smallest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}
