//! Reading a file through the page cache, without a copy. The one place with `unsafe` in this
//! folder.
//!
//! # The hazard
//!
//! A mapping shows the file as it is now, not as it was. If another process shortens the file
//! while it is mapped, touching the missing pages raises SIGBUS and ends this process; if it
//! overwrites the file in place, the bytes behind a `&[u8]` change. No check can exclude that, and
//! Linux has no mandatory locks. Files that are *replaced* (written elsewhere, then renamed, as the
//! writers here do) are safe: the mapping keeps the old file. Where other programs may rewrite a
//! file in place, read it into memory and use the `from_bytes` functions.

use std::fs::{File, Metadata};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memmap2::MmapOptions;

use super::FileError;

/// The content of a file, mapped privately and read-only, or held in memory.
#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a whole file. Only regular files are mapped: a pipe or a device has no content to map.
    pub(super) fn map(path: &Path) -> Result<Bytes, FileError> {
        Ok(Bytes::open(path)?.0)
    }

    fn open(path: &Path) -> Result<(Bytes, File), FileError> {
        let opened = |e| FileError::new(path, "open", e);
        let is_file = |meta: &Metadata| match meta {
            _ if meta.is_file() => Ok(()),
            _ if meta.is_dir() => {
                let kind = std::io::ErrorKind::IsADirectory;
                Err(FileError::new(path, "map", kind.into()))
            }
            _ => {
                let what = "expected a file, found a pipe, a device or a socket";
                let kind = std::io::ErrorKind::InvalidInput;
                Err(FileError::new(path, "map", std::io::Error::new(kind, what)))
            }
        };
        // Opening a FIFO waits for somebody who writes.
        is_file(&std::fs::metadata(path).map_err(opened)?)?;
        let file = File::open(path).map_err(opened)?;
        is_file(&file.metadata().map_err(opened)?)?;
        // SAFETY: the mapping is private and read-only, so nothing in this process writes it. That
        // no other process changes the file in place is the documented condition of this module.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&file) };
        match map {
            Ok(map) => Ok((Bytes::Mapped(map), file)),
            Err(e) => Err(FileError::new(path, "map", e)),
        }
    }
}

/// A file that is open and mapped: bytes that can be shared and sliced without a copy.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// The content; it stays mapped until the last slice is dropped.
    pub(crate) bytes: bytes::Bytes,
    file: Arc<File>,
}

/// Opens and maps a file.
pub(crate) fn shared(path: &Path) -> Result<Shared, FileError> {
    let (bytes, file) = Bytes::open(path)?;
    Ok(Shared {
        bytes: bytes::Bytes::from_owner(bytes),
        file: Arc::new(file),
    })
}

impl Shared {
    /// Where in the file a slice of its bytes is; nothing for other bytes.
    pub(crate) fn locate(&self, part: &bytes::Bytes) -> Option<Region> {
        let (whole, part) = (self.bytes.as_ptr_range(), part.as_ptr_range());
        let within = whole.start <= part.start && part.end <= whole.end && part.start < part.end;
        within.then(|| Region {
            file: self.file.clone(),
            offset: (part.start as usize - whole.start as usize) as u64,
            len: part.end as usize - part.start as usize,
        })
    }
}

/// A part of an open file. Reading it leaves no page of the mapping in memory.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    file: Arc<File>,
    offset: u64,
    len: usize,
}

impl Region {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Fills `into` with the bytes from `offset` on.
    pub(crate) fn read_at(&self, offset: usize, into: &mut [u8]) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(into, self.offset + offset as u64)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_are_mapped_and_replaced_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"old").unwrap();
        let bytes = Bytes::map(&path).unwrap();
        crate::io::replace::replace(&path, |out| out.write_all(b"new!")).unwrap();
        assert_eq!(&*bytes, b"old");
        assert_eq!(&*Bytes::map(&path).unwrap(), b"new!");
    }

    #[test]
    fn an_empty_file_is_empty() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Bytes::map(file.path()).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let text = |path: &str| Bytes::map(Path::new(path)).unwrap_err().to_string();
        assert_eq!(
            text("/nonexistent/x.npy"),
            "/nonexistent/x.npy: open failed: No such file or directory (os error 2); check the \
             path and the current folder"
        );
        assert_eq!(
            text("/tmp"),
            "/tmp: map failed: is a directory; name a file in that folder"
        );
        assert_eq!(
            text("/dev/null"),
            "/dev/null: map failed: expected a file, found a pipe, a device or a socket; give a regular file"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_limit_of_the_address_space_is_named() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let text = || {
            let full = std::io::Error::from_raw_os_error(libc::ENOMEM);
            FileError::new(Path::new("x.npy"), "map", full).to_string()
        };
        let before = getrlimit(Resource::As);
        assert_eq!(text().contains("ulimit -v"), before.current.is_some());
        // One that no test of this process is near.
        let current = Some(before.current.unwrap_or(1 << 46));
        setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
        let limited = text();
        setrlimit(Resource::As, before).unwrap();
        assert!(limited.contains("ulimit -v"), "{limited}");
    }
}
