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

/// Instructions of what `SP_CS_INSTR_SIZE` counts.
const UNIT: usize = 16;
/// Dwords of constants: 256 vectors.
const MOST_CONSTANTS: u32 = 1024;

/// Where the number of sections is, and the first one; bytes of one.
const COUNT_AT: usize = 0x18;
const SECTIONS_AT: usize = 0x30;
const SECTION: usize = 20;
/// Sections at most.
const MOST_SECTIONS: u32 = 256;

/// Sections by their place in the table.
const PROGRAM: usize = 0;
const CONSTANTS: usize = 6;
const CODE: usize = 7;
const CODE_BYTES: usize = 10;
const KERNEL: usize = 11;

/// In the section of the program.
const FULL: usize = 0x14;
const HALF: usize = 0x18;

/// In the section of the kernel.
const ENTRY: usize = 0xc4;
const PRIVATE: usize = 0xc8;
const SHARED: usize = 0xd8;
const SAMPLERS: usize = 0xdc;
const BRANCHES: usize = 0x108;
const NAME: usize = 0x158;
/// Bytes of a name at most.
const MOST_NAME: usize = 1 << 10;
/// Bytes of a record of a constant, of a sampler and of an argument.
const CONSTANT: usize = 40;
const SAMPLER: usize = 8;
const ARGUMENT: usize = 32;
/// Arguments at most.
const MOST_ARGUMENTS: usize = 1 << 10;

/// The registers of its calls, `4 * n + component`: the number of a group, its size, its first fiber, and a fiber's place.
pub const GROUP_ID: u32 = 0xcf;
/// See there.
pub const GROUP_SIZE: u32 = 0xc0;
/// See there.
pub const GROUP_OFFSET: u32 = 0xcc;
/// See there.
pub const LOCAL_ID: u32 = 0;

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
    /// Vectors of four full registers.
    pub full: u32,
    /// Vectors of four half registers.
    pub half: u32,
    /// How many points of reconvergence may be pending at once.
    pub branch_depth: u32,
    /// Bytes of memory that a group shares.
    pub shared_bytes: u32,
    /// Bytes of private memory of a fiber.
    pub private_bytes: u32,
    /// Samplers: 0 or 1.
    pub samplers: u32,
    /// Known constants, in dwords from c0.x on.
    pub constants: Vec<u32>,
    /// Where the first instruction is, in bytes of the code.
    pub entry: u32,
    /// Instructions, whole units of 16.
    pub code: Vec<u64>,
}

/// Why bytes are no binary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It ends too early.
    #[error("binary of Qualcomm's OpenCL is truncated in its {part}: compile the kernel again")]
    Truncated {
        /// Where.
        part: &'static str,
    },
    /// A number that no binary has that is known.
    #[error(
        "binary of Qualcomm's OpenCL: {what} is {found}, expected {expected}: compile the kernel again, or use Doorbell's \
         compiler (DEV=QCOM:IR3)"
    )]
    Number {
        /// Which.
        what: &'static str,
        /// What is there.
        found: u64,
        /// What may be there.
        expected: String,
    },
}

fn number(what: &'static str, found: impl Into<u64>, expected: impl Into<String>) -> Error {
    Error::Number {
        what,
        found: found.into(),
        expected: expected.into(),
    }
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

impl Binary {
    /// Whether bytes may be a binary: no other object here has so many sections there.
    pub fn is_like(bytes: &[u8]) -> bool {
        let count = Reader(bytes).word(COUNT_AT, "header");
        count.is_ok_and(|count| (KERNEL as u32 + 1..=MOST_SECTIONS).contains(&count))
    }

    /// Reads a binary.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<Binary, Error> {
        let read = Reader(bytes);
        let sections = read.word(COUNT_AT, "header")?;
        if !Binary::is_like(bytes) {
            let expected = format!("{} to {MOST_SECTIONS}", KERNEL + 1);
            return Err(number("the number of sections", sections, expected));
        }
        let (program, _) = read.section(PROGRAM)?;
        let (kernel, _) = read.section(KERNEL)?;
        let (code_at, _) = read.section(CODE)?;
        let (_, code_bytes) = read.section(CODE_BYTES)?;
        if code_bytes == 0 || !code_bytes.is_multiple_of(8) {
            let expected = "a multiple of 8, not 0";
            return Err(number(
                "the length of the code",
                code_bytes as u64,
                expected,
            ));
        }
        let code = read.bytes(code_at, code_bytes, "code")?;
        let (words, _) = code.as_chunks();
        let mut code: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        // As the hardware counts it.
        code.resize(code.len().next_multiple_of(UNIT), 0);
        let program = |at| read.word(program.saturating_add(at), "program");
        let field = |at| read.word(kernel.saturating_add(at), "kernel");
        let samplers = field(SAMPLERS)?;
        if samplers > 1 {
            return Err(number("the number of samplers", samplers, "0 or 1"));
        }
        let (name, behind) = name(&read, kernel.saturating_add(NAME))?;
        Ok(Binary {
            name,
            arguments: arguments(&read, behind + SAMPLER * samplers as usize)?,
            full: program(FULL)?,
            half: program(HALF)?,
            branch_depth: field(BRANCHES)?,
            shared_bytes: field(SHARED)?,
            private_bytes: field(PRIVATE)?,
            samplers,
            constants: constants(&read, code_at)?,
            entry: field(ENTRY)?,
            code,
        })
    }

    /// The bytes of a binary, for stand-ins of the compiler: [`Binary::parse`] reads the same. Constants are dwords; the length
    /// of the name is no multiple of 4.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut words: Vec<u32> = vec![0; SECTIONS_AT / 4 + (KERNEL + 1) * SECTION / 4];
        let mut sections = [(0, 0); KERNEL + 1];
        let mut add = |words: &mut Vec<u32>, number: usize, body: &[u32]| {
            sections[number] = (words.len() * 4, body.len() * 4);
            words.extend(body);
        };
        let mut program = [0; 8];
        (program[FULL / 4], program[HALF / 4]) = (self.full, self.half);
        add(&mut words, PROGRAM, &program);
        let known = self.constants.iter().enumerate();
        let known = known.flat_map(|(at, &value)| {
            let mut record = [0; CONSTANT / 4];
            (record[0], record[4], record[6]) = (value, at as u32, 1);
            record
        });
        add(&mut words, CONSTANTS, &known.collect::<Vec<u32>>());
        // Records of constants are read up to the code, which follows them.
        let code = self.code.iter();
        let code: Vec<u32> = code.flat_map(|w| [*w as u32, (w >> 32) as u32]).collect();
        add(&mut words, CODE, &code);
        let mut kernel = vec![0; NAME / 4];
        for (at, value) in [
            (ENTRY, self.entry),
            (PRIVATE, self.private_bytes),
            (SHARED, self.shared_bytes),
            (SAMPLERS, self.samplers),
            (BRANCHES, self.branch_depth),
        ] {
            kernel[at / 4] = value;
        }
        let mut name = self.name.clone().into_bytes();
        name.resize((name.len() + 1).next_multiple_of(4), 0);
        kernel.extend(name.chunks_exact(4).map(|part| {
            let bytes = part.iter().rev();
            bytes.fold(0, |word, &byte| word << 8 | u32::from(byte))
        }));
        kernel.resize(kernel.len() + SAMPLER / 4 * self.samplers as usize, 0);
        for argument in &self.arguments {
            let mut record = [0; ARGUMENT / 4];
            record[0] = ARGUMENT as u32;
            (record[3], record[7]) = match argument {
                Argument::Value { at } => (at / 4, 0),
                Argument::Texture => (0, 1),
                Argument::Image => (0, 2),
            };
            kernel.extend(record);
        }
        kernel.extend([0; ARGUMENT / 4]);
        add(&mut words, KERNEL, &kernel);
        sections[CODE_BYTES] = (0, code.len() * 4);
        words[COUNT_AT / 4] = sections.len() as u32;
        for (number, (at, bytes)) in sections.into_iter().enumerate() {
            let row = (SECTIONS_AT + number * SECTION) / 4;
            words[row] = number as u32;
            (words[row + 1], words[row + 2]) = (at as u32, bytes as u32);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The name of the kernel, and where what is behind it begins.
fn name(read: &Reader<'_>, at: usize) -> Result<(String, usize), Error> {
    let rest = read.0.get(at..).ok_or(Error::Truncated { part: "name" })?;
    let rest = rest.get(..MOST_NAME).unwrap_or(rest);
    let length = rest.iter().position(|byte| *byte == 0);
    let length = length.ok_or(Error::Truncated { part: "name" })?;
    let name = rest
        .get(..length)
        .and_then(|name| str::from_utf8(name).ok());
    // Whether the end of the name counts where it begins a dword is UNKNOWN.
    match name.filter(|name| !name.len().is_multiple_of(4)) {
        Some(name) => Ok((name.to_owned(), (at + length).next_multiple_of(4))),
        None => Err(number(
            "the length of the kernel's name",
            length as u64,
            "text, and not a multiple of 4",
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
                    .filter(|at| *at < MOST_CONSTANTS * 4)
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
        if dword >= MOST_CONSTANTS as usize {
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
    use super::*;

    /// A kernel with two buffers, a number, an image that is read and one that is written.
    fn binary() -> Binary {
        let value = |at| Argument::Value { at };
        let mut code = vec![0; 16];
        // `end` behind a nop.
        code[1] = 0x0300_0000_0000_0000;
        Binary {
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
            constants: vec![0, 0, 0, 0, 0, 0, 7, 9],
            entry: 8,
            code,
        }
    }

    /// Where a section of some bytes is.
    fn at(bytes: &[u8], number: usize) -> usize {
        Reader(bytes).section(number).unwrap().0
    }

    fn put(bytes: &mut [u8], at: usize, word: u32) {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    #[test]
    fn what_is_written_is_read() {
        for name in ["k", "kernel", "long_name_of_it"] {
            for samplers in [0, 1] {
                let binary = Binary {
                    name: name.into(),
                    samplers,
                    ..binary()
                };
                let bytes = binary.to_bytes();
                assert!(Binary::is_like(&bytes));
                assert_eq!(Binary::parse(&bytes), Ok(binary));
            }
        }
        let none = Binary {
            constants: Vec::new(),
            arguments: Vec::new(),
            ..binary()
        };
        assert_eq!(Binary::parse(&none.to_bytes()), Ok(none));
        let four = Binary {
            name: "four".into(),
            ..binary()
        };
        let error = Binary::parse(&four.to_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("name is 4, expected text, and no"),
            "{error}"
        );
    }

    #[test]
    fn half_constants_share_a_dword() {
        let mut bytes = binary().to_bytes();
        let constants = at(&bytes, CONSTANTS);
        for (i, [value, place, is_dword]) in [[7, 32, 1], [3, 161, 0], [5, 160, 0]]
            .into_iter()
            .enumerate()
        {
            let at = constants + i * CONSTANT;
            put(&mut bytes, at, value);
            put(&mut bytes, at + 16, place);
            put(&mut bytes, at + 24, is_dword);
        }
        let read = Binary::parse(&bytes).unwrap();
        assert_eq!((read.constants[32], read.constants[80]), (7, 3 << 16 | 5));
    }

    #[test]
    fn damage_is_an_error_and_never_more() {
        let good = binary().to_bytes();
        // Each byte, with each bit the other way, and every length.
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = Binary::parse(&bad);
            }
            let _ = Binary::parse(&good[..at]);
        }
        let with = |at: usize, word: u32| {
            let mut bad = good.clone();
            put(&mut bad, at, word);
            Binary::parse(&bad).unwrap_err().to_string()
        };
        let [constants, kernel] = [CONSTANTS, KERNEL].map(|number| at(&good, number));
        let section = |number: usize| SECTIONS_AT + number * SECTION;
        let first = kernel + NAME + 8 + SAMPLER;
        for (at, word, part) in [
            (COUNT_AT, 3, "sections is 3, expected 12 to 256"),
            (COUNT_AT, u32::MAX, "sections is 4294967295"),
            (section(CODE) + 4, u32::MAX, "truncated in its code"),
            (section(CODE_BYTES) + 8, 0, "length of the code"),
            (section(KERNEL) + 4, u32::MAX, "truncated in its"),
            (constants + 16, 1024, "place of a constant"),
            (constants + 24, 2, "size of a constant"),
            (kernel + SAMPLERS, 2, "number of samplers"),
            (kernel + NAME, 0, "length of the kernel's name"),
            (first, 8, "length of an argument"),
            (first + 12, 1 << 30, "place of an argument"),
            (first + 28, 4, "kind of an argument"),
        ] {
            let text = with(at, word);
            assert!(text.contains(part), "{at:#x} = {word:#x}: {text}");
        }
        assert!(Binary::parse(&[]).is_err());
    }
}
