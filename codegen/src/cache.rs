//! Compiled objects on disk, by content, shared by processes.
//!
//! An entry is a file `<key>.o` with a header and a checksum. It is written under another name
//! and renamed, so a reader sees all of it or nothing; a writer that dies leaves a temporary file
//! that is swept later. Whatever is not as it should be is a miss, and is removed.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// First bytes of an entry: name and version of the format.
const MAGIC: &[u8; 8] = b"kobject1";
const HEADER: usize = 8 + 8 + 32;
/// Temporary files older than this belong to a writer that is gone.
const STALE: Duration = Duration::from_secs(3600);
/// Objects kept in memory.
const IN_MEMORY: usize = 4096;

/// A directory of compiled objects with a layer in memory.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    limit: u64,
    memory: Mutex<HashMap<[u8; 32], Arc<[u8]>>>,
    /// Bytes written since the size was last checked.
    written: AtomicU64,
    serial: AtomicU64,
}

impl Cache {
    /// A cache in a directory, which is made if it is not there. `limit` is the size in bytes that
    /// the directory is kept below; the entries that were not used for the longest time go first.
    pub fn open(dir: impl Into<PathBuf>, limit: u64) -> Result<Cache> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|source| Error::Cache {
            path: dir.clone(),
            action: "making the directory",
            source,
        })?;
        let cache = Cache {
            dir,
            limit,
            memory: Mutex::default(),
            written: AtomicU64::new(0),
            serial: AtomicU64::new(0),
        };
        cache.trim();
        Ok(cache)
    }

    fn path(&self, key: &[u8; 32]) -> PathBuf {
        let mut name = String::with_capacity(66);
        for byte in key {
            name += &format!("{byte:02x}");
        }
        self.dir.join(name + ".o")
    }

    /// The object of a key. Anything wrong with the entry makes it a miss.
    pub fn get(&self, key: &[u8; 32]) -> Option<Arc<[u8]>> {
        let found = self
            .memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned();
        if found.is_some() {
            return found;
        }
        let path = self.path(key);
        // Nothing larger than the whole cache is an entry; do not read it.
        let size = fs::metadata(&path).ok()?.len();
        let object = (size <= self.limit.saturating_add(HEADER as u64))
            .then(|| fs::read(&path).ok())
            .flatten()
            .and_then(|bytes| payload(key, &bytes).map(Arc::<[u8]>::from));
        let Some(object) = object else {
            tracing::warn!(path = %path.display(), "compile cache entry is damaged, removing it");
            let _ = fs::remove_file(&path);
            return None;
        };
        // The time of the last use decides what goes first; a failure only makes it go earlier.
        if let Ok(file) = fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        self.remember(key, &object);
        Some(object)
    }

    /// Keeps an object. A disk that refuses is no error: the object stays in memory.
    pub fn put(&self, key: &[u8; 32], object: &Arc<[u8]>) {
        self.remember(key, object);
        if object.len() as u64 + HEADER as u64 > self.limit {
            return;
        }
        if let Err(e) = self.write(key, object) {
            tracing::warn!(dir = %self.dir.display(), "compile cache entry not written: {e}");
            return;
        }
        let total = self
            .written
            .fetch_add(object.len() as u64, Ordering::Relaxed);
        if total > self.limit / 16 {
            self.written.store(0, Ordering::Relaxed);
            self.trim();
        }
    }

    fn remember(&self, key: &[u8; 32], object: &Arc<[u8]>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.len() >= IN_MEMORY {
            memory.clear();
        }
        memory.insert(*key, object.clone());
    }

    fn write(&self, key: &[u8; 32], object: &[u8]) -> std::io::Result<()> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let me = std::ptr::from_ref(self) as usize;
        let temporary = self
            .dir
            .join(format!("{}-{me:x}-{serial}.tmp", std::process::id()));
        let result = (|| {
            let mut file = fs::File::create_new(&temporary)?;
            file.write_all(MAGIC)?;
            file.write_all(&(object.len() as u64).to_le_bytes())?;
            file.write_all(&checksum(key, object))?;
            file.write_all(object)?;
            drop(file);
            fs::rename(&temporary, self.path(key))
        })();
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result
    }

    /// Removes the entries that were not used for the longest time until the rest fits, and what
    /// dead writers left.
    fn trim(&self) {
        let Ok(list) = fs::read_dir(&self.dir) else {
            return;
        };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in list.flatten() {
            let path = entry.path();
            let Ok(meta) = entry.metadata() else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|e| e.to_str()) {
                Some("o") => entries.push((used, meta.len(), path)),
                Some("tmp") if used.elapsed().is_ok_and(|age| age > STALE) => {
                    let _ = fs::remove_file(&path);
                }
                _ => {}
            }
        }
        let mut total: u64 = entries.iter().map(|e| e.1).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for (_, size, path) in entries {
            if total <= self.limit / 4 * 3 {
                return;
            }
            if remove(&path) {
                total = total.saturating_sub(size);
            }
        }
    }
}

fn remove(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        // Another process was faster.
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

fn checksum(key: &[u8; 32], object: &[u8]) -> [u8; 32] {
    let mut h = Sha256::new();
    h.update(key);
    h.update(object);
    h.finalize().into()
}

/// The object in the bytes of an entry, if they are whole.
fn payload<'a>(key: &[u8; 32], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (header, object) = bytes.split_at_checked(HEADER)?;
    let length = u64::from_le_bytes(header[8..16].try_into().ok()?);
    let whole = &header[..8] == MAGIC
        && length == object.len() as u64
        && header[16..] == checksum(key, object);
    whole.then_some(object)
}
