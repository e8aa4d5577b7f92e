//! Sections of an unlinked object, or segments of a linked one, to an image.

use std::collections::HashMap;

use object::elf;
use object::read::elf::{ProgramHeader, SectionHeader};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex,
    SymbolIndex, SymbolSection,
};

use super::relocate::{self, Absolute, Relocation};
use super::{File, LARGEST, ObjectError, PREFETCH, Result, shown};

/// The largest alignment of a section: that of large pages of a GPU's memory.
const LARGEST_ALIGN: u64 = 1 << 16;

/// The index of symbols in LDS that the linker would place.
/// Source: LLVM, BinaryFormat/ELF.h, SHN_AMDGPU_LDS.
const SHN_AMDGPU_LDS: u16 = 0xff00;

/// An image, with what is needed to find kernels in it.
pub(super) struct Layout {
    pub image: Vec<u8>,
    pub align: u64,
    pub absolute: Vec<Absolute>,
    /// Symbols of descriptors, sorted, and where each descriptor lies.
    pub descriptors: Vec<(String, u64)>,
}

/// The room for an image, whose growth is checked.
struct Room {
    size: u64,
    align: u64,
}

impl Room {
    fn new() -> Room {
        Room {
            size: 0,
            // Code is aligned to 256 bytes, whatever its section says.
            align: 256,
        }
    }

    /// Takes `size` bytes at an alignment.
    fn take(&mut self, section: &str, size: u64, align: u64) -> Result<u64> {
        let refused = |why: String| ObjectError::Section {
            section: shown(section),
            why,
        };
        let align = align.max(1);
        if !align.is_power_of_two() || align > LARGEST_ALIGN {
            return Err(refused(format!(
                "alignment {align:#x}, expected a power of two up to {LARGEST_ALIGN:#x}"
            )));
        }
        let start = self.size.next_multiple_of(align);
        match start.checked_add(size) {
            Some(end) if end <= LARGEST => self.size = end,
            _ => {
                return Err(refused(format!(
                    "{size:#x} bytes after {start:#x}, expected at most {LARGEST:#x} in all"
                )));
            }
        }
        self.align = self.align.max(align);
        Ok(start)
    }

    /// Zeroed memory for it.
    fn image(&self) -> Vec<u8> {
        vec![0; (self.size + PREFETCH).next_multiple_of(PREFETCH) as usize]
    }
}

fn copy(image: &mut [u8], at: u64, bytes: &[u8]) -> Option<()> {
    let start = usize::try_from(at).ok()?;
    let range = start..start.checked_add(bytes.len())?;
    image.get_mut(range)?.copy_from_slice(bytes);
    Some(())
}

/// Lays out the sections of an unlinked object and resolves its relocations.
pub(super) fn sections(file: &File<'_>) -> Result<Layout> {
    let endian = file.endian();
    let mut room = Room::new();
    let mut places = HashMap::new();
    for section in file.sections() {
        let header = section.elf_section_header();
        let kind = header.sh_type(endian);
        let loaded = header.sh_flags(endian).contains(elf::SHF_ALLOC)
            && matches!(kind, elf::SHT_PROGBITS | elf::SHT_NOBITS);
        if !loaded {
            continue;
        }
        let name = section.name().unwrap_or("?");
        let size = header.sh_size(endian);
        // Before room is made: an object is at least as large as what it brings along.
        if kind == elf::SHT_PROGBITS {
            section.data()?;
        }
        let align = match section.kind() {
            object::SectionKind::Text => header.sh_addralign(endian).max(256),
            _ => header.sh_addralign(endian),
        };
        places.insert(section.index(), room.take(name, size, align)?);
    }
    let slots = got_slots(file, &places);
    let got = room.take("GOT", slots.len() as u64 * 8, 8)?;
    let mut image = room.image();
    for section in file.sections() {
        let Some(&at) = places.get(&section.index()) else {
            continue;
        };
        if section.elf_section_header().sh_type(endian) == elf::SHT_PROGBITS {
            copy(&mut image, at, section.data()?).ok_or_else(|| ObjectError::Section {
                section: shown(section.name().unwrap_or("?")),
                why: "data length does not match its size".into(),
            })?;
        }
    }

    let mut absolute = Vec::new();
    for (&symbol, &slot) in &slots {
        let value = symbol_offset(file, symbol, &places)?;
        let at = got + slot * 8;
        absolute.push(Absolute::slot(at, value));
    }
    for section in file.sections() {
        let Some(&base) = places.get(&section.index()) else {
            continue;
        };
        let bytes = section.size();
        for (offset, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                continue;
            };
            let r_type = r_type.0;
            let name = || shown(section.name().unwrap_or("?"));
            let (symbol, value) = match relocation.target() {
                RelocationTarget::Symbol(symbol) => (
                    symbol_name(file, symbol),
                    symbol_offset(file, symbol, &places)?,
                ),
                _ => ("nothing".into(), 0),
            };
            let refused = |why: String| ObjectError::Relocation {
                section: name(),
                offset,
                symbol: symbol.clone(),
                why,
            };
            let slot = match relocation.target() {
                RelocationTarget::Symbol(index) => slots.get(&index).map(|slot| got + slot * 8),
                _ => None,
            };
            let width = relocate::width(r_type)
                .ok_or_else(|| refused(format!("type {r_type} is not supported")))?;
            let inside = offset.checked_add(width).is_some_and(|end| end <= bytes);
            if !inside {
                return Err(refused(format!(
                    "{width} bytes at {offset:#x} are outside the section's {bytes:#x}"
                )));
            }
            let place = Relocation {
                at: base + offset,
                symbol: value,
                addend: relocation.addend(),
                slot,
            };
            let open = relocate::apply(r_type, place, &mut image).map_err(refused)?;
            absolute.extend(open.map(|open| open.named(&name(), offset, &symbol)));
        }
    }
    let descriptors = descriptors(file, |symbol| match symbol.section() {
        SymbolSection::Section(index) => {
            let base = places.get(&index)?;
            base.checked_add(symbol.address())
        }
        _ => None,
    });
    Ok(Layout {
        image,
        align: room.align,
        absolute,
        descriptors,
    })
}

/// The symbols that need a slot of the global offset table, numbered.
fn got_slots(file: &File<'_>, places: &HashMap<SectionIndex, u64>) -> HashMap<SymbolIndex, u64> {
    let mut slots = HashMap::new();
    for section in file.sections().filter(|s| places.contains_key(&s.index())) {
        for (_, relocation) in section.relocations() {
            if let (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(symbol)) =
                (relocation.flags(), relocation.target())
                && relocate::needs_slot(r_type.0)
            {
                let next = slots.len() as u64;
                slots.entry(symbol).or_insert(next);
            }
        }
    }
    slots
}

fn symbol_name(file: &File<'_>, index: SymbolIndex) -> String {
    let Ok(symbol) = file.symbol_by_index(index) else {
        return format!("number {}", index.0);
    };
    match symbol.name() {
        Ok(name) if !name.is_empty() => shown(name),
        _ => format!("number {}", index.0),
    }
}

/// Where a symbol lies in the image.
fn symbol_offset(
    file: &File<'_>,
    index: SymbolIndex,
    places: &HashMap<SectionIndex, u64>,
) -> Result<u64> {
    let refused = |why: String| ObjectError::Symbol {
        symbol: symbol_name(file, index),
        why,
    };
    let symbol = file
        .symbol_by_index(index)
        .map_err(|error| refused(error.to_string()))?;
    let raw = symbol.elf_symbol().st_shndx.get(file.endian()).0;
    if raw == SHN_AMDGPU_LDS {
        return Err(refused(
            "LDS symbol that needs a linker; give its size in the module".into(),
        ));
    }
    match symbol.section() {
        SymbolSection::Section(section) => {
            let base = places
                .get(&section)
                .ok_or_else(|| refused("its section is not loaded".to_string()))?;
            base.checked_add(symbol.address())
                .filter(|&at| at <= LARGEST)
                .ok_or_else(|| refused(format!("value {:#x} is too large", symbol.address())))
        }
        SymbolSection::Undefined => Err(refused(
            "undefined, and kernels are not linked at load; link the function or variable into the \
             module"
                .into(),
        )),
        SymbolSection::Common => Err(refused(
            "COMMON symbol that needs a linker; give it a value, or compile with -fno-common"
                .into(),
        )),
        other => Err(refused(format!(
            "section {other:?}, expected one of the object's"
        ))),
    }
}

/// The descriptors among the symbols.
fn descriptors<'data, 'file>(
    file: &'file File<'data>,
    place: impl Fn(&object::read::elf::ElfSymbol64<'data, 'file>) -> Option<u64>,
) -> Vec<(String, u64)> {
    let mut found: Vec<_> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| name.ends_with(".kd"))?;
            Some((name.to_string(), place(&symbol)?))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Lays out the segments of a linked object.
pub(super) fn segments(file: &File<'_>) -> Result<Layout> {
    let (endian, data) = (file.endian(), file.data());
    let loads = || {
        file.elf_program_headers()
            .iter()
            .enumerate()
            .filter(|(_, header)| header.p_type(endian) == elf::PT_LOAD)
    };
    let mut room = Room::new();
    for (i, header) in loads() {
        let name = format!("segment {i}");
        let (address, size) = (header.p_vaddr(endian), header.p_memsz(endian));
        // A linked object chooses its own places: the image reaches to the end of the last one.
        let end = address.checked_add(size).filter(|&end| end <= LARGEST);
        let Some(end) = end else {
            let why =
                format!("{size:#x} bytes at {address:#x}, expected at most {LARGEST:#x} in all");
            return Err(ObjectError::Section { section: name, why });
        };
        let align = header.p_align(endian);
        if align > 1 && (!align.is_power_of_two() || align > LARGEST_ALIGN) {
            let why =
                format!("alignment {align:#x}, expected a power of two up to {LARGEST_ALIGN:#x}");
            return Err(ObjectError::Section { section: name, why });
        }
        room.align = room.align.max(align);
        room.size = room.size.max(end);
    }
    let mut image = room.image();
    for (i, header) in loads() {
        let bytes = header
            .data(endian, data)
            .map_err(|()| ObjectError::Section {
                section: format!("segment {i}"),
                why: "data is outside the file".into(),
            })?;
        let fits = bytes.len() as u64 <= header.p_memsz(endian);
        fits.then(|| copy(&mut image, header.p_vaddr(endian), bytes))
            .flatten()
            .ok_or_else(|| ObjectError::Section {
                section: format!("segment {i}"),
                why: "size in the file exceeds the size in memory".into(),
            })?;
    }
    let mut absolute = Vec::new();
    for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        let r_type = r_type.0;
        let section = "image".to_string();
        let (symbol, value) = match relocation.target() {
            RelocationTarget::Symbol(index) => dynamic_symbol(file, index)?,
            _ => ("nothing".into(), 0),
        };
        let refused = |why: String| ObjectError::Relocation {
            section: section.clone(),
            offset,
            symbol: symbol.clone(),
            why,
        };
        let place = Relocation {
            at: offset,
            symbol: value,
            addend: relocation.addend(),
            slot: None,
        };
        let width = relocate::width(r_type)
            .ok_or_else(|| refused(format!("type {r_type} is not supported")))?;
        if offset.checked_add(width).is_none_or(|end| end > room.size) {
            return Err(refused(format!(
                "outside the image's {:#x} bytes",
                room.size
            )));
        }
        let open = relocate::apply(r_type, place, &mut image).map_err(refused)?;
        absolute.extend(open.map(|open| open.named(&section, offset, &symbol)));
    }
    let descriptors = descriptors(file, |symbol| {
        matches!(symbol.section(), SymbolSection::Section(_)).then(|| symbol.address())
    });
    Ok(Layout {
        image,
        align: room.align,
        absolute,
        descriptors,
    })
}

fn dynamic_symbol(file: &File<'_>, index: SymbolIndex) -> Result<(String, u64)> {
    let table = file.dynamic_symbol_table();
    let symbol = table.and_then(|table| {
        use object::ObjectSymbolTable;
        table.symbol_by_index(index).ok()
    });
    let Some(symbol) = symbol else {
        return Err(ObjectError::Symbol {
            symbol: format!("number {}", index.0),
            why: "no such dynamic symbol".into(),
        });
    };
    let name = shown(symbol.name().unwrap_or("?"));
    match symbol.section() {
        SymbolSection::Section(_) => Ok((name, symbol.address())),
        _ => Err(ObjectError::Symbol {
            symbol: name,
            why: "undefined, and kernels are not linked at load".into(),
        }),
    }
}
