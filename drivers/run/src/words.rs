//! The command line of `doorbell-run`. Names of files are bytes, whatever they stand for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// What the command line asks for.
pub enum Asked {
    /// To run a bundle.
    Run(Args),
    /// The text about the program.
    Help,
    /// Its version.
    Version,
}

/// How a bundle is run.
pub struct Args {
    /// The bundle.
    pub file: PathBuf,
    /// Number of runs, the first included.
    pub repeat: u32,
    /// How long a run may take.
    pub limit: Duration,
    /// Whether all of the file is checked first.
    pub check: bool,
    /// Inputs, each once, with their files.
    pub inputs: Vec<(String, PathBuf)>,
    /// Outputs, each once, with their files.
    pub outputs: Vec<(String, PathBuf)>,
}

/// Both sides of the first `=`.
fn split(word: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|&byte| byte == b'=')?;
    let part = OsStr::from_bytes;
    Some((part(&bytes[..at]), part(&bytes[at + 1..])))
}

/// A number of at least 1.
fn number(option: &str, text: &OsStr) -> Result<u32, String> {
    let parsed = text.to_str().and_then(|text| text.parse::<u32>().ok());
    parsed.filter(|&n| n > 0).ok_or_else(|| {
        format!(
            "expected a number from 1 to {} after {option}, found {text:?}",
            u32::MAX
        )
    })
}

/// Adds a `NAME=FILE`.
fn pair(option: &str, text: &OsStr, to: &mut Vec<(String, PathBuf)>) -> Result<(), String> {
    let Some((name, path)) = split(text).filter(|(_, path)| !path.is_empty()) else {
        return Err(format!("expected NAME=FILE after {option}, found {text:?}"));
    };
    let Some(name) = name.to_str() else {
        return Err(format!(
            "expected a name in UTF-8 after {option}, found {name:?}"
        ));
    };
    if to.iter().any(|(known, _)| known == name) {
        return Err(format!("expected {option} {name} once, found it twice"));
    }
    to.push((name.to_owned(), path.into()));
    Ok(())
}

/// Reads the words behind the name of the program.
///
/// # Errors
/// A word that is not understood.
pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Asked, String> {
    let mut words = words.into_iter();
    let mut file = None;
    let mut args = Args {
        file: PathBuf::new(),
        repeat: 10,
        limit: Duration::from_secs(10),
        check: false,
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    while let Some(word) = words.next() {
        if !word.as_bytes().starts_with(b"-") {
            if file.is_some() {
                return Err(format!("expected one file, found {word:?} as well"));
            }
            file = Some(PathBuf::from(word));
            continue;
        }
        // `--repeat=3` is `--repeat 3`.
        let (option, behind) = match split(&word) {
            Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
            None => (word.clone(), None),
        };
        let option = option.to_string_lossy();
        let mut value = || {
            let value = behind.clone().or_else(|| words.next());
            value.ok_or_else(|| format!("expected a value after {option}"))
        };
        match &*option {
            "--repeat" => args.repeat = number(&option, &value()?)?,
            "--limit" => {
                let ms = number(&option, &value()?)?;
                args.limit = Duration::from_millis(ms.into());
            }
            "--check" if behind.is_none() => args.check = true,
            "--input" => pair(&option, &value()?, &mut args.inputs)?,
            "--output" => pair(&option, &value()?, &mut args.outputs)?,
            "--help" | "-h" => return Ok(Asked::Help),
            "--version" | "-V" => return Ok(Asked::Version),
            _ => return Err(format!("unknown option {word:?}")),
        }
    }
    args.file = file.ok_or("expected a file, FILE.dbx")?;
    Ok(Asked::Run(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&[u8]]) -> Result<Asked, String> {
        read(all.iter().map(|word| OsStr::from_bytes(word).to_owned()))
    }

    #[test]
    fn files_have_any_names() {
        let asked = words(&[
            b"\xff.dbx",
            b"--repeat=3",
            b"--limit",
            b"50",
            b"--input",
            b"x=\xfe=1",
            b"--output=y=z.bin",
            b"--check",
        ]);
        let Ok(Asked::Run(args)) = asked else {
            panic!("not understood");
        };
        assert_eq!(args.file.as_os_str().as_bytes(), b"\xff.dbx");
        assert_eq!((args.repeat, args.limit), (3, Duration::from_millis(50)));
        assert!(args.check);
        assert_eq!(args.inputs[0].0, "x");
        assert_eq!(args.inputs[0].1.as_os_str().as_bytes(), b"\xfe=1");
        assert_eq!(args.outputs, [("y".to_owned(), PathBuf::from("z.bin"))]);
        assert!(matches!(words(&[b"a", b"-h"]), Ok(Asked::Help)));
        assert!(matches!(words(&[b"--version"]), Ok(Asked::Version)));
        assert!(matches!(words(&[b"-V"]), Ok(Asked::Version)));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (wrong, said) in [
            (&[][..], "expected a file"),
            (&[&b"a"[..], b"b"], "expected one file, found \"b\" as well"),
            (
                &[b"a", b"--repeat", b"0"],
                "number from 1 to 4294967295 after --repeat, found \"0\"",
            ),
            (&[b"a", b"--limit", b"0"], "after --limit, found \"0\""),
            (&[b"a", b"--repeat", b"4294967296"], "after --repeat"),
            (&[b"a", b"--limit", b"\xff"], "found \"\\xFF\""),
            (&[b"a", b"--limit"], "expected a value after --limit"),
            (
                &[b"a", b"--input", b"x"],
                "expected NAME=FILE after --input, found \"x\"",
            ),
            (&[b"a", b"--input", b"x="], "expected NAME=FILE"),
            (&[b"a", b"--input", b"\xff=a"], "expected a name in UTF-8"),
            (
                &[b"a", b"--output=y=a", b"--output=y=b"],
                "expected --output y once",
            ),
            (&[b"a", b"--\xff"], "unknown option \"--\\xFF\""),
            (&[b"a", b"-x"], "unknown option \"-x\""),
            (&[b"a", b"--check=1"], "unknown option \"--check=1\""),
        ] {
            let error = words(wrong).err().unwrap();
            assert!(error.contains(said), "{error}");
        }
    }
}
