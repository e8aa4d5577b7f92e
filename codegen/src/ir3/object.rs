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
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// They are not what [`Object::encode`] gives.
    pub fn decode(bytes: &[u8]) -> Result<Object, ObjectError> {
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
        Ok(Object {
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
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_and_cut_ones_do_not() {
        let object = Object {
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
        };
        let bytes = object.encode();
        assert_eq!(Object::decode(&bytes), Ok(object.clone()));
        assert!(object.disassemble().contains("c1.x = 0x00000007"));
        for n in 0..bytes.len() {
            assert!(Object::decode(&bytes[..n]).is_err(), "{n} bytes");
        }
    }
}
