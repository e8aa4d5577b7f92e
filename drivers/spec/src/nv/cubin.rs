//! Cubins: the ELF files in which NVIDIA's compilers put kernels, and what a launch has to know of them.
//!
//! [`Cubin::parse`] lays the sections that a GPU reads out as one image; [`Cubin::at`] puts addresses in.
//! Parsing is pure, and files are not trusted: every size is checked before it is used.
//!
//! Source: what ptxas and NVRTC 12.9 and 13.5 write for sm_80 to sm_120; names of attributes and
//! relocations as cuobjdump prints them. No document of NVIDIA describes the format.

mod info;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use object::LittleEndian;
use object::elf::{SHF_ALLOC, SHT_NOBITS};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex,
    SymbolFlags, SymbolIndex,
};

use info::Info;

/// `EM_CUDA`.
const MACHINE: u16 = 190;
/// `STO_CUDA_ENTRY` in the other bits of a symbol: it is a kernel.
const ENTRY: u8 = 0x10;
/// The most that an image may take: 64 MiB.
const LARGEST: u64 = 64 << 20;
/// The stack of a kernel that calls itself, of which the compiler knows no bound: what CUDA gives a thread that
/// did not ask for more.
///
/// Source: CUDA driver API, `cuCtxSetLimit`: CU_LIMIT_STACK_SIZE; the default is what `cuCtxGetLimit` returns.
const UNBOUNDED_STACK: u32 = 1024;
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
}

const AMPERE: Bank0 = Bank0 {
    block: 0,
    grid: 0xc,
    shared_window: Some(0x18),
    local_window: 0x20,
    stack: 0x28,
    descriptor: 0x118,
    params: 0x160,
};
const HOPPER: Bank0 = Bank0 {
    shared_window: None,
    descriptor: 0x208,
    params: 0x210,
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

/// A value that depends on where the image lies.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Address {
    at: usize,
    /// From the beginning of the image.
    target: u64,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Whole,
    /// The immediate of an instruction, its second dword.
    Low,
    High,
    /// What an instruction jumps to, in dwords, from bit 34 of it on.
    Jump,
    /// The same with its lowest byte at bit 16.
    SplitJump,
}

impl Part {
    /// Of a type of relocation, and how many bytes it changes.
    fn of(r_type: u32) -> Option<(Part, u64)> {
        Some(match r_type {
            // R_CUDA_64, and R_CUDA_G64, a generic address, which is the same for what is loaded.
            2 | 4 => (Part::Whole, 8),
            // R_CUDA_ABS32_LO_32, R_CUDA_ABS32_HI_32, R_CUDA_ABS47_34, R_CUDA_ABS55_16_34.
            0x38 => (Part::Low, 16),
            0x39 => (Part::High, 16),
            0x3a => (Part::Jump, 16),
            0x4b => (Part::SplitJump, 16),
            _ => return None,
        })
    }

    fn write(self, value: u64, place: &mut [u8]) {
        let put = |place: &mut [u8], bits: u128, mask: u128| {
            let Ok(old) = <[u8; 16]>::try_from(&*place) else {
                return;
            };
            let new = u128::from_le_bytes(old) & !mask | bits & mask;
            place.copy_from_slice(&new.to_le_bytes());
        };
        let (dword, high) = (
            u128::from(u32::MAX) << 32,
            u128::from((1u64 << 47) - 1) << 34,
        );
        let dwords = u128::from(value >> 2);
        match self {
            Part::Whole => place.copy_from_slice(&value.to_le_bytes()),
            Part::Low => put(place, u128::from(value) << 32, dword),
            Part::High => put(place, u128::from(value), dword),
            Part::Jump => put(place, dwords << 34, high),
            Part::SplitJump => {
                put(place, dwords << 16, 0xff << 16);
                put(place, dwords >> 8 << 34, high);
            }
        }
    }
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
        let placed = Placed::of(&file)?;
        let addresses = placed.addresses(&file)?;
        let kernels = placed.kernels(&file, sm)?;
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
        for Address { at, target, part } in &self.addresses {
            let bytes = if *part == Part::Whole { 8 } else { 16 };
            part.write(base.wrapping_add(*target), &mut image[*at..at + bytes]);
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

/// Sections in an image.
struct Placed {
    image: Vec<u8>,
    at: HashMap<SectionIndex, u64>,
}

/// The bank of a section of constants, and whose it is: `.nv.constant2.name`.
fn constants(name: &str) -> Option<(u8, &str)> {
    let rest = name.strip_prefix(".nv.constant")?;
    let (bank, kernel) = rest.split_once('.').unwrap_or((rest, ""));
    Some((bank.parse().ok()?, kernel))
}

impl Placed {
    /// Code, constants but those of launches, and variables; not shared memory, which has no bytes.
    fn of(file: &File<'_>) -> Result<Placed> {
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
                return Err(wrong(format!("it is aligned to {align:#x}")));
            }
            let start = (image.len() as u64).next_multiple_of(align.max(Cubin::ALIGN));
            if size > LARGEST || start + size > LARGEST {
                return Err(wrong(format!("{size:#x} bytes, the most is {LARGEST:#x}")));
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
        Ok(Placed { image, at })
    }

    /// What has to be written where. Of what is not loaded (debug information) nothing is.
    fn addresses(&self, file: &File<'_>) -> Result<Vec<Address>> {
        let mut out = Vec::new();
        for section in file.sections() {
            let Some(&start) = self.at.get(&section.index()) else {
                continue;
            };
            for (offset, relocation) in section.relocations() {
                let symbol = match relocation.target() {
                    RelocationTarget::Symbol(index) => Some(file.symbol_by_index(index)?),
                    _ => None,
                };
                let name = symbol.as_ref().and_then(|s| s.name().ok()).unwrap_or("");
                let wrong = |why: String| CubinError::Relocation {
                    section: shown(section.name().unwrap_or("")),
                    offset,
                    symbol: shown(name),
                    why,
                };
                let RelocationFlags::Elf { r_type } = relocation.flags() else {
                    return Err(wrong("it is not one of ELF".into()));
                };
                if r_type.0 == 0 {
                    continue;
                }
                let Some((part, bytes)) = Part::of(r_type.0) else {
                    return Err(wrong(format!(
                        "type {:#x} is not known, expected R_CUDA_64, G64, ABS32_LO_32, ABS32_HI_32, ABS47_34 or \
                         ABS55_16_34",
                        r_type.0
                    )));
                };
                let of = symbol.as_ref().and_then(|s| s.section_index());
                let Some(target) = of.and_then(|of| self.at.get(&of)) else {
                    return Err(wrong(
                        "it is not in the file, or in no memory that is loaded: printf, assert and malloc are \
                         not there"
                            .into(),
                    ));
                };
                let at = start.saturating_add(offset);
                let end = at.saturating_add(bytes);
                if end > (start + section.size()).min(self.image.len() as u64) {
                    return Err(wrong("it is behind the end of the section".into()));
                }
                let value = symbol.map_or(0, |s| s.address());
                let addend = match relocation.has_implicit_addend() {
                    true if bytes == 8 => {
                        let place = &self.image[at as usize..end as usize];
                        i64::from_le_bytes(place.try_into().unwrap_or_default())
                    }
                    true => 0,
                    false => relocation.addend(),
                };
                out.push(Address {
                    at: at as usize,
                    target: target.wrapping_add(value).wrapping_add_signed(addend),
                    part,
                });
            }
        }
        Ok(out)
    }

    fn kernels(&self, file: &File<'_>, sm: u32) -> Result<Vec<CubinKernel>> {
        let sections: HashMap<&str, _> = file
            .sections()
            .filter_map(|section| Some((section.name().ok()?, section)))
            .collect();
        let global = match sections.get(".nv.info") {
            Some(section) => info::global(section.data()?)?,
            None => HashMap::new(),
        };
        let mut kernels = Vec::new();
        for (name, section) in &sections {
            let Some(kernel) = name.strip_prefix(".nv.info.") else {
                continue;
            };
            let wrong = |why: String| CubinError::Kernel {
                kernel: shown(kernel),
                why,
            };
            let own = Info::of(section.data()?)?;
            let Some(code) = sections.get(&*format!(".text.{kernel}")) else {
                return Err(wrong(format!("it has no section .text.{kernel}")));
            };
            let symbol = file
                .symbols()
                .find(|s| s.name() == Ok(kernel) && s.section_index() == Some(code.index()));
            let Some(symbol) = symbol else {
                return Err(wrong("its code has no symbol of that name".into()));
            };
            // Others are functions that kernels call.
            let SymbolFlags::Elf { st_other, .. } = symbol.flags() else {
                continue;
            };
            if st_other.0 & ENTRY == 0 {
                continue;
            }
            let SymbolIndex(number) = symbol.index();
            let of_symbol = global.get(&(number as u32)).copied().unwrap_or_default();
            let Some(registers) = of_symbol.registers.filter(|n| (1..=255).contains(n)) else {
                return Err(wrong(format!(
                    "registers (EIATTR_REGCOUNT): {:?}, expected 1 to 255",
                    of_symbol.registers
                )));
            };
            let size = |section: &str| {
                let name = format!("{section}{kernel}");
                sections.get(&*name).map_or(0, |s| s.size())
            };
            let small = |what: &str, n: u64| {
                let fits = u32::try_from(n).ok().filter(|&n| u64::from(n) <= LARGEST);
                fits.ok_or_else(|| wrong(format!("{n:#x} bytes of {what}")))
            };
            let shared = small("shared memory", size(".nv.shared."))?;
            let shared = match shared_is_reserved(sm) {
                true => shared.saturating_sub(SHARED_RESERVED),
                false => shared,
            };
            let header = code.elf_section_header();
            // Where no attribute says so, it is in the flags of the section.
            let in_flags = (header.sh_flags(LittleEndian).0 >> 20 & 0x7f) as u32;
            let expected = bank0(sm).map_or(0, |layout| layout.params);
            let (param_base, param_bytes) = own.bank.unwrap_or((expected, own.param_bytes));
            if param_base != expected {
                return Err(wrong(format!(
                    "parameters at {param_base:#x} of constant bank 0, expected {expected:#x} for sm_{sm}"
                )));
            }
            let Some(&start) = self.at.get(&code.index()) else {
                return Err(wrong("its code is not loaded".into()));
            };
            let mut banks: Vec<(u8, Range<u64>)> = sections
                .iter()
                .filter_map(|(name, section)| {
                    let (bank, of) = constants(name)?;
                    let at = *self.at.get(&section.index())?;
                    (of.is_empty() || of == kernel).then(|| (bank, at..at + section.size()))
                })
                .collect();
            banks.sort_by_key(|(bank, _)| *bank);
            let end = param_base + param_bytes;
            kernels.push(CubinKernel {
                name: (*kernel).to_owned(),
                entry: start.saturating_add(symbol.address()),
                code_bytes: code.size(),
                registers,
                barriers: own.barriers.unwrap_or(in_flags),
                shared_bytes: shared,
                local_bytes: match of_symbol.stack {
                    u32::MAX => UNBOUNDED_STACK,
                    stack => small("local memory", stack.into())?,
                },
                param_base,
                param_bytes,
                params: own.params,
                bank0_bytes: small("constants", size(".nv.constant0."))?.max(end),
                banks,
                max_threads: own.max_threads,
            });
        }
        kernels.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(kernels)
    }
}
