//! Compiled kernels: the object that the ir3 compiler of `codegen` makes (codegen/src/ir3/object.rs), little endian:
//!
//! | dword | contents |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1, 2 | bytes of the code, and where it begins: multiples of 128 |
//! | 3, 4 | footprints of full and of half registers, which are merged |
//! | 5 | 1 for waves of 128 fibers |
//! | 6 | points where fibers are parked at the same time |
//! | 7 | fibers of a group |
//! | 8, 9 | bytes of local memory of a group, of private memory of a fiber |
//! | 10 | arguments, 8 bytes each, from c0.x on |
//! | 11, 12 | vectors of the constant file; known constants in dwords, from c0.x on |
//! | 13, 14 | registers of the group's number and of the fiber's |
//! | 15 to 20 | counts for people |
//! | 21 on | the known constants; then the code |
//!
//! Behind the code stands more of kernels that read buffers as images, and of those that are made by hand:
//!
//! | dword | contents |
//! |---|---|
//! | 0 | [`MORE`] |
//! | 1, 2 | where the numbers of groups and the fibers of a group go, in bytes of the constants, or [`NONE`] |
//! | 3 to 5 | registers of a group's size, of its first fiber, of a fiber's number in its group |
//! | 6 to 8 | how many textures, written images and samplers |
//! | 9, 10 | [`flags`], and where the first instruction is, in bytes |
//! | then | images, five dwords each: argument, format, width, height, pitch; samplers, four dwords each |
//! | then | with [`flags::HAS_PLAIN`] the same kernel without images, as another object that has none behind it |

use drivers_spec::qcom::descriptor::{Format, SAMPLER_DWORDS, Texture};
use drivers_spec::qcom::regs::{self, MAX_CONSTANTS, NO_REGISTER, SHARED_REGISTERS};

/// The first dword.
pub const MAGIC: u32 = u32::from_le_bytes(*b"IR3o");
/// The first dword of what stands behind the code.
pub const MORE: u32 = u32::from_le_bytes(*b"IR3x");
/// A place that is none.
pub const NONE: u32 = u32::MAX;

/// Dwords before the constants.
const HEADER: usize = 21;

/// Most textures and images: bits 16:9 and 28:22 of `SP_CS_CONFIG`; an instruction of cat5 names 16 samplers.
const MOST_TEXTURES: u32 = 128;
const MOST_UAVS: u32 = 64;
const MOST_SAMPLERS: u32 = 16;

/// Dwords of an image.
const IMAGE: usize = 5;

/// Bytes of code at most.
const MOST_CODE: usize = 1 << 20;

/// Flags of an object.
pub mod flags {
    /// Half registers are halves of full ones.
    pub const MERGED: u32 = 1 << 0;
    /// Waves have 128 fibers.
    pub const THREAD128: u32 = 1 << 1;
    /// Private memory is laid out by waves.
    pub const PER_WAVE: u32 = 1 << 2;
    /// Code of Qualcomm's OpenCL compiler: half constants are the halves of dwords, images are loaded in its mode.
    pub const OPENCL: u32 = 1 << 3;
    /// A version without images follows, for arguments at addresses that no descriptor holds.
    pub const HAS_PLAIN: u32 = 1 << 4;
    /// All.
    pub const ALL: u32 = MERGED | THREAD128 | PER_WAVE | OPENCL | HAS_PLAIN;
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// [`flags`].
    pub flags: u32,
    /// Vectors of four full registers, and of half registers where these are apart.
    pub full: u32,
    /// See there.
    pub half: u32,
    /// How many points of reconvergence may be pending at once.
    pub branch_depth: u32,
    /// Bytes of memory that a group shares.
    pub shared_bytes: u32,
    /// Bytes of private memory of a fiber.
    pub private_bytes: u32,
    /// Fibers of a group at most.
    pub max_threads: u32,
    /// Vectors of four constants.
    pub vectors: u32,
    /// Where the arguments are in the constants, in bytes.
    pub arguments_at: u32,
    /// Bytes of them.
    pub argument_bytes: u32,
    /// Where the number of groups along x, y and z is, in bytes; or [`NONE`].
    pub grid_at: u32,
    /// The same for the fibers of a group.
    pub block_at: u32,
    /// Where the initial constants start, in bytes.
    pub constants_at: u32,
    /// Register ids (`4 * n + component`), or [`NO_REGISTER`]: of a group's number, a group's size, the first fiber of a
    /// group, each from r48 on; of a fiber's place in its group; of that as one number.
    pub group_id: u32,
    /// See there.
    pub group_size: u32,
    /// See there.
    pub group_offset: u32,
    /// See there.
    pub local_id: u32,
    /// See there.
    pub linear_id: u32,
    /// Images that are read.
    pub textures: Vec<Image>,
    /// Images that are written.
    pub uavs: Vec<Image>,
    /// Samplers, as the hardware has them.
    pub samplers: Vec<[u32; SAMPLER_DWORDS]>,
    /// Initial constants.
    pub constants: Vec<u32>,
    /// Where the first instruction is, in bytes.
    pub entry: u32,
    /// Instructions.
    pub code: Vec<u64>,
    /// The same kernel without images; it has none itself.
    pub plain: Option<Box<Object>>,
}

/// What the address of an image is a multiple of.
///
/// Source: Mesa, src/freedreno/fdl/fd6_view.c: views are checked for 64 bytes; the field holds multiples of 32.
pub const IMAGE_ALIGN: u64 = 64;

/// An image of a kernel: rows of pixels at an address that is an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Which argument has the address.
    pub argument: u32,
    /// What a pixel is.
    pub format: Format,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from a row to the next.
    pub pitch: u32,
}

/// Why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something else, or an object of another version.
    #[error(
        "not an ir3 object: expected {expected}, found {found}; compile the kernel for this device"
    )]
    Foreign {
        /// What was expected.
        expected: String,
        /// What is there.
        found: String,
    },
    /// It ends too early.
    #[error("the object is truncated in its {part}: compile the kernel again")]
    Truncated {
        /// Where.
        part: &'static str,
    },
    /// A number that the hardware does not take.
    #[error("{what} is {found}, expected {expected}: compile the kernel for this chip")]
    Number {
        /// Which.
        what: &'static str,
        /// What is there.
        found: u64,
        /// What may be there.
        expected: String,
    },
    /// An image that has no descriptor.
    #[error("image {index}: {why}; recreate the image")]
    Image {
        /// Which: textures first.
        index: usize,
        /// Why.
        why: String,
    },
    /// A binary of Qualcomm's OpenCL that cannot be read.
    #[error(transparent)]
    OpenCl(#[from] drivers_spec::qcom::opencl::Error),
}

fn number(what: &'static str, found: impl Into<u64>, expected: impl Into<String>) -> Error {
    Error::Number {
        what,
        found: found.into(),
        expected: expected.into(),
    }
}

impl Object {
    /// A kernel of this code that uses nothing: for others to start from.
    pub fn new(code: Vec<u64>) -> Object {
        Object {
            flags: flags::MERGED,
            full: 1,
            half: 0,
            branch_depth: 0,
            shared_bytes: 0,
            private_bytes: 0,
            max_threads: 1024,
            vectors: 0,
            arguments_at: 0,
            argument_bytes: 0,
            grid_at: NONE,
            block_at: NONE,
            constants_at: 0,
            group_id: NO_REGISTER,
            group_size: NO_REGISTER,
            group_offset: NO_REGISTER,
            local_id: NO_REGISTER,
            linear_id: NO_REGISTER,
            textures: Vec::new(),
            uavs: Vec::new(),
            samplers: Vec::new(),
            constants: Vec::new(),
            entry: 0,
            code,
            plain: None,
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<Object, Error> {
        let (mut object, more) = Object::parse_code(bytes)?;
        if !more.is_empty() {
            object.more(more)?;
        }
        object.check()?;
        Ok(object)
    }

    /// Reads an object up to its code. Returns what stands behind that, too.
    fn parse_code(bytes: &[u8]) -> Result<(Object, &[u8]), Error> {
        let word = |n: usize| {
            let found = bytes.get(n * 4..).and_then(|rest| rest.first_chunk());
            found
                .map(|word| u32::from_le_bytes(*word))
                .ok_or(Error::Truncated { part: "header" })
        };
        let magic = word(0)?;
        if magic != MAGIC {
            return Err(Error::Foreign {
                expected: format!("{MAGIC:#010x}"),
                found: format!("{magic:#010x}"),
            });
        }
        let (size, start) = (word(1)? as usize, word(2)? as usize);
        if size > MOST_CODE || !size.is_multiple_of(regs::INSTRUCTION_UNIT as usize) {
            return Err(number(
                "the length of the code",
                size as u64,
                format!("a multiple of 128 up to {MOST_CODE}"),
            ));
        }
        let code = start
            .checked_add(size)
            .and_then(|end| bytes.get(start..end));
        let code = code.ok_or(Error::Truncated { part: "code" })?;
        let count = word(12)?;
        if count > MAX_CONSTANTS * 4 {
            return Err(number(
                "the number of known constants",
                count,
                format!("at most {}", MAX_CONSTANTS * 4),
            ));
        }
        let constants = (0..count as usize).map(|n| word(HEADER + n));
        let (words, _) = code.as_chunks();
        let double = match word(5)? {
            0 => 0,
            _ => flags::THREAD128,
        };
        let object = Object {
            flags: flags::MERGED | flags::PER_WAVE | double,
            full: word(3)?,
            half: word(4)?,
            branch_depth: word(6)?,
            max_threads: word(7)?,
            shared_bytes: word(8)?,
            private_bytes: word(9)?,
            vectors: word(11)?,
            argument_bytes: word(10)?.saturating_mul(8),
            group_id: word(13)?,
            local_id: word(14)?,
            constants: constants.collect::<Result<_, _>>()?,
            ..Object::new(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
        };
        let more = bytes.get(start + size..).unwrap_or_default();
        Ok((object, more))
    }

    /// Reads what stands behind the code.
    fn more(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let cut = || Error::Truncated {
            part: "part behind the code",
        };
        let foreign = |found: u32| Error::Foreign {
            expected: format!("{MORE:#010x} behind the code"),
            found: format!("{found:#010x}"),
        };
        let (dwords, rest) = bytes.as_chunks();
        let words: Vec<u32> = dwords
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        let (head, tables) = words.split_first_chunk::<11>().ok_or_else(cut)?;
        if head[0] != MORE {
            return Err(foreign(head[0]));
        }
        if !rest.is_empty() {
            return Err(cut());
        }
        [
            self.grid_at,
            self.block_at,
            self.group_size,
            self.group_offset,
            self.linear_id,
        ] = [head[1], head[2], head[3], head[4], head[5]];
        (self.flags, self.entry) = (head[9], head[10]);
        let [textures, uavs, samplers] = [head[6], head[7], head[8]].map(|n| n as usize);
        let (textures, tables) = textures
            .checked_mul(IMAGE)
            .and_then(|n| tables.split_at_checked(n))
            .ok_or_else(cut)?;
        let (uavs, tables) = uavs
            .checked_mul(IMAGE)
            .and_then(|n| tables.split_at_checked(n))
            .ok_or_else(cut)?;
        let (samplers, plain) = samplers
            .checked_mul(SAMPLER_DWORDS)
            .and_then(|n| tables.split_at_checked(n))
            .ok_or_else(cut)?;
        self.textures = images(textures)?;
        self.uavs = images(uavs)?;
        self.samplers = samplers.as_chunks::<SAMPLER_DWORDS>().0.to_vec();
        match (self.flags & flags::HAS_PLAIN != 0, plain.first()) {
            (false, None) => return Ok(()),
            (false, Some(&found)) => return Err(foreign(found)),
            (true, None) => return Err(cut()),
            (true, Some(_)) => {}
        }
        let at = bytes.len() - plain.len() * 4;
        let (plain, none) = Object::parse_code(&bytes[at..])?;
        if !none.is_empty() {
            return Err(Error::Foreign {
                expected: "nothing behind the version without images".into(),
                found: format!("{} bytes", none.len()),
            });
        }
        plain.check()?;
        self.plain = Some(Box::new(plain));
        Ok(())
    }

    /// The bytes of an object, for kernels that the compiler here has not made: arguments and constants start with the
    /// constants.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut words = self.code_words();
        words.extend([
            MORE,
            self.grid_at,
            self.block_at,
            self.group_size,
            self.group_offset,
            self.linear_id,
            self.textures.len() as u32,
            self.uavs.len() as u32,
            self.samplers.len() as u32,
            self.flags,
            self.entry,
        ]);
        for image in self.textures.iter().chain(&self.uavs) {
            let format = image.format as u32;
            words.extend([
                image.argument,
                format,
                image.width,
                image.height,
                image.pitch,
            ]);
        }
        words.extend(self.samplers.iter().flatten());
        words.extend(self.plain.iter().flat_map(|plain| plain.code_words()));
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The words of an object up to its code.
    fn code_words(&self) -> Vec<u32> {
        let unit = regs::INSTRUCTION_UNIT as usize;
        let start = ((HEADER + self.constants.len()) * 4).next_multiple_of(unit);
        let size = (self.code.len() * 8).next_multiple_of(unit);
        let double = u32::from(self.flags & flags::THREAD128 != 0);
        let mut words = vec![
            MAGIC,
            size as u32,
            start as u32,
            self.full,
            self.half,
            double,
            self.branch_depth,
            self.max_threads,
            self.shared_bytes,
            self.private_bytes,
            self.argument_bytes / 8,
            self.vectors,
            self.constants.len() as u32,
            self.group_id,
            self.local_id,
        ];
        words.resize(HEADER, 0);
        words.extend(&self.constants);
        words.resize(start / 4, 0);
        words.extend(
            self.code
                .iter()
                .flat_map(|word| [*word as u32, (word >> 32) as u32]),
        );
        words.resize((start + size) / 4, 0);
        words
    }

    /// Checks what no chip takes.
    ///
    /// # Errors
    /// [`Error::Number`] with the first wrong number, [`Error::Image`].
    pub fn check(&self) -> Result<(), Error> {
        let at_most = |what, found: u32, most: u32| match found <= most {
            true => Ok(()),
            false => Err(number(what, found, format!("at most {most}"))),
        };
        if self.flags & !flags::ALL != 0 {
            return Err(number(
                "flags",
                self.flags,
                format!("bits of {:#x}", flags::ALL),
            ));
        }
        if self.code.is_empty() {
            return Err(number("instruction count", 0u32, "at least 1"));
        }
        if self.entry as u64 >= self.code_bytes() || !self.entry.is_multiple_of(8) {
            let expected = format!("a multiple of 8 within {} bytes", self.code_bytes());
            return Err(number("entry point", self.entry, expected));
        }
        if self.full == 0 {
            return Err(number("full register count", 0u32, "1 to 48"));
        }
        at_most("full register count", self.full, 48)?;
        at_most("half register count", self.half, 48)?;
        at_most("constant vector count", self.vectors, MAX_CONSTANTS)?;
        let counts = [
            ("texture count", self.textures.len(), MOST_TEXTURES),
            ("written image count", self.uavs.len(), MOST_UAVS),
            ("sampler count", self.samplers.len(), MOST_SAMPLERS),
        ];
        for (what, found, most) in counts {
            at_most(what, found as u32, most)?;
        }
        if self.max_threads == 0 {
            return Err(number("maximum group size", 0u32, "at least 1"));
        }
        let bytes = u64::from(self.vectors) * 16;
        let block = |what, at: u32, dwords: u64| {
            let fits = at.is_multiple_of(4) && u64::from(at) + dwords * 4 <= bytes;
            match at == NONE || fits {
                true => Ok(()),
                false => Err(number(
                    what,
                    at,
                    format!("a multiple of 4 within {bytes} bytes of constants"),
                )),
            }
        };
        block(
            "argument offset",
            self.arguments_at,
            u64::from(self.argument_bytes).div_ceil(4),
        )?;
        block(
            "initial constant offset",
            self.constants_at,
            self.constants.len() as u64,
        )?;
        block("grid size offset", self.grid_at, 3)?;
        block("group size offset", self.block_at, 3)?;
        for (what, id) in [
            ("group ID register", self.group_id),
            ("group size register", self.group_size),
            ("group offset register", self.group_offset),
        ] {
            let shared = SHARED_REGISTERS..SHARED_REGISTERS + 32 - 2;
            if id != NO_REGISTER && !shared.contains(&id) {
                return Err(number(what, id, "r48.x to r55.y, or 0xfc"));
            }
        }
        for (what, id, count) in [
            ("local ID register", self.local_id, 3),
            ("linear local ID register", self.linear_id, 1),
        ] {
            if id != NO_REGISTER && id.saturating_add(count) > self.full * 4 {
                let expected = format!("{count} of the full registers, or 0xfc");
                return Err(number(what, id, expected));
            }
        }
        let images = self.textures.iter().chain(&self.uavs);
        images.enumerate().try_for_each(|(index, image)| {
            let done = image.descriptor().map(drop);
            done.map_err(|why| Error::Image { index, why })
        })
    }

    /// Bytes of code.
    pub fn code_bytes(&self) -> u64 {
        self.code.len() as u64 * 8
    }

    /// Units of code that `SP_CS_INSTR_SIZE` counts.
    pub fn code_units(&self) -> u32 {
        (self.code.len() as u32 * 8).div_ceil(regs::INSTRUCTION_UNIT)
    }
}

/// Images of five dwords each.
fn images(words: &[u32]) -> Result<Vec<Image>, Error> {
    let image = |(index, words): (usize, &[u32; IMAGE])| {
        let unknown = || Error::Image {
            index,
            why: format!("format {:#x} is unknown", words[1]),
        };
        Ok(Image {
            argument: words[0],
            format: Format::from_number(words[1]).ok_or_else(unknown)?,
            width: words[2],
            height: words[3],
            pitch: words[4],
        })
    };
    words
        .as_chunks::<IMAGE>()
        .0
        .iter()
        .enumerate()
        .map(image)
        .collect()
}

impl Image {
    /// The descriptor for address 0.
    ///
    /// # Errors
    /// Why there is none.
    pub fn descriptor(&self) -> Result<[u32; 16], String> {
        let texture = Texture::rows(self.format, self.width, self.height, self.pitch, 0);
        texture.encode().map_err(|e| e.to_string())
    }

    /// Bytes from the first pixel to the last one; the most that 32 bits hold if there are more.
    pub fn bytes(&self) -> u32 {
        let rows = self.height.saturating_sub(1).saturating_mul(self.pitch);
        rows.saturating_add(self.width.saturating_mul(self.format.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two arguments, a constant, 16 instructions.
    fn bytes() -> Vec<u8> {
        let mut words = vec![
            MAGIC, 128, 128, 7, 2, 1, 3, 96, 4096, 16, 2, 2, 5, 192, 0, 16,
        ];
        words.resize(HEADER, 0);
        words.extend([0, 0, 0, 0, 7]);
        words.resize(32, 0);
        words.extend([0, 0x0300_0000]);
        words.resize(64, 0);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn object() -> Object {
        Object::parse(&bytes()).unwrap()
    }

    #[test]
    fn an_object_of_the_compiler_is_read() {
        let object = object();
        assert_eq!(
            object.flags,
            flags::MERGED | flags::PER_WAVE | flags::THREAD128
        );
        assert_eq!((object.full, object.half, object.branch_depth), (7, 2, 3));
        assert_eq!(
            (
                object.max_threads,
                object.shared_bytes,
                object.private_bytes
            ),
            (96, 4096, 16)
        );
        assert_eq!(
            (object.vectors, &object.constants[..]),
            (2, &[0, 0, 0, 0, 7][..])
        );
        assert_eq!((object.group_id, object.local_id), (SHARED_REGISTERS, 0));
        assert_eq!(
            (object.code.len(), object.code[0], object.code_units()),
            (16, 3 << 56, 1)
        );
    }

    #[test]
    fn what_is_made_by_hand_is_read_back() {
        let image = |argument| Image {
            argument,
            format: Format::from_number(0x82).unwrap(),
            width: 64,
            height: 3,
            pitch: 1024,
        };
        let one = Object {
            grid_at: 16,
            block_at: 20,
            group_size: SHARED_REGISTERS + 4,
            linear_id: 3,
            textures: vec![image(0), image(1)],
            uavs: vec![image(1)],
            samplers: vec![[1, 2, 3, 4]],
            ..object()
        };
        let bytes = one.to_bytes();
        assert_eq!(Object::parse(&bytes), Ok(one));
        // The code is whole in front of what is cut.
        let code = bytes.len() - 4 * (11 + 3 * IMAGE + 4);
        for end in code + 1..bytes.len() {
            assert!(Object::parse(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_version_without_images_follows() {
        let plain = Object {
            full: 9,
            private_bytes: 64,
            ..object()
        };
        let one = Object {
            flags: flags::MERGED | flags::PER_WAVE | flags::THREAD128 | flags::HAS_PLAIN,
            textures: vec![Image {
                argument: 0,
                format: Format::Rgba32Uint,
                width: 64,
                height: 3,
                pitch: 1024,
            }],
            samplers: vec![[1, 2, 3, 4]],
            plain: Some(Box::new(plain)),
            ..object()
        };
        let bytes = one.to_bytes();
        assert_eq!(Object::parse(&bytes), Ok(one.clone()));
        let code = one.code_words().len() * 4;
        for end in code + 1..bytes.len() {
            let error = Object::parse(&bytes[..end]).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{end}: {error}");
        }
        let longer = [&bytes[..], &[0; 4]].concat();
        let error = Object::parse(&longer).unwrap_err().to_string();
        assert!(error.contains("found 4 bytes"), "{error}");
        let unnamed = Object {
            flags: flags::MERGED,
            ..one
        };
        assert!(Object::parse(&unnamed.to_bytes()).is_err());
    }

    #[test]
    fn every_cut_is_named() {
        let bytes = bytes();
        for end in 0..bytes.len() {
            let error = Object::parse(&bytes[..end]).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{end}: {error}");
        }
        let mut other = bytes;
        other[0] ^= 1;
        let error = Object::parse(&other).unwrap_err().to_string();
        assert!(error.contains("not an ir3 object"), "{error}");
    }

    #[test]
    fn numbers_that_no_chip_takes_are_named() {
        let wrong = |change: &dyn Fn(&mut Object)| {
            let mut one = object();
            change(&mut one);
            one.check().unwrap_err().to_string()
        };
        assert!(wrong(&|one| one.full = 0).contains("full register count is 0, expected 1 to 48"));
        assert!(wrong(&|one| one.half = 49).contains("half register count is 49"));
        assert!(wrong(&|one| one.vectors = 257).contains("at most 256"));
        assert!(wrong(&|one| one.vectors = 1).contains("initial constant offset is 0"));
        assert!(wrong(&|one| one.grid_at = 24).contains("grid size offset is 24"));
        assert!(wrong(&|one| one.group_id = 0).contains("r48.x"));
        assert!(wrong(&|one| one.local_id = 28).contains("local ID register is 28"));
        assert!(wrong(&|one| one.flags = 32).contains("flags is 32"));
        assert!(wrong(&|one| one.entry = 128).contains("entry point is 128"));
        assert!(wrong(&|one| one.code.clear()).contains("instruction count is 0"));
        let image = Image {
            argument: 1,
            format: Format::from_number(0x82).unwrap(),
            width: 64,
            height: 3,
            pitch: 100,
        };
        assert!(wrong(&|one| one.textures.push(image)).contains("image 0"));
    }
}
