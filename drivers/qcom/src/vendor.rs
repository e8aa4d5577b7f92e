//! Binaries of Qualcomm's OpenCL compiler, of one kernel, as `clGetProgramInfo(CL_PROGRAM_BINARIES)` and the compiler's
//! library give them, little endian:
//!
//! | bytes | contents |
//! |---|---|
//! | 0x18 | how many sections; from 0x30 on 20 bytes each: id, offset, size, count, bytes of an entry |
//! | section 0 | the program: footprints of full and half registers at 0x14 and 0x18 |
//! | section 6 | constants, 40 bytes each: the value; at 16 its place in units of 2 or 4 bytes; at 24 whether it has 4 |
//! | section 7 | the code; section 10 has its bytes |
//! | section 11 | the kernel: first instruction at 0xc4, private bytes at 0xc8, shared bytes at 0xd8, samplers at 0xdc, points of reconvergence at 0x108, its name from 0x158 |
//! | behind the name | 8 bytes for each sampler, then arguments, 32 bytes each: their length (0 ends), at 12 the dword of the constants, at 28 the kind |
//!
//! Registers are apart (full and half), the numbers of groups come in r51.w, their sizes in r48.x, a group's first fiber in
//! r51.x, a fiber's place in r0.x.
//!
//! Source: a survey of what tinygrad reads (`runtime/ops_qcom.py`, `_parse_lib`), which runs on A630. Nothing that the vendor
//! documents: every number is checked, and what is odd is refused.

use drivers_spec::qcom::descriptor::Sampler;
use drivers_spec::qcom::regs::{INSTRUCTION_UNIT, MAX_CONSTANTS};
use hcq::{ArgField, ArgKind, ArgLayout, KernelImage, Width};

use crate::interop::Picture;
use crate::object::{Error, NONE, Object, flags};

/// Where the number of sections is, and the first one; bytes of one.
const COUNT_AT: usize = 0x18;
const SECTIONS_AT: usize = 0x30;
const SECTION: usize = 20;

/// Sections by their place in the table.
const PROGRAM: usize = 0;
const CONSTANTS: usize = 6;
const CODE: usize = 7;
const CODE_BYTES: usize = 10;
const KERNEL: usize = 11;

/// In the section of the kernel.
const NAME: usize = 0x158;
/// Bytes of a name at most.
const MOST_NAME: usize = 1 << 10;
/// Bytes of a record of a constant, and of an argument.
const CONSTANT: usize = 40;
const ARGUMENT: usize = 32;
/// Arguments at most.
const MOST_ARGUMENTS: usize = 1 << 10;

/// The registers of its calls: see the front page.
const GROUP_ID: u32 = 0xcf;
const GROUP_SIZE: u32 = 0xc0;
const GROUP_OFFSET: u32 = 0xcc;
const LOCAL_ID: u32 = 0;

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// A buffer's address or a number, at these bytes of the constants.
    Value {
        /// Where.
        at: u32,
    },
    /// An image that is read.
    Texture,
    /// An image that is written, and maybe read.
    Image,
}

/// A binary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binary {
    /// The name of its kernel.
    pub name: String,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
    object: Object,
}

/// Reads numbers of a binary.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&self, at: usize, part: &'static str) -> Result<u32, Error> {
        let found = self.0.get(at..).and_then(|rest| rest.first_chunk());
        found
            .map(|word| u32::from_le_bytes(*word))
            .ok_or(Error::Truncated { part })
    }

    fn bytes(&self, at: usize, bytes: usize, part: &'static str) -> Result<&[u8], Error> {
        let end = at.checked_add(bytes);
        let found = end.and_then(|end| self.0.get(at..end));
        found.ok_or(Error::Truncated { part })
    }

    /// Where a section is, and its bytes.
    fn section(&self, number: usize) -> Result<(usize, usize), Error> {
        let at = SECTIONS_AT + number * SECTION;
        let word = |at| self.word(at, "table of sections").map(|word| word as usize);
        Ok((word(at + 4)?, word(at + 8)?))
    }
}

fn number(what: &'static str, found: impl Into<u64>, expected: impl Into<String>) -> Error {
    Error::Number {
        what,
        found: found.into(),
        expected: expected.into(),
    }
}

impl Binary {
    /// Reads a binary.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<Binary, Error> {
        let read = Reader(bytes);
        let sections = read.word(COUNT_AT, "header")?;
        if !(KERNEL as u32 + 1..=256).contains(&sections) {
            return Err(Error::Foreign {
                expected: "a binary of Qualcomm's OpenCL with 12 sections or more".into(),
                found: format!("{sections} sections"),
            });
        }
        let (program, _) = read.section(PROGRAM)?;
        let (kernel, _) = read.section(KERNEL)?;
        let (code_at, _) = read.section(CODE)?;
        let (_, code_bytes) = read.section(CODE_BYTES)?;
        if code_bytes == 0 || !code_bytes.is_multiple_of(8) {
            return Err(number(
                "the length of the code",
                code_bytes as u64,
                "a multiple of 8",
            ));
        }
        let code = read.bytes(code_at, code_bytes, "code")?;
        let (words, _) = code.as_chunks();
        let mut code: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        // As the hardware counts it.
        code.resize(
            code.len().next_multiple_of(INSTRUCTION_UNIT as usize / 8),
            0,
        );
        let program = |at| read.word(program.saturating_add(at), "program");
        let field = |at| read.word(kernel.saturating_add(at), "kernel");
        let samplers = field(0xdc)?;
        if samplers > 1 {
            return Err(number("the number of samplers", samplers, "0 or 1"));
        }
        let (name, behind) = name(&read, kernel.saturating_add(NAME))?;
        let arguments = arguments(&read, behind + 8 * samplers as usize)?;
        let is_read = arguments.contains(&Argument::Texture);
        let sampler = Sampler::PIXELS.encode().map_err(|e| Error::Image {
            index: 0,
            why: e.to_string(),
        })?;
        let object = Object {
            flags: flags::OPENCL,
            full: program(0x14)?.max(1),
            half: program(0x18)?,
            branch_depth: field(0x108)?,
            shared_bytes: field(0xd8)?,
            private_bytes: field(0xc8)?,
            max_threads: 1024,
            vectors: MAX_CONSTANTS,
            argument_bytes: MAX_CONSTANTS * 16,
            group_id: GROUP_ID,
            group_size: GROUP_SIZE,
            group_offset: GROUP_OFFSET,
            local_id: LOCAL_ID,
            grid_at: NONE,
            samplers: match samplers > 0 || is_read {
                true => vec![sampler; 2],
                false => Vec::new(),
            },
            constants: constants(&read, code_at)?,
            entry: field(0xc4)?,
            ..Object::new(code)
        };
        object.check()?;
        Ok(Binary {
            name,
            arguments,
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
        for (i, argument) in self.arguments.iter().enumerate() {
            // An image's address is in its descriptor; it has a place behind what the kernel reads, too.
            let unread = ArgField {
                offset: end - 8,
                kind: ArgKind::Buffer,
            };
            let mut image = || {
                let (index, picture) = pictures.next().unwrap_or((0, &NO_PICTURE));
                let image = picture.image(i as u32);
                image.map_err(|why| Error::Image { index, why })
            };
            fields.push(match argument {
                Argument::Value { at } => {
                    let kind = kinds.next().copied();
                    let kind = kind.unwrap_or(ArgKind::Value(Width::W32));
                    if at + kind.bytes() > end {
                        return Err(number(
                            "the place of an argument",
                            *at,
                            format!("below {end}"),
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

/// The name of the kernel, and where what is behind it begins.
fn name(read: &Reader<'_>, at: usize) -> Result<(String, usize), Error> {
    let rest = read.0.get(at..).ok_or(Error::Truncated { part: "name" })?;
    let rest = rest.get(..MOST_NAME).unwrap_or(rest);
    let length = rest.iter().position(|byte| *byte == 0);
    let length = length.ok_or(Error::Truncated { part: "name" })?;
    let name = rest
        .get(..length)
        .and_then(|name| str::from_utf8(name).ok());
    match name.filter(|name| !name.is_empty()) {
        Some(name) => Ok((name.to_owned(), (at + length).next_multiple_of(4))),
        None => Err(number(
            "the length of the kernel's name",
            length as u64,
            "text of 1 byte or more",
        )),
    }
}

fn arguments(read: &Reader<'_>, mut at: usize) -> Result<Vec<Argument>, Error> {
    let mut all = Vec::new();
    loop {
        let length = read.word(at, "arguments")? as usize;
        if length == 0 {
            return Ok(all);
        }
        if length < ARGUMENT || all.len() == MOST_ARGUMENTS {
            return Err(number(
                "the length of an argument's record",
                length as u64,
                format!("{ARGUMENT} or more, of {MOST_ARGUMENTS} records at most"),
            ));
        }
        let place = read.word(at + 12, "arguments")?;
        all.push(match read.word(at + 28, "arguments")? {
            0 => Argument::Value {
                at: place
                    .checked_mul(4)
                    .filter(|at| *at < MAX_CONSTANTS * 16)
                    .ok_or_else(|| {
                        number(
                            "the place of an argument",
                            place,
                            "a dword of the constants",
                        )
                    })?,
            },
            1 => Argument::Texture,
            2 | 3 => Argument::Image,
            kind => return Err(number("the kind of an argument", kind, "0 to 3")),
        });
        at += length;
    }
}

/// The known constants, from the first dword on.
fn constants(read: &Reader<'_>, end: usize) -> Result<Vec<u32>, Error> {
    let (mut at, bytes) = read.section(CONSTANTS)?;
    let mut words: Vec<u32> = Vec::new();
    if bytes == 0 {
        return Ok(words);
    }
    while at.checked_add(CONSTANT).is_some_and(|next| next <= end) {
        let value = read.word(at, "constants")?;
        let (place, is_dword) = (
            read.word(at + 16, "constants")?,
            read.word(at + 24, "constants")?,
        );
        if is_dword > 1 {
            return Err(number("the size of a constant", is_dword, "0 or 1"));
        }
        let dword = (if is_dword == 1 { place } else { place / 2 }) as usize;
        if dword >= MAX_CONSTANTS as usize * 4 {
            return Err(number(
                "the place of a constant",
                place,
                "within 256 vectors",
            ));
        }
        if words.len() <= dword {
            words.resize(dword + 1, 0);
        }
        if let Some(word) = words.get_mut(dword) {
            *word = match (is_dword, place % 2) {
                (1, _) => value,
                (_, 0) => *word & 0xffff_0000 | value & 0xffff,
                _ => *word & 0xffff | value << 16,
            };
        }
        at += CONSTANT;
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::descriptor::Format;

    use super::*;

    /// A binary of one kernel with two buffers, a number, an image that is read and one that is written; constants c8.x = 7
    /// and hc20.y = 3.
    fn binary() -> Vec<u8> {
        let mut bytes = vec![0; 0x600];
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let section = |n: usize| SECTIONS_AT + n * SECTION;
        put(COUNT_AT, 12);
        let (program, constants, code, kernel) = (0x130, 0x150, 0x1a0, 0x220);
        put(section(PROGRAM) + 4, program);
        put(section(CONSTANTS) + 4, constants);
        put(section(CONSTANTS) + 8, 80);
        put(section(CODE) + 4, code);
        put(section(CODE_BYTES) + 8, 0x40);
        put(section(KERNEL) + 4, kernel);
        put(program as usize + 0x14, 6);
        put(program as usize + 0x18, 3);
        for (i, [value, place, is_dword]) in [[7, 32, 1], [3, 161, 0]].into_iter().enumerate() {
            let at = constants as usize + i * CONSTANT;
            put(at, value);
            put(at + 16, place);
            put(at + 24, is_dword);
        }
        // `end` behind a nop.
        put(code as usize + 12, 0x0300_0000);
        let kernel = kernel as usize;
        for (at, word) in [(0xc4, 8), (0xc8, 16), (0xd8, 1024), (0xdc, 1), (0x108, 4)] {
            put(kernel + at, word);
        }
        let name = kernel + NAME;
        let mut at = name + 8 + 8;
        for (place, kind) in [(0, 0), (2, 0), (4, 0), (0, 1), (0, 2)] {
            put(at, ARGUMENT as u32);
            put(at + 12, place);
            put(at + 28, kind);
            at += ARGUMENT;
        }
        bytes[name..name + 6].copy_from_slice(b"kernel");
        bytes
    }

    const KINDS: [ArgKind; 3] = [ArgKind::Buffer, ArgKind::Buffer, ArgKind::Value(Width::W32)];

    const ROWS: Picture = Picture {
        format: Format::Rgba16Float,
        width: 64,
        height: 8,
        pitch: 512,
    };

    #[test]
    fn a_binary_is_read() {
        let binary = Binary::parse(&binary()).unwrap();
        assert_eq!(binary.name, "kernel");
        let value = |at| Argument::Value { at };
        assert_eq!(
            binary.arguments,
            [
                value(0),
                value(8),
                value(16),
                Argument::Texture,
                Argument::Image
            ]
        );
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
        assert_eq!((object.constants[32], object.constants[80]), (7, 3 << 16));
        assert_eq!(
            (object.code[1], object.code.len()),
            (0x0300_0000_0000_0000, 16)
        );
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
        let binary = Binary::parse(&binary()).unwrap();
        for (kinds, pictures) in [
            (&KINDS[..2], &[ROWS, ROWS][..]),
            (&KINDS, &[ROWS]),
            (&KINDS, &[]),
        ] {
            let error = binary.image("a630", kinds, pictures).unwrap_err();
            assert!(
                error.to_string().contains("3 values and 2 images"),
                "{error}"
            );
        }
        let narrow = Picture { pitch: 64, ..ROWS };
        let error = binary.image("a630", &KINDS, &[ROWS, narrow]).unwrap_err();
        assert!(matches!(error, Error::Image { index: 1, .. }), "{error}");
    }

    #[test]
    fn damage_is_an_error_and_never_more() {
        let good = binary();
        // Each byte, with each bit the other way, and every length.
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = Binary::parse(&bad).map(|it| it.image("a630", &KINDS, &[ROWS, ROWS]));
            }
            let _ = Binary::parse(&good[..at]);
        }
        let with = |at: usize, word: u32| {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&word.to_le_bytes());
            Binary::parse(&bad).unwrap_err().to_string()
        };
        let kernel = 0x220;
        for (at, word, part) in [
            (COUNT_AT, 3, "12 sections"),
            (COUNT_AT, u32::MAX, "12 sections"),
            (
                SECTIONS_AT + CODE * SECTION + 4,
                u32::MAX,
                "inside of its code",
            ),
            (
                SECTIONS_AT + CODE_BYTES * SECTION + 8,
                0,
                "length of the code",
            ),
            (
                SECTIONS_AT + KERNEL * SECTION + 4,
                u32::MAX,
                "inside of its",
            ),
            (0x130 + 0x14, 49, "footprint of full"),
            (0x130 + 0x18, 49, "footprint of half"),
            (0x150 + 16, 1024, "place of a constant"),
            (0x150 + 24, 2, "size of a constant"),
            (kernel + 0xc4, 128, "first instruction"),
            (kernel + 0xc4, 4, "first instruction"),
            (kernel + 0xdc, 2, "number of samplers"),
            (kernel + NAME + 16, 8, "length of an argument"),
            (kernel + NAME + 16 + 12, 1 << 30, "place of an argument"),
            (kernel + NAME + 16 + 28, 4, "kind of an argument"),
        ] {
            let text = with(at, word);
            assert!(text.contains(part), "{at:#x} = {word:#x}: {text}");
        }
        assert!(Binary::parse(&[]).is_err());
    }
}
