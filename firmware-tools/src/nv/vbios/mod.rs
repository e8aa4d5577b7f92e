//! The VBIOS: the ROM of a card, as it is read from BAR0 + 0x300000 or by tools (`card.rom`). Pointers of its tables
//! count as if the images with NVIDIA's own code types followed the first one without a gap.

mod bit;
mod dcb;
pub mod fwsec;
mod images;

use drivers_spec::nv::vbios::{
    APPID_FIRMWARE_SEC_LIC, APPID_FWSEC_DBG, APPID_FWSEC_PROD, CODE_TYPE_EXTENDED, CODE_TYPE_PC,
    FalconUcodeTableEntryV1, FalconUcodeTableHdrV1, MAX_SIZE,
};

pub use bit::{Bit, Token};
pub use dcb::{Dcb, Output};
pub use images::PciImage;

use super::Part;
use crate::Error;
use crate::file::File;
use fwsec::Fwsec;

/// An entry of the table of microcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ucode {
    /// What it does.
    pub application: u8,
    /// Where it runs.
    pub target: u8,
    /// Where its descriptor is, from the first image on.
    pub offset: u64,
}

/// A VBIOS.
#[derive(Clone, Debug)]
pub struct Vbios<'a> {
    name: String,
    /// Where the first image starts in the ROM. All other offsets count from there.
    pub start: u64,
    /// Its version: 94.02.42.40.5b.
    pub version: Option<String>,
    /// The images.
    pub images: Vec<PciImage<'a>>,
    /// The table of tables.
    pub bit: Bit,
    /// The table of microcode.
    pub ucodes: Vec<Ucode>,
    /// The outputs of the board.
    pub dcb: Option<Dcb>,
    rom: &'a [u8],
}

impl<'a> Vbios<'a> {
    /// Checks images and tables. `name` is for messages.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Field`]
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Vbios<'a>, Error> {
        let most = bytes.len().min(MAX_SIZE as usize);
        let whole = File {
            name,
            bytes: bytes.get(..most).unwrap_or_default(),
        };
        let start = images::start(whole)?;
        let len = whole.bytes.len() as u64;
        let rest = len.checked_sub(start).filter(|rest| *rest > 0);
        let rest = rest.ok_or_else(|| {
            let expected = format!("an offset in the ROM's {len} bytes");
            whole.field("the offset of the first image", start, expected)
        })?;
        let rom = File {
            name,
            bytes: whole.slice("the images", start, rest)?,
        };
        let images = images::chain(rom, start)?;
        let first = images.iter().find(|image| image.code_type == CODE_TYPE_PC);
        let base = first.ok_or_else(|| {
            let found: Vec<String> = images.iter().map(PciImage::name).collect();
            rom.field("the images", found.join(" "), "one for PCs, of code type 0")
        })?;
        let base = File {
            name,
            bytes: base.bytes,
        };
        let bit = Bit::find(base)?;
        let table = bit.falcon_table(base)?;
        let space = Space {
            rom,
            base: base.bytes.len() as u64,
            extended: images
                .iter()
                .find(|image| image.code_type == CODE_TYPE_EXTENDED)
                .map(|image| image.offset),
        };
        // In files that hold the images for PCs alone, it leads to something else.
        let table =
            table.filter(|table| space.extended.is_some() || u64::from(*table) < space.base);
        Ok(Vbios {
            version: bit.version(base),
            ucodes: table
                .map(|table| space.ucodes(table))
                .transpose()?
                .unwrap_or_default(),
            dcb: Dcb::read(base)?,
            name: name.into(),
            start,
            images,
            bit,
            rom: rom.bytes,
        })
    }

    /// FWSEC, for chips whose fuses are blown, as those on sale are, or for `debug`.
    ///
    /// # Errors
    /// [`Error::Field`] if it is not there; [`Error::Truncated`].
    pub fn fwsec(&self, debug: bool) -> Result<Fwsec<'a>, Error> {
        let wanted = if debug {
            APPID_FWSEC_DBG
        } else {
            APPID_FWSEC_PROD
        };
        let find = |id| self.ucodes.iter().find(|ucode| ucode.application == id);
        let rom = File {
            name: &self.name,
            bytes: self.rom,
        };
        // The older number stands for both.
        let ucode = find(wanted).or_else(|| find(APPID_FIRMWARE_SEC_LIC));
        let ucode = ucode.ok_or_else(|| {
            let found: Vec<String> =
                self.ucodes.iter().map(|ucode| format!("{:#04x}", ucode.application)).collect();
            let found = format!("[{}]", found.join(" "));
            let expected = format!(
                "{wanted:#04x}, FWSEC. Files that the system makes (`rom` in sysfs) end before it: read all of it from \
                 the card (BAR0 + 0x300000)"
            );
            rom.field("the table of microcode", found, expected)
        })?;
        Fwsec::read(rom, ucode.offset)
    }

    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        let image = |image: &PciImage<'a>| {
            Part::new(
                &format!("image_{}", image.name()),
                self.start + image.offset,
                image.bytes,
            )
        };
        let mut parts: Vec<Part<'a>> = self.images.iter().map(image).collect();
        if let Ok(fwsec) = self.fwsec(false) {
            let start = self.start + fwsec.ucode_offset();
            parts.push(Part::new("fwsec", start, fwsec.ucode()));
        }
        parts
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        facts.extend(self.version.clone().map(|version| ("vbios", version)));
        if let Some(image) = self.images.first() {
            facts.push(("card", format!("{:04x}:{:04x}", image.ids.0, image.ids.1)));
        }
        let bad = self.images.iter().find(|image| image.sum == Some(false));
        facts.extend(bad.map(|image| ("bad checksum in image", image.name())));
        let tokens: Vec<String> = self
            .bit
            .tokens
            .iter()
            .map(|t| format!("{:02x}", t.id))
            .collect();
        facts.push(("tokens", tokens.join(" ")));
        let ucodes: Vec<String> = self
            .ucodes
            .iter()
            .map(|ucode| format!("{:#04x}", ucode.application))
            .collect();
        facts.push(("microcode", ucodes.join(" ")));
        facts.push(match self.fwsec(false) {
            Ok(fwsec) => {
                let version = match fwsec.descriptor {
                    fwsec::Descriptor::V2(_) => 2,
                    fwsec::Descriptor::V3(_) => 3,
                };
                let count = fwsec.signatures().count();
                ("fwsec", format!("descriptor {version}, {count} signatures"))
            }
            Err(error) => ("fwsec", error.to_string()),
        });
        if let Some(dcb) = &self.dcb {
            let count = dcb.outputs.len();
            facts.push((
                "dcb",
                format!("version {:#x}, {count} outputs", dcb.version),
            ));
        }
        facts
    }
}

/// How pointers of tables lead to places in the ROM.
struct Space<'n, 'a> {
    rom: File<'n, 'a>,
    /// The size of the first image.
    base: u64,
    /// Where the first image with NVIDIA's code type is.
    extended: Option<u64>,
}

impl Space<'_, '_> {
    fn place(&self, what: &str, pointer: u32) -> Result<u64, Error> {
        let pointer = u64::from(pointer);
        let Some(extended) = self.extended else {
            return Ok(pointer);
        };
        match pointer.checked_sub(self.base) {
            Some(behind) => Ok(extended + behind),
            // Drivers do not agree on what this means.
            None => {
                let expected = format!("at least the first image's size, {:#x}", self.base);
                Err(self.rom.field(what, format!("{pointer:#x}"), expected))
            }
        }
    }

    /// The entries of the table of microcode.
    fn ucodes(&self, table: u32) -> Result<Vec<Ucode>, Error> {
        let at = self.place("the falcon data's pointer", table)?;
        let header: &FalconUcodeTableHdrV1 = self.rom.read("the table of microcode", at)?;
        if header.version != 1 {
            let found = header.version;
            return Err(self
                .rom
                .field("the version of the table of microcode", found, "1"));
        }
        let sizes = (header.header_size, header.entry_size);
        if sizes.0 < 6 || sizes.1 < 6 {
            let found = format!("{} and {}", sizes.0, sizes.1);
            let field = "the sizes of header and entries of the table of microcode";
            return Err(self.rom.field(field, found, "at least 6 each"));
        }
        let mut ucodes = Vec::new();
        for i in 0..u64::from(header.entry_count) {
            let at = at + u64::from(sizes.0) + i * u64::from(sizes.1);
            let entry: &FalconUcodeTableEntryV1 = self.rom.read("an entry of microcode", at)?;
            // Entries that are not used lead nowhere.
            if let Ok(offset) = self.place("DescPtr", entry.desc_ptr.get()) {
                ucodes.push(Ucode {
                    application: entry.application_id,
                    target: entry.target_id,
                    offset,
                });
            }
        }
        Ok(ucodes)
    }
}
