//! Finds, parses and verifies firmware images.
//!
//! The repository holds no firmware. Distributions package it (Debian: `firmware-amd-graphics`,
//! `firmware-nvidia-graphics`); [`search`] finds it, [`amd`] and [`nv`] parse it, [`known`] and a [`manifest`] identify
//! its release by hash.
#![forbid(unsafe_code)]

pub mod amd;
mod belongs;
#[cfg(feature = "cli")]
pub mod command;
mod file;
pub mod known;
pub mod manifest;
pub mod nv;
pub mod search;
mod vendor;

use std::path::PathBuf;

pub use vendor::Vendor;

/// Packages with AMD GPU firmware, for messages about missing or damaged files.
pub const PACKAGES: &str = "Debian: apt install firmware-amd-graphics (component \
                            non-free-firmware; for newer cards from backports), Ubuntu: \
                            linux-firmware, Fedora: amd-gpu-firmware, Arch: linux-firmware-amdgpu; for \
                            simulated cards in a checkout: scripts/fetch firmware";

/// Why an image or a manifest was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file was not found.
    #[error(
        "{name}: not found in {folders}. Install it ({}), or set HCQDEV_FIRMWARE to its folder \
         (`doorbell fw list` and `verify`: --from FOLDER)",
        Vendor::of(.name).packages()
    )]
    Missing {
        /// The image.
        name: String,
        /// Where it was looked for.
        folders: String,
    },
    /// A compressed file that is damaged or too large.
    #[error(
        "{path}: {why}. The file is damaged; install it again ({})",
        vendor::packages(.path)
    )]
    Packed {
        /// The file.
        path: PathBuf,
        /// What the decompressor says.
        why: String,
    },
    /// The file name is not that of a known kind of firmware.
    #[error(
        "{name}: unknown kind of firmware; expected the name of an amdgpu file (gc_11_0_0_mec.bin, \
         navi10_sdma.bin) or of a file of NVIDIA's (gsp-570.144.bin, fmc-570.144.bin, gsp_ga10x.bin, card.rom), \
         which determines the header format"
    )]
    Kind {
        /// The image.
        name: String,
    },
    /// The file is too short for its contents.
    #[error(
        "{name}: {what} needs {needed} bytes at offset {offset}, the file has {len}. The file is \
         truncated or its header is damaged; {} it again",
        vendor::remedy(.name)
    )]
    Truncated {
        /// The image.
        name: String,
        /// Header or code.
        what: String,
        /// Where it starts.
        offset: u64,
        /// How many bytes it has.
        needed: u64,
        /// Size of the file.
        len: u64,
    },
    /// A field contradicts the file.
    #[error(
        "{name}: {field} is {found}, expected {expected}. This is not a firmware file of this \
         kind, or it is damaged"
    )]
    Field {
        /// The image.
        name: String,
        /// The field of the header.
        field: String,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// The checksum in the header does not match the contents.
    #[error(
        "{name}: the header has crc32 {found:#010x}, the file has {expected:#010x}. The file is \
         damaged; install it again"
    )]
    Checksum {
        /// The image.
        name: String,
        /// The header's.
        found: u32,
        /// That of the bytes.
        expected: u32,
    },
    /// AMD's signature does not match the contents.
    #[error("{name}: AMD's signature does not match {part}. The file is damaged; install it again")]
    Signature {
        /// The image.
        name: String,
        /// The part of it.
        part: String,
    },
    /// A file of another chip or release under this name.
    #[error(
        "{name}: this is {is}, expected {expected}. Install the file again ({})",
        Vendor::of(.name).packages()
    )]
    Other {
        /// The image.
        name: String,
        /// What it is.
        is: String,
        /// What its name, or the files beside it, say.
        expected: String,
    },
    /// An invalid line in a manifest.
    #[error("{path} line {line}: {why}")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Expected and found.
        why: String,
    },
}
