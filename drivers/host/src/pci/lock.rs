//! [`Lock`]: one program at a time drives a function.
//!
//! The lock is the kernel's, on a file that says who has it; it is gone with the process that has it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::System;

/// How often a lock that somebody has is looked at again.
const LOOK: Duration = Duration::from_millis(20);

/// A function that is not free.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another program has it.
    #[error(
        "{address}: {holder} has it, still after {waited:?}. End that, or wait for it: --wait SECONDS, for programs \
         HCQDEV_PCI_WAIT=SECONDS"
    )]
    Held {
        /// The function.
        address: String,
        /// Process and command.
        holder: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The file could not be had.
    #[error(
        "{path}: {source}. Locks of all programs are in that folder: it must be there, and writable"
    )]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The right to drive a function, as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The file of a function's lock, which says who has had it last: `PID (COMMAND)`.
pub fn lock_path(address: &str) -> String {
    format!("/run/lock/doorbell-{address}.lock")
}

impl Lock {
    /// Waits for the function, at most so long.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn take(system: &System, address: &str, wait: Duration) -> Result<Lock, LockError> {
        let name = lock_path(address);
        let failed = |source| LockError::File {
            path: name.clone(),
            source,
        };
        let path = system.path(&name);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        // Without creating first: a folder for all (sticky) lets nobody create over a file of another user.
        let opened = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                options.create(true).truncate(false).open(&path)
            }
            opened => opened,
        };
        let mut file = opened.map_err(failed)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if start.elapsed() < wait => {
                    std::thread::sleep(LOOK.min(wait));
                }
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    // Who has it may be writing its name just now.
                    let _ = file.read_to_string(&mut text);
                    let holder = match text.trim() {
                        "" => "another program".into(),
                        text => format!("process {text}"),
                    };
                    return Err(LockError::Held {
                        address: address.into(),
                        holder,
                        waited: start.elapsed(),
                    });
                }
            }
        }
        let command: Vec<_> = std::env::args_os().collect();
        let command: Vec<_> = command.iter().map(|arg| arg.to_string_lossy()).collect();
        let who = format!("{} ({})\n", std::process::id(), command.join(" "));
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        file.write_all(who.as_bytes()).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("run/lock")).unwrap();
        let system = System::at(folder.path());
        let take = |address: &str, ms| Lock::take(&system, address, Duration::from_millis(ms));
        let first = take("0000:03:00.0", 0).unwrap();
        take("0000:04:00.0", 0).unwrap();
        let error = take("0000:03:00.0", 50).unwrap_err().to_string();
        let process = format!("0000:03:00.0: process {} (", std::process::id());
        assert!(error.starts_with(&process), "{error}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| take("0000:03:00.0", 10_000).map(drop));
            std::thread::sleep(Duration::from_millis(30));
            drop(first);
            waits.join().unwrap().unwrap();
        });
        take("0000:03:00.0", 0).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Lock::take(&System::at(folder.path()), "0000:03:00.0", Duration::ZERO);
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("/run/lock/doorbell-0000:03:00.0.lock: No such file"),
            "{error}"
        );
    }
}
