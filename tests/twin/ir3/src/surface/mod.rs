//! Images: where their pixels lie, and their bytes.
//!
//! - [`Format`]: what the bytes of a pixel are; [`Tiling`]: where a pixel of a tiled image lies;
//! - `decode`: descriptors of textures and of images that are written.
//!
//! With bandwidth compression (UBWC) a block of pixels has a byte of flags elsewhere. What hardware keeps there is not
//! known, and only the GPU reads such an image. Here the flags say that a block was cleared, which reads as 0, or that it
//! was written, and pixels are never compressed.
//!
//! Source: Mesa src/freedreno/fdl/fd6_layout.c, `fdl6_layout`, `fdl6_get_ubwc_blockwidth`; fd6_view.c, `fdl6_view_init`;
//! src/freedreno/registers/adreno/adreno_common.xml, `a3xx_color_swap`.

mod decode;
mod format;
mod tiling;

use drivers_spec::qcom::descriptor::Swizzle;

pub use format::{Format, Numbers, Sort};
pub use tiling::Tiling;

use crate::memory::{Denied, Memory, Path};
use crate::rules;

/// The most bytes of a pixel.
pub const PIXEL: usize = 16;

/// Flags of a block that is cleared, and of one that was written.
const CLEARED: u8 = 0;
const WRITTEN: u8 = 0x5d;

/// Flags of an image with UBWC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Where they are.
    pub base: u64,
    /// Bytes from a row of blocks to the next.
    pub pitch: u64,
    /// Bytes from a layer to the next.
    pub layer: u64,
}

/// Rows, or elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Rows of pixels.
    Rows {
        /// Width, height, and depth or layers.
        size: [u32; 3],
        /// Bytes from a row to the next.
        pitch: u64,
        /// Bytes from a layer to the next.
        layer: u64,
    },
    /// Elements one behind the other.
    Buffer {
        /// How many.
        elements: u32,
        /// The first one, behind the address.
        start: u32,
    },
}

/// An image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// What a pixel is.
    pub format: Format,
    /// Which component of a read is which.
    pub swizzle: [Swizzle; 4],
    /// `a3xx_color_swap`: the order of four components in memory.
    pub swap: u32,
    /// Its address.
    pub base: u64,
    /// Its shape.
    pub shape: Shape,
    /// How it is tiled, if it is.
    pub tiles: Option<Tiling>,
    /// Its flags, with UBWC.
    pub flags: Option<Flags>,
}

/// Width and height of a block that has a byte of flags.
fn flagged(format: Format) -> [u64; 2] {
    match format.bytes() {
        _ if format.is_pair_of_bytes() => [16, 8],
        1 | 2 | 4 => [16, 4],
        8 => [8, 4],
        _ => [4, 4],
    }
}

impl Surface {
    /// Width, height, and depth or layers; of a buffer its elements.
    pub fn size(&self) -> [u32; 3] {
        match self.shape {
            Shape::Rows { size, .. } => size,
            Shape::Buffer { elements, .. } => [elements, 1, 1],
        }
    }

    /// The coordinates, if they are inside.
    pub fn inside(&self, at: [i64; 3]) -> Option<[u64; 3]> {
        let mut all = at.iter().zip(self.size());
        let inside = all.all(|(at, size)| (0..i64::from(size)).contains(at));
        inside.then(|| at.map(|at| at as u64))
    }

    /// Where a pixel is.
    pub fn address(&self, [x, y, z]: [u64; 3]) -> u64 {
        let bytes = self.format.bytes() as u64;
        match (self.shape, &self.tiles) {
            (Shape::Rows { pitch, layer, .. }, Some(tiling)) => {
                self.base + z * layer + tiling.offset(self.format, pitch, [x, y])
            }
            (Shape::Rows { pitch, layer, .. }, None) => {
                self.base + z * layer + y * pitch + x * bytes
            }
            (Shape::Buffer { start, .. }, _) => self.base + (u64::from(start) + x) * bytes,
        }
    }

    /// Where the flags of a pixel's block are, and its first pixel.
    fn flag(&self, [x, y, z]: [u64; 3]) -> Option<(u64, [u64; 3])> {
        let Flags { base, pitch, layer } = self.flags?;
        let [width, height] = flagged(self.format);
        let (column, row) = (x / width, y / height);
        let first = [column * width, row * height, z];
        Some((base + z * layer + row * pitch + column, first))
    }

    /// Whether a pixel's block was written since its flags were cleared.
    fn is_written(
        &self,
        memory: &mut dyn Memory,
        path: Path,
        at: [u64; 3],
    ) -> Result<bool, Denied> {
        let Some((flag, _)) = self.flag(at) else {
            return Ok(true);
        };
        let mut byte = [0];
        memory.read(path, flag, &mut byte)?;
        match byte[0] {
            WRITTEN => Ok(true),
            CLEARED => Ok(false),
            other => {
                let [x, y, _] = at;
                let what = format!("flags {other:#x} at {flag:#x}, of pixel {x}, {y}");
                let rule = &rules::UBWC_FLAGS;
                Err(Denied::Rule { rule, what })
            }
        }
    }

    /// Makes the block of a pixel one that was written, whose other pixels are 0.
    ///
    /// # Errors
    /// [`Denied`], also where the flags were never cleared.
    pub fn prepare(&self, memory: &mut dyn Memory, at: [u64; 3]) -> Result<(), Denied> {
        let Some((flag, first)) = self.flag(at) else {
            return Ok(());
        };
        if self.is_written(memory, Path::Uche, at)? {
            return Ok(());
        }
        let [width, height] = flagged(self.format);
        let bytes = (width * height) as usize * self.format.bytes();
        // A block of at most 256 bytes lies in one piece.
        memory.write(self.address(first), &vec![0; bytes])?;
        memory.write(flag, &[WRITTEN])
    }

    /// The bytes of a pixel, with its components in their own order.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn read(
        &self,
        memory: &mut dyn Memory,
        path: Path,
        at: [u64; 3],
        out: &mut [u8],
    ) -> Result<(), Denied> {
        match self.is_written(memory, path, at)? {
            true => memory.read(path, self.address(at), out)?,
            false => out.fill(0),
        }
        self.reorder(out, false);
        Ok(())
    }

    /// Writes the bytes of a pixel.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn write(&self, memory: &mut dyn Memory, at: [u64; 3], pixel: &[u8]) -> Result<(), Denied> {
        self.prepare(memory, at)?;
        let mut bytes = [0; PIXEL];
        let bytes = &mut bytes[..pixel.len()];
        bytes.copy_from_slice(pixel);
        self.reorder(bytes, true);
        memory.write(self.address(at), bytes)
    }

    /// Components from the order in memory to their own, or back: WZYX has the first at the lowest address, WXYZ the first
    /// and the third exchanged, ZYXW the fourth before the others, XYZW all turned around.
    fn reorder(&self, pixel: &mut [u8], to_memory: bool) {
        let size = pixel.len() / 4;
        let turn = |pixel: &mut [u8]| {
            for n in 0..size {
                pixel.swap(n, 3 * size + n);
                pixel.swap(size + n, 2 * size + n);
            }
        };
        match self.swap {
            1 => (0..size).for_each(|n| pixel.swap(n, 2 * size + n)),
            2 if to_memory => pixel.rotate_right(size),
            2 => pixel.rotate_left(size),
            3 => turn(pixel),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use twin::fires::fires;

    use super::*;
    use crate::memory::Change;

    /// Bytes that were written; others are 0.
    #[derive(Default)]
    struct Bytes(BTreeMap<u64, u8>);

    impl Memory for Bytes {
        fn read(&mut self, _: Path, address: u64, into: &mut [u8]) -> Result<(), Denied> {
            for (at, byte) in (address..).zip(into) {
                *byte = self.0.get(&at).copied().unwrap_or(0);
            }
            Ok(())
        }

        fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Denied> {
            self.0.extend((address..).zip(from.iter().copied()));
            Ok(())
        }

        fn atomic(&mut self, address: u64, _: usize, _: Change<'_>) -> Result<u64, Denied> {
            Err(Denied::Unmapped { address })
        }
    }

    fn surface(swap: u32, flags: Option<Flags>) -> Surface {
        Surface {
            format: Format::of(0x33).unwrap(),
            swizzle: Swizzle::IDENTITY,
            swap,
            base: 0x10000,
            shape: Shape::Rows {
                size: [40, 20, 2],
                pitch: 256,
                layer: 0x4000,
            },
            tiles: flags.map(|_| Tiling::default()),
            flags,
        }
    }

    #[test]
    fn pixels_are_where_the_pitch_says() {
        let rows = surface(0, None);
        assert_eq!(rows.inside([39, 19, 1]), Some([39, 19, 1]));
        assert_eq!(rows.inside([40, 0, 0]), None);
        assert_eq!(rows.inside([0, -1, 0]), None);
        assert_eq!(rows.address([3, 2, 1]), 0x10000 + 0x4000 + 512 + 12);
        let elements = Surface {
            shape: Shape::Buffer {
                elements: 100,
                start: 2,
            },
            ..rows
        };
        assert_eq!(elements.address([97, 0, 0]), 0x10000 + 396);
        assert_eq!(elements.inside([100, 0, 0]), None);
    }

    #[test]
    fn components_have_an_order() {
        let orders = [[1, 2, 3, 4], [3, 2, 1, 4], [4, 1, 2, 3], [4, 3, 2, 1]];
        for (swap, order) in (0..).zip(orders) {
            let (rows, mut memory) = (surface(swap, None), Bytes::default());
            rows.write(&mut memory, [0; 3], &[1, 2, 3, 4]).unwrap();
            let held: Vec<u8> = memory.0.values().copied().collect();
            assert_eq!(held, order);
            let mut out = [0; 4];
            rows.read(&mut memory, Path::Uche, [0; 3], &mut out)
                .unwrap();
            assert_eq!(out, [1, 2, 3, 4]);
        }
    }

    #[test]
    fn blocks_are_cleared_or_written() {
        let flags = Flags {
            base: 0x1000,
            pitch: 64,
            layer: 0x400,
        };
        let (tiles, mut memory) = (surface(0, Some(flags)), Bytes::default());
        let mut out = [9; 4];
        memory.write(tiles.address([17, 5, 1]), &[7; 4]).unwrap();
        let mut read = |memory: &mut Bytes, at| {
            let done = tiles.read(memory, Path::Texture, at, &mut out);
            done.map(|()| out)
        };
        assert_eq!(read(&mut memory, [17, 5, 1]), Ok([0; 4]));
        tiles.write(&mut memory, [16, 4, 1], &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.0.get(&(0x1000 + 0x400 + 64 + 1)), Some(&WRITTEN));
        assert_eq!(read(&mut memory, [16, 4, 1]), Ok([1, 2, 3, 4]));
        assert_eq!(read(&mut memory, [17, 5, 1]), Ok([0; 4]));
        memory.write(0x1000, &[1]).unwrap();
        let broken = match read(&mut memory, [0, 0, 0]) {
            Err(Denied::Rule { rule, .. }) => rule.name,
            other => panic!("{other:?}"),
        };
        fires("IR3-UBWC-FLAGS").only(&[broken]);
    }
}
