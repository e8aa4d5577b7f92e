//! Kernels of Qualcomm's OpenCL compiler ([`drivers_spec::qcom::opencl`]), launched by our own packets: with images that are
//! given beside them, or as the compiler of this project asks for them (`DEV=QCOM:CL`), with the arguments of an image.

use drivers_spec::qcom::descriptor::Sampler;
use drivers_spec::qcom::opencl;
pub use drivers_spec::qcom::opencl::Argument;
use drivers_spec::qcom::regs::MAX_CONSTANTS;
use hcq::{ArgField, ArgKind, ArgLayout, KernelImage, Width};

use crate::interop::Picture;
use crate::object::{Error, MAGIC, NONE, Object, flags};

/// A binary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binary {
    /// The name of its kernel.
    pub name: String,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
    object: Object,
}

fn number(what: &'static str, found: impl Into<u64>, expected: impl Into<String>) -> Error {
    Error::Number {
        what,
        found: found.into(),
        expected: expected.into(),
    }
}

/// What a kernel is for the driver, if its bytes are such a binary: its arguments are where the binary has them.
///
/// # Errors
/// [`Error`]: of the binary, or for arguments that it does not have.
pub(crate) fn of(image: &KernelImage) -> Result<Option<KernelImage>, Error> {
    let bytes = &image.bytes;
    if bytes.starts_with(&MAGIC.to_le_bytes()) || !opencl::Binary::is_like(bytes) {
        return Ok(None);
    }
    let kinds: Vec<ArgKind> = image.args.fields.iter().map(|field| field.kind).collect();
    let made = Binary::parse(bytes)?.image(&image.arch, &kinds, &[])?;
    Ok(Some(KernelImage {
        name: image.name.clone(),
        local_bytes: image.local_bytes,
        ..made
    }))
}

impl Binary {
    /// Reads a binary.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<Binary, Error> {
        let read = opencl::Binary::parse(bytes)?;
        let is_read = read.arguments.contains(&Argument::Texture);
        let sampler = Sampler::PIXELS.encode().map_err(|e| Error::Image {
            index: 0,
            why: e.to_string(),
        })?;
        let object = Object {
            flags: flags::OPENCL,
            full: read.full.max(1),
            half: read.half,
            branch_depth: read.branch_depth,
            shared_bytes: read.shared_bytes,
            private_bytes: read.private_bytes,
            max_threads: 1024,
            vectors: MAX_CONSTANTS,
            argument_bytes: MAX_CONSTANTS * 16,
            group_id: opencl::GROUP_ID,
            group_size: opencl::GROUP_SIZE,
            group_offset: opencl::GROUP_OFFSET,
            local_id: opencl::LOCAL_ID,
            grid_at: NONE,
            samplers: match read.samplers > 0 || is_read {
                true => vec![sampler; 2],
                false => Vec::new(),
            },
            constants: read.constants,
            entry: read.entry,
            ..Object::new(read.code)
        };
        object.check()?;
        Ok(Binary {
            name: read.name,
            arguments: read.arguments,
            object,
        })
    }

    /// The kernel for a chip (`a630`), with the images of its arguments, in their order, and the kinds of the others.
    ///
    /// # Errors
    /// [`Error::Number`] for other arguments than the kernel has, [`Error::Image`] for an image that there is not.
    pub fn image(
        &self,
        arch: &str,
        kinds: &[ArgKind],
        pictures: &[Picture],
    ) -> Result<KernelImage, Error> {
        let mut object = self.object.clone();
        let (mut fields, mut kinds, mut pictures) =
            (Vec::new(), kinds.iter(), pictures.iter().enumerate());
        let values = self.arguments.iter();
        let values = values.filter(|one| matches!(one, Argument::Value { .. }));
        let (values, given) = (values.count(), kinds.len());
        let images = self.arguments.len() - values;
        if (values, images) != (given, pictures.len()) {
            return Err(number(
                "the number of arguments",
                (given + pictures.len()) as u64,
                format!("{values} values and {images} images"),
            ));
        }
        let end = object.vectors * 16;
        // An image's address is in its descriptor; it has a place behind what the kernel reads, too.
        let unread = ArgField {
            offset: end - ArgKind::Buffer.bytes(),
            kind: ArgKind::Buffer,
        };
        let read_end = if images > 0 { unread.offset } else { end };
        let known = object.constants.len() as u32 * 4;
        if known > read_end {
            let expected = format!("at most {read_end}, behind which images have a place");
            return Err(number("the number of bytes of constants", known, expected));
        }
        for (i, argument) in self.arguments.iter().enumerate() {
            let mut image = || {
                let (index, picture) = pictures.next().unwrap_or((0, &NO_PICTURE));
                let image = picture.image(i as u32);
                image.map_err(|why| Error::Image { index, why })
            };
            fields.push(match argument {
                Argument::Value { at } => {
                    let kind = kinds.next().copied();
                    let kind = kind.unwrap_or(ArgKind::Value(Width::W32));
                    let places = self.arguments.iter().filter_map(|one| match one {
                        Argument::Value { at } => Some(*at),
                        _ => None,
                    });
                    let same = places.clone().filter(|place| place == at).count();
                    if same > 1 {
                        let expected = format!("one at {at} in the binary");
                        return Err(number("the number of arguments", same as u32, expected));
                    }
                    // Up to the next one, or to the end.
                    let next = places.filter(|place| place > at);
                    let room = next.min().unwrap_or(read_end).min(read_end);
                    let room = room.saturating_sub(*at);
                    if kind.bytes() > room {
                        let expected = format!("at most {room}, as at {at} in the binary");
                        return Err(number(
                            "the number of bytes of an argument",
                            kind.bytes(),
                            expected,
                        ));
                    }
                    ArgField { offset: *at, kind }
                }
                Argument::Texture => {
                    object.textures.push(image()?);
                    unread
                }
                Argument::Image => {
                    object.uavs.push(image()?);
                    unread
                }
            });
        }
        object.check()?;
        Ok(KernelImage {
            name: self.name.clone(),
            arch: arch.into(),
            bytes: object.to_bytes().into(),
            entry: self.name.clone(),
            args: ArgLayout {
                fields,
                bytes: end,
                align: 8,
            },
            local_bytes: 0,
        })
    }
}

/// In place of one that was not given: their number was compared.
const NO_PICTURE: Picture = Picture {
    format: drivers_spec::qcom::descriptor::Format::Rgba32Float,
    width: 0,
    height: 0,
    pitch: 0,
};

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::descriptor::Format;

    use super::*;

    /// A kernel with two buffers, a number, an image that is read and one that is written; constants c8.x = 7 and
    /// c20.x = 3.
    fn binary() -> opencl::Binary {
        let value = |at| Argument::Value { at };
        let mut code = vec![0; 16];
        // `end` behind a nop.
        code[1] = 0x0300_0000_0000_0000;
        let mut constants = vec![0; 81];
        (constants[32], constants[80]) = (7, 3);
        opencl::Binary {
            name: "kernel".into(),
            arguments: vec![
                value(0),
                value(8),
                value(16),
                Argument::Texture,
                Argument::Image,
            ],
            full: 6,
            half: 3,
            branch_depth: 4,
            shared_bytes: 1024,
            private_bytes: 16,
            samplers: 1,
            constants,
            entry: 8,
            code,
        }
    }

    const KINDS: [ArgKind; 3] = [ArgKind::Buffer, ArgKind::Buffer, ArgKind::Value(Width::W32)];

    const ROWS: Picture = Picture {
        format: Format::Rgba16Float,
        width: 64,
        height: 8,
        pitch: 512,
    };

    #[test]
    fn a_binary_becomes_an_object() {
        let binary = Binary::parse(&binary().to_bytes()).unwrap();
        assert_eq!((&*binary.name, binary.arguments.len()), ("kernel", 5));
        let object = &binary.object;
        assert_eq!(
            (object.full, object.half, object.flags),
            (6, 3, flags::OPENCL)
        );
        assert_eq!(
            (object.entry, object.private_bytes, object.shared_bytes),
            (8, 16, 1024)
        );
        assert_eq!((object.branch_depth, object.samplers.len()), (4, 2));
        assert_eq!((object.constants[32], object.constants[80]), (7, 3));
        let image = binary.image("a630", &KINDS, &[ROWS, ROWS]).unwrap();
        let read = Object::parse(&image.bytes).unwrap();
        assert_eq!(
            (read.flags, read.entry, read.full, read.half),
            (flags::OPENCL, 8, 6, 3)
        );
        assert_eq!((read.textures[0].argument, read.uavs[0].argument), (3, 4));
        assert_eq!(
            (image.args.fields[2].offset, image.args.fields.len()),
            (16, 5)
        );
    }

    #[test]
    fn other_arguments_are_refused() {
        let parsed = Binary::parse(&binary().to_bytes()).unwrap();
        for (kinds, pictures) in [
            (&KINDS[..2], &[ROWS, ROWS][..]),
            (&KINDS, &[ROWS]),
            (&KINDS, &[]),
        ] {
            let error = parsed.image("a630", kinds, pictures).unwrap_err();
            assert!(
                error.to_string().contains("3 values and 2 images"),
                "{error}"
            );
        }
        let narrow = Picture { pitch: 64, ..ROWS };
        let error = parsed.image("a630", &KINDS, &[ROWS, narrow]).unwrap_err();
        assert!(matches!(error, Error::Image { index: 1, .. }), "{error}");
        // An argument of 8 bytes where the binary has one of 4.
        let mut near = binary();
        near.arguments[1] = Argument::Value { at: 4 };
        let near = Binary::parse(&near.to_bytes()).unwrap();
        let error = near.image("a630", &KINDS, &[ROWS, ROWS]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("is 8, expected at most 4"), "{text}");
    }

    #[test]
    fn the_place_of_images_is_theirs_alone() {
        let made = |binary: &opencl::Binary, pictures: &[Picture]| {
            let parsed = Binary::parse(&binary.to_bytes()).unwrap();
            parsed.image("a630", &KINDS, pictures)
        };
        let with = |number: usize, at: u32| {
            let mut binary = binary();
            binary.arguments[number] = Argument::Value { at };
            binary
        };
        // A number of 4 bytes, and a buffer.
        for (number, at, room) in [(2, 4088, 0), (2, 4092, 0), (1, 4084, 4)] {
            let text = made(&with(number, at), &[ROWS, ROWS]).unwrap_err();
            let part = format!("expected at most {room}, as at {at}");
            assert!(text.to_string().contains(&part), "{text}");
        }
        assert!(made(&with(2, 4084), &[ROWS, ROWS]).is_ok());
        let mut known = binary();
        known.constants.resize(1023, 1);
        let text = made(&known, &[ROWS, ROWS]).unwrap_err().to_string();
        assert!(
            text.contains("constants is 4092, expected at most 4088"),
            "{text}"
        );
        // Without images the last places are free.
        known.arguments = with(2, 4092).arguments[..3].to_vec();
        let image = made(&known, &[]).unwrap();
        assert_eq!(image.args.fields[2].offset, 4092);
    }

    #[test]
    fn damage_is_an_error_and_never_more() {
        let good = binary();
        let bytes = good.to_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let _ = Binary::parse(&bad).map(|it| it.image("a630", &KINDS, &[ROWS, ROWS]));
            }
        }
        let said = |bad: opencl::Binary| Binary::parse(&bad.to_bytes()).unwrap_err().to_string();
        for (bad, part) in [
            (
                opencl::Binary {
                    full: 49,
                    ..binary()
                },
                "full register count",
            ),
            (
                opencl::Binary {
                    half: 49,
                    ..binary()
                },
                "half register count",
            ),
            (
                opencl::Binary {
                    entry: 128,
                    ..binary()
                },
                "entry point",
            ),
            (
                opencl::Binary {
                    entry: 4,
                    ..binary()
                },
                "entry point",
            ),
            (
                opencl::Binary {
                    samplers: 2,
                    ..good
                },
                "number of samplers",
            ),
        ] {
            let text = said(bad);
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
