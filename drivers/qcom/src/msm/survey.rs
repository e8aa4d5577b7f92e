//! Lists the GPUs of msm: render nodes whose driver it is. Opens files, changes nothing.

use std::sync::Arc;

use drivers_spec::amd::drm::{self, Version};
use drivers_spec::qcom::chip::{self, Chip};
use drivers_spec::qcom::msm::{self, PIPE_3D0, Param, param};
use hcq::transport::errno::ENOENT;
use hcq::transport::{DevFile, Fault, Machine, TransportError};

use crate::backend::Unusable;
use crate::backend::retry::{ioctl, ioctl_with};

/// Where render nodes are.
const FOLDER: &str = "/dev/dri";

/// What its lines in the log have.
pub(super) const LOG: &str = "msm";

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number to open it by: render nodes in the order of their numbers.
    pub index: u32,
    /// Its render node.
    pub path: String,
    /// Its chip and its id, or why it cannot be used.
    pub chip: Result<(&'static Chip, u32), Unusable>,
}

/// Looks at a machine. A node that cannot be opened is listed if sysfs says that it is one of msm.
pub fn survey(machine: &dyn Machine) -> Vec<Found> {
    let mut nodes: Vec<u32> = machine
        .list(FOLDER)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.strip_prefix("renderD")?.parse().ok())
        .collect();
    nodes.sort_unstable();
    let mut found = Vec::new();
    for node in nodes {
        let path = format!("{FOLDER}/renderD{node}");
        let chip = match machine.open(&path) {
            Ok(file) => match is_msm(&*file) {
                Ok(true) => chip_of(&*file, &path),
                Ok(false) => continue,
                Err(error) => Err(Unusable::of_open(error, &path, LOG)),
            },
            Err(error) if error.fault == Fault::Errno(ENOENT) => continue,
            Err(_) if !says_msm(machine, node) => continue,
            Err(error) => Err(Unusable::of_open(error, &path, LOG)),
        };
        found.push(Found {
            index: found.len() as u32,
            path,
            chip,
        });
    }
    found
}

/// Whether sysfs names msm as the driver of a node.
fn says_msm(machine: &dyn Machine, node: u32) -> bool {
    let text = machine.read(&format!("/sys/class/drm/renderD{node}/device/uevent"));
    let text = text.unwrap_or_default();
    text.lines()
        .any(|line| line == "DRIVER=adreno" || line.starts_with("DRIVER=msm"))
}

/// Whether a node is one of msm.
fn is_msm(file: &dyn DevFile) -> Result<bool, TransportError> {
    let mut name = [0; 16];
    let mut version = Version::default();
    ioctl_with(file, drm::VERSION, &mut version, &mut [&mut name])?;
    let length = (version.name_len as usize).min(name.len());
    Ok(name[..length].trim_ascii_end() == b"msm" || name[..length].starts_with(b"msm\0"))
}

/// The chip behind a node.
fn chip_of(file: &dyn DevFile, path: &str) -> Result<(&'static Chip, u32), Unusable> {
    let id = get(file, param::CHIP_ID).map_err(|e| Unusable::of_open(e, path, LOG))?;
    // Bits 47:32 are the speed bin.
    let id = id as u32;
    let chip = chip::find(id).map_err(|why| Unusable::Unsupported {
        path: path.into(),
        why,
    })?;
    Ok((chip, id))
}

/// Opens a node that [`survey`] has found.
pub(super) fn open(machine: &dyn Machine, path: &str) -> Result<Arc<dyn DevFile>, Unusable> {
    machine
        .open(path)
        .map_err(|e| Unusable::of_open(e, path, LOG))
}

/// Asks the GPU.
///
/// # Errors
/// The kernel's.
pub(super) fn get(file: &dyn DevFile, param: u32) -> Result<u64, TransportError> {
    let mut argument = Param {
        pipe: PIPE_3D0,
        param,
        ..Default::default()
    };
    ioctl(file, msm::MSM_GET_PARAM, &mut argument)?;
    Ok(argument.value)
}
