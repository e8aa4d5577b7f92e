//! LLVM ELF objects to executable images.
//!
//! [`CodeObject::parse`] lays out an AMDGPU object, linked or not, as one image. [`CodeObject::at`] relocates it for
//! its load address. Parsing is pure, and objects are untrusted: every size is checked before use, and unknown
//! contents are rejected by name. The code itself is not checked.
//!
//! | file | idea |
//! |---|---|
//! | `layout` | sections or segments to an image |
//! | `relocate` | what relocations write |
//! | [`metadata`] | the note that describes kernels |
//! | [`kernel`] | a kernel, from its descriptor and its metadata |
//!
//! Source: LLVM, AMDGPUUsage, "Code Object"; BinaryFormat/ELF.h.

pub mod kernel;
mod layout;
pub mod metadata;
mod relocate;

use std::borrow::Cow;

use object::Endianness;
use object::read::elf::{ElfFile64, FileHeader};

pub use kernel::KernelInfo;

use crate::chip::{CHIPS, Chip};
use relocate::Absolute;

/// The most that an image may take: 64 MiB.
const LARGEST: u64 = 64 << 20;

/// Bytes after an image that instruction prefetches may read.
///
/// Source: LLVM, AMDGPUUsage, "kernel descriptor", INST_PREF_SIZE: prefetches run past the end.
const PREFETCH: u64 = 256;

/// Why an object cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Not an ELF file, or a damaged one.
    #[error("expected a 64-bit ELF object: {0}")]
    Malformed(String),
    /// An ELF file of another kind.
    #[error("{what} is {found:#x}, expected {expected}")]
    Kind {
        /// Which field of the header.
        what: &'static str,
        /// The actual value.
        found: u32,
        /// What can be loaded.
        expected: &'static str,
    },
    /// Made for another chip.
    #[error("compiled for {object}, but the device is {device}: compile it for {device}")]
    Chip {
        /// The chip of the object.
        object: String,
        /// The chip of the device.
        device: &'static str,
    },
    /// A section or segment that cannot be placed.
    #[error("{section}: {why}")]
    Section {
        /// Its name, or its number.
        section: String,
        /// The actual value, and the supported ones.
        why: String,
    },
    /// A symbol that cannot be used.
    #[error("symbol {symbol}: {why}")]
    Symbol {
        /// Its name.
        symbol: String,
        /// The found and the expected value.
        why: String,
    },
    /// A relocation that cannot be applied.
    #[error("relocation at {section}+{offset:#x} against {symbol}: {why}")]
    Relocation {
        /// The section that it changes.
        section: String,
        /// Where in the section.
        offset: u64,
        /// Its target.
        symbol: String,
        /// The error.
        why: String,
    },
    /// A kernel whose description is wrong, or that this chip cannot start.
    #[error("kernel {kernel}: {why}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// The found and the expected value.
        why: String,
    },
    /// Metadata that cannot be read.
    #[error("kernel metadata: {0}")]
    Metadata(String),
}

/// The result of loading.
pub type Result<T, E = ObjectError> = std::result::Result<T, E>;

impl From<object::Error> for ObjectError {
    fn from(error: object::Error) -> Self {
        ObjectError::Malformed(error.to_string())
    }
}

/// An object, laid out.
#[derive(Debug, Clone)]
pub struct CodeObject {
    image: Vec<u8>,
    align: u64,
    absolute: Vec<Absolute>,
    /// The kernels, by name.
    pub kernels: Vec<KernelInfo>,
}

impl CodeObject {
    /// Lays an object out and finds its kernels.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn parse(bytes: &[u8], chip: &Chip) -> Result<CodeObject> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        let header = check_header(&file, chip)?;
        let placed = if header.e_type(file.endian()).0 == ET_REL {
            layout::sections(&file)?
        } else {
            layout::segments(&file)?
        };
        let described = metadata::find(&file)?;
        let kernels = kernel::find(&placed, described)?;
        Ok(CodeObject {
            image: placed.image,
            align: placed.align,
            absolute: placed.absolute,
            kernels,
        })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// The alignment of its address, a power of two.
    pub fn align(&self) -> u64 {
        self.align
    }

    /// The image for the address `base`, a multiple of [`CodeObject::align`].
    ///
    /// # Errors
    /// [`ObjectError::Relocation`] if an address does not fit its field.
    pub fn at(&self, base: u64) -> Result<Cow<'_, [u8]>> {
        if self.absolute.is_empty() {
            return Ok(Cow::Borrowed(&self.image));
        }
        let mut image = self.image.clone();
        for absolute in &self.absolute {
            absolute.apply(base, &mut image)?;
        }
        Ok(Cow::Owned(image))
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// [`ObjectError::Symbol`], which names the kernels that are there.
    pub fn kernel(&self, name: &str) -> Result<&KernelInfo> {
        let found = self.kernels.iter().find(|kernel| kernel.name == name);
        found.ok_or_else(|| {
            let names = self.kernels.iter().map(|k| shown(&k.name));
            let names: Vec<_> = names.take(MOST_NAMES).collect();
            let why = match (names.as_slice(), self.kernels.len() - names.len()) {
                ([], _) => "the object has no kernels".into(),
                (names, 0) => format!("no such kernel; the object has {}", names.join(", ")),
                (names, more) => format!(
                    "no such kernel; the object has {} and {more} more",
                    names.join(", ")
                ),
            };
            ObjectError::Symbol {
                symbol: shown(&format!("{name}.kd")),
                why,
            }
        })
    }
}

/// A name of an object for messages: what an object calls its symbols may be of any length, hold
/// anything, and be named by each of its relocations.
fn shown(name: &str) -> String {
    const MOST: usize = 120;
    let plain = name.chars().map(|c| if c.is_control() { '?' } else { c });
    match name.char_indices().nth(MOST) {
        None => plain.collect(),
        Some(_) => plain.take(MOST).chain(['.'; 3]).collect(),
    }
}

/// Maximum number of names in a message.
const MOST_NAMES: usize = 32;

/// `e_machine` of AMD GPUs.
const EM_AMDGPU: u16 = 224;
/// `e_type`: relocatable.
const ET_REL: u16 = 1;
/// `e_type`: shared object.
const ET_DYN: u16 = 3;
/// `EI_OSABI`: kernels with descriptors of HSA; other runtimes have others.
const ELFOSABI_AMDGPU_HSA: u8 = 64;
/// `EI_ABIVERSION`: code objects of version 4, 5 and 6, with the same flags.
const ABI_VERSIONS: [u8; 3] = [2, 3, 4];
/// `e_flags`: the chip.
const EF_AMDGPU_MACH: u32 = 0xff;
/// `e_flags`: whether page faults can be replayed.
const EF_AMDGPU_FEATURE_XNACK_V4: u32 = 0x300;
/// `e_flags`: it only runs where they are.
const EF_AMDGPU_FEATURE_XNACK_ON_V4: u32 = 0x300;
/// `e_flags`: whether SRAM has ECC, by which loads of 16 bits keep the other half of a register or do
/// not.
const EF_AMDGPU_FEATURE_SRAMECC_V4: u32 = 0xc00;
/// `e_flags`: it only runs where SRAM has none.
const EF_AMDGPU_FEATURE_SRAMECC_OFF_V4: u32 = 0x800;

type File<'a> = ElfFile64<'a, Endianness>;

fn check_header<'a>(
    file: &File<'a>,
    chip: &Chip,
) -> Result<&'a object::elf::FileHeader64<Endianness>> {
    let (header, endian) = (file.elf_header(), file.endian());
    let kind = |what, found, expected| {
        Err(ObjectError::Kind {
            what,
            found,
            expected,
        })
    };
    if endian != Endianness::Little {
        return kind("EI_DATA", 2, "1, little-endian");
    }
    let machine = header.e_machine(endian).0;
    if machine != EM_AMDGPU {
        return kind("e_machine", machine.into(), "0xe0, AMDGPU");
    }
    let ident = header.e_ident();
    if ident.os_abi.0 != ELFOSABI_AMDGPU_HSA {
        return kind(
            "EI_OSABI",
            ident.os_abi.0.into(),
            "0x40, HSA: compile it for amdhsa",
        );
    }
    if !ABI_VERSIONS.contains(&ident.abi_version) {
        return kind(
            "EI_ABIVERSION",
            ident.abi_version.into(),
            "2 to 4: a code object of version 4, 5 or 6 (`-mcode-object-version=5`)",
        );
    }
    let object = header.e_type(endian).0;
    if object != ET_REL && object != ET_DYN {
        return kind(
            "e_type",
            object.into(),
            "1 (relocatable) or 3 (shared object)",
        );
    }
    let flags = header.e_flags(endian).0;
    let mach = flags & EF_AMDGPU_MACH;
    if mach != chip.mach {
        let known = CHIPS.iter().find(|chip| chip.mach == mach);
        let object = match known {
            Some(known) => known.name.into(),
            None => format!("another chip (EF_AMDGPU_MACH {mach:#x})"),
        };
        let device = chip.name;
        return Err(ObjectError::Chip { object, device });
    }
    if flags & EF_AMDGPU_FEATURE_XNACK_V4 == EF_AMDGPU_FEATURE_XNACK_ON_V4 {
        let object = format!("{} with XNACK, which is off", chip.name);
        let device = chip.name;
        return Err(ObjectError::Chip { object, device });
    }
    // Chips with the feature always have SRAM ECC: MI300 cannot turn it off.
    if flags & EF_AMDGPU_FEATURE_SRAMECC_V4 == EF_AMDGPU_FEATURE_SRAMECC_OFF_V4 {
        let object = format!("{} without SRAM ECC, which is on", chip.name);
        let device = chip.name;
        return Err(ObjectError::Chip { object, device });
    }
    Ok(header)
}
