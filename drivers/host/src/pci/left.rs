//! What processes that were killed have left: files of huge pages ([`Pages`](super::pages::Pages)) that functions may still
//! write to. Memory of one function may be in the page tables of others that the process had, so a file goes once all
//! functions are quiet whose files were left.
//!
//! A file whose lock (flock) a process has is in use; one that nobody has was left. Whoever lets go of the memory of a
//! function first makes that one quiet, and names its file so, before it looks at others: two that do so at once never
//! wait for each other.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hcq::transport::{Fault, TransportError};

use super::claim::VFIO;
use super::files::folder;
use super::function::ConfigFile;
use super::look::driver;
use super::pages::mounts;
use super::quiet::{Config, quiet};
use super::{Lock, LockError, System};
use crate::devfile::refused;

/// What the names of all files begin with; an address follows.
const PREFIX: &str = "doorbell-";
/// What the name of a file ends with whose function is quiet.
const QUIET: &str = ".quiet";
/// How long another program may take to make a function quiet that it opens.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// The name of a function's file.
pub(super) fn name(address: &str) -> String {
    format!("{PREFIX}{address}")
}

/// The files of a function.
fn left(system: &System, address: &str) -> Vec<PathBuf> {
    let names = [name(address), format!("{}{QUIET}", name(address))];
    let mounts = mounts(system).into_iter();
    let paths =
        mounts.flat_map(|mount| names.each_ref().map(|name| system.path(&mount).join(name)));
    paths
        .filter(|path| path.symlink_metadata().is_ok())
        .collect()
}

/// Whether a process has left memory that a function may still write to. Nobody else may drive it meanwhile.
pub fn has_left(system: &System, address: &str) -> bool {
    !left(system, address).is_empty()
}

/// Lets go of the memory that a process has left, once the function has stopped, and all others that the process may have
/// had. Nobody else may drive it meanwhile.
///
/// # Errors
/// A kernel driver has the function; it, or another one, does not stop; a file that cannot be removed. The memory stays then.
pub fn let_go(system: &System, address: &str, config: &dyn Config) -> Result<(), TransportError> {
    let mut left = left(system, address);
    if left.is_empty() {
        return Ok(());
    }
    if let Some(driver) = driver(system, address).filter(|driver| driver != VFIO) {
        let why = format!(
            "the kernel driver {driver} has it, and memory that a program has left for it stays in {}: `doorbell unbind \
             {address}`, then `doorbell unbind {address} --restore`",
            left[0].display()
        );
        return Err(TransportError::new(
            address,
            "let go of memory",
            Fault::Unsupported(why),
        ));
    }
    quiet(address, config)?;
    for path in &mut left {
        if !path.to_string_lossy().ends_with(QUIET) {
            let to = path.with_file_name(format!("{}{QUIET}", name(address)));
            // One that was left there before has nobody who writes to it either.
            let renamed = fs::rename(&*path, &to);
            renamed.map_err(|error| refused(&path.to_string_lossy(), "rename", &error))?;
            *path = to;
        }
    }
    quiet_others(system, address)?;
    for path in left {
        tracing::info!(target: "hcq::host", address, path = %path.display(), "memory of a process that has ended is let go");
        match fs::remove_file(&path) {
            // Both of its names were there.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => {
                removed.map_err(|error| refused(&path.to_string_lossy(), "remove", &error))?;
            }
        }
    }
    Ok(())
}

/// Says that a new file is in use, until the process ends. Others ask for a moment whether it is.
pub(super) fn in_use(file: &File) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if start.elapsed() < LIMIT => std::thread::sleep(LOOK),
            locked => return locked.map_err(io::Error::from),
        }
    }
}

/// Ends the accesses of all other functions whose files were left.
fn quiet_others(system: &System, address: &str) -> Result<(), TransportError> {
    let start = Instant::now();
    for mount in mounts(system) {
        for entry in fs::read_dir(system.path(&mount))
            .into_iter()
            .flatten()
            .flatten()
        {
            let file = entry.file_name();
            let other = file.to_str().and_then(|file| file.strip_prefix(PREFIX));
            let Some(other) = other.filter(|other| *other != address && !other.ends_with(QUIET))
            else {
                continue;
            };
            while was_left(&entry.path()) && !quiet_other(system, other, &entry.path())? {
                if start.elapsed() >= LIMIT {
                    let path = entry.path();
                    let why = format!(
                        "another program has {other}, whose memory a killed program has left in {}, and has not made it \
                         quiet within {LIMIT:?}: end that program, or wait for it",
                        path.display()
                    );
                    let fault = Fault::Unsupported(why);
                    return Err(TransportError::new(address, "let go of memory", fault));
                }
                std::thread::sleep(LOOK);
            }
        }
    }
    Ok(())
}

/// Whether a file is there that nobody uses. Who asks shares the lock with others who do.
fn was_left(path: &Path) -> bool {
    match File::open(path).map(|file| file.try_lock_shared()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock)) => false,
        Ok(Err(TryLockError::Error(_))) => true,
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Ends the accesses of another function, unless a program opens it just now, which does the same. Whether it is done.
fn quiet_other(system: &System, other: &str, path: &Path) -> Result<bool, TransportError> {
    let is_gone = !system.path(&folder(other)).exists();
    // A kernel driver has begun anew with it.
    if is_gone || driver(system, other).is_some_and(|driver| driver != VFIO) {
        return Ok(true);
    }
    match Lock::take(system, other, Duration::ZERO) {
        Ok(_lock) if !path.exists() => Ok(true),
        Ok(_lock) => quiet(other, &ConfigFile::open(system, other)?).map(|()| true),
        Err(LockError::Held { .. }) => Ok(false),
        Err(error) => {
            let fault = Fault::Unsupported(error.to_string());
            Err(TransportError::new(other, "let go of memory", fault))
        }
    }
}
