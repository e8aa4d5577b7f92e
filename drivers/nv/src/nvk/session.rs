//! [`Session`]: the driver's side of this process: a client of RM, an address space of UVM. It ends with the
//! last that uses it.

use std::sync::Arc;

use drivers_gpu::backend::Space;
use hcq::transport::errno::{ENODEV, ENOENT, ENXIO};
use hcq::transport::{Fault, Machine};

use super::ioctls::Ioctls;
use super::survey::{self, Unusable};
use super::uvm::{UVM, Uvm};
use crate::rm::CallError;
use crate::rm::client::Client;

/// The driver's side of this process.
pub(super) struct Session {
    /// UVM, where it maps memory. Ends before the client.
    pub(super) uvm: Option<Arc<Uvm>>,
    /// The client.
    pub(super) rm: Arc<Client>,
    /// What carries its calls.
    pub(super) files: Arc<Ioctls>,
    /// The addresses of its GPUs.
    pub(super) space: Arc<Space>,
}

impl Session {
    /// A session of a machine's driver.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn new(machine: &dyn Machine, uvm: bool) -> Result<Arc<Session>, Unusable> {
        let control = survey::control(machine)?;
        let driver = survey::driver(machine, &*control)?;
        if !driver.known {
            tracing::warn!(
                version = driver.version,
                branch = %driver.branch,
                "unknown driver branch: trying the structs of another branch"
            );
        }
        let files = Ioctls::new(control, driver.branch);
        let rm = Client::new(files.clone())?;
        let uvm = match uvm {
            true => with_uvm(machine, &files, &rm)?,
            false => None,
        };
        Ok(Arc::new(Session {
            uvm,
            rm,
            files,
            space: Arc::default(),
        }))
    }
}

/// UVM; none where its file is missing: RM maps memory then.
fn with_uvm(
    machine: &dyn Machine,
    files: &Arc<Ioctls>,
    rm: &Arc<Client>,
) -> Result<Option<Arc<Uvm>>, Unusable> {
    match Uvm::new(machine, files, rm) {
        Ok(uvm) => Ok(Some(uvm)),
        // The last two: a file without its module.
        Err(CallError::System(error))
            if error.device == UVM
                && matches!(error.fault, Fault::Errno(ENOENT | ENXIO | ENODEV)) =>
        {
            tracing::warn!(
                %error,
                "no UVM (`sudo nvidia-modprobe -c 0 -u`): RM maps memory, without peer access between GPUs"
            );
            Ok(None)
        }
        Err(CallError::System(error)) if error.device == UVM && error.operation == "open" => {
            Err(Unusable::of_open(machine, error, UVM))
        }
        Err(error) => Err(error.into()),
    }
}
