//! Which bytes of memory someone has read and written, to tell what must not happen at the same time.

use std::collections::HashMap;

/// Bytes of a page here.
const PAGE: u64 = 4096;

/// A bit for each byte of a page.
#[derive(Clone, Debug)]
struct Bits([u64; 64]);

impl Default for Bits {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Bits {
    fn set(&mut self, offset: u64, bytes: u64) {
        for at in offset..(offset + bytes).min(PAGE) {
            self.0[at as usize / 64] |= 1 << (at % 64);
        }
    }

    fn add(&mut self, more: &Self) {
        for (bits, more) in self.0.iter_mut().zip(more.0) {
            *bits |= more;
        }
    }

    /// The first byte that is in both.
    fn common(&self, other: &Self) -> Option<u64> {
        let word = (0..64).find(|&i| self.0[i] & other.0[i] != 0)?;
        Some(word as u64 * 64 + u64::from((self.0[word] & other.0[word]).trailing_zeros()))
    }
}

#[derive(Clone, Debug, Default)]
struct Page {
    read: Bits,
    written: Bits,
}

/// Bytes that were read, and bytes that were written.
#[derive(Clone, Debug, Default)]
pub struct Touched(HashMap<u64, Page>);

impl Touched {
    /// Some bytes are read.
    pub fn read(&mut self, at: u64, bytes: usize) {
        self.each(at, bytes, |page, offset, bytes| {
            page.read.set(offset, bytes);
        });
    }

    /// Some bytes are written.
    pub fn write(&mut self, at: u64, bytes: usize) {
        self.each(at, bytes, |page, offset, bytes| {
            page.written.set(offset, bytes);
        });
    }

    fn each(&mut self, at: u64, bytes: usize, set: impl Fn(&mut Page, u64, u64)) {
        let (mut at, mut left) = (at, bytes as u64);
        while left != 0 {
            let part = left.min(PAGE - at % PAGE);
            set(self.0.entry(at / PAGE).or_default(), at % PAGE, part);
            (at, left) = (at.wrapping_add(part), left - part);
        }
    }

    /// Adds what another one touched.
    pub fn add(&mut self, more: Self) {
        for (page, more) in more.0 {
            let all = self.0.entry(page).or_default();
            all.read.add(&more.read);
            all.written.add(&more.written);
        }
    }

    /// A byte that one of two read and the other one wrote: the lowest of the lowest page, so that the same
    /// one is named each time. Two writes are no race.
    pub fn race(&self, other: &Self) -> Option<u64> {
        let both = self.0.iter().filter_map(|(page, mine)| {
            let theirs = other.0.get(page)?;
            let read = mine.read.common(&theirs.written);
            let written = || mine.written.common(&theirs.read);
            Some(page * PAGE + read.or_else(written)?)
        });
        both.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_and_a_write_race_two_writes_do_not() {
        let mut write = Touched::default();
        // Across the end of a page.
        write.write(0x1ffc, 8);
        let mut read = Touched::default();
        read.read(0x2004, 4);
        assert_eq!((read.race(&write), write.race(&write)), (None, None));
        read.read(0x2003, 1);
        assert_eq!(read.race(&write), Some(0x2003));
        let mut more = Touched::default();
        more.read(0x1fff, 1);
        read.add(more);
        assert_eq!(write.race(&read), Some(0x1fff));
    }
}
