//! Matrices in shared memory, as products of four warps find them: by a descriptor of 64 bits.
//!
//! Source: the manual of PTX, "Asynchronous warpgroup level matrix shared memory layout" and "Matrix
//! descriptor"; NVIDIA's CUTLASS (include/cute/arch/mma_sm90_desc.hpp) names the two offsets for each layout. What
//! the base offset does is a guess: it moves the pattern by so many of its rows of 128 bytes.

/// The bytes of the row of a matrix, which are eight words.
const ROW: usize = 32;

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    base: u64,
    /// Bytes in a row of the pattern by which pieces of 16 bytes are mixed; 16 where they are not.
    pitch: u64,
}

impl Descriptor {
    fn read(bits: u64) -> Self {
        let field = |at: u32| (bits >> at & 0x3fff) << 4;
        Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: bits >> 49 & 7,
            pitch: [16, 128, 64, 32][(bits >> 62) as usize],
        }
    }

    /// Where a piece of 16 bytes lies that is so far from the start.
    fn piece(&self, offset: u64) -> u64 {
        let at = self.start.wrapping_add(offset) & 0x3_ffff;
        let row = (at >> 7).wrapping_sub(self.base);
        at ^ (row & (self.pitch / 16 - 1)) << 4
    }

    /// The piece of a row that has its elements one after the other.
    fn of_row(&self, row: u64, piece: u64) -> u64 {
        let across = if self.pitch == 16 { self.leading } else { 16 };
        self.piece(row % 8 * self.pitch + row / 8 * self.stride + piece * across)
    }

    /// The piece that has an element of eight rows each: the eights, and the place in the rows.
    fn of_column(&self, eight: u64, place: u64) -> u64 {
        let pieces = self.pitch / 16;
        let (further, eights) = if self.pitch == 16 {
            (self.stride, self.leading)
        } else {
            (self.leading, self.stride)
        };
        let across = eight % pieces * 16 + eight / pieces * further;
        self.piece(across + place % 8 * self.pitch + place / 8 * eights)
    }
}

/// Reads rows of 32 bytes each. `turned`: halves lie column by column. `see`
/// is told the place of each piece.
///
/// # Errors
/// The place of a piece that is not there.
pub(crate) fn rows(
    shared: &[u8],
    descriptor: u64,
    count: usize,
    turned: bool,
    mut see: impl FnMut(u64),
) -> Result<Vec<[u32; 8]>, u64> {
    let descriptor = Descriptor::read(descriptor);
    let mut rows = vec![[0_u8; ROW]; count];
    let mut piece = |at: u64| {
        see(at);
        let bytes = shared.get(at as usize..).and_then(<[u8]>::first_chunk);
        bytes.copied().ok_or(at)
    };
    if turned {
        for eight in 0..count / 8 {
            for place in 0..ROW / 2 {
                let halves: [u8; 16] = piece(descriptor.of_column(eight as u64, place as u64))?;
                for (row, half) in rows[8 * eight..].iter_mut().zip(halves.as_chunks::<2>().0) {
                    row[2 * place..2 * place + 2].copy_from_slice(half);
                }
            }
        }
    } else {
        for (row, into) in (0..).zip(&mut rows) {
            for (k, half) in (0..).zip(into.as_chunks_mut::<16>().0) {
                *half = piece(descriptor.of_row(row, k))?;
            }
        }
    }
    let words = |row: [u8; ROW]| {
        let words = row.as_chunks().0;
        std::array::from_fn(|i| u32::from_le_bytes(words[i]))
    };
    Ok(rows.into_iter().map(words).collect())
}
