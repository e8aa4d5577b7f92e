//! Taking a function over from the system, and giving it back.
//!
//! [`plan`] only reads, and says what would be written, in order, each with its reason and with what undoes it.
//! [`apply`] writes that, and notes each write in a journal before it is made: [`restore`] undoes in reverse
//! what the journal has, in this process or, after it was killed, in another one.

use std::fmt;
use std::io;

use thiserror::Error;

use super::files::{Files, folder as in_sysfs};

/// Where journals are: gone after a restart, as is what they tell of.
const JOURNALS: &str = "/run/doorbell";
const RESCAN: &str = "/sys/bus/pci/rescan";
const COMPACT: &str = "/proc/sys/vm/compact_unevictable_allowed";

/// What a person has agreed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Also a function that drives a display.
    pub display: bool,
    /// BAR 0 as large as it can be.
    pub resize: bool,
}

/// One value for one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// The file.
    pub path: String,
    /// The value.
    pub value: String,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "echo {} > {}", self.value, self.path)
    }
}

/// A step of taking over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is written.
    pub write: Write,
    /// Why.
    pub why: String,
    /// What undoes it.
    pub undo: Write,
    /// Whether it goes on without: less is possible then, but something is.
    pub may_fail: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}  # {}; undone by: {}",
            self.write, self.why, self.undo
        )
    }
}

/// Why a function was not taken over, or not given back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// No such function.
    #[error("{address}: there is no such PCI function ({source}). `lspci` lists them")]
    Missing {
        /// The function.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody looks at it.
    #[error(
        "{address}: it drives a display ({how}), which would go dark. Take another card, or say that this one \
         is meant with --display"
    )]
    Display {
        /// The function.
        address: String,
        /// How that is known.
        how: String,
    },
    /// A file was refused.
    #[error("{address}: `{}` ({}): {source}. {undone}", .step.write, .step.why)]
    Refused {
        /// The function.
        address: String,
        /// What was written, and why.
        step: Box<Step>,
        /// What the system said.
        source: io::Error,
        /// What became of the steps before.
        undone: String,
    },
    /// A write that was taken, and has not done what it is for.
    #[error(
        "{address}: the kernel driver {driver} still has it after it was told to leave. {undone}"
    )]
    StillBound {
        /// The function.
        address: String,
        /// The driver.
        driver: String,
        /// What became of the steps before.
        undone: String,
    },
    /// The journal cannot be kept: nothing is written without.
    #[error("{path}: {source}. Nothing is taken over that could not be given back; run as root")]
    Journal {
        /// The journal.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Some of it could not be undone. The journal still has it.
    #[error("{address}: not undone: {}. What is wrong there? Then try again", .failed.join("; "))]
    Restore {
        /// The function.
        address: String,
        /// The writes, each with what the system said.
        failed: Vec<String>,
    },
}

/// The kernel driver that has a function.
pub(super) fn driver(files: &dyn Files, address: &str) -> Option<String> {
    let text = files.read(&format!("{}/uevent", in_sysfs(address))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("DRIVER="));
    line.map(str::to_owned)
}

fn display(files: &dyn Files, address: &str) -> Option<String> {
    let folder = in_sysfs(address);
    let text = |path: String| files.read(&path).unwrap_or_default();
    if text(format!("{folder}/boot_vga")).trim() == "1" {
        return Some("it is the one that the machine starts with: boot_vga".into());
    }
    let drm = format!("{folder}/drm");
    for card in files.list(&drm).unwrap_or_default() {
        for connector in files.list(&format!("{drm}/{card}")).unwrap_or_default() {
            let enabled = text(format!("{drm}/{card}/{connector}/enabled"));
            if enabled.trim() == "enabled" {
                return Some(format!("{connector} is on"));
            }
        }
    }
    None
}

/// The index of the size of BAR 0, and the largest that the card has: 2 to that many MiB.
fn sizes(files: &dyn Files, address: &str) -> Option<(u32, u32)> {
    let folder = in_sysfs(address);
    let able = files.read(&format!("{folder}/resource0_resize")).ok()?;
    let able = u64::from_str_radix(able.trim(), 16).ok()?;
    let largest = able.checked_ilog2()?;
    let resources = files.read(&format!("{folder}/resource")).ok()?;
    let mut line = resources.lines().next()?.split_whitespace().map(|number| {
        let digits = number.strip_prefix("0x").unwrap_or(number);
        u64::from_str_radix(digits, 16).ok()
    });
    let (start, end) = (line.next()??, line.next()??);
    let bytes = end.checked_sub(start)?.checked_add(1)?;
    let size = (bytes >> 20).checked_ilog2()?;
    Some((size, largest))
}

/// What has to be written so that a program can drive a function. Nothing is written yet.
///
/// # Errors
/// [`ClaimError::Missing`], [`ClaimError::Display`].
pub fn plan(files: &dyn Files, address: &str, wanted: Wanted) -> Result<Vec<Step>, ClaimError> {
    let folder = in_sysfs(address);
    if let Err(source) = files.read(&format!("{folder}/vendor")) {
        let address = address.into();
        return Err(ClaimError::Missing { address, source });
    }
    if !wanted.display
        && let Some(how) = display(files, address)
    {
        let address = address.into();
        return Err(ClaimError::Display { address, how });
    }
    let mut steps = Vec::new();
    let mut step = |path: String, value: &str, why: String, undo: (String, &str), may_fail| {
        let (undo, back) = undo;
        steps.push(Step {
            write: Write {
                path,
                value: value.into(),
            },
            why,
            undo: Write {
                path: undo,
                value: back.into(),
            },
            may_fail,
        });
    };
    if files.read(COMPACT).is_ok_and(|text| text.trim() == "1") {
        let why = "pinned memory must not be moved".into();
        step(COMPACT.into(), "0", why, (COMPACT.into(), "1"), false);
    }
    let driver = driver(files, address);
    if let Some(driver) = &driver {
        let bind = format!("/sys/bus/pci/drivers/{driver}/bind");
        let why = format!("the kernel driver {driver} has it");
        let path = format!("{folder}/driver/unbind");
        step(path, address, why, (bind, address), false);
    }
    // Others of the same card are reset with it, under their drivers.
    let (card, _) = address.rsplit_once('.').unwrap_or((address, ""));
    let mut others = files.list("/sys/bus/pci/devices").unwrap_or_default();
    others.sort();
    for other in others {
        let is_other = other.rsplit_once('.').is_some_and(|(of, _)| of == card);
        if is_other && other != address {
            let why = "a function of the same card, which a reset takes along".into();
            let path = format!("{}/remove", in_sysfs(&other));
            step(path, "1", why, (RESCAN.into(), "1"), false);
        }
    }
    if wanted.resize
        && let Some((size, largest)) = sizes(files, address)
        && size < largest
    {
        let path = format!("{folder}/resource0_resize");
        let why = format!(
            "all VRAM behind BAR 0: {} MiB instead of {}",
            1u64 << largest,
            1u64 << size
        );
        let (value, back) = (largest.to_string(), size.to_string());
        step(path.clone(), &value, why, (path, &back), true);
    }
    let power = format!("{folder}/power/control");
    if files.read(&power).is_ok_and(|text| text.trim() == "auto") {
        let why = "a function without a driver sleeps when its bridge does".into();
        step(power.clone(), "on", why, (power, "auto"), false);
    }
    let enable = format!("{folder}/enable");
    let is_enabled = files.read(&enable).is_ok_and(|text| text.trim() != "0");
    // A driver that leaves disables it.
    if driver.is_some() || !is_enabled {
        let why = "it does not answer while it is disabled".into();
        step(enable.clone(), "1", why, (enable, "0"), false);
    }
    Ok(steps)
}

fn journal(address: &str) -> String {
    format!("{JOURNALS}/{address}.undo")
}

/// Writes the steps. If one fails that must not, those before it are undone.
///
/// # Errors
/// [`ClaimError`].
pub fn apply(files: &dyn Files, address: &str, steps: &[Step]) -> Result<(), ClaimError> {
    let path = journal(address);
    let note = |text: String| {
        let noted = files.append(&path, &text);
        noted.map_err(|source| ClaimError::Journal {
            path: path.clone(),
            source,
        })
    };
    // What others have left of theirs stays.
    let before = entries(files, address).len();
    let back = |done: usize| match undo(files, address, before) {
        Ok(_) if done == 0 => "Nothing else was changed".to_owned(),
        Ok(_) => "What was changed before is undone".to_owned(),
        Err(error) => error.to_string(),
    };
    for (done, step) in steps.iter().enumerate() {
        let Step { write, undo, .. } = step;
        note(format!("try\t{}\t{}\n", undo.path, undo.value))?;
        match files.tell(&write.path, &write.value) {
            Ok(()) => note("done\n".into())?,
            Err(source) if step.may_fail => {
                tracing::warn!(target: "hcq::host", address, %write, %source, "goes on without");
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
        if write.path.ends_with("/driver/unbind")
            && let Some(driver) = driver(files, address)
        {
            return Err(ClaimError::StillBound {
                address: address.into(),
                driver,
                undone: back(done + 1),
            });
        }
    }
    Ok(())
}

/// Something that was written, or may have been.
struct Entry {
    undo: Write,
    is_done: bool,
}

fn entries(files: &dyn Files, address: &str) -> Vec<Entry> {
    let text = files.read(&journal(address)).unwrap_or_default();
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        let mut parts = line.split('\t');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("try"), Some(path), Some(value)) => entries.push(Entry {
                undo: Write {
                    path: path.into(),
                    value: value.into(),
                },
                is_done: false,
            }),
            // A line that was cut short is of a write that was not made.
            (Some("done"), None, None) => {
                if let Some(last) = entries.last_mut() {
                    last.is_done = true;
                }
            }
            _ => {}
        }
    }
    entries
}

/// Undoes what the journal of a function has, last first, and returns what was written for it.
///
/// # Errors
/// [`ClaimError::Restore`], [`ClaimError::Journal`].
pub fn restore(files: &dyn Files, address: &str) -> Result<Vec<Write>, ClaimError> {
    undo(files, address, 0)
}

fn undo(files: &dyn Files, address: &str, from: usize) -> Result<Vec<Write>, ClaimError> {
    let mut entries = entries(files, address);
    if entries.len() <= from {
        return Ok(Vec::new());
    }
    let ours = entries.split_off(from);
    let mut written: Vec<Write> = Vec::new();
    let (mut failed, mut left) = (Vec::new(), entries);
    for entry in ours.into_iter().rev() {
        // Functions that were removed one by one come back together.
        if written.contains(&entry.undo) {
            continue;
        }
        match files.tell(&entry.undo.path, &entry.undo.value) {
            Ok(()) => written.push(entry.undo),
            // The write itself may never have been made.
            Err(_) if !entry.is_done => {}
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
    let renewed = files.remove(&path).and_then(|()| match kept.is_empty() {
        true => Ok(()),
        false => files.append(&path, &kept),
    });
    renewed.map_err(|source| ClaimError::Journal { path, source })?;
    match failed.is_empty() {
        true => Ok(written),
        false => Err(ClaimError::Restore {
            address: address.into(),
            failed,
        }),
    }
}

#[cfg(test)]
mod tests;
