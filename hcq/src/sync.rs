//! Locks that a panic does not close. The locks of the protocols that loom checks: std's, or loom's under
//! `--cfg loom`.

use std::sync::{LockResult, PoisonError};

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks what stays good if its holder panics: each change is whole before anything can panic. A panic has been
/// reported by who panicked.
#[inline]
pub fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// As [`lock`], for what waits and other locks give.
#[inline]
pub fn unpoisoned<G>(held: LockResult<G>) -> G {
    held.unwrap_or_else(PoisonError::into_inner)
}
