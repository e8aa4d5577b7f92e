//! The file around the sections: magic number, version, a table of sections, hashes.
//!
//! ```text
//! header   64 bytes   magic number, version, number of sections, length of the file, 8 bytes of 0, SHA-256
//! table    56 bytes per section: kind, target, offset, length, SHA-256
//! sections            each at a multiple of 64, in the order of the table, with zeros between them
//! ```
//!
//! The hash of the header covers its first 32 bytes and the table; that of a section covers the section. So a
//! change of any byte is found: by the hash of the header or of a section, or as a gap that is not zero. Numbers are
//! little-endian.
//!
//! | version | what it adds |
//! |---|---|
//! | 1 | |
//! | 2 | code for Adreno may have images and a version without them behind it, which older drivers do not load |

use sha2::{Digest, Sha256};

use crate::bytes::{Fault, Reader, Writer};
use crate::error::{Error, Result};
use crate::hashed::hashed;
use crate::source::Source;

/// The version that is written, and the newest one that is read.
pub const VERSION: u32 = 2;

/// Not text, and damaged by whatever converts line ends, as the magic number of PNG.
pub(crate) const MAGIC: [u8; 8] = *b"\x89DBX\r\n\x1a\n";

const HEADER: usize = 64;
const ENTRY: usize = 56;
const ALIGN: u64 = 64;

/// One for each target and three more; a file has not so many targets.
const MOST_SECTIONS: u32 = 1024;

/// What is in a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// What the bundle was made from.
    About,
    /// Inputs, outputs, states.
    Interface,
    /// Weights.
    Constants,
    /// The plan of the target with this number.
    Target(u32),
    /// Its code.
    Code(u32),
}

impl Kind {
    fn numbers(self) -> (u32, u32) {
        match self {
            Kind::About => (1, 0),
            Kind::Interface => (2, 0),
            Kind::Constants => (3, 0),
            Kind::Target(n) => (4, n),
            Kind::Code(n) => (5, n),
        }
    }

    fn of(numbers: (u32, u32)) -> Option<Kind> {
        Some(match numbers {
            (1, 0) => Kind::About,
            (2, 0) => Kind::Interface,
            (3, 0) => Kind::Constants,
            (4, n) => Kind::Target(n),
            (5, n) => Kind::Code(n),
            _ => return None,
        })
    }

    /// What it is called in errors.
    pub fn name(self) -> String {
        match self {
            Kind::About => "section about".into(),
            Kind::Interface => "section interface".into(),
            Kind::Constants => "section constants".into(),
            Kind::Target(n) => format!("section target {n}"),
            Kind::Code(n) => format!("section code {n}"),
        }
    }
}

/// Where a section is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub kind: Kind,
    pub offset: u64,
    pub bytes: u64,
    pub sha256: [u8; 32],
}

/// A file whose table was read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub source: Source,
    pub version: u32,
    pub sections: Vec<Section>,
}

pub(crate) fn damaged(source: &Source, section: &str, fault: Fault) -> Error {
    Error::Damaged {
        file: source.name().into(),
        section: section.into(),
        expected: fault.expected,
        found: fault.found,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash that is not the one that was expected.
pub(crate) fn other_hash(expected: &[u8; 32], found: &[u8; 32]) -> Fault {
    Fault::new(
        format!("SHA-256 {}", hex(&expected[..8])),
        hex(&found[..8]).to_string(),
    )
}

impl Container {
    /// Reads header and table.
    pub fn open(source: Source) -> Result<Container> {
        let mut header = [0; HEADER];
        let there = source.len().min(HEADER as u64) as usize;
        source.read(0, &mut header[..there])?;
        let magic = &header[..there.min(MAGIC.len())];
        if magic != MAGIC {
            return Err(Error::Foreign {
                file: source.name().into(),
                expected: hex(&MAGIC),
                found: match magic.is_empty() {
                    true => "an empty file".into(),
                    false => hex(magic),
                },
            });
        }
        let fault = |fault: Fault| damaged(&source, "header", fault);
        let short = || Fault::new(format!("{HEADER} bytes"), there.to_string());
        let mut reader = Reader::new(&header[MAGIC.len()..]);
        if there < 12 {
            return Err(fault(short()));
        }
        let version = reader.u32("the version").map_err(fault)?;
        if version > VERSION {
            let newer = Error::Version {
                file: source.name().into(),
                version,
                known: VERSION,
                own: env!("CARGO_PKG_VERSION"),
            };
            // A bit of the version may have changed.
            return Err(match is_whole(&source, &header[..there])? {
                true => newer,
                false => {
                    let expected = format!("a version of 1 to {VERSION}, or the header's hash");
                    let found = format!("version {version} and another hash");
                    fault(Fault::new(expected, found))
                }
            });
        }
        if there < HEADER {
            return Err(fault(short()));
        }
        if version == 0 {
            let expected = format!("a version of 1 to {VERSION}");
            return Err(fault(Fault::new(expected, "0")));
        }
        let count = reader.u32("the number of sections").map_err(fault)?;
        let len = reader.u64("the length of the file").map_err(fault)?;
        let zero = reader.u64("zeros").map_err(fault)?;
        let sha256 = reader.hash("the hash").map_err(fault)?;
        let table_end = HEADER as u64 + u64::from(count) * ENTRY as u64;
        let wrong = |expected: String, found: String| Err(fault(Fault::new(expected, found)));
        if count > MOST_SECTIONS {
            let expected = format!("a table of at most {MOST_SECTIONS} sections");
            return wrong(expected, format!("{count}"));
        }
        if table_end > source.len() {
            let expected = format!("{table_end} bytes of header and table, {len} in the file");
            return wrong(expected, format!("{} bytes", source.len()));
        }
        let mut table = vec![0; count as usize * ENTRY];
        source.read(HEADER as u64, &mut table)?;
        let mut hash = Sha256::new();
        hash.update(&header[..32]);
        hash.update(&table);
        let found: [u8; 32] = hash.finalize().into();
        if found != sha256 {
            return Err(fault(other_hash(&sha256, &found)));
        }
        if len != source.len() {
            return wrong(format!("{len} bytes in the file"), source.len().to_string());
        }
        if zero != 0 {
            return wrong("zeros".into(), zero.to_string());
        }
        let sections = entries(&table, table_end, len).map_err(fault)?;
        let container = Container {
            source,
            version,
            sections,
        };
        container.gaps(table_end)?;
        Ok(container)
    }

    /// Between sections there are zeros.
    fn gaps(&self, table_end: u64) -> Result<()> {
        let mut end = table_end;
        for section in &self.sections {
            let mut gap = [0; ALIGN as usize];
            let gap = &mut gap[..(section.offset - end) as usize];
            self.source.read(end, gap)?;
            if let Some(at) = gap.iter().position(|&byte| byte != 0) {
                let before = format!("before {}", section.kind.name());
                let fault = Fault::new("zeros", format!("{:#04x}", gap[at]));
                return Err(damaged(&self.source, &before, fault));
            }
            end = section.offset + section.bytes;
        }
        Ok(())
    }

    /// A section that a file has once.
    pub fn section(&self, kind: Kind) -> Result<&Section> {
        let mut found = self.sections.iter().filter(|s| s.kind == kind);
        match (found.next(), found.next()) {
            (Some(section), None) => Ok(section),
            (first, _) => {
                let found = if first.is_some() { "several" } else { "none" };
                let fault = Fault::new(format!("one {}", kind.name()), found);
                Err(damaged(&self.source, "header", fault))
            }
        }
    }

    /// The bytes of a section, whose hash is right.
    pub fn read(&self, section: &Section) -> Result<Vec<u8>> {
        let name = section.kind.name();
        let Ok(len) = usize::try_from(section.bytes) else {
            let fault = Fault::new("a section that fits into memory", section.bytes.to_string());
            return Err(damaged(&self.source, &name, fault));
        };
        // It lies in the file, so this is not more than that.
        let mut bytes = vec![0; len];
        self.source.read(section.offset, &mut bytes)?;
        let found: [u8; 32] = Sha256::digest(&bytes).into();
        match found == section.sha256 {
            true => Ok(bytes),
            false => {
                let fault = other_hash(&section.sha256, &found);
                Err(damaged(&self.source, &name, fault))
            }
        }
    }

    /// Reads a section piece by piece; its hash is checked at the end.
    pub fn pieces(
        &self,
        section: &Section,
        piece: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let read = |at: u64, into: &mut [u8]| self.source.read(section.offset + at, into);
        let found = hashed(section.bytes, read, piece)?;
        match found == section.sha256 {
            true => Ok(()),
            false => {
                let fault = other_hash(&section.sha256, &found);
                Err(damaged(&self.source, &section.kind.name(), fault))
            }
        }
    }
}

/// Whether the hash of a header and its table is right, where newer versions have them in the place where this one has.
fn is_whole(source: &Source, header: &[u8]) -> Result<bool> {
    let count = header.get(12..16).and_then(|bytes| bytes.try_into().ok());
    let count = count.map_or(0, u32::from_le_bytes).min(MOST_SECTIONS);
    let bytes = u64::from(count) * ENTRY as u64;
    if header.len() < HEADER || HEADER as u64 + bytes > source.len() {
        return Ok(false);
    }
    let mut table = vec![0; bytes as usize];
    source.read(HEADER as u64, &mut table)?;
    let mut hash = Sha256::new();
    hash.update(&header[..32]);
    hash.update(&table);
    let found: [u8; 32] = hash.finalize().into();
    Ok(found == header[32..HEADER])
}

/// The entries of a table, which lie one after the other up to the end of the file.
fn entries(table: &[u8], table_end: u64, len: u64) -> Result<Vec<Section>, Fault> {
    let mut sections = Vec::with_capacity(table.len() / ENTRY);
    let mut end = table_end;
    for entry in table.chunks_exact(ENTRY) {
        let mut reader = Reader::new(entry);
        let numbers = (reader.u32("a kind")?, reader.u32("a target")?);
        let Some(kind) = Kind::of(numbers) else {
            let found = format!("{} {}", numbers.0, numbers.1);
            return Err(Fault::new("a kind of section of 1 to 5", found));
        };
        let section = Section {
            kind,
            offset: reader.u64("an offset")?,
            bytes: reader.u64("a length")?,
            sha256: reader.hash("a hash")?,
        };
        let expected = end.next_multiple_of(ALIGN);
        if section.offset != expected || section.bytes > len.saturating_sub(expected) {
            let found = format!("{} bytes at {}", section.bytes, section.offset);
            let expected = format!("{} at {expected} within {len} bytes", kind.name());
            return Err(Fault::new(expected, found));
        }
        end = section.offset + section.bytes;
        sections.push(section);
    }
    match end == len {
        true => Ok(sections),
        false => Err(Fault::new(
            format!("the end of the file at {end}"),
            len.to_string(),
        )),
    }
}

/// A whole file of these sections.
pub(crate) fn file(sections: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let mut table = Writer::default();
    let mut end = (HEADER + sections.len() * ENTRY) as u64;
    for (kind, bytes) in sections {
        let offset = end.next_multiple_of(ALIGN);
        let (number, target) = kind.numbers();
        table.u32(number);
        table.u32(target);
        table.u64(offset);
        table.u64(bytes.len() as u64);
        table.0.extend_from_slice(&Sha256::digest(bytes));
        end = offset + bytes.len() as u64;
    }
    let mut out = Writer::default();
    out.0.extend_from_slice(&MAGIC);
    out.u32(VERSION);
    out.count(sections.len());
    out.u64(end);
    out.u64(0);
    let mut hash = Sha256::new();
    hash.update(&out.0);
    hash.update(&table.0);
    out.0.extend_from_slice(&hash.finalize());
    out.0.extend_from_slice(&table.0);
    for (_, bytes) in sections {
        out.0
            .resize(out.0.len().next_multiple_of(ALIGN as usize), 0);
        out.0.extend_from_slice(bytes);
    }
    out.0
}

/// The same bytes with the hashes that they should have, as far as there is a table: what a test or a fuzzer has changed
/// gets past them.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let word = |bytes: &[u8], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes.get(at..at + 8)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    if bytes.len() < HEADER {
        return bytes;
    }
    let len = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&len.to_le_bytes());
    let entries = (bytes.len() - HEADER) / ENTRY;
    let count = word(&bytes, 8).map_or(0, |n| n >> 32).min(entries);
    let table_end = HEADER + count * ENTRY;
    for at in (HEADER..table_end).step_by(ENTRY) {
        let range = word(&bytes, at + 8).zip(word(&bytes, at + 16));
        let range = range.and_then(|(from, n)| Some(from..from.checked_add(n)?));
        let Some(section) = range.and_then(|range| bytes.get(range)) else {
            continue;
        };
        let hash = Sha256::digest(section);
        bytes[at + 24..at + ENTRY].copy_from_slice(&hash);
    }
    let mut hash = Sha256::new();
    hash.update(&bytes[..32]);
    hash.update(&bytes[HEADER..table_end]);
    bytes[32..HEADER].copy_from_slice(&hash.finalize());
    bytes
}
