//! An instruction as bits.

/// The 128 bits of an instruction, bit 0 first in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u128);

impl Word {
    /// The `len` bits from bit `at` on, at most 64.
    pub fn field(self, at: u8, len: u8) -> u64 {
        (self.0 >> at) as u64 & (u64::MAX >> (64 - len))
    }

    /// One bit.
    pub fn bit(self, at: u8) -> bool {
        self.0 >> at & 1 != 0
    }
}

/// The bits that a field of an instruction is made of, lowest first: one run, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(pub Vec<(u8, u8)>);

impl Bits {
    pub fn one(at: u8, len: u8) -> Self {
        Self(vec![(at, len)])
    }

    pub fn of(&self, word: Word) -> u64 {
        let mut value = 0;
        let mut shift = 0;
        for &(at, len) in &self.0 {
            value |= word.field(at, len) << shift;
            shift += len;
        }
        value
    }

    pub fn len(&self) -> u8 {
        self.0.iter().map(|run| run.1).sum()
    }

    /// The field as a signed number.
    pub fn signed(&self, word: Word) -> i64 {
        let unused = 64 - self.len();
        (self.of(word) << unused).cast_signed() >> unused
    }

    pub fn mask(&self) -> u128 {
        self.0
            .iter()
            .fold(0, |mask, &(at, len)| mask | ((1 << len) - 1) << at)
    }
}

impl std::fmt::Display for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, &(at, len)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            match len {
                1 => write!(f, "{comma}{at}")?,
                _ => write!(f, "{comma}{}:{at}", at + len - 1)?,
            }
        }
        Ok(())
    }
}
