//! GSP's firmware: an image that is mapped by a [radix table](super::radix3), its version, and a signature for each
//! family of chips.

use drivers_spec::nv::fw::EM_RISCV;
use object::elf::FileHeader64;

use super::elf::{self, Section};
use super::{Part, Version};
use crate::Error;
use crate::file::File;

/// The size of a signature. Observed in every file from 535.113.01 to 570.144.
const SIGNATURE: usize = 4096;

/// GSP's firmware.
#[derive(Clone, Debug)]
pub struct Gsp<'a> {
    /// Its version.
    pub version: Version,
    image: Section<'a>,
    signatures: Vec<Section<'a>>,
}

impl<'a> Gsp<'a> {
    /// Checks the sections. `name` may hold the version, which then is that of the file.
    ///
    /// # Errors
    /// [`Error::Field`]
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Gsp<'a>, Error> {
        let file = File { name, bytes };
        let (machine, sections) = elf::sections::<FileHeader64<object::LittleEndian>>(file)?;
        if machine != EM_RISCV {
            return Err(file.field("e_machine", machine, format!("{EM_RISCV}, RISC-V")));
        }
        let image = elf::section(file, &sections, ".fwimage")?.clone();
        let text = elf::section(file, &sections, ".fwversion")?.bytes;
        let text = String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text));
        let version = Version::parse(&text).ok_or_else(|| {
            file.field(".fwversion", format!("{text:?}"), "a version like 570.144")
        })?;
        if let Some(named) = Version::of_name(name).filter(|named| *named != version) {
            return Err(file.field(
                ".fwversion",
                version,
                format!("{named}, as the file is named"),
            ));
        }
        let mut signatures: Vec<Section<'a>> = Vec::new();
        for section in &sections {
            if !section.name.starts_with(PREFIX) {
                continue;
            }
            if section.bytes.len() != SIGNATURE {
                let found = section.bytes.len();
                let field = format!("the size of {}", section.name);
                return Err(file.field(field, found, SIGNATURE.to_string()));
            }
            elf::section(file, &sections, &section.name)?;
            signatures.push(section.clone());
        }
        if signatures.is_empty() {
            return Err(file.field(format!("sections {PREFIX}*"), "none", "one for each family"));
        }
        Ok(Gsp {
            version,
            image,
            signatures,
        })
    }

    /// What GSP runs.
    pub fn image(&self) -> &'a [u8] {
        self.image.bytes
    }

    /// The families that it is signed for: `ga10x`; `cc_gh100` for confidential computing.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.signatures.iter().filter_map(Section::family)
    }

    /// The signature for a family of chips.
    pub fn signature(&self, family: &str) -> Option<&'a [u8]> {
        let mut all = self.signatures.iter();
        let found = all.find(|section| section.family() == Some(family))?;
        Some(found.bytes)
    }

    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        let all = std::iter::once(&self.image).chain(&self.signatures);
        all.map(|section| {
            Part::new(
                section.name.trim_start_matches('.'),
                section.offset,
                section.bytes,
            )
        })
        .collect()
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let families: Vec<&str> = self.families().collect();
        vec![("signed for", families.join(" "))]
    }
}

const PREFIX: &str = ".fwsignature_";

impl Section<'_> {
    fn family(&self) -> Option<&str> {
        self.name.strip_prefix(PREFIX)
    }
}
