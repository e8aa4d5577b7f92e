//! VRAM: as many bytes as the card has, of which those take memory that were written.

use std::collections::HashMap;

const PAGE: u64 = 4096;

/// The memory of a card.
#[derive(Default)]
pub(super) struct Vram {
    bytes: u64,
    pages: HashMap<u64, Box<[u8; PAGE as usize]>>,
}

impl Vram {
    pub(super) fn new(bytes: u64) -> Vram {
        let pages = HashMap::new();
        Vram { bytes, pages }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Up to eight bytes, little-endian; none beyond the end.
    pub(super) fn read(&self, at: u64, bytes: u64) -> Option<u64> {
        let end = at.checked_add(bytes)?;
        let byte = |at: u64| {
            let page = self.pages.get(&(at / PAGE));
            page.map_or(0, |page| page[(at % PAGE) as usize])
        };
        let word = || {
            (at..end)
                .rev()
                .fold(0, |word, at| word << 8 | u64::from(byte(at)))
        };
        (end <= self.bytes).then(word)
    }

    /// As [`Vram::read`].
    pub(super) fn write(&mut self, at: u64, bytes: u64, value: u64) -> Option<()> {
        let end = at.checked_add(bytes)?;
        if end > self.bytes {
            return None;
        }
        for (i, at) in (at..end).enumerate() {
            let page = self.pages.entry(at / PAGE);
            let page = page.or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = (value >> (8 * i)) as u8;
        }
        Some(())
    }
}
