//! [`Lock`]: one program at a time drives a function.
//!
//! The lock is a kernel lock on a file that names its holder; it ends with the holding process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use hcq::text::plain;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};
use thiserror::Error;

use super::System;
use super::kept::{hint, open_plain};

/// The interval between two attempts to take a lock.
const LOOK: Duration = Duration::from_millis(20);

/// How long a function is waited for that another thread of this process still ends, or that a program has for a moment.
const MOMENT: Duration = Duration::from_secs(2);

/// Maximum bytes of a lock file, which has its owner.
const LONGEST: u64 = 4096;

/// How often a file is made or opened that comes and goes.
const TIMES: u32 = 16;

/// A function could not be locked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another program uses it.
    #[error(
        "{address}: in use by {holder} (waited {waited:?}). Stop it, or wait: --wait SECONDS (programs: \
         HCQDEV_PCI_WAIT=SECONDS)"
    )]
    Held {
        /// The function.
        address: String,
        /// Process and command.
        holder: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The lock file could not be opened.
    #[error("{path}: {source}{}", advice(.source))]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The fix for a file that could not be opened; other kinds of entries have their own.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        None => "",
        Some(libc::EMFILE | libc::ENFILE) => hint(source),
        Some(_) => ". The lock folder must exist and be writable",
    }
}

/// The right to drive a function, as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The lock file of a function, which names its last holder: `PID (COMMAND)`.
pub fn lock_path(address: &str) -> String {
    format!("/run/lock/doorbell-{address}.lock")
}

/// The file of a lock with its owner: the one that is there, whoever has made it, or a new one. A link is not followed,
/// and what is there stays as it is.
fn open(path: &Path) -> io::Result<(File, u32)> {
    let mut there = OpenOptions::new();
    there.read(true).write(true);
    let mut new = there.clone();
    new.create_new(true).mode(0o644);
    for _ in 0..TIMES {
        let opened = match open_plain(path, &there) {
            // A file of root, or of another user, who may not have it written to.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                open_plain(path, OpenOptions::new().read(true))
            }
            // First without creating: in a sticky folder, O_CREAT fails on a file of another user.
            Err(error) if error.kind() == ErrorKind::NotFound => open_plain(path, &new),
            opened => opened,
        };
        match opened {
            // Another process has created it in between.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|(file, metadata)| (file, metadata.uid())),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

/// Whether who has a lock has it for a moment: this process, which ends a device of its own in another thread, or a program
/// that has not said its name ([`Lock::for_a_moment`]), so that the name is that of a process which has ended.
fn is_soon_over(text: &str) -> bool {
    let number = text
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|&number: &i32| number > 0) else {
        return true;
    };
    let ends = Pid::from_raw(number);
    ends == Pid::this() || kill(ends, None) == Err(Errno::ESRCH)
}

impl Lock {
    /// Locks the function if it is free, without writing the holder: for short operations.
    ///
    /// # Errors
    /// [`LockError`].
    pub(super) fn for_a_moment(system: &System, address: &str) -> Result<Option<Lock>, LockError> {
        let name = lock_path(address);
        let file = open(&system.path(&name)).and_then(|(file, _)| match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(source),
        });
        file.map_err(|source| LockError::File { path: name, source })
    }

    /// Waits for the function for at most `wait`, slightly longer if its holder is about to release it.
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
        let (mut file, owner) = open(&path).map_err(failed)?;
        // The folder is shared by all users: a file of another user locks as well, and is not written to.
        let is_ours = owner == geteuid().as_raw();
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
                    // The owner may be writing its name just now.
                    let _ = (&file).take(LONGEST).read_to_string(&mut text);
                    file.rewind().map_err(failed)?;
                    if is_ours && is_soon_over(&text) && start.elapsed() < MOMENT {
                        std::thread::sleep(LOOK);
                        continue;
                    }
                    let holder = match text.trim() {
                        _ if !is_ours && owner != 0 => {
                            format!("a program (the file {name} is owned by user {owner})")
                        }
                        "" => "another program".into(),
                        // The arguments of its command may have line ends.
                        text => format!("process {}", plain(text).replace('\n', r"\u{a}")),
                    };
                    return Err(LockError::Held {
                        address: address.into(),
                        holder,
                        waited: start.elapsed(),
                    });
                }
            }
        }
        if !is_ours {
            return Ok(Lock { _file: file });
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
        let process = format!("0000:03:00.0: in use by process {} (", std::process::id());
        assert!(error.starts_with(&process), "{error}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| take("0000:03:00.0", 10_000).map(drop));
            std::thread::sleep(Duration::from_millis(30));
            drop(first);
            waits.join().unwrap().unwrap();
        });
        take("0000:03:00.0", 0).unwrap();
    }

    /// The folder is shared by all users, so any user may have created an entry before.
    #[test]
    fn what_others_have_put_there_is_not_followed_and_not_written_to() {
        use std::fs;
        use std::os::unix::fs::{chown, symlink};

        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("run/lock")).unwrap();
        let system = System::at(folder.path());
        let take = || Lock::take(&system, "0000:03:00.0", Duration::ZERO);
        let path = system.path(&lock_path("0000:03:00.0"));
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        type Make = fn(&Path, &Path) -> io::Result<()>;
        let links: [Make; 2] = [|a, b| fs::hard_link(a, b), |a, b| symlink(a, b)];
        for make in links {
            make(&precious, &path).unwrap();
            let error = take().unwrap_err().to_string();
            let why = ["is a link", "has other hard links"];
            assert!(why.iter().any(|why| error.contains(why)), "{error}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
            fs::remove_file(&path).unwrap();
        }
        drop(take().unwrap());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o644);
        if geteuid().is_root() {
            fs::write(&path, "theirs\x1b[2J").unwrap();
            chown(&path, Some(4242), None).unwrap();
            let held = take().unwrap();
            let error = take().unwrap_err().to_string();
            assert!(error.contains("is owned by user 4242"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "theirs\x1b[2J");
            drop(held);
        }
    }

    #[test]
    fn a_folder_in_its_place_is_to_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::at(folder.path());
        let path = system.path(&lock_path("0000:03:00.0"));
        std::fs::create_dir_all(&path).unwrap();
        let taken = Lock::take(&system, "0000:03:00.0", Duration::ZERO);
        for error in [
            taken.err(),
            Lock::for_a_moment(&system, "0000:03:00.0").err(),
        ] {
            let error = error.unwrap().to_string();
            assert!(error.contains(".lock is a directory: expected"), "{error}");
            assert!(error.ends_with("and remove it"), "{error}");
        }
    }

    #[test]
    fn who_has_it_is_named_on_one_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("run/lock")).unwrap();
        let system = System::at(folder.path());
        let take = || Lock::take(&system, "0000:03:00.0", Duration::ZERO);
        let _held = take().unwrap();
        let path = system.path(&lock_path("0000:03:00.0"));
        std::fs::write(path, "1 (a\nerror: b\x1b[2J)\n").unwrap();
        let error = take().unwrap_err().to_string();
        let holder = r"0000:03:00.0: in use by process 1 (a\u{a}error: b\u{1b}[2J) (";
        assert!(error.starts_with(holder), "{error}");
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
