//! Firmware images: what they say of themselves, and whether they are the ones that were meant.
//!
//! The repository holds no firmware. Distributions package it (Debian: `firmware-amd-graphics`);
//! a [`manifest`] names the files that a driver was written against, by hash.
#![forbid(unsafe_code)]

pub mod amd;
pub mod manifest;

use std::path::PathBuf;

/// Why an image or a manifest was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read or written.
    #[error("{path}: {source}. Firmware comes from the distribution's package")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is too short for what it should hold.
    #[error(
        "{name}: {what} needs {needed} bytes at offset {offset}, the file has {len}. The file is truncated; install it again"
    )]
    Truncated {
        /// The image.
        name: String,
        /// Header or code.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// How many bytes it has.
        needed: u64,
        /// Size of the file.
        len: u64,
    },
    /// A field contradicts the file.
    #[error(
        "{name}: {field} is {found}, expected {expected}. This is not a firmware file of this kind, or it is damaged"
    )]
    Field {
        /// The image.
        name: String,
        /// The field of the header.
        field: &'static str,
        /// What it says.
        found: u64,
        /// What it should say.
        expected: String,
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
