//! The file format of recordings. The first line identifies it, lines starting with `#` describe its origin, and
//! every other line is an access: nanoseconds since the start, then a [`Record`].
//!
//! ```text
//! # doorbell trace 1
//! # argument devices
//! # variable DEV=TWINPCI+AMD::gfx1201
//! +1200 machine open name=0000:03:00.0 -> ok
//! +5310 0000:03:00.0 config-read offset=0x4 bytes=0x2 -> ok 0x0
//! ```
//!
//! Whoever records may be killed: a last line without its line break is not whole and is left out, even where what is
//! there of it looks like an access (the end of a number may be missing).

use std::fmt;
use std::io::{self, Write};
use std::time::Instant;

use hcq::transport::access::Record;
use hcq::transport::replay::Tape;
use thiserror::Error;

/// Bytes of a recording at most: more is not read.
pub const BYTES: u64 = 1 << 30;

/// Accesses of a recording at most, and lines of how it came to be.
pub const LINES: usize = 2 << 20;

/// The first line.
const FIRST: &str = "# doorbell trace 1";

/// Why a file is no recording.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {why}")]
pub struct WrongLine {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// How a recording came to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The command, without the name of the program.
    pub arguments: Vec<String>,
    /// The variables that chose the device.
    pub variables: Vec<[String; 2]>,
}

impl Origin {
    /// Writes the lines that a recording starts with.
    ///
    /// # Errors
    /// The system's; an argument with a line break in it.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{FIRST}\n");
        for argument in &self.arguments {
            text += &format!("# argument {}\n", whole(argument)?);
        }
        for [name, value] in &self.variables {
            text += &format!("# variable {name}={}\n", whole(value)?);
        }
        to.write_all(text.as_bytes())
    }
}

fn whole(text: &str) -> io::Result<&str> {
    match text.contains(['\n', '\r']) {
        true => Err(io::Error::other(format!("{text:?} contains a line break"))),
        false => Ok(text),
    }
}

/// Puts the time before each line that is written.
pub struct Stamped<W> {
    to: W,
    started: Instant,
    line: Vec<u8>,
}

impl<W: Write> Stamped<W> {
    /// Time starts now.
    pub fn new(to: W) -> Stamped<W> {
        Stamped {
            to,
            started: Instant::now(),
            line: Vec::new(),
        }
    }
}

impl<W: Write> Write for Stamped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.line.is_empty() {
                let now = self.started.elapsed().as_nanos();
                self.line.extend_from_slice(format!("+{now} ").as_bytes());
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.to.write_all(&self.line)?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// An access of a recording.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its line, from 1.
    pub line: usize,
    /// When it ended, in nanoseconds since the start.
    pub at: u64,
    /// What was asked, and what came of it.
    pub record: Record,
}

/// A recording.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// How it came to be.
    pub origin: Origin,
    /// What was done, in order.
    pub entries: Vec<Entry>,
    /// Where it was cut off, if it was.
    pub cut: Option<Cut>,
}

/// The end of a recording that lacks its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The line, from 1, that is not whole.
    pub line: usize,
    /// When the last access before it ended, in nanoseconds since the start.
    pub at: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.at as f64 / 1e3;
        write!(
            f,
            "cut off in line {}, after {us:.1} us; only the whole lines before it are read",
            self.line
        )
    }
}

/// Whether a text is a recording, of whatever version.
pub fn is_one(text: &str) -> bool {
    text.starts_with("# doorbell trace ")
}

impl Recording {
    /// Parses the text of a file, to its last whole line.
    ///
    /// # Errors
    /// [`WrongLine`], the first.
    pub fn parse(text: &str) -> Result<Recording, WrongLine> {
        Recording::parse_some(text, LINES)
    }

    /// The same of so many lines at most.
    fn parse_some(text: &str, most: usize) -> Result<Recording, WrongLine> {
        let mut recording = Recording::default();
        // A text of one line alone is read as it is: its error says what it is not.
        let whole = text.rfind('\n').map_or(text.len(), |end| end + 1);
        let (text, rest) = text.split_at(whole);
        for (line, text) in (1..).zip(text.lines()) {
            let wrong = |why: String| WrongLine { line, why };
            if line > most {
                let why = format!("expected at most {most} lines, found more");
                return Err(wrong(why));
            }
            if line == 1 && text != FIRST {
                let found: String = text.chars().take(40).collect();
                return Err(wrong(format!("expected {FIRST:?}, found {found:?}")));
            }
            if let Some(argument) = text.strip_prefix("# argument ") {
                recording.origin.arguments.push(argument.to_owned());
            } else if let Some(variable) = text.strip_prefix("# variable ") {
                let (name, value) = variable
                    .split_once('=')
                    .ok_or_else(|| wrong("a variable without a value".into()))?;
                let both = [name.to_owned(), value.to_owned()];
                recording.origin.variables.push(both);
            } else if !text.is_empty() && !text.starts_with('#') {
                let (at, rest) = text
                    .strip_prefix('+')
                    .and_then(|rest| rest.split_once(' '))
                    .ok_or_else(|| wrong("no timestamp".into()))?;
                let at = at
                    .parse()
                    .map_err(|_| wrong(format!("{at:?} is not a timestamp")))?;
                let record = rest.parse().map_err(|e| wrong(format!("{e}")))?;
                recording.entries.push(Entry { line, at, record });
            }
        }
        if !rest.is_empty() {
            recording.cut = Some(Cut {
                line: text.lines().count() + 1,
                at: recording.entries.last().map_or(0, |last| last.at),
            });
        }
        match recording.entries.is_empty() && recording.origin == Origin::default() {
            true => Err(WrongLine {
                line: 1,
                why: "empty recording".into(),
            }),
            false => Ok(recording),
        }
    }

    /// What answers in the place of every device, in the order of the recording.
    pub fn tape(self) -> Tape {
        let entries = self.entries.into_iter();
        Tape::of(entries.map(|one| (one.line, one.record)).collect())
    }

    /// The same for one device alone.
    pub fn tape_of(&self, device: &str) -> Tape {
        let entries = self.entries.iter();
        let of_device = entries.filter(|one| one.record.device == device);
        Tape::of(
            of_device
                .map(|one| (one.line, one.record.clone()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_get_their_time_and_are_read_back() {
        let mut bytes = Vec::new();
        let origin = Origin {
            arguments: vec!["demo".into(), "--steps".into(), "a b".into()],
            variables: vec![["DEV".into(), "TWINPCI+AMD".into()]],
        };
        origin.write(&mut bytes).unwrap();
        let mut stamped = Stamped::new(&mut bytes);
        stamped
            .write_all(b"gpu read bar=0x5 offset=0x10 bytes=0x4 -> ok 0x1\ngpu send")
            .unwrap();
        stamped.write_all(b" bar=0x5 -> ok\n").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(is_one(&text));
        let back = Recording::parse(&text).unwrap();
        assert_eq!(back.origin, origin);
        let lines: Vec<_> = back.entries.iter().map(|one| one.line).collect();
        assert_eq!(lines, [6, 7]);
        assert!(back.entries[0].at <= back.entries[1].at);
        assert_eq!(back.entries[1].record.to_string(), "gpu send bar=0x5 -> ok");
        assert!(
            back.clone()
                .tape()
                .finish()
                .unwrap_err()
                .to_string()
                .contains("line 6")
        );
        assert!(back.tape_of("other").finish().is_ok());
    }

    #[test]
    fn a_recording_is_read_to_its_last_whole_line() {
        let whole = "# doorbell trace 1\n# argument demo\n+7 gpu send bar=0x5 -> ok\n";
        assert_eq!(Recording::parse(whole).unwrap().cut, None);
        // Wherever it is cut, also where a part of a number is one.
        let next = "+9000 gpu read bar=0x5 offset=0x10 bytes=0x4 -> ok 0x1234";
        for end in 1..=next.len() {
            let cut = Recording::parse(&format!("{whole}{}", &next[..end])).unwrap();
            assert_eq!(cut.entries.len(), 1, "{end}");
            let end = cut.cut.unwrap();
            assert_eq!(end, Cut { line: 4, at: 7 });
            let told = "cut off in line 4, after 0.0 us; only the whole lines before it are read";
            assert_eq!(end.to_string(), told);
        }
        let before = Recording::parse("# doorbell trace 1\n# argument demo\n# vari").unwrap();
        assert_eq!(before.cut, Some(Cut { line: 3, at: 0 }));
        assert!(Recording::parse("# doorbell trace 1\n# argu").is_err());
        assert!(Recording::parse("# doorbell tr").is_err());
    }

    #[test]
    fn what_is_no_recording_is_named() {
        let why = |text: &str| Recording::parse(text).unwrap_err().to_string();
        assert_eq!(
            why("{}"),
            "line 1: expected \"# doorbell trace 1\", found \"{}\""
        );
        assert_eq!(why("# doorbell trace 1\n"), "line 1: empty recording");
        assert_eq!(
            why("# doorbell trace 1\ngpu send\n"),
            "line 2: no timestamp"
        );
        assert_eq!(
            why("# doorbell trace 1\n+x gpu send\n"),
            "line 2: \"x\" is not a timestamp"
        );
        let many = "# doorbell trace 1\n# argument a\n# argument b\n";
        let error = Recording::parse_some(many, 2).unwrap_err().to_string();
        assert_eq!(error, "line 3: expected at most 2 lines, found more");
        assert!(why("# doorbell trace 1\n+1 gpu jump -> ok\n").contains("unknown verb"));
        assert!(
            Origin {
                arguments: vec!["a\nb".into()],
                ..Origin::default()
            }
            .write(&mut Vec::new())
            .is_err()
        );
    }
}
