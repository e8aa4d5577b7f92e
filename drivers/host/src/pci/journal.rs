//! Applying a plan, and undoing it.
//!
//! [`apply`] records each write in a journal before making it; [`restore`] undoes the journal in reverse, in this
//! process or, after it was killed, in another one.

use std::io::{self, ErrorKind};

use super::claim::{ClaimError, NO_IOMMU, RESCAN, Step, Write, exists};
use super::files::Files;
use super::kept::CUT;
use super::look::{driver, sizes};
use super::owed::{is_owed, journal};

/// Files of the machine: their values affect all bound functions.
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

/// Writes the steps, and returns the mark from which they are undone.
pub(super) fn marked(
    files: &dyn Files,
    address: &str,
    steps: &[Step],
    ends: &dyn Fn() -> bool,
) -> Result<Mark, ClaimError> {
    let path = journal(address);
    // What others have left of theirs stays.
    let before = Mark(entries(files, address)?.len());
    let back = |done: usize| match undo(files, address, before) {
        Ok(_) if done == 0 => "Nothing else was changed".to_owned(),
        Ok(_) => "Earlier changes were undone".to_owned(),
        Err(error) => error.to_string(),
    };
    for (done, step) in steps.iter().enumerate() {
        let Step { write, undo, .. } = step;
        let noted = files.append(&path, &line(undo));
        noted.map_err(|source| ClaimError::Journal {
            path: path.clone(),
            source,
        })?;
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

/// The line of a journal for what undoes a write.
fn line(undo: &Write) -> String {
    format!("try\t{}\t{}\n", undo.path, undo.value)
}

/// What undoes each write that was made, or may have been; a journal that is there and cannot be read is not one that has
/// nothing.
fn entries(files: &dyn Files, address: &str) -> Result<Vec<Write>, ClaimError> {
    let path = journal(address);
    let text = match files.kept(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(source) => return Err(ClaimError::Journal { path, source }),
        Ok(text) => text,
    };
    let mut entries = Vec::new();
    // A line without an end was cut short, and so was its last field.
    let lines = text.split_inclusive('\n');
    let whole = lines.filter_map(|line| line.strip_suffix('\n'));
    for (number, line) in (1..).zip(whole) {
        let mut parts = line.split('\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("try"), Some(path), Some(value), None) => entries.push(Write {
                path: path.into(),
                value: value.into(),
            }),
            // Of older programs, after each write that was made.
            (Some("done"), None, None, None) => {}
            // A line that was cut short is of a write that was not made.
            _ if line.ends_with(CUT) => {}
            // Its entries would be lost.
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

/// Whether the system is already as a write would make it, which the kernel refuses then: the write that it undoes was
/// never made, or somebody else has undone it.
fn is_reached(files: &dyn Files, address: &str, undo: &Write) -> bool {
    let has = driver(files, address);
    let reads = |value: &str| {
        let text = files.read(&undo.path);
        text.is_ok_and(|text| text.trim() == value)
    };
    let mut parts = undo.path.rsplit('/');
    match (parts.next().unwrap_or(""), parts.next().unwrap_or("")) {
        ("bind", name) => has.as_deref() == Some(name),
        // In the folder of the function.
        ("unbind", "driver") => has.is_none(),
        ("unbind", name) => has.as_deref() != Some(name),
        // The driver that has it has enabled it.
        ("enable", _) if has.is_some() => true,
        // Reads as the sizes that there are.
        ("resource0_resize", _) => {
            sizes(files, address).is_some_and(|sizes| sizes.now.to_string() == undo.value)
        }
        ("driver_override", _) if undo.value.is_empty() => reads("(null)"),
        _ => reads(&undo.value),
    }
}

/// What [`restore`] would write, in its order. Nothing is written yet.
///
/// # Errors
/// [`ClaimError::Journal`]; [`ClaimError::Missing`] where there is neither a journal nor such a function.
pub fn pending(files: &dyn Files, address: &str) -> Result<Vec<Write>, ClaimError> {
    let entries = entries(files, address)?;
    if entries.is_empty() {
        exists(files, address)?;
    }
    let mut writes: Vec<Write> = Vec::new();
    for undo in entries.into_iter().rev() {
        let is_kept = SHARED.contains(&&*undo.path) && is_owed(files, address, &undo.path);
        if !is_kept && !is_again(&undo, &writes) {
            writes.push(undo);
        }
    }
    Ok(writes)
}

/// Undoes the journal of a function, last entry first, and returns the writes made.
///
/// # Errors
/// [`ClaimError::Restore`], and those of [`pending`].
pub fn restore(files: &dyn Files, address: &str) -> Result<Vec<Write>, ClaimError> {
    if entries(files, address)?.is_empty() {
        exists(files, address)?;
    }
    undo(files, address, Mark(0))
}

/// As [`restore`], as far as a mark.
pub(super) fn undo(
    files: &dyn Files,
    address: &str,
    Mark(from): Mark,
) -> Result<Vec<Write>, ClaimError> {
    let mut left = entries(files, address)?;
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    for at in (from..left.len()).rev() {
        let undo = left[at].clone();
        // A setting that another function needs is in the journal of that one, too.
        let is_kept = SHARED.contains(&&*undo.path) && is_owed(files, address, &undo.path);
        if !is_kept && !is_again(&undo, &written) {
            match files.tell(&undo.path, &undo.value) {
                Ok(()) => written.push(undo),
                Err(_) if is_reached(files, address, &undo) => {}
                Err(error) => {
                    failed.push(format!("`{undo}`: {error}"));
                    continue;
                }
            }
        }
        // One by one: a program that is killed in the middle leaves at most one that is undone already, and whether it is
        // can still be seen.
        left.remove(at);
        let path = journal(address);
        let renewed = files.replace(&path, &left.iter().map(line).collect::<String>());
        renewed.map_err(|source| ClaimError::Journal { path, source })?;
    }
    match failed.is_empty() {
        true => Ok(written),
        false => Err(ClaimError::Restore {
            address: address.into(),
            failed,
        }),
    }
}
