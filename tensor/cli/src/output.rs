//! Printing data: JSON with a versioned schema, or lines for people.

use std::io::Write;

use serde::Serialize;

use crate::error::Error;

/// What every JSON answer looks like: the name and version of its schema, then its rows.
#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    schema: &'a str,
    rows: &'a [T],
}

/// Prints rows as one JSON document. `schema` is `doorbell.<query>/<version>`; the version grows
/// when a field changes its meaning or goes away.
pub fn json<T: Serialize>(schema: &str, rows: &[T]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &Document { schema, rows })
        .map_err(|e| Error::Output(e.into()))?;
    writeln!(out).map_err(Error::Output)
}

/// Prints one line of data.
pub fn line(text: std::fmt::Arguments<'_>) -> Result<(), Error> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Error::Output)
}
