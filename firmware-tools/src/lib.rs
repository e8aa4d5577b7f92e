//! Firmware images: what they say of themselves, where they are, and whether they are the ones
//! that were meant.
//!
//! The repository holds no firmware. Distributions package it (Debian: `firmware-amd-graphics`);
//! [`search`] finds it, [`amd`] takes it apart, [`known`] and a [`manifest`] tell by its hash
//! which release it is of.
#![forbid(unsafe_code)]

pub mod amd;
#[cfg(feature = "cli")]
pub mod command;
mod file;
pub mod known;
pub mod manifest;
pub mod search;

use std::path::PathBuf;

/// Where firmware of AMD's GPUs comes from, for messages about a file that is missing or damaged.
pub const PACKAGES: &str = "Debian: apt install firmware-amd-graphics (component \
                            non-free-firmware; newer cards: from the backports), Ubuntu: \
                            linux-firmware, Fedora: amd-gpu-firmware, Arch: linux-firmware-amdgpu; for \
                            simulated cards of a checkout: scripts/fetch firmware";

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
    /// The file is in none of the folders.
    #[error(
        "{name}: in none of {folders}. Install it ({PACKAGES}), or name its folder: HCQDEV_FIRMWARE, and --from for \
         `doorbell fw`"
    )]
    Missing {
        /// The image.
        name: String,
        /// Where it was looked for.
        folders: String,
    },
    /// A compressed file that is damaged, or that is larger than any firmware.
    #[error("{path}: {why}. The file is damaged; install it again ({PACKAGES})")]
    Packed {
        /// The file.
        path: PathBuf,
        /// What the decompressor says.
        why: String,
    },
    /// Its name is that of no kind of firmware.
    #[error(
        "{name}: expected the name of an amdgpu firmware file (gc_11_0_0_mec.bin, \
         navi10_sdma.bin), found no kind that is known; which header it has follows from it"
    )]
    Kind {
        /// The image.
        name: String,
    },
    /// The file is too short for what it should hold.
    #[error(
        "{name}: {what} needs {needed} bytes at offset {offset}, the file has {len}. The file is \
         truncated or its header is damaged; install it again"
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
    /// The header is right, the bytes are not those that it was made for.
    #[error(
        "{name}: crc32 is {found:#010x}, the bytes of the file give {expected:#010x}. The file is \
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
    /// The headers are right, the bytes are not those that AMD has signed.
    #[error(
        "{name}: {part} is not what AMD has signed: its signature is one of other bytes. The file is damaged; \
         install it again"
    )]
    Signature {
        /// The image.
        name: String,
        /// The part of it.
        part: String,
    },
    /// A manifest line that makes no sense.
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
