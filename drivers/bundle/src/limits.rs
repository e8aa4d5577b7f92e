//! How much a file may hold that came from elsewhere: counted while it is read, since a small file can say much (a
//! packed one is unpacked to a thousand times its size, three bytes of JSON become a queue).

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file that holds more than it may.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}: expected at most {most} {what}, found {found}. Not written by Doorbell: check its origin", path.display())]
pub struct TooMuch {
    /// The file.
    pub path: PathBuf,
    /// Of what.
    pub what: &'static str,
    /// How many there may be.
    pub most: u64,
    /// How many there are, as far as they were counted.
    pub found: String,
}

/// Why a file was not read.
#[derive(Debug)]
pub enum Unread {
    /// The system refused.
    Refused(io::Error),
    /// It is too large.
    TooMuch(TooMuch),
}

/// All of a file, if that is no more than so many bytes: by what the system says of it, and by what there is.
///
/// # Errors
/// [`Unread`].
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    let file = File::open(path).map_err(Unread::Refused)?;
    let says = file.metadata().map_err(Unread::Refused)?.len();
    let too_much = |found| {
        Unread::TooMuch(TooMuch {
            path: path.to_owned(),
            what: "bytes",
            most,
            found,
        })
    };
    match says <= most {
        true => bounded(file, most, says)
            .map_err(Unread::Refused)?
            .ok_or_else(|| too_much("more".into())),
        false => Err(too_much(says.to_string())),
    }
}

/// All that a reader gives, if that is no more than so many bytes; about how many there are, if that is known.
pub(crate) fn bounded(from: impl Read, most: u64, about: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(about.min(most) as usize);
    from.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// What a text of JSON is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Made {
    /// Objects.
    pub objects: u64,
    /// Values: elements of lists, and fields.
    pub values: u64,
}

/// Counts what a text of JSON is made of; of other text it counts something.
pub(crate) fn made(text: &[u8]) -> Made {
    let mut made = Made::default();
    let (mut in_string, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => {
                made.objects += 1;
                made.values += 1;
            }
            b'[' | b',' => made.values += 1,
            _ => {}
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        let of = |objects, values| Made { objects, values };
        assert_eq!(made(b"{}"), of(1, 1));
        assert_eq!(
            made(br#"{"a": [1, 2, 3], "b": {"c": "{,[\",{"}}"#),
            of(2, 6)
        );
        assert_eq!(made(br#""\\",{}"#), of(1, 2));
    }

    #[test]
    fn as_much_as_may_be_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read(&path, 100).unwrap().len(), 100);
        let Err(Unread::TooMuch(error)) = read(&path, 99) else {
            panic!("it was read");
        };
        let text = error.to_string();
        assert!(
            text.contains("x: expected at most 99 bytes, found 100."),
            "{text}"
        );
        // What says that it is empty, and is not.
        let zeros = read(Path::new("/dev/zero"), 1 << 16);
        assert!(matches!(zeros, Err(Unread::TooMuch(TooMuch { found, .. })) if found == "more"));
        assert!(matches!(
            read(&folder.path().join("y"), 1),
            Err(Unread::Refused(_))
        ));
    }
}
