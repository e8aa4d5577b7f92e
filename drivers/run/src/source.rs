//! Where the bytes of a bundle are.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// A file, or bytes in memory. Sections are read when they are needed: weights go to the device in pieces.
#[derive(Clone, Debug)]
pub struct Source {
    name: Arc<str>,
    bytes: Bytes,
    len: u64,
}

#[derive(Clone, Debug)]
enum Bytes {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

fn a_file(about: &Metadata) -> std::io::Result<()> {
    let kind = about.file_type();
    let found = match about {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a pipe",
        _ => "a device or a socket",
    };
    Err(std::io::Error::other(format!(
        "expected a file, found {found}: give the file of a bundle"
    )))
}

impl Source {
    /// A file, which must not be changed while it is used.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Source> {
        let name = path.as_ref().display().to_string();
        let path = path.as_ref();
        // Opening a FIFO waits for somebody who writes.
        let opened = std::fs::metadata(path)
            .and_then(|about| a_file(&about))
            .and_then(|()| File::open(path))
            .and_then(|file| {
                let about = file.metadata()?;
                a_file(&about)?;
                Ok((file, about.len()))
            });
        let (file, len) = opened.map_err(|source| Error::Io {
            file: name.clone(),
            source,
        })?;
        Ok(Source {
            name: name.into(),
            bytes: Bytes::File(Arc::new(file)),
            len,
        })
    }

    /// Bytes in memory; `name` stands for a path in errors.
    pub fn memory(name: &str, bytes: impl Into<Arc<[u8]>>) -> Source {
        let bytes: Arc<[u8]> = bytes.into();
        Source {
            name: name.into(),
            len: bytes.len() as u64,
            bytes: Bytes::Memory(bytes),
        }
    }

    /// The name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills a slice with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Io`], also where there are not so many.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let read = match &self.bytes {
            Bytes::File(file) => fill(file, offset, into),
            Bytes::Memory(bytes) => {
                let from = usize::try_from(offset).ok();
                let end = from.and_then(|from| from.checked_add(into.len()));
                let found = from.zip(end).and_then(|(from, end)| bytes.get(from..end));
                match found {
                    Some(found) => {
                        into.copy_from_slice(found);
                        Ok(())
                    }
                    None => {
                        let found = from.map_or(0, |from| bytes.len().saturating_sub(from));
                        Err(cut(offset, into.len(), found))
                    }
                }
            }
        };
        read.map_err(|source| Error::Io {
            file: self.name.to_string(),
            source,
        })
    }

    /// The SHA-256 of all bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sha256(&self) -> Result<[u8; 32]> {
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < self.len {
            let n = (self.len - at).min(PIECE as u64);
            let piece = &mut piece[..n as usize];
            self.read(at, piece)?;
            hash.update(&*piece);
            at += n;
        }
        Ok(hash.finalize().into())
    }
}

/// Reads as many bytes as there is room for.
fn fill(file: &File, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => return Err(cut(offset, into.len(), done)),
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A file that ends before it should: its size was taken when it was opened.
fn cut(offset: u64, wanted: usize, found: usize) -> std::io::Error {
    let text = format!(
        "expected {wanted} bytes from byte {offset} on, found {found}: the file has become shorter since it was opened. Copy \
         it again, and leave it as it is while it is used"
    );
    std::io::Error::new(ErrorKind::UnexpectedEof, text)
}

/// Bytes that are read at once.
pub(crate) const PIECE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_becomes_shorter_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.dbx");
        std::fs::write(&path, [7; 100]).unwrap();
        let source = Source::open(&path).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(60)
            .unwrap();
        let error = source.read(40, &mut [0; 32]).unwrap_err().to_string();
        let said = format!(
            "{}: expected 32 bytes from byte 40 on, found 20",
            path.display()
        );
        assert!(error.starts_with(&said), "{error}");
        let memory = Source::memory("memory", [0u8; 8]).read(4, &mut [0; 8]);
        let error = memory.unwrap_err().to_string();
        assert!(
            error.starts_with("memory: expected 8 bytes from byte 4 on, found 4"),
            "{error}"
        );
    }
}
