//! The folder of a machine, and those that others have left.
//!
//! A program that is killed leaves its folder. The lock on a file in it goes with the program, so the next one to start knows
//! whose folders nobody needs any more.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

const PREFIX: &str = "doorbell-twin-";
const LOCK: &str = "lock";

/// A folder whose owner may not have locked its file yet is younger.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder for files of a machine, in memory where there is such: there are hundreds. It goes when this is dropped.
pub(crate) struct Folder {
    folder: TempDir,
    /// Held as long as the folder is needed.
    _lock: File,
}

impl Folder {
    pub(crate) fn new() -> io::Result<Folder> {
        let shared = Path::new("/dev/shm");
        Folder::within(shared, YOUNG).or_else(|_| Folder::within(&std::env::temp_dir(), YOUNG))
    }

    fn within(parent: &Path, young: Duration) -> io::Result<Folder> {
        sweep(parent, young);
        let folder = TempDir::with_prefix_in(PREFIX, parent)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Folder {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders that nobody holds. Those of other users stay, and so do those without a lock: of older versions.
fn sweep(parent: &Path, young: Duration) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(PREFIX) && is_left(&entry.path(), young) {
            // Somebody else may be doing the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the owner of a folder has ended without removing it.
fn is_left(folder: &Path, young: Duration) -> bool {
    let Ok(lock) = File::open(folder.join(LOCK)) else {
        return false;
    };
    let age = lock.metadata().and_then(|about| about.modified());
    let is_old = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= young));
    // The lock that is taken here goes at once.
    is_old
        && !matches!(
            lock.try_lock(),
            Err(TryLockError::WouldBlock | TryLockError::Error(_))
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_nobody_holds_are_removed_at_the_next_start() {
        let parent = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(parent.path()).unwrap().count();
        let held = Folder::within(parent.path(), Duration::ZERO).unwrap();
        // As a process leaves it that is killed: the file is closed, the folder stays.
        let Folder { folder, _lock } = Folder::within(parent.path(), Duration::ZERO).unwrap();
        let left = folder.keep();
        drop(_lock);
        fs::write(left.join("socket"), "").unwrap();
        for other in ["doorbell-twin-old", "other"] {
            fs::create_dir(parent.path().join(other)).unwrap();
        }
        // It may be one that begins.
        drop(Folder::within(parent.path(), YOUNG).unwrap());
        assert!(left.exists() && names() == 4);
        let next = Folder::within(parent.path(), Duration::ZERO).unwrap();
        assert!(!left.exists() && held.path().exists() && names() == 4);
        drop((held, next));
        assert_eq!(names(), 2);
    }
}
