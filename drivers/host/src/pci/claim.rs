//! Taking a function over from the system: what has to be written for it, in order.
//!
//! [`plan`] only reads, and says what would be written, each with its reason and with what undoes it. The
//! [journal](super::journal) writes it, and undoes it.

use std::fmt;
use std::io;

use thiserror::Error;

use super::files::{Files, folder as in_sysfs};
use super::look::{VFIO, display, driver, group, sizes};
use super::owed::is_owed;
use super::pages::available;

pub(super) const RESCAN: &str = "/sys/bus/pci/rescan";
pub(super) const NO_IOMMU: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

/// How a program is to reach a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// By vfio-pci where an IOMMU stands before it, else by sysfs.
    #[default]
    Best,
    /// By the files that sysfs has for it: no kernel driver has it then.
    Sysfs,
    /// By the kernel's driver vfio-pci, behind an IOMMU.
    Vfio,
    /// By vfio-pci without an IOMMU: the kernel calls itself tainted from then on.
    VfioNoIommu,
}

/// What a person has agreed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Also a function that drives a display.
    pub display: bool,
    /// BAR 0 as large as it can be.
    pub resize: bool,
    /// How it is to be reached.
    pub way: Way,
}

/// One value for one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// The file.
    pub path: String,
    /// The value.
    pub value: String,
}

/// What helps where the system refused, and not where a journal is wrong.
pub(super) fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "; run as root",
        Some(libc::EMFILE) => "; `ulimit -n` says how many a process may open: raise it",
        Some(libc::ENFILE) => "; `sysctl fs.file-max` says how many the system may open: raise it",
        _ => "",
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { path, value } = self;
        match value.is_empty() {
            true => write!(f, "echo > {path}"),
            false => write!(f, "echo {value} > {path}"),
        }
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
    /// What the system says of a function cannot be read.
    #[error("{path}: {source}{}", hint(.source))]
    Unread {
        /// The file.
        path: String,
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
    /// VFIO cannot give it away.
    #[error("{address}: not by VFIO: {why}")]
    Vfio {
        /// The function.
        address: String,
        /// What is in the way, and what to do.
        why: String,
    },
    /// There is no memory that outlives a program which is killed.
    #[error("{address}: {why}")]
    Memory {
        /// The function.
        address: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// A reset that is not possible, or that would be one of somebody else's card.
    #[error("{address}: no reset: {why}")]
    Reset {
        /// The function.
        address: String,
        /// What is in the way, and what to do.
        why: String,
    },
    /// The kernel has not reset it.
    #[error("{address}: no reset: `{write}`: {source}")]
    NotReset {
        /// The function.
        address: String,
        /// What was written.
        write: Write,
        /// What the system said.
        source: io::Error,
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
    #[error("{address}: after `{write}` {seen}. {undone}")]
    Deaf {
        /// The function.
        address: String,
        /// What was written.
        write: Write,
        /// What is there instead.
        seen: String,
        /// What became of the steps before.
        undone: String,
    },
    /// A signal asked the program to end.
    #[error("{address}: ended by a signal. {undone}")]
    Ended {
        /// The function.
        address: String,
        /// What became of the steps before.
        undone: String,
    },
    /// The journal cannot be kept: nothing is written without.
    #[error("{path}: {source}. Nothing is changed that could not be given back{}", hint(.source))]
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

impl Way {
    /// The way that is meant for a function.
    pub fn of(self, files: &dyn Files, address: &str) -> Way {
        let has_iommu = || group(files, address).is_some_and(|group| !group.no_iommu);
        match self {
            Way::Best if has_iommu() => Way::Vfio,
            Way::Best => Way::Sysfs,
            way => way,
        }
    }
}

/// Whether there is such a function.
pub(super) fn exists(files: &dyn Files, address: &str) -> Result<(), ClaimError> {
    let path = format!("{}/vendor", in_sysfs(address));
    let is_absent = |source: &io::Error| {
        let errno = source.raw_os_error();
        matches!(errno, Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV))
    };
    match files.read(&path) {
        Ok(_) => Ok(()),
        Err(source) if is_absent(&source) => Err(ClaimError::Missing {
            address: address.into(),
            source,
        }),
        Err(source) => Err(ClaimError::Unread { path, source }),
    }
}

/// Whether there is such a function, and it is not one that somebody looks at.
fn may(files: &dyn Files, address: &str, shows: bool) -> Result<(), ClaimError> {
    exists(files, address)?;
    match display(files, address) {
        Some(how) if !shows => Err(ClaimError::Display {
            address: address.into(),
            how,
        }),
        _ => Ok(()),
    }
}

/// Steps, as they are gathered.
#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    /// A write to a file, undone by another one.
    fn add(&mut self, write: (&str, &str), why: String, undo: (&str, &str)) {
        let write_of = |(path, value): (&str, &str)| Write {
            path: path.into(),
            value: value.into(),
        };
        self.0.push(Step {
            write: write_of(write),
            why,
            undo: write_of(undo),
            may_fail: false,
        });
    }

    /// A write to a file that has an old value.
    fn set(&mut self, path: &str, value: &str, why: &str, old: &str) {
        self.add((path, value), why.into(), (path, old));
    }

    /// The driver that has a function lets it go.
    fn release(&mut self, address: &str, driver: &str) {
        let bind = format!("/sys/bus/pci/drivers/{driver}/bind");
        let unbind = format!("{}/driver/unbind", in_sysfs(address));
        let why = format!("the kernel driver {driver} has it");
        self.add((&unbind, address), why, (&bind, address));
    }
}

/// What has to be written so that the kernel driver of a function lets it go, and nothing else. Nothing is
/// written yet.
///
/// # Errors
/// [`ClaimError::Missing`], [`ClaimError::Unread`], [`ClaimError::Display`].
pub fn release(
    files: &dyn Files,
    address: &str,
    is_display: bool,
) -> Result<Vec<Step>, ClaimError> {
    may(files, address, is_display)?;
    let mut steps = Steps::default();
    if let Some(driver) = driver(files, address) {
        steps.release(address, &driver);
    }
    Ok(steps.0)
}

/// What has to be written so that a program can drive a function. Nothing is written yet.
///
/// # Errors
/// [`ClaimError::Missing`], [`ClaimError::Unread`], [`ClaimError::Display`], [`ClaimError::Vfio`],
/// [`ClaimError::Memory`].
pub fn plan(files: &dyn Files, address: &str, wanted: Wanted) -> Result<Vec<Step>, ClaimError> {
    may(files, address, wanted.display)?;
    let folder = in_sysfs(address);
    let others = others(files, address);
    let bound = driver(files, address);
    let way = wanted.way.of(files, address);
    let by_vfio = way != Way::Sysfs;
    let has_way = by_vfio && bound.as_deref() == Some(VFIO);
    if by_vfio {
        vfio_can(files, address, way, &others)?;
    }
    if way != Way::Vfio {
        available(files).map_err(|why| ClaimError::Memory {
            address: address.into(),
            why: why.to_string(),
        })?;
    }
    let mut steps = Steps::default();
    if let Some(driver) = bound.as_deref().filter(|_| !has_way) {
        steps.release(address, driver);
    }
    for other in others {
        let remove = format!("{}/remove", in_sysfs(&other));
        let why = "a function of the same card, which a reset takes along".into();
        steps.add((&remove, "1"), why, (RESCAN, "1"));
    }
    // Not of a function that a driver has.
    if wanted.resize
        && !has_way
        && let Some(sizes) = sizes(files, address)
        && sizes.now < sizes.largest
    {
        let path = format!("{folder}/resource0_resize");
        let why = format!(
            "all VRAM behind BAR 0: {} MiB instead of {}",
            1u64 << sizes.largest,
            1u64 << sizes.now
        );
        let (value, old) = (sizes.largest.to_string(), sizes.now.to_string());
        steps.set(&path, &value, &why, &old);
        if let Some(step) = steps.0.last_mut() {
            step.may_fail = true;
        }
    }
    if by_vfio {
        if !has_way {
            to_vfio(&mut steps, files, address, way);
        }
        return Ok(steps.0);
    }
    let power = format!("{folder}/power/control");
    if files.read(&power).is_ok_and(|text| text.trim() == "auto") {
        let why = "a function without a driver sleeps when its bridge does";
        steps.set(&power, "on", why, "auto");
    }
    let enable = format!("{folder}/enable");
    let is_enabled = files.read(&enable).is_ok_and(|text| text.trim() != "0");
    // A driver that leaves disables it.
    if bound.is_some() || !is_enabled {
        steps.set(&enable, "1", "it does not answer while it is disabled", "0");
    }
    Ok(steps.0)
}

/// The other functions of the same card: they are reset with it, under their drivers.
fn others(files: &dyn Files, address: &str) -> Vec<String> {
    let (card, _) = address.rsplit_once('.').unwrap_or((address, ""));
    let mut others = files.list("/sys/bus/pci/devices").unwrap_or_default();
    others.retain(|other| {
        let is_of_it = other.rsplit_once('.').is_some_and(|(of, _)| of == card);
        is_of_it && other != address
    });
    others.sort();
    others
}

/// Whether VFIO can give a function away.
///
/// Source: Linux, Documentation/driver-api/vfio.rst: a group is given away whole, so no driver of the kernel may
/// have another function of it, but for those of bridges.
fn vfio_can(
    files: &dyn Files,
    address: &str,
    way: Way,
    others: &[String],
) -> Result<(), ClaimError> {
    let refused = |why: String| {
        let address = address.into();
        Err(ClaimError::Vfio { address, why })
    };
    if files.list(&format!("/sys/bus/pci/drivers/{VFIO}")).is_err() {
        return refused(format!(
            "the kernel has no driver {VFIO} loaded; `modprobe {VFIO}`, or --sysfs where the kernel was started with \
             iommu=pt"
        ));
    }
    let group = group(files, address).filter(|group| !group.no_iommu);
    let group = match (way, group) {
        (Way::Vfio, None) => {
            return refused(
                "no IOMMU is at work. Turn it on (in the firmware's set-up; intel_iommu=on on Intel's), or give up \
                 its protection with --vfio=noiommu, or use no VFIO (--sysfs)"
                    .into(),
            );
        }
        (Way::VfioNoIommu, Some(group)) => {
            return refused(format!(
                "it is in group {} of an IOMMU, which protects the machine from it: --vfio without noiommu",
                group.number
            ));
        }
        (Way::VfioNoIommu, None) if files.read(NO_IOMMU).is_err() => {
            return refused(format!(
                "{NO_IOMMU}: not there: this kernel was built without CONFIG_VFIO_NOIOMMU. Use no VFIO (--sysfs)"
            ));
        }
        (_, None) => return Ok(()),
        (_, Some(group)) => group,
    };
    let mine = |member: &&String| *member == address || others.contains(member);
    for member in group.members.iter().filter(|member| !mine(member)) {
        match driver(files, member).as_deref() {
            None | Some(VFIO | "pcieport" | "pci-stub") => {}
            Some(other) => {
                return refused(format!(
                    "its IOMMU group {} has {member} too, which the kernel driver {other} has: put the card into \
                     another slot, or use no VFIO (--sysfs)",
                    group.number
                ));
            }
        }
    }
    Ok(())
}

/// vfio-pci takes a function that no driver has.
fn to_vfio(steps: &mut Steps, files: &dyn Files, address: &str, way: Way) {
    let folder = in_sysfs(address);
    // It counts for all cards: whoever leaves last takes it back.
    let is_off = files.read(NO_IOMMU).is_ok_and(|text| text.trim() == "N");
    if way == Way::VfioNoIommu && (is_off || is_owed(files, address, NO_IOMMU)) {
        let why = "without an IOMMU it can write all of memory; the kernel calls itself tainted";
        steps.set(NO_IOMMU, "Y", why, "N");
    }
    let wish = format!("{folder}/driver_override");
    let old = files.read(&wish).unwrap_or_default();
    let old = match old.trim() {
        "(null)" => "",
        old => old,
    };
    steps.set(&wish, VFIO, "vfio-pci and nobody else shall have it", old);
    let probe = "/sys/bus/pci/drivers_probe";
    let unbind = format!("/sys/bus/pci/drivers/{VFIO}/unbind");
    let why = format!("{VFIO} takes it");
    steps.add((probe, address), why, (&unbind, address));
}
