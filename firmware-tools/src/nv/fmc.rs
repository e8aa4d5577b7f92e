//! The FMC of Hopper and later, which the FSP verifies and starts GSP with.
//!
//! The rules are those of Linux, drivers/gpu/drm/nouveau/nvkm/subdev/{gsp/gh100.c,fsp/gh100.c,fsp/gb100.c}. Observed in
//! the files of 570.144: `hash` is the SHA-384 of `image`.

use drivers_spec::nv::fw::FMC_SHF_FLAGS;
use object::elf::{FileHeader32, SHT_PROGBITS};
use sha2::{Digest, Sha384};

use super::Part;
use super::elf::{self, Section};
use crate::Error;
use crate::file::File;

/// The size of a SHA-384.
const HASH: usize = 48;
/// What the message to the FSP has room for: RSA of 3072 bits.
pub const ROOM: usize = 384;

/// How an FMC is signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// RSA of 3072 bits: Hopper.
    Rsa3072,
    /// ECDSA on P-384, with a point that is not compressed: Blackwell.
    EcdsaP384,
}

/// An FMC.
#[derive(Clone, Debug)]
pub struct Fmc<'a> {
    /// How it is signed.
    pub scheme: Scheme,
    /// In the order of [`NAMES`].
    sections: [Section<'a>; 4],
}

/// The sections.
const NAMES: [&str; 4] = ["hash", "signature", "publickey", "image"];

impl<'a> Fmc<'a> {
    /// Checks sections, sizes, checksums and the hash.
    ///
    /// # Errors
    /// [`Error::Field`]
    pub fn parse(name: &str, bytes: &'a [u8]) -> Result<Fmc<'a>, Error> {
        let file = File { name, bytes };
        let (machine, all) = elf::sections::<FileHeader32<object::LittleEndian>>(file)?;
        if machine != 0 {
            return Err(file.field("e_machine", machine, "0"));
        }
        let take = |name| -> Result<Section<'a>, Error> {
            let section = elf::section(file, &all, name)?;
            if section.kind != SHT_PROGBITS || section.flags != u64::from(FMC_SHF_FLAGS) {
                let found = format!("type {} with flags {:#x}", section.kind.0, section.flags);
                let expected = format!("type {} with flags {FMC_SHF_FLAGS:#x}", SHT_PROGBITS.0);
                return Err(file.field(format!("section {name}"), found, expected));
            }
            // Zero says that there is no checksum.
            let sum = crc32fast::hash(section.bytes);
            if section.info != 0 && section.info != sum {
                let found = format!("{:#010x}", section.info);
                return Err(file.field(
                    format!("the crc32 of {name}"),
                    found,
                    format!("{sum:#010x}"),
                ));
            }
            Ok(section.clone())
        };
        let [hash, signature, key, image] = NAMES.map(take);
        let sections = [hash?, signature?, key?, image?];
        let [hash, signature, key, image] = &sections;
        if hash.bytes.len() != HASH {
            return Err(file.field("the size of hash", hash.bytes.len(), HASH.to_string()));
        }
        let scheme = match (key.bytes.len(), signature.bytes.len()) {
            (384, 384) => Scheme::Rsa3072,
            (97, 96) => Scheme::EcdsaP384,
            (key, signature) => {
                let found = format!("{key} and {signature}");
                let expected = "384 and 384 (Hopper) or 97 and 96 (Blackwell)";
                return Err(file.field("the sizes of publickey and signature", found, expected));
            }
        };
        let of_image = Sha384::digest(image.bytes);
        if hash.bytes != &of_image[..] {
            let hex = |bytes: &[u8]| {
                bytes
                    .iter()
                    .take(8)
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>()
            };
            let expected = format!("the SHA-384 of image, {}...", hex(&of_image));
            return Err(file.field("hash", format!("{}...", hex(hash.bytes)), expected));
        }
        Ok(Fmc { scheme, sections })
    }

    /// What GSP runs.
    pub fn image(&self) -> &'a [u8] {
        self.sections[3].bytes
    }

    /// The SHA-384 of the image.
    pub fn hash(&self) -> &'a [u8] {
        self.sections[0].bytes
    }

    /// The signature, with zeros up to the room of the message to the FSP.
    pub fn signature(&self) -> [u8; ROOM] {
        padded(self.sections[1].bytes)
    }

    /// The public key, with zeros up to the room of the message to the FSP.
    pub fn public_key(&self) -> [u8; ROOM] {
        padded(self.sections[2].bytes)
    }

    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        let part = |section: &Section<'a>| Part::new(&section.name, section.offset, section.bytes);
        self.sections.iter().map(part).collect()
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let scheme = match self.scheme {
            Scheme::Rsa3072 => "RSA of 3072 bits",
            Scheme::EcdsaP384 => "ECDSA on P-384",
        };
        vec![("signed by", scheme.into())]
    }
}

fn padded(bytes: &[u8]) -> [u8; ROOM] {
    let mut all = [0; ROOM];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    all
}
