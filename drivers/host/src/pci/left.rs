//! Memory left by killed processes: huge page files ([`Pages`](super::pages::Pages)) that functions may still write.
//! Memory of one function may be in the page tables of the process's other functions, so a file is removed once all
//! functions with left files are quiesced.
//!
//! A file whose lock (flock) is held is in use; otherwise it was left. To free the memory of a function, that
//! function is quiesced first and its file renamed accordingly, before looking at others: two processes doing so
//! never wait for each other.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hcq::transport::{Fault, TransportError};

use super::config::ConfigFile;
use super::files::{Files, folder};
use super::look::{VFIO, driver};
use super::quiet::{Config, quiet};
use super::{Lock, System};
use crate::devfile::refused;

pub(super) const MOUNTS: &str = "/proc/mounts";
/// What the names of all files begin with; an address follows.
const PREFIX: &str = "doorbell-";
/// What the name of a file ends with whose function is quiet.
const QUIET: &str = ".quiet";
/// How long another program may take to make a function quiet that it opens.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// How long a process takes at most that closes its files.
const CLOSES: Duration = Duration::from_millis(20);
/// A driver that does nothing with its functions.
const STUB: &str = "pci-stub";

/// Where hugetlbfs with pages of 2 MiB is mounted.
pub(super) fn mounts(files: &dyn Files) -> Vec<String> {
    let text = files.read(MOUNTS).unwrap_or_default();
    let found = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (_, place, kind, options) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let is_2m = options.split(',').any(|option| option == "pagesize=2M");
        // The kernel writes a blank as \040.
        (kind == "hugetlbfs" && is_2m && !place.contains('\\')).then(|| place.to_owned())
    });
    found.collect()
}

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

/// Whether a process left memory that a function may still write. The caller must hold the function's lock.
pub fn has_left(system: &System, address: &str) -> bool {
    !left(system, address).is_empty()
}

/// Frees the memory left by a process, after stopping the DMA of the function and of all others the process may have
/// used. The caller must hold the function's lock.
///
/// # Errors
/// A kernel driver is bound to the function; it or another one does not stop; a file cannot be removed. The memory is
/// then kept.
pub fn let_go(system: &System, address: &str, config: &dyn Config) -> Result<(), TransportError> {
    let mut left = left(system, address);
    if left.is_empty() {
        return Ok(());
    }
    if let Some(driver) = driver(system, address).filter(|driver| driver != VFIO) {
        let why = format!(
            "bound to the kernel driver {driver}, and memory left by a killed program stays in {}: run `doorbell \
             unbind {address}`, then `doorbell unbind {address} --restore`",
            left[0].display()
        );
        return Err(TransportError::new(
            address,
            "free left memory",
            Fault::Unsupported(why),
        ));
    }
    quiet(address, config)?;
    for path in &mut left {
        if !path.to_string_lossy().ends_with(QUIET) {
            let to = path.with_file_name(format!("{}{QUIET}", name(address)));
            // A killed process has left a file of that name: DMA of all functions is stopped for it as well.
            let renamed = fs::rename(&*path, &to);
            renamed.map_err(|error| refused(&path.to_string_lossy(), "rename", &error))?;
            *path = to;
        }
    }
    quiet_others(system, address)?;
    for path in left {
        tracing::info!(target: "hcq::host", address, path = %path.display(), "freeing memory left by a killed process");
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

/// Marks a new file as in use until the process ends. Other processes check the mark briefly.
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
        let folder = system.path(&mount);
        let failed = |error: io::Error| refused(&folder.to_string_lossy(), "list", &error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let file = path.file_name().and_then(|file| file.to_str());
            let other = file.and_then(|file| file.strip_prefix(PREFIX));
            let Some(other) = other.filter(|other| *other != address && !other.ends_with(QUIET))
            else {
                continue;
            };
            let depends = |why: String| {
                let why = format!(
                    "a killed program left memory of {address}, which {other} may still write: {why}"
                );
                TransportError::new(address, "free left memory", Fault::Unsupported(why))
            };
            if is_in_use(&path) {
                // Files of a process that ends are closed one after another.
                std::thread::sleep(CLOSES);
            }
            while !is_in_use(&path) {
                let done = quiet_other(system, other, &path);
                if done.map_err(&depends)? {
                    break;
                }
                if start.elapsed() >= LIMIT {
                    let why = format!(
                        "another program uses {other} and did not quiesce it within {LIMIT:?}. Stop that program, or \
                         wait \
                         for it"
                    );
                    return Err(depends(why));
                }
                std::thread::sleep(LOOK);
            }
        }
    }
    Ok(())
}

/// Whether a running process uses a file. Several checks share the lock.
fn is_in_use(path: &Path) -> bool {
    match File::open(path).map(|file| file.try_lock_shared()) {
        Ok(Err(TryLockError::WouldBlock)) => true,
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Stops DMA of another function, unless a program is opening it, which does the same. Returns whether it is stopped; or
/// what is in the way, and what to do.
fn quiet_other(system: &System, other: &str, path: &Path) -> Result<bool, String> {
    if !system.path(&folder(other)).exists() {
        return Err(format!(
            "it is not on the bus. Run `echo 1 > /sys/bus/pci/rescan`; if the card was removed, delete {}",
            path.display()
        ));
    }
    // A driver of the kernel's has begun anew with it, and so has who has it by VFIO.
    if driver(system, other).is_some_and(|driver| driver != STUB) {
        return Ok(true);
    }
    let lock = Lock::for_a_moment(system, other).map_err(|error| error.to_string())?;
    if lock.is_none() || !path.exists() {
        return Ok(lock.is_some());
    }
    let quiet = ConfigFile::open(system, other).and_then(|config| quiet(other, &config));
    quiet.map_err(|error| format!("{error}. Try `doorbell reset {other}`"))?;
    Ok(true)
}
