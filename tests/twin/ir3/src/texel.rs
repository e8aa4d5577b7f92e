//! Pixels in memory, and where they are.

use drivers_spec::qcom::descriptor::{Format, Shape, Swizzle, Texture};
use half::f16;

use crate::arith::convert::to_half;
use crate::arith::float::{flush, flush_half, from_half};
use crate::fault::{Result, broken};
use crate::inst::Type;
use crate::rules;

/// What components are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Floats, or fractions of 255.
    Float,
    /// Without sign.
    Unsigned,
    /// With sign.
    Signed,
}

/// A pixel: floats as the bits of singles, integers in 32 bits.
pub type Pixel = [u32; 4];

/// The components of a format: their sort, how many, bits of each, whether they are fractions.
pub fn layout(format: Format) -> (Sort, usize, u32, bool) {
    use Format::*;
    match format {
        R8Unorm => (Sort::Float, 1, 8, true),
        R8Uint => (Sort::Unsigned, 1, 8, false),
        R8Sint => (Sort::Signed, 1, 8, false),
        R16Float => (Sort::Float, 1, 16, false),
        R16Uint => (Sort::Unsigned, 1, 16, false),
        R16Sint => (Sort::Signed, 1, 16, false),
        Rgba8Unorm => (Sort::Float, 4, 8, true),
        Rgba8Uint => (Sort::Unsigned, 4, 8, false),
        Rgba8Sint => (Sort::Signed, 4, 8, false),
        Rg16Float => (Sort::Float, 2, 16, false),
        R32Float => (Sort::Float, 1, 32, false),
        R32Uint => (Sort::Unsigned, 1, 32, false),
        R32Sint => (Sort::Signed, 1, 32, false),
        Rgba16Float => (Sort::Float, 4, 16, false),
        Rgba16Uint => (Sort::Unsigned, 4, 16, false),
        Rgba16Sint => (Sort::Signed, 4, 16, false),
        Rg32Float => (Sort::Float, 2, 32, false),
        Rg32Uint => (Sort::Unsigned, 2, 32, false),
        Rgba32Float => (Sort::Float, 4, 32, false),
        Rgba32Uint => (Sort::Unsigned, 4, 32, false),
        Rgba32Sint => (Sort::Signed, 4, 32, false),
    }
}

/// The pixel of some bytes; components that the format lacks are 0, 0 and 1.
pub fn decode(format: Format, bytes: &[u8]) -> Pixel {
    let (sort, count, bits, fraction) = layout(format);
    let one = if sort == Sort::Float {
        1f32.to_bits()
    } else {
        1
    };
    let mut pixel = [0, 0, 0, one];
    for (to, from) in pixel
        .iter_mut()
        .zip(bytes.chunks(bits as usize / 8))
        .take(count)
    {
        let raw = from
            .iter()
            .rev()
            .fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        *to = match (sort, bits, fraction) {
            (_, _, true) => (raw as f32 / 255.0).to_bits(),
            (Sort::Float, 16, _) => from_half(raw).to_bits(),
            (Sort::Float, ..) => flush(f32::from_bits(raw)).to_bits(),
            (Sort::Signed, ..) => ((raw << (32 - bits)) as i32 >> (32 - bits)) as u32,
            (Sort::Unsigned, ..) => raw,
        };
    }
    pixel
}

/// The bytes of a pixel, of which so many count. Halves are rounded to the nearest; integers that do not fit are cut.
pub fn encode(format: Format, pixel: &Pixel) -> ([u8; 16], usize) {
    let (sort, count, bits, fraction) = layout(format);
    let mut bytes = [0; 16];
    let size = bits as usize / 8;
    for (to, &value) in bytes.chunks_mut(size).zip(pixel).take(count) {
        let raw = match (sort, bits, fraction) {
            (_, _, true) => {
                let value = f32::from_bits(value);
                let value = if value.is_nan() {
                    0.0
                } else {
                    value.clamp(0.0, 1.0)
                };
                (value * 255.0).round_ties_even() as u32
            }
            (Sort::Float, 16, _) => to_half(f32::from_bits(value)).into(),
            _ => value,
        };
        to.copy_from_slice(&raw.to_le_bytes()[..size]);
    }
    (bytes, size * count)
}

/// A component in a register of a type.
pub fn to_register(value: u32, sort: Sort, ty: Type) -> Result<u32> {
    Ok(match (sort, ty) {
        (Sort::Float, Type::F32) => value,
        (Sort::Float, Type::F16) => to_half(f32::from_bits(value)).into(),
        (Sort::Unsigned, Type::U32) | (Sort::Signed, Type::S32) => value,
        (Sort::Unsigned, Type::U16) | (Sort::Signed, Type::S16) => value & 0xffff,
        _ => return mismatch(sort, ty),
    })
}

/// A component from a register of a type.
pub fn from_register(value: u32, sort: Sort, ty: Type) -> Result<u32> {
    Ok(match (sort, ty) {
        (Sort::Float, Type::F32) => flush(f32::from_bits(value)).to_bits(),
        (Sort::Float, Type::F16) => {
            let half = flush_half(value as u16);
            f16::from_bits(half).to_f32().to_bits()
        }
        (Sort::Unsigned, Type::U32) | (Sort::Signed, Type::S32) => value,
        (Sort::Unsigned, Type::U16) => value & 0xffff,
        (Sort::Signed, Type::S16) => value as u16 as i16 as u32,
        _ => return mismatch(sort, ty),
    })
}

fn mismatch<T>(sort: Sort, ty: Type) -> Result<T> {
    broken(
        &rules::IMAGE_TYPE,
        format!("{sort:?} components with the type {ty:?}"),
    )
}

/// Whether an image is one of those that are modelled.
pub fn check(texture: &Texture) -> Result<()> {
    // Mesa a6xx_enums.xml, `a6xx_tile_mode` and `a3xx_color_swap`; a6xx_descriptors.xml, `a6xx_tex_type`.
    const CUBE: u32 = 2;
    let what = match texture.shape {
        _ if texture.tile != 0 => "a tiled image",
        _ if texture.srgb => "an image in sRGB",
        _ if texture.swap != 0 => "an image with swapped components",
        Shape::Rows { kind: CUBE, .. } => "a cube",
        _ => return Ok(()),
    };
    broken(&rules::IMAGE_KIND, what)
}

/// Width, height, and depth or layers, each at least 1; of a buffer its elements.
pub fn size(texture: &Texture) -> [u32; 3] {
    match texture.shape {
        Shape::Rows {
            width,
            height,
            depth,
            ..
        } => [width, height.max(1), depth.max(1)],
        Shape::Buffer { elements, .. } => [elements, 1, 1],
    }
}

/// Where a pixel is; none if it is outside.
pub fn address(texture: &Texture, at: [i64; 3]) -> Option<u64> {
    let inside = at
        .iter()
        .zip(size(texture))
        .all(|(at, size)| (0..i64::from(size)).contains(at));
    let [x, y, z] = at.map(|at| at as u64);
    let bytes = u64::from(texture.format.bytes());
    inside.then(|| match texture.shape {
        Shape::Rows {
            pitch, layer_pitch, ..
        } => texture.base + z * u64::from(layer_pitch) + y * u64::from(pitch) + x * bytes,
        Shape::Buffer { start, .. } => texture.base + (u64::from(start) + x) * bytes,
    })
}

/// Components as the descriptor orders them.
pub fn swizzled(texture: &Texture, pixel: Pixel) -> Pixel {
    let one = match layout(texture.format).0 {
        Sort::Float => 1f32.to_bits(),
        _ => 1,
    };
    texture.swizzle.map(|component| match component {
        Swizzle::X => pixel[0],
        Swizzle::Y => pixel[1],
        Swizzle::Z => pixel[2],
        Swizzle::W => pixel[3],
        Swizzle::Zero => 0,
        Swizzle::One => one,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let pixel = [1.0f32, -2.0, 0.5, 4.0].map(f32::to_bits);
        for format in [Format::Rgba32Float, Format::Rgba16Float] {
            let (bytes, count) = encode(format, &pixel);
            assert_eq!(count as u32, format.bytes());
            assert_eq!(decode(format, &bytes[..count]), pixel);
        }
        let numbers = [1, 2, 3, 200];
        for format in [Format::Rgba8Uint, Format::Rgba16Uint, Format::Rgba32Uint] {
            let (bytes, count) = encode(format, &numbers);
            assert_eq!(decode(format, &bytes[..count]), numbers);
        }
        let (bytes, count) = encode(Format::R8Sint, &[-3i32 as u32, 0, 0, 0]);
        assert_eq!(
            decode(Format::R8Sint, &bytes[..count]),
            [-3i32 as u32, 0, 0, 1]
        );
        let (bytes, count) = encode(Format::R8Unorm, &[0.5f32.to_bits(), 0, 0, 0]);
        assert_eq!((bytes[0], count), (128, 1));
        let red = decode(Format::R8Unorm, &[255]);
        assert_eq!(red, [1f32.to_bits(), 0, 0, 1f32.to_bits()]);
    }

    #[test]
    fn pixels_are_where_the_pitch_says() {
        let image = Texture::rows(Format::Rgba16Float, 10, 4, 128, 0x1000);
        assert_eq!(address(&image, [3, 2, 0]), Some(0x1000 + 2 * 128 + 24));
        assert_eq!(address(&image, [10, 0, 0]), None);
        assert_eq!(address(&image, [0, -1, 0]), None);
        let buffer = Texture::buffer(Format::R32Uint, 100, 0x40);
        assert_eq!(address(&buffer, [99, 0, 0]), Some(0x40 + 396));
        assert_eq!(address(&buffer, [100, 0, 0]), None);
    }

    #[test]
    fn types_fit_formats() {
        assert!(to_register(0, Sort::Float, Type::U32).is_err());
        assert!(from_register(0, Sort::Unsigned, Type::S32).is_err());
        assert_eq!(
            to_register(1f32.to_bits(), Sort::Float, Type::F16).unwrap(),
            0x3c00
        );
        assert_eq!(
            from_register(0xffff, Sort::Signed, Type::S16).unwrap(),
            u32::MAX
        );
    }
}
