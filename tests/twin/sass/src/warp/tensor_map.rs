//! Tensor maps: 128 bytes that say where tiles of a tensor lie.
//!
//! Where the fields are is known from the code that NVIDIA's compiler makes of `tensormap.replace`, and from what
//! NVIDIA's libcuda 550.163.01 writes (`cuTensorMapEncodeTiled`); that the upper half is nothing to the hardware is
//! a guess: it says how large a tile is, and how it is aligned. Bits 16 to 18 of the third word, rounding to
//! TF32 and how much a cache fetches, change no bits that are copied here.

use super::bulk::PIECE;

/// A map of tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    address: u64,
    /// Bytes of an element.
    size: u64,
    /// Bits of an address that are mixed into others.
    mixed: u64,
    /// Elements of the tensor, of a tile, and how far apart those are; bytes to the next one.
    dimensions: Vec<Dimension>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension {
    count: u64,
    tile: u64,
    step: u64,
    stride: u64,
}

/// Up to 16 bytes of a tile: where they lie in global memory, and after how many others of the 16. What is
/// not there is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub address: u64,
    pub skip: usize,
    pub bytes: usize,
}

impl TensorMap {
    /// # Errors
    /// What is wrong with it, for an instruction with so many coordinates.
    pub fn read(bytes: &[u8; 128], coordinates: usize) -> Result<Self, &'static str> {
        let words = bytes.as_chunks().0;
        let word = |k: usize| u32::from_le_bytes(words[k]);
        let field = |k: usize, at: u32, len: u32| u64::from(word(k) >> at & ((1 << len) - 1));
        let rank = field(2, 4, 3) as usize + 1;
        if rank != coordinates || rank > 5 {
            return Err("it has another number of dimensions than the instruction");
        }
        // Of 8, 16, 32, 32, 64, 64 bits; halves, singles twice, doubles, bfloat16.
        let size = [1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2].get(field(2, 7, 4) as usize);
        let &size = size.ok_or("elements of this type are not modelled")?;
        if field(2, 11, 2) != 0 {
            return Err("channels in groups are not modelled");
        }
        if field(2, 15, 1) != 0 {
            return Err("what NaN is outside of the tensor is not known");
        }
        if field(2, 0, 4) != 0 || field(2, 19, 13) != 0 || word(15) != 0 {
            return Err("it has bits that mean nothing");
        }
        let dimension = |k: usize| Dimension {
            count: u64::from(word(8 + k)) + 1,
            tile: match k {
                0 => field(13, 24, 8) + 1,
                _ => field(14, 8 * (k as u32 - 1), 8) + 1,
            },
            // There is no step along the first.
            step: if k == 0 {
                1
            } else {
                field(13, 3 * k as u32, 3) + 1
            },
            stride: match k {
                0 => size,
                _ => (u64::from(word(2 + k)) | field(7, 4 * (k as u32 - 1), 4) << 32) << 4,
            },
        };
        let map = Self {
            address: u64::from(word(1)) << 32 | u64::from(word(0)),
            size,
            mixed: [0, 1, 3, 7][field(2, 13, 2) as usize],
            dimensions: (0..rank).map(dimension).collect(),
        };
        let row = map.dimensions[0].tile * size;
        if !row.is_multiple_of(PIECE as u64) {
            return Err("a row of a tile is no multiple of 16 bytes");
        }
        if map.mixed != 0 && row > 16 * (map.mixed + 1) {
            return Err("a row of a tile is longer than the pattern that mixes it");
        }
        if !map.address.is_multiple_of(PIECE as u64) {
            return Err("its address is no multiple of 16");
        }
        Ok(map)
    }

    fn elements(&self, k: usize) -> u64 {
        let Dimension { tile, step, .. } = self.dimensions[k];
        tile.div_ceil(step)
    }

    /// Bytes of a tile.
    pub fn bytes(&self) -> usize {
        let elements: u64 = (0..self.dimensions.len())
            .map(|k| self.elements(k))
            .product();
        (elements * self.size) as usize
    }

    /// Where a byte of a tile lies in shared memory.
    pub fn place(&self, at: u64) -> u64 {
        at ^ (at >> 7 & self.mixed) << 4
    }

    /// The tile at some coordinates, in the order of its bytes in shared memory.
    pub fn pieces(&self, coordinates: impl Fn(usize) -> i32) -> Vec<Piece> {
        let row = self.dimensions[0].tile * self.size;
        let rows = self.bytes() as u64 / row;
        let first = i64::from(coordinates(0));
        // What of a row is there, in bytes of it.
        let length = self.dimensions[0].count as i64 - first;
        let there = [-first, length].map(|x| (x * self.size as i64).clamp(0, row as i64));
        let start = self.address.wrapping_add_signed(first * self.size as i64);
        let mut pieces = Vec::new();
        for number in 0..rows {
            let (mut rest, mut address, mut inside) = (number, start, true);
            for k in 1..self.dimensions.len() {
                let Dimension {
                    count,
                    step,
                    stride,
                    ..
                } = self.dimensions[k];
                let n = self.elements(k);
                let at = i64::from(coordinates(k)) + (rest % n * step) as i64;
                rest /= n;
                inside &= (0..count as i64).contains(&at);
                address = address.wrapping_add((at as u64).wrapping_mul(stride));
            }
            for byte in (0..row as i64).step_by(PIECE) {
                let of = there.map(|end| (end - byte).clamp(0, PIECE as i64));
                let bytes = if inside { (of[1] - of[0]).max(0) } else { 0 };
                pieces.push(Piece {
                    address: address.wrapping_add_signed(byte + of[0]),
                    skip: of[0] as usize,
                    bytes: bytes as usize,
                });
            }
        }
        // `skip` may be all of it.
        pieces
            .iter_mut()
            .filter(|piece| piece.bytes == 0)
            .for_each(|piece| piece.skip = 0);
        pieces
    }
}
