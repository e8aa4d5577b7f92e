//! Writing a file so that readers see the old one or the new one, never a part.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::FileError;

/// Writes a temporary file beside `path`, flushes it to the disk and renames it over `path`. On
/// any error the temporary file is removed and `path` is as before.
pub(super) fn replace(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&mut tempfile::NamedTempFile>) -> io::Result<()>,
) -> Result<(), FileError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".partial-")
        // What a plain create gives, less the umask; temporary files are private otherwise.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|e| FileError::new(path, "create", e))?;
    let mut out = BufWriter::new(&mut file);
    content(&mut out)
        .and_then(|()| out.flush())
        .and_then(|()| drop_writer(out))
        .and_then(|()| file.as_file().sync_all())
        .map_err(|e| FileError::new(path, "write", e))?;
    file.persist(path)
        .map_err(|e| FileError::new(path, "rename", e.error))?;
    Ok(())
}

/// Ends the borrow of the file after its buffer was flushed.
fn drop_writer<W: Write>(out: BufWriter<W>) -> io::Result<()> {
    out.into_inner()
        .map(drop)
        .map_err(io::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, b"old").unwrap();
        let error = replace(&path, |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            format!(
                "{}: write failed: no storage space; free some space; the previous file, if any, \
                 is unchanged",
                path.display()
            )
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/a");
        let error = replace(&path, |_| Ok(())).unwrap_err();
        let file = path.to_string_lossy();
        assert_eq!((error.op, error.file.as_str()), ("create", &*file));
    }

    #[test]
    fn others_can_read_the_file_as_the_umask_says() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        replace(&ours, |out| out.write_all(b"x")).unwrap();
        fs::write(&plain, b"x").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
