//! Descriptors of Adreno, there and back, and as the vendor's OpenCL and Mesa have them.

use drivers_spec::qcom::descriptor::{
    CAPTURED, Error, Filter, Format, Sampler, Shape, Swizzle, TEXTURE_DWORDS, Texture, Ubo, Wrap,
    texture_0, texture_2,
};
use proptest::prelude::*;

#[test]
fn a_texture_as_the_vendors_opencl_has_it() {
    // 256 x 128 of four halves: rows of 2048 bytes.
    let texture = Texture::rows(Format::Rgba16Float, 256, 128, 2048, 0x50_0123_4580);
    let words = texture.encode().unwrap();
    let mut wanted = [0; TEXTURE_DWORDS];
    wanted[0] = 0x62 << 22 | 1 << 7 | 2 << 10 | 3 << 13;
    wanted[1] = 128 << 15 | 256;
    wanted[2] = 1 << 29 | 2048 << 7 | 5;
    wanted[4] = 0x0123_4580;
    wanted[5] = 0x50;
    assert_eq!(words, wanted);
    assert_eq!(texture.extent(), 2048 * 128);
    // With the bits of the capture.
    wanted[0] |= 0x8;
    wanted[6] = 0x4000_0000;
    wanted[7] = 13;
    let captured = Texture::decode(&wanted).unwrap();
    let want = Texture {
        captured: 0b111,
        ..texture
    };
    assert_eq!(captured, want);
    assert_eq!(captured.encode().unwrap(), wanted);
    // An image that is written has no swizzle, and not the first of these bits.
    wanted[0] = 0x62 << 22;
    let image = Texture::decode(&wanted).unwrap();
    assert_eq!((image.swizzle, image.captured), ([Swizzle::X; 4], 0b110));
}

#[test]
fn a_buffer_as_mesa_has_it() {
    let buffer = Texture::buffer(Format::R32Uint, 0x1_2345, 0x1_0000_0040);
    let words = buffer.encode().unwrap();
    assert_eq!(words[0] >> 22, 0x4b);
    assert_eq!(words[1], 0x2345 | 2 << 15);
    assert_eq!(words[2], 4 << 29 | 1 << 4);
    assert_eq!((words[4], words[5]), (0x40, 1));
    assert_eq!(Texture::decode(&words), Ok(buffer));
    assert_eq!(buffer.extent(), 4 * 0x1_2345);
}

#[test]
fn a_sampler_as_the_vendors_opencl_has_it() {
    let words = Sampler::PIXELS.encode().unwrap();
    assert_eq!(words, [3 << 5 | 3 << 8 | 3 << 11, 0x30, 0, 0]);
    assert_eq!(Sampler::decode(&words), Ok(Sampler::PIXELS));
    let bits = |dword, bits| Err(Error::Bits { dword, bits });
    assert_eq!(Sampler::decode(&[1, 0, 0, 0]), bits(0, 1));
    assert_eq!(Sampler::decode(&[0, 1 << 8, 0, 0]), bits(1, 1 << 8));
    assert_eq!(Sampler::decode(&[0, 0, 0, 4]), bits(3, 4));
    let wrap = Sampler::decode(&[5 << 5, 0, 0, 0]);
    assert!(matches!(wrap, Err(Error::Number { what: "wrap", .. })));
    let odd = Sampler {
        border: 64,
        ..Sampler::PIXELS
    };
    assert!(odd.encode().is_err());
}

#[test]
fn constants_there_and_back() {
    let ubo = Ubo {
        base: 0x1_2345_6789_abc0,
        vectors: 256,
    };
    let words = ubo.encode().unwrap();
    assert_eq!(words, [0x6789_abc0, 256 << 17 | 0x1_2345]);
    assert_eq!(Ubo::decode(&words), ubo);
    assert!(
        Ubo {
            vectors: 1 << 15,
            ..ubo
        }
        .encode()
        .is_err()
    );
}

fn refused(change: impl Fn(&mut Texture)) -> &'static str {
    let mut texture = Texture::rows(Format::Rgba32Float, 64, 64, 1024, 0x1000);
    assert!(texture.encode().is_ok());
    change(&mut texture);
    match texture.encode() {
        Err(Error::Number { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

fn with_rows(change: impl Fn(&mut u32, &mut u32, &mut u32, &mut u32)) -> &'static str {
    refused(|texture| {
        if let Shape::Rows {
            width,
            height,
            pitch,
            layer_pitch,
            ..
        } = &mut texture.shape
        {
            change(width, height, pitch, layer_pitch);
        }
    })
}

#[test]
fn what_no_descriptor_holds_is_refused() {
    assert_eq!(refused(|texture| texture.base += 16), "address");
    assert_eq!(refused(|texture| texture.base = 1 << 49), "address");
    assert_eq!(refused(|texture| texture.tile = 1), "tile mode");
    assert_eq!(refused(|texture| texture.captured = 8), "captured bits");
    assert_eq!(with_rows(|width, _, _, _| *width = 1 << 15), "width");
    assert_eq!(with_rows(|_, height, _, _| *height = 0), "height");
    assert_eq!(with_rows(|_, _, pitch, _| *pitch += 64), "pitch");
    // A row is longer than the pitch.
    assert_eq!(with_rows(|width, _, _, _| *width = 65), "pitch");
    assert_eq!(with_rows(|_, _, _, layer| *layer = 100), "bytes of a layer");
    let elements = Shape::Buffer {
        elements: 1 << 30,
        start: 0,
    };
    assert_eq!(refused(|texture| texture.shape = elements), "elements");
    // What decoding does not know it refuses.
    let words = Texture::rows(Format::R32Float, 64, 1, 256, 0x1000)
        .encode()
        .unwrap();
    for (dword, bits) in [(3, 1 << 28), (6, 0x100), (7, 0x20), (8, 1), (15, 1)] {
        let mut broken = words;
        broken[dword] |= bits;
        assert_eq!(Texture::decode(&broken), Err(Error::Bits { dword, bits }));
    }
    // Not all of a captured value.
    let mut broken = words;
    broken[7] = 5;
    let (dword, bits) = (7, 5);
    assert_eq!(Texture::decode(&broken), Err(Error::Bits { dword, bits }));
    for (field, value) in [
        (texture_0::FMT, 0xff),
        (texture_0::SWIZ_W, 6),
        (texture_0::TILE_MODE, 1),
        (texture_0::MIPLVLS, 1),
    ] {
        let mut broken = words;
        broken[0] = broken[0] & !field.mask() | field.put(value);
        assert!(matches!(
            Texture::decode(&broken),
            Err(Error::Number { .. })
        ));
    }
    let mut broken = words;
    broken[2] |= texture_2::TYPE.put(7);
    assert!(matches!(
        Texture::decode(&broken),
        Err(Error::Number { .. })
    ));
}

#[test]
fn formats_are_told_apart() {
    for (i, format) in Format::ALL.iter().enumerate() {
        assert_eq!(Format::from_number(*format as u32), Some(*format));
        let before = i.checked_sub(1).map(|i| Format::ALL[i] as u32);
        assert!(before.is_none_or(|before| before < *format as u32));
        // Mesa's names have the width of each component.
        let digits = format.name().trim_start_matches("FMT6_").split('_');
        let bits: u32 = digits.filter_map(|part| part.parse::<u32>().ok()).sum();
        assert_eq!(bits, 8 * format.bytes(), "{}", format.name());
    }
    assert_eq!(CAPTURED.len(), 3);
}

fn any_swizzle() -> impl Strategy<Value = Swizzle> {
    prop_oneof![
        Just(Swizzle::X),
        Just(Swizzle::Y),
        Just(Swizzle::Z),
        Just(Swizzle::W),
        Just(Swizzle::Zero),
        Just(Swizzle::One)
    ]
}

fn any_rows(bytes: u32) -> impl Strategy<Value = Shape> {
    let most = (1 << 15).min((1 << 22) / bytes - 64);
    let sides = (1..most, 1u32..1 << 15, 0u32..1 << 13);
    (0u32..4, sides, 0u32..6, 0u32..0x10_0000, any::<bool>()).prop_map(
        move |(kind, (width, height, depth), align, layer, wide)| {
            let unit = 64 << align;
            let pitch = (width * bytes).next_multiple_of(unit);
            let more = if wide && pitch + unit < 1 << 22 {
                unit
            } else {
                0
            };
            Shape::Rows {
                kind,
                width,
                height,
                depth,
                pitch: pitch + more,
                pitch_align: align,
                layer_pitch: layer << 12,
            }
        },
    )
}

fn any_texture() -> impl Strategy<Value = Texture> {
    let format = proptest::sample::select(Format::ALL);
    format.prop_flat_map(|format| {
        let buffer = (0u32..1 << 30, 0u32..64)
            .prop_map(|(elements, start)| Shape::Buffer { elements, start });
        let shape = prop_oneof![any_rows(format.bytes()), buffer];
        let swizzle = [any_swizzle(), any_swizzle(), any_swizzle(), any_swizzle()];
        let tile = prop_oneof![Just(0u32), Just(2), Just(3)];
        let rest = (any::<bool>(), tile, 0u32..4, 0u64..1 << 44, 0u8..8);
        (shape, swizzle, rest).prop_map(
            move |(shape, swizzle, (srgb, tile, swap, base, captured))| Texture {
                format,
                srgb,
                tile,
                swizzle,
                swap,
                shape,
                base: base << 5,
                captured,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn textures_there_and_back(texture in any_texture()) {
        let words = texture.encode().unwrap();
        prop_assert_eq!(Texture::decode(&words), Ok(texture));
    }

    #[test]
    fn what_is_decoded_is_encoded(words in any::<[u32; TEXTURE_DWORDS]>(), texture in any_texture(), bit in 0usize..512) {
        // Random words are hardly ever one; a flipped bit often is.
        let mut near = texture.encode().unwrap();
        near[bit / 32] ^= 1 << (bit % 32);
        for words in [words, near] {
            if let Ok(texture) = Texture::decode(&words) {
                prop_assert_eq!(texture.encode().unwrap(), words);
            }
        }
    }

    #[test]
    fn samplers_there_and_back(words in any::<[u32; 4]>()) {
        let masks = [0x3ffe, 0x30, !0x7f, 0];
        let words = std::array::from_fn(|i| words[i] & masks[i]);
        match Sampler::decode(&words) {
            Ok(sampler) => prop_assert_eq!(sampler.encode().unwrap(), words),
            Err(error) => {
                let is_wrap = matches!(error, Error::Number { what: "wrap", .. });
                prop_assert!(is_wrap, "{}", error);
            }
        }
    }
}

#[test]
fn filters_and_wraps_have_their_numbers() {
    assert_eq!(
        [Filter::Nearest, Filter::Cubic].map(|filter| filter as u32),
        [0, 3]
    );
    assert_eq!(
        [Wrap::Repeat, Wrap::MirrorClamp].map(|wrap| wrap as u32),
        [0, 4]
    );
}
