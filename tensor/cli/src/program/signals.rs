//! [`Held`]: signals that ask the program to end, while something may not be left by half.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::program::error::Error;

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
