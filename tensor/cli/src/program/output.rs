//! Printing data: JSON with a versioned schema, or lines for people. All that a terminal gets passes here, since what is
//! printed may come from devices and from files of others: nothing in it acts on the terminal.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;

use hcq::text::{plain, plain_json};
use serde::Serialize;

use crate::program::error::Error;

/// What every JSON answer looks like: the name and version of its schema, then its rows.
#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    schema: &'a str,
    rows: &'a [T],
}

/// Prints rows as one JSON document. `schema` is `doorbell.<query>/<version>`; the version grows
/// when a field changes its meaning or goes away.
pub fn json<T: Serialize>(schema: &str, rows: &[T]) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(&Document { schema, rows });
    let text = text.map_err(|e| Error::Output(e.into()))?;
    writeln!(std::io::stdout().lock(), "{}", plain_json(&text)).map_err(Error::Output)
}

/// Prints one line of data.
pub fn line(text: std::fmt::Arguments<'_>) -> Result<(), Error> {
    writeln!(std::io::stdout().lock(), "{}", plain(&text.to_string())).map_err(Error::Output)
}

/// Whether somebody reads what is printed, for work that takes long: stdout is the pipe of stderr, whose reader has gone.
///
/// # Errors
/// Nobody reads it, as a write to stdout would say.
pub fn is_read() -> Result<(), Error> {
    let same = || {
        let of = |file| std::fs::metadata(file).ok();
        let pair = of("/proc/self/fd/1").zip(of("/proc/self/fd/2"));
        pair.is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    match crate::talk::is_unheard() && same() {
        true => Err(Error::Output(ErrorKind::BrokenPipe.into())),
        false => Ok(()),
    }
}

/// Prints talk on stderr, as `eprintln` does, with nothing in it that acts on a terminal.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::talk::line(format_args!($($part)*))
    };
}
pub(crate) use say;
