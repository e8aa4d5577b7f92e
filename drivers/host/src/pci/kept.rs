//! Files of ours in folders of the system: they tell a program with all rights what to write, so that they are opened
//! only where they are what this program, or root, has made. A link is never followed, and a list that is replaced is
//! there as it was or as it will be, wherever the program ends.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// Bytes of such a file at most.
const MOST: u64 = 1 << 20;

/// What ends a line of which a crash has left a part.
pub(super) const CUT: &str = "\tcut\tcut\tcut";

/// Writing for others than the owner.
const OTHERS: u32 = 0o022;

/// How a file is opened: neither a link is followed, nor is anything waited for at a pipe.
const CAREFUL: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;

/// The reasons to reject a file as one of ours.
fn foreign(path: &Path, what: &str) -> io::Error {
    let path = path.display();
    let text = format!(
        "{path} is {what}: expected a file made by Doorbell. Check where it came from and remove it"
    );
    io::Error::new(ErrorKind::PermissionDenied, text)
}

/// What to do where the system refused a file; nothing where its content is wrong.
pub(super) fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "; run as root",
        Some(libc::EMFILE) => "; raise the limit of open files (`ulimit -n`)",
        Some(libc::ENFILE) => "; raise the system limit of open files (`sysctl fs.file-max`)",
        _ => "",
    }
}

/// Whether something is of this user, or of root.
fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == 0 || metadata.uid() == geteuid().as_raw()
}

/// Opens a file with `options`, if it is a regular file and no link. It may have any owner.
///
/// # Errors
/// The system's; the kind of the existing entry.
pub(super) fn open_plain(path: &Path, options: &OpenOptions) -> io::Result<(File, Metadata)> {
    let opened = options.clone().custom_flags(CAREFUL).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => foreign(path, "a link"),
        // Where it was to be written to; to be read it opens.
        Some(libc::EISDIR) => foreign(path, "a directory"),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    match metadata.is_file() && metadata.nlink() == 1 {
        true => Ok((file, metadata)),
        false if metadata.is_dir() => Err(foreign(path, "a directory")),
        false => Err(foreign(path, "not a regular file, or has other hard links")),
    }
}

/// The same of a file of this user, or of root.
fn open_ours(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let (file, metadata) = open_plain(path, options)?;
    match is_ours(&metadata) {
        true => Ok(file),
        false => Err(foreign(path, &format!("owned by user {}", metadata.uid()))),
    }
}

/// A folder that no other user can write to; it is created if it does not exist.
fn folder_of(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder)?;
    if !metadata.is_dir() {
        return Err(foreign(folder, "not a directory"));
    }
    if !is_ours(&metadata) {
        return Err(foreign(
            folder,
            &format!("owned by user {}", metadata.uid()),
        ));
    }
    match metadata.mode() & OTHERS {
        0 => Ok(folder.to_owned()),
        _ => Err(foreign(folder, "a directory writable by others")),
    }
}

/// The text of a file of ours.
///
/// # Errors
/// The system's: also that it is not there; that it is not ours.
pub(super) fn read(path: &Path) -> io::Result<String> {
    text_of(path, &open_ours(path, OpenOptions::new().read(true))?)
}

/// The text of a file from where it stands: all of it, as a part of it would be taken for all.
fn text_of(path: &Path, file: &File) -> io::Result<String> {
    let wrong = |what: &str| {
        let text = format!("{} {what}: check its contents", path.display());
        io::Error::new(ErrorKind::InvalidData, text)
    };
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(wrong(&format!("is larger than {MOST} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text"))
}

/// Adds lines to a file of ours, and waits until they are kept. A line of which a crash has left a part is ended
/// first, by one field too many.
///
/// # Errors
/// The system's; that the file, or its folder, is not ours.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    let folder = folder_of(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = open_ours(path, &options)?;
    let before = text_of(path, &file)?;
    let end = match before.is_empty() || before.ends_with('\n') {
        true => "",
        false => &format!("{CUT}\n"),
    };
    file.write_all(format!("{end}{text}").as_bytes())?;
    file.sync_all()?;
    sync(&folder)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What replacing a file does, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// What an earlier crash has left is taken away.
    Clear,
    /// The new file is made.
    Make,
    /// It gets its text.
    Write,
    /// The text is kept.
    Sync,
    /// It takes the place of the old one.
    Rename,
    /// That is kept.
    SyncFolder,
}

/// Puts a text into the place of a file of ours; nothing at all in place of one where there is no text.
///
/// # Errors
/// As [`append`].
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    replace_by(path, text, &mut |_| Ok(()))
}

/// The same; `before` each step the program may end.
fn replace_by(
    path: &Path,
    text: &str,
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    let folder = folder_of(path)?;
    if text.is_empty() {
        before(Step::Rename)?;
        fs::remove_file(path)?;
        before(Step::SyncFolder)?;
        return sync(&folder);
    }
    let new = path.with_extension("new");
    before(Step::Clear)?;
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    before(Step::Make)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = open_ours(&new, &options)?;
    before(Step::Write)?;
    file.write_all(text.as_bytes())?;
    before(Step::Sync)?;
    file.sync_all()?;
    before(Step::Rename)?;
    fs::rename(&new, path)?;
    before(Step::SyncFolder)?;
    sync(&folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A user that tests do not run as.
    const OTHER: u32 = 4242;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("run/doorbell/x.undo");
        fs::create_dir(top.path().join("run")).unwrap();
        (top, path)
    }

    #[test]
    fn a_file_is_made_for_its_user_alone_and_grows() {
        let (_top, path) = place();
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::NotFound);
        append(&path, "a\n").unwrap();
        append(&path, "b\n").unwrap();
        assert_eq!(read(&path).unwrap(), "a\nb\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let folder = path.parent().unwrap().metadata().unwrap();
        assert_eq!(folder.mode() & OTHERS, 0);
        // Half a line, as a crash leaves it, stays one.
        fs::write(&path, "a\nb").unwrap();
        append(&path, "c\n").unwrap();
        assert_eq!(read(&path).unwrap(), "a\nb\tcut\tcut\tcut\nc\n");
        replace(&path, "d\n").unwrap();
        assert_eq!(read(&path).unwrap(), "d\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        replace(&path, "").unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn wherever_it_ends_there_is_the_old_list_or_the_new_one() {
        use Step::{Clear, Make, Rename, Sync, SyncFolder, Write};
        let steps = [Clear, Make, Write, Sync, Rename, SyncFolder];
        for end in steps {
            let (_top, path) = place();
            append(&path, "old\n").unwrap();
            let mut seen = Vec::new();
            let crash = replace_by(&path, "new\n", &mut |step| {
                seen.push(step);
                match step == end {
                    true => Err(io::Error::other("the end")),
                    false => Ok(()),
                }
            });
            assert_eq!(crash.unwrap_err().to_string(), "the end");
            assert_eq!(steps[..seen.len()], seen);
            let wanted = if end == SyncFolder { "new\n" } else { "old\n" };
            assert_eq!(read(&path).unwrap(), wanted, "{end:?}");
            // The next process can use either.
            append(&path, "more\n").unwrap();
            assert_eq!(read(&path).unwrap(), format!("{wanted}more\n"));
            replace(&path, "next\n").unwrap();
            assert_eq!(read(&path).unwrap(), "next\n");
        }
    }

    #[test]
    fn what_others_have_put_there_is_not_touched() {
        let (top, path) = place();
        let precious = top.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        fs::create_dir(path.parent().unwrap()).unwrap();
        let all = |path: &Path, why: &str| {
            let errors = [read(path).err(), append(path, "x\n").err()];
            for error in errors.into_iter().flatten() {
                let text = error.to_string();
                assert!(text.contains(why), "{text}");
            }
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        };
        symlink(&precious, &path).unwrap();
        all(&path, "x.undo is a link: expected a file made by Doorbell");
        // A link in place of the new file is removed, not followed.
        fs::remove_file(&path).unwrap();
        symlink(&precious, path.with_extension("new")).unwrap();
        replace(&path, "x\n").unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        assert_eq!(read(&path).unwrap(), "x\n");
        // Another name of something.
        fs::remove_file(&path).unwrap();
        fs::hard_link(&precious, &path).unwrap();
        all(&path, "has other hard links");
        fs::remove_file(&path).unwrap();
        if geteuid().is_root() {
            fs::write(&path, "theirs\n").unwrap();
            chown(&path, Some(OTHER), None).unwrap();
            all(&path, "x.undo is owned by user 4242");
            assert_eq!(fs::read_to_string(&path).unwrap(), "theirs\n");
            fs::remove_file(&path).unwrap();
            chown(path.parent().unwrap(), Some(OTHER), None).unwrap();
            let error = append(&path, "x\n").unwrap_err().to_string();
            assert!(error.contains("doorbell is owned by user 4242"), "{error}");
            chown(path.parent().unwrap(), Some(0), None).unwrap();
        }
        // A folder for all.
        let folder = path.parent().unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = append(&path, "x\n").unwrap_err().to_string();
        assert!(error.contains("a directory writable by others"), "{error}");
        assert!(!path.exists());
        // A link in the place of the folder.
        fs::remove_dir(folder).unwrap();
        symlink(top.path(), folder).unwrap();
        let error = append(&path, "x\n").unwrap_err().to_string();
        assert!(error.contains("doorbell is not a directory"), "{error}");
    }
}
