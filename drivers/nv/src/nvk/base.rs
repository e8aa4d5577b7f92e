//! [`Base`]: what a GPU is asked by: its file, and its objects in RM that are there for questions.

use std::sync::Arc;

use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::{class, control, escape};
use hcq::transport::{DevFile, Machine};

use super::call::{CallError, Result as Called, send};
use super::rm::{Object, Rm, number};
use super::survey::{Found, Unusable};

/// What a GPU is asked by. Its parts are freed from the top.
pub(super) struct Base {
    pub(super) subdevice: Object,
    pub(super) device: Object,
    /// Its file, registered.
    pub(super) file: Arc<dyn DevFile>,
}

impl Base {
    /// That of a GPU, in a client.
    ///
    /// # Errors
    /// [`Unusable`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        rm: &Arc<Rm>,
        found: &Found,
    ) -> Result<Base, Unusable> {
        let file = open_file(machine, rm, &found.path)?;
        let mut info = control::IdInfo {
            gpu_id: found.gpu_id,
            ..Default::default()
        };
        let ask = control::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2;
        rm.control(&ask, rm.client, &mut info)?;
        let params = class::Nv0080Alloc {
            device_id: info.device_instance,
            h_client_share: rm.client,
            ..Default::default()
        };
        let device = rm.alloc(&class::NV01_DEVICE_0, rm.client, &params)?;
        let params = class::Nv2080Alloc {
            sub_device_id: info.sub_device_instance,
        };
        let subdevice = rm.alloc(&class::NV20_SUBDEVICE_0, device.handle(), &params)?;
        Ok(Base {
            subdevice,
            device,
            file,
        })
    }
}

/// A file of a GPU that belongs to a control file.
///
/// # Errors
/// [`Unusable`].
pub(super) fn open_file(
    machine: &dyn Machine,
    rm: &Rm,
    path: &str,
) -> Result<Arc<dyn DevFile>, Unusable> {
    let file = machine.open(path);
    let file = file.map_err(|e| Unusable::of_open(machine, e, path))?;
    register(rm, &*file)?;
    Ok(file)
}

/// Makes a file belong to a control file.
///
/// # Errors
/// [`CallError`].
pub(super) fn register(rm: &Rm, file: &dyn DevFile) -> Called {
    let args = escape::RegisterFd {
        ctl_fd: number(&*rm.control)?,
    };
    let argument = Argument::escape(&escape::REGISTER_FD, rm.branch, &args);
    let mut argument = argument.ok_or_else(|| CallError::Absent {
        call: escape::REGISTER_FD.name.into(),
        branch: rm.branch,
    })?;
    send(file, &mut argument)
}
