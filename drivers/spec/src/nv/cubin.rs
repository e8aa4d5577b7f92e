//! Cubins: the ELF files in which NVIDIA's compilers put kernels, and what a launch has to know of them.
//!
//! [`Cubin::parse`] lays the sections that a GPU reads out as one image; [`Cubin::at`] puts addresses in.
//! Parsing is pure, and files are not trusted: every size is checked before it is used.
//!
//! Source: what ptxas and NVRTC 12.9 and 13.5 write for sm_80 to sm_120; names of attributes and
//! relocations as cuobjdump prints them. No document of NVIDIA describes the format.

mod info;
mod kernel;
mod relocation;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use object::LittleEndian;
use object::elf::{SHF_ALLOC, SHT_NOBITS, SHT_REL, SHT_RELA};
use object::read::elf::{ElfFile64, ElfSection64, FileHeader, SectionHeader};
use object::{Object, ObjectSection, SectionIndex};

use relocation::Address;

/// `EM_CUDA`.
const MACHINE: u16 = 190;
/// The most that an image may take: 64 MiB.
const LARGEST: u64 = 64 << 20;
/// Bytes behind the code that instruction fetches may touch.
///
/// Source: tinygrad, `ops_nv.py`: programs are followed by a page, or fetches ahead fault.
const PREFETCH: u64 = 0x1000;

/// Where constant bank 0 has what a launch tells a kernel, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bank0 {
    /// Threads of a block along x, y and z, a dword each.
    pub block: u32,
    /// Blocks of the grid along x, y and z, a dword each.
    pub grid: u32,
    /// Where shared memory lies among generic addresses, 64 bits; `None` where a register says so.
    pub shared_window: Option<u32>,
    /// Where local memory lies among generic addresses, 64 bits.
    pub local_window: u32,
    /// The first value of a thread's stack pointer, an address in local memory.
    pub stack: u32,
    /// The descriptor of accesses to global memory, 64 bits; 0 is one that works.
    pub descriptor: u32,
    /// Parameters.
    pub params: u32,
    /// Where parameters lie among generic addresses, 64 bits: what is handed on by its address, as tensor maps are.
    /// `None` where that is not known.
    ///
    /// Source: code of ptxas 13.5 for sm_90 adds to it how far behind the first parameter one lies. UNKNOWN on a card.
    pub param_window: Option<u32>,
}

const AMPERE: Bank0 = Bank0 {
    block: 0,
    grid: 0xc,
    shared_window: Some(0x18),
    local_window: 0x20,
    stack: 0x28,
    descriptor: 0x118,
    params: 0x160,
    param_window: None,
};
const HOPPER: Bank0 = Bank0 {
    shared_window: None,
    descriptor: 0x208,
    params: 0x210,
    param_window: Some(0x198),
    ..AMPERE
};
const BLACKWELL: Bank0 = Bank0 {
    block: 0x360,
    grid: 0x370,
    shared_window: Some(0x2f0),
    local_window: 0x2f8,
    stack: 0x37c,
    descriptor: 0x358,
    params: 0x380,
    param_window: None,
};

/// The layout for a generation, by the number that compilers have for it (86, 120, ...); `None` for those
/// that are not known.
pub const fn bank0(sm: u32) -> Option<&'static Bank0> {
    match sm {
        80..=89 => Some(&AMPERE),
        90 => Some(&HOPPER),
        100..=121 => Some(&BLACKWELL),
        _ => None,
    }
}

/// Bytes at the beginning of the shared memory of a block that are the system's. From Hopper on addresses
/// count them, and sections of shared memory hold them.
pub const SHARED_RESERVED: u32 = 0x400;

/// Whether addresses of shared memory begin behind [`SHARED_RESERVED`].
pub const fn shared_is_reserved(sm: u32) -> bool {
    sm >= 90
}

/// Why a file is no cubin that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CubinError {
    /// Not an ELF file, or a damaged one.
    #[error("expected a cubin, a 64-bit ELF file: {0}")]
    Malformed(String),
    /// An ELF file of another kind.
    #[error("{what} is {found:#x}, expected {expected}")]
    Kind {
        /// Which field.
        what: &'static str,
        /// What was there.
        found: u32,
        /// What can be loaded.
        expected: &'static str,
    },
    /// A section that cannot be used.
    #[error("section {section}: {why}")]
    Section {
        /// Its name.
        section: String,
        /// What was there, and what is possible.
        why: String,
    },
    /// A relocation that cannot be applied.
    #[error("relocation at {section}+{offset:#x} against {symbol}: {why}")]
    Relocation {
        /// The section that it changes.
        section: String,
        /// Where in the section.
        offset: u64,
        /// What it refers to.
        symbol: String,
        /// What is wrong.
        why: String,
    },
    /// A kernel that is not there, or whose description is wrong.
    #[error("kernel {kernel}: {why}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// What was there, and what is expected.
        why: String,
    },
}

type Result<T, E = CubinError> = std::result::Result<T, E>;

impl From<object::Error> for CubinError {
    fn from(error: object::Error) -> Self {
        CubinError::Malformed(error.to_string())
    }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// Where it lies among the parameters, in bytes.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
}

/// A kernel of a cubin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CubinKernel {
    /// Its symbol.
    pub name: String,
    /// Its first instruction, in bytes from the beginning of the image.
    pub entry: u64,
    /// Bytes of its code.
    pub code_bytes: u64,
    /// Registers of a thread.
    pub registers: u32,
    /// Barriers of a block.
    pub barriers: u32,
    /// Shared memory of a block, without what is the system's.
    pub shared_bytes: u32,
    /// Local memory of a thread: its stack, and that of what it calls.
    pub local_bytes: u32,
    /// Where its parameters begin in constant bank 0.
    pub param_base: u32,
    /// Bytes of its parameters.
    pub param_bytes: u32,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Bytes of constant bank 0 that it reads at most.
    pub bank0_bytes: u32,
    /// Other constant banks: their numbers, and where their bytes lie in the image.
    pub banks: Vec<(u8, Range<u64>)>,
    /// Threads of a block along x, y and z at most, if it says so.
    pub max_threads: Option<[u32; 3]>,
}

/// A cubin, laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cubin {
    /// The generation that it is for, as compilers count: 86, 120, ...
    pub sm: u32,
    /// Its kernels.
    pub kernels: Vec<CubinKernel>,
    image: Vec<u8>,
    addresses: Vec<Address>,
}

impl Cubin {
    /// The alignment of the image's address: that of code.
    pub const ALIGN: u64 = 128;

    /// Lays a cubin out, and reads what it says of its kernels.
    ///
    /// # Errors
    /// [`CubinError`].
    pub fn parse(bytes: &[u8]) -> Result<Cubin> {
        let file = ElfFile64::<LittleEndian>::parse(bytes)?;
        let sm = generation(&file)?;
        check_disjoint(&file)?;
        let placed = Image::of(&file)?;
        let addresses = placed.addresses(&file)?;
        let kernels = kernel::kernels(&placed, &file, sm)?;
        Ok(Cubin {
            sm,
            kernels,
            image: placed.image,
            addresses,
        })
    }

    /// Bytes of the image.
    pub fn bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// What lies at `base`, a multiple of [`Cubin::ALIGN`].
    pub fn at(&self, base: u64) -> Cow<'_, [u8]> {
        if self.addresses.is_empty() {
            return Cow::Borrowed(&self.image);
        }
        let mut image = self.image.clone();
        for address in &self.addresses {
            address.write(base, &mut image);
        }
        Cow::Owned(image)
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// [`CubinError::Kernel`], which names those that are there.
    pub fn kernel(&self, name: &str) -> Result<&CubinKernel> {
        let found = self.kernels.iter().find(|kernel| kernel.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self
                .kernels
                .iter()
                .take(8)
                .map(|k| shown(&k.name))
                .collect();
            CubinError::Kernel {
                kernel: shown(name),
                why: match names.as_slice() {
                    [] => "the cubin has no kernels".into(),
                    names => format!("no such kernel; the cubin has {}", names.join(", ")),
                },
            }
        })
    }
}

/// A name of a file for messages: it may be of any length.
fn shown(name: &str) -> String {
    match name.char_indices().nth(80) {
        None => name.escape_debug().to_string(),
        Some((end, _)) => format!("{}...", name[..end].escape_debug()),
    }
}

type File<'d> = ElfFile64<'d, LittleEndian>;

/// The generation of a file. Newer compilers write another version of the header, in which its number
/// lies elsewhere.
fn generation(file: &File<'_>) -> Result<u32> {
    let header = file.elf_header();
    let machine = header.e_machine(LittleEndian).0;
    if machine != MACHINE {
        return Err(CubinError::Kind {
            what: "the machine",
            found: machine.into(),
            expected: "190 (CUDA)",
        });
    }
    let flags = header.e_flags(LittleEndian).0;
    let sm = match header.e_ident().abi_version {
        7 => flags & 0xff,
        8 => flags >> 8 & 0xff,
        other => {
            return Err(CubinError::Kind {
                what: "the version of the ABI",
                found: other.into(),
                expected: "7 or 8 (CUDA 11 to 13)",
            });
        }
    };
    match bank0(sm) {
        Some(_) => Ok(sm),
        None => Err(CubinError::Kind {
            what: "the generation",
            found: sm,
            expected: "sm_80 to sm_121",
        }),
    }
}

type Section<'d, 'f> = ElfSection64<'d, 'f, LittleEndian>;

/// Checks that what is read of a file lies there once: else a small file could say much, again and again.
fn check_disjoint(file: &File<'_>) -> Result<()> {
    let mut read = Vec::new();
    for section in file.sections() {
        let kind = section.elf_section_header().sh_type(LittleEndian);
        let name = section.name()?;
        let of_use = [".text.", ".nv.info", ".nv.constant", ".nv.global"];
        let of_use = [SHT_REL, SHT_RELA].contains(&kind)
            || of_use.iter().any(|prefix| name.starts_with(prefix));
        if let Some((start, size)) = section.file_range().filter(|&(_, size)| of_use && size > 0) {
            read.push((start, start.saturating_add(size), name));
        }
    }
    read.sort_unstable();
    let over = read.windows(2).find(|pair| pair[0].1 > pair[1].0);
    match over {
        None => Ok(()),
        Some(pair) => Err(CubinError::Section {
            section: shown(pair[1].2),
            why: format!("overlaps section {}", shown(pair[0].2)),
        }),
    }
}

/// The sections that are looked for by their names.
fn by_name<'d, 'f>(file: &'f File<'d>) -> Result<HashMap<&'d str, Section<'d, 'f>>> {
    let mut sections = HashMap::new();
    for section in file.sections() {
        let name = section.name()?;
        let ours = name.starts_with(".text.") || name.starts_with(".nv.");
        if sections.insert(name, section).is_some() && ours {
            return Err(CubinError::Section {
                section: shown(name),
                why: "two sections have this name".into(),
            });
        }
    }
    Ok(sections)
}

/// Sections in an image.
struct Image {
    image: Vec<u8>,
    at: HashMap<SectionIndex, u64>,
}

/// The bank of a section of constants, and whose it is: `.nv.constant2.name`.
fn constants(name: &str) -> Option<(u8, &str)> {
    let rest = name.strip_prefix(".nv.constant")?;
    let (bank, kernel) = rest.split_once('.').unwrap_or((rest, ""));
    // Written in one way: of each there is one then.
    let number: u8 = bank.parse().ok()?;
    (number.to_string() == bank).then_some((number, kernel))
}

impl Image {
    /// Code, constants but those of launches, and variables; not shared memory, which has no bytes.
    fn of(file: &File<'_>) -> Result<Image> {
        let mut image = Vec::new();
        let mut at = HashMap::new();
        for section in file.sections() {
            let header = section.elf_section_header();
            let name = section.name()?;
            let wrong = |why: String| CubinError::Section {
                section: shown(name),
                why,
            };
            let loaded = name.starts_with(".text.")
                || name.starts_with(".nv.global")
                || constants(name).is_some_and(|(bank, _)| bank != 0);
            let flags = header.sh_flags(LittleEndian).0;
            if flags & SHF_ALLOC.0 == 0 || !loaded {
                continue;
            }
            let (size, align) = (section.size(), section.align().max(1));
            if !align.is_power_of_two() || align > 0x1000 {
                return Err(wrong(format!("unsupported alignment {align:#x}")));
            }
            let start = (image.len() as u64).next_multiple_of(align.max(Cubin::ALIGN));
            if size > LARGEST || start + size > LARGEST {
                return Err(wrong(format!(
                    "{size:#x} bytes, expected at most {LARGEST:#x}"
                )));
            }
            image.resize(start as usize, 0);
            if header.sh_type(LittleEndian) == SHT_NOBITS {
                image.resize((start + size) as usize, 0);
            } else {
                image.extend_from_slice(section.data()?);
            }
            at.insert(section.index(), start);
        }
        let end = (image.len() as u64).next_multiple_of(Cubin::ALIGN) + PREFETCH;
        image.resize(end as usize, 0);
        Ok(Image { image, at })
    }

    /// Bytes of a section.
    fn bytes(&self, file: &File<'_>, index: SectionIndex) -> Option<u64> {
        Some(file.section_by_index(index).ok()?.size())
    }
}
