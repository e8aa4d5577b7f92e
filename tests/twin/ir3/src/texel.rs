//! Pixels: from their bytes to registers, and back.

use drivers_spec::qcom::descriptor::Swizzle;
use half::f16;

use crate::arith::convert::to_half;
use crate::arith::float::{flush, flush_half, from_half};
use crate::fault::{Result, broken};
use crate::inst::Type;
use crate::rules;
use crate::surface::{Format, Numbers, PIXEL, Sort, Surface};

/// A pixel: floats as the bits of singles, integers in 32 bits.
pub type Pixel = [u32; 4];

/// The greatest number of so many bits.
fn greatest(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

/// A number in two's complement of so many bits.
fn signed(raw: u32, bits: u32) -> i32 {
    (raw << (32 - bits)) as i32 >> (32 - bits)
}

/// The fourth component where a format has none.
fn one(format: Format) -> u32 {
    match format.sort() {
        Sort::Float => 1f32.to_bits(),
        _ => 1,
    }
}

/// The pixel of some bytes; components that the format lacks are 0, 0 and 1.
pub fn decode(format: Format, bytes: &[u8]) -> Pixel {
    let bits = format.bits;
    let mut pixel = [0, 0, 0, one(format)];
    let components = bytes.chunks(bits as usize / 8).take(format.count);
    for (to, from) in pixel.iter_mut().skip(format.first()).zip(components) {
        let raw = from
            .iter()
            .rev()
            .fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        *to = match (format.numbers, bits) {
            (Numbers::Unorm, _) => (raw as f32 / greatest(bits) as f32).to_bits(),
            // The least number and the next one are both -1.
            (Numbers::Snorm, _) => (signed(raw, bits) as f32 / greatest(bits - 1) as f32)
                .max(-1.0)
                .to_bits(),
            (Numbers::Float, 16) => from_half(raw).to_bits(),
            (Numbers::Float, _) => flush(f32::from_bits(raw)).to_bits(),
            (Numbers::Sint, _) => signed(raw, bits) as u32,
            (Numbers::Uint, _) => raw,
        };
    }
    if format.is_opaque() {
        pixel[3] = one(format);
    }
    pixel
}

/// The bytes of a pixel, of which so many count. Halves and fractions are rounded to the nearest; integers that do not fit
/// are cut.
pub fn encode(format: Format, pixel: &Pixel) -> ([u8; PIXEL], usize) {
    let bits = format.bits;
    let size = bits as usize / 8;
    let fraction = |value: u32, least: f32, greatest: u32| {
        let value = f32::from_bits(value);
        let value = if value.is_nan() { 0.0 } else { value };
        (value.clamp(least, 1.0) * greatest as f32).round_ties_even() as i32 as u32
    };
    let mut bytes = [0; PIXEL];
    let components = pixel.iter().skip(format.first()).take(format.count);
    for (to, &value) in bytes.chunks_mut(size).zip(components) {
        let raw = match (format.numbers, bits) {
            (Numbers::Unorm, _) => fraction(value, 0.0, greatest(bits)),
            (Numbers::Snorm, _) => fraction(value, -1.0, greatest(bits - 1)),
            (Numbers::Float, 16) => to_half(f32::from_bits(value)).into(),
            _ => value,
        };
        to.copy_from_slice(&raw.to_le_bytes()[..size]);
    }
    (bytes, size * format.count)
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

/// Components as the descriptor orders them.
pub fn swizzled(texture: &Surface, pixel: Pixel) -> Pixel {
    let one = one(texture.format);
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

    fn format(number: u32) -> Format {
        Format::of(number).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let pixel = [1.0f32, -2.0, 0.5, 4.0].map(f32::to_bits);
        for number in [0x82, 0x62] {
            let (bytes, count) = encode(format(number), &pixel);
            assert_eq!(count, format(number).bytes());
            assert_eq!(decode(format(number), &bytes[..count]), pixel);
        }
        let numbers = [1, 2, 3, 200];
        for number in [0x33, 0x63, 0x83] {
            let (bytes, count) = encode(format(number), &numbers);
            assert_eq!(decode(format(number), &bytes[..count]), numbers);
        }
        let (bytes, count) = encode(format(0x06), &[-3i32 as u32, 0, 0, 0]);
        let read = decode(format(0x06), &bytes[..count]);
        assert_eq!(read, [-3i32 as u32, 0, 0, 1]);
    }

    #[test]
    fn fractions_are_rounded() {
        let half = 0.5f32.to_bits();
        let (bytes, count) = encode(format(0x03), &[half, 0, 0, 0]);
        assert_eq!((bytes[0], count), (128, 1));
        let red = decode(format(0x03), &[255]);
        assert_eq!(red, [1f32.to_bits(), 0, 0, 1f32.to_bits()]);
        let (bytes, _) = encode(format(0x04), &[(-2f32).to_bits(), 0, 0, 0]);
        assert_eq!(bytes[0] as i8, -127);
        assert_eq!(decode(format(0x04), &[0x80])[0], (-1f32).to_bits());
        let (bytes, _) = encode(format(0x15), &[1f32.to_bits(), 0, 0, 0]);
        assert_eq!(bytes[..2], [0xff, 0xff]);
        // One component, the fourth; and a fourth one that is not read.
        let (bytes, count) = encode(format(0x02), &[0, 0, 0, half]);
        assert_eq!((bytes[0], count), (128, 1));
        assert_eq!(decode(format(0x02), &[255])[3], 1f32.to_bits());
        assert_eq!(decode(format(0x31), &[0; 4])[3], 1f32.to_bits());
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
