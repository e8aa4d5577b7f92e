//! Journals of changes to undo, one per function: their paths, and which other functions need a change.

use std::io::ErrorKind;

use super::files::Files;

/// The folder of journals: it is empty after a restart, which also undoes the changes.
pub(super) const JOURNALS: &str = "/run/doorbell";
const END: &str = ".undo";

/// The journal of a function.
pub(super) fn journal(address: &str) -> String {
    format!("{JOURNALS}/{address}{END}")
}

/// Whether another function needs a write to a file of the machine: its journal has it as well.
pub(super) fn is_owed(files: &dyn Files, address: &str, path: &str) -> bool {
    let others = files.list(JOURNALS).unwrap_or_default();
    let mut others = others.iter().filter_map(|name| name.strip_suffix(END));
    let has = |text: &str| {
        text.lines().any(|line| {
            let mut parts = line.split('\t');
            parts.next() == Some("try") && parts.next() == Some(path)
        })
    };
    others.any(|other| {
        other != address
            && match files.kept(&journal(other)) {
                Ok(text) => has(&text),
                // One that cannot be read is no reason to take something away from a card.
                Err(error) => error.kind() != ErrorKind::NotFound,
            }
    })
}
