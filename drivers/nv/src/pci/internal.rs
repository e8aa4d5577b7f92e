//! [`Internal`]: controls of RM's own client, which tells a driver what it tells no other.
//!
//! Source: Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/gsp.c (`r535_gsp_set_static_info`): the handles come
//! with what RM tells first, and nothing is made.

use std::sync::Arc;

use drivers_spec::nv::abi::{Call, Struct};
use drivers_spec::nv::parameters::Parameters;

use crate::rm::transport::{CallError, Result, Transport};

/// The client of RM itself.
pub(super) struct Internal {
    transport: Arc<dyn Transport>,
    client: u32,
    subdevice: u32,
}

impl Internal {
    /// That of these handles: client, subdevice.
    pub(super) fn new(transport: Arc<dyn Transport>, (client, subdevice): (u32, u32)) -> Internal {
        Internal {
            transport,
            client,
            subdevice,
        }
    }

    /// Sends a control to the subdevice; the answer is in the parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn ask<T: Struct>(&self, call: &Call, params: &mut T) -> Result {
        let branch = self.transport.branch();
        let asked = Parameters::of(call, branch, params);
        let mut asked = asked.ok_or_else(|| CallError::Absent {
            call: call.name.into(),
            branch,
        })?;
        self.transport
            .control(self.client, self.subdevice, &mut asked)?;
        *params = asked.decode();
        Ok(())
    }
}
