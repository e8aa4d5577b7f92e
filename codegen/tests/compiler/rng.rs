//! Randomness with a printed seed.

/// xorshift64*.
pub struct Rng(pub u64);

impl Rng {
    /// From `DOORBELL_SEED` if set, otherwise from `default`; prints what it used.
    pub fn seeded(default: u64) -> Self {
        let seed = std::env::var("DOORBELL_SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or(default);
        println!("DOORBELL_SEED={seed}");
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }

    pub fn int(&mut self, lo: i64, hi: i64) -> i64 {
        lo + self.below((hi - lo + 1) as u64) as i64
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
