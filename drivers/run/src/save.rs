//! Writing files: whole or not at all, and never over one that is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Refuses a file to write that is one of those that are read, by whatever names.
///
/// # Errors
/// [`Error::Same`].
pub fn apart<'p>(write: &Path, read: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    let identity = |path: &Path| {
        let about = fs::metadata(path).ok()?;
        // Devices and pipes are read and written.
        about.is_file().then(|| (about.dev(), about.ino()))
    };
    let Some(own) = identity(write) else {
        return Ok(());
    };
    match read.into_iter().find(|read| identity(read) == Some(own)) {
        Some(read) => Err(Error::Same {
            file: write.display().to_string(),
            read: read.display().to_string(),
        }),
        None => Ok(()),
    }
}

/// Writes a file: beside it, to the disk, then under its name. On any error, what was there stays. A device or a pipe is
/// written as it is.
///
/// # Errors
/// [`Error::Io`].
pub fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = match fs::metadata(path) {
        // What a link names is replaced, not the link.
        Ok(about) if about.is_file() => {
            fs::canonicalize(path).and_then(|path| replace(&path, bytes, Some(&about)))
        }
        Ok(about) if about.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(path);
            file.and_then(|mut file| file.write_all(bytes))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => replace(path, bytes, None),
        Err(e) => Err(e),
    };
    written.map_err(|source| Error::Io {
        file: path.display().to_string(),
        source,
    })
}

/// A file that is not under its name yet; one that is left is removed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // One that was renamed is not there any more.
        let _ = fs::remove_file(&self.0);
    }
}

fn replace(path: &Path, bytes: &[u8], before: Option<&fs::Metadata>) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (mut file, partial) = loop {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = folder.join(format!(".partial-{}-{n}", std::process::id()));
        match File::create_new(&partial) {
            Ok(file) => break (file, Partial(partial)),
            // Of a process that had the number before.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    };
    file.write_all(bytes)?;
    if let Some(before) = before {
        file.set_permissions(before.permissions())?;
    }
    file.sync_all()?;
    fs::rename(&partial.0, path)?;
    // The file is whole under its name; some filesystems cannot flush a folder.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_file_behind_any_name_is_not_one_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("model"), "model").unwrap();
        fs::write(at("other"), "other").unwrap();
        fs::hard_link(at("model"), at("hard")).unwrap();
        symlink("model", at("soft")).unwrap();
        let (model, new) = (at("model"), at("new"));
        for name in ["model", "hard", "soft"] {
            let error = apart(&at(name), [new.as_path(), &model]).unwrap_err();
            assert!(matches!(error, Error::Same { .. }), "{error}");
            assert!(error.to_string().contains("Name another file"), "{error}");
        }
        for write in [at("other"), at("new"), "/dev/null".into()] {
            apart(&write, [model.as_path(), Path::new("/dev/null"), &new]).unwrap();
        }
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let count = || fs::read_dir(folder.path()).unwrap().count();
        save(&at("a"), b"one").unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a", at("link")).unwrap();
        let inode = fs::metadata(at("a")).unwrap().ino();
        save(&at("link"), b"two").unwrap();
        assert_eq!(fs::read(at("a")).unwrap(), b"two");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        let about = fs::metadata(at("a")).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o640);
        // Who has the old one open reads it to its end.
        assert_ne!(about.ino(), inode);
        assert_eq!(count(), 2);
        // A folder cannot be replaced by a file.
        fs::create_dir(at("folder")).unwrap();
        for path in [at("folder"), at("missing/a")] {
            let error = save(&path, b"three").unwrap_err();
            assert!(error.to_string().starts_with(&path.display().to_string()));
        }
        assert!(replace(&at("folder"), b"three", None).is_err());
        assert_eq!(count(), 3);
        save(Path::new("/dev/null"), b"four").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let full = save(Path::new("/dev/full"), b"five").unwrap_err();
        assert!(
            full.to_string().starts_with("/dev/full: No space left"),
            "{full}"
        );
    }
}
