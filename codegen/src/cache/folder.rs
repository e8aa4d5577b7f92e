//! A folder of machine code that only this user can write to. It is checked once; its files are opened relative to
//! it, and links are not followed.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fchmod, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::error::{Error, Result};
use crate::trust::{BY_OTHERS, Rights};

/// Modes of the folder and of its entries.
const FOLDER: Mode = Mode::S_IRWXU;
const ENTRY: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    handle: OwnedFd,
    path: PathBuf,
    rights: Rights,
}

/// An entry, as a listing has it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub modified: SystemTime,
    pub bytes: u64,
    pub name: String,
}

impl Folder {
    /// Opens a folder, or makes it.
    ///
    /// # Errors
    /// It is not a folder that only the user of these rights writes to, and cannot be made one.
    pub fn open(path: PathBuf, rights: Rights) -> Result<Folder> {
        let refused = |what: String| Error::CacheFolder {
            path: path.clone(),
            what,
        };
        if let Some(why) = rights.elevated() {
            return Err(refused(why));
        }
        let failed = |action| {
            let path = path.clone();
            move |source: io::Error| Error::Cache {
                path,
                action,
                source,
            }
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FOLDER.bits());
        builder
            .create(&path)
            .map_err(failed("creating the directory"))?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let handle = match open(&path, flags, Mode::empty()) {
            Ok(handle) => File::from(handle),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                return Err(refused("is a symlink, expected a folder".into()));
            }
            Err(e) => return Err(failed("opening the directory")(e.into())),
        };
        let meta = handle.metadata().map_err(failed("stat"))?;
        let [user, _] = rights.effective;
        if meta.uid() != user {
            return Err(refused(format!(
                "is owned by user {}, expected user {user}",
                meta.uid()
            )));
        }
        if meta.mode() & 0o7777 != FOLDER.bits() {
            fchmod(&handle, FOLDER).map_err(|e| failed("chmod 700")(e.into()))?;
        }
        Ok(Folder {
            handle: handle.into(),
            path,
            rights,
        })
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in an entry; `None` if there is none.
    ///
    /// # Errors
    /// The entry is not a file that only the user of these rights wrote, or is longer than `most`.
    pub fn read(&self, name: &str, most: u64) -> Option<io::Result<Vec<u8>>> {
        // Not to wait for the other end, should it be a pipe.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(file) => Some(self.checked(File::from(file), most)),
            Err(Errno::ENOENT) => None,
            Err(e) => Some(Err(e.into())),
        }
    }

    fn checked(&self, mut file: File, most: u64) -> io::Result<Vec<u8>> {
        let meta = file.metadata()?;
        let [user, _] = self.rights.effective;
        let wrong = if !meta.is_file() {
            "is not a regular file".into()
        } else if meta.uid() != user {
            format!("is owned by user {}, expected user {user}", meta.uid())
        } else if meta.mode() & BY_OTHERS != 0 {
            format!("is writable by others (mode {:o})", meta.mode() & 0o7777)
        } else if meta.nlink() != 1 {
            format!("has {} hard links, expected 1", meta.nlink())
        } else if meta.len() > most {
            format!("has {} bytes, expected at most {most}", meta.len())
        } else {
            let mut bytes = Vec::with_capacity(meta.len() as usize);
            Read::by_ref(&mut file).take(most).read_to_end(&mut bytes)?;
            // The time of the last use decides what goes first; a failure only makes it go earlier.
            let _ = file.set_modified(SystemTime::now());
            return Ok(bytes);
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, wrong))
    }

    /// Makes an entry of these parts, whole or not at all, in the place of any that is there; `temporary` is the
    /// name that it has until then.
    pub fn write(&self, name: &str, temporary: &str, parts: &[&[u8]]) -> io::Result<()> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.handle, temporary, flags, ENTRY)?);
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        drop(file);
        let result =
            written.and_then(|()| Ok(renameat(&self.handle, temporary, &self.handle, name)?));
        if result.is_err() {
            self.remove(temporary);
        }
        result
    }

    /// Removes an entry; whether it is gone.
    pub fn remove(&self, name: &str) -> bool {
        matches!(
            unlinkat(&self.handle, name, UnlinkatFlags::NoRemoveDir),
            // Another process was faster.
            Ok(()) | Err(Errno::ENOENT)
        )
    }

    /// The files in it.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut listing = Dir::openat(&self.handle, ".", flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in listing.iter() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            // Gone meanwhile, or of no concern.
            let Ok(stat) = fstatat(&self.handle, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            let modified = Duration::new(
                u64::try_from(stat.st_mtime).unwrap_or(0),
                u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            );
            entries.push(Entry {
                modified: SystemTime::UNIX_EPOCH + modified,
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
                name: name.to_owned(),
            });
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Those of this process, as if its user had started it.
    fn rights() -> Rights {
        Rights {
            real: Rights::own().effective,
            given: Some(false),
            ..Rights::own()
        }
    }

    fn refused(path: &Path, rights: Rights, why: &str) {
        let error = Folder::open(path.to_owned(), rights).unwrap_err();
        assert!(matches!(error, Error::CacheFolder { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(why) && text.contains(&*path.to_string_lossy()),
            "{text}"
        );
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_made_for_the_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder = Folder::open(path.clone(), rights()).unwrap();
        assert_eq!(mode(&path), 0o700);
        folder.write("x.o", "x.tmp", &[b"ab", b"c"]).unwrap();
        assert_eq!(mode(&path.join("x.o")), 0o600);
        assert_eq!(folder.read("x.o", 3).unwrap().unwrap(), b"abc");
        assert!(folder.read("y.o", 3).is_none());
        let names: Vec<_> = folder
            .entries()
            .unwrap()
            .into_iter()
            .map(|e| e.name)
            .collect();
        assert!(names.contains(&"x.o".into()) && !names.contains(&"x.tmp".into()));
    }

    #[test]
    fn a_folder_that_others_could_write_to_is_closed_to_them() {
        let dir = tempfile::tempdir().unwrap();
        for loose in [0o777, 0o755, 0o770, 0o1777] {
            set_mode(dir.path(), loose);
            Folder::open(dir.path().into(), rights()).unwrap();
            assert_eq!(mode(dir.path()), 0o700);
        }
    }

    #[test]
    fn a_link_is_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        refused(&link, rights(), "is a symlink");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        let [user, group] = rights().effective;
        let other = Rights {
            effective: [user + 1, group],
            real: [user + 1, group],
            ..rights()
        };
        refused(dir.path(), other, &format!("expected user {}", user + 1));
        if user == 0 {
            nix::unistd::chown(dir.path(), Some(1234.into()), None).unwrap();
            refused(
                dir.path(),
                rights(),
                "is owned by user 1234, expected user 0",
            );
        } else {
            println!("not tried: chown needs root");
        }
        assert_eq!(mode(dir.path()), 0o755);
    }

    #[test]
    fn a_process_with_more_rights_than_its_user_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [user, group] = rights().effective;
        for real in [[user + 1, group], [user, group + 1]] {
            refused(
                &dir.path().join("x"),
                Rights { real, ..rights() },
                "was started by",
            );
        }
        for given in [Some(true), None] {
            let path = dir.path().join("y");
            refused(&path, Rights { given, ..rights() }, "more rights");
        }
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing was created"
        );
    }

    #[test]
    fn an_entry_that_another_could_have_written_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path().into(), rights()).unwrap();
        let path = |name: &str| dir.path().join(name);
        folder.write("good", "t", &[b"code"]).unwrap();
        let refused = |name: &str, why: &str| {
            let error = folder.read(name, 100).unwrap().unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        };
        symlink(path("good"), path("link")).unwrap();
        refused("link", "symbolic links");
        fs::create_dir(path("folder")).unwrap();
        refused("folder", "not a regular file");
        nix::unistd::mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        refused("pipe", "not a regular file");
        for loose in [0o620, 0o602, 0o666] {
            fs::write(path("loose"), "code").unwrap();
            set_mode(&path("loose"), loose);
            refused("loose", &format!("mode {loose:o}"));
        }
        folder.write("long", "t", &[&[0; 101]]).unwrap();
        refused("long", "101 bytes");
        folder.write("twice", "t", &[b"code"]).unwrap();
        fs::hard_link(path("twice"), path("again")).unwrap();
        refused("twice", "2 hard links");
        if rights().effective[0] == 0 {
            folder.write("foreign", "t", &[b"code"]).unwrap();
            nix::unistd::chown(&path("foreign"), Some(1234.into()), None).unwrap();
            refused("foreign", "is owned by user 1234");
        } else {
            println!("not tried: chown needs root");
        }
        assert_eq!(folder.read("good", 100).unwrap().unwrap(), b"code");
    }
}
