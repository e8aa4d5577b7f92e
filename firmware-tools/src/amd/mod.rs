//! amdgpu firmware files. The contents of a file follow from its [name](Kind) and the version of its header; each
//! part is handed to the PSP separately.
//!
//! The rules are those of the layouts; the contents are signed by AMD: what is [signed](Signed) is all there, and
//! a [boot](boot::Firmware::boot) looks whether it is what was signed, with the keys of the PSP's own file. The checksum of the header is held against the bytes where files of the kind are known to
//! [keep it](Checksum).

pub mod boot;
pub mod chip;
pub mod discovery;
mod gfx;
mod kind;
mod psp;
mod rlc;
mod sdma;
mod signature;
mod signed;
mod smu;

use drivers_spec::amd::fw_hdr::CommonFirmwareHeader;
use drivers_spec::amd::fw_type::{GfxFwType, PspFwType, TaFwType};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

pub use kind::{Cp, Engines, Kind};
pub use signed::Signed;

use crate::Error;
use crate::file::File;

/// The name of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartId {
    /// Of the PSP itself: for its bootloader, or its table of contents.
    Psp(PspFwType),
    /// The same bytes under each of these types (`LOAD_IP_FW`).
    Ip(&'static [GfxFwType]),
    /// A trusted application.
    Ta(TaFwType),
    /// A table of the SMU, by its number.
    Table(u32),
}

impl PartId {
    /// The vendor's name without its prefix, or the number.
    pub fn name(self) -> String {
        let (name, number) = match self {
            PartId::Psp(PspFwType(n)) => (PspFwType(n).name(), n),
            PartId::Ta(TaFwType(n)) => (TaFwType(n).name(), n),
            PartId::Ip([]) => (None, 0),
            PartId::Ip([first, ..]) => (first.name(), first.0),
            PartId::Table(number) => return format!("TABLE_{number:#x}"),
        };
        name.map_or_else(|| format!("TYPE_{number}"), str::to_owned)
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name.
    pub id: PartId,
    /// Its version, that of the file where it has none of its own.
    pub version: u32,
    /// The version of its features, where there is one.
    pub feature: Option<u32>,
    /// Of the second set of a PSP's file, for cards whose SMU wants the older one.
    pub auxiliary: bool,
    /// Where it starts in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The range that the header's CRC-32 covers. The kernel driver does not check it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksum {
    /// Everything after the common header.
    Rest,
    /// The code.
    Code,
    /// Unknown: the sums in AMD's files of this kind match neither.
    Unknown,
}

/// A firmware file whose headers agree with its length.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    kind: Kind,
    header: CommonFirmwareHeader,
    checksum: Checksum,
    start: Option<u64>,
    parts: Vec<Part<'a>>,
}

impl<'a> Image<'a> {
    /// Checks the headers against the bytes. `name` is the file's name, perhaps with its folders:
    /// it says which kind of file this is.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Truncated`], [`Error::Field`] or [`Error::Checksum`].
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Image<'a>, Error> {
        let kind = Kind::of(name).ok_or_else(|| Error::Kind { name: name.into() })?;
        let file = File { name, bytes };
        let header = common(file)?;
        let code = Code::of(file, &header)?;
        let mut parser = Parser::new(code, &header);
        match kind {
            Kind::PspOs => psp::secure_os(&mut parser)?,
            Kind::PspTa => psp::trusted(&mut parser)?,
            Kind::PspAsd => parser.whole(PartId::Ta(TaFwType::PSP_ASD)),
            Kind::PspToc => parser.whole(PartId::Psp(PspFwType::PSP_TOC)),
            Kind::Smu => smu::take(&mut parser)?,
            Kind::Cp(processor) => gfx::take(&mut parser, processor)?,
            Kind::Imu => gfx::imu(&mut parser)?,
            Kind::Mes { kiq } => gfx::scheduler(&mut parser, kiq)?,
            Kind::Rlc => rlc::take(&mut parser)?,
            Kind::Sdma { engines } => sdma::take(&mut parser, engines)?,
            Kind::Unused(_) => {}
            Kind::Discovery => return Err(Error::Kind { name: name.into() }),
        }
        for part in &parser.parts {
            signed::check(file, part)?;
        }
        let checksum = checksum(kind, file, &header, code.bytes)?;
        Ok(Image {
            kind,
            header,
            checksum,
            start: parser.start,
            parts: parser.parts,
        })
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The header.
    pub fn header(&self) -> &CommonFirmwareHeader {
        &self.header
    }

    /// The version of the code, or of the first part where the file has none.
    pub fn version(&self) -> u32 {
        let of_file = self.header.ucode_version.get();
        match self.parts.first() {
            Some(part) if of_file == 0 => part.version,
            _ => of_file,
        }
    }

    /// The major version of the block that its code is for; none for kinds that are not used, some of which have another
    /// one there.
    pub(crate) fn block_version(&self) -> Option<u16> {
        let major = self.header.ip_version_major.get();
        self.kind.used().then_some(major)
    }

    /// The range of its checksum.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Where an RS64 processor starts, in bytes of its address space.
    pub fn start(&self) -> Option<u64> {
        self.start
    }

    /// Its parts, in the order that the PSP requires. None for kinds that compute does not use; empty parts are
    /// left out.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The part of the PSP's own file, of the first or of the second set.
    pub fn psp(&self, id: PspFwType, auxiliary: bool) -> Option<&Part<'a>> {
        let wanted = |part: &&Part<'_>| part.id == PartId::Psp(id) && part.auxiliary == auxiliary;
        self.parts.iter().find(wanted)
    }

    /// The part that goes to the PSP's ring under this type.
    pub fn ip(&self, id: GfxFwType) -> Option<&Part<'a>> {
        let wanted = |part: &&Part<'_>| matches!(part.id, PartId::Ip(ids) if ids.contains(&id));
        self.parts.iter().find(wanted)
    }
}

/// The common header, with the rules that hold for every kind.
fn common(file: File<'_, '_>) -> Result<CommonFirmwareHeader, Error> {
    let header: &CommonFirmwareHeader = file.read("the common header", 0)?;
    let size = header.size_bytes.get();
    if u64::from(size) != file.bytes.len() as u64 {
        let expected = format!("the file's {}", file.bytes.len());
        return Err(file.field("size_bytes", size, expected));
    }
    let least = size_of::<CommonFirmwareHeader>();
    let own = header.header_size_bytes.get();
    if (own as usize) < least {
        return Err(file.field("header_size_bytes", own, format!("at least {least}")));
    }
    let offset = header.ucode_array_offset_bytes.get();
    if offset < own {
        let expected = format!("at least the header's {own}");
        return Err(file.field("ucode_array_offset_bytes", offset, expected));
    }
    Ok(*header)
}

/// The code that the common header frames.
#[derive(Clone, Copy)]
struct Code<'n, 'a> {
    file: File<'n, 'a>,
    offset: u64,
    bytes: &'a [u8],
}

impl<'n, 'a> Code<'n, 'a> {
    fn of(file: File<'n, 'a>, header: &CommonFirmwareHeader) -> Result<Code<'n, 'a>, Error> {
        let offset = header.ucode_array_offset_bytes.get().into();
        let bytes = file.slice("the code", offset, header.ucode_size_bytes.get().into())?;
        Ok(Code {
            file,
            offset,
            bytes,
        })
    }
}

/// What the parser of a kind works on, and what it has found so far.
struct Parser<'n, 'a> {
    code: Code<'n, 'a>,
    header: CommonFirmwareHeader,
    feature: Option<u32>,
    start: Option<u64>,
    parts: Vec<Part<'a>>,
}

impl<'n, 'a> Parser<'n, 'a> {
    fn new(code: Code<'n, 'a>, header: &CommonFirmwareHeader) -> Parser<'n, 'a> {
        Parser {
            code,
            header: *header,
            feature: None,
            start: None,
            parts: Vec::new(),
        }
    }

    /// Major and minor version of the header.
    fn version(&self) -> (u16, u16) {
        let h = &self.header;
        (h.header_version_major.get(), h.header_version_minor.get())
    }

    /// The error about a version of the header that this kind does not have.
    fn unknown_version(&self, known: &str) -> Error {
        let (major, minor) = self.version();
        let file = self.code.file;
        file.field("header_version", format!("{major}.{minor}"), known)
    }

    /// The header of the kind. It ends before the code: `header_size_bytes` of some of AMD's own
    /// files is that of an older version.
    fn layout<T: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> Result<&'a T, Error> {
        self.before_code(size_of::<T>() as u64)?;
        self.code.file.read("the header", 0)
    }

    fn before_code(&self, end: u64) -> Result<(), Error> {
        if end > self.code.offset {
            let expected = format!("at least {end}, where the header ends");
            let found = self.code.offset;
            let file = self.code.file;
            return Err(file.field("ucode_array_offset_bytes", found, expected));
        }
        Ok(())
    }

    /// Adds the part at an offset of the file, if it has bytes.
    fn part(&mut self, id: PartId, offset: u64, size: u32) -> Result<(), Error> {
        if size != 0 {
            let bytes = self.code.file.slice(&id.name(), offset, size.into())?;
            self.parts.push(Part {
                id,
                version: self.header.ucode_version.get(),
                feature: self.feature,
                auxiliary: false,
                offset,
                bytes,
            });
        }
        Ok(())
    }

    /// Adds the part at an offset of the code, inside it.
    fn inner(&mut self, id: PartId, offset: u32, size: u32) -> Result<(), Error> {
        let end = u64::from(offset) + u64::from(size);
        if size != 0 && end > self.code.bytes.len() as u64 {
            return Err(Error::Field {
                name: self.code.file.name.into(),
                field: format!("the end of {}", id.name()),
                found: end.to_string(),
                expected: format!("at most the code's {}", self.code.bytes.len()),
            });
        }
        self.part(id, self.code.offset + u64::from(offset), size)
    }

    /// Adds all of the code.
    fn whole(&mut self, id: PartId) {
        if !self.code.bytes.is_empty() {
            self.parts.push(Part {
                id,
                version: self.header.ucode_version.get(),
                feature: self.feature,
                auxiliary: false,
                offset: self.code.offset,
                bytes: self.code.bytes,
            });
        }
    }

    /// Gives the parts that were added since their own versions.
    fn versions(&mut self, before: usize, version: u32, feature: Option<u32>) {
        for part in &mut self.parts[before..] {
            part.version = version;
            part.feature = feature.or(part.feature);
        }
    }
}

/// Holds the checksum against the bytes.
fn checksum(
    kind: Kind,
    file: File<'_, '_>,
    header: &CommonFirmwareHeader,
    code: &[u8],
) -> Result<Checksum, Error> {
    let found = header.crc32.get();
    let rest = file.bytes.get(size_of_val(header)..).unwrap_or_default();
    let of_rest = crc32fast::hash(rest);
    if found == of_rest {
        return Ok(Checksum::Rest);
    }
    if found == crc32fast::hash(code) {
        return Ok(Checksum::Code);
    }
    if kind.keeps_checksum(header.header_version_major.get()) {
        return Err(Error::Checksum {
            name: file.name.into(),
            found,
            expected: of_rest,
        });
    }
    Ok(Checksum::Unknown)
}

#[cfg(test)]
mod tests;
