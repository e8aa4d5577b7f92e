//! [`Builtin`]: kernels of the driver that copy and fill, since a context has no engine that does.
//!
//! A fiber moves one unit. Constants c0.xy are the address that is written, c0.zw the one that is read, or for fills
//! c0.z the word; c1.x and c1.y the shifts of [`Kernel::CopyShift`], c1.x the bytes of [`Kernel::CopyOpen`]. Groups of
//! [`GROUP`] fibers do most of the work, a smaller group the rest, so no fiber checks whether it is needed.
//!
//! `words` are those of codegen's assembler for `text`: a test compares.

mod open;

use drivers_spec::qcom::chip::Chip;
use drivers_spec::qcom::regs::SHARED_REGISTERS;

use super::launch::{self, Launch};
use crate::object::{Error, Object, flags};

pub use open::LEAST as OPEN_LEAST;

/// Fibers of a group: the text shifts a group's number by 7.
pub const GROUP: u32 = 128;

/// The alignment of a kernel's code.
///
/// Source: Mesa, src/freedreno/ir3, `instr_align` and the uploads of turnip: 128 bytes.
pub const CODE_ALIGN: u64 = 128;

/// Bytes behind code that may be prefetched: they have to be mapped.
pub const FETCHED: u64 = 4096;

/// A kernel of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// Copies 16 bytes between multiples of 4.
    CopyWide,
    /// Copies 16 bytes to a multiple of 4 from an address that is none: constants are the address rounded down, and by how
    /// many bits a dword is shifted right and the next one left.
    CopyShift,
    /// Copies a byte.
    CopyByte,
    /// Copies 16 bytes to a multiple of 16, from any address, where addresses are known to the kernel alone: those behind
    /// the first multiple of 16 by its number, and a byte of the first and the last few, which are in no whole unit. Fibers
    /// beyond the last unit copy that one, too. There are [`OPEN_LEAST`] bytes at least.
    CopyOpen,
    /// Fills 16 bytes at a multiple of 4.
    FillWide,
    /// Fills 4 bytes.
    FillWord,
}

/// The fiber's number in r0.x, from the group's number in r48.x and its place in the group in r0.x; then `shift`ed left,
/// in r0.x as an offset. The addresses behind it are in r1.xy (written) and r1.zw (read).
macro_rules! text {
    ($shift:literal, $($rest:literal),*) => {
        concat!(
            "shl.b r0.y, r48.x, 7\n(rpt2)nop\nadd.u r0.x, r0.x, r0.y\n(rpt2)nop\nshl.b r0.x, r0.x, ", $shift, "\n(rpt2)nop\n",
            "add.u r1.x, c0.x, r0.x\nadd.u r1.z, c0.z, r0.x\n(rpt2)nop\n",
            "cmps.u.lt r0.y, r1.x, c0.x\ncmps.u.lt r0.z, r1.z, c0.z\n(rpt2)nop\n",
            "add.u r1.y, c0.y, r0.y\nadd.u r1.w, c0.w, r0.z\n(rpt5)nop\n",
            $($rest, "\n",)*
            "end\n(rpt4)nop\nnop\nnop\nnop"
        )
    };
}

impl Kernel {
    /// All.
    pub const ALL: [Kernel; 6] = [
        Kernel::CopyWide,
        Kernel::CopyShift,
        Kernel::CopyByte,
        Kernel::CopyOpen,
        Kernel::FillWide,
        Kernel::FillWord,
    ];

    /// Bytes that a fiber moves.
    pub const fn unit(self) -> u64 {
        match self {
            Kernel::CopyWide | Kernel::CopyShift | Kernel::CopyOpen | Kernel::FillWide => 16,
            Kernel::CopyByte => 1,
            Kernel::FillWord => 4,
        }
    }

    /// Its instructions as text.
    pub const fn text(self) -> &'static str {
        match self {
            Kernel::CopyWide => text!(
                "4",
                "ldg.u32 r2.x, g[r1.z], 4",
                "(sy)stg.u32 g[r1.x], r2.x, 4"
            ),
            Kernel::CopyShift => text!(
                "4",
                "ldg.u32 r2.x, g[r1.z], 4",
                "ldg.u32 r3.x, g[r1.z+16], 1",
                "(sy)shr.b r4.x, r2.x, c1.x",
                "shr.b r4.y, r2.y, c1.x",
                "shr.b r4.z, r2.z, c1.x",
                "shr.b r4.w, r2.w, c1.x",
                "shl.b r5.x, r2.y, c1.y",
                "shl.b r5.y, r2.z, c1.y",
                "shl.b r5.z, r2.w, c1.y",
                "shl.b r5.w, r3.x, c1.y",
                "or.b r4.x, r4.x, r5.x",
                "or.b r4.y, r4.y, r5.y",
                "or.b r4.z, r4.z, r5.z",
                "or.b r4.w, r4.w, r5.w",
                "(rpt5)nop",
                "stg.u32 g[r1.x], r4.x, 4"
            ),
            Kernel::CopyByte => text!(
                "0",
                "ldg.u8 hr4.x, g[r1.z], 1",
                "(sy)stg.u8 g[r1.x], hr4.x, 1"
            ),
            Kernel::CopyOpen => open::TEXT,
            Kernel::FillWide => text!(
                "4",
                "mov.u32u32 r2.x, c0.z",
                "mov.u32u32 r2.y, c0.z",
                "mov.u32u32 r2.z, c0.z",
                "mov.u32u32 r2.w, c0.z",
                "(rpt5)nop",
                "stg.u32 g[r1.x], r2.x, 4"
            ),
            Kernel::FillWord => text!(
                "2",
                "mov.u32u32 r2.x, c0.z",
                "(rpt5)nop",
                "stg.u32 g[r1.x], r2.x, 1"
            ),
        }
    }

    /// Its instructions.
    pub const fn words(self) -> &'static [u64] {
        match self {
            Kernel::CopyWide => COPY_WIDE,
            Kernel::CopyShift => COPY_SHIFT,
            Kernel::CopyByte => COPY_BYTE,
            Kernel::CopyOpen => open::WORDS,
            Kernel::FillWide => FILL_WIDE,
            Kernel::FillWord => FILL_WORD,
        }
    }

    /// Where its code starts in [`code`], in bytes.
    fn offset(self) -> u64 {
        let before = Kernel::ALL.iter().take_while(|one| **one != self);
        before.map(|one| room(*one)).sum()
    }
}

const COPY_WIDE: &[u64] = &[
    0x46d00001_200700c0,
    0x00000200_00000000,
    0x42100000_00010000,
    0x00000200_00000000,
    0x46d00000_20040000,
    0x00000200_00000000,
    0x42100004_00001000,
    0x42100006_00001002,
    0x00000200_00000000,
    0x42900001_10000004,
    0x42900002_10020006,
    0x00000200_00000000,
    0x42100005_00011001,
    0x42100007_00021003,
    0x00000500_00000000,
    0xc0060008_04818001,
    0xd0c60900_04800010,
    0x03000000_00000000,
    0x00000400_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
];
const COPY_SHIFT: &[u64] = &[
    0x46d00001_200700c0,
    0x00000200_00000000,
    0x42100000_00010000,
    0x00000200_00000000,
    0x46d00000_20040000,
    0x00000200_00000000,
    0x42100004_00001000,
    0x42100006_00001002,
    0x00000200_00000000,
    0x42900001_10000004,
    0x42900002_10020006,
    0x00000200_00000000,
    0x42100005_00011001,
    0x42100007_00021003,
    0x00000500_00000000,
    0xc0060008_04818001,
    0xc006000c_01818021,
    0x56f00010_10040008,
    0x46f00011_10040009,
    0x46f00012_1004000a,
    0x46f00013_1004000b,
    0x46d00014_10050009,
    0x46d00015_1005000a,
    0x46d00016_1005000b,
    0x46d00017_1005000c,
    0x43b00010_00140010,
    0x43b00011_00150011,
    0x43b00012_00160012,
    0x43b00013_00170013,
    0x00000500_00000000,
    0xc0c60900_04800020,
    0x03000000_00000000,
    0x00000400_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
];
const COPY_BYTE: &[u64] = &[
    0x46d00001_200700c0,
    0x00000200_00000000,
    0x42100000_00010000,
    0x00000200_00000000,
    0x46d00000_20000000,
    0x00000200_00000000,
    0x42100004_00001000,
    0x42100006_00001002,
    0x00000200_00000000,
    0x42900001_10000004,
    0x42900002_10020006,
    0x00000200_00000000,
    0x42100005_00011001,
    0x42100007_00021003,
    0x00000500_00000000,
    0xc00c0010_01818001,
    0xd0cc0900_01800020,
    0x03000000_00000000,
    0x00000400_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
];
const FILL_WIDE: &[u64] = &[
    0x46d00001_200700c0,
    0x00000200_00000000,
    0x42100000_00010000,
    0x00000200_00000000,
    0x46d00000_20040000,
    0x00000200_00000000,
    0x42100004_00001000,
    0x42100006_00001002,
    0x00000200_00000000,
    0x42900001_10000004,
    0x42900002_10020006,
    0x00000200_00000000,
    0x42100005_00011001,
    0x42100007_00021003,
    0x00000500_00000000,
    0x202cc008_00000002,
    0x202cc009_00000002,
    0x202cc00a_00000002,
    0x202cc00b_00000002,
    0x00000500_00000000,
    0xc0c60900_04800010,
    0x03000000_00000000,
    0x00000400_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
];
const FILL_WORD: &[u64] = &[
    0x46d00001_200700c0,
    0x00000200_00000000,
    0x42100000_00010000,
    0x00000200_00000000,
    0x46d00000_20020000,
    0x00000200_00000000,
    0x42100004_00001000,
    0x42100006_00001002,
    0x00000200_00000000,
    0x42900001_10000004,
    0x42900002_10020006,
    0x00000200_00000000,
    0x42100005_00011001,
    0x42100007_00021003,
    0x00000500_00000000,
    0x202cc008_00000002,
    0x00000500_00000000,
    0xc0c60900_01800010,
    0x03000000_00000000,
    0x00000400_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
];

fn room(kernel: Kernel) -> u64 {
    (kernel.words().len() as u64 * 8).next_multiple_of(CODE_ALIGN)
}

/// The code of all, to be placed at a multiple of [`CODE_ALIGN`] with [`FETCHED`] bytes behind it.
pub fn code() -> Vec<u8> {
    let mut code = Vec::new();
    for kernel in Kernel::ALL {
        code.resize(kernel.offset() as usize, 0);
        code.extend(kernel.words().iter().flat_map(|word| word.to_le_bytes()));
    }
    code
}

/// The kernels of a device, with their code in its memory.
#[derive(Clone, Debug)]
pub struct Builtin {
    /// The words of their launches.
    launches: [Box<[u32]>; Kernel::ALL.len()],
    /// Where their code is.
    code: u64,
}

impl Builtin {
    /// With the [`code`] at an address.
    ///
    /// # Errors
    /// [`Error::Number`]: never, for a chip of the tables.
    pub fn new(chip: &Chip, code: u64) -> Result<Builtin, Error> {
        let mut all = [const { Vec::new() }; Kernel::ALL.len()].map(Vec::into_boxed_slice);
        for (kernel, words) in Kernel::ALL.into_iter().zip(&mut all) {
            let object = Object {
                flags: flags::MERGED,
                full: match kernel {
                    Kernel::CopyOpen => 14,
                    _ => 6,
                },
                max_threads: GROUP,
                vectors: 2,
                argument_bytes: 32,
                group_id: SHARED_REGISTERS,
                local_id: 0,
                ..Object::new(kernel.words().to_vec())
            };
            *words = launch::words(chip, &object, code + kernel.offset())?;
        }
        Ok(Builtin {
            launches: all,
            code,
        })
    }

    /// The launch of a kernel.
    pub(super) fn launch(&self, kernel: Kernel) -> Option<Launch<'_>> {
        Launch::from_words(&self.launches[kernel as usize])
    }

    /// The kernel whose code starts at an address.
    pub fn at(&self, code: u64) -> Option<Kernel> {
        let mut all = Kernel::ALL.into_iter();
        all.find(|kernel| self.code + kernel.offset() == code)
    }
}

#[cfg(test)]
mod tests {
    use codegen::ir3;

    use super::*;

    #[test]
    fn words_are_those_of_the_text() {
        let mut wrong = String::new();
        for kernel in Kernel::ALL {
            let lines = kernel.text().lines();
            let words: Vec<u64> = lines
                .map(|line| ir3::encode(&line.parse().unwrap()).unwrap())
                .collect();
            if kernel.words() != words {
                let words: Vec<_> = words.iter().map(|word| format!("{word:#018x}")).collect();
                wrong += &format!("{kernel:?} {}\n", words.join(", "));
            }
        }
        assert!(wrong.is_empty(), "expected\n{wrong}");
    }
}
