//! Relocatable ELF objects to executable memory.
//!
//! The object crate parses; layout and relocation are here. Everything that is needed at run time
//! lies together: code, stubs, constants and the slots of the global offset table first
//! (read and execute), then data and zeroed data from a page of their own (read and write). No
//! page is ever writable and executable. Objects without such data, as kernels are, share a few
//! mappings ([`CodeArenas`]).
//!
//! An object is untrusted until it is linked: every size is checked before anything of that size
//! is allocated, every offset before it is used, and what is not understood is refused by name.
//! What its code then does is not checked by anything: see [`crate::CpuDevice`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use drivers_host::mmap::{Code, CodeArenas, MapError, page_size};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
    SectionFlags, SectionIndex, SymbolFlags, SymbolIndex, SymbolSection,
};

use crate::relocate::{self, Machine, RelocateError, STUB, Target};

/// The most that one object may take in memory: 64 MiB.
const LARGEST: u64 = 64 << 20;

/// The largest alignment of a section: a page, which every mapping has.
const LARGEST_ALIGN: u64 = 4096;

/// Why an object cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Not a 64-bit little-endian ELF file, or damaged.
    #[error("expected a relocatable 64-bit ELF object: {0}")]
    Malformed(#[from] object::Error),
    /// An ELF file of another kind.
    #[error("{what} is {found}, expected {expected}")]
    Kind {
        /// Which field of the header.
        what: &'static str,
        /// What was there.
        found: u32,
        /// What can be loaded.
        expected: String,
    },
    /// A section that cannot be placed.
    #[error("section {section}: {why}")]
    Section {
        /// Its name.
        section: String,
        /// What was there, and what is possible.
        why: String,
    },
    /// Larger than what is accepted.
    #[error("sections take {bytes} bytes in memory, expected at most {most}")]
    TooLarge {
        /// Their size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// A symbol that nobody defines.
    #[error(
        "symbol {symbol} is undefined; kernels may call memcpy, memmove, memset, memcmp and bcmp, \
         and nothing else"
    )]
    Undefined {
        /// Its name.
        symbol: String,
    },
    /// A symbol that cannot be used.
    #[error("symbol {symbol}: {why}")]
    Symbol {
        /// Its name.
        symbol: String,
        /// What was there, and what is expected.
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
    /// No memory for it.
    #[error("{0}")]
    Memory(#[from] MapError),
}

type Result<T> = std::result::Result<T, LoadError>;

/// A loaded object; its memory is given back on drop.
#[derive(Debug)]
pub struct Loaded {
    code: Code,
    entry: u64,
    executable: u64,
}

impl Loaded {
    /// Address of the entry symbol.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Addresses of what may be executed.
    pub fn code_range(&self) -> Range<u64> {
        let start = self.code.ptr().addr().get() as u64;
        start..start + self.executable
    }
}

/// Loads an object for this machine; `entry` is the function to start at.
///
/// # Errors
/// [`LoadError`].
pub fn load(arenas: &Arc<CodeArenas>, bytes: &[u8], entry: &str) -> Result<Loaded> {
    let machine = if cfg!(target_arch = "x86_64") {
        Machine::X86_64
    } else {
        Machine::Aarch64
    };
    let image = Image::parse(bytes, machine, entry)?;
    let mut room = arenas.room(image.writable, image.size - image.writable)?;
    let base = room.addr() as u64;
    image.link(base, room.bytes_mut())?;
    Ok(Loaded {
        entry: base + image.entry,
        executable: image.writable as u64,
        code: room.seal()?,
    })
}

/// Parses and links an object into plain memory, for both machines, without running it: the body
/// of the fuzz target. Returns whether it was accepted.
pub fn elf(bytes: &[u8]) -> bool {
    let mut accepted = false;
    for machine in [Machine::X86_64, Machine::Aarch64] {
        if let Ok(image) = Image::parse(bytes, machine, "kernel") {
            // `parse` has bounded the size.
            let mut memory = vec![0; image.size];
            accepted |= image.link(0x7f00_0000_0000, &mut memory).is_ok();
        }
    }
    accepted
}

/// A section that has a place in memory.
struct Section<'a> {
    index: SectionIndex,
    name: String,
    /// Empty for zeroed data.
    data: &'a [u8],
    size: u64,
    at: u64,
}

/// A parsed object with its layout.
struct Image<'a> {
    file: ElfFile64<'a, Endianness>,
    machine: Machine,
    sections: Vec<Section<'a>>,
    by_index: HashMap<SectionIndex, usize>,
    /// Offset of the stubs, and the number of each symbol that may need one.
    stubs: u64,
    stub_of: HashMap<SymbolIndex, u64>,
    /// Offset of the address slots, and the number of each symbol that has one.
    slots: u64,
    slot_of: HashMap<SymbolIndex, u64>,
    /// Where writable data begins: a multiple of the page size.
    writable: usize,
    /// Size in bytes.
    size: usize,
    /// Offset of the entry function.
    entry: u64,
}

/// In which order sections are laid out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Code,
    Constant,
    Data,
    Zeroed,
}

impl<'a> Image<'a> {
    fn parse(bytes: &'a [u8], machine: Machine, entry: &str) -> Result<Image<'a>> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        check_header(&file, machine)?;
        let mut groups: Vec<(Group, u64, Section<'a>)> = Vec::new();
        let mut total = 0u64;
        for section in file.sections() {
            let Some((group, placed)) = classify(&section)? else {
                continue;
            };
            let align = section.align().max(1);
            if !align.is_power_of_two() || align > LARGEST_ALIGN {
                return Err(LoadError::Section {
                    section: placed.name,
                    why: format!(
                        "alignment {align}, expected a power of two up to {LARGEST_ALIGN}"
                    ),
                });
            }
            total = total.saturating_add(placed.size).saturating_add(align);
            groups.push((group, align, placed));
        }
        groups.sort_by_key(|(group, ..)| *group);
        let (stub_of, slot_of) = indirections(&file, machine)?;
        let extra = (stub_of.len() * STUB + slot_of.len() * 8) as u64;
        let page = page_size() as u64;
        let bytes = total.saturating_add(extra).saturating_add(4 * page);
        if bytes > LARGEST {
            let most = LARGEST;
            return Err(LoadError::TooLarge { bytes, most });
        }
        // No sum below overflows: everything together is at most `LARGEST`.
        let mut at = 0u64;
        let mut image = Image {
            file,
            machine,
            sections: Vec::with_capacity(groups.len()),
            by_index: HashMap::new(),
            stubs: 0,
            stub_of,
            slots: 0,
            slot_of,
            writable: 0,
            size: 0,
            entry: 0,
        };
        let mut open: Option<Group> = None;
        let close_read_only = |at: &mut u64, image: &mut Image<'a>| {
            image.stubs = at.next_multiple_of(STUB as u64);
            image.slots = image.stubs + (image.stub_of.len() * STUB) as u64;
            *at = image.slots + (image.slot_of.len() * 8) as u64;
            *at = (*at).max(1).next_multiple_of(page);
            image.writable = *at as usize;
        };
        for (group, align, mut placed) in groups {
            let writable = group >= Group::Data;
            if writable && open.is_none_or(|last| last < Group::Data) {
                close_read_only(&mut at, &mut image);
            }
            open = Some(group);
            at = at.next_multiple_of(align);
            placed.at = at;
            at += placed.size;
            image.by_index.insert(placed.index, image.sections.len());
            image.sections.push(placed);
        }
        if open.is_none_or(|last| last < Group::Data) {
            close_read_only(&mut at, &mut image);
        }
        image.size = at.max(1).next_multiple_of(page) as usize;
        image.entry = image.find_entry(entry)?;
        Ok(image)
    }

    fn find_entry(&self, entry: &str) -> Result<u64> {
        let refused = |why: String| LoadError::Symbol {
            symbol: entry.into(),
            why,
        };
        let symbol = self
            .file
            .symbols()
            .find(|s| s.is_definition() && s.name_bytes() == Ok(entry.as_bytes()));
        let Some(symbol) = symbol else {
            let defined: Vec<_> = self
                .file
                .symbols()
                .filter(|s| s.is_definition() && s.is_global())
                .filter_map(|s| s.name().ok())
                .take(8)
                .collect();
            let why = format!("not defined; the object defines [{}]", defined.join(", "));
            return Err(refused(why));
        };
        let SymbolSection::Section(index) = symbol.section() else {
            return Err(refused("expected a function in a section".into()));
        };
        let section = self.by_index.get(&index).map(|&i| &self.sections[i]);
        match section {
            Some(s) if self.is_code(index) && symbol.address() < s.size => {
                Ok(s.at + symbol.address())
            }
            _ => Err(refused("expected a function in a section of code".into())),
        }
    }

    fn is_code(&self, index: SectionIndex) -> bool {
        let section = self.file.section_by_index(index);
        section.is_ok_and(|s| flags(&s).is_some_and(|(_, f)| f & EXECUTABLE != 0))
    }

    /// Writes the image for address `base` into zeroed memory of its size.
    fn link(&self, base: u64, memory: &mut [u8]) -> Result<()> {
        for section in &self.sections {
            // Sections lie inside of the layout that `parse` made.
            let at = section.at as usize;
            memory[at..at + section.data.len()].copy_from_slice(section.data);
        }
        let indirect = self.stub_of.iter().map(|(s, n)| (s, n, true));
        let indirect = indirect.chain(self.slot_of.iter().map(|(s, n)| (s, n, false)));
        for (&symbol, &number, is_stub) in indirect {
            let address = self.symbol(symbol, base)?;
            if is_stub {
                let at = self.stubs as usize + number as usize * STUB;
                memory[at..at + STUB].copy_from_slice(&relocate::stub(self.machine, address));
            } else {
                let at = self.slots as usize + number as usize * 8;
                memory[at..at + 8].copy_from_slice(&address.to_le_bytes());
            }
        }
        for section in &self.sections {
            let parsed = self.file.section_by_index(section.index)?;
            for (offset, relocation) in parsed.relocations() {
                self.relocate(section, offset, &relocation, base, memory)?;
            }
        }
        Ok(())
    }

    fn relocate(
        &self,
        section: &Section<'_>,
        offset: u64,
        relocation: &object::Relocation,
        base: u64,
        memory: &mut [u8],
    ) -> Result<()> {
        let refused = |symbol: String, why: String| LoadError::Relocation {
            section: section.name.clone(),
            offset,
            symbol,
            why,
        };
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            return Err(refused("?".into(), "not an ELF file".into()));
        };
        let r_type = r_type.0;
        // NONE of both machines needs no symbol.
        if r_type == 0 {
            return Ok(());
        }
        if section.data.is_empty() && section.size > 0 {
            let why = "in a section without data".into();
            return Err(refused("?".into(), why));
        }
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return Err(refused("?".into(), "expected a symbol".into()));
        };
        let place = base + section.at + offset.min(section.size);
        let address = match relocate::target(self.machine, r_type) {
            Target::Direct => self.symbol(index, base)?,
            Target::Got => match self.slot_of.get(&index) {
                Some(number) => base + self.slots + number * 8,
                None => self.symbol(index, base)?,
            },
            Target::Call => {
                let symbol = self.symbol(index, base)?;
                match self.stub_of.get(&index) {
                    Some(number) if !relocate::reaches(self.machine, place, symbol) => {
                        base + self.stubs + number * STUB as u64
                    }
                    _ => symbol,
                }
            }
        };
        let range = section.at as usize..(section.at + section.size) as usize;
        relocate::apply(
            self.machine,
            r_type,
            &mut memory[range],
            usize::try_from(offset).unwrap_or(usize::MAX),
            place,
            address,
            relocation.addend(),
        )
        .map_err(|why: RelocateError| refused(self.symbol_name(index), why.to_string()))
    }

    /// The address of a symbol.
    fn symbol(&self, index: SymbolIndex, base: u64) -> Result<u64> {
        let symbol = self.file.symbol_by_index(index)?;
        let refused = |why: &str| LoadError::Symbol {
            symbol: self.symbol_name(index),
            why: why.into(),
        };
        if let SymbolFlags::Elf { st_info, .. } = symbol.flags() {
            match st_info.0 & 0xf {
                // STT_TLS
                6 => {
                    return Err(refused("thread-local, which kernels cannot use"));
                }
                // STT_GNU_IFUNC
                10 => {
                    return Err(refused(
                        "resolved at load time (ifunc), which is not supported",
                    ));
                }
                _ => {}
            }
        }
        match symbol.section() {
            SymbolSection::Absolute => Ok(symbol.address()),
            SymbolSection::Common => Err(refused("common; compile with -fno-common")),
            SymbolSection::Section(section) => {
                let Some(&i) = self.by_index.get(&section) else {
                    return Err(refused("in a section that is not loaded"));
                };
                let placed = &self.sections[i];
                // One past the end is where an end label points.
                if symbol.address() > placed.size {
                    return Err(refused("outside its section"));
                }
                Ok(base + placed.at + symbol.address())
            }
            _ => {
                let name = symbol.name().unwrap_or_default();
                external(name).ok_or_else(|| LoadError::Undefined {
                    symbol: self.symbol_name(index),
                })
            }
        }
    }

    fn symbol_name(&self, index: SymbolIndex) -> String {
        match self.file.symbol_by_index(index) {
            Ok(symbol) => match symbol.name() {
                Ok(name) if !name.is_empty() => name.into(),
                _ => format!("number {}", index.0),
            },
            Err(_) => format!("number {}", index.0),
        }
    }
}

/// What kernels may call: compilers make calls to these out of plain loops.
fn external(name: &str) -> Option<u64> {
    let address = match name {
        "memcpy" => libc::memcpy as *const () as u64,
        "memmove" => libc::memmove as *const () as u64,
        "memset" => libc::memset as *const () as u64,
        "memcmp" | "bcmp" => libc::memcmp as *const () as u64,
        _ => return None,
    };
    Some(address)
}

fn check_header(file: &ElfFile64<'_, Endianness>, machine: Machine) -> Result<()> {
    let endian = file.endian();
    let header = file.elf_header();
    if endian != Endianness::Little {
        return Err(LoadError::Kind {
            what: "byte order",
            found: 2,
            expected: "1 (little-endian)".into(),
        });
    }
    let found = header.e_type(endian).0;
    if found != elf::ET_REL.0 {
        return Err(LoadError::Kind {
            what: "e_type",
            found: found as u32,
            expected: "1 (relocatable): pass the object file, not a linked one".into(),
        });
    }
    let found = header.e_machine(endian).0;
    let (number, name) = match machine {
        Machine::X86_64 => (62, "x86-64"),
        Machine::Aarch64 => (183, "AArch64"),
    };
    if found != number {
        return Err(LoadError::Kind {
            what: "e_machine",
            found: found as u32,
            expected: format!("{number} ({name}): compile for this machine"),
        });
    }
    Ok(())
}

// Bits of `sh_flags`, and values of `sh_type`.
const WRITABLE: u64 = 1;
const ALLOCATED: u64 = 2;
const EXECUTABLE: u64 = 4;
const THREAD_LOCAL: u64 = 0x400;
const PROGBITS: u32 = 1;
const NOBITS: u32 = 8;

/// `sh_type` and `sh_flags`.
fn flags<'a>(section: &impl ObjectSection<'a>) -> Option<(u32, u64)> {
    match section.flags() {
        SectionFlags::Elf { sh_type, sh_flags } => Some((sh_type.0, sh_flags.0)),
        _ => None,
    }
}

/// Where a section goes; `None` for those that are not needed at run time.
fn classify<'a>(section: &impl ObjectSection<'a>) -> Result<Option<(Group, Section<'a>)>> {
    let Some((kind, bits)) = flags(section) else {
        return Ok(None);
    };
    if bits & ALLOCATED == 0 {
        return Ok(None);
    }
    let name = String::from_utf8_lossy(section.name_bytes()?).into_owned();
    // Unwind tables and notes are allocated, but nobody reads them here.
    if name.starts_with(".eh_frame") || name.starts_with(".note") || name.starts_with(".ARM.ex") {
        return Ok(None);
    }
    let refused = |why: &str| LoadError::Section {
        section: name.clone(),
        why: why.into(),
    };
    if bits & THREAD_LOCAL != 0 {
        return Err(refused("thread-local data is not supported"));
    }
    let group = match kind {
        PROGBITS if bits & EXECUTABLE != 0 && bits & WRITABLE != 0 => {
            return Err(refused("writable and executable, expected one of them"));
        }
        PROGBITS if bits & EXECUTABLE != 0 => Group::Code,
        PROGBITS if bits & WRITABLE == 0 || name.starts_with(".data.rel.ro") => Group::Constant,
        PROGBITS => Group::Data,
        NOBITS => Group::Zeroed,
        // SHT_X86_64_UNWIND
        0x7000_0001 => return Ok(None),
        other => {
            return Err(refused(&format!(
                "type {other}, expected PROGBITS or NOBITS (constructors are not run)"
            )));
        }
    };
    let size = section.size();
    let data = match group {
        Group::Zeroed => &[],
        _ => section.data()?,
    };
    if group != Group::Zeroed && data.len() as u64 != size {
        return Err(refused("data is shorter than its size"));
    }
    let placed = Section {
        index: section.index(),
        name,
        data,
        size,
        at: 0,
    };
    Ok(Some((group, placed)))
}

type Numbers = HashMap<SymbolIndex, u64>;

/// Numbers the symbols that calls and address slots refer to.
fn indirections(file: &ElfFile64<'_, Endianness>, machine: Machine) -> Result<(Numbers, Numbers)> {
    let (mut stubs, mut slots) = (Numbers::new(), Numbers::new());
    for section in file.sections() {
        if classify(&section)?.is_none() {
            continue;
        }
        for (_, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                continue;
            };
            let table = match relocate::target(machine, r_type.0) {
                Target::Direct => continue,
                // What is defined here is always within reach.
                Target::Call if !file.symbol_by_index(symbol)?.is_undefined() => continue,
                Target::Call => &mut stubs,
                Target::Got => &mut slots,
            };
            let next = table.len() as u64;
            table.entry(symbol).or_insert(next);
        }
    }
    Ok((stubs, slots))
}
