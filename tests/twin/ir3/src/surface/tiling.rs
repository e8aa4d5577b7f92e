//! Where a pixel lies in a tiled image (TILE6_3).
//!
//! Pixels interleave their coordinates in blocks of 256 bytes. Eight blocks are a macrotile of 2 KiB, two wide and four
//! high; which is where in it depends on the mode. Rows of macrotiles follow one another by the pitch, and where the
//! pitch meets the banks of memory, bits of the row are mixed into the column.
//!
//! Source: Mesa src/freedreno/fdl/fd6_tiled_memcpy.cc, head comment, `get_pixel_offset`, `get_block_size`,
//! `block_x_xormask`, `block_y_xormask`, `get_bank_mask`.

use super::Format;

/// How the kernel has set up the banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The highest bank bit.
    pub bank_bit: u32,
    /// Bank swizzle levels that are on: a bit each, level 1 the lowest.
    pub levels: u32,
    /// Macrotiles of 8 channels, else of 4.
    pub eight_channels: bool,
}

impl Default for Tiling {
    /// That of A630.
    fn default() -> Tiling {
        Tiling {
            bank_bit: 15,
            levels: 6,
            eight_channels: false,
        }
    }
}

/// Width and height of a block of 256 bytes.
pub(super) fn block(format: Format) -> [u64; 2] {
    match format.bytes() {
        _ if format.is_pair_of_bytes() => [16, 8],
        1 => [32, 8],
        2 => [32, 4],
        4 => [16, 4],
        8 => [8, 4],
        _ => [4, 4],
    }
}

/// A bit of a number.
const fn bit(number: u64, at: u32) -> u64 {
    number >> at & 1
}

/// The number of a pixel in its block. Of pairs of bytes the hardware keeps the first ones apart from the second ones;
/// here they stay together, as nobody but the GPU reads such images.
fn inside([x, y]: [u64; 2], [width, _]: [u64; 2]) -> u64 {
    let low = bit(x, 0) | bit(y, 0) << 1 | bit(x, 1) << 2 | bit(y, 1) << 3;
    let (high, third) = if width == 32 { (7, 7) } else { (3, 6) };
    low | (x >> 2 & high) << 4 | bit(y, 2) << third
}

impl Tiling {
    /// Which bits of a block's row are mixed into the column.
    fn banks(&self, format: Format, stride: u64) -> u64 {
        let narrow = format.bytes() == 1 || format.is_pair_of_bytes();
        let least = self.bank_bit + u32::from(narrow);
        let meets = |level: u32, shift: u32| {
            self.levels >> (level - 1) & 1 == 1
                && stride.is_multiple_of(1 << least.saturating_sub(shift))
        };
        u64::from(meets(2, 10)) << 2 | u64::from(meets(3, 9)) << 3 | u64::from(meets(1, 8)) << 4
    }

    /// Bytes from the address of a layer to a pixel.
    pub(super) fn offset(&self, format: Format, pitch: u64, [x, y]: [u64; 2]) -> u64 {
        let bytes = format.bytes() as u64;
        let [width, height] = block(format);
        let (column, row) = (x / width, y / height);
        let stride = pitch / (width * bytes);
        let wide = bytes >= 16;
        let (of_column, of_row) = match (wide, self.eight_channels) {
            (true, _) => (0, 0),
            (false, false) => (column & 2, 0),
            (false, true) => (column & 6, row & 4),
        };
        let across = bit(column, 0) * 7 ^ of_column ^ (column >> 1) << 3;
        let down = bit(row, 0) * 6 ^ bit(row, 1) * 3 ^ of_row;
        let banks = (row & self.banks(format, stride)) << (self.bank_bit - 3);
        let tiles = (row >> 2) * (stride / 2) * 2048;
        let number = inside([x % width, y % height], [width, height]);
        ((across ^ down) << 8 ^ banks) + tiles + number * bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn format(number: u32) -> Format {
        Format::of(number).unwrap()
    }

    #[test]
    fn pixels_interleave_and_blocks_are_mixed() {
        let (tiling, four) = (Tiling::default(), format(0x4b));
        let at = |x, y| tiling.offset(four, 1024, [x, y]);
        assert_eq!([at(1, 0), at(0, 1), at(2, 0), at(0, 2)], [4, 8, 16, 32]);
        assert_eq!([at(4, 0), at(8, 0), at(15, 3)], [64, 128, 252]);
        // Column 1: 7; column 2: the next macrotile, with bit 1 as of 4 channels; row 1: 6; row 2: 3.
        assert_eq!([at(16, 0), at(32, 0)], [0x700, 0xa00]);
        assert_eq!([at(0, 4), at(0, 8), at(0, 12)], [0x600, 0x300, 0x500]);
        // 16 blocks are 8 macrotiles.
        assert_eq!(at(0, 16), 8 * 2048);
        let eight = Tiling {
            eight_channels: true,
            ..tiling
        };
        assert_eq!(eight.offset(four, 1024, [64, 0]), 0x1400);
        assert_eq!(eight.offset(four, 1024, [0, 16]), 8 * 2048 + 0x400);
        // Pixels of 16 bytes have no such bit.
        let wide = format(0x82);
        assert_eq!(tiling.offset(wide, 1024, [8, 0]), 0x800);
    }

    #[test]
    fn rows_are_mixed_into_columns_where_the_pitch_meets_the_banks() {
        let (tiling, four) = (Tiling::default(), format(0x4b));
        // 2^5 blocks of 64 bytes are 2 KiB.
        let at = |pitch| tiling.offset(four, pitch, [0, 16]) - pitch / 64 / 2 * 2048;
        assert_eq!(at(1024), 0);
        assert_eq!(at(2048), 1 << 14);
        let level = Tiling {
            levels: 4,
            ..tiling
        };
        assert_eq!(level.offset(four, 2048, [0, 16]), 16 * 2048);
    }

    #[test]
    fn pixels_have_places_of_their_own() {
        for number in [0x03, 0x11, 0x18, 0x33, 0x62, 0x83] {
            let format = format(number);
            for eight_channels in [false, true] {
                let tiling = Tiling {
                    eight_channels,
                    ..Tiling::default()
                };
                let pitch = 128 * format.bytes() as u64;
                let mut seen = HashSet::new();
                for y in 0..64 {
                    for x in 0..128 {
                        let at = tiling.offset(format, pitch, [x, y]);
                        assert!(at < pitch * 64, "{}: {x}, {y}", format.name);
                        assert!(seen.insert(at), "{}: {x}, {y}", format.name);
                    }
                }
            }
        }
    }
}
