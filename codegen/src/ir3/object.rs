//! A compiled kernel for Adreno 6xx: code, and what a driver writes into registers to launch it.
//!
//! The bytes are little endian: the words of [`Object::header`], then the constants, then the code, which begins at a
//! multiple of 128 bytes, as a preload takes it.
//!
//! | dword | contents |
//! |---|---|
//! | 0 | "IR3o" |
//! | 1 | bytes of the code, a multiple of 128 (`SP_CS_INSTR_SIZE` counts these units) |
//! | 2 | where the code begins, in bytes |
//! | 3 | full footprint, in vectors of four registers (`FULLREGFOOTPRINT`) |
//! | 4 | half footprint, the same in half registers (`HALFREGFOOTPRINT`; the files are merged) |
//! | 5 | 1 for waves of double size (`THREADSIZE`) |
//! | 6 | points where fibers are parked at the same time; `BRANCHSTACK` is half of it, rounded up |
//! | 7 | fibers of a group, all along x |
//! | 8 | bytes of local memory of a group |
//! | 9 | bytes of private memory of a fiber |
//! | 10 | arguments, 8 bytes each, which are c0.x and what follows |
//! | 11 | vectors of the constant file (`CONSTLEN` counts four of them) |
//! | 12 | known constants in dwords, behind the arguments |
//! | 13 | register of the group's number (`WGIDCONSTID`), whose three components follow each other |
//! | 14 | register of the fiber's number (`LOCALIDREGID`), the same |
//! | 15 | waves of a shader processor |
//! | 16 to 20 | instructions, slots of nops, (ss), (sy), spilled values |
//!
//! Behind the code of a kernel that reads buffers as images are these dwords, in the form that the driver
//! (`drivers/qcom/src/object.rs`) has for kernels made by hand; then the same kernel without images, as bytes like
//! these, for arguments at addresses that no descriptor holds.
//!
//! | dword | contents |
//! |---|---|
//! | 0 | "IR3x" |
//! | 1, 2 | all ones: no sizes of grid and group among the constants |
//! | 3 to 5 | 0xfc: no registers of a group's size, its first fiber, a fiber's number |
//! | 6 to 8 | how many images are read, are written (0), and samplers (1) |
//! | 9 | flags: merged registers, waves of 128, private memory by waves, a version without images follows |
//! | 10 | where the first instruction is: 0 |
//! | then | images, five dwords each: argument, format, width, height, pitch; the sampler, four dwords |

use std::fmt::Write as _;

use super::operand::Reg;

/// The first bytes.
const MAGIC: u32 = u32::from_le_bytes(*b"IR3o");
/// Dwords of the header.
const HEADER: usize = 21;
/// Where the group's number is: x, y and z in registers that a wave shares.
pub const GROUP: Reg = Reg::r(48, 0);
/// Where the fiber's number in its group is: x, y and z.
pub const ITEM: Reg = Reg::r(0, 0);
/// Bytes of a preloaded unit of code.
const UNIT: usize = 128;
/// The first bytes of what stands behind the code.
const MORE: u32 = u32::from_le_bytes(*b"IR3x");
/// Dwords there before the images, and of an image.
const MORE_HEADER: usize = 11;
const IMAGE: usize = 5;
/// Images at most: an instruction names 128.
const MOST_IMAGES: usize = 128;
/// No register.
const NO_REGISTER: u32 = 0xfc;
/// Flags: merged registers and private memory by waves; waves of 128; a version without images follows.
const MERGED_PER_WAVE: u32 = 1 << 0 | 1 << 2;
const THREAD128: u32 = 1 << 1;
const HAS_PLAIN: u32 = 1 << 4;
/// A sampler for reads of pixels by their numbers, none of which is outside: clamped to the border (3) in all
/// directions, coordinates as they are, no seamless cubes (Mesa `a6xx_descriptors.xml`, A6XX_TEX_SAMP).
pub const SAMPLER: [u32; 4] = [3 << 5 | 3 << 8 | 3 << 11, 1 << 4 | 1 << 5, 0, 0];

/// Vectors of four registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Full registers, those of which only halves are used included.
    pub full: u32,
    /// Half registers.
    pub half: u32,
}

/// Counts, for people and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions.
    pub instructions: u32,
    /// Slots in which nothing is done.
    pub nops: u32,
    /// Instructions with (ss).
    pub ss: u32,
    /// Instructions with (sy).
    pub sy: u32,
    /// Values that are in memory.
    pub spilled: u32,
}

/// An argument that is read as an image: rows of pixels from its address on, a multiple of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The number of the argument.
    pub argument: u32,
    /// What a pixel is, as descriptors have it.
    pub format: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from a row to the next.
    pub pitch: u32,
}

impl Image {
    /// Four times 16 bits, and four times 32 bits. Integers: their bits come through, those of denormals and of what is
    /// not a number as well (Mesa `a6xx_enums.xml`, `FMT6_16_16_16_16_UINT` and `FMT6_32_32_32_32_UINT`).
    pub const FORMATS: [u32; 2] = [0x63, 0x83];

    fn words(&self) -> [u32; IMAGE] {
        [
            self.argument,
            self.format,
            self.width,
            self.height,
            self.pitch,
        ]
    }
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Words of instructions, whole units of 128 bytes.
    pub code: Vec<u64>,
    /// Registers.
    pub footprint: Footprint,
    /// Waves have twice the fibers: 128 on most chips.
    pub double: bool,
    /// Points where fibers are parked at the same time.
    pub branches: u32,
    /// Fibers of a group.
    pub items: u32,
    /// Bytes of local memory of a group.
    pub local_bytes: u32,
    /// Bytes of private memory of a fiber.
    pub private_bytes: u32,
    /// Arguments.
    pub args: u32,
    /// Vectors of constants.
    pub const_vectors: u32,
    /// The constant file from c0.x on, as far as it is known: zeros where arguments are.
    pub constants: Vec<u32>,
    /// Waves of a shader processor.
    pub waves: u32,
    /// Counts.
    pub statistics: Statistics,
    /// Images that are read, by the number that instructions have for them.
    pub images: Vec<Image>,
    /// The same kernel without images, if it has some.
    pub plain: Option<Box<Object>>,
}

/// Why bytes are no kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// They end too early, or do not begin as they should.
    #[error("not an Adreno 6xx kernel: {what} at byte {at}; compile it again")]
    Format {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: usize,
    },
}

impl Object {
    /// The words before the constants.
    fn header(&self, start: usize) -> [u32; HEADER] {
        let s = &self.statistics;
        [
            MAGIC,
            self.code.len() as u32 * 8,
            start as u32,
            self.footprint.full,
            self.footprint.half,
            u32::from(self.double),
            self.branches,
            self.items,
            self.local_bytes,
            self.private_bytes,
            self.args,
            self.const_vectors,
            self.constants.len() as u32,
            u32::from(GROUP.0),
            u32::from(ITEM.0),
            self.waves,
            s.instructions,
            s.nops,
            s.ss,
            s.sy,
            s.spilled,
        ]
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let start = ((HEADER + self.constants.len()) * 4).next_multiple_of(UNIT);
        let mut bytes = Vec::with_capacity(start + self.code.len() * 8);
        for word in self.header(start).iter().chain(&self.constants) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(start, 0);
        for word in &self.code {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        if !self.images.is_empty() {
            for word in self.more() {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            if let Some(plain) = &self.plain {
                bytes.extend(plain.encode());
            }
        }
        bytes
    }

    /// The words behind the code.
    fn more(&self) -> Vec<u32> {
        let double = if self.double { THREAD128 } else { 0 };
        let plain = if self.plain.is_some() { HAS_PLAIN } else { 0 };
        let mut words = vec![
            MORE,
            u32::MAX,
            u32::MAX,
            NO_REGISTER,
            NO_REGISTER,
            NO_REGISTER,
            self.images.len() as u32,
            0,
            1,
            MERGED_PER_WAVE | double | plain,
            0,
        ];
        words.extend(self.images.iter().flat_map(Image::words));
        words.extend(SAMPLER);
        words
    }

    /// The version for arguments at any address: without images.
    pub fn without_images(&self) -> &Object {
        self.plain.as_deref().unwrap_or(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// They are not what [`Object::encode`] gives.
    pub fn decode(bytes: &[u8]) -> Result<Object, ObjectError> {
        let (mut object, end) = Object::decode_code(bytes)?;
        if end < bytes.len() {
            (object.images, object.plain) = decode_more(bytes, end)?;
        }
        Ok(object)
    }

    /// A kernel up to its code, and where that ends.
    fn decode_code(bytes: &[u8]) -> Result<(Object, usize), ObjectError> {
        let word = |n: usize| -> Result<u32, ObjectError> {
            let found = bytes.get(n * 4..n * 4 + 4).and_then(|b| b.try_into().ok());
            found.map(u32::from_le_bytes).ok_or(ObjectError::Format {
                what: "truncated",
                at: n * 4,
            })
        };
        let wrong = |what, n: usize| ObjectError::Format { what, at: n * 4 };
        if word(0)? != MAGIC {
            return Err(wrong("wrong magic", 0));
        }
        let (size, start) = (word(1)? as usize, word(2)? as usize);
        let code = start
            .checked_add(size)
            .and_then(|end| bytes.get(start..end));
        let code = code.ok_or(wrong("code outside the file", 1))?;
        let count = word(12)? as usize;
        if !size.is_multiple_of(UNIT) || !start.is_multiple_of(UNIT) || count > start / 4 {
            return Err(wrong("inconsistent sizes", 1));
        }
        let words = code
            .chunks_exact(8)
            .map(|c| c.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b)));
        let object = Object {
            code: words.collect(),
            footprint: Footprint {
                full: word(3)?,
                half: word(4)?,
            },
            double: word(5)? == 1,
            branches: word(6)?,
            items: word(7)?,
            local_bytes: word(8)?,
            private_bytes: word(9)?,
            args: word(10)?,
            const_vectors: word(11)?,
            constants: (0..count)
                .map(|n| word(HEADER + n))
                .collect::<Result<_, _>>()?,
            waves: word(15)?,
            statistics: Statistics {
                instructions: word(16)?,
                nops: word(17)?,
                ss: word(18)?,
                sy: word(19)?,
                spilled: word(20)?,
            },
            images: Vec::new(),
            plain: None,
        };
        Ok((object, start + size))
    }

    /// The instructions as text, below a line of counts.
    pub fn disassemble(&self) -> String {
        let s = &self.statistics;
        let mut text = format!(
            "; {} instructions, {} slots of nops, {} (ss), {} (sy), {} full and {} half vectors, {} waves of {} size\n\
             ; {} bytes local, {} bytes private, {} values spilled, {} constant vectors, {} arguments\n",
            s.instructions,
            s.nops,
            s.ss,
            s.sy,
            self.footprint.full,
            self.footprint.half,
            self.waves,
            if self.double { "double" } else { "single" },
            self.local_bytes,
            self.private_bytes,
            s.spilled,
            self.const_vectors,
            self.args
        );
        for (n, image) in self.images.iter().enumerate() {
            let _ = writeln!(
                text,
                "; t#{n} = argument {}, format {:#x}, {} x {} pixels, {} bytes a row",
                image.argument, image.format, image.width, image.height, image.pitch
            );
        }
        let first = self.args as usize * 2;
        for (at, word) in self.constants.iter().enumerate().skip(first) {
            let component = ['x', 'y', 'z', 'w'][at % 4];
            let _ = writeln!(text, "; c{}.{component} = {word:#010x}", at / 4);
        }
        for (at, &word) in self.code.iter().enumerate().take(s.instructions as usize) {
            let _ = match super::decode(word) {
                Ok(inst) => writeln!(text, "{at:5}  {inst}"),
                Err(e) => writeln!(text, "{at:5}  {e}"),
            };
        }
        text
    }
}

/// What stands behind the code, from a byte on.
fn decode_more(
    bytes: &[u8],
    start: usize,
) -> Result<(Vec<Image>, Option<Box<Object>>), ObjectError> {
    let wrong = |what, n: usize| ObjectError::Format {
        what,
        at: start + n * 4,
    };
    let rest = bytes.get(start..).unwrap_or_default();
    let word = |n: usize| -> Result<u32, ObjectError> {
        let found = rest.get(n * 4..n * 4 + 4).and_then(|b| b.try_into().ok());
        found
            .map(u32::from_le_bytes)
            .ok_or_else(|| wrong("truncated", n))
    };
    if word(0)? != MORE {
        return Err(wrong("wrong magic behind the code", 0));
    }
    let count = word(6)? as usize;
    if count == 0 || count > MOST_IMAGES || (word(7)?, word(8)?) != (0, 1) {
        return Err(wrong(
            "not 1 to 128 images, none that is written, and one sampler",
            6,
        ));
    }
    let image = |n: usize| -> Result<Image, ObjectError> {
        let at = MORE_HEADER + n * IMAGE;
        Ok(Image {
            argument: word(at)?,
            format: word(at + 1)?,
            width: word(at + 2)?,
            height: word(at + 3)?,
            pitch: word(at + 4)?,
        })
    };
    let images = (0..count).map(image).collect::<Result<Vec<_>, _>>()?;
    let end = MORE_HEADER + count * IMAGE + SAMPLER.len();
    word(end - 1)?;
    let plain = rest.get(end * 4..).unwrap_or_default();
    let has_plain = word(9)? & HAS_PLAIN != 0;
    if has_plain == plain.is_empty() {
        return Err(wrong(
            "a flag of a version without images and nothing behind, or bytes without the flag",
            end,
        ));
    }
    if !has_plain {
        return Ok((images, None));
    }
    let (object, used) = Object::decode_code(plain)?;
    match used == plain.len() {
        true => Ok((images, Some(Box::new(object)))),
        false => Err(wrong("bytes behind the version without images", end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Object {
        Object {
            code: vec![0x0300_0000_0000_0000; 16],
            footprint: Footprint { full: 3, half: 1 },
            double: true,
            branches: 2,
            items: 96,
            local_bytes: 128,
            private_bytes: 8,
            args: 2,
            const_vectors: 4,
            constants: vec![0, 0, 0, 0, 7],
            waves: 16,
            statistics: Statistics {
                instructions: 1,
                nops: 2,
                ss: 3,
                sy: 4,
                spilled: 5,
            },
            images: Vec::new(),
            plain: None,
        }
    }

    fn with_images(plain: Option<Box<Object>>) -> Object {
        let image = |argument| Image {
            argument,
            format: Image::FORMATS[1],
            width: 64,
            height: 3,
            pitch: 1024,
        };
        Object {
            images: vec![image(1), image(0)],
            plain,
            ..made()
        }
    }

    #[test]
    fn bytes_read_back_and_cut_ones_do_not() {
        let object = made();
        let bytes = object.encode();
        assert_eq!(Object::decode(&bytes), Ok(object.clone()));
        assert!(object.disassemble().contains("c1.x = 0x00000007"));
        for n in 0..bytes.len() {
            assert!(Object::decode(&bytes[..n]).is_err(), "{n} bytes");
        }
    }

    #[test]
    fn images_and_the_version_without_them_read_back() {
        let object = with_images(Some(Box::new(made())));
        let bytes = object.encode();
        let code = made().encode().len();
        assert_eq!(Object::decode(&bytes), Ok(object.clone()));
        assert_eq!(object.without_images(), &made());
        assert!(object.disassemble().contains("t#0 = argument 1"));
        for n in code + 1..bytes.len() {
            assert!(Object::decode(&bytes[..n]).is_err(), "{n} bytes");
        }
        let longer = [&bytes[..], &[0; 4]].concat();
        assert!(Object::decode(&longer).is_err());
        let alone = with_images(None);
        assert_eq!(Object::decode(&alone.encode()), Ok(alone));
    }
}
