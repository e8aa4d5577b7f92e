//! Lists the GPUs, and why each can or cannot be used. Opens files, changes nothing.

use drivers_spec::amd::kfd::{self, GetVersionArgs};
use hcq::transport::errno::{EACCES, EBUSY, ENODEV, ENOENT, ENXIO, EPERM};
use hcq::transport::{DevFile, Fault, Machine, TransportError};
use thiserror::Error;

use super::call::Call;
use super::topology::{self, Entry, Node};
use crate::chip::{CHIPS, Chip};

/// The device file of KFD.
pub const KFD: &str = "/dev/kfd";

/// The first version of the interface that has all that is used here: `AVAILABLE_MEMORY`.
/// Source: include/uapi/linux/kfd_ioctl.h, the list of versions; Linux 5.19 has 1.9.
pub const OLDEST: (u32, u32) = (1, 9);

/// Why something cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no `/dev/kfd`.
    #[error(
        "{path} does not exist: load the kernel driver (`modprobe amdgpu`); in a container, pass \
         `--device /dev/kfd --device /dev/dri`"
    )]
    NoDriver {
        /// What is missing.
        path: String,
    },
    /// A file may not be opened.
    #[error(
        "{path}: permission denied: add the user to its group (`ls -l {path}`; usually render or \
         video: `sudo usermod -aG render,video $USER`, then log in again); in a container, add \
         `--group-add` with the group's number"
    )]
    NoPermission {
        /// The file.
        path: String,
    },
    /// A device cgroup keeps this process from a device file, whatever its mode.
    #[error(
        "{path}: operation not permitted, by a device cgroup: start the container with `--device \
         {path}` (a volume is not enough), a service with `DeviceAllow={path} rw`"
    )]
    Cgroup {
        /// The file.
        path: String,
    },
    /// The node is there, but a device cgroup keeps this process from it.
    #[error(
        "node {node}: the cgroup of this process does not allow the device (container: \
         pass its render node with `--device`; scheduler: ask for this GPU)"
    )]
    Hidden {
        /// The number of the node.
        node: u32,
    },
    /// There is a driver, and no topology in sysfs.
    #[error(
        "{} does not exist, but {KFD} does: the container or sandbox lacks the host's sysfs; \
         mount it (`-v /sys:/sys:ro`)",
        topology::NODES
    )]
    NoTopology,
    /// The node cannot be read.
    #[error(
        "node {node} of the topology cannot be read: {error}; see `dmesg | grep -e amdgpu -e kfd`"
    )]
    Unreadable {
        /// The number of the node.
        node: u32,
        /// The file, and the error.
        error: TransportError,
    },
    /// The node lacks a required property.
    #[error(
        "{}/{node}/properties: expected {lacks} above 0, found none: not the kernel's sysfs, or a \
         kernel older than Linux 5.19",
        topology::NODES
    )]
    Incomplete {
        /// The number of the node.
        node: u32,
        /// The property.
        lacks: &'static str,
    },
    /// The render node does not exist.
    #[error(
        "{path} does not exist: KFD has the GPU, but its render node is missing; in a container, \
         pass `--device {path}`"
    )]
    NoRenderNode {
        /// The file.
        path: String,
    },
    /// An unsupported chip.
    #[error("{arch} is not supported; supported are {supported}")]
    Unsupported {
        /// The chip.
        arch: String,
        /// What would do.
        supported: String,
    },
    /// The kernel is too old.
    #[error(
        "the kernel has version {}.{} of the KFD interface, expected {}.{} or a later {2}.x (Linux \
         5.19 or later)", have.0, have.1, need.0, need.1
    )]
    OldKernel {
        /// What it has.
        have: (u32, u32),
        /// What it should have.
        need: (u32, u32),
    },
    /// Someone else holds it.
    #[error(
        "{path} is busy: another process has exclusive access (`sudo fuser -v {path}`), or another GPU \
         library in this process already opened it"
    )]
    Busy {
        /// The file.
        path: String,
    },
    /// The GPU has left the bus, or the driver has given it up.
    #[error("{path}: the GPU is gone: see `dmesg | grep amdgpu`; reset it or reboot")]
    Gone {
        /// The file.
        path: String,
    },
    /// Any other error of the system.
    #[error("{0}; see `dmesg | grep -e amdgpu -e kfd`")]
    Other(TransportError),
}

impl Unusable {
    /// What an error of opening or asking `path` means.
    pub fn from_error(error: TransportError, path: &str) -> Unusable {
        let path = path.to_owned();
        match error.fault {
            Fault::Errno(ENOENT) if path == KFD => Unusable::NoDriver { path },
            Fault::Errno(ENOENT) => Unusable::NoRenderNode { path },
            Fault::Errno(EPERM) => Unusable::Cgroup { path },
            Fault::Errno(EACCES) => Unusable::NoPermission { path },
            Fault::Errno(EBUSY) => Unusable::Busy { path },
            Fault::Errno(ENXIO | ENODEV) => Unusable::Gone { path },
            _ => Unusable::Other(error),
        }
    }
}

/// A node of the topology that is, or hides, a GPU.
#[derive(Clone, Debug)]
pub struct Found {
    /// The number of the node.
    pub node: u32,
    /// The index to open it by: GPUs of supported chips, usable or not, are counted from 0 in node order, which
    /// follows the kernel's discovery and is stable across boots.
    pub index: Option<u32>,
    /// Its facts; none where the node hides them.
    pub gpu: Option<Node>,
    /// The facts of its chip, if they are known here.
    pub chip: Option<&'static Chip>,
    /// Why it cannot be opened; none if it can.
    pub unusable: Option<Unusable>,
}

/// What there is of KFD on a machine.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The version of the interface, or why `/dev/kfd` cannot be used.
    pub driver: Result<(u32, u32), Unusable>,
    /// Every GPU in the topology, in node order. May be empty even with a working driver, if it found no compute GPU.
    pub gpus: Vec<Found>,
}

impl Survey {
    /// The GPUs that can be opened.
    pub fn usable(&self) -> impl Iterator<Item = &Found> {
        let driver = self.driver.is_ok();
        self.gpus
            .iter()
            .filter(move |found| driver && found.unusable.is_none())
    }
}

/// Looks at everything. Opens `/dev/kfd` and render nodes to see whether it may, and closes them.
pub fn survey(machine: &dyn Machine) -> Survey {
    look(machine, None)
}

/// The same, but that of the render nodes only that of GPU number `only` is opened: a machine may have
/// 64, and the kernel makes an address space for each that is opened.
pub(crate) fn survey_for(machine: &dyn Machine, only: u32) -> Survey {
    look(machine, Some(only))
}

fn look(machine: &dyn Machine, only: Option<u32>) -> Survey {
    let driver = driver(machine);
    let gpus = match topology::nodes(machine) {
        Ok(entries) => found(machine, entries, only),
        Err(error) => {
            let error = match error.fault {
                Fault::Errno(ENOENT) => Unusable::NoTopology,
                _ => Unusable::Other(error),
            };
            return Survey {
                driver: driver.and(Err(error)),
                gpus: Vec::new(),
            };
        }
    };
    Survey { driver, gpus }
}

fn driver(machine: &dyn Machine) -> Result<(u32, u32), Unusable> {
    let open = machine.open(KFD);
    let file = open.map_err(|e| Unusable::from_error(e, KFD))?;
    version(&*file)
}

/// The version of the interface, if it is new enough.
pub(crate) fn version(kfd: &dyn DevFile) -> Result<(u32, u32), Unusable> {
    let mut args = GetVersionArgs::default();
    kfd.call(kfd::GET_VERSION, &mut args)
        .map_err(|e| Unusable::from_error(e, KFD))?;
    let have = (args.major_version, args.minor_version);
    match have < OLDEST || have.0 != OLDEST.0 {
        true => Err(Unusable::OldKernel { have, need: OLDEST }),
        false => Ok(have),
    }
}

/// The kinds of topology entries, according to the topology and the render nodes.
fn found(machine: &dyn Machine, entries: Vec<Entry>, only: Option<u32>) -> Vec<Found> {
    let mut index = 0;
    let mut of = |entry| match entry {
        Entry::Hidden { number } => Found {
            node: number,
            index: None,
            gpu: None,
            chip: None,
            unusable: Some(Unusable::Hidden { node: number }),
        },
        Entry::Broken { number, error } => Found {
            node: number,
            index: None,
            gpu: None,
            chip: None,
            unusable: Some(Unusable::Unreadable {
                node: number,
                error,
            }),
        },
        Entry::Gpu(gpu) => {
            let chip = Chip::by_version(gpu.target_version());
            let lacks = gpu.lacks().map(|lacks| Unusable::Incomplete {
                node: gpu.number,
                lacks,
            });
            let unusable = match chip {
                _ if lacks.is_some() => lacks,
                None => Some(Unusable::Unsupported {
                    arch: gpu.arch(),
                    supported: supported(),
                }),
                Some(_) if only.is_some_and(|only| only != index) => None,
                Some(_) => {
                    let path = gpu.render();
                    let opened = machine.open(&path);
                    opened.err().map(|e| Unusable::from_error(e, &path))
                }
            };
            let numbered = chip.map(|_| {
                index += 1;
                index - 1
            });
            Found {
                node: gpu.number,
                index: numbered,
                gpu: Some(gpu),
                chip,
                unusable,
            }
        }
    };
    entries.into_iter().map(&mut of).collect()
}

/// The names of every chip that is known here.
fn supported() -> String {
    let names: Vec<_> = CHIPS.iter().map(|chip| chip.name).collect();
    names.join(", ")
}
