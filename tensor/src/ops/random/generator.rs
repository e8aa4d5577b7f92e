//! Where a generator of random numbers stands, and the function that it counts through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::graph::{Engine, Tensor};

/// Rotations of the rounds, in two groups of four.
pub(super) const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// The third key word is the parity of the others with this.
pub(super) const PARITY: u32 = 0x1bd1_1bda;

/// One block of Threefry-2x32-20.
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = [
        counter[0].wrapping_add(keys[0]),
        counter[1].wrapping_add(keys[1]),
    ];
    for group in 0..5u32 {
        for r in ROTATIONS[group as usize % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(r) ^ x[0];
        }
        let next = group as usize + 1;
        x[0] = x[0].wrapping_add(keys[next % 3]);
        x[1] = x[1]
            .wrapping_add(keys[(next + 1) % 3])
            .wrapping_add(group + 1);
    }
    x
}

/// Where a generator stands; shared by its clones.
#[derive(Debug)]
struct Counter {
    /// The number of the next tensor when the generator was made.
    born: u64,
    at: AtomicU64,
}

/// A source of random tensors on one engine: a key and a counter that moves with every draw.
///
/// Clones share the counter. A captured function ([`crate::Jit`]) draws new numbers in each replay: those
/// that it would draw if it were called plainly.
#[derive(Clone, Debug)]
pub struct Rng {
    pub(super) engine: Engine,
    pub(super) key: [u32; 2],
    counter: Arc<Counter>,
}

impl Rng {
    /// A generator of a seed. The numbers depend on the seed, and on what was drawn before.
    pub fn new(engine: &Engine, seed: u64) -> Rng {
        Rng::of(engine, [(seed >> 32) as u32, seed as u32])
    }

    pub(super) fn of(engine: &Engine, key: [u32; 2]) -> Rng {
        Rng {
            engine: engine.clone(),
            key,
            counter: Arc::new(Counter {
                born: Tensor::next_id(),
                at: AtomicU64::new(0),
            }),
        }
    }

    /// Where its numbers are.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The number of the next tensor when it was made.
    pub(crate) fn born(&self) -> u64 {
        self.counter.born
    }

    /// Moves on by `n` words; where it stood, to be counted on from.
    pub(super) fn advance(&self, n: u64) -> u64 {
        let start = |at: u64| match at >> 32 == (at + n) >> 32 {
            true => at,
            // A draw stays within 2^32 words, which have one key.
            false => (at + n) >> 32 << 32,
        };
        let at = self
            .counter
            .at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
                Some(start(at) + n)
            });
        // It never gives `None`.
        at.map_or_else(start, start)
    }

    /// Key and counter of the next `n` words, which are drawn by that.
    pub(crate) fn next(&self, n: usize) -> [u32; 3] {
        let at = self.advance(n as u64);
        // The upper half of the counter is mixed into the key, which leaves the first 2^32 words of
        // a seed those of the plain key.
        let [a, b] = match (at >> 32) as u32 {
            0 => self.key,
            high => threefry(self.key, [high, 0xffff_ffff]),
        };
        [a, b, at as u32]
    }
}
