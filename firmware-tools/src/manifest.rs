//! Manifests: expected files, by SHA-256. Lines as `sha256sum` writes them (`<64 hex digits>  <name>`), `#` starts
//! a comment, so that `sha256sum -c` reads them too.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Error;

/// One file of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name, relative to the folder of firmware.
    pub name: PathBuf,
    /// SHA-256 of the file, 64 lower-case hex digits.
    pub sha256: String,
}

/// How a file compares with its entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The expected file.
    Same,
    /// It is missing.
    Missing,
    /// Another file; its hash.
    Differs(String),
}

/// SHA-256 as hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

/// Reads a manifest.
///
/// # Errors
/// [`Error::File`], or [`Error::Manifest`] with the line.
pub fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    let file = |source| Error::File {
        path: path.into(),
        source,
    };
    let text = fs::read_to_string(path).map_err(file)?;
    let mut entries = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |why: String| Error::Manifest {
            path: path.into(),
            line: i + 1,
            why,
        };
        let (hash, name) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| bad(format!("expected `<sha256>  <name>`, found {line:?}")))?;
        if hash.len() != 64 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad(format!("expected 64 hex digits, found {hash:?}")));
        }
        let name = Path::new(name.trim_start().trim_start_matches('*'));
        // A manifest must not reach out of the folder that it is checked against.
        let inside = name
            .components()
            .all(|c| matches!(c, std::path::Component::Normal(_)));
        if !inside || name.as_os_str().is_empty() {
            return Err(bad(format!(
                "expected a path inside the folder, found {name:?}"
            )));
        }
        entries.push(Entry {
            name: name.into(),
            sha256: hash.to_ascii_lowercase(),
        });
    }
    Ok(entries)
}

/// Compares the files under `folder` with the entries, in their order.
///
/// # Errors
/// [`Error::File`] if a file is there and cannot be read.
pub fn verify(entries: &[Entry], folder: &Path) -> Result<Vec<Verdict>, Error> {
    entries
        .iter()
        .map(|entry| {
            let path = folder.join(&entry.name);
            match fs::read(&path) {
                Ok(bytes) => {
                    let found = sha256(&bytes);
                    Ok(if found == entry.sha256 {
                        Verdict::Same
                    } else {
                        Verdict::Differs(found)
                    })
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Verdict::Missing),
                Err(source) => Err(Error::File { path, source }),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hash() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }

    #[test]
    fn verdicts() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.bin"), "abc").unwrap();
        fs::write(dir.path().join("b.bin"), "abd").unwrap();
        let list = dir.path().join("list");
        let hash = sha256(b"abc");
        fs::write(
            &list,
            format!("# test\n{hash}  a.bin\n{hash} *b.bin\n{hash}  c.bin\n"),
        )
        .unwrap();
        let verdicts = verify(&read(&list).unwrap(), dir.path()).unwrap();
        let differs = Verdict::Differs(sha256(b"abd"));
        assert_eq!(verdicts, [Verdict::Same, differs, Verdict::Missing]);
    }

    #[test]
    fn bad_lines_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        for (line, expected) in [
            ("abc", "line 1: expected `<sha256>  <name>`"),
            (
                "abc  x.bin",
                "line 1: expected 64 hex digits, found \"abc\"",
            ),
            (
                &format!("{}  ../x", "0".repeat(64)),
                "line 1: expected a path inside",
            ),
        ] {
            fs::write(&list, line).unwrap();
            let text = read(&list).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
    }
}
