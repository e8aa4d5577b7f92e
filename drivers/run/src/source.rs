//! Where the bytes of a bundle are.

use std::fs::File;
use std::os::unix::fs::FileExt;
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

impl Source {
    /// A file, which must not be changed while it is used.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Source> {
        let name = path.as_ref().display().to_string();
        let opened = File::open(path).and_then(|file| {
            let about = file.metadata()?;
            match about.is_file() {
                true => Ok((file, about.len())),
                false => Err(std::io::Error::other(
                    "expected a file, found something else",
                )),
            }
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
            Bytes::File(file) => file.read_exact_at(into, offset),
            Bytes::Memory(bytes) => {
                let from = usize::try_from(offset).ok();
                let end = from.and_then(|from| from.checked_add(into.len()));
                let found = from.zip(end).and_then(|(from, end)| bytes.get(from..end));
                match found {
                    Some(found) => {
                        into.copy_from_slice(found);
                        Ok(())
                    }
                    None => Err(std::io::ErrorKind::UnexpectedEof.into()),
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

/// Bytes that are read at once.
pub(crate) const PIECE: usize = 1 << 20;
