//! Firmware that is not as it was published.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::super::boot::firmware;

/// What is wrong with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It is not there.
    Missing,
    /// There is nothing in it.
    Empty,
    /// The second half is not there.
    Short,
    /// One bit of its header is another one.
    Header,
    /// One bit of what the card gets is another one.
    Body,
}

/// All of them.
pub const DAMAGES: [Damage; 5] = [
    Damage::Missing,
    Damage::Empty,
    Damage::Short,
    Damage::Header,
    Damage::Body,
];

/// A folder with these files, as they were published.
pub fn folder<'a>(names: impl IntoIterator<Item = &'a String>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        symlink(published(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn published(name: &str) -> std::path::PathBuf {
    firmware().join("amdgpu").join(name)
}

impl Damage {
    /// Puts a damaged file into a folder of whole ones.
    pub fn put(self, folder: &Path, name: &str) {
        let mut bytes = fs::read(published(name)).unwrap();
        let len = bytes.len();
        match self {
            Damage::Missing => {}
            Damage::Empty => bytes.clear(),
            Damage::Short => bytes.truncate(len / 2),
            // The high half of the length.
            Damage::Header => bytes[2] ^= 1,
            Damage::Body => bytes[len / 2] ^= 0x10,
        }
        let path = folder.join(name);
        fs::remove_file(&path).unwrap();
        if self != Damage::Missing {
            fs::write(path, bytes).unwrap();
        }
    }
}
