//! Writing files: whole or not at all, and never over one that is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

use crate::error::{Error, Result};

/// Refuses a file to write that another name says as well: one that is read, or another one to write.
///
/// # Errors
/// [`Error::Same`].
pub fn apart<'p>(write: &Path, others: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    let Some(own) = Identity::of(write) else {
        return Ok(());
    };
    match others
        .into_iter()
        .find(|other| Identity::of(other).as_ref() == Some(&own))
    {
        Some(other) => Err(Error::Same {
            file: write.display().to_string(),
            other: other.display().to_string(),
        }),
        None => Ok(()),
    }
}

/// Which file a name means. Devices and pipes have none: they may be read and written.
#[derive(PartialEq, Eq)]
enum Identity {
    /// One that is there: its device and number.
    Old(u64, u64),
    /// One that is not: its folder and name.
    New(PathBuf),
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(about) if about.is_file() => Some(Self::Old(about.dev(), about.ino())),
            Ok(_) => None,
            Err(_) => {
                let folder = fs::canonicalize(folder(path)).ok()?;
                Some(Self::New(folder.join(path.file_name()?)))
            }
        }
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a file: beside it, to the disk, then under its name. On any error, what was there stays. Where the folder takes
/// no other file (it belongs to somebody else, or the file is mounted), the file is written in place. So is a device or a
/// pipe; a pipe that nobody reads is an error.
///
/// # Errors
/// [`Error::Io`].
pub fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    whole(path, bytes).map_err(|source| Error::Io {
        file: path.display().to_string(),
        source,
    })
}

fn whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Descriptors of this process: what they name is written by others, too.
    let is_special = path.starts_with("/dev") || path.starts_with("/proc");
    match fs::metadata(path) {
        // What a link names is replaced, not the link.
        Ok(about) if about.is_file() && !is_special => {
            let path = fs::canonicalize(path)?;
            // What may not be written is not replaced either.
            let mut file = OpenOptions::new().write(true).open(&path)?;
            match replace(&path, bytes, Some(&about)) {
                Err(e) if takes_no_other(&e) => {
                    file.set_len(0)?;
                    file.write_all(bytes)?;
                    file.sync_all()
                }
                done => done,
            }
        }
        Ok(about) if about.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(about) if about.file_type().is_fifo() => pipe(path, bytes),
        Ok(_) => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(bytes)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            // A link to a file that is not there yet; a circle of links is another error.
            Ok(to) => whole(&folder(path).join(to), bytes),
            Err(_) => replace(path, bytes, None),
        },
        Err(e) => Err(e),
    }
}

/// Whether an error says that a folder takes no file beside one, or that its file cannot be replaced.
fn takes_no_other(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ResourceBusy | ErrorKind::ReadOnlyFilesystem
    )
}

/// How long a pipe's reader may take nothing.
const PIPE: Duration = Duration::from_secs(30);

/// `O_NONBLOCK` of Linux on x86-64 and AArch64.
const NONBLOCK: i32 = 0o4000;

fn pipe(path: &Path, mut bytes: &[u8]) -> io::Result<()> {
    // Without the flag, opening waits for a reader. With it, there is ENXIO without one.
    let mut options = OpenOptions::new();
    let opened = options.write(true).custom_flags(NONBLOCK).open(path);
    let mut file = opened
        .map_err(|e| io::Error::new(e.kind(), format!("no process reads this pipe ({e})")))?;
    let mut last = Instant::now();
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                last = Instant::now();
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock && last.elapsed() < PIPE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let what = format!("the reader of this pipe has taken nothing for {PIPE:?}");
                return Err(io::Error::new(ErrorKind::TimedOut, what));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Checks that [`save`] can write a file: that its folder is there and takes files, that what is there may be written. Nothing is
/// changed. What takes long is done behind it.
///
/// # Errors
/// [`Error::Io`].
pub fn writable(path: &Path) -> Result<()> {
    may_write(path).map_err(|source| Error::Io {
        file: path.display().to_string(),
        source,
    })
}

fn may_write(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(about) if about.is_file() => OpenOptions::new().write(true).open(path).map(drop),
        // Devices, and pipes that somebody may read by then.
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            Ok(to) => may_write(&folder(path).join(to)),
            Err(_) => takes(folder(path)),
        },
        Err(e) => Err(e),
    }
}

/// Checks that a folder takes files.
///
/// # Errors
/// [`Error::Io`].
pub fn takes_files(folder: &Path) -> Result<()> {
    takes(folder).map_err(|source| Error::Io {
        file: folder.display().to_string(),
        source,
    })
}

fn takes(folder: &Path) -> io::Result<()> {
    match unnamed(folder)? {
        Some(_) => Ok(()),
        None => partial(folder).map(drop),
    }
}

/// A name for a file that is not under its own yet; one that is left is removed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // One that was renamed is not there any more.
        let _ = fs::remove_file(&self.0);
    }
}

/// Another such name, which a process that had the number before may have left.
fn next_name(folder: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!(".partial-{}-{n}", std::process::id()))
}

/// A new file with such a name.
fn partial(folder: &Path) -> io::Result<(File, Partial)> {
    loop {
        let name = next_name(folder);
        match File::create_new(&name) {
            Ok(file) => return Ok((file, Partial(name))),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// A new file in a folder without a name: it ends with the process, whatever ends that. None where the filesystem has no such
/// files, or where nothing can name them later.
fn unnamed(folder: &Path) -> io::Result<Option<File>> {
    if !Path::new(OPEN_FILES).exists() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o666);
    match options.custom_flags(OFlag::O_TMPFILE.bits()).open(folder) {
        Ok(file) => Ok(Some(file)),
        // Of filesystems, of older kernels.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::Unsupported | ErrorKind::IsADirectory | ErrorKind::InvalidInput
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// The open files of this process, by their numbers.
const OPEN_FILES: &str = "/proc/self/fd";

/// Gives a file without a name one that nothing has.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let of = format!("{OPEN_FILES}/{}", file.as_raw_fd());
    let follow = AtFlags::AT_SYMLINK_FOLLOW;
    Ok(linkat(AT_FDCWD, of.as_str(), AT_FDCWD, path, follow)?)
}

/// Writes a file that is not under its name yet.
fn fill(mut file: &File, bytes: &[u8], before: Option<&fs::Metadata>) -> io::Result<()> {
    if let Some(before) = before {
        // Only root gives files away; of another user's file, who runs this is the owner then.
        let _ = fchown(file, Some(before.uid()), Some(before.gid()));
        file.set_permissions(before.permissions())?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Puts a file in the place of what has a name. Signals that end the process leave nothing, but between the two calls that
/// replace a file; where the folder has no files without a name, one with the name of a partial one.
fn replace(path: &Path, bytes: &[u8], before: Option<&fs::Metadata>) -> io::Result<()> {
    replace_by(path, bytes, before, unnamed(folder(path))?)
}

/// The same by a file without a name, if there is one.
fn replace_by(
    path: &Path,
    bytes: &[u8],
    before: Option<&fs::Metadata>,
    unnamed: Option<File>,
) -> io::Result<()> {
    let folder = folder(path);
    let is_there = match unnamed {
        Some(file) => {
            fill(&file, bytes, before)?;
            name(&file, path, before.is_none())?
        }
        None => false,
    };
    if !is_there {
        let (file, name) = partial(folder)?;
        fill(&file, bytes, before)?;
        fs::rename(&name.0, path)?;
    }
    // The file is whole under its name; some filesystems cannot flush a folder.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Gives a file without a name that of another, or a new one. False where the process may not do that: Android's rules let shells
/// and programs make files, and not links.
fn name(file: &File, path: &Path, is_new: bool) -> io::Result<bool> {
    if is_new {
        match link(file, path) {
            Ok(()) => return Ok(true),
            // Somebody has made one meanwhile.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => return Ok(false),
        }
    }
    loop {
        let other = next_name(folder(path));
        match link(file, &other) {
            Ok(()) => {
                let other = Partial(other);
                fs::rename(&other.0, path)?;
                return Ok(true);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => return Ok(false),
        }
    }
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
        for write in [at("other"), at("newer"), "/dev/null".into()] {
            apart(&write, [model.as_path(), Path::new("/dev/null"), &new]).unwrap();
        }
        // A file that is not there yet has a name as well.
        let again = folder.path().join(".").join("new");
        assert!(apart(&again, [model.as_path(), &new]).is_err());
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let count = || fs::read_dir(folder.path()).unwrap().count();
        fs::write(at("old"), "old").unwrap();
        symlink("new", at("link")).unwrap();
        symlink("missing/new", at("lost")).unwrap();
        for good in [at("old"), at("new"), at("link"), "/dev/null".into()] {
            writable(&good).unwrap();
        }
        assert_eq!(fs::read(at("old")).unwrap(), b"old");
        for bad in [
            folder.path().to_path_buf(),
            at("missing/new"),
            at("lost"),
            at("old/new"),
        ] {
            let error = writable(&bad).unwrap_err().to_string();
            assert!(error.starts_with(&bad.display().to_string()), "{error}");
        }
        assert_eq!(count(), 3);
    }

    /// A file that nothing can name again, as where links are forbidden.
    fn without_links(folder: &Path) -> File {
        let (file, name) = partial(folder).unwrap();
        drop(name);
        assert!(link(&file, &folder.join("linked")).is_err());
        file
    }

    #[test]
    fn a_file_is_replaced_by_one_with_or_without_a_name() {
        type Made = fn(&Path) -> Option<File>;
        let ways: [Made; 3] = [
            |_| None,
            // Not every filesystem has them: then it is the same as none.
            |folder| unnamed(folder).unwrap(),
            |folder| Some(without_links(folder)),
        ];
        for (n, way) in ways.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            let count = || fs::read_dir(folder.path()).unwrap().count();
            let put = |name: &str, bytes: &[u8], before: Option<&fs::Metadata>| {
                replace_by(&at(name), bytes, before, way(folder.path()))
            };
            put("a", b"one", None).unwrap();
            assert_eq!(fs::read(at("a")).unwrap(), b"one", "{n}");
            fs::set_permissions(at("a"), fs::Permissions::from_mode(0o640)).unwrap();
            let before = fs::metadata(at("a")).unwrap();
            put("a", b"two", Some(&before)).unwrap();
            assert_eq!(fs::read(at("a")).unwrap(), b"two", "{n}");
            let after = fs::metadata(at("a")).unwrap();
            assert_eq!(after.permissions().mode() & 0o777, 0o640, "{n}");
            assert_ne!(after.ino(), before.ino(), "{n}");
            // One that somebody has made meanwhile is replaced, and a folder is not.
            put("a", b"three", None).unwrap();
            assert_eq!(fs::read(at("a")).unwrap(), b"three", "{n}");
            fs::create_dir(at("folder")).unwrap();
            put("folder", b"four", None).unwrap_err();
            assert_eq!(count(), 2, "{n}");
        }
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let error = save(&path, b"one").unwrap_err().to_string();
        assert!(error.contains("no process reads this pipe"), "{error}");
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        // Until it has opened the pipe, nobody reads it.
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = save(&path, &[7; 100_000]) {
            assert!(Instant::now() < end, "{error}");
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), [7; 100_000]);
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
        // What a link names that is not there yet is made, and the link stays.
        symlink("later", at("early")).unwrap();
        save(&at("early"), b"six").unwrap();
        assert_eq!(fs::read(at("later")).unwrap(), b"six");
        assert!(fs::symlink_metadata(at("early")).unwrap().is_symlink());
        save(Path::new("/dev/null"), b"four").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let full = save(Path::new("/dev/full"), b"five").unwrap_err();
        assert!(
            full.to_string().starts_with("/dev/full: No space left"),
            "{full}"
        );
    }
}
