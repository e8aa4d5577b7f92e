//! NVIDIA's firmware: what GSP is booted from, and the VBIOS, which holds the first step of it. The contents of a file
//! follow from its [name](Kind).
//!
//! Ampere and Ada: FWSEC from the [`vbios`] runs on GSP's falcon, then the [`booter`] on SEC2 loads [`gsp`]'s image by
//! its [`radix3`] table, and the [boot loader](bin::Loader) verifies it. Hopper and later: the FSP verifies an [`fmc`],
//! which does all that. Structures that are exchanged with GSP follow its [version](Version).
//!
//! Everything is signed by NVIDIA, with keys that are in the chips: a signature is held against the bytes by
//! them alone. Checksums and hashes are checked where files have them.

pub mod bin;
pub mod booter;
pub mod chip;
mod elf;
pub mod fmc;
pub mod gsp;
mod kind;
pub mod known;
pub mod radix3;
pub mod vbios;
mod version;

pub use kind::Kind;
pub use version::{Branch, Version};

use crate::Error;

/// Packages with NVIDIA's GPU firmware, for messages about missing or damaged files.
pub const PACKAGES: &str = "Debian: apt install firmware-nvidia-graphics (component non-free-firmware; 570.144, which \
                            Hopper and Blackwell need, from trixie-backports on), Ubuntu: linux-firmware, Fedora: \
                            nvidia-gpu-firmware, Arch: linux-firmware-nvidia; gsp_ga10x.bin and gsp_tu10x.bin are \
                            in Debian's firmware-nvidia-gsp; for simulated cards in a checkout: scripts/fetch \
                            firmware";

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// Its name: that of the section, or of the header's field.
    pub name: String,
    /// Where it starts in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Part<'a> {
    fn new(name: &str, offset: u64, bytes: &'a [u8]) -> Part<'a> {
        Part {
            name: name.into(),
            offset,
            bytes,
        }
    }
}

/// A file whose headers agree with its length.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    kind: Kind,
    version: Option<Version>,
    contents: Contents<'a>,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub enum Contents<'a> {
    /// GSP's firmware.
    Gsp(gsp::Gsp<'a>),
    /// The booter, or the scrubber.
    Booter(booter::Booter<'a>),
    /// The boot loader.
    Loader(bin::Loader<'a>),
    /// The boot loader of falcons.
    FalconLoader(bin::FalconLoader<'a>),
    /// The FMC.
    Fmc(fmc::Fmc<'a>),
    /// The VBIOS.
    Vbios(vbios::Vbios<'a>),
    /// Code of which no more is read.
    Code(Part<'a>),
}

impl<'a> Image<'a> {
    /// Checks the headers against the bytes. `name` is the file's name, perhaps with its folders: it says which kind of
    /// file this is.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Truncated`] or [`Error::Field`].
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Image<'a>, Error> {
        let kind = Kind::of(name).ok_or_else(|| Error::Kind { name: name.into() })?;
        let contents = match kind {
            Kind::Gsp => Contents::Gsp(gsp::Gsp::parse(name, bytes)?),
            Kind::Booter => Contents::Booter(booter::Booter::parse(name, bytes)?),
            Kind::Loader => Contents::Loader(bin::Loader::parse(name, bytes)?),
            Kind::FalconLoader => Contents::FalconLoader(bin::FalconLoader::parse(name, bytes)?),
            Kind::Fmc => Contents::Fmc(fmc::Fmc::parse(name, bytes)?),
            Kind::Vbios => Contents::Vbios(vbios::Vbios::parse(name, bytes)?),
            Kind::Bin(_) => Contents::Code(bin::Bin::of_any_chip(name, bytes)?.whole()),
            Kind::Raw(_) => Contents::Code(Part::new("code", 0, bytes)),
        };
        let version = match &contents {
            Contents::Gsp(gsp) => Some(gsp.version),
            _ => Version::of_name(name),
        };
        Ok(Image {
            kind,
            version,
            contents,
        })
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its version: GSP's firmware holds it, other files are named by it.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// What it holds.
    pub fn contents(&self) -> &Contents<'a> {
        &self.contents
    }

    /// Its parts. Some lie within others.
    pub fn parts(&self) -> Vec<Part<'a>> {
        match &self.contents {
            Contents::Gsp(gsp) => gsp.parts(),
            Contents::Booter(booter) => booter.parts(),
            Contents::Loader(loader) => loader.parts(),
            Contents::FalconLoader(loader) => loader.parts(),
            Contents::Fmc(fmc) => fmc.parts(),
            Contents::Vbios(vbios) => vbios.parts(),
            Contents::Code(part) => vec![part.clone()],
        }
    }

    /// What its headers say beside that: names and values, for people.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        match &self.contents {
            Contents::Gsp(gsp) => gsp.facts(),
            Contents::Booter(booter) => booter.facts(),
            Contents::Loader(loader) => loader.facts(),
            Contents::FalconLoader(loader) => loader.facts(),
            Contents::Fmc(fmc) => fmc.facts(),
            Contents::Vbios(vbios) => vbios.facts(),
            Contents::Code(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
