//! Calls that are made again: those that a driver asks for, and those that take something apart.

use std::fmt::Display;
use std::time::Duration;

use hcq::transport::errno::{ENODEV, ENXIO};
use hcq::transport::{Fault, TransportError};

/// How often a call that the driver asks for again is made, with a pause before each next one: half a second.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// How often a call that takes something apart is made again before it is given up.
const FREES: u32 = 3;

/// Repeats a call while its error is a temporary one, a limited number of times.
///
/// # Errors
/// The last one.
pub fn until_taken<T, E>(
    mut call: impl FnMut() -> Result<T, E>,
    asks_again: impl Fn(&E) -> bool,
) -> Result<T, E> {
    for _ in 1..TRIES {
        match call() {
            Err(error) if asks_again(&error) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    call()
}

/// Repeats a failed release: the resource would leak otherwise, and failures for lack of memory or by a signal are
/// temporary.
///
/// # Errors
/// The last one.
pub fn again<E: Display>(mut call: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    for tries in 1..FREES {
        match call() {
            Err(error) => tracing::debug!(%error, tries, "retrying"),
            Ok(()) => return Ok(()),
        }
    }
    call()
}

/// Whether a GPU has left, by what its files answer.
pub fn is_gone(error: &TransportError) -> bool {
    matches!(error.fault, Fault::Errno(ENXIO | ENODEV))
}
