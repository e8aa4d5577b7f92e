//! Descriptors of textures and of images that are written.
//!
//! Source: Mesa src/freedreno/registers/adreno/a6xx.xml, A6XX_TEX_CONST; src/freedreno/fdl/fd6_view.c, `fdl6_view_init`,
//! `fdl6_buffer_view_init`.

use drivers_spec::qcom::descriptor::{
    CAPTURED, Swizzle, TEXTURE_DWORDS, texture_0, texture_1, texture_2, texture_2_buffer,
    texture_3, texture_5,
};

use super::tiling::block;
use super::{Flags, Format, Shape, Surface, Tiling};
use crate::fault::{Result, broken};
use crate::rules;

/// FLAG of the fourth dword.
const FLAG: u32 = 1 << 28;
/// The most pixels along a side that the fields hold.
const SIDE: u32 = 1 << 15;
/// Types of images.
const TEX_3D: u32 = texture_2::A6XX_TEX_3D;
const TEX_CUBE: u32 = texture_2::A6XX_TEX_CUBE;

/// Bits that fields have, by dwords: of images, and of buffers.
const ROWS: [u32; 11] = [
    0xffff_fff7,
    0x3fff_ffff,
    0xffff_ff8f,
    0x1fff_ffff,
    0xffff_ffe0,
    0x3fff_ffff,
    0xfff,
    0xffff_ffe0,
    0x1_ffff,
    0x1_ffff,
    0xff7f,
];
/// How many of them are there without UBWC.
const PLAIN: usize = 7;
const ELEMENTS: [u32; 6] = [
    0xffff_fff7,
    0x3fff_ffff,
    0xe03f_fff0,
    0,
    0xffff_ffe0,
    0x3fff_ffff,
];

fn refused<T>(what: String) -> Result<T> {
    broken(&rules::DESCRIPTOR, what)
}

fn kept(what: &str) -> Result<()> {
    broken(&rules::IMAGE_KIND, what)
}

fn swizzle(code: u32) -> Option<Swizzle> {
    Some(match code {
        0 => Swizzle::X,
        1 => Swizzle::Y,
        2 => Swizzle::Z,
        3 => Swizzle::W,
        4 => Swizzle::Zero,
        5 => Swizzle::One,
        _ => return None,
    })
}

/// Bits that no field has.
fn named(words: &[u32; TEXTURE_DWORDS], fields: &[u32]) -> Result<()> {
    for (dword, word) in words.iter().enumerate() {
        let bits = word & !fields.get(dword).copied().unwrap_or(0);
        if bits != 0 {
            return refused(format!(
                "dword {dword} has bits {bits:#x} that no field has"
            ));
        }
    }
    Ok(())
}

/// What is not modelled.
fn modelled(words: &[u32; TEXTURE_DWORDS], format: Format) -> Result<()> {
    let [first, _, third, fourth, ..] = *words;
    let tiled = texture_0::TILE_MODE.get(first) == texture_0::TILE6_3;
    if texture_0::SRGB.get(first) != 0 {
        return kept("an image in sRGB");
    }
    if texture_0::MIPLVLS.get(first) != 0 || texture_0::SAMPLES.get(first) != 0 {
        return kept("an image with levels or samples");
    }
    if texture_0::SWAP.get(first) != 0 && (format.count != 4 || tiled) {
        // fd6_format_table.c, fd6_texture_swap: tiled images have one order.
        return kept("swapped components of a tiled image, or of fewer than four");
    }
    if texture_2::TYPE.get(third) == TEX_CUBE {
        return kept("a cube");
    }
    match fourth & FLAG != 0 && !tiled {
        true => refused("UBWC of an image that is not tiled".into()),
        false => Ok(()),
    }
}

impl Surface {
    /// The image of a descriptor.
    ///
    /// # Errors
    /// What a descriptor cannot say, and images that are not modelled.
    pub(crate) fn decode(words: &[u32; TEXTURE_DWORDS], tiling: Tiling) -> Result<Surface> {
        let mut words = *words;
        if words[3] & FLAG == 0 {
            for (dword, bits) in CAPTURED {
                if words[dword] & bits == bits {
                    words[dword] &= !bits;
                }
            }
        }
        let is_buffer = texture_2::TYPE.get(words[2]) == texture_2::A6XX_TEX_BUFFER;
        let fields = match (is_buffer, words[3] & FLAG != 0) {
            (true, _) => &ELEMENTS[..],
            (false, true) => &ROWS[..],
            (false, false) => &ROWS[..PLAIN],
        };
        named(&words, fields)?;
        let number = texture_0::FMT.get(words[0]);
        let Some(format) = Format::of(number) else {
            return refused(format!("format {number:#x}"));
        };
        modelled(&words, format)?;
        let fields = [
            texture_0::SWIZ_X,
            texture_0::SWIZ_Y,
            texture_0::SWIZ_Z,
            texture_0::SWIZ_W,
        ];
        let mut order = Swizzle::IDENTITY;
        for (component, field) in order.iter_mut().zip(fields) {
            let code = field.get(words[0]);
            match swizzle(code) {
                Some(found) => *component = found,
                None => return refused(format!("swizzle {code}")),
            }
        }
        let tile = texture_0::TILE_MODE.get(words[0]);
        if !matches!(tile, texture_0::TILE6_LINEAR | texture_0::TILE6_3) {
            return refused(format!("tile mode {tile}"));
        }
        let tiles = (tile == texture_0::TILE6_3).then_some(tiling);
        Ok(Surface {
            format,
            swizzle: order,
            swap: texture_0::SWAP.get(words[0]),
            base: u64::from(texture_5::BASE_HI.get(words[5])) << 32 | u64::from(words[4]),
            shape: match is_buffer {
                true => elements(&words)?,
                false => rows(&words, format, tiles.is_some())?,
            },
            tiles,
            flags: flags(&words),
        })
    }
}

fn elements(words: &[u32; TEXTURE_DWORDS]) -> Result<Shape> {
    let size = texture_2_buffer::STRUCTSIZETEXELS.get(words[2]);
    let layers = texture_5::DEPTH.get(words[5]);
    let tiled = texture_0::TILE_MODE.get(words[0]) != texture_0::TILE6_LINEAR;
    if size != 1 || layers != 0 || tiled {
        return refused(format!("a buffer of structs of {size}, layers: {layers}"));
    }
    Ok(Shape::Buffer {
        elements: texture_1::HEIGHT.get(words[1]) << 15 | texture_1::WIDTH.get(words[1]),
        start: texture_2_buffer::STARTOFFSETTEXELS.get(words[2]),
    })
}

fn rows(words: &[u32; TEXTURE_DWORDS], format: Format, tiled: bool) -> Result<Shape> {
    let (width, height) = (
        texture_1::WIDTH.get(words[1]),
        texture_1::HEIGHT.get(words[1]),
    );
    let pitch = texture_2::PITCH.get(words[2]);
    let align = 64 << texture_2::PITCHALIGN.get(words[2]);
    let row = width * format.bytes() as u32;
    // Macrotiles are two blocks wide.
    let fits = match tiled {
        true => {
            let [columns, _] = block(format);
            pitch.is_multiple_of(2 * columns as u32 * format.bytes() as u32)
        }
        false => true,
    };
    let sides = [width, height].iter().all(|side| (1..SIDE).contains(side));
    if !sides || pitch < row || !pitch.is_multiple_of(align) || !fits {
        return refused(format!(
            "{width} x {height} pixels of {} bytes, rows {pitch} bytes apart, aligned to {align}",
            format.bytes()
        ));
    }
    let depth = texture_5::DEPTH.get(words[5]);
    let layer = u64::from(texture_3::ARRAY_PITCH.get(words[3])) << 12;
    let other = texture_3::MIN_LAYERSZ.get(words[3]);
    if other != 0 && texture_2::TYPE.get(words[2]) != TEX_3D {
        return refused(format!("MIN_LAYERSZ {other} of an image that has no depth"));
    }
    Ok(Shape::Rows {
        size: [width, height, depth.max(1)],
        pitch: pitch.into(),
        layer,
    })
}

fn flags(words: &[u32; TEXTURE_DWORDS]) -> Option<Flags> {
    (words[3] & FLAG != 0).then(|| Flags {
        base: u64::from(words[8]) << 32 | u64::from(words[7]),
        // In units of 64 bytes.
        pitch: u64::from(words[10] & 0x7f) << 6,
        layer: u64::from(words[9]) << 6,
    })
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::descriptor::{Format as Number, Texture};

    use super::*;
    use crate::fault::Cause;

    fn rule(words: &[u32; TEXTURE_DWORDS]) -> &'static str {
        let stop = Surface::decode(words, Tiling::default()).unwrap_err();
        match *stop.cause {
            Cause::Rule { rule, .. } => rule.name,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn images_are_linear_or_tiled() {
        let linear = Texture::rows(Number::Rgba8Uint, 20, 12, 256, 0x1_0000_1000);
        let mut words = linear.encode().unwrap();
        let image = Surface::decode(&words, Tiling::default()).unwrap();
        assert_eq!((image.size(), image.tiles), ([20, 12, 1], None));
        assert_eq!(image.address([1, 1, 0]), 0x1_0000_1104);
        words[0] |= texture_0::TILE6_3;
        words[3] |= FLAG | 1 << 27 | 2;
        (words[7], words[8], words[9], words[10]) = (0x2000, 3, 4, 1 | 1 << 8 | 2 << 12);
        let image = Surface::decode(&words, Tiling::default()).unwrap();
        let flags = Flags {
            base: 0x3_0000_2000,
            pitch: 64,
            layer: 256,
        };
        assert_eq!(image.flags, Some(flags));
        assert_eq!(image.address([0, 1, 0]), 0x1_0000_1008);
        words[2] = words[2] & !texture_2::PITCH.mask() | texture_2::PITCH.put(320);
        assert_eq!(rule(&words), "IR3-DESCRIPTOR");
    }

    #[test]
    fn descriptors_are_checked() {
        let image = Texture::rows(Number::Rgba8Uint, 20, 12, 256, 0x1000);
        let words = image.encode().unwrap();
        let with = |dword: usize, bits| {
            let mut words = words;
            words[dword] |= bits;
            rule(&words)
        };
        assert_eq!(with(11, 1), "IR3-DESCRIPTOR");
        assert_eq!(with(1, 1 << 31), "IR3-DESCRIPTOR");
        assert_eq!(with(3, FLAG), "IR3-DESCRIPTOR");
        assert_eq!(with(0, texture_0::TILE6_2), "IR3-DESCRIPTOR");
        assert_eq!(with(0, texture_0::MIPLVLS.put(1)), "IR3-IMAGE-KIND");
        assert_eq!(with(0, texture_0::SRGB.put(1)), "IR3-IMAGE-KIND");
        let mut cube = words;
        cube[2] ^= texture_2::TYPE.put(texture_2::A6XX_TEX_2D ^ TEX_CUBE);
        assert_eq!(rule(&cube), "IR3-IMAGE-KIND");
        let buffer = Texture::buffer(Number::R32Uint, 100_000, 0x40);
        let words = buffer.encode().unwrap();
        let buffer = Surface::decode(&words, Tiling::default()).unwrap();
        assert_eq!(buffer.size(), [100_000, 1, 1]);
        let mut words = words;
        words[2] &= !texture_2_buffer::STRUCTSIZETEXELS.mask();
        assert_eq!(rule(&words), "IR3-DESCRIPTOR");
    }
}
