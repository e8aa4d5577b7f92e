//! Compiled objects on disk, by content, shared by the processes of one user.
//!
//! An entry is a file `<key>.o` with a header and a checksum. It is written under another name and renamed, so a
//! reader sees all of it or nothing; temporary files of killed writers are swept later. A damaged entry is a miss
//! and is removed. Entries are executed, so only this user may write to the folder (see `folder`).

mod folder;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use sha2::{Digest, Sha256};

use self::folder::Folder;
use crate::error::Result;
use crate::trust::Rights;

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
    folder: Folder,
    limit: u64,
    memory: Mutex<HashMap<[u8; 32], Arc<[u8]>>>,
    /// Bytes written since the size was last checked.
    written: AtomicU64,
    serial: AtomicU64,
    /// Whether a disk that refuses was told of: what fails once fails for each kernel.
    told: AtomicBool,
}

impl Cache {
    /// A cache in a directory, which is created if needed, and closed to other users. `limit` is the maximum size
    /// of the directory in bytes; least recently used entries are removed first.
    ///
    /// # Errors
    /// The directory is a link, or belongs to another user, or this process has more rights than the user who
    /// started it and named the directory.
    pub fn open(dir: impl Into<PathBuf>, limit: u64) -> Result<Cache> {
        let cache = Cache {
            folder: Folder::open(dir.into(), Rights::own())?,
            limit,
            memory: Mutex::default(),
            written: AtomicU64::new(0),
            serial: AtomicU64::new(0),
            told: AtomicBool::new(false),
        };
        cache.trim();
        Ok(cache)
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
        let name = name(key);
        // Nothing larger than the whole cache is an entry.
        let most = self.limit.saturating_add(HEADER as u64);
        let object = match self.folder.read(&name, most)? {
            Ok(bytes) => payload(key, &bytes)
                .map(Arc::from)
                .ok_or("is damaged".into()),
            // It is as good as it was.
            Err(e) if is_want(&e) => {
                let dir = self.folder.path().display();
                tracing::warn!(%dir, "cannot read a compile cache entry: {e}");
                return None;
            }
            Err(e) => Err(e.to_string()),
        };
        match object {
            Ok(object) => {
                self.remember(key, &object);
                Some(object)
            }
            Err(why) => {
                let path = self.folder.path().join(&name);
                let path = path.display();
                match self.folder.remove(&name) {
                    true => tracing::warn!(%path, "removed a compile cache entry: {why}"),
                    false => {
                        tracing::warn!(%path, "cannot use or remove a compile cache entry: {why}; delete it")
                    }
                }
                None
            }
        }
    }

    /// Stores an object. Disk errors are not fatal: the object stays in memory.
    pub fn put(&self, key: &[u8; 32], object: &Arc<[u8]>) {
        self.remember(key, object);
        if object.len() as u64 + HEADER as u64 > self.limit {
            return;
        }
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let me = std::ptr::from_ref(self) as usize;
        let temporary = format!("{}-{me:x}-{serial}.tmp", std::process::id());
        let length = (object.len() as u64).to_le_bytes();
        let parts = [&MAGIC[..], &length, &checksum(key, object), object];
        if let Err(e) = self.folder.write(&name(key), &temporary, &parts) {
            let dir = self.folder.path().display();
            match self.told.swap(true, Ordering::Relaxed) {
                true => tracing::debug!(%dir, "cannot write a compile cache entry: {e}"),
                false => tracing::warn!(
                    %dir,
                    "cannot write a compile cache entry: {e}; further ones are logged at level debug"
                ),
            }
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

    /// Removes the entries that were not used for the longest time until the rest fits, and what
    /// dead writers left.
    fn trim(&self) {
        let Ok(mut entries) = self.folder.entries() else {
            return;
        };
        entries.retain(|e| {
            let old = e.modified.elapsed().is_ok_and(|age| age > STALE);
            if e.name.ends_with(".tmp") && old {
                self.folder.remove(&e.name);
            }
            e.name.ends_with(".o")
        });
        let mut total: u64 = entries.iter().map(|e| e.bytes).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for entry in entries {
            if total <= self.limit / 4 * 3 {
                return;
            }
            if self.folder.remove(&entry.name) {
                total = total.saturating_sub(entry.bytes);
            }
        }
    }
}

/// Whether a file could not be read for what the process or the machine lacks, or for the disk, and not for what it is.
fn is_want(error: &io::Error) -> bool {
    use Errno::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM};
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(EMFILE | ENFILE | ENOMEM | EIO | EINTR | EAGAIN))
}

/// The name of a key's entry.
fn name(key: &[u8; 32]) -> String {
    let hex = key.map(|byte| format!("{byte:02x}"));
    hex.concat() + ".o"
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
