//! The sections of an ELF file, which GSP's firmware and FMCs come in.

use object::LittleEndian;
use object::elf::{SHT_NOBITS, SectionType};
use object::read::elf::{FileHeader, SectionHeader};

use crate::Error;
use crate::file::File;

/// A section.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    pub name: String,
    pub kind: SectionType,
    pub flags: u64,
    pub info: u32,
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// `e_machine` and the sections of a file of one class, without the empty one that comes first.
pub(super) fn sections<'a, H>(file: File<'_, 'a>) -> Result<(u16, Vec<Section<'a>>), Error>
where
    H: FileHeader<Endian = LittleEndian>,
{
    let bad = |error: object::read::Error| {
        let expected = "a complete little-endian ELF file";
        file.field("the ELF", error, expected)
    };
    // The library reads headers where they are, if that is aligned; bytes within others need not be.
    let copy;
    let headers = if file.bytes.as_ptr().addr().is_multiple_of(align_of::<u64>()) {
        file.bytes
    } else {
        copy = file.bytes.to_vec();
        &copy[..]
    };
    let header = H::parse(headers).map_err(bad)?;
    let endian = header.endian().map_err(bad)?;
    let table = header.sections(endian, headers).map_err(bad)?;
    let mut sections = Vec::new();
    for header in table.iter().skip(1) {
        let name = table.section_name(endian, header).map_err(bad)?;
        let name = String::from_utf8_lossy(name).into_owned();
        let offset = header.sh_offset(endian).into();
        let size = match header.sh_type(endian) {
            SHT_NOBITS => 0,
            _ => header.sh_size(endian).into(),
        };
        sections.push(Section {
            kind: header.sh_type(endian),
            flags: header.sh_flags(endian).0,
            info: header.sh_info(endian),
            offset,
            bytes: file.slice(&format!("section {name}"), offset, size)?,
            name,
        });
    }
    Ok((header.e_machine(endian).0, sections))
}

/// The one section of a name, which holds something.
pub(super) fn section<'s, 'a>(
    file: File<'_, '_>,
    sections: &'s [Section<'a>],
    name: &str,
) -> Result<&'s Section<'a>, Error> {
    let mut all = sections.iter().filter(|section| section.name == name);
    match (all.next(), all.next()) {
        (Some(section), None) if !section.bytes.is_empty() => Ok(section),
        (Some(_), None) => Err(file.field(format!("section {name}"), "empty", "bytes")),
        (found, _) => {
            let found = if found.is_some() {
                "there twice"
            } else {
                "missing"
            };
            Err(file.field(format!("section {name}"), found, "one section of that name"))
        }
    }
}
