//! The state of a random generator, and its counter-based function.

use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::unpoisoned;

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

/// What clones of a generator share.
#[derive(Debug)]
struct Shared {
    /// The number of the next tensor when the generator was made.
    born: u64,
    stand: Mutex<Stand>,
}

/// Where a generator stands.
#[derive(Clone, Copy, Debug)]
struct Stand {
    key: [u32; 2],
    at: u64,
}

/// A source of random tensors on one engine: a key and a counter that moves with every draw.
///
/// Clones share the counter. A captured function ([`crate::Jit`]) draws new numbers in each replay: the same as
/// without capture.
#[derive(Clone, Debug)]
pub struct Rng {
    pub(super) engine: Engine,
    shared: Arc<Shared>,
}

impl Rng {
    /// A generator of a seed. The numbers depend on the seed, and on what was drawn before.
    pub fn new(engine: &Engine, seed: u64) -> Rng {
        Rng::of(engine, [(seed >> 32) as u32, seed as u32])
    }

    pub(super) fn of(engine: &Engine, key: [u32; 2]) -> Rng {
        Rng {
            engine: engine.clone(),
            shared: Arc::new(Shared {
                born: Tensor::next_id(),
                stand: Mutex::new(Stand { key, at: 0 }),
            }),
        }
    }

    fn stand(&self) -> MutexGuard<'_, Stand> {
        // A panic leaves two numbers in it, whole ones.
        let stand = self.shared.stand.lock();
        unpoisoned(stand)
    }

    /// Its state, for saving: two words of the key, then the lower and the upper word of the counter.
    pub fn state(&self) -> [u32; 4] {
        let Stand { key, at } = *self.stand();
        [key[0], key[1], at as u32, (at >> 32) as u32]
    }

    /// Goes on from a state.
    pub(super) fn go_on_from(&self, state: [u32; 4]) {
        let [a, b, low, high] = state;
        *self.stand() = Stand {
            key: [a, b],
            at: u64::from(high) << 32 | u64::from(low),
        };
    }

    /// The engine of its numbers.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The number of the next tensor when it was made.
    pub(crate) fn born(&self) -> u64 {
        self.shared.born
    }

    /// Moves on by `n` words: the key, and where it stood, to be counted on from.
    pub(super) fn advance(&self, n: u64) -> ([u32; 2], u64) {
        let (key, start, _) = self.moved(n);
        (key, start)
    }

    /// [`Rng::advance`], and where it stood before and after that.
    fn moved(&self, n: u64) -> ([u32; 2], u64, [u64; 2]) {
        let mut stand = self.stand();
        let at = stand.at;
        // A draw stays within 2^32 words, which have one key.
        let start = match at >> 32 == at.wrapping_add(n) >> 32 {
            true => at,
            false => at.wrapping_add(n) >> 32 << 32,
        };
        stand.at = start.wrapping_add(n);
        (stand.key, start, [at, stand.at])
    }

    /// Goes back to where it stood, if it still stands where it was after that: nothing was made of the words in
    /// between.
    pub(crate) fn back(&self, before: u64, after: u64) {
        let mut stand = self.stand();
        if stand.at == after {
            stand.at = before;
        }
    }

    /// Key and counter of the next `n` words, which are drawn by that, and where it stood before and after it, for
    /// [`Rng::back`].
    pub(crate) fn next(&self, n: usize) -> ([u32; 3], [u64; 2]) {
        let (key, at, stood) = self.moved(n as u64);
        // The upper half of the counter is mixed into the key, which leaves the first 2^32 words of
        // a seed those of the plain key.
        let [a, b] = match (at >> 32) as u32 {
            0 => key,
            high => threefry(key, [high, 0xffff_ffff]),
        };
        ([a, b, at as u32], stood)
    }
}
