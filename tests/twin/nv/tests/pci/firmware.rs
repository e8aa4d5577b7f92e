//! What a card is started with: files that NVIDIA has published, or a small one that the card's keys accept as well.

use std::fs;
use std::path::{Path, PathBuf};

use twin_nv::pci::chip::{Chip, Family};
use twin_nv::pci::signed::{self, Booter, Does, Fmc, Image, Loader, Signed, sum};

/// Microcode of SEC2.
#[derive(Clone)]
pub struct Hs {
    pub code: Vec<u8>,
    pub data: Vec<u8>,
}

/// What FSP starts on GSP: the sections of its file.
#[derive(Clone, Default)]
pub struct ByFsp {
    pub image: Vec<u8>,
    pub hash: Vec<u8>,
    pub key: Vec<u8>,
    pub signature: Vec<u8>,
}

/// All of it.
#[derive(Clone)]
pub struct Firmware {
    pub version: &'static str,
    pub image: Vec<u8>,
    pub signature: Vec<u8>,
    pub loader: Vec<u8>,
    /// Offsets of its code, its data and its manifest.
    pub offsets: [u64; 3],
    pub load: Hs,
    pub unload: Hs,
    pub fmc: ByFsp,
}

/// Where the signature goes in the data of a booter.
pub const PATCH: usize = 0x10;

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes)
        .map(|i| (i as u8).wrapping_mul(seed) ^ (i >> 8) as u8)
        .collect()
}

impl Firmware {
    /// A small one of a branch.
    pub fn small(version: &'static str) -> Firmware {
        let hs = |seed| Hs {
            code: pattern(0x300, seed),
            data: {
                let mut data = vec![0; 0x400];
                data[PATCH..PATCH + signed::SIGNATURE]
                    .copy_from_slice(&pattern(signed::SIGNATURE, seed + 2));
                data
            },
        };
        Firmware {
            version,
            // Two tables of pages.
            image: pattern(515 * 4096, 7),
            signature: pattern(4096, 9),
            loader: pattern(0x3000, 11),
            offsets: [0x1800, 0x800, 0],
            load: hs(3),
            unload: hs(5),
            fmc: ByFsp {
                image: pattern(0x2345, 13),
                hash: pattern(48, 15),
                key: pattern(signed::SIGNATURE, 17),
                signature: pattern(signed::SIGNATURE, 19),
            },
        }
    }

    /// The same, with a key and a signature of the sizes of a chip.
    pub fn small_for(chip: &Chip, version: &'static str) -> Firmware {
        let mut firmware = Firmware::small(version);
        if let Some(fsp) = &chip.fsp {
            firmware.fmc.key.truncate(fsp.key);
            firmware.fmc.signature.truncate(fsp.signature);
        }
        firmware
    }

    /// What a card of a chip accepts that accepts this, too.
    pub fn signed(&self, chip: &Chip) -> Signed {
        let mut signed = Signed::published();
        let family = chip.family;
        for (name, does, hs) in [
            ("small load", Does::Load, &self.load),
            ("small unload", Does::Unload, &self.unload),
        ] {
            signed.booters.push(Booter {
                name,
                family,
                does,
                code: (sum(&hs.code), hs.code.len()),
                fuse_version: 1,
                signatures: vec![sum(&hs.data[PATCH..PATCH + signed::SIGNATURE])],
            });
        }
        signed.images.push(Image {
            version: self.version,
            image: (sum(&self.image), self.image.len() as u64),
            signatures: vec![(family, sum(&self.signature))],
        });
        signed.loaders.push(Loader {
            family,
            code: (sum(&self.loader), self.loader.len() as u64),
            offsets: self.offsets,
        });
        let fmc = &self.fmc;
        signed.fmcs.push(Fmc {
            name: "small",
            family,
            image: (sum(&fmc.image), fmc.image.len() as u64),
            hash: sum(&fmc.hash),
            key: sum(&fmc.key),
            signature: sum(&fmc.signature),
        });
        signed
    }

    /// Files of a version for a chip, where scripts/fetch has put them.
    pub fn published(chip: &Chip, version: &'static str) -> Option<Firmware> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../target/firmware/nvidia-graphics/nvidia")
            .join(chip.name)
            .join("gsp");
        let file = |name: &str| -> Option<Vec<u8>> {
            let path: PathBuf = folder.join(format!("{name}-{version}.bin"));
            let found = fs::read(&path).ok();
            if found.is_none() {
                println!(
                    "skipped: {}: scripts/fetch firmware-nvidia fetches it",
                    path.display()
                );
            }
            found
        };
        let gsp = file("gsp")?;
        let family = match chip.family {
            Family::Ga10x => ".fwsignature_ga10x",
            Family::Ad10x => ".fwsignature_ad10x",
            Family::Gh100 => ".fwsignature_gh100",
            Family::Gb20x => ".fwsignature_gb20x",
        };
        let loader = file("bootloader")?;
        let (header, data) = (word(&loader, 12), word(&loader, 16));
        let field = |i: usize| word(&loader, header + 4 * i) as u64;
        let none = Hs {
            code: Vec::new(),
            data: Vec::new(),
        };
        let (load, unload, fmc) = match chip.fsp {
            None => (
                hs(&file("booter_load")?),
                hs(&file("booter_unload")?),
                ByFsp::default(),
            ),
            Some(_) => (none.clone(), none, by_fsp(&file("fmc")?)),
        };
        Some(Firmware {
            version,
            image: section(&gsp, ".fwimage"),
            signature: section(&gsp, family),
            offsets: [field(12), field(10), field(8)],
            loader: loader[data..data + word(&loader, 20)].to_vec(),
            load,
            unload,
            fmc,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn long(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// A section of an ELF file.
fn section(file: &[u8], name: &str) -> Vec<u8> {
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let (table, count, names) = (long(file, 0x28), half(0x3c), half(0x3e));
    let header = |i: usize| table + 64 * i;
    let names = long(file, header(names) + 0x18);
    let mut all = (0..count).map(header);
    let found = all.find(|at| {
        let text = &file[names + word(file, *at)..];
        text.starts_with(name.as_bytes()) && text[name.len()] == 0
    });
    let at = found.unwrap();
    let start = long(file, at + 0x18);
    file[start..start + long(file, at + 0x20)].to_vec()
}

/// What FSP starts: an ELF file of 32 bits.
fn by_fsp(file: &[u8]) -> ByFsp {
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let (table, count, names) = (word(file, 0x20), half(0x30), half(0x32));
    let header = |i: usize| table + 40 * i;
    let names = word(file, header(names) + 0x10);
    let section = |name: &str| {
        let found = (0..count).map(header).find(|at| {
            let text = &file[names + word(file, *at)..];
            text.starts_with(name.as_bytes()) && text[name.len()] == 0
        });
        let at = found.unwrap();
        let start = word(file, at + 0x10);
        file[start..start + word(file, at + 0x14)].to_vec()
    };
    ByFsp {
        image: section("image"),
        hash: section("hash"),
        key: section("publickey"),
        signature: section("signature"),
    }
}

/// A booter, with the signature of a fuse of version 1, the first one.
fn hs(file: &[u8]) -> Hs {
    let header = word(file, 12);
    let image = &file[word(file, 16)..];
    let field = |i: usize| word(file, header + 4 * i);
    let first = field(0) + word(file, field(3));
    let load = field(7);
    let (data, bytes) = (word(file, load + 8), word(file, load + 12));
    let (app, app_bytes) = (word(file, load + 20), word(file, load + 24));
    let mut data = image[data..data + bytes].to_vec();
    data[PATCH..PATCH + signed::SIGNATURE].copy_from_slice(&file[first..first + signed::SIGNATURE]);
    Hs {
        code: image[app..app + app_bytes].to_vec(),
        data,
    }
}
