//! Files of arrays: [`safetensors`], [`npy`] and [`npz`].
//!
//! Nothing here knows tensors or devices: a reader gives an element type, a shape and bytes, a
//! writer takes them. Bytes are little-endian and rows are contiguous (C order), as every device
//! of this project has them.
//!
//! A file is untrusted input. Every size is checked against what the file really holds before
//! memory is taken for it, every fault is one error that names the file, the array, what was
//! expected, what was found and what to do, and nothing panics.

#[allow(unsafe_code)]
mod map;
pub mod npy;
pub mod npz;
mod replace;
pub mod safetensors;

pub(crate) use map::{Region, Shared, shared};

use std::fmt;
use std::io;
use std::path::Path;

/// Most elements that an array may have: the strides of any view of it still fit an `i64` in
/// bytes.
pub const MAX_ELEMENTS: usize = 1 << 60;

/// The operating system refused to open, read or write a file.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {op} failed: {source}; {hint}")]
pub struct FileError {
    /// The path as it was given.
    pub file: String,
    /// What was tried: `open`, `map`, `create`, `write` or `rename`.
    pub op: &'static str,
    /// The error of the operating system.
    pub source: io::Error,
    /// What to do next.
    pub hint: &'static str,
}

impl FileError {
    pub(crate) fn new(path: &Path, op: &'static str, source: io::Error) -> FileError {
        let hint = match source.kind() {
            io::ErrorKind::NotFound => "check the path and the current folder",
            io::ErrorKind::PermissionDenied => "check who owns the file and its folder",
            io::ErrorKind::IsADirectory => "name a file in that folder",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space; the previous file, if any, is unchanged"
            }
            io::ErrorKind::OutOfMemory => no_room(),
            io::ErrorKind::InvalidInput => "give a regular file",
            _ => "try to copy the file elsewhere with `cp` to see whether the system can read it",
        };
        FileError {
            file: path.display().to_string(),
            op,
            source,
            hint,
        }
    }
}

/// What helps where the system has no memory, or no addresses, for a file.
fn no_room() -> &'static str {
    #[cfg(target_os = "linux")]
    if rustix::process::getrlimit(rustix::process::Resource::As)
        .current
        .is_some()
    {
        return "raise the address space limit (`ulimit -v`), free memory, or raise the memory limit of \
                the container";
    }
    "free memory, or raise the memory limit of the container"
}

/// A name from an untrusted file, safe to print: quoted, escaped, and cut when very long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quoted(String);

impl Quoted {
    /// Characters that are shown.
    const SHOWN: usize = 80;

    pub(crate) fn new(name: &str) -> Quoted {
        let mut shown: String = name.chars().take(Quoted::SHOWN).collect();
        if shown.len() < name.len() {
            shown.push_str("...");
        }
        Quoted(shown)
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The number of elements of a shape (1 for the empty shape), if it is at most [`MAX_ELEMENTS`]
/// even with its zero dimensions left out: the strides of an empty array are computed too.
pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    let all = shape
        .iter()
        .filter(|&&dim| dim > 0)
        .try_fold(1usize, |n, &dim| {
            n.checked_mul(dim).filter(|&n| n <= MAX_ELEMENTS)
        })?;
    Some(if shape.contains(&0) { 0 } else { all })
}

/// The candidate that is most like `name`, if any is like it at all: for "did you mean".
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .filter(|&(distance, c)| distance <= 2.max(c.chars().count() / 3))
        .min()
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_counts() {
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(element_count(&[3, 4]), Some(12));
        assert_eq!(element_count(&[3, 0, 4]), Some(0));
        assert_eq!(element_count(&[1 << 60]), Some(1 << 60));
        assert_eq!(element_count(&[1 << 61]), None);
        assert_eq!(element_count(&[1 << 31, 1 << 31]), None);
        assert_eq!(element_count(&[0, 1 << 31, 1 << 31]), None);
        assert_eq!(element_count(&[usize::MAX, usize::MAX]), None);
    }

    #[test]
    fn names_are_printed_safely() {
        assert_eq!(
            Quoted::new("a\n\"b\u{1b}[31m").to_string(),
            r#""a\n\"b\u{1b}[31m""#
        );
        let long = Quoted::new(&"x".repeat(1000)).to_string();
        assert_eq!(long, format!("\"{}...\"", "x".repeat(80)));
    }
}
