//! Objects that chance has damaged.

/// Where things lie in a section header of ELF64, and in the header of the file.
pub const SHDR: usize = 64;
pub const SH_TYPE: usize = 4;
pub const SH_OFFSET: usize = 24;
pub const SH_SIZE: usize = 32;
const E_SHOFF: usize = 40;
const E_SHNUM: usize = 60;

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Offsets of the section headers.
pub fn headers(bytes: &[u8]) -> Vec<usize> {
    let (start, count) = (word(bytes, E_SHOFF) as usize, bytes[E_SHNUM] as usize);
    (0..count).map(|i| start + i * SHDR).collect()
}

/// Where the content of the sections of a type lies.
pub fn contents(bytes: &[u8], kind: u32) -> Vec<std::ops::Range<usize>> {
    let of = |at: &usize| word(bytes, at + SH_TYPE) as u32 == kind;
    let range = |at: usize| {
        let start = word(bytes, at + SH_OFFSET) as usize;
        start..start + word(bytes, at + SH_SIZE) as usize
    };
    headers(bytes).into_iter().filter(of).map(range).collect()
}

/// A generator of numbers: SplitMix64.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number that code breaks at.
    fn number(&mut self) -> u64 {
        let near = self.next() % 16;
        let at = [
            0,
            8,
            16,
            64,
            255,
            256,
            4096,
            0x7fff_ffff,
            0xffff_ffff,
            1 << 26,
            1 << 40,
            1 << 63,
            u64::MAX,
            0x00ff_0000,
        ];
        self.one(&at)
            .wrapping_add(near)
            .wrapping_sub(self.next() % 2 * 8)
    }
}

/// Damages an object somewhere: anywhere, or where the tables are.
pub fn damage(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let tables = |chance: &mut Chance, bytes: &[u8]| match chance.below(6) {
        0 => 0..64,
        1 => {
            let at = chance.one(&headers(bytes));
            at..at + SHDR
        }
        // SYMTAB, RELA, NOTE, REL, DYNSYM, and attributes of kernels (SHT_CUDA_INFO).
        2..=4 => {
            let kind = chance.one(&[2, 4, 7, 9, 11, 0x7000_0000]);
            let found = contents(bytes, kind);
            match found.len() {
                0 => 0..bytes.len(),
                n => found[chance.below(n)].clone(),
            }
        }
        _ => 0..bytes.len(),
    };
    // Found before anything is broken.
    let places: Vec<_> = (0..=chance.below(6))
        .map(|_| {
            let range = tables(chance, bytes);
            range.start + chance.below(range.len())
        })
        .collect();
    for at in places {
        let width = chance.one(&[1, 1, 2, 4, 8, 8]);
        let value = match chance.below(3) {
            0 => chance.next(),
            _ => chance.number(),
        };
        let end = (at + width).min(bytes.len());
        bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
    }
    match chance.below(12) {
        0 => bytes.truncate(chance.below(bytes.len())),
        1 => {
            // A piece of it over another one.
            let n = chance.below(256).min(bytes.len());
            let (from, to) = (chance.below(bytes.len() - n), chance.below(bytes.len() - n));
            bytes.copy_within(from..from + n, to);
        }
        2 => bytes.extend((0..chance.below(4096)).map(|i| i as u8)),
        _ => {}
    }
}
