//! Lines on stderr. What they say may come from devices and from files of others: nothing in it acts on a terminal.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::text::plain;

/// Whether the reader of stderr has gone.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// Prints a line. A reader that has gone ends no work.
pub fn line(text: std::fmt::Arguments<'_>) {
    let written = writeln!(std::io::stderr().lock(), "{}", plain(&text.to_string()));
    if written.is_err_and(|e| e.kind() == ErrorKind::BrokenPipe) {
        UNHEARD.store(true, Ordering::Relaxed);
    }
}

/// Whether the reader of stderr has gone.
#[cfg(feature = "cli")]
pub fn is_unheard() -> bool {
    UNHEARD.load(Ordering::Relaxed)
}
