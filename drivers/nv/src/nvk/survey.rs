//! Lists the GPUs, and why each can or cannot be used. Opens files, changes nothing.

use std::sync::Arc;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::escape::{self, version_check};
use drivers_spec::nv::ioctl::Argument;
use hcq::transport::errno::{EACCES, EIO, ENODEV, ENOENT, ENXIO, EPERM};
use hcq::transport::{DevFile, Fault, Machine, TransportError};
use thiserror::Error;

use super::call::send;
use crate::rm::CallError;
use crate::rm::facts::{Unfit, text};

/// The device file that everything is asked of.
pub const CONTROL: &str = "/dev/nvidiactl";

/// The file with the version of the loaded module.
const MODULE: &str = "/sys/module/nvidia/version";

/// What the driver calls itself: whether its sources are open, too.
const TITLE: &str = "/proc/driver/nvidia/version";

/// NVIDIA, on PCI.
const VENDOR_ID: u16 = 0x10de;

/// The base class of display controllers, on PCI.
const DISPLAY: u32 = 0x03;

/// As many GPUs as the driver has: `NV_MAX_DEVICES`. Source: kernel-open/common/inc/nv.h.
const MOST_GPUS: usize = 32;

/// Why something cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no driver.
    #[error(
        "{CONTROL} does not exist and the module nvidia is not loaded: install NVIDIA's kernel driver \
         (package nvidia-open or nvidia-driver, branch 535 or newer) and load it (`modprobe nvidia`)"
    )]
    NoDriver,
    /// The GPUs are bound to another driver.
    #[error(
        "{place} is bound to the kernel driver {driver}, not to NVIDIA's: {}",
        foreign(driver)
    )]
    Foreign {
        /// The GPU.
        place: String,
        /// The driver.
        driver: String,
    },
    /// The module is loaded, but the device file is missing.
    #[error(
        "{path} does not exist, but the module nvidia is loaded (version {version}): create the files \
         (`sudo nvidia-modprobe -c 0 -u`); in a container, pass the GPUs (`--gpus all`, or `--device {path}`)"
    )]
    NoFile {
        /// What is missing.
        path: String,
        /// The version of the driver.
        version: String,
    },
    /// A file may not be opened.
    #[error(
        "{path}: permission denied: add the user to its group (`ls -l {path}`; usually video or render: \
         `sudo usermod -aG video,render $USER`, then log in again); in a container, add `--group-add` with \
         the group's number"
    )]
    NoPermission {
        /// The file.
        path: String,
    },
    /// A device cgroup denies access to a device file, whatever its mode.
    #[error(
        "{path}: operation not permitted, by a device cgroup: start the container with `--gpus all` or \
         `--device {path}` (a volume is not enough), a service with `DeviceAllow={path} rw`"
    )]
    Cgroup {
        /// The file.
        path: String,
    },
    /// The driver cannot start the GPU, or has lost it.
    #[error(
        "{path}: the driver cannot start the GPU ({error}): see `dmesg | grep -e NVRM -e Xid`; Turing and \
         newer GPUs need the open module; the closed module of branch 535 may refuse them"
    )]
    Dead {
        /// The file.
        path: String,
        /// What the system says.
        error: Fault,
    },
    /// The driver is too old.
    #[error(
        "the driver has version {version}, expected {} or newer: update it", Branch::ALL[0]
    )]
    OldDriver {
        /// What it has.
        version: String,
    },
    /// The driver has the GPU, but it cannot compute.
    #[error(transparent)]
    Unfit(Unfit),
    /// The driver refused a call.
    #[error("{0}; see `dmesg | grep -e NVRM -e Xid`")]
    Refused(CallError),
}

/// What to do about another driver.
fn foreign(driver: &str) -> String {
    match driver {
        "nouveau" => "blacklist nouveau (`echo blacklist nouveau | sudo tee \
                      /etc/modprobe.d/blacklist-nouveau.conf`), install NVIDIA's and restart"
            .into(),
        "vfio-pci" => {
            "it is assigned to a virtual machine; unbind it from vfio-pci and bind it to nvidia"
                .into()
        }
        other => format!("unbind it from {other}, install NVIDIA's driver and bind it to that"),
    }
}

impl From<CallError> for Unusable {
    fn from(error: CallError) -> Self {
        Unusable::Refused(error)
    }
}

impl From<Unfit> for Unusable {
    fn from(why: Unfit) -> Self {
        match why {
            Unfit::Refused(error) => Unusable::Refused(error),
            other => Unusable::Unfit(other),
        }
    }
}

impl From<TransportError> for Unusable {
    fn from(error: TransportError) -> Self {
        Unusable::Refused(error.into())
    }
}

impl Unusable {
    /// What an error of opening `path` means.
    pub fn of_open(machine: &dyn Machine, error: TransportError, path: &str) -> Unusable {
        let path = path.to_owned();
        match error.fault {
            Fault::Errno(EPERM) => Unusable::Cgroup { path },
            Fault::Errno(EACCES) => Unusable::NoPermission { path },
            Fault::Errno(ENOENT) => match loaded(machine) {
                Some(version) => Unusable::NoFile { path, version },
                None => no_driver(machine),
            },
            // A stale file.
            Fault::Errno(EIO | ENXIO | ENODEV) if loaded(machine).is_none() => no_driver(machine),
            Fault::Errno(EIO | ENXIO | ENODEV) => Unusable::Dead {
                path,
                error: error.fault,
            },
            _ => Unusable::Refused(error.into()),
        }
    }
}

/// The version of the module, if it is loaded.
fn loaded(machine: &dyn Machine) -> Option<String> {
    let version = machine.read(MODULE).ok()?;
    Some(version.trim().to_owned())
}

/// There is no NVIDIA driver: the module that has the GPUs.
fn no_driver(machine: &dyn Machine) -> Unusable {
    let functions = machine.pci_functions().unwrap_or_default();
    let is_gpu = |class: u32| class >> 16 == DISPLAY;
    let mut all = functions.into_iter();
    let other = all.find_map(|f| {
        let driver = f
            .driver
            .filter(|_| f.vendor == VENDOR_ID && is_gpu(f.class))?;
        (driver != "nvidia").then_some((f.address, driver))
    });
    match other {
        Some((place, driver)) => Unusable::Foreign { place, driver },
        None => Unusable::NoDriver,
    }
}

/// The driver of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its version.
    pub version: String,
    /// Whose structs calls have: those of the version, or of one that is near.
    pub branch: Branch,
    /// Whether the structs of this very version are described.
    pub known: bool,
    /// Whether the module is the open one, if known.
    pub open: Option<bool>,
}

/// A GPU that the driver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number to open it by: GPUs in the order of their places on PCI, as `nvidia-smi` counts them.
    pub index: u32,
    /// Where it is: `0000:03:00.0`.
    pub place: String,
    /// Its device file.
    pub path: String,
    /// RM's number for it.
    pub gpu_id: u32,
    /// Its PCI IDs.
    pub device_id: u16,
    /// Why its file cannot be opened; none if it can.
    pub unusable: Option<Unusable>,
}

/// What there is of NVIDIA on a machine.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The driver, or why it cannot be used.
    pub driver: Result<Driver, Unusable>,
    /// Every GPU that it has.
    pub gpus: Vec<Found>,
}

/// Looks at a machine.
pub fn survey(machine: &dyn Machine) -> Survey {
    let looked = control(machine).and_then(|control| {
        let driver = driver(machine, &*control)?;
        let gpus = gpus(&*control, driver.branch)?;
        Ok((driver, gpus))
    });
    let (driver, mut gpus) = match looked {
        Ok((driver, gpus)) => (Ok(driver), gpus),
        Err(why) => (Err(why), Vec::new()),
    };
    for gpu in &mut gpus {
        let opened = machine.open(&gpu.path);
        gpu.unusable = opened
            .err()
            .map(|e| Unusable::of_open(machine, e, &gpu.path));
    }
    Survey { driver, gpus }
}

/// Opens the control file.
///
/// # Errors
/// [`Unusable`].
pub(super) fn control(machine: &dyn Machine) -> Result<Arc<dyn DevFile>, Unusable> {
    let opened = machine.open(CONTROL);
    opened.map_err(|e| Unusable::of_open(machine, e, CONTROL))
}

/// Asks which driver it is.
///
/// # Errors
/// [`Unusable`].
pub(super) fn driver(machine: &dyn Machine, control: &dyn DevFile) -> Result<Driver, Unusable> {
    let query = escape::RmApiVersion {
        cmd: version_check::QUERY,
        ..Default::default()
    };
    // The same in every branch.
    let asked = Argument::escape(&escape::CHECK_VERSION_STR, Branch::ALL[0], &query);
    let absent = || CallError::Absent {
        call: escape::CHECK_VERSION_STR.name.into(),
        branch: Branch::ALL[0],
    };
    let mut asked = asked.ok_or_else(absent)?;
    send(control, &mut asked)?;
    let answer = asked.answer::<escape::RmApiVersion>();
    let version = text(&answer.version_string);
    let known = Branch::of(&version);
    let Some(branch) = known.or_else(|| Branch::nearest(&version)) else {
        return Err(Unusable::OldDriver { version });
    };
    let title = machine.read(TITLE).ok();
    Ok(Driver {
        branch,
        known: known.is_some(),
        open: title.map(|title| title.contains("Open Kernel Module")),
        version,
    })
}

/// The GPUs of the driver.
///
/// # Errors
/// [`Unusable`].
pub(super) fn gpus(control: &dyn DevFile, branch: Branch) -> Result<Vec<Found>, Unusable> {
    let absent = || CallError::Absent {
        call: escape::CARD_INFO.name.into(),
        branch,
    };
    let mut cards = Argument::cards(branch, MOST_GPUS).ok_or_else(absent)?;
    send(control, &mut cards)?;
    let mut all: Vec<_> = cards.found().collect();
    let place = |card: &escape::CardInfo| {
        let pci = card.pci_info;
        (pci.domain, pci.bus, pci.slot, pci.function)
    };
    all.sort_by_key(place);
    let found = all.iter().enumerate().map(|(index, card)| {
        let (domain, bus, slot, function) = place(card);
        Found {
            index: index as u32,
            place: format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"),
            path: format!("/dev/nvidia{}", card.minor_number),
            gpu_id: card.gpu_id,
            device_id: card.pci_info.device_id,
            unusable: None,
        }
    });
    Ok(found.collect())
}
