//! [`Held`]: signals that ask the program to end, while something may not be left by half; and one that is an error of a
//! file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::program::error::Error;

/// From here on a file that would be larger than the program may make files (`ulimit -f`) is an error with its name.
/// Handled instead of ignored, so that programs which are started from here have it as it is.
///
/// # Errors
/// The system's.
pub fn outlive_large_files() -> Result<(), Error> {
    let is_of_no_use = Arc::new(AtomicBool::new(false));
    flag::register(SIGXFSZ, is_of_no_use).map_err(Error::Signals)?;
    Ok(())
}

/// From here on they end nothing by themselves.
pub struct Held(Arc<AtomicBool>);

impl Held {
    /// Holds them.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Held, Error> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            flag::register(signal, came.clone()).map_err(Error::Signals)?;
        }
        Ok(Held(came))
    }

    /// Whether one has come.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn a_file_that_is_too_large_does_not_end_the_program() {
        outlive_large_files().unwrap();
        raise(SIGXFSZ).unwrap();
    }
}
