//! Built programs on disk: the source with the library's binary. The name of a file is a hash of the source, the options, the device,
//! and the versions of its driver, so that another driver finds nothing of this one.
//!
//! A file that cannot be read or written is as if it were not there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// What files begin with.
const MAGIC: &[u8] = b"doorbell opencl 1\n";

/// What files end with.
const SUFFIX: &str = "clbin";

/// Bytes of all files at most; beyond them those that are oldest are removed.
const MOST: u64 = 256 << 20;

/// Files that this process has begun.
static PARTS: AtomicU64 = AtomicU64::new(0);

/// The programs of a device.
pub(crate) struct Cache {
    folder: PathBuf,
    /// The device, and the versions.
    device: String,
}

/// The name of a program.
pub(crate) struct Key(String);

/// The hash of some parts, each with its length.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Cache {
    pub(crate) fn new(folder: PathBuf, device: String) -> Cache {
        Cache { folder, device }
    }

    pub(crate) fn key(&self, source: &[u8], options: &[u8]) -> Key {
        let digest = digest(&[self.device.as_bytes(), options, source]);
        Key(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.{SUFFIX}", key.0))
    }

    /// The binary of a program.
    pub(crate) fn get(&self, key: &Key, source: &[u8]) -> Option<Vec<u8>> {
        let file = fs::read(self.path(key)).ok()?;
        let rest = file.strip_prefix(MAGIC)?;
        let (sum, rest) = rest.split_first_chunk::<32>()?;
        if *sum != digest(&[rest]) {
            return None;
        }
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (kept, binary) = rest.split_at_checked(length)?;
        (kept == source && !binary.is_empty()).then(|| binary.to_vec())
    }

    /// Keeps a program. Whoever reads meanwhile finds the whole file, or none.
    pub(crate) fn put(&self, key: &Key, source: &[u8], binary: &[u8]) {
        let length = (source.len() as u64).to_le_bytes();
        let content = [&length[..], source, binary].concat();
        let file = [MAGIC, &digest(&[&content]), &content].concat();
        let (process, number) = (std::process::id(), PARTS.fetch_add(1, Ordering::Relaxed));
        let part = self.folder.join(format!("{}.{process}.{number}", key.0));
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&part, file))
            .and_then(|()| fs::rename(&part, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&part);
            return;
        }
        trim(&self.folder, MOST);
    }
}

/// Whether a file is one of these: a hash and an ending. Parts of files that a process has not finished count, too.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.get(..64)
        .is_some_and(|hash| hash.iter().all(u8::is_ascii_hexdigit))
}

/// Removes the oldest files until the others have so many bytes.
fn trim(folder: &Path, most: u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut all: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let about = entry.metadata().ok()?;
            let path = entry.path();
            is_ours(&path).then_some((about.modified().ok()?, about.len(), path))
        })
        .collect();
    all.sort();
    let mut bytes: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, size, path) in all {
        if bytes <= most {
            return;
        }
        if fs::remove_file(path).is_ok() {
            bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_all_that_makes_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cl");
        let cache = Cache::new(folder.clone(), "device, driver 1".into());
        let key = cache.key(b"source", b"-O");
        assert!(cache.get(&key, b"source").is_none());
        cache.put(&key, b"source", b"binary");
        assert_eq!(cache.get(&key, b"source").unwrap(), b"binary");
        assert!(cache.get(&key, b"another").is_none());
        let other = Cache::new(folder.clone(), "device, driver 2".into());
        for (cache, source, options) in [
            (&other, "source", "-O"),
            (&cache, "source-", "O"),
            (&cache, "source", ""),
        ] {
            let (source, options) = (source.as_bytes(), options.as_bytes());
            assert_ne!(cache.key(source, options).0, key.0);
        }
        // A file that was cut, or is something else.
        let path = cache.path(&key);
        let file = fs::read(&path).unwrap();
        for wrong in [&file[..file.len() - 6], &file[..20], b"", b"something else"] {
            fs::write(&path, wrong).unwrap();
            assert!(cache.get(&key, b"source").is_none());
        }
    }

    #[test]
    fn the_oldest_programs_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path().into(), String::new());
        let part = root.path().join(format!("{:064}.1.2", 0));
        let other = root.path().join("other");
        for path in [&part, &other] {
            fs::write(path, [0; 1000]).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let keys: Vec<Key> = (0..4u8).map(|i| cache.key(&[i], b"")).collect();
        for (i, key) in (0..).zip(&keys) {
            cache.put(key, &[i], &[0; 1000]);
            let file = fs::File::options()
                .write(true)
                .open(cache.path(key))
                .unwrap();
            let age = std::time::Duration::from_secs(100 - u64::from(i));
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        trim(root.path(), 2200);
        let left = (0..)
            .zip(&keys)
            .filter(|(i, key)| cache.get(key, &[*i]).is_some());
        assert_eq!(left.map(|(i, _): (u8, _)| i).collect::<Vec<_>>(), [2, 3]);
        assert!(!part.exists() && other.exists());
    }
}
