//! Taking over a function from the system: the necessary writes, in order.
//!
//! [`plan`] only reads, and returns the writes, each with its reason and its undo. The [journal](super::journal)
//! applies and undoes them.

use std::fmt;
use std::io;

use thiserror::Error;

use super::files::{Files, folder as in_sysfs};
use super::kept::hint;
use super::look::{VFIO, display, driver, group, sizes};
use super::owed::is_owed;
use super::pages::available;

pub(super) const RESCAN: &str = "/sys/bus/pci/rescan";
pub(super) const NO_IOMMU: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

/// How a program is to reach a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// vfio-pci behind an IOMMU, otherwise sysfs.
    #[default]
    Best,
    /// sysfs files, without a kernel driver.
    Sysfs,
    /// By the kernel's driver vfio-pci, behind an IOMMU.
    Vfio,
    /// By vfio-pci without an IOMMU: the kernel calls itself tainted from then on.
    VfioNoIommu,
}

/// The options that the user has chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClaimOptions {
    /// Also a function that drives a display.
    pub display: bool,
    /// BAR 0 as large as it can be.
    pub resize: bool,
    /// The kernel interface.
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

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { path, value } = self;
        match value.is_empty() {
            true => write!(f, "echo > {path}"),
            false => write!(f, "echo {value} > {path}"),
        }
    }
}

/// A step of binding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is written.
    pub write: Write,
    /// Why.
    pub why: String,
    /// What undoes it.
    pub undo: Write,
    /// Whether it is optional: without it, the function works with restrictions.
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

/// Why a function was not taken over or returned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// No such function.
    #[error("{address}: no such PCI function ({source}). List them with `lspci`")]
    Missing {
        /// The function.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the function cannot be read.
    #[error("{path}: {source}{}", hint(.source))]
    Unread {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// It drives a display.
    #[error(
        "{address}: drives a display ({how}), which would go dark. Choose another card, or pass --display to force"
    )]
    Display {
        /// The function.
        address: String,
        /// How that is known.
        how: String,
    },
    /// VFIO cannot be used for it.
    #[error("{address}: VFIO not available: {why}")]
    Vfio {
        /// The function.
        address: String,
        /// The cause, and what to do.
        why: String,
    },
    /// There are no huge pages, whose memory outlives a killed program.
    #[error("{address}: {why}")]
    Memory {
        /// The function.
        address: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// The reset is not possible, or a kernel driver is bound.
    #[error("{address}: cannot reset: {why}")]
    Reset {
        /// The function.
        address: String,
        /// The cause, and what to do.
        why: String,
    },
    /// The kernel failed to reset it.
    #[error("{address}: reset failed: `{write}`: {source}")]
    NotReset {
        /// The function.
        address: String,
        /// What was written.
        write: Write,
        /// The system's error.
        source: io::Error,
    },
    /// A write failed.
    #[error("{address}: `{}` ({}): {source}. {undone}", .step.write, .step.why)]
    Refused {
        /// The function.
        address: String,
        /// What was written, and why.
        step: Box<Step>,
        /// The system's error.
        source: io::Error,
        /// What became of the steps before.
        undone: String,
    },
    /// A write was accepted, but had no effect.
    #[error("{address}: after `{write}` {seen}. {undone}")]
    Deaf {
        /// The function.
        address: String,
        /// What was written.
        write: Write,
        /// The state found instead.
        seen: String,
        /// What became of the steps before.
        undone: String,
    },
    /// A signal asked the program to end.
    #[error("{address}: interrupted by a signal. {undone}")]
    Ended {
        /// The function.
        address: String,
        /// What became of the steps before.
        undone: String,
    },
    /// The journal cannot be written; without it, nothing is changed.
    #[error("{path}: {source}. Nothing was changed: without this journal it could not be undone{}", hint(.source))]
    Journal {
        /// The journal.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// Some steps could not be undone. They stay in the journal.
    #[error("{address}: not undone: {}. Fix the cause and rerun", .failed.join("; "))]
    Restore {
        /// The function.
        address: String,
        /// The writes, each with the system's error.
        failed: Vec<String>,
    },
}

impl Way {
    /// The actual interface for a function.
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

/// Checks that the function exists and drives no display.
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
        let why = format!("bound to the kernel driver {driver}");
        self.add((&unbind, address), why, (&bind, address));
    }
}

/// The writes that unbind a function from its kernel driver. Nothing is
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

/// The writes that let a program drive a function. Nothing is written yet.
///
/// # Errors
/// [`ClaimError::Missing`], [`ClaimError::Unread`], [`ClaimError::Display`], [`ClaimError::Vfio`],
/// [`ClaimError::Memory`].
pub fn plan(
    files: &dyn Files,
    address: &str,
    wanted: ClaimOptions,
) -> Result<Vec<Step>, ClaimError> {
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
        let why = "same card: a reset affects it too".into();
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
            "expose all VRAM in BAR 0: {} MiB instead of {}",
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
        let why = "without a driver, runtime PM would suspend it with its bridge";
        steps.set(&power, "on", why, "auto");
    }
    let enable = format!("{folder}/enable");
    let is_enabled = files.read(&enable).is_ok_and(|text| text.trim() != "0");
    // A driver that leaves disables it.
    if bound.is_some() || !is_enabled {
        steps.set(&enable, "1", "a disabled function does not respond", "0");
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
            "the driver {VFIO} is not loaded: `modprobe {VFIO}`, or pass --sysfs if booted with iommu=pt"
        ));
    }
    let group = group(files, address).filter(|group| !group.no_iommu);
    let group = match (way, group) {
        (Way::Vfio, None) => {
            return refused(
                "no IOMMU is enabled. Enable it (in the BIOS; Intel: intel_iommu=on), or pass --vfio=noiommu (no \
                 memory \
                 protection) or --sysfs (no VFIO)"
                    .into(),
            );
        }
        (Way::VfioNoIommu, Some(group)) => {
            return refused(format!(
                "the card is in IOMMU group {}: pass --vfio without noiommu",
                group.number
            ));
        }
        (Way::VfioNoIommu, None) if files.read(NO_IOMMU).is_err() => {
            return refused(format!(
                "{NO_IOMMU} not found: the kernel was built without CONFIG_VFIO_NOIOMMU. Pass --sysfs (no VFIO)"
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
                    "IOMMU group {} also contains {member}, bound to the kernel driver {other}: move the card to \
                     another slot, or pass --sysfs (no VFIO)",
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
    // It is global: the last card to be unbound undoes it.
    let is_off = files.read(NO_IOMMU).is_ok_and(|text| text.trim() == "N");
    if way == Way::VfioNoIommu && (is_off || is_owed(files, address, NO_IOMMU)) {
        let why = "without an IOMMU the card can write all of memory; taints the kernel";
        steps.set(NO_IOMMU, "Y", why, "N");
    }
    let wish = format!("{folder}/driver_override");
    let old = files.read(&wish).unwrap_or_default();
    let old = match old.trim() {
        "(null)" => "",
        old => old,
    };
    steps.set(&wish, VFIO, "reserve it for vfio-pci", old);
    let probe = "/sys/bus/pci/drivers_probe";
    let unbind = format!("/sys/bus/pci/drivers/{VFIO}/unbind");
    let why = format!("bind to {VFIO}");
    steps.add((probe, address), why, (&unbind, address));
}
