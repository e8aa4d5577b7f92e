//! [`Base`]: the file and RM objects used to query a GPU.

use std::sync::Arc;

use drivers_spec::nv::control;
use hcq::transport::{DevFile, Machine};

use super::ioctls::Ioctls;
use super::session::Session;
use super::survey::{Found, Unusable};
use crate::rm::device::Device;

/// What a GPU is asked by. Its parts are freed from the top.
pub(super) struct Base {
    /// RM's side of it.
    pub(super) rm: Device,
    /// Its file, registered.
    pub(super) file: Arc<dyn DevFile>,
}

impl Base {
    /// That of a GPU, in a session.
    ///
    /// # Errors
    /// [`Unusable`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        session: &Session,
        found: &Found,
    ) -> Result<Base, Unusable> {
        let file = open_file(machine, &session.files, &found.path)?;
        let mut info = control::IdInfo {
            gpu_id: found.gpu_id,
            ..Default::default()
        };
        let ask = control::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2;
        session.rm.control(&ask, &mut info)?;
        let instances = (info.device_instance, info.sub_device_instance);
        let rm = Device::new(&session.rm, instances.0, instances.1)?;
        session.files.name_device(rm.device.handle(), &found.path);
        Ok(Base { rm, file })
    }
}

/// A file of a GPU that belongs to a control file.
///
/// # Errors
/// [`Unusable`].
pub(super) fn open_file(
    machine: &dyn Machine,
    files: &Ioctls,
    path: &str,
) -> Result<Arc<dyn DevFile>, Unusable> {
    let file = machine.open(path);
    let file = file.map_err(|e| Unusable::of_open(machine, e, path))?;
    files.register(&*file)?;
    Ok(file)
}
