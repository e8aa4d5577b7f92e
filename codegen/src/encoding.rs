//! Instruction words of 64 bits as tables describe them: fixed bits, and fields between them.
//!
//! Nothing here belongs to one instruction set. A set has rows of its own type ([`Encoding`] says which bits
//! of a row are fixed); a [`Table`] finds the row of a word.

/// A run of bits of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    low: u8,
    width: u8,
}

impl Field {
    /// The bits `high..=low`.
    ///
    /// # Panics
    /// The bits are in the wrong order or outside a word; in a constant, at compile time.
    pub const fn new(high: u8, low: u8) -> Self {
        assert!(high < 64 && low <= high && high - low < 63);
        Self {
            low,
            width: high - low + 1,
        }
    }

    /// One bit.
    ///
    /// # Panics
    /// The bit is outside a word.
    pub const fn bit(at: u8) -> Self {
        Self::new(at, at)
    }

    /// The number of bits.
    pub const fn width(self) -> u32 {
        self.width as u32
    }

    /// The largest value.
    pub const fn max(self) -> u64 {
        (1 << self.width) - 1
    }

    /// The bits in the word.
    pub const fn mask(self) -> u64 {
        self.max() << self.low
    }

    /// The value in a word.
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.low) & self.max()
    }

    /// The bits of a value in a word; nothing if it is too large.
    pub const fn put(self, value: u64) -> Option<u64> {
        if value > self.max() {
            return None;
        }
        Some(value << self.low)
    }

    /// The value in a word as a two's complement number.
    pub const fn get_signed(self, word: u64) -> i64 {
        sign_extend(self.get(word), self.width())
    }

    /// The bits of a two's complement number in a word; nothing if it does not fit.
    pub const fn put_signed(self, value: i64) -> Option<u64> {
        let bits = value as u64 & self.max();
        if sign_extend(bits, self.width()) != value {
            return None;
        }
        Some(bits << self.low)
    }
}

/// The number that the low bits of a value are in two's complement.
pub const fn sign_extend(value: u64, width: u32) -> i64 {
    let unused = 64 - width;
    ((value << unused) as i64) >> unused
}

/// The bits of a word that do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Which bits.
    pub mask: u64,
    /// Their values.
    pub value: u64,
}

impl Fixed {
    /// Whether a word has these bits.
    pub const fn matches(self, word: u64) -> bool {
        word & self.mask == self.value
    }

    /// Whether some word has both these bits and others.
    pub const fn overlaps(self, other: Self) -> bool {
        (self.value ^ other.value) & self.mask & other.mask == 0
    }
}

/// A row of the table of an instruction set.
pub trait Encoding {
    /// The bits that tell this row from others.
    fn fixed(&self) -> Fixed;
}

/// Rows that are looked up by the word.
#[derive(Debug)]
pub struct Table<R: 'static> {
    rows: &'static [R],
    key: Field,
    /// For each value of the key, the rows that it may be.
    buckets: Vec<Vec<u16>>,
}

impl<R: Encoding> Table<R> {
    /// A table whose rows are sorted by a field, such as the opcode.
    ///
    /// # Panics
    /// The table has more than 65536 rows.
    pub fn new(rows: &'static [R], key: Field) -> Self {
        assert!(rows.len() <= 1 << 16);
        let bucket = |value| {
            let word = Fixed {
                mask: key.mask(),
                value: key.put(value).unwrap_or_default(),
            };
            let found = rows.iter().enumerate();
            let found = found.filter(|(_, row)| row.fixed().overlaps(word));
            found.map(|(at, _)| at as u16).collect()
        };
        Self {
            rows,
            key,
            buckets: (0..=key.max()).map(bucket).collect(),
        }
    }

    /// All rows.
    pub fn rows(&self) -> &'static [R] {
        self.rows
    }

    /// The row of a word, if there is exactly one.
    pub fn find(&self, word: u64) -> Option<&'static R> {
        let bucket = &self.buckets[self.key.get(word) as usize];
        let rows = bucket.iter().map(|&at| &self.rows[usize::from(at)]);
        let mut rows = rows.filter(|row| row.fixed().matches(word));
        rows.next().filter(|_| rows.next().is_none())
    }

    /// Pairs of rows that the same word could be.
    pub fn ambiguous(&self) -> Vec<(&'static R, &'static R)> {
        let mut found = Vec::new();
        for bucket in &self.buckets {
            for (n, &a) in bucket.iter().enumerate() {
                for &b in &bucket[n + 1..] {
                    let (a, b) = (&self.rows[usize::from(a)], &self.rows[usize::from(b)]);
                    if a.fixed().overlaps(b.fixed()) {
                        found.push((a, b));
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let field = Field::new(13, 1);
        assert_eq!(field.mask(), 0x3ffe);
        assert_eq!(field.put(0x1fff), Some(0x3ffe));
        assert_eq!(field.put(0x2000), None);
        assert_eq!(field.put_signed(-4096), Some(0x2000));
        assert_eq!(field.put_signed(4096), None);
        assert_eq!(field.get_signed(0x2000), -4096);
        assert_eq!(field.get(u64::MAX), 0x1fff);
    }

    #[derive(Debug)]
    struct Row(Fixed);

    impl Encoding for Row {
        fn fixed(&self) -> Fixed {
            self.0
        }
    }

    const fn row(mask: u64, value: u64) -> Row {
        Row(Fixed { mask, value })
    }

    #[test]
    fn rows_are_found_by_their_fixed_bits() {
        static ROWS: [Row; 3] = [row(0xf0, 0x10), row(0xf1, 0x20), row(0xf1, 0x21)];
        let table = Table::new(&ROWS, Field::new(7, 5));
        assert_eq!(table.find(0x1f).map(|r| r.0.value), Some(0x10));
        assert_eq!(table.find(0x2f).map(|r| r.0.value), Some(0x21));
        assert!(table.find(0x3f).is_none());
        assert!(table.ambiguous().is_empty());
        static WRONG: [Row; 2] = [row(0xf0, 0x10), row(0x0f, 0x01)];
        let wrong = Table::new(&WRONG, Field::new(7, 5));
        assert!(!wrong.ambiguous().is_empty());
        assert!(wrong.find(0x11).is_none());
        assert!(wrong.find(0x12).is_some());
    }
}
