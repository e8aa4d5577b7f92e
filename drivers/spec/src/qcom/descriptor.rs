//! Descriptors in memory: textures and images (16 dwords), samplers (4), buffers of constants (2).
//!
//! Source: Mesa, src/freedreno/registers/adreno/a6xx_descriptors.xml (sailfishos-mirror/mesa 55c8aa8), a6xx_enums.xml
//! (bminor/mesa-mesa 3bcedb6); filters and wraps: Linux, drivers/gpu/drm/msm/registers/adreno/a6xx_descriptors.xml.
//! Fields and numbers are checked against them. What an image must be: a survey of the vendor's OpenCL on A630.
//!
//! Images that are written (UAV, formerly IBO) have the descriptor of textures. Planes, bandwidth compression (UBWC) and
//! filter weights are left out: decoding refuses them.

use hcq::reg::Word;

use super::chip::{Gen, Gens};
use crate::nv::words::words;

/// Dwords of a texture or image.
pub const TEXTURE_DWORDS: usize = 16;
/// Dwords of a sampler.
pub const SAMPLER_DWORDS: usize = 4;
/// Dwords of a buffer of constants.
pub const UBO_DWORDS: usize = 2;

words! { Gens;
    /// Format, and which component is which.
    TEXTURE_0 texture_0 "A6XX_TEX_MEMOBJ_0" {
        TILE_MODE 1 0 {TILE6_LINEAR = 0, TILE6_2 = 2, TILE6_3 = 3};
        SRGB 2 2;
        SWIZ_X 6 4;
        SWIZ_Y 9 7;
        SWIZ_Z 12 10;
        SWIZ_W 15 13;
        MIPLVLS 19 16;
        SAMPLES 21 20;
        FMT 29 22;
        SWAP 31 30 {WZYX = 0, WXYZ = 1, ZYXW = 2, XYZW = 3};
    }
    /// Pixels; of a buffer the lower 15 bits of its elements, and the upper.
    TEXTURE_1 texture_1 "A6XX_TEX_MEMOBJ_1" {
        WIDTH 14 0;
        HEIGHT 29 15;
    }
    /// Rows: `PITCH` in bytes, `PITCHALIGN` its alignment, 64 shifted by it.
    TEXTURE_2 texture_2 "A6XX_TEX_MEMOBJ_2" {
        PITCHALIGN 3 0;
        PITCH 28 7;
        TYPE 31 29 {A6XX_TEX_1D = 0, A6XX_TEX_2D = 1, A6XX_TEX_CUBE = 2, A6XX_TEX_3D = 3, A6XX_TEX_BUFFER = 4};
    }
    /// The same dword of a buffer.
    TEXTURE_2_BUFFER texture_2_buffer "A6XX_TEX_MEMOBJ_2" {
        STRUCTSIZETEXELS 15 4;
        STARTOFFSETTEXELS 21 16;
        TYPE 31 29;
    }
    /// Layers: bytes from one to the next, in 4 KiB.
    TEXTURE_3 texture_3 "A6XX_TEX_MEMOBJ_3" {
        ARRAY_PITCH 22 0;
        MIN_LAYERSZ 26 23;
        TILE_ALL 27 27;
    }
    /// The address, without its lower 5 bits.
    TEXTURE_4 texture_4 "A6XX_TEX_MEMOBJ_4" {
        BASE_LO 31 5;
    }
    /// Its upper half, and layers or depth.
    TEXTURE_5 texture_5 "A6XX_TEX_MEMOBJ_5" {
        BASE_HI 16 0;
        DEPTH 29 17;
    }
    /// Filters and wraps.
    SAMPLER_0 sampler_0 "A6XX_TEX_SAMP_0" {
        MIPFILTER_LINEAR_NEAR 0 0;
        XY_MAG 2 1;
        XY_MIN 4 3;
        WRAP_S 7 5;
        WRAP_T 10 8;
        WRAP_R 13 11;
        ANISO 16 14;
        LOD_BIAS 31 19;
    }
    /// Coordinates, levels.
    SAMPLER_1 sampler_1 "A6XX_TEX_SAMP_1" {
        CLAMPENABLE 0 0;
        COMPARE_FUNC 3 1;
        CUBEMAPSEAMLESSFILTOFF 4 4;
        UNNORM_COORDS 5 5;
        MIPFILTER_LINEAR_FAR 6 6;
        MAX_LOD 19 8;
        MIN_LOD 31 20;
    }
    /// Reduction, border colours.
    SAMPLER_2 sampler_2 "A6XX_TEX_SAMP_2" {
        REDUCTION_MODE 1 0;
        FASTBORDERCOLOR 3 2;
        FASTBORDERCOLOREN 4 4;
        CHROMA_LINEAR 5 5;
        BCOLOR 31 7;
    }
    /// The upper half of the address, and the size in vectors of four dwords.
    UBO_1 ubo_1 "A6XX_UBO_1" {
        BASE_HI 16 0;
        SIZE 31 17;
    }
}

/// Bits that the vendor's OpenCL sets in textures and images, seen in a capture: dword, bits. What they mean is not
/// known; Mesa leaves them 0, and both have run on A630. [`Texture::captured`] keeps them; images lack the first.
pub const CAPTURED: [(usize, u32); 3] = [(0, 0x8), (6, 0x4000_0000), (7, 0xd)];

/// Declares formats: name, number, bytes of a pixel.
macro_rules! formats {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $c:literal, $bytes:literal;)*) => {
        /// What a pixel is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Format {
            $($(#[$doc])* #[doc = concat!("`", $c, "`.")] $name = $number,)*
        }

        impl Format {
            /// Every one that is described here.
            pub const ALL: &[Format] = &[$(Format::$name),*];

            /// From its number.
            pub const fn from_number(number: u32) -> Option<Format> {
                match number {
                    $($number => Some(Format::$name),)*
                    _ => None,
                }
            }

            /// Bytes of a pixel.
            pub const fn bytes(self) -> u32 {
                match self {
                    $(Format::$name => $bytes,)*
                }
            }

            /// The name in Mesa.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Format::$name => $c,)*
                }
            }
        }
    };
}

formats! {
    /// A byte, 0 to 1.
    R8Unorm = 0x03, "FMT6_8_UNORM", 1;
    /// A byte.
    R8Uint = 0x05, "FMT6_8_UINT", 1;
    /// A byte with a sign.
    R8Sint = 0x06, "FMT6_8_SINT", 1;
    /// A half.
    R16Float = 0x17, "FMT6_16_FLOAT", 2;
    /// 16 bits.
    R16Uint = 0x18, "FMT6_16_UINT", 2;
    /// 16 bits with a sign.
    R16Sint = 0x19, "FMT6_16_SINT", 2;
    /// Four bytes, 0 to 1.
    Rgba8Unorm = 0x30, "FMT6_8_8_8_8_UNORM", 4;
    /// Four bytes.
    Rgba8Uint = 0x33, "FMT6_8_8_8_8_UINT", 4;
    /// Four bytes with a sign.
    Rgba8Sint = 0x34, "FMT6_8_8_8_8_SINT", 4;
    /// Two halves.
    Rg16Float = 0x45, "FMT6_16_16_FLOAT", 4;
    /// A single.
    R32Float = 0x4a, "FMT6_32_FLOAT", 4;
    /// 32 bits.
    R32Uint = 0x4b, "FMT6_32_UINT", 4;
    /// 32 bits with a sign.
    R32Sint = 0x4c, "FMT6_32_SINT", 4;
    /// Four halves.
    Rgba16Float = 0x62, "FMT6_16_16_16_16_FLOAT", 8;
    /// Four times 16 bits.
    Rgba16Uint = 0x63, "FMT6_16_16_16_16_UINT", 8;
    /// Four times 16 bits with a sign.
    Rgba16Sint = 0x64, "FMT6_16_16_16_16_SINT", 8;
    /// Two singles.
    Rg32Float = 0x67, "FMT6_32_32_FLOAT", 8;
    /// Two times 32 bits.
    Rg32Uint = 0x68, "FMT6_32_32_UINT", 8;
    /// Four singles.
    Rgba32Float = 0x82, "FMT6_32_32_32_32_FLOAT", 16;
    /// Four times 32 bits.
    Rgba32Uint = 0x83, "FMT6_32_32_32_32_UINT", 16;
    /// Four times 32 bits with a sign.
    Rgba32Sint = 0x84, "FMT6_32_32_32_32_SINT", 16;
}

/// What a component of a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Swizzle {
    /// The first of the pixel.
    X = 0,
    /// The second.
    Y = 1,
    /// The third.
    Z = 2,
    /// The fourth.
    W = 3,
    /// 0.
    Zero = 4,
    /// 1.
    One = 5,
}

impl Swizzle {
    /// Every component where it is.
    pub const IDENTITY: [Swizzle; 4] = [Swizzle::X, Swizzle::Y, Swizzle::Z, Swizzle::W];

    const fn from_number(number: u32) -> Option<Swizzle> {
        Some(match number {
            0 => Swizzle::X,
            1 => Swizzle::Y,
            2 => Swizzle::Z,
            3 => Swizzle::W,
            4 => Swizzle::Zero,
            5 => Swizzle::One,
            _ => return None,
        })
    }
}

/// The shape of a texture or image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Rows in memory: `a6xx_tex_type` 0 to 3.
    Rows {
        /// `A6XX_TEX_1D` to `A6XX_TEX_3D`.
        kind: u32,
        /// Pixels of a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Layers; 0 or 1 is one, as drivers differ.
        depth: u32,
        /// Bytes from a row to the next.
        pitch: u32,
        /// The pitch is a multiple of 64 shifted by this.
        pitch_align: u32,
        /// Bytes from a layer to the next.
        layer_pitch: u32,
    },
    /// Elements one behind the other.
    Buffer {
        /// How many: up to 30 bits.
        elements: u32,
        /// The first one, behind the address.
        start: u32,
    },
}

/// A texture, or an image that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texture {
    /// What a pixel is.
    pub format: Format,
    /// Whether it is in the colour space sRGB.
    pub srgb: bool,
    /// `TILE6_*`.
    pub tile: u32,
    /// Which component of a read is which. For images that are written the vendor's OpenCL leaves zeros: X everywhere.
    pub swizzle: [Swizzle; 4],
    /// `a3xx_color_swap`.
    pub swap: u32,
    /// Its shape.
    pub shape: Shape,
    /// Where it is, a multiple of 32 bytes, or of 64 in the vendor's OpenCL.
    pub base: u64,
    /// Which of the [`CAPTURED`] bits are set, a bit each.
    pub captured: u8,
}

/// A descriptor that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number that its field does not hold, or that the format does not allow.
    #[error("descriptor, {what}: {found:#x}, expected {expected}")]
    Number {
        /// What it is.
        what: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: u64,
    },
    /// Bits that no field has.
    #[error("descriptor, dword {dword}: unknown bits {bits:#x}")]
    Bits {
        /// Which dword.
        dword: usize,
        /// Which bits.
        bits: u32,
    },
}

fn number(what: &'static str, expected: &'static str, found: u64, fits: bool) -> Result<(), Error> {
    match fits {
        true => Ok(()),
        false => Err(Error::Number {
            what,
            expected,
            found,
        }),
    }
}

fn unnamed(words: &[u32], names: &[Word<Gens>]) -> Result<(), Error> {
    for (dword, &word) in words.iter().enumerate() {
        let mask = names.get(dword).map_or(0, |name| name.mask(Gen::Gen1));
        let bits = word & !mask;
        if bits != 0 {
            return Err(Error::Bits { dword, bits });
        }
    }
    Ok(())
}

impl Texture {
    /// A texture of rows of pixels, one layer, with the smallest alignment that its pitch has.
    pub const fn rows(format: Format, width: u32, height: u32, pitch: u32, base: u64) -> Texture {
        let align = pitch.trailing_zeros();
        Texture {
            format,
            srgb: false,
            tile: texture_0::TILE6_LINEAR,
            swizzle: Swizzle::IDENTITY,
            swap: texture_0::WZYX,
            shape: Shape::Rows {
                kind: texture_2::A6XX_TEX_2D,
                width,
                height,
                depth: 0,
                pitch,
                pitch_align: if align < 6 {
                    0
                } else if align > 21 {
                    15
                } else {
                    align - 6
                },
                layer_pitch: 0,
            },
            base,
            captured: 0,
        }
    }

    /// Elements of a buffer.
    pub const fn buffer(format: Format, elements: u32, base: u64) -> Texture {
        Texture {
            shape: Shape::Buffer { elements, start: 0 },
            ..Texture::rows(format, 0, 0, 0, base)
        }
    }

    /// Bytes from its address on that reads and writes may touch.
    pub const fn extent(&self) -> u64 {
        let bytes = self.format.bytes() as u64;
        match self.shape {
            Shape::Rows {
                width,
                height,
                depth,
                pitch,
                layer_pitch,
                ..
            } => {
                let layers = if depth > 1 { depth as u64 - 1 } else { 0 };
                let rows = if height > 1 { height as u64 - 1 } else { 0 };
                layers * layer_pitch as u64 + rows * pitch as u64 + width as u64 * bytes
            }
            Shape::Buffer { elements, start } => (start as u64 + elements as u64) * bytes,
        }
    }

    /// Its dwords.
    ///
    /// # Errors
    /// [`Error::Number`] where a field does not hold a number, or rows overlap.
    pub fn encode(&self) -> Result<[u32; TEXTURE_DWORDS], Error> {
        self.check()?;
        let mut words = [0; TEXTURE_DWORDS];
        let [x, y, z, w] = self.swizzle.map(|component| component as u32);
        words[0] = texture_0::TILE_MODE.put(self.tile)
            | texture_0::SRGB.put(self.srgb.into())
            | texture_0::SWIZ_X.put(x)
            | texture_0::SWIZ_Y.put(y)
            | texture_0::SWIZ_Z.put(z)
            | texture_0::SWIZ_W.put(w)
            | texture_0::FMT.put(self.format as u32)
            | texture_0::SWAP.put(self.swap);
        words[4] = self.base as u32;
        words[5] = texture_5::BASE_HI.put((self.base >> 32) as u32);
        match self.shape {
            Shape::Rows {
                kind,
                width,
                height,
                depth,
                pitch,
                pitch_align,
                layer_pitch,
            } => {
                words[1] = texture_1::WIDTH.put(width) | texture_1::HEIGHT.put(height);
                words[2] = texture_2::PITCHALIGN.put(pitch_align)
                    | texture_2::PITCH.put(pitch)
                    | texture_2::TYPE.put(kind);
                words[3] = texture_3::ARRAY_PITCH.put(layer_pitch >> 12);
                words[5] |= texture_5::DEPTH.put(depth);
            }
            Shape::Buffer { elements, start } => {
                words[1] =
                    texture_1::WIDTH.put(elements & 0x7fff) | texture_1::HEIGHT.put(elements >> 15);
                words[2] = texture_2_buffer::STRUCTSIZETEXELS.put(1)
                    | texture_2_buffer::STARTOFFSETTEXELS.put(start)
                    | texture_2_buffer::TYPE.put(texture_2::A6XX_TEX_BUFFER);
            }
        }
        for (k, (dword, bits)) in CAPTURED.iter().enumerate() {
            if self.captured >> k & 1 != 0 {
                words[*dword] |= bits;
            }
        }
        Ok(words)
    }

    /// From its dwords.
    ///
    /// # Errors
    /// [`Error::Bits`] for bits that mean nothing here: compression and planes among them; [`Error::Number`] for formats,
    /// shapes and components that are not described, and for what [`Texture::encode`] refuses.
    pub fn decode(words: &[u32; TEXTURE_DWORDS]) -> Result<Texture, Error> {
        let mut words = *words;
        let mut captured = 0;
        for (k, (dword, bits)) in CAPTURED.iter().enumerate() {
            if words[*dword] & bits == *bits {
                words[*dword] &= !bits;
                captured |= 1 << k;
            }
        }
        let kind = texture_2::TYPE.get(words[2]);
        let (second, is_buffer) = match kind {
            texture_2::A6XX_TEX_BUFFER => (TEXTURE_2_BUFFER, true),
            _ => (TEXTURE_2, false),
        };
        let names = [
            TEXTURE_0, TEXTURE_1, second, TEXTURE_3, TEXTURE_4, TEXTURE_5,
        ];
        unnamed(&words, &names)?;
        let code = texture_0::FMT.get(words[0]);
        let format = Format::from_number(code).ok_or(Error::Number {
            what: "format",
            expected: "a format of this table",
            found: code.into(),
        })?;
        let levels = texture_0::MIPLVLS.get(words[0]) | texture_0::SAMPLES.get(words[0]);
        number("levels and samples", "none", levels.into(), levels == 0)?;
        let mut swizzle = Swizzle::IDENTITY;
        let fields = [
            texture_0::SWIZ_X,
            texture_0::SWIZ_Y,
            texture_0::SWIZ_Z,
            texture_0::SWIZ_W,
        ];
        for (component, field) in swizzle.iter_mut().zip(fields) {
            let code = field.get(words[0]);
            *component = Swizzle::from_number(code).ok_or(Error::Number {
                what: "swizzle",
                expected: "0 to 5",
                found: code.into(),
            })?;
        }
        let (width, height) = (
            texture_1::WIDTH.get(words[1]),
            texture_1::HEIGHT.get(words[1]),
        );
        let depth = texture_5::DEPTH.get(words[5]);
        let shape = if is_buffer {
            let size = texture_2_buffer::STRUCTSIZETEXELS.get(words[2]);
            number("elements of a struct", "1", size.into(), size == 1)?;
            number("layers of a buffer", "none", depth.into(), depth == 0)?;
            number("layers of a buffer", "none", words[3].into(), words[3] == 0)?;
            Shape::Buffer {
                elements: height << 15 | width,
                start: texture_2_buffer::STARTOFFSETTEXELS.get(words[2]),
            }
        } else {
            let other = words[3] & !texture_3::ARRAY_PITCH.mask();
            number("layers of levels", "none", other.into(), other == 0)?;
            let layer_pitch = u64::from(texture_3::ARRAY_PITCH.get(words[3])) << 12;
            let fits = u32::try_from(layer_pitch);
            Shape::Rows {
                kind,
                width,
                height,
                depth,
                pitch: texture_2::PITCH.get(words[2]),
                pitch_align: texture_2::PITCHALIGN.get(words[2]),
                layer_pitch: fits.map_err(|_| Error::Number {
                    what: "bytes of a layer",
                    expected: "less than 4 GiB",
                    found: layer_pitch,
                })?,
            }
        };
        let texture = Texture {
            format,
            srgb: texture_0::SRGB.get(words[0]) != 0,
            tile: texture_0::TILE_MODE.get(words[0]),
            swizzle,
            swap: texture_0::SWAP.get(words[0]),
            shape,
            base: u64::from(texture_5::BASE_HI.get(words[5])) << 32 | u64::from(words[4]),
            captured,
        };
        texture.check()?;
        Ok(texture)
    }

    fn check(&self) -> Result<(), Error> {
        let base = self.base;
        let fits = base.is_multiple_of(32) && base < 1 << 49;
        number("address", "a multiple of 32 below 2^49", base, fits)?;
        let tile = [
            texture_0::TILE6_LINEAR,
            texture_0::TILE6_2,
            texture_0::TILE6_3,
        ];
        let is_tile = tile.contains(&self.tile);
        number("tile mode", "0, 2 or 3", self.tile.into(), is_tile)?;
        number("swap", "0 to 3", self.swap.into(), self.swap < 4)?;
        let captured = self.captured;
        number("captured bits", "3", captured.into(), captured < 8)?;
        match self.shape {
            Shape::Rows {
                kind,
                width,
                height,
                depth,
                pitch,
                pitch_align,
                layer_pitch,
            } => {
                number("type", "0 to 3", kind.into(), kind < 4)?;
                let side = |what, pixels: u32| {
                    let fits = (1..1 << 15).contains(&pixels);
                    number(what, "1 to 32767", pixels.into(), fits)
                };
                side("width", width)?;
                side("height", height)?;
                number("depth", "less than 8192", depth.into(), depth < 1 << 13)?;
                let fits = pitch < 1 << 22;
                number("pitch", "less than 4 MiB", pitch.into(), fits)?;
                let fits = pitch_align < 16;
                number("pitch alignment", "0 to 15", pitch_align.into(), fits)?;
                let fits = pitch.is_multiple_of(64 << pitch_align);
                number("pitch", "a multiple of its alignment", pitch.into(), fits)?;
                if self.tile == texture_0::TILE6_LINEAR {
                    let fits = pitch >= width * self.format.bytes();
                    number("pitch", "at least a row", pitch.into(), fits)?;
                }
                let fits = layer_pitch.is_multiple_of(4096);
                let expected = "a multiple of 4096";
                number("bytes of a layer", expected, layer_pitch.into(), fits)
            }
            Shape::Buffer { elements, start } => {
                let fits = elements < 1 << 30;
                number("elements", "less than 2^30", elements.into(), fits)?;
                number("first element", "0 to 63", start.into(), start < 64)
            }
        }
    }
}

/// How a sampler finds a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Filter {
    /// The nearest one.
    Nearest = 0,
    /// Those around.
    Linear = 1,
    /// Anisotropic.
    Aniso = 2,
    /// Cubic; not before A650.
    Cubic = 3,
}

/// What is outside of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wrap {
    /// The image again.
    Repeat = 0,
    /// Its edge.
    ClampToEdge = 1,
    /// The image, mirrored.
    MirrorRepeat = 2,
    /// The border colour.
    ClampToBorder = 3,
    /// The image mirrored once.
    MirrorClamp = 4,
}

/// A sampler without levels, comparison and reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// When a pixel is larger than what is read.
    pub magnify: Filter,
    /// When it is smaller.
    pub minify: Filter,
    /// Along x, y and z.
    pub wrap: [Wrap; 3],
    /// Coordinates are pixels, not 0 to 1.
    pub unnormalized: bool,
    /// Faces of cubes are not joined.
    pub cube_seamless_off: bool,
    /// Bytes into the border colours.
    pub border: u32,
}

impl Sampler {
    /// That of the vendor's OpenCL for reads by pixel: the border colour outside, which is 0 where its page is.
    pub const PIXELS: Sampler = Sampler {
        magnify: Filter::Nearest,
        minify: Filter::Nearest,
        wrap: [Wrap::ClampToBorder; 3],
        unnormalized: true,
        cube_seamless_off: true,
        border: 0,
    };

    /// Its dwords.
    ///
    /// # Errors
    /// [`Error::Number`] for border colours that are no multiple of 128.
    pub fn encode(&self) -> Result<[u32; SAMPLER_DWORDS], Error> {
        let expected = "a multiple of 128";
        let border = self.border;
        number(
            "border",
            expected,
            border.into(),
            border.is_multiple_of(128),
        )?;
        let [s, t, r] = self.wrap.map(|wrap| wrap as u32);
        Ok([
            sampler_0::XY_MAG.put(self.magnify as u32)
                | sampler_0::XY_MIN.put(self.minify as u32)
                | sampler_0::WRAP_S.put(s)
                | sampler_0::WRAP_T.put(t)
                | sampler_0::WRAP_R.put(r),
            sampler_1::CUBEMAPSEAMLESSFILTOFF.put(self.cube_seamless_off.into())
                | sampler_1::UNNORM_COORDS.put(self.unnormalized.into()),
            sampler_2::BCOLOR.put(border >> 7),
            0,
        ])
    }

    /// From its dwords.
    ///
    /// # Errors
    /// [`Error::Bits`] for bits that mean nothing here, [`Error::Number`] for unknown wraps.
    pub fn decode(words: &[u32; SAMPLER_DWORDS]) -> Result<Sampler, Error> {
        let known = [
            sampler_0::XY_MAG.mask()
                | sampler_0::XY_MIN.mask()
                | sampler_0::WRAP_S.mask()
                | sampler_0::WRAP_T.mask()
                | sampler_0::WRAP_R.mask(),
            sampler_1::CUBEMAPSEAMLESSFILTOFF.mask() | sampler_1::UNNORM_COORDS.mask(),
            sampler_2::BCOLOR.mask(),
            0,
        ];
        for (dword, (word, known)) in words.iter().zip(known).enumerate() {
            let bits = word & !known;
            if bits != 0 {
                return Err(Error::Bits { dword, bits });
            }
        }
        let filter = |code| match code {
            0 => Filter::Nearest,
            1 => Filter::Linear,
            2 => Filter::Aniso,
            _ => Filter::Cubic,
        };
        let wrap = |code: u32| match code {
            0 => Ok(Wrap::Repeat),
            1 => Ok(Wrap::ClampToEdge),
            2 => Ok(Wrap::MirrorRepeat),
            3 => Ok(Wrap::ClampToBorder),
            4 => Ok(Wrap::MirrorClamp),
            _ => Err(Error::Number {
                what: "wrap",
                expected: "0 to 4",
                found: code.into(),
            }),
        };
        Ok(Sampler {
            magnify: filter(sampler_0::XY_MAG.get(words[0])),
            minify: filter(sampler_0::XY_MIN.get(words[0])),
            wrap: [
                wrap(sampler_0::WRAP_S.get(words[0]))?,
                wrap(sampler_0::WRAP_T.get(words[0]))?,
                wrap(sampler_0::WRAP_R.get(words[0]))?,
            ],
            unnormalized: sampler_1::UNNORM_COORDS.get(words[1]) != 0,
            cube_seamless_off: sampler_1::CUBEMAPSEAMLESSFILTOFF.get(words[1]) != 0,
            border: sampler_2::BCOLOR.get(words[2]) << 7,
        })
    }
}

/// A buffer of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ubo {
    /// Where it is.
    pub base: u64,
    /// Vectors of four dwords.
    pub vectors: u32,
}

impl Ubo {
    /// Its dwords.
    ///
    /// # Errors
    /// [`Error::Number`] where a field does not hold a number.
    pub fn encode(&self) -> Result<[u32; UBO_DWORDS], Error> {
        number("address", "below 2^49", self.base, self.base < 1 << 49)?;
        let fits = self.vectors < 1 << 15;
        number("vectors", "less than 32768", self.vectors.into(), fits)?;
        let high = ubo_1::BASE_HI.put((self.base >> 32) as u32);
        Ok([self.base as u32, high | ubo_1::SIZE.put(self.vectors)])
    }

    /// From its dwords: every bit means something.
    pub const fn decode(words: &[u32; UBO_DWORDS]) -> Ubo {
        Ubo {
            base: (ubo_1::BASE_HI.get(words[1]) as u64) << 32 | words[0] as u64,
            vectors: ubo_1::SIZE.get(words[1]),
        }
    }
}
