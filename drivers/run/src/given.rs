//! The bytes of an input from a file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::plan::Port;
use crate::ports::other_size;

/// Reads the bytes of an input: as many as it has, in the order of its elements. What is no file (a pipe, a device) has to
/// give all of them within `limit`, and one byte more is refused: not more is read.
///
/// # Errors
/// [`Error::Port`] for another number of bytes; [`Error::Io`].
pub fn read(port: &Port, path: &Path, limit: Duration) -> Result<Vec<u8>> {
    let failed = |source| Error::Io {
        file: path.display().to_string(),
        source,
    };
    let wanted = port.bytes().unwrap_or(u64::MAX);
    let other = |found: String| other_size("input", port, found);
    let about = fs::metadata(path).map_err(failed)?;
    if about.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    let bytes = if about.is_file() {
        if about.len() != wanted {
            return Err(other(format!(
                "{} bytes in {}",
                about.len(),
                path.display()
            )));
        }
        most(path, wanted, &AtomicU64::new(0))
    } else {
        let found = Arc::new(AtomicU64::new(0));
        match elsewhere(path, wanted, &found, limit).map_err(failed)? {
            Some(bytes) => bytes,
            None => {
                let found = found.load(Ordering::Relaxed);
                let path = path.display();
                return Err(other(format!(
                    "{found} bytes from {path} after {limit:?}, and no end; write all of them to it in that time"
                )));
            }
        }
    };
    let bytes = bytes.map_err(failed)?;
    match bytes.len() as u64 {
        n if n == wanted => Ok(bytes),
        n if n > wanted => Err(other(format!("more bytes in {}", path.display()))),
        n => Err(other(format!("{n} bytes in {}", path.display()))),
    }
}

/// The bytes that a file has, but no more than one too many. `found` counts them.
fn most(path: &Path, wanted: u64, found: &AtomicU64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?.take(wanted.saturating_add(1));
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(n) => {
                bytes.extend_from_slice(&piece[..n]);
                found.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// The same on a thread of its own, since opening and reading a pipe may take forever; nothing after `limit`. The thread then
/// ends with the program.
fn elsewhere(
    path: &Path,
    wanted: u64,
    found: &Arc<AtomicU64>,
    limit: Duration,
) -> io::Result<Option<io::Result<Vec<u8>>>> {
    let (send, receive) = mpsc::sync_channel(1);
    let (path, found) = (path.to_owned(), found.clone());
    std::thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            // Nobody waits any more after the limit.
            let _ = send.send(most(&path, wanted, &found));
        })?;
    match receive.recv_timeout(limit) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        // It has not come to its end: a panic, which is a bug of this program.
        Err(RecvTimeoutError::Disconnected) => {
            let what =
                "the thread that reads it has ended without a result; its panic is on stderr";
            Err(io::Error::other(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Element;

    fn port(n: u64) -> Port {
        Port {
            name: "x".into(),
            element: Element::U8,
            shape: vec![n],
        }
    }

    #[test]
    fn as_many_bytes_as_an_input_has_are_read() {
        const LIMIT: Duration = Duration::from_secs(60);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        fs::write(&path, [7; 10]).unwrap();
        assert_eq!(read(&port(10), &path, LIMIT).unwrap(), [7; 10]);
        let said = |n, path: &Path| read(&port(n), path, LIMIT).unwrap_err().to_string();
        let error = said(9, &path);
        let start = "input \"x\": expected 9 bytes, u8 [9], found 10 bytes in ";
        assert!(error.starts_with(start), "{error}");
        let error = said(4, Path::new("/dev/zero"));
        assert_eq!(
            error,
            "input \"x\": expected 4 bytes, u8 [4], found more bytes in /dev/zero"
        );
        let error = said(4, Path::new("/dev/null"));
        assert!(error.ends_with("found 0 bytes in /dev/null"), "{error}");
        let none = read(&port(0), Path::new("/dev/null"), LIMIT).unwrap();
        assert!(none.is_empty());
        let error = said(4, folder.path());
        assert!(error.contains("is a directory"), "{error}");
    }
}
