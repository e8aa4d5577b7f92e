//! Applying a plan, and undoing it.
//!
//! [`apply`] records each write in a journal before making it; [`restore`] undoes the journal in reverse, in this
//! process or, after it was killed, in another one.

use std::io::{self, ErrorKind};

use super::claim::{ClaimError, NO_IOMMU, RESCAN, Step, Write};
use super::files::Files;
use super::kept::CUT;
use super::look::driver;
use super::owed::{is_owed, journal};

/// Files that are the machine's: what is written there counts for all functions that were taken over.
const SHARED: [&str; 1] = [NO_IOMMU];

/// What a journal had before some writes: [`undo`] goes back to there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark(usize);

/// Writes the steps. If a required one fails, or `ends` returns true after one, the earlier ones are undone.
///
/// # Errors
/// [`ClaimError`].
pub fn apply(
    files: &dyn Files,
    address: &str,
    steps: &[Step],
    ends: &dyn Fn() -> bool,
) -> Result<(), ClaimError> {
    marked(files, address, steps, ends).map(drop)
}

/// Writes the steps, and says from where on they are undone.
pub(super) fn marked(
    files: &dyn Files,
    address: &str,
    steps: &[Step],
    ends: &dyn Fn() -> bool,
) -> Result<Mark, ClaimError> {
    let path = journal(address);
    let note = |text: String| {
        let noted = files.append(&path, &text);
        noted.map_err(|source| ClaimError::Journal {
            path: path.clone(),
            source,
        })
    };
    // What others have left of theirs stays.
    let before = Mark(entries(files, address)?.len());
    let back = |done: usize| match undo(files, address, before) {
        Ok(_) if done == 0 => "Nothing else was changed".to_owned(),
        Ok(_) => "Earlier changes were undone".to_owned(),
        Err(error) => error.to_string(),
    };
    for (done, step) in steps.iter().enumerate() {
        let Step { write, undo, .. } = step;
        note(format!("try\t{}\t{}\n", undo.path, undo.value))?;
        match files.tell(&write.path, &write.value) {
            Ok(()) => {}
            Err(source) if step.may_fail => {
                tracing::warn!(target: "hcq::host", address, %write, %source, "continuing without this write");
                continue;
            }
            Err(source) => {
                return Err(ClaimError::Refused {
                    address: address.into(),
                    step: Box::new(step.clone()),
                    source,
                    undone: back(done),
                });
            }
        }
        if let Some(seen) = deaf(files, address, write) {
            return Err(ClaimError::Deaf {
                address: address.into(),
                write: write.clone(),
                seen,
                undone: back(done + 1),
            });
        }
        note("done\n".into())?;
        if ends() {
            return Err(ClaimError::Ended {
                address: address.into(),
                undone: back(done + 1),
            });
        }
    }
    Ok(before)
}

/// What is there in place of what a write was for, of the writes that are taken also where they do nothing.
fn deaf(files: &dyn Files, address: &str, write: &Write) -> Option<String> {
    let has = driver(files, address);
    match (write.path.rsplit('/').next()?, has.as_deref()) {
        ("unbind", Some(driver)) => {
            Some(format!("it is still bound to the kernel driver {driver}"))
        }
        ("drivers_probe", None) => Some("no driver is bound: see `dmesg`".into()),
        ("drivers_probe", Some(other)) if other != "vfio-pci" => Some(format!(
            "it is bound to the kernel driver {other}, not vfio-pci"
        )),
        _ => None,
    }
}

/// Something that was written, or may have been.
struct Entry {
    undo: Write,
    is_done: bool,
}

/// What a journal has; one that is there and cannot be read is not one that has nothing.
fn entries(files: &dyn Files, address: &str) -> Result<Vec<Entry>, ClaimError> {
    let path = journal(address);
    let text = match files.kept(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(source) => return Err(ClaimError::Journal { path, source }),
        Ok(text) => text,
    };
    let mut entries: Vec<Entry> = Vec::new();
    // A line without an end was cut short, and so was its last field.
    let lines = text.split_inclusive('\n');
    let whole = lines.filter_map(|line| line.strip_suffix('\n'));
    for (number, line) in (1..).zip(whole) {
        let mut parts = line.split('\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("try"), Some(path), Some(value), None) => entries.push(Entry {
                undo: Write {
                    path: path.into(),
                    value: value.into(),
                },
                is_done: false,
            }),
            (Some("done"), None, None, None) => {
                if let Some(last) = entries.last_mut() {
                    last.is_done = true;
                }
            }
            // A line that was cut short is of a write that was not made.
            _ if line.ends_with(CUT) => {}
            // What it says would be lost.
            _ => {
                let what = format!(
                    "line {number} is {line:?}: expected `try` with a file and a value, or `done`. Nothing was undone: \
                     fix or remove the line and rerun"
                );
                let source = io::Error::new(ErrorKind::InvalidData, what);
                return Err(ClaimError::Journal { path, source });
            }
        }
    }
    Ok(entries)
}

/// Whether a write does what was done before: functions that were removed one by one come back together. Any other write
/// is made as often as it is to be undone: a driver that got the function twice gives it back twice.
fn is_again(undo: &Write, written: &[Write]) -> bool {
    undo.path == RESCAN && written.contains(undo)
}

/// Whether the system is already as a write would make it, which the kernel refuses then.
fn is_reached(files: &dyn Files, address: &str, undo: &Write) -> bool {
    let has = driver(files, address);
    let mut parts = undo.path.rsplit('/');
    match (parts.next().unwrap_or(""), parts.next().unwrap_or("")) {
        ("bind", name) => has.as_deref() == Some(name),
        // In the folder of the function.
        ("unbind", "driver") => has.is_none(),
        ("unbind", name) => has.as_deref() != Some(name),
        // The driver that has it has enabled it.
        ("enable", _) => has.is_some(),
        _ => false,
    }
}

/// What [`restore`] would write, in its order. Nothing is written yet.
///
/// # Errors
/// [`ClaimError::Journal`].
pub fn pending(files: &dyn Files, address: &str) -> Result<Vec<Write>, ClaimError> {
    let mut writes: Vec<Write> = Vec::new();
    for entry in entries(files, address)?.into_iter().rev() {
        let path = &*entry.undo.path;
        let is_kept = SHARED.contains(&path) && is_owed(files, address, path);
        if !is_kept && !is_again(&entry.undo, &writes) {
            writes.push(entry.undo);
        }
    }
    Ok(writes)
}

/// Undoes the journal of a function, last entry first, and returns the writes made.
///
/// # Errors
/// [`ClaimError::Restore`], [`ClaimError::Journal`].
pub fn restore(files: &dyn Files, address: &str) -> Result<Vec<Write>, ClaimError> {
    undo(files, address, Mark(0))
}

/// As [`restore`], as far as a mark.
pub(super) fn undo(
    files: &dyn Files,
    address: &str,
    Mark(from): Mark,
) -> Result<Vec<Write>, ClaimError> {
    let mut entries = entries(files, address)?;
    if entries.len() <= from {
        return Ok(Vec::new());
    }
    let ours = entries.split_off(from);
    let mut written: Vec<Write> = Vec::new();
    let (mut failed, mut left) = (Vec::new(), entries);
    for entry in ours.into_iter().rev() {
        if is_again(&entry.undo, &written) {
            continue;
        }
        // Its own journal has it for the other one.
        if SHARED.contains(&&*entry.undo.path) && is_owed(files, address, &entry.undo.path) {
            continue;
        }
        match files.tell(&entry.undo.path, &entry.undo.value) {
            Ok(()) => written.push(entry.undo),
            // The write itself may never have been made.
            Err(_) if !entry.is_done => {}
            // Somebody else has undone it.
            Err(_) if is_reached(files, address, &entry.undo) => {}
            Err(error) => {
                failed.push(format!("`{}`: {error}", entry.undo));
                left.insert(from, entry);
            }
        }
    }
    let path = journal(address);
    let kept: String = left
        .iter()
        .map(|Entry { undo, is_done }| {
            let done = if *is_done { "done\n" } else { "" };
            format!("try\t{}\t{}\n{done}", undo.path, undo.value)
        })
        .collect();
    let renewed = files.replace(&path, &kept);
    renewed.map_err(|source| ClaimError::Journal { path, source })?;
    match failed.is_empty() {
        true => Ok(written),
        false => Err(ClaimError::Restore {
            address: address.into(),
            failed,
        }),
    }
}
